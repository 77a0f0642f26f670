"""Sets that are prepared from sources: bringing these, preparing, what is accepted as the set, interruptions."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tars import packed
from test_data_prepare import SENTENCES, amat, handwriting

from normbench import data
from normbench.commands import data as data_command
from normbench.config import compose
from normbench.data import content, fetch, files
from normbench.errors import NormbenchError

TABLES = {
    "sentence_eval/mr.tsv": "label\ttext\n0\tsimplistic , silly .\n1\tcafé \u0085 fine\n".encode(),
    "sentence_eval/cr.tsv": b"label\ttext\n1\tgood\n0\t\n",
    "sentence_eval/subj.tsv": b"label\ttext\n0\ta\n",
    "sentence_eval/mpqa.tsv": b"label\ttext\n1\tb\n",
}
NPZ = "binarized_mnist/binarized_mnist.npz"
SIZES = {"train": 3, "valid": 2, "test": 1}


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def wrote(folder: Path) -> dict[str, bytes]:
    """The files below a data folder, without hidden ones."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def refused(config: dict[str, Any], folder: Path, code: int = 2, **options: Any) -> str:
    with pytest.raises(NormbenchError) as caught:
        fetch.get(config, folder, **options)
    line = str(caught.value)
    assert caught.value.code == code and "\n" not in line
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def tables() -> dict[str, Any]:
    """A set whose bytes follow from its sources."""
    sources = {"megabytes": 1, "files": {name: sha(body) for name, body in SENTENCES.items()}}
    return {
        "name": "sentence_eval",
        "declares": {"files": {name: sha(body) for name, body in TABLES.items()}, "sources": sources},
    }


@pytest.fixture
def bits() -> dict[str, bytes]:
    return {f"binarized_mnist_{part}.amat": amat(rows, rows)[1] for part, rows in SIZES.items()}


@pytest.fixture
def declared_copy(tmp_path: Path) -> bytes:
    """A copy of the arrays in other bytes than those that `prepare` writes."""
    arrays = {part: np.packbits(amat(rows, rows)[0].astype(np.uint8), axis=1) for part, rows in SIZES.items()}
    np.savez(tmp_path / "known.npz", **arrays)
    return (tmp_path / "known.npz").read_bytes()


@pytest.fixture
def arrays(bits: dict[str, bytes], declared_copy: bytes, tmp_path: Path) -> dict[str, Any]:
    """A set whose bytes depend on numpy."""
    return {
        "name": "binarized_mnist",
        "declares": {
            "sizes": SIZES,
            "remark": "a copy that is known",
            "files": {NPZ: sha(declared_copy)},
            "content": {NPZ: content.of(tmp_path / "known.npz")},
            "sources": {"megabytes": 1, "files": {name: sha(body) for name, body in bits.items()}},
        },
    }


@pytest.fixture
def prepared(arrays: dict[str, Any], bits: dict[str, bytes], folder: Path, mirror: Any) -> Path:
    """The set of arrays, brought and prepared; returns its file."""
    assert fetch.get(arrays, folder, mirrors=[mirror(files=bits).url]) == [folder / NPZ]
    return folder / NPZ


# -- the way through


def test_brought_and_prepared(tables: dict[str, Any], folder: Path, mirror: Any) -> None:
    server, seen = mirror(files=SENTENCES), []
    made = fetch.get(tables, folder, mirrors=[server.url], progress=lambda *p: seen.append(p))
    assert made == [folder / name for name in TABLES]
    # The sources are gone, and nothing else was left.
    assert wrote(folder) == TABLES
    assert [path.name for path in (folder / "source" / "sentence_eval").iterdir()] == [".normbench.lock"]
    assert {name for name, done, total in seen if done == total} == set(SENTENCES)
    assert data.problems(tables, folder) == [] and files.remark(tables, folder) == ""
    server.asked.clear()
    assert fetch.get(tables, folder, mirrors=[server.url]) == [] and server.asked == []


def test_mirrors_of_the_set(tables: dict[str, Any], folder: Path, mirror: Any, dead: str) -> None:
    tables["declares"]["sources"]["mirrors"] = [dead, mirror(files=SENTENCES).url]
    fetch.get(tables, folder)
    assert wrote(folder) == TABLES


def test_complete_set_is_left_alone(tables: dict[str, Any], folder: Path, dead: str) -> None:
    for name, body in TABLES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    assert fetch.get(tables, folder, mirrors=[dead]) == []
    # Also where nothing may be written.
    assert not (folder / "source").exists()


def test_one_damaged_file(tables: dict[str, Any], folder: Path, mirror: Any) -> None:
    server = mirror(files=SENTENCES)
    fetch.get(tables, folder, mirrors=[server.url])
    (folder / "sentence_eval/cr.tsv").write_bytes(b"label\n")
    assert data.problems(tables, folder) == [
        f"{folder}/sentence_eval/cr.tsv is damaged (sha256 {sha(b'label' + bytes([10]))[:4]}… instead of "
        f"{sha(TABLES['sentence_eval/cr.tsv'])[:4]}…). Point NORMBENCH_DATA at another copy; or run: normbench "
        "data get sentence_eval (which replaces it)"
    ]
    fetch.get(tables, folder, mirrors=[server.url])
    assert wrote(folder) == TABLES


def test_command(tables: dict[str, Any], folder: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tables["declares"] |= {"terms": "to be read", "title": "t"}
    tables["declares"]["sources"]["mirrors"] = [mirror(files=SENTENCES).url]
    monkeypatch.setattr(compose, "choice", lambda group, name, extra: tables)
    monkeypatch.setenv("NORMBENCH_DATA", str(folder))

    def get() -> list[str]:
        out = io.StringIO()
        data_command.get("sentence_eval", Console(file=out, width=20))
        return out.getvalue().splitlines()

    assert get() == [*(f"brought {folder / name}" for name in TABLES), "terms of use: to be read"]
    assert get() == [f"sentence_eval is complete below {folder}"]


# -- what is accepted as the set


def test_prepared_file_is_known_by_its_note(
    arrays: dict[str, Any], folder: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "of", lambda path: pytest.fail("the content was read again"))
    assert files.digest(prepared, "sha256") != arrays["declares"]["files"][NPZ]
    assert data.problems(arrays, folder) == []
    # What is remarked of the known copy does not hold for this one.
    assert files.remark(arrays, folder) == ""


def test_known_copy(arrays: dict[str, Any], folder: Path, prepared: Path, declared_copy: bytes) -> None:
    prepared.write_bytes(declared_copy)
    assert data.problems(arrays, folder) == [] and files.remark(arrays, folder) == "a copy that is known"


@pytest.mark.parametrize(
    "note", [None, b"", b"{", b"[]", b'{"basis": 1}', b'{"basis": "?", "remark": "", "files": {}}']
)
def test_without_its_note_by_its_content(
    arrays: dict[str, Any], folder: Path, prepared: Path, note: bytes | None
) -> None:
    path = files.record_path(arrays, folder)
    path.unlink() if note is None else path.write_bytes(note)
    assert data.problems(arrays, folder) == []
    prepared.write_bytes(prepared.read_bytes()[:-1])
    assert "is damaged (sha256 " in data.problems(arrays, folder)[0]


def test_note_of_other_declarations(arrays: dict[str, Any], folder: Path, prepared: Path) -> None:
    arrays["declares"]["sources"]["mirrors"] = ["https://elsewhere/"]
    assert data.problems(arrays, folder) == []
    # Another content is declared: what was prepared before is no longer the set.
    arrays["declares"]["content"][NPZ] = "0" * 64
    assert "is whole, but of another data set" in data.problems(arrays, folder)[0]


def test_damaged_file_beside_its_note(arrays: dict[str, Any], folder: Path, prepared: Path) -> None:
    body = bytearray(prepared.read_bytes())
    body[len(body) // 2] ^= 1
    prepared.write_bytes(bytes(body))
    assert f"{prepared} is damaged" in data.problems(arrays, folder)[0]
    with pytest.raises(NormbenchError, match="is damaged"):
        data.check(arrays, folder)


# -- what can go wrong with the sources


def test_sources_brought_by_hand(tables: dict[str, Any], folder: Path, mirror: Any) -> None:
    place = folder / "source" / "sentence_eval"
    place.mkdir(parents=True)
    for name, body in SENTENCES.items():
        (place / name).write_bytes(body)
    (place / "mpqa.all").write_bytes(b"1 another\n")
    server = mirror(files=SENTENCES)
    fetch.get(tables, folder, mirrors=[server.url])
    # A wrong one is not used.
    assert [name for name, _ in server.asked] == ["mpqa.all"]
    assert wrote(folder) == TABLES


def test_text_sources_with_line_ends_of_windows(tables: dict[str, Any], folder: Path, dead: str) -> None:
    place = folder / "source" / "sentence_eval"
    place.mkdir(parents=True)
    for name, body in SENTENCES.items():
        (place / name).write_bytes(body.replace(b"\n", b"\r\n"))
    fetch.get(tables, folder, mirrors=[dead])
    assert wrote(folder) == TABLES


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_tables_with_line_ends_of_windows(tables: dict[str, Any], folder: Path, mark: bytes) -> None:
    for name, body in TABLES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(mark + body.replace(b"\n", b"\r\n"))
    assert data.problems(tables, folder) == []


@pytest.mark.parametrize("which", ["tables", "arrays"])
def test_other_content_than_declared(
    which: str, request: pytest.FixtureRequest, folder: Path, mirror: Any, bits: dict[str, bytes]
) -> None:
    config = request.getfixturevalue(which)
    name = next(iter(config["declares"]["files"]))
    config["declares"]["files"][name] = "0" * 64
    config["declares"].get("content", {})[name] = "0" * 64
    line = refused(config, folder, mirrors=[mirror(files={**SENTENCES, **bits}).url])
    assert f"{name} would not have the declared content" in line
    # Neither a final file nor what was written aside is left, only the sources.
    assert set(wrote(folder)) == {f"source/{config['name']}/{name}" for name in config["declares"]["sources"]["files"]}


# -- interruptions, and others at work


@pytest.mark.parametrize("before", [{}, {**TABLES, "sentence_eval/cr.tsv": b"damaged"}], ids=["none", "old files"])
@pytest.mark.parametrize("moved", [0, 1, 3])
def test_killed_between_the_renames(
    tables: dict[str, Any],
    folder: Path,
    mirror: Any,
    dead: str,
    monkeypatch: pytest.MonkeyPatch,
    moved: int,
    before: dict[str, bytes],
) -> None:
    for name, body in before.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    done = []

    def move(source: Path, target: Path) -> None:
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(target)
        source.replace(target)

    with monkeypatch.context() as patch:
        patch.setattr(fetch, "_move", move)
        with pytest.raises(KeyboardInterrupt):
            fetch.get(tables, folder, mirrors=[mirror(files=SENTENCES).url])
    # Never a mixture of old and new files.
    problems = data.problems(tables, folder)
    assert len(problems) == 4 - moved and all("is missing" in line for line in problems)
    # The sources are still there: the network is not needed again.
    fetch.get(tables, folder, mirrors=[dead])
    assert wrote(folder) == TABLES


def test_set_folder_on_another_disk(arrays: dict[str, Any], bits: dict[str, bytes], folder: Path, mirror: Any) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == folder.parent.stat().st_dev:
        pytest.skip("there is no other disk at /dev/shm")
    with tempfile.TemporaryDirectory(dir=memory) as other:
        folder.mkdir()
        (folder / NPZ).parent.symlink_to(other)
        fetch.get(arrays, folder, mirrors=[mirror(files=bits).url])
        assert data.problems(arrays, folder) == []
        assert sorted(path.name for path in Path(other).iterdir()) == [
            ".normbench-binarized_mnist.json",
            "binarized_mnist.npz",
        ]


def test_leftovers_of_a_killed_run(tables: dict[str, Any], folder: Path, mirror: Any) -> None:
    aside = folder / "source" / "sentence_eval" / "prepared" / "sentence_eval"
    aside.mkdir(parents=True)
    (aside / "mr.tsv").write_bytes(b"half a f")
    fetch.get(tables, folder, mirrors=[mirror(files=SENTENCES).url])
    assert wrote(folder) == TABLES


def test_disk_full_while_preparing(
    tables: dict[str, Any], folder: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    line = refused(tables, folder, 4, mirrors=[mirror(files=SENTENCES).url])
    assert line.startswith(f"SENTENCE_EVAL cannot be written to {folder}: No space left on device.")
    assert not (folder / "sentence_eval").exists()


# -- a set that its owners hand out themselves


@pytest.fixture
def owned() -> dict[str, Any]:
    names = {"lineStrokes-all.tar.gz": None, "ascii-all.tar.gz": None}
    return {
        "name": "iam_ondb",
        "declares": {
            "files": {"iam_ondb/strokes.npz": "0" * 64, "iam_ondb/sentences.tsv": "0" * 64},
            "sources": {"register": "https://owners.example/database", "files": names},
        },
    }


def place(folder: Path, **archives: bytes) -> Path:
    path = folder / "source" / "iam_ondb"
    path.mkdir(parents=True, exist_ok=True)
    for name, body in archives.items():
        (path / f"{name}-all.tar.gz").write_bytes(body)
    return path


def test_registration_is_asked_for(owned: dict[str, Any], folder: Path) -> None:
    line = refused(owned, folder)
    assert line == (
        f"IAM_ONDB needs registration with its owners: https://owners.example/database. Place their "
        f"lineStrokes-all.tar.gz and ascii-all.tar.gz in {folder}/source/iam_ondb and run: normbench data get iam_ondb "
        f"(lineStrokes-all.tar.gz and ascii-all.tar.gz missing)"
    )
    assert not folder.exists()
    place(folder, ascii=b"")
    assert refused(owned, folder).endswith("(lineStrokes-all.tar.gz missing)")


def test_prepared_from_the_users_archives(owned: dict[str, Any], folder: Path) -> None:
    strokes, texts = handwriting()
    archives = place(folder, lineStrokes=packed(strokes), ascii=packed(texts))
    made = fetch.get(owned, folder)
    assert made == [folder / "iam_ondb/strokes.npz", folder / "iam_ondb/sentences.tsv"]
    assert data.problems(owned, folder) == [] and fetch.get(owned, folder) == []
    # Said, since nobody publishes a sum; and what the user brought is the user's.
    assert files.remark(owned, folder) == "lines: 3, forms left out: 1; not the declared copy"
    assert sorted(path.name for path in archives.glob("*.gz")) == ["ascii-all.tar.gz", "lineStrokes-all.tar.gz"]
    note = json.loads(files.record_path(owned, folder).read_text())
    assert set(note["files"]) == set(owned["declares"]["files"])


def test_no_remark_where_the_archives_give_the_declared_copy(owned: dict[str, Any], folder: Path) -> None:
    strokes, texts = handwriting()
    place(folder, lineStrokes=packed(strokes), ascii=packed(texts))
    fetch.get(owned, folder)
    npz, tsv = owned["declares"]["files"]
    owned["declares"]["content"] = {npz: content.of(folder / npz), tsv: sha((folder / tsv).read_bytes())}
    (folder / npz).unlink()
    fetch.get(owned, folder)
    assert files.remark(owned, folder) == "" and data.problems(owned, folder) == []


def test_users_archives_that_are_damaged(owned: dict[str, Any], folder: Path) -> None:
    strokes, texts = handwriting()
    archives = place(folder, lineStrokes=packed(strokes)[:-30], ascii=packed(texts))
    line = refused(owned, folder)
    assert f"cannot be prepared from the files in {archives}: lineStrokes-all.tar.gz is not a whole" in line
    place(folder, lineStrokes=packed({"a.txt": b"<x/>"}))
    assert f"IAM_ONDB cannot be prepared from the files in {archives}: " in refused(owned, folder)
    assert not (folder / "iam_ondb").exists() and not (archives / "prepared").exists()
