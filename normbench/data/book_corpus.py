"""BookCorpus (Zhu et al. 2015), from a user's own files or hub cache: its authors do not hand it out any more."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, array_cache, books, check, content, files, hub, triples
from normbench.data.array_cache import Arrays
from normbench.errors import NormbenchError

FEWEST_BOOKS, BLOCK = 10, 10_000  # with fewer files, so many sentences count as a book
DEVIATIONS = (
    "BookCorpus: its authors do not hand it out any more and no checksum of it is known; the sum here is of the text "
    "that was read",
    "BookCorpus: books are held out for validation and test (the code has none); a triple is of one book",
)


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Triples from text files of a sentence a line below `root`, a file a book, or from the hub's set at `source`.

    Of fewer than ten files, and of the hub's rows, every 10 000 sentences count as a book. Books are held out as in
    `books`. Nothing depends on the seed. The triples are cached under the files' names, sizes and times. NormbenchError
    when there are no files, or one cannot be read.
    """
    check(config, root)
    options = {key: int(config[key]) for key in ("words", "length")}
    paths = hub.parts(config, root)["train"] if config["source"] else _listed(config, root)
    stamps = [(str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    key = content.checksum([stamps, int(config["declares"]["maths"]), options, triples.FORM])[:32]

    arrays, notes = array_cache.arrays(
        files.cache("book_corpus") / f"{key}.npz",
        lambda: _build(paths, bool(config["source"]), **options),
        "BookCorpus is read anew for every process.",
    )
    copy = {"sha256": str(arrays["sha256"]), "deviations": list(DEVIATIONS)}
    return Dataset(
        str(config["name"]),
        triples.splits(arrays, config["declares"]["sizes"], str(config["filter"])),
        notes,
        copy,
        arrays["words"].tolist(),
        tasks=lambda: triples.real_tasks(config, root),
    )


def _listed(config: Mapping[str, Any], root: Path) -> list[Path]:
    ((name, ending),) = files.folders(config).items()
    return sorted((path for path, _ in files.listed(files.find(root, name, Path.is_dir), ending)), key=files.by_number)


def _build(paths: list[Path], of_hub: bool, words: int, length: int) -> Arrays:
    sums = hashlib.sha256()
    titles, read = _books(paths) if not of_hub and len(paths) >= FEWEST_BOOKS else _blocks(paths, of_hub)
    if len(titles) < FEWEST_BOOKS:
        raise NormbenchError(
            f"{files.as_text(paths[0].parent)} has {len(titles)} times {BLOCK} sentences in {len(paths)} files: at "
            f"least {FEWEST_BOOKS} books, or as many times so many sentences, are needed to hold some out."
        )

    def sentences(title: str) -> Iterator[str]:
        for line in read(title):
            sums.update(f"{line.strip()}\n".encode())
            yield line

    belongs = {title: part for part, own in books.parts(titles).items() for title in own}
    arrays = triples.made(titles, sentences, belongs, words, length)
    return arrays | {"sha256": np.array(sums.hexdigest())}


def _books(paths: list[Path]) -> tuple[list[str], Callable[[str], Iterable[str]]]:
    """Titles of the books, a file each, and a function that reads one."""
    found = {path.name: path for path in paths}
    return list(found), lambda title: _lines([found[title]])


def _blocks(paths: list[Path], of_hub: bool) -> tuple[list[str], Callable[[str], Iterable[str]]]:
    """The same for blocks, which are read in order; the last one also has the rest."""
    lines: Iterable[str] = hub.texts(paths, "text") if of_hub else _lines(paths)
    count = (len(lines) if isinstance(lines, list) else sum(1 for _ in _lines(paths))) // BLOCK
    rest, titles = iter(lines), [f"block {place + 1}" for place in range(count)]
    return titles, lambda title: itertools.islice(rest, None if title == titles[-1] else BLOCK)


def _lines(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            with path.open(encoding="utf-8-sig") as file:
                yield from file
        except UnicodeDecodeError:
            raise NormbenchError(f"{files.as_text(path)} is not UTF-8. Convert it, or take it away.") from None
        except OSError as error:
            raise NormbenchError(f"{files.as_text(path)} cannot be read: {error.strerror or error}.") from None
