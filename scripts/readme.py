"""Write what README.md and results/README.md say of the published verdicts: python scripts/readme.py [--check]

README.md: what has no runs so far, how many claims have which verdict, and a few findings. results/README.md: the table
of all verdicts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from normbench.config import FIDELITIES, compose, plan
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import published
from normbench.papers.claims import Artifact
from normbench.papers.table import escape

ROOT = Path(__file__).resolve().parent.parent
MARKERS = "<!-- {}: written by scripts/readme.py -->", "<!-- end of {} -->"
MANY = 8  # claims from which on an artifact has one row with counts: its page has the claims
SO_FAR = {"holds": "hold", "opposite": "the opposite", "negligible": "negligible"}
LESS = {  # of one, of several
    "": ("has no runs", "have no runs"),
    "reduced": ("has only smaller ones", "have only smaller ones"),
    "proxy": ("has only ones on other data", "have only ones on other data"),
}
FINDINGS = (  # what the first page tells; every word and number is of the verdict as it is published
    ("ln2016/table2", "LN-A3"),
    ("ln2016/recall", "LN-H4"),
    ("bln2022/fig4", "BLN-2"),
    ("bln2022/ablation", "BLN-18"),
    ("ln2016/dynamics", "LN-H1"),
    ("ln2016/fig6", "LN-F1"),
)


def verdicts(artifact: Artifact, results: Path) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """An artifact's highest published fidelity, and its claims there as judged, by id; none where it has no runs."""
    places = [results / artifact.id / fidelity for fidelity in FIDELITIES[:-1]]
    path = next((p for place in places if (p := place / "verdicts.json").exists()), None)
    if path is None:
        return "", {}
    return path.parent.name, {claim["id"]: claim for claim in published.read_verdicts(path)["claims"]}


def table(results: Path) -> str:
    """One row per claim: the verdict at its artifact's highest published fidelity, and what it rests on."""
    lines = ["| artifact | claim | verdict | evidence |", "| --- | --- | --- | --- |"]
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        fidelity, judged = verdicts(artifact, results)
        link = f"[{name}]({name}/{fidelity}/table.md)" if judged else name
        if len(artifact.claims) >= MANY and judged:
            counts = Counter(claim["verdict"] for claim in judged.values())
            told = ", ".join(f"{count} **{verdict}**" for verdict, count in counts.most_common())
            lines.append(
                f"| {link} | {len(artifact.claims)} claims: {escape(artifact.title)} | {told} | each on its page |"
            )
            continue
        for claim in artifact.claims:
            verdict = judged.get(claim.id, {"verdict": "not run", "evidence": ""})
            amended = " (amended)" if any(a["claim"] == claim.id for a in artifact.amendments) else ""
            statement, evidence = escape(f"{claim.id}: {claim.statement}{amended}"), escape(verdict["evidence"])
            lines.append(f"| {link} | {statement} | **{verdict['verdict']}** | {evidence} |")
    return "\n".join(lines)


def missing(results: Path) -> str:
    """Which artifacts have no runs so far, and which none of the paper's protocol."""
    highest = {name: verdicts(artifacts.load(name), results)[0] for name in artifacts.ids()}
    places = {fidelity: [name for name, own in highest.items() if own == fidelity] for fidelity in ("", *FIDELITIES)}
    told = [
        f"{len(places[fidelity])} {what[len(places[fidelity]) > 1]} ({', '.join(places[fidelity])})"
        for fidelity, what in LESS.items()
        if places[fidelity]
    ]
    return f"Of {len(highest)} artifacts, {'; '.join(told) or 'all have runs of the full size on the data'}."


def findings(results: Path) -> str:
    """How many claims there are of each verdict, and a line for each of the chosen ones, with its deciding number."""
    counts: Counter[str] = Counter()
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        fidelity, judged = verdicts(artifact, results)
        words = (judged[c.id]["verdict"] if c.id in judged else "not run" for c in artifact.claims)
        counts.update(_in_short(word, fidelity) for word in words)
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return "\n".join([f"Of {counts.total()} claims: {told}. Some of them:", "", *_lines(results)])


def _in_short(verdict: str, fidelity: str) -> str:
    """A verdict without its fidelity, share of parts and controls; `so far` where these leave something open."""
    setting = verdict.split(" at the paper's setting")[0]
    word = setting.split(" (")[0]
    return f"{SO_FAR[word]} so far" if word in SO_FAR and (setting != verdict or fidelity != "paper") else word


def _lines(results: Path) -> Iterator[str]:
    for name, id in FINDINGS:
        artifact = artifacts.load(name)
        fidelity, judged = verdicts(artifact, results)
        claim = judged[id]
        stand_in = ""
        if fidelity != "paper":
            data = compose.choice("data", plan.data_name(artifact.experiment, fidelity))["declares"]["title"]
            stand_in = f", on other data than the paper's: {data}"
        pieces = claim["evidence"].split("; ")
        first = 2 if " parts hold" in pieces[0] else 1
        controls = (piece for piece in pieces[first:] if " under " in piece and not piece.startswith("not run"))
        evidence = "; ".join([*pieces[:first], *controls])
        statement = escape(f"{claim['statement']}{stand_in}. Evidence: {evidence}")
        place = f"results/{name}/{fidelity}/table.md"
        yield f"- **{claim['verdict']}**, [{id}]({place}): {statement}."


def fresh(text: str, block: str, content: str) -> str:
    """`text` with what is between the markers of this block brought up to date."""
    start, end = (marker.format(block) for marker in MARKERS)
    before, rest = text.split(start)
    return f"{before}{start}\n{content}\n{end}{rest.split(end)[1]}"


PAGES: dict[str, dict[str, Callable[[Path], str]]] = {  # page -> its blocks, and what makes each
    "README.md": {"missing": missing, "findings": findings},
    "results/README.md": {"verdicts": table},
}


if __name__ == "__main__":
    for page, blocks in PAGES.items():
        new = text = (ROOT / page).read_text()
        try:
            for block, make in blocks.items():
                new = fresh(new, block, make(ROOT / "results"))
        except NormbenchError as error:
            sys.exit(f"readme: {error}")
        if "--check" not in sys.argv:
            (ROOT / page).write_text(new)
        elif new != text:
            sys.exit(f"{page} is stale: python scripts/readme.py")
