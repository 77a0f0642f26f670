"""The labelled sentences that vectors are tried on, as their files have them: MR, CR, SUBJ, MPQA, and SICK's pairs.

Four rows of CR and three of MPQA have no text. They stay, so that the sets are whole; the vector of an empty sentence
is zeros for every encoder, and no encoder gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normbench.config import compose
from normbench.data import files
from normbench.errors import BadInput

CLASSIFIED = ("mr", "cr", "subj", "mpqa")
PAIRED = "sick"
ALL = (PAIRED, *CLASSIFIED)
SICK_PARTS = ("train", "trial", "test")
SENTENCES, SCORE = ("sentence_A", "sentence_B"), "relatedness_score"


@dataclass(frozen=True)
class Labelled:
    """A set's sentences: of `mr` for example all together; of SICK by part and side, `train_a`, `train_b` ..."""

    name: str
    sentences: Mapping[str, list[str]]
    targets: Mapping[str, np.ndarray]  # labels 0 and 1 of the set, or scores 1 to 5 by part of SICK

    @property
    def all(self) -> list[str]:
        """All its sentences, one after the other."""
        return [sentence for texts in self.sentences.values() for sentence in texts]

    @property
    def eos(self) -> bool:
        """Whether an end of sentence belongs to each: of SICK alone (skip-thoughts' code)."""
        return self.name == PAIRED


def read(name: str, folder: Path) -> Labelled:
    """The set of that name below the data folder, whose files were checked or made up."""
    config = compose.choice("data", PAIRED if name == PAIRED else "sentence_eval")
    paths = files.paths(config, folder)
    if name != PAIRED:
        path = paths[CLASSIFIED.index(name)]
        labels, sentences = _lines(path) if path.suffix == ".all" else _columns(path, "label", "text")
        return Labelled(name, {name: sentences}, {name: np.array(labels, np.int64)})
    sides: dict[str, list[str]] = {}
    scores = {}
    for part, path in zip(SICK_PARTS, paths, strict=True):
        relatedness, sides[f"{part}_a"], sides[f"{part}_b"] = _columns(path, SCORE, *SENTENCES)
        scores[part] = np.array(relatedness, np.float64)
    return Labelled(name, sides, scores)


def _lines(path: Path) -> list[list[str]]:
    """Labels and texts of a public file: a label, a blank and a text a line, in Latin-1."""
    rows = [line.partition(" ") for line in path.read_bytes().decode("latin-1").split("\n")[:-1]]
    return [[label for label, _, _ in rows], [text.strip() for _, _, text in rows]]


def _columns(path: Path, *names: str) -> list[list[str]]:
    """Columns of a tab-separated file with a header; a line ends at a line feed alone, for texts hold U+0085."""
    header, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n"))
    places = [header.index(name) for name in names]
    return [[row[place] for row in rows] for place in places]


class NotFinite(BadInput):
    """Vectors that hold NaN or Inf, or are so long that what is computed of them would."""


def encoded(encode: Callable[[list[str], bool], Any], labelled: Labelled, of: str) -> Any:
    """The rows (N, D) that `encode` gives the set's sentences, an array or a scipy.sparse matrix; zeros for empty ones.

    `of` says in errors whose they are.
    """
    sentences = labelled.all
    filled = [row for row, sentence in enumerate(sentences) if sentence]
    vectors = encode([sentences[row] for row in filled], labelled.eos)
    if len(vectors.shape) != 2 or vectors.shape[0] != len(filled):
        raise ValueError(f"{of}: vectors {tuple(vectors.shape)} for {len(filled)} sentences of {labelled.name}")
    if vectors.dtype not in (np.float32, np.float64):  # |u - v| of bytes and halves does not fit into these
        vectors = vectors.astype(np.float64)
    if not np.isfinite(vectors if isinstance(vectors, np.ndarray) else vectors.data).all():
        raise NotFinite(f"{of}: the vectors of {labelled.name} hold NaN or Inf.")
    if len(filled) == len(sentences):
        return vectors
    if isinstance(vectors, np.ndarray):
        rows = np.zeros((len(sentences), vectors.shape[1]), vectors.dtype)
        rows[filled] = vectors
        return rows
    from scipy import sparse

    place = sparse.csr_array((np.ones(len(filled)), (filled, range(len(filled)))), (len(sentences), len(filled)))
    return place @ vectors
