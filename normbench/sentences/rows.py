"""A row for each sentence of a set, checked: from a function that encodes, or from files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from normbench import reading
from normbench.data import files
from normbench.errors import NormbenchError
from normbench.sentences.sets import STEMS, Labelled

EXCERPT = 40  # characters of a sentence in an error
DEFAULT = (np.float32, np.float64)  # types for computing; all others become the latter


class NotFinite(NormbenchError):
    """Vectors that hold NaN or Inf, or are so long that what is computed of them would."""


def encoded(encode: Callable[[list[str], bool], Any], given: Labelled, of: str) -> Any:
    """The rows that `encode` gives the set's sentences, zeros for the empty ones; NormbenchError if they do not fit."""
    sentences = given.all
    filled = [place for place, sentence in enumerate(sentences) if sentence]
    found = checked(
        encode([sentences[place] for place in filled], given.eos),
        [sentences[place] for place in filled],
        of,
        given.name,
    )
    if len(filled) == len(sentences):
        return found
    if isinstance(found, np.ndarray):
        whole = np.zeros((len(sentences), found.shape[1]), found.dtype)
        whole[filled] = found
        return whole
    from scipy import sparse

    return sparse.csr_array((np.ones(len(filled)), (filled, range(len(filled)))), (len(sentences), len(filled))) @ found


class Files:
    """Vectors in a folder: `mr.npy`, or `sick_train_a.npy` and so on, a row for each line of the file of sentences."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [name for name, stems in STEMS.items() if any(self._path(stem).exists() for stem in stems)]
        if not self.names:
            raise NormbenchError(
                f"{files.as_text(folder)} holds none of {', '.join(f'{name}.npy' for name in STEMS)} "
                "(sick_train_a.npy and so on). Sentences to encode: normbench embed-eval --write-sentences DIR"
            )
        for name in self.names:
            if missing := [stem for stem in STEMS[name] if not self._path(stem).exists()]:
                raise NormbenchError(f"{files.as_text(self._path(missing[0]))} is missing: {name} takes "
                                     f"{', '.join(f'{stem}.npy' for stem in STEMS[name])}.")  # fmt: skip

    def __call__(self, given: Labelled) -> np.ndarray:
        """The set's rows; those of empty sentences are zeros, whatever stands there."""
        found = []
        for stem, sentences in given.sentences.items():
            path = self._path(stem)
            rows = _read(path, sentences, f"{stem}.txt")
            rows[[place for place, sentence in enumerate(sentences) if not sentence]] = 0
            found.append(checked(rows, sentences, files.as_text(path), f"{stem}.txt"))
        sizes = {rows.shape[1] for rows in found}
        if len(sizes) > 1:
            raise NormbenchError(f"{files.as_text(self.folder)}: the vectors of {given.name} have different lengths: "
                                 f"{', '.join(map(str, sorted(sizes)))}.")  # fmt: skip
        return np.concatenate(found)

    def _path(self, stem: str) -> Path:
        return self.folder / f"{stem}.npy"


def _read(path: Path, sentences: Sequence[str], where: str) -> np.ndarray:
    """The array of a file, read only if its header fits the sentences and the file's size."""
    text = files.as_text(path)
    try:
        with reading.opened(path.resolve()) as file:
            shape, dtype = _heading(file)
            if dtype.hasobject:
                raise NormbenchError(f"{text} cannot be read: it holds objects.")
            _check_form(shape, dtype, sentences, text, where)
            there, needed = os.fstat(file.fileno()).st_size - file.tell(), math.prod(shape) * dtype.itemsize
            if there < needed:
                raise NormbenchError(f"{text} cannot be read: it ends {needed - there} bytes early.")
            file.seek(0)
            found: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
            return found
    except OSError as error:
        raise NormbenchError(f"{text} cannot be read: {error.strerror or error}.") from None


def _heading(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type from the header of an .npy file. OSError if it is damaged: numpy raises many types."""
    try:
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read[np.lib.format.read_magic(file)](file)
        return shape, dtype
    except Exception:
        raise OSError("it is no array of numpy's (np.save)") from None


def checked(found: Any, sentences: list[str], of: str, where: str) -> Any:
    """The rows as finite float32 or float64, one for each sentence, an array or a scipy.sparse matrix.

    `of` and `where` say in errors whose they are, and of which sentences.
    """
    if not hasattr(found, "tocsr"):
        found = _array(found, of, where)
    _check_form(found.shape, found.dtype, sentences, of, where)
    native = found.dtype.newbyteorder("=")
    with np.errstate(over="ignore"):  # of a longer float: Inf is refused
        found = found.astype(native if native in DEFAULT else np.float64, copy=False)
    if not isinstance(found, np.ndarray):
        found = found.tocsr()
        if not np.isfinite(found.data).all():
            raise NotFinite(f"{of}: the vectors of {where} hold NaN or Inf.")
    elif not (finite := np.isfinite(found).all(1)).all():
        row = int(np.flatnonzero(~finite)[0])
        raise NotFinite(f"{of}: the vector of {where}, row {row} ('{sentences[row][:EXCERPT]}') holds NaN or Inf.")
    return found


def _check_form(shape: Sequence[int], dtype: np.dtype[Any], sentences: Sequence[str], of: str, where: str) -> None:
    if dtype.kind not in "fiu":
        raise NormbenchError(f"{of}: the vectors of {where} are of type {dtype}, not numbers.")
    if len(shape) != 2 or shape[1] < 1:
        raise NormbenchError(f"{of}: the vectors of {where} have the shape {tuple(shape)} instead of "
                             f"({len(sentences)}, numbers).")  # fmt: skip
    if shape[0] != len(sentences):
        raise NormbenchError(f"{of}: {shape[0]} vectors for the {len(sentences)} sentences of {where}. A sentence "
                             "ends at a line feed alone, and empty ones count in a file.")  # fmt: skip


def _array(found: Any, of: str, where: str) -> np.ndarray:
    """Of a tensor or an array, or of a list of such, wherever they are."""
    try:
        return np.asarray([_of_tensor(row) for row in found] if isinstance(found, list | tuple) else _of_tensor(found))
    except ValueError:
        raise NormbenchError(f"{of}: the vectors of {where} have different lengths.") from None
    except (TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise NormbenchError(f"{of}: the vectors of {where} cannot become an array of numpy's: {reason}") from None


def _of_tensor(found: Any) -> Any:
    """A tensor's numbers, in float32 where numpy may lack its type (bfloat16); all else as it is."""
    if not hasattr(found, "detach"):
        return found
    found = found.detach().cpu().to_dense()
    return (found.float() if found.is_floating_point() and found.element_size() < 4 else found).numpy()
