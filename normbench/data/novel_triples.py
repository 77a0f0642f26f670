"""Triples of neighbouring sentences from English novels, in the place of BookCorpus; novels held out as in `books`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench.data import Dataset, array_cache, books, check, content, files, made_of, triples


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Triples from the novels of data=books below `root`; NormbenchError when these are missing or damaged.

    `triples` of those of the training novels, and as many as declared of the other novels', are used, spread evenly.
    Nothing depends on the seed. They are cached.
    """
    check(config, root)
    (path,) = files.paths(made_of(config), root)
    options = {key: int(config[key]) for key in ("words", "length")}
    found = files.digest(path, "sha256")
    key = content.checksum([found, int(config["declares"]["maths"]), options, triples.FORM])[:32]

    def make() -> array_cache.Arrays:
        sentences = dict(books.sentences(path))
        belongs = {title: part for part, titles in books.parts(list(sentences)).items() for title in titles}
        return triples.made(list(sentences), sentences.pop, belongs, **options)

    arrays, notes = array_cache.arrays(
        files.cache("novel_triples") / f"{key}.npz", make, "The triples are made anew for every process."
    )
    counts = {"train": int(config["triples"]), **config["declares"]["sizes"]}
    copy = {"sha256": found, "deviations": []}
    return Dataset(
        str(config["name"]),
        triples.splits(arrays, counts, str(config["filter"])),
        notes,
        copy,
        arrays["words"].tolist(),
        tasks=lambda: triples.real_tasks(config, root),
    )
