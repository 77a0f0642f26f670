"""Published files that mean harm: each is one line, and the other artifacts are shown."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from spoil import PLACED

from normbench.errors import NormbenchError
from normbench.papers import per_example_effects, published, sample_archive
from normbench.runs import pack
from normbench.web import report

READERS: dict[str, Callable[[Path], object]] = {
    pack.NAME: lambda place: pack.read(place / pack.NAME).runs,
    "verdicts.json": lambda place: published.read_verdicts(place / "verdicts.json"),
    per_example_effects.NAME: lambda place: per_example_effects.load(place / per_example_effects.NAME),
    sample_archive.NAME: lambda place: sample_archive.load(place / sample_archive.NAME),
}
CONTENT = {
    "nothing": b"",
    "deep": b"[" * 10**5,
    "deep and closed": b"[" * 900 + b"]" * 900 + b"\n",
    "not UTF-8": b"\xff\xfe\n",
    "zeros": bytes(1000),
    "an array beyond memory": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9" + b"9" * 15
    + b",)}" + b" " * 30 + b"\n",
    "NaN": b'{"schema": NaN}\n',
    "beyond all": b'{"schema": 1' + b"0" * 5000 + b"}\n",
}  # fmt: skip


@pytest.mark.parametrize("how", [*PLACED, *CONTENT])
@pytest.mark.parametrize("name", READERS)
def test_a_hostile_file_is_one_line(name: str, how: str, tmp_path: Path) -> None:
    if how in PLACED:
        PLACED[how](tmp_path / name)
    else:
        (tmp_path / name).write_bytes(CONTENT[how])
    try:
        READERS[name](tmp_path)
    except NormbenchError as error:
        assert str(tmp_path) in str(error) and len(str(error)) < 600
    else:
        assert how in ("a link to itself", "nothing"), "it was taken for whole"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_arrays_packed_as_nobody_here_packs_them_are_not_unpacked(method: int, tmp_path: Path) -> None:
    """A few bytes would be gigabytes, whatever size they say."""
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    with zipfile.ZipFile(tmp_path / per_example_effects.NAME, "w", method) as archive:
        archive.writestr("x|effects.npy", array.getvalue())
    with pytest.raises(NormbenchError, match="packed by method"):
        READERS[per_example_effects.NAME](tmp_path)


def test_a_pack_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "LARGEST", 10**6)
    (tmp_path / pack.NAME).write_bytes(gzip.compress(b"0" * 10**8))
    with pytest.raises(NormbenchError, match="unpacked it is larger than"):
        pack.read(tmp_path / pack.NAME)


@pytest.mark.parametrize("how", [*PLACED, *CONTENT])
def test_a_hostile_check_is_reported(how: str, tmp_path: Path) -> None:
    (tmp_path / "check").mkdir()
    if how in PLACED:
        PLACED[how](tmp_path / "check" / "one.json")
    else:
        (tmp_path / "check" / "one.json").write_bytes(CONTENT[how])
    damaged: list[published.Damaged] = []
    assert report._checks(tmp_path, [], damaged) == [] and len(damaged) == 1
