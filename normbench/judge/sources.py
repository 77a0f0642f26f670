"""The runs that claims are judged on: imported, published, own, or in a pack anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from normbench.errors import NormbenchError, unknown
from normbench.runs import imported, pack
from normbench.runs.record import RunRecord


def load(words: Sequence[str], results: Path) -> tuple[list[RunRecord], list[str]]:
    """The runs that these words name, each once, and lines about what could not be read.

    A word is a name that something was imported as; a pack, or its folder; or filters as of `normbench compare`, with
    spaces between: `ln2016/fig6 fidelity=paper`. Raises NormbenchError for a word that names nothing.
    """
    found: dict[str, RunRecord] = {}
    notes: list[str] = []
    for word in words:
        runs, lines = _named(word, results)
        found |= {run.id: run for run in runs}
        notes += lines
    return [*found.values()], notes


def _named(word: str, results: Path) -> tuple[Sequence[RunRecord], list[str]]:
    names, name = imported.names(results), word.removeprefix(f"{imported.FOLDER}/")
    if name in names:
        return pack.load(imported.place(results, name)).runs, []
    path = Path(word).expanduser()
    path = path / pack.NAME if path.is_dir() else path
    if path.is_file():
        return pack.load(path).runs, []
    if Path(word).exists() and not (results / word).exists():
        raise NormbenchError(f"--runs {word}: there is no {pack.NAME}. Of logs: normbench import {word} --as NAME")
    from normbench.compare import configuration
    from normbench.runs import table

    runs, notes = table.finished(results, lambda heads: configuration.select(word.split(), heads))
    if not runs:
        raise unknown(f"--runs {word}: no finished run below {results} fits.", word, names, "normbench import --list")
    return runs, notes
