"""Archives: read in place, and refused when they are damaged."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tars import entry, packed, tar

from normbench.data import files


def read(path: Path) -> dict[str, bytes]:
    return dict(files.members(path, lambda name: name.endswith(".txt")))


def refusal(path: Path) -> str:
    with pytest.raises(ValueError) as caught:
        read(path)
    line = str(caught.value)
    assert line.startswith(f"{path.name} is not a whole .tar.gz archive (") and "\n" not in line
    return line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.tar.gz"


def test_wanted_files_in_order(path: Path) -> None:
    path.write_bytes(packed({"d/b.txt": b"B" * 5000, "d/c.bin": b"no", "d/a.txt": b""}))
    assert list(read(path).items()) == [("d/b.txt", b"B" * 5000), ("d/a.txt", b"")]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "checksum", "html", "empty", "text", "zip"])
def test_damaged(path: Path, damage: str) -> None:
    whole = packed({f"{number}.txt": bytes(range(256)) * 40 for number in range(20)})
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    path.write_bytes(
        {
            "truncated": whole[: len(whole) // 2],
            "flipped": bytes(flipped),
            # The member is whole, only the sum at the end is not.
            "checksum": whole[:-8] + bytes(8),
            "html": b"<!DOCTYPE html><html></html>",
            "empty": b"",
            "text": gzip.compress(b"just text " * 100),
            "zip": b"PK\3\4" + whole,
        }[damage]
    )
    assert ("it is a zip archive" in refusal(path)) == (damage == "zip")


def test_a_tar_that_a_browser_unpacked(path: Path) -> None:
    path.write_bytes(tar([entry("a.txt", b"1")]))
    assert read(path) == {"a.txt": b"1"}
    path.write_bytes(tar([entry("a.txt", b"1" * 2000)])[:1500])
    refusal(path)


GOOD = {f"{number}.txt": bytes(range(256)) * (number + 1) for number in range(3)}


@settings(max_examples=60)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), cut=st.booleans())
def test_any_damage_is_noticed(tmp_path_factory: pytest.TempPathFactory, place: float, flip: int, cut: bool) -> None:
    whole = bytearray(packed(GOOD))
    at = int(place * len(whole))
    path = tmp_path_factory.getbasetemp() / "damaged.tar.gz"
    if cut:
        path.write_bytes(whole[:at])
    else:
        whole[at] ^= flip
        path.write_bytes(whole)
    try:
        # Bytes of the gzip header that nothing depends on may change, such as the operating system's number.
        assert read(path) == GOOD
    except ValueError:
        refusal(path)


def test_only_plain_files_are_read_and_nothing_is_unpacked(path: Path) -> None:
    """A link's content is not another file's, and a name that leads out of the folder is only a name."""
    entries = [
        entry("link.txt", type=tarfile.SYMTYPE, linkname="/etc/hostname"),
        entry("hard.txt", type=tarfile.LNKTYPE, linkname="../../etc/hostname"),
        entry("pipe.txt", type=tarfile.FIFOTYPE),
        entry("../out.txt", b"1"),
    ]
    path.write_bytes(gzip.compress(tar(entries)))
    assert read(path) == {"../out.txt": b"1"}
    assert [one.name for one in path.parent.iterdir()] == [path.name] and not (path.parents[1] / "out.txt").exists()


def test_missing(path: Path) -> None:
    assert "No such file or directory" in refusal(path)
