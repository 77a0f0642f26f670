"""The runs that claims are judged on: imported, published, own, or in a pack anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from normbench.compare import configuration
from normbench.errors import BadInput, NormbenchError, did_you_mean
from normbench.runs import imported, pack
from normbench.runs.run import Run


def load(words: Sequence[str], results: Path) -> tuple[list[Run], list[str]]:
    """The runs that these words name, each once, and lines about what could not be read.

    A word is a name that something was imported as; a published artifact and its fidelity, `ln2016/fig6/paper`; a pack,
    or its folder; or filters as of `normbench compare`, with spaces between. KEY=VALUE after another word, as a further
    one or with a space between, chooses among the runs of that word. Raises NormbenchError for a word that names
    nothing.
    """
    named: list[tuple[str, list[str]]] = []  # names with their filters
    for word in words:
        first, *filters = word.split() or [word]
        if named and not _pack(word, results) and all(map(configuration.is_filter, (first, *filters))):
            named[-1][1].extend((first, *filters))
        elif filters and _pack(first, results) and all(map(configuration.is_filter, filters)):
            named.append((first, filters))
        else:
            named.append((word, []))
    runs_by_id: dict[str, Run] = {}
    notes: list[str] = []
    for word, filters in named:
        runs, lines = _runs(word, results)
        try:
            chosen = configuration.select(filters, runs)
        except NormbenchError as error:
            raise BadInput(f"--runs {word}: {error}") from None
        if not chosen:
            raise BadInput(f"--runs {word}: no run fits {' '.join(filters)}.")
        runs_by_id |= {run.id: run for run in chosen}
        notes += lines
    return [*runs_by_id.values()], notes


def _pack(word: str, results: Path) -> Path | None:
    """The pack of a name, of an artifact or of a path; None where there is none."""
    name = word.removeprefix(f"{imported.FOLDER}/")
    if name in imported.names(results):
        return imported.place(results, name)
    path = Path(word).expanduser()
    packs = (packed for packed in (results / word / pack.NAME, path / pack.NAME, path) if packed.is_file())
    return next((packed for packed in packs if packed.name.endswith(".jsonl.gz")), None)


def _runs(word: str, results: Path) -> tuple[Sequence[Run], list[str]]:
    if not word.strip():
        raise BadInput(f"--runs '{word}' names no runs. (normbench import --list)")
    if packed := _pack(word, results):
        return pack.whole(packed).runs, []
    path = Path(word).expanduser()
    if path.exists() and (path.is_absolute() or not (results / word).exists()):
        raise BadInput(f"--runs {word}: there is no {pack.NAME}. Of logs: normbench import {word} --as NAME")
    near, notes = did_you_mean(word, imported.names(results)), list[str]()
    try:
        runs, _ = configuration.finished(word.split(), results, notes.append)
    except NormbenchError as error:
        reason = near or f" {error} Or a name of normbench import --list, or a pack."
        raise BadInput(f"--runs {word}:{' no runs have that name.' if near else ''}{reason}") from None
    if not runs:
        listing = "" if near else " (normbench import --list)"
        raise BadInput(f"--runs {word}: no finished run below {results} fits.{near}{listing}")
    return runs, notes
