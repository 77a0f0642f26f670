"""The sum of a file's content: the same however it is packed, another one after any damage."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from normbench.data import content


def test_content_does_not_depend_on_how_a_file_is_packed(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.savez(tmp_path / "a.npz", x=array, y=array[0])
    np.savez_compressed(tmp_path / "b.npz", y=array[0], x=array.astype(">i2"))
    np.savez(tmp_path / "c.npz", x=array.reshape(3, 2), y=array[0])
    sums = [content.of(tmp_path / f"{name}.npz") for name in "abc"]
    assert sums[0] == sums[1] != sums[2]
    by_hand = hashlib.sha256(b"x <i2 (2, 3)\n\0\0\1\0\2\0\3\0\4\0\5\0y <i2 (3,)\n\0\0\1\0\2\0")
    assert sums[0] == by_hand.hexdigest()


def test_content_of_parquet(tmp_path: Path) -> None:
    import pyarrow as pa

    rows = {"text": ["a,\n", 'é"', None], "label": [1, 0, 1]}
    uncoded = pa.table(rows)
    pq.write_table(uncoded.replace_schema_metadata({"a": "note"}), tmp_path / "a.parquet", compression="none")
    coded = uncoded.set_column(0, "text", uncoded["text"].dictionary_encode())
    pq.write_table(coded, tmp_path / "b.parquet", row_group_size=1)
    pq.write_table(pa.table({**rows, "label": [1, 0, 0]}), tmp_path / "c.parquet")
    sums = [content.of(tmp_path / f"{name}.parquet") for name in "abc"]
    assert sums[0] == sums[1] != sums[2]
    by_hand = '["text","label"]\n["a,\\n",1]\n["é\\"",0]\n[null,1]\n'
    assert sums[0] == hashlib.sha256(by_hand.encode()).hexdigest()


@pytest.mark.parametrize("name", ["a.npz", "a.parquet"])
@pytest.mark.parametrize("body", [b"", b"PAR1 nonsense PAR1", b"PK\3\4 nonsense"])
def test_content_of_something_else(tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(ValueError):
        content.of(tmp_path / name)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_damage_of_arrays_is_told_as_such(tmp_path: Path, save: Any) -> None:
    path, contents = tmp_path / "a.npz", {"a": np.arange(40), "b": np.array(["x", "yy"])}
    save(path, **contents)
    body, draw, refused = path.read_bytes(), np.random.default_rng(0), 0
    for place in [*draw.integers(0, len(body), 80), *(at + 10 for at in range(len(body)) if body[at:][:2] == b"PK")]:
        path.write_bytes(body[:place] + bytes([body[place] ^ 1 << draw.integers(8)]) + body[place + 1 :])
        try:
            content.of(path)
        except ValueError:
            refused += 1
    assert refused > 40


def test_content_never_unpickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        content.of(tmp_path / "a.npz")
