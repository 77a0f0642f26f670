"""The labelled sentences that vectors are tried on, as their files have them: MR, CR, SUBJ, MPQA, and SICK's pairs.

Four rows of CR and three of MPQA have no text. They stay, so that the sets are whole; the vector of an empty sentence
is zeros for every encoder, and no encoder gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normbench import data
from normbench.config import compose
from normbench.data import files
from normbench.errors import NormbenchError, unknown

CLASSIFIED = ("mr", "cr", "subj", "mpqa")
PAIRED = "sick"
ALL = (PAIRED, *CLASSIFIED)
SICK_PARTS = ("train", "trial", "test")
SENTENCES, SCORE = ("sentence_A", "sentence_B"), "relatedness_score"
# the files of each set's sentences, and of their vectors, without their endings
STEMS = {
    PAIRED: tuple(f"{PAIRED}_{part}_{side}" for part in SICK_PARTS for side in "ab"),
    **{name: (name,) for name in CLASSIFIED},
}


@dataclass(frozen=True)
class Labelled:
    """A set's sentences by the stem of the file in which others find them: `mr`; `sick_train_a`, `sick_train_b` ..."""

    name: str
    sentences: Mapping[str, list[str]]
    targets: Mapping[str, np.ndarray]  # labels 0 and 1 of the one file, or scores 1 to 5 by part of SICK

    @property
    def all(self) -> list[str]:
        """The sentences of its files, one after the other."""
        return [sentence for texts in self.sentences.values() for sentence in texts]

    @property
    def eos(self) -> bool:
        """Whether an end of sentence belongs to each: of SICK alone (skip-thoughts' code)."""
        return self.name == PAIRED


def read(name: str, folder: Path) -> Labelled:
    """The set of that name below the data folder. NormbenchError for another name, a missing or damaged file."""
    data.check(_declared(name), folder)
    return unchecked(name, folder)


def unchecked(name: str, folder: Path) -> Labelled:
    """The same of files that need not be the declared ones: made up, or checked before."""
    config = _declared(name)
    paths = {Path(path).stem: files.find(folder, path) for path in files.declared(config)}
    if name != PAIRED:
        labels, sentences = _columns(paths[name], "label", "text")
        return Labelled(name, {name: sentences}, {name: np.array(labels, np.int64)})
    sides: list[list[str]] = []
    scores = {}
    for part in SICK_PARTS:
        given, *pair = _columns(paths[f"{name}_{part}"], SCORE, *SENTENCES)
        sides += pair
        scores[part] = np.array(given, np.float64)
    return Labelled(name, dict(zip(STEMS[name], sides, strict=True)), scores)


def _declared(name: str) -> compose.Config:
    if name not in ALL:
        raise unknown(f"{name} is not a set of labelled sentences.", name, ALL)
    return compose.choice("data", PAIRED if name == PAIRED else "sentence_eval")


def _columns(path: Path, *names: str) -> list[list[str]]:
    """Columns of a tab-separated file with a header; a line ends at a line feed alone, for texts hold U+0085."""
    header, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n"))
    if missing := [name for name in names if name not in header]:
        raise NormbenchError(f"{files.as_text(path)} has no column {missing[0]}.")
    places = [header.index(name) for name in names]
    return [[row[place] for row in rows] for place in places]
