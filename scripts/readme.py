"""Write README.md, its picture and results/README.md, as far as they follow: python scripts/readme.py [--check]

README.md: what readers ask first and the answers so far (normbench/papers/questions.yaml), and what has no runs.
results/README.md: how many claims have which verdict, what the words mean, and the table of all.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from scorecard import scorecard

from normbench.config import FIDELITIES
from normbench.draw.tables import escape
from normbench.errors import BadInput, NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import glossary, published, rules, tally
from normbench.papers.claims import Artifact
from normbench.papers.decide import Verdict
from normbench.papers.page import ClaimText
from normbench.papers.verdicts import once
from normbench.runs import pack

ROOT = Path(__file__).resolve().parent.parent
MARKERS = "<!-- {}: written by scripts/readme.py -->", "<!-- end of {} -->"
OURS = "Our own hypotheses"
LESS = {
    "": "without runs",
    "reduced": "with a smaller network or less training only",
    "proxy": "on substitute data only",
}
WHOLE = (rules.EXACT, rules.NOTHING_OPEN, f"controls {rules.AGREE}")  # facts that leave nothing open
QUESTIONS = Path(artifacts.HERE) / "questions.yaml"
PICTURE = "docs/scorecard.svg"


def verdicts(artifact: Artifact, results: Path) -> dict[str, tuple[str, Verdict]]:
    """By claim the published fidelity that counts, and the claim as judged there."""
    paths = (results / artifact.id / fidelity / "verdicts.json" for fidelity in fidelities(artifact.id, results))
    return {id: judged for (_, id), judged in once(map(published.read_verdicts, paths)).items()}


def fidelities(name: str, results: Path) -> list[str]:
    """Those that an artifact is published at, the highest first."""
    return [fidelity for fidelity in FIDELITIES[:-1] if (results / name / fidelity / "verdicts.json").exists()]


def table(results: Path) -> str:
    """One row per claim: the verdict, and what it rests on."""
    lines = ["| artifact | claim | verdict | answer |", "| --- | --- | --- | --- |"]
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        judged = verdicts(artifact, results)
        for claim in artifact.claims:
            link, verdict, answer = name, rules.UNTESTED, ""
            if claim.id in judged:
                fidelity, claim_verdict = judged[claim.id]
                link = f"[{name}]({name}/{fidelity}/table.md)"
                verdict, answer = claim_verdict.verdict, ClaimText.of(claim_verdict).evidence
            amended = " (amended)" if any(a.claim == claim.id for a in artifact.amendments) else ""
            statement = escape(f"{claim.id}: {claim.statement}{amended}")
            lines.append(f"| {link} | {statement} | **{verdict}** | {escape(answer)} |")
    return "\n".join(lines)


def missing(results: Path) -> str:
    """Which artifacts have no runs so far, and which none of the paper's protocol."""
    highest = {name: next(iter(fidelities(name, results)), "") for name in artifacts.ids()}
    names_at = {fidelity: [name for name in highest if highest[name] == fidelity] for fidelity in ("", *FIDELITIES)}
    parts = [f"{len(names_at[fidelity])} {words}" for fidelity, words in LESS.items() if names_at[fidelity]]
    below = sum(bool(caution(results, name, fidelity)) for name, fidelity in highest.items())
    warning = f" In {below}, as their pages warn, rules that learn nothing are better than every trained network."
    warning = warning if below else ""
    return f"Of {len(highest)} artifacts: {'; '.join(parts) or 'all run at full size, on the data'}.{warning}"


def caution(results: Path, name: str, fidelity: str) -> str:
    """What an artifact's page says first, where it warns; "" of one without runs."""
    runs = pack.read(results / name / fidelity / pack.NAME).runs if fidelity else []
    return artifacts.caution(artifacts.load(name), runs)


def findings(results: Path) -> str:
    """How many claims of each source have which word, and how many of these which facts beside it."""
    lines = [f"| claims of | in all | {' | '.join(rules.WORDS)} |", f"|{' - |' * (len(rules.WORDS) + 2)}"]
    for source, claims in by_source(results).items():
        cells = []
        for word in rules.WORDS:
            group = [claim for claim in claims if claim.word == word]
            facts = ", ".join(tally.facts(group))
            cells.append(f"{len(group)}{f' ({facts})' * bool(facts)}")
        lines.append(f"| {source} | {len(claims)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(results: Path) -> str:
    """How many claims hold and fail, how sure that is, how many are amended, and how many may be wrong."""
    claims = [claim for group in by_source(results).values() for claim in group]
    loaded = [artifacts.load(name) for name in artifacts.ids()]
    planned = sum(len(artifact.claims) for artifact in loaded) - len(claims)
    more = f" {planned} more are planned." if planned else ""
    amended = sum(any(a.claim == c.id for a in artifact.amendments) for artifact in loaded for c in artifact.claims)
    paths = (results / a.id / fidelity / "verdicts.json" for a in loaded for fidelity in fidelities(a.id, results))
    wrong = sum(published.read_verdicts(path).expected_wrong for path in paths)
    most = math.ceil(round(10 * wrong, 6)) / 10  # rounded up
    return (
        f"{tally.describe(claims)}{more} {amended} were amended; at most {most:g} are expected to be wrong by chance."
    )


def by_source(results: Path) -> dict[str, list[Verdict]]:
    """The claims of each paper that have been judged, then our own, each once."""
    papers = artifacts.papers()
    sources: dict[str, list[Verdict]] = {paper.title.split(" (")[0]: [] for paper in papers.values()} | {OURS: []}
    for name in artifacts.ids():
        for _, claim in verdicts(artifacts.load(name), results).values():
            source = OURS if claim.ours else artifacts.paper_of(name, papers).title.split(" (")[0]
            sources[source].append(claim)
    return {source: claims for source, claims in sources.items() if claims}


def words(results: Path) -> str:
    """The glossary."""
    return "\n".join(f"- **{word}**: {escape(text)}" for word, text in glossary.WORDS.items())


def questions(results: Path) -> str:
    """A row for each question that readers ask, with the answers so far: word, what the runs are, number, claim."""
    lines = ["| question | answer so far |", "| - | - |"]
    for question in yaml.safe_load(QUESTIONS.read_text()):
        answers = [
            _bench(given, results) if "bench" in given else _answer(given, results) for given in question["answers"]
        ]
        lines.append(f"| {question['ask']} | {'<br>'.join(answers)} |")
    return "\n".join(lines)


def _answer(given: Mapping[str, str], results: Path) -> str:
    """The claim, its verdict, effect and interval, and a link."""
    name, id = given["artifact"], given["claim"]
    judged = verdicts(artifacts.load(name), results)
    if id not in judged:
        raise BadInput(f"{QUESTIONS}: {name} has no {id} with a verdict.")
    fidelity, claim = judged[id]
    number = ClaimText.of(claim).effect.partition(" × ")[0]  # the examples stand on its page
    word = " · ".join([f"**{claim.word}**", *(text for text in claim.verdict.split(" · ")[1:] if text not in WHOLE)])
    texts = [text for text in (word, escape(number)) if text]
    but = f"; {given['but']}" if "but" in given else ""
    return f"{given['what']}: {', '.join(texts)}{but} ([{id}](results/{name}/{fidelity}/table.md))"


def _bench(given: Mapping[str, str], results: Path) -> str:
    name = given["bench"]
    bench = json.loads((results / "bench" / f"{name}.json").read_text())
    rows = [row for row in bench["rows"] if "ratio" in row and row["case"].endswith(given["of"])]
    ratios = [f"{end(row['ratio'] for row in rows):.2f}" for end in (min, max)]
    return f"{given['number'].format(low=ratios[0], high=ratios[1])} ([{len(rows)} settings](results/bench/{name}.md))"


def fresh(text: str, block: str, content: str) -> str:
    """`text` with what is between the markers of this block brought up to date."""
    start, end = (marker.format(block) for marker in MARKERS)
    before, rest = text.split(start)
    return f"{before}{start}\n{content}\n{end}{rest.split(end)[1]}"


PAGES: dict[str, dict[str, Callable[[Path], str]]] = {  # page -> its blocks, and what makes each
    "README.md": {"questions": questions, "summary": summary, "missing": missing},
    "results/README.md": {"findings": findings, "words": words, "verdicts": table},
}


def renewed(page: str) -> str:
    """The page with every block brought up to date."""
    text = (ROOT / page).read_text()
    for block, make in PAGES[page].items():
        text = fresh(text, block, make(ROOT / "results"))
    return text


if __name__ == "__main__":
    try:
        files = {page: renewed(page) for page in PAGES} | {PICTURE: scorecard(ROOT / "results")}
    except NormbenchError as error:
        sys.exit(f"readme: {error}")
    for name, text in files.items():
        path = ROOT / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{name} is stale: python scripts/readme.py")
