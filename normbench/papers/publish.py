"""What an artifact leaves in `<paper>/<artifact>/<fidelity>/`: figure, tables, verdicts and the pack of its runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import table, verdicts
from normbench.papers.claims import Artifact
from normbench.runs import files, pack
from normbench.runs.record import RunRecord


def folder(results: Path, name: str, fidelity: str) -> Path:
    return results / name / fidelity


def judge(artifact: Artifact, runs: Sequence[RunRecord], fidelity: str, results: Path) -> dict[str, Any]:
    """Verdicts on `runs`, counting the looks of the last published ones."""
    path = folder(results, artifact.id, fidelity) / "verdicts.json"
    previous = None
    if path.exists():
        try:
            previous = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise NormbenchError(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.") from None
    return verdicts.judge(artifact, runs, fidelity, previous)


def publish(artifact: Artifact, runs: Sequence[RunRecord], fidelity: str, results: Path) -> dict[str, Any]:
    """Judge, draw and write everything that differs from what is there; returns the verdicts.

    The pack keeps what it had: n never falls. Nothing is written where nothing changed, so published results can be
    shown from a read-only place.
    """
    place = folder(results, artifact.id, fidelity)
    kept = pack.read(place / pack.NAME)
    runs = pack.merge(kept, runs)
    judged = judge(artifact, runs, fidelity, results)
    drawing = artifacts.drawing(artifact.id)
    entries = drawing.table(artifact, runs)
    texts = {
        "table.md": _page(artifact, fidelity, table.markdown(entries), judged),
        "table.csv": table.as_csv(entries),
        "verdicts.json": json.dumps(judged, indent=1, ensure_ascii=False) + "\n",
    }
    try:
        if runs != kept or not (place / "figure.svg").exists():
            pack.write(place / pack.NAME, runs)
            drawing.figure(artifact, runs, place / "figure.svg")
        for name, text in texts.items():
            if not (place / name).exists() or (place / name).read_text() != text:
                files.write_whole(place / name, text.encode())
    except OSError as error:
        raise NormbenchError(f"{place} cannot be written: {error.strerror}.") from None
    return judged


def _page(artifact: Artifact, fidelity: str, tables: str, judged: dict[str, Any]) -> str:
    """table.md: the numbers, the verdicts, the deviations and the command."""
    e = table.escape
    rows = "\n".join(
        f"| {e(c['id'])} | {e(c['statement'])} | **{e(c['verdict'])}** | {e(c['evidence'])} |" for c in judged["claims"]
    )
    deviations = "\n".join(f"- {e(text)}" for text in judged["deviations"])
    return (
        f"# {artifact.title} · {fidelity}\n\n{artifact.locator}. Means with 95 % intervals over seeds.\n\n{tables}\n"
        f"| claim | statement | verdict | evidence |\n| --- | --- | --- | --- |\n{rows}\n\n"
        f"Expected to be wrong by chance: {judged['expected_wrong']:g} of these verdicts.\n\n"
        f"Choices and deviations:\n\n{deviations}\n\nCommand: `{judged['command']}`\n"
    )
