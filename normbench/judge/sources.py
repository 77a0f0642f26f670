"""The runs that claims are judged on: imported, published, own, or in a pack anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from normbench.errors import NormbenchError, unknown
from normbench.runs import imported, pack
from normbench.runs.record import RunRecord


def load(words: Sequence[str], results: Path) -> tuple[list[RunRecord], list[str]]:
    """The runs that these words name, each once, and lines about what could not be read.

    A word is a name that something was imported as; a published artifact and its fidelity, `ln2016/fig6/paper`; a pack,
    or its folder; or filters as of `normbench compare`, with spaces between. Raises NormbenchError for a word that
    names nothing.
    """
    found: dict[str, RunRecord] = {}
    notes: list[str] = []
    for word in words:
        runs, lines = _named(word, results)
        found |= {run.id: run for run in runs}
        notes += lines
    return [*found.values()], notes


def _named(word: str, results: Path) -> tuple[Sequence[RunRecord], list[str]]:
    if not word.strip():
        raise NormbenchError(f"--runs '{word}' names no runs. (normbench import --list)")
    names, name = imported.names(results), word.removeprefix(f"{imported.FOLDER}/")
    if name in names:
        return pack.load(imported.place(results, name)).runs, []
    path = Path(word).expanduser()
    for packed in (results / word / pack.NAME, path / pack.NAME, path):
        if packed.is_file() and packed.name.endswith(".jsonl.gz"):
            return pack.load(packed).runs, []
    if path.exists() and (path.is_absolute() or not (results / word).exists()):
        raise NormbenchError(f"--runs {word}: there is no {pack.NAME}. Of logs: normbench import {word} --as NAME")
    from normbench.compare import configuration
    from normbench.runs import table

    try:
        runs, notes = table.finished(results, lambda heads: configuration.select(word.split(), heads))
    except NormbenchError as error:
        raise NormbenchError(f"--runs {word}: {error} Or a name of normbench import --list, or a pack.") from None
    if not runs:
        raise unknown(f"--runs {word}: no finished run below {results} fits.", word, names, "normbench import --list")
    return runs, notes
