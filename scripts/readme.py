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
from normbench.runs import pack

ROOT = Path(__file__).resolve().parent.parent
MARKERS = "<!-- {}: written by scripts/readme.py -->", "<!-- end of {} -->"
MANY = 8  # claims from which on an artifact has one row with counts: its page has the claims
OURS = "Our own hypotheses"
COLUMNS = {"reproduced": "reproduced", "supported": "reproduced", "contradicted": "contradicted",
           "refuted": "contradicted", "negligible": "negligible", "in part": "in part", "undecided": "undecided",
           "not decidable": "not decidable", "not run": "not run"}  # fmt: skip
IN_PART = ("holds", "opposite", "negligible")
LESS = {
    "": "without runs",
    "reduced": "run with a smaller network or less training only",
    "proxy": "run on substitute data only",
}
FINDINGS = (  # what the first page tells; every word and number is of the verdict as it is published
    ("ln2016/table2", "LN-A3"),
    ("ln2016/recall", "LN-H4"),
    ("bln2022/fig4", "BLN-2"),
    ("bln2022/ablation", "BLN-5"),
    ("bln2022/ablation", "BLN-19"),
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
    told = [f"{len(own)} {what} ({', '.join(own)})" for fidelity, what in LESS.items() if (own := places[fidelity])]
    below = [name for name, fidelity in highest.items() if caution(results, name, fidelity)]
    where = "all of these" if below == places["proxy"] else ", ".join(below)
    warning = f" Trained networks stay below rules that learn nothing in {where}." if below else ""
    return f"Of {len(highest)} artifacts: {'; '.join(told) or 'all run at full size, on the data'}.{warning}"


def caution(results: Path, name: str, fidelity: str) -> str:
    """What an artifact's page says first, where it warns; "" of one without runs."""
    runs = pack.load(results / name / fidelity / pack.NAME).runs if fidelity else []
    return artifacts.caution(artifacts.load(name), runs)


def findings(results: Path) -> str:
    """How many claims of each source have which verdict, and a line for each of the chosen ones with its number."""
    columns = list(dict.fromkeys(COLUMNS.values()))
    lines = [f"| claims of | in all | {' | '.join(columns)} |", f"|{' - |' * (len(columns) + 2)}"]
    for source, counted in counts(results).items():
        total = sum(number for number, _ in counted.values())
        cells = [f"{number} ({exact} exact)" if exact else str(number) for number, exact in map(counted.get, columns)]
        lines.append(f"| {source} | {total} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_lines(results)])


def counts(results: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """By source and column, how many claims have such a verdict, and how many of these are exact ones."""
    papers = artifacts.papers()
    sources = [paper.title.split(" (")[0] for paper in papers.values()]
    found = {source: dict.fromkeys(COLUMNS.values(), (0, 0)) for source in (*sources, OURS)}
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        fidelity, judged = verdicts(artifact, results)
        for claim in artifact.claims:
            own = found[OURS if claim.ours else artifacts.paper_of(name, papers).title.split(" (")[0]]
            column = COLUMNS[_in_short(judged[claim.id]["verdict"] if claim.id in judged else "not run", fidelity)]
            number, exact = own[column]
            own[column] = number + 1, exact + (claim.kind == "exact")
    return found


def _in_short(verdict: str, fidelity: str) -> str:
    """A verdict without its fidelity, share of parts and controls; `in part` where these leave something open."""
    setting = verdict.split(" at the paper's setting")[0]
    word = setting.split(" (")[0].removesuffix(" here")
    return "in part" if word in IN_PART and (setting != verdict or fidelity != "paper") else word


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
        warning = f" {told}" if (told := caution(results, name, fidelity)) else ""
        statement = escape(f"{claim['statement']}{stand_in}.{warning} Evidence: {evidence}")
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
