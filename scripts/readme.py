"""Write the table of artifacts in README.md from the published verdicts: python scripts/readme.py [--check]"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import published
from normbench.papers.claims import FIDELITIES
from normbench.papers.table import escape

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- artifacts: written by scripts/readme.py -->", "<!-- end of artifacts -->"


MANY = 8  # claims from which on an artifact has one row with counts: its page has the claims


def table(results: Path) -> str:
    """One row per claim: the verdict at its artifact's highest published fidelity, and what it rests on."""
    lines = ["| artifact | claim | verdict | evidence |", "| --- | --- | --- | --- |"]
    for name in artifacts.ids():
        artifact = artifacts.load(name)
        # all but smoke, whose data and sizes are for tests
        places = [results / name / fidelity for fidelity in FIDELITIES[:-1]]
        path = next((p for place in places if (p := place / "verdicts.json").exists()), places[0] / "verdicts.json")
        fidelity = path.parent.name
        judged = {c["id"]: c for c in published.read_verdicts(path)["claims"]} if path.exists() else {}
        if len(artifact.claims) >= MANY and judged:
            counts = Counter(claim["verdict"] for claim in judged.values())
            told = ", ".join(f"{count} **{verdict}**" for verdict, count in counts.most_common())
            link = f"[{name}](results/{name}/{fidelity}/table.md)"
            lines.append(
                f"| {link} | {len(artifact.claims)} claims: {escape(artifact.title)} | {told} | each on its page |"
            )
            continue
        for claim in artifact.claims:
            verdict = judged.get(claim.id, {"verdict": "not run", "evidence": ""})
            link = f"[{name}](results/{name}/{fidelity}/table.md)" if judged else name
            amended = " (amended)" if any(a["claim"] == claim.id for a in artifact.amendments) else ""
            cells = [link, f"{claim.id}: {claim.statement}{amended}", f"**{verdict['verdict']}**", verdict["evidence"]]
            lines.append("| " + " | ".join([*cells[:1], escape(cells[1]), cells[2], escape(cells[3])]) + " |")
    return "\n".join(lines)


def readme(text: str, results: Path) -> str:
    """`text` with the table between the markers brought up to date."""
    before, rest = text.split(START)
    return f"{before}{START}\n{table(results)}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    text = path.read_text()
    try:
        fresh = readme(text, ROOT / "results")
    except NormbenchError as error:
        sys.exit(f"readme: {error}")
    if "--check" in sys.argv and fresh != text:
        sys.exit("README.md is stale: python scripts/readme.py")
    path.write_text(fresh)
