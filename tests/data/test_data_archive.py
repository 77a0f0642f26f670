"""Archives: read in place, and refused when they are damaged or hostile."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tars import entry, packed, tar

from normbench.data import archive
from normbench.errors import NormbenchError

LIMITS = archive.Limits(total=20_000_000, count=100)


def read(path: Path, limits: archive.Limits = LIMITS) -> dict[str, bytes]:
    return dict(archive.members(path, lambda name: name.endswith(".txt"), limits))


def refusal(path: Path, limits: archive.Limits = LIMITS) -> str:
    with pytest.raises(NormbenchError) as caught:
        read(path, limits)
    line = str(caught.value)
    assert line.startswith(str(path)) and "\n" not in line and caught.value.code == 2
    return line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.tar.gz"


def test_wanted_files_in_order(path: Path) -> None:
    path.write_bytes(packed({"d/b.txt": b"B" * 5000, "d/c.bin": b"no", "d/a.txt": b""}))
    assert list(read(path).items()) == [("d/b.txt", b"B" * 5000), ("d/a.txt", b"")]


def test_folders_and_long_names(path: Path) -> None:
    long = "d/" + "x" * 300 + ".txt"
    path.write_bytes(gzip.compress(tar([entry("d", type=tarfile.DIRTYPE), entry(long, b"1")])))
    assert read(path) == {long: b"1"}


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (entry("../../etc/passwd.txt", b"x"), "'../../etc/passwd.txt' leads out of it"),
        (entry("a/../../b.txt", b"x"), "leads out of it"),
        (entry("/etc/passwd.txt", b"x"), "leads out of it"),
        (entry("..\\b.txt", b"x"), "leads out of it"),
        (entry("a.txt", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "'a.txt' is a link"),
        (entry("a.txt", type=tarfile.LNKTYPE, linkname="b.txt"), "'a.txt' is a link"),
        (entry("a.txt", type=tarfile.CHRTYPE), "neither a plain file nor a folder"),
        (entry("a.txt", type=tarfile.BLKTYPE), "neither a plain file nor a folder"),
        (entry("a.txt", type=tarfile.FIFOTYPE), "neither a plain file nor a folder"),
        (entry("a.txt", type=tarfile.GNUTYPE_SPARSE), "neither a plain file nor a folder"),
        # Nobody reads it, and yet it is a reason to trust nothing else in there.
        (entry("unread", type=tarfile.SYMTYPE, linkname="/etc"), "'unread' is a link"),
    ],
)
def test_hostile_member(path: Path, member: tuple[tarfile.TarInfo, bytes], reason: str) -> None:
    path.write_bytes(gzip.compress(tar([entry("good.txt", b"1"), member])))
    assert f"{path} is refused: " in refusal(path) and reason in refusal(path)


def test_control_characters_in_a_name_are_not_shown(path: Path) -> None:
    path.write_bytes(gzip.compress(tar([entry("../\x1b[2J\n.txt", b"x")])))
    assert "'../\\x1b[2J\\n.txt' leads out of it" in refusal(path)


def test_bomb_by_ratio(path: Path) -> None:
    path.write_bytes(packed({"a.txt": bytes(10_000_000)}))
    assert "it unpacks to more than 50 times its size" in refusal(path)


def test_bomb_in_a_member_that_nobody_reads(path: Path) -> None:
    path.write_bytes(packed({"a.bin": bytes(10_000_000)}))
    assert "it unpacks to more than 50 times its size" in refusal(path)


def test_bomb_by_total(path: Path) -> None:
    path.write_bytes(packed({"a.txt": bytes(1_000_000)}))
    assert len(read(path)["a.txt"]) == 1_000_000
    assert "it unpacks to more than 900000 bytes" in refusal(path, archive.Limits(total=900_000, count=9))


def test_bomb_after_the_end(path: Path) -> None:
    path.write_bytes(packed({"a.txt": b"1"}) + gzip.compress(bytes(30_000_000)))
    assert "it unpacks to more than" in refusal(path)


def test_bomb_by_count(path: Path) -> None:
    path.write_bytes(packed({f"{number}.txt": b"" for number in range(101)}))
    assert "it has more than 100 members" in refusal(path)


def test_one_member_too_large(path: Path) -> None:
    path.write_bytes(packed({"a.txt": bytes(2000)}))
    assert "'a.txt' has 2000 bytes, more than 1000" in refusal(path, archive.Limits(10**6, 9, member=1000))


def test_a_size_that_is_a_lie(path: Path) -> None:
    info, body = entry("a.txt", b"1" * 600)
    whole = bytearray(tar([(info, body)]))
    info.size = 10**9
    whole[:512] = info.tobuf(tarfile.GNU_FORMAT)
    path.write_bytes(gzip.compress(bytes(whole)))
    assert refusal(path, archive.Limits(total=20_000_000, count=9, member=2 * 10**9))


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
    assert "is not a whole .tar.gz archive" in refusal(path)
    assert ("it is a zip archive" in refusal(path)) == (damage == "zip")


def test_a_tar_that_a_browser_unpacked(path: Path) -> None:
    path.write_bytes(tar([entry("a.txt", b"1")]))
    assert read(path) == {"a.txt": b"1"}
    path.write_bytes(tar([entry("a.txt", b"1" * 2000)])[:1500])
    assert "is not a whole .tar.gz archive" in refusal(path) or "it breaks off" in refusal(path)


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
    except NormbenchError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)


def test_missing(path: Path) -> None:
    assert refusal(path) == f"{path} cannot be read: No such file or directory."
