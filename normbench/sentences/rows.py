"""A row for each sentence of a set, checked: from a function that encodes, or from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import files
from normbench.errors import NormbenchError
from normbench.sentences.sets import STEMS, Labelled

SHOWN = 40  # characters of a sentence in an error


def encoded(encode: Callable[[list[str], bool], Any], given: Labelled, of: str) -> Any:
    """The rows that `encode` gives the set's sentences, zeros for the empty ones; NormbenchError if they do not fit."""
    told = given.all
    kept = [place for place, sentence in enumerate(told) if sentence]
    found = checked(encode([told[place] for place in kept], given.eos), [told[place] for place in kept], of, given.name)
    if len(kept) == len(told):
        return found
    if isinstance(found, np.ndarray):
        whole = np.zeros((len(told), found.shape[1]), found.dtype)
        whole[kept] = found
        return whole
    from scipy import sparse

    return sparse.csr_array((np.ones(len(kept)), (kept, range(len(kept)))), (len(told), len(kept))) @ found


class Files:
    """Vectors in a folder: `mr.npy`, or `sick_train_a.npy` and so on, a row for each line of the file of sentences."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [name for name, stems in STEMS.items() if any(self._path(stem).exists() for stem in stems)]
        if not self.names:
            raise NormbenchError(
                f"{files.shown(folder)} holds none of {', '.join(f'{name}.npy' for name in STEMS)} "
                "(sick_train_a.npy and so on). Sentences to encode: normbench embed-eval --write-sentences DIR"
            )
        for name in self.names:
            if missing := [stem for stem in STEMS[name] if not self._path(stem).exists()]:
                raise NormbenchError(f"{files.shown(self._path(missing[0]))} is missing: {name} takes "
                                     f"{', '.join(f'{stem}.npy' for stem in STEMS[name])}.")  # fmt: skip

    def __call__(self, given: Labelled) -> np.ndarray:
        """The set's rows; those of empty sentences are zeros, whatever stands there."""
        found = []
        for stem, told in given.sentences.items():
            path = self._path(stem)
            rows = _read(path)
            if rows.ndim == 2 and len(rows) == len(told):
                rows[[place for place, sentence in enumerate(told) if not sentence]] = 0
            found.append(checked(rows, told, files.shown(path), f"{stem}.txt"))
        sizes = {rows.shape[1] for rows in found}
        if len(sizes) > 1:
            raise NormbenchError(f"{files.shown(self.folder)}: the vectors of {given.name} have different lengths: "
                                 f"{', '.join(map(str, sorted(sizes)))}.")  # fmt: skip
        return np.concatenate(found)

    def _path(self, stem: str) -> Path:
        return self.folder / f"{stem}.npy"


def _read(path: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        reason = "it holds objects" if "Object arrays" in str(error) else "it is no array of numpy's (np.save)"
        raise NormbenchError(f"{files.shown(path)} cannot be read: {reason}.") from None
    if not isinstance(found, np.ndarray):  # an .npz of that name
        raise NormbenchError(f"{files.shown(path)} cannot be read: it holds several arrays.")
    return found


def checked(found: Any, told: list[str], of: str, where: str) -> Any:
    """The rows as finite numbers, one for each of the sentences `told`, an array or a scipy.sparse matrix.

    `of` and `where` say in errors whose they are, and of which sentences.
    """
    if hasattr(found, "detach"):  # a tensor, wherever it is
        found = found.detach().cpu().numpy()
    is_sparse = hasattr(found, "tocsr")
    if not is_sparse:
        try:
            found = np.asarray(found)
        except ValueError:
            raise NormbenchError(f"{of}: the vectors of {where} have different lengths.") from None
    if found.dtype.kind not in "fiu":
        raise NormbenchError(f"{of}: the vectors of {where} are of type {found.dtype}, not numbers.")
    if found.ndim != 2 or not found.shape[1]:
        raise NormbenchError(f"{of}: the vectors of {where} have the shape {found.shape} instead of "
                             f"({len(told)}, numbers).")  # fmt: skip
    if found.shape[0] != len(told):
        raise NormbenchError(f"{of}: {found.shape[0]} vectors for the {len(told)} sentences of {where}. A sentence "
                             "ends at a line feed alone, and empty ones count in a file.")  # fmt: skip
    values = found.data if is_sparse else found
    if not np.isfinite(values).all():
        if is_sparse:
            raise NormbenchError(f"{of}: the vectors of {where} hold NaN or Inf.")
        row = int(np.flatnonzero(~np.isfinite(found).all(1))[0])
        raise NormbenchError(f"{of}: the vector of {where}, row {row} ('{told[row][:SHOWN]}') holds NaN or Inf.")
    return found.tocsr() if is_sparse else found
