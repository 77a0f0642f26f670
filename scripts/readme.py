"""Write README.md and results/README.md, as far as they follow: python scripts/readme.py [--check]

README.md: what readers ask first and the answers so far (normbench/papers/questions.yaml), and what has no runs.
results/README.md: how many claims have which verdict, and the table of all.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from normbench.config import FIDELITIES
from normbench.draw.tables import escape
from normbench.errors import BadInput, NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import describe, published, rules
from normbench.papers.claims import Artifact
from normbench.papers.decide import Verdict
from normbench.runs import pack

ROOT = Path(__file__).resolve().parent.parent
MARKERS = "<!-- {}: written by scripts/readme.py -->", "<!-- end of {} -->"
OURS = "Our own hypotheses"
COLUMNS = ("reproduced", "contradicted", "negligible", "in part", "undecided", "not decidable", "not run")
LESS = {
    "": "without runs",
    "reduced": "run with a smaller network or less training only",
    "proxy": "run on substitute data only",
}
QUESTIONS = Path(artifacts.HERE) / "questions.yaml"


def verdicts(artifact: Artifact, results: Path) -> dict[str, tuple[str, Verdict]]:
    """By claim the highest published fidelity that can decide it, and the claim as judged there."""
    found: dict[str, tuple[str, Verdict]] = {}
    for fidelity in reversed(fidelities(artifact.id, results)):
        for claim in published.read_verdicts(results / artifact.id / fidelity / "verdicts.json").claims:
            if claim.id not in found or claim.setting != rules.NOT_DECIDABLE:
                found[claim.id] = fidelity, claim
    return found


def fidelities(name: str, results: Path) -> list[str]:
    """Those that an artifact is published at, the highest first."""
    return [one for one in FIDELITIES[:-1] if (results / name / one / "verdicts.json").exists()]


def table(results: Path) -> str:
    """One row per claim: the verdict, and what it rests on."""
    lines = ["| artifact | claim | verdict | answer |", "| --- | --- | --- | --- |"]
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        judged = verdicts(artifact, results)
        for claim in artifact.claims:
            link, verdict, answer = name, rules.NOT_RUN, ""
            if claim.id in judged:
                fidelity, found = judged[claim.id]
                link = f"[{name}]({name}/{fidelity}/table.md)"
                verdict, answer = found.verdict, describe.evidence(found)
            amended = " (amended)" if any(a.claim == claim.id for a in artifact.amendments) else ""
            statement = escape(f"{claim.id}: {claim.statement}{amended}")
            lines.append(f"| {link} | {statement} | **{verdict}** | {escape(answer)} |")
    return "\n".join(lines)


def missing(results: Path) -> str:
    """Which artifacts have no runs so far, and which none of the paper's protocol."""
    highest = {name: next(iter(fidelities(name, results)), "") for name in artifacts.ids()}
    places = {fidelity: [name for name, own in highest.items() if own == fidelity] for fidelity in ("", *FIDELITIES)}
    parts = [f"{len(own)} {what}" for fidelity, what in LESS.items() if (own := places[fidelity])]
    below = [name for name, fidelity in highest.items() if caution(results, name, fidelity)]
    where = "those on substitute data" if below == places["proxy"] else ", ".join(below)
    warning = f" In {where}, rules that learn nothing are better than every trained network on the first measure."
    warning = warning if below else ""
    return f"Of {len(highest)} artifacts: {'; '.join(parts) or 'all run at full size, on the data'}.{warning}"


def caution(results: Path, name: str, fidelity: str) -> str:
    """What an artifact's page says first, where it warns; "" of one without runs."""
    runs = pack.read(results / name / fidelity / pack.NAME).runs if fidelity else []
    return artifacts.caution(artifacts.load(name), runs)


def findings(results: Path) -> str:
    """How many claims of each source have which verdict."""
    lines = [f"| claims of | in all | {' | '.join(COLUMNS)} |", f"|{' - |' * (len(COLUMNS) + 2)}"]
    for source, counted in counts(results).items():
        if not (total := sum(number for number, _ in counted.values())):
            continue
        cells = [f"{n} ({computed} computed)" if computed else str(n) for n, computed in map(counted.get, COLUMNS)]
        lines.append(f"| {source} | {total} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(results: Path) -> str:
    """How many claims are decided, by training or without, how many are amended, and how many may be wrong."""
    columns = counts(results).values()
    total = sum(number for source in columns for number, _ in source.values())
    reproduced, contradicted = (
        [sum(ends) for ends in zip(*(source[name] for source in columns), strict=True)]
        for name in ("reproduced", "contradicted")
    )
    loaded = [artifacts.load(name) for name in artifacts.ids()]
    amended = sum(any(a.claim == c.id for a in artifact.amendments) for artifact in loaded for c in artifact.claims)
    paths = (results / a.id / fidelity / "verdicts.json" for a in loaded for fidelity in fidelities(a.id, results))
    wrong = sum(published.read_verdicts(path).expected_wrong for path in paths)
    most = math.ceil(round(10 * wrong, 6)) / 10  # rounded up
    return (
        f"Of {total} claims {reproduced[0]} are reproduced and {contradicted[0]} are contradicted, {reproduced[1]} and "
        f"{contradicted[1]} by computation or probe; {amended} were amended; at most {most:g} verdicts are expected to "
        "be wrong by chance."
    )


def counts(results: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """By source and column, how many claims have such a verdict, and how many of these without training."""
    papers = artifacts.papers()
    sources = [paper.title.split(" (")[0] for paper in papers.values()]
    found = {source: dict.fromkeys(COLUMNS, (0, 0)) for source in (*sources, OURS)}
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        judged = verdicts(artifact, results)
        for claim in artifact.claims:
            own = found[OURS if claim.ours else artifacts.paper_of(name, papers).title.split(" (")[0]]
            column = _column(*judged[claim.id]) if claim.id in judged else rules.NOT_RUN
            number, computed = own[column]
            own[column] = number + 1, computed + claim.computed
    return found


def _column(fidelity: str, claim: Verdict) -> str:
    """`in part` where controls or the fidelity leave something open."""
    setting = claim.setting
    if setting not in rules.DECIDED:
        return "not decidable" if setting == rules.NOT_DECIDABLE else str(setting)
    if fidelity != "paper" or claim.robustness not in ("", rules.ROBUST):
        return "in part"
    return {rules.HOLDS: "reproduced", rules.OPPOSITE: "contradicted"}.get(setting, str(setting))


def questions(results: Path) -> str:
    """A row for each question that readers ask: the answer so far, and the verdicts that it rests on."""
    lines = ["| question | answer so far | how sure |", "| - | - | - |"]
    for question in yaml.safe_load(QUESTIONS.read_text()):
        pairs = [_bench(one, results) if "bench" in one else _answer(one, results) for one in question["answers"]]
        answers, sure = ("<br>".join(texts) for texts in zip(*pairs, strict=True))
        lines.append(f"| {question['ask']} | {answers} | {sure} |")
    return "\n".join(lines)


def _answer(given: Mapping[str, str], results: Path) -> tuple[str, str]:
    """What is asked, the verdict's word and number; the claim, what it leaves open, and how sure the number is."""
    name, id = given["artifact"], given["claim"]
    judged = verdicts(artifacts.load(name), results)
    if id not in judged:
        raise BadInput(f"{QUESTIONS}: {name} has no {id} with a verdict.")
    fidelity, claim = judged[id]
    number, *sure = map(escape, describe.finding(claim))
    left = [fidelity] if fidelity != "paper" else []
    left += [f"controls {claim.robustness}"] if claim.robustness not in ("", rules.ROBUST) else []
    link = f"[{id}](results/{name}/{fidelity}/table.md)"
    but = f"; but {given['but']}" if "but" in given else ""
    return f"{given['what']}: **{describe.word(claim)}**, {number}{but}", ", ".join([link, *left, *sure[:1]])


def _bench(given: Mapping[str, str], results: Path) -> tuple[str, str]:
    name = given["bench"]
    bench = json.loads((results / "bench" / f"{name}.json").read_text())
    rows = [row for row in bench["rows"] if "ratio" in row and row["case"].endswith(given["of"])]
    ratios = [f"{end(row['ratio'] for row in rows):.2f}" for end in (min, max)]
    what = ", ".join(dict.fromkeys(row["case"].split(given["of"])[0].split(",")[0] for row in rows))
    answer = given["number"].format(low=ratios[0], high=ratios[1])
    return f"{answer} ({what})", f"[measured](results/bench/{name}.md) side by side, {len(rows)} settings"


def fresh(text: str, block: str, content: str) -> str:
    """`text` with what is between the markers of this block brought up to date."""
    start, end = (marker.format(block) for marker in MARKERS)
    before, rest = text.split(start)
    return f"{before}{start}\n{content}\n{end}{rest.split(end)[1]}"


PAGES: dict[str, dict[str, Callable[[Path], str]]] = {  # page -> its blocks, and what makes each
    "README.md": {"questions": questions, "summary": summary, "missing": missing},
    "results/README.md": {"findings": findings, "verdicts": table},
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
