"""Checksums of a file's content, for formats whose bytes depend on the program that writes or unpacks them.

numpy and pyarrow are imported late: a set whose bytes are right needs neither.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normbench.files import reading

if TYPE_CHECKING:
    import numpy as np

TEXT = (".all", ".question", ".tsv", ".txt")
GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"


def checksum(sums: Any) -> str:
    """One sha256 of all these sums."""
    return hashlib.sha256(json.dumps(sums, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def of(path: Path, known: bool = True) -> str:
    """The sha256 of a file's arrays (.npz), rows (.parquet), text or else idx file, in hex; ValueError if it is none.

    .npz: for each key in alphabetical order, a line `key type shape` and the array's bytes, little-endian, row by row.
    .parquet: a line of the column names, then a line a row, each a JSON list; UTF-8, no blanks after commas.
    Text: its bytes as `text` gives them. idx: the unpacked bytes; its bytes as they are where no format is `known`.
    """
    match path.suffix.lower():
        case ".npz":
            return _npz(path)
        case ".parquet":
            return _parquet(path)
        case suffix if suffix in TEXT:
            return hashlib.sha256(text(path)).hexdigest()
    if known:
        return hashlib.sha256(_idx(path)[0]).hexdigest()
    return reading.sha256(path)


def of_unchanged(path: Path, known: bool = True) -> str:
    """The same, taken once for a file of this size and time."""
    facts = path.stat()
    return _of_unchanged(path, known, facts.st_size, facts.st_mtime_ns)


@functools.lru_cache
def _of_unchanged(path: Path, known: bool, size: int, time: int) -> str:
    return of(path, known)


def text(path: Path) -> bytes:
    """The bytes of a text with the line ends of Unix and without a byte order mark, which Windows' programs add."""
    return path.read_bytes().removeprefix(BOM).replace(b"\r\n", b"\n")


def idx(path: Path) -> np.ndarray:
    """The array in a file of MNIST's format, packed or not; ValueError for another file, or one that is not whole."""
    return _idx(path)[1]


def _idx(path: Path) -> tuple[bytes, np.ndarray]:
    """Its unpacked bytes too. The format: 0, 8 (for bytes), axes, lengths, values; whole numbers big-endian."""
    import numpy as np

    body = path.read_bytes()
    try:
        body = gzip.decompress(body) if body.startswith(GZIP) else body
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"not a whole idx file: {error}") from error
    if body[:3] != b"\0\0\x08" or len(body) < (start := 4 + 4 * body[3]):
        raise ValueError("not a whole idx file of bytes")
    return body, np.frombuffer(body, np.uint8, offset=start).reshape(np.frombuffer(body, ">u4", body[3], 4).tolist())


def of_rows(names: Sequence[str], batches: Iterable[Sequence[Sequence[Any]]]) -> str:
    """The sum that `of` gives a parquet file of these rows; each batch has one sequence of values per column."""
    digest = hashlib.sha256(_line(names))
    for columns in batches:
        digest.update(b"".join(map(_line, zip(*columns, strict=True))))
    return digest.hexdigest()


def _line(values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _npz(path: Path) -> str:
    import numpy as np

    digest = hashlib.sha256()
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for key in sorted(arrays.files):
                array = arrays[key]
                array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
                digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
                digest.update(array.data)
    except reading.NO_ARCHIVE as error:
        raise ValueError(f"not a readable npz file: {error}") from error
    return digest.hexdigest()


def _parquet(path: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            # In batches: the rows as Python objects need several times the file's size.
            batches = file.iter_batches(batch_size=20_000)
            return of_rows(names, ([batch.column(name).to_pylist() for name in names] for batch in batches))
    except (pa.ArrowException, OSError, TypeError) as error:
        raise ValueError(f"not a readable parquet file: {error}") from error
