"""MNIST: the splits, the unpacking cache, damaged files, and (marked `data`) the real set."""

from __future__ import annotations

import gzip
import hashlib
import multiprocessing
import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from idxfiles import SIDE, TEST, TRAIN, declare, idx, write

from normbench import data
from normbench.data import mnist
from normbench.errors import NormbenchError

CONF = Path(__file__).resolve().parents[2] / "conf" / "data" / "mnist.yaml"
IMAGES = "train-images-idx3-ubyte.gz"


def pixels(made: dict[str, bytes], part: str, rows: int) -> np.ndarray:
    body = gzip.decompress(made[f"{part}-images-idx3-ubyte.gz"])
    return np.frombuffer(body, np.uint8, offset=16).reshape(rows, SIDE * SIDE)


def refused(config: dict[str, Any], root: Path) -> str:
    """The line of the error, which planning and loading must agree on."""
    with pytest.raises(NormbenchError) as planned:
        data.check(config, root)
    with pytest.raises(NormbenchError) as loaded:
        data.load(config, root)
    assert str(planned.value) == str(loaded.value)
    assert loaded.value.code == 2
    return str(loaded.value)


def test_splits(config: dict[str, Any], root: Path, made: dict[str, bytes]) -> None:
    loaded = data.load(config, root)
    assert (loaded.name, loaded.notes) == ("mnist", ())
    train = torch.from_numpy(pixels(made, "train", TRAIN).astype(np.float32)) / 255
    test = torch.from_numpy(pixels(made, "t10k", TEST).astype(np.float32)) / 255
    labels = torch.arange(TRAIN) % 10
    expected = {"train": (train[10:], labels[10:]), "valid": (train[:10], labels[:10]), "test": (test, labels[:TEST])}
    assert loaded.splits.keys() == expected.keys()
    for name, (inputs, targets) in expected.items():
        split = loaded.splits[name]
        assert split["inputs"].dtype == torch.float32 and split["targets"].dtype == torch.int64
        assert torch.equal(split["inputs"], inputs) and torch.equal(split["targets"], targets)


@pytest.mark.parametrize("valid", [0, TRAIN, TRAIN + 1, -1])
def test_valid_out_of_range(config: dict[str, Any], root: Path, valid: int) -> None:
    with pytest.raises(NormbenchError, match=f"data.valid={valid} is out of range"):
        data.load(config | {"valid": valid}, root)


def test_root_from_environment(config: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORMBENCH_DATA", str(root))
    data.check(config)
    assert len(data.load(config).splits["test"]["targets"]) == TEST


def test_the_source_is_only_read(config: dict[str, Any], raw: Path, cache: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in raw.iterdir()}
    data.load(config, raw.parents[1])
    assert {path.name: path.stat().st_mtime_ns for path in raw.iterdir()} == before
    assert len(list(cache.iterdir())) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_read_only_data(config: dict[str, Any], raw: Path) -> None:
    raw.chmod(0o555)
    try:
        assert len(data.load(config, raw.parents[1]).splits["test"]["targets"]) == TEST
    finally:
        raw.chmod(0o755)


# -- what can be wrong with a file


def test_absent(config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NORMBENCH_DATA", raising=False)
    assert refused(config, data.root()) == (
        "MNIST is not in ./data: train-images-idx3-ubyte.gz is missing. "
        "Bring it with: normbench data get mnist (11 MB), or point NORMBENCH_DATA at it."
    )


def test_only_one_absent(config: dict[str, Any], raw: Path) -> None:
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    assert "t10k-labels-idx1-ubyte.gz is missing" in refused(config, raw.parents[1])
    assert len(data.problems(config, raw.parents[1])) == 1


def test_dangling_link(config: dict[str, Any], raw: Path) -> None:
    (raw / IMAGES).unlink()
    (raw / IMAGES).symlink_to("elsewhere.gz")
    assert "is missing (a link to elsewhere.gz, which does not exist)" in refused(config, raw.parents[1])


def test_data_folder_is_a_file(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    assert "is missing" in refused(config, tmp_path / "data")


@pytest.mark.parametrize(
    ("damage", "hint"),
    [
        pytest.param(lambda body: body[: len(body) // 2], "; it breaks off after ", id="truncated"),
        pytest.param(lambda body: body[:-1], "; it breaks off after ", id="last-byte"),
        pytest.param(lambda body: body[:200] + bytes([body[200] ^ 4]) + body[201:], "", id="bit-flipped"),
        pytest.param(lambda body: body[:-8] + b"\0" * 8, "", id="wrong-crc"),
        pytest.param(lambda body: b"\n<!DOCTYPE HTML><html>404</html>", "; it is an HTML page", id="html"),
        pytest.param(lambda body: gzip.decompress(body), "; it is not a gzip file", id="unpacked"),
        pytest.param(lambda body: b"", "; it is empty", id="empty"),
        pytest.param(lambda body: body + b"\0", "", id="longer"),
    ],
)
def test_damaged(config: dict[str, Any], raw: Path, damage: Any, hint: str) -> None:
    body = damage((raw / IMAGES).read_bytes())
    (raw / IMAGES).write_bytes(body)
    found, wanted = hashlib.md5(body).hexdigest()[:4], config["declares"]["files"][f"MNIST/raw/{IMAGES}"][:4]
    line = refused(config, raw.parents[1])
    start = f"{raw / IMAGES} is damaged (md5 {found}… instead of {wanted}…{hint}"
    assert line.startswith(start)
    assert line.endswith("). Delete it and run: normbench data get mnist")
    if not hint:
        assert line[len(start)] == ")"


def test_folder_and_pipe_instead_of_file(config: dict[str, Any], raw: Path) -> None:
    (raw / IMAGES).unlink()
    (raw / IMAGES).mkdir()
    assert "is not a file but a folder. Move it away and run: normbench data get mnist" in refused(
        config, raw.parents[1]
    )
    (raw / IMAGES).rmdir()
    os.mkfifo(raw / IMAGES)
    assert "is not a file but a device or pipe" in refused(config, raw.parents[1])


def test_unreadable(config: dict[str, Any], raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulated, since root may read everything.
    def denied(self: Path, *args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    assert f"{raw / IMAGES} cannot be read: Permission denied." in refused(config, raw.parents[1])


def test_link_loop(config: dict[str, Any], raw: Path) -> None:
    (raw / IMAGES).unlink()
    (raw / IMAGES).symlink_to(raw / IMAGES)
    assert "cannot be read" in refused(config, raw.parents[1])


def test_any_damage_is_refused(config: dict[str, Any], raw: Path) -> None:
    draw = random.Random(3)
    body = (raw / IMAGES).read_bytes()
    for _ in range(200):
        damaged = bytearray(body)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(body))] ^= 1 << draw.randrange(8)
        damaged = damaged[: draw.choice([len(body), draw.randrange(len(body))])]
        if damaged != body:
            (raw / IMAGES).write_bytes(damaged)
            assert "is damaged" in data.problems(config, raw.parents[1])[0]


@pytest.mark.parametrize(
    ("name", "array", "line"),
    [
        ("train-images-idx3-ubyte.gz", np.zeros((TRAIN - 1, SIDE, SIDE)), "instead of (60, 60, 16, 0, 9)"),
        ("train-images-idx3-ubyte.gz", np.zeros((TRAIN, SIDE, SIDE + 1)), "instead of (60, 60, 16, 0, 9)"),
        ("train-images-idx3-ubyte.gz", np.zeros((TRAIN, SIDE)), "are not idx files"),
        ("train-labels-idx1-ubyte.gz", np.arange(TRAIN) % 11, "instead of (60, 60, 16, 0, 9)"),
        ("t10k-labels-idx1-ubyte.gz", np.arange(TEST) % 9, "instead of (20, 20, 16, 0, 9)"),
        ("t10k-labels-idx1-ubyte.gz", np.zeros(0), "are not idx files"),
    ],
)
def test_right_md5_wrong_content(made: dict[str, bytes], tmp_path: Path, name: str, array: Any, line: str) -> None:
    made[name] = gzip.compress(idx(array))
    write(tmp_path / "other", made)
    with pytest.raises(NormbenchError, match=re.escape(line)):
        data.load(declare(made), tmp_path / "other")


# bodies are names of tests, which every process that collects them has to make alike: no clock in them
@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"not gzip at all", gzip.compress(b"x" * 99, mtime=0)[:-9], gzip.compress(b"x", mtime=0)],
)
def test_right_md5_not_idx(made: dict[str, bytes], tmp_path: Path, body: bytes) -> None:
    made[IMAGES] = body
    write(tmp_path / "other", made)
    with pytest.raises(NormbenchError, match=r"cannot be unpacked|are not idx files"):
        data.load(declare(made), tmp_path / "other")


# -- the unpacking cache


def test_cache_is_kept_and_a_damaged_one_is_rebuilt(config: dict[str, Any], root: Path, cache: Path) -> None:
    first = data.load(config, root).splits["train"]["inputs"]
    kept = next(path for path in cache.iterdir() if path.name.startswith("train-images"))
    whole, stamp = kept.read_bytes(), kept.stat().st_mtime_ns
    data.load(config, root)
    assert kept.stat().st_mtime_ns == stamp
    for damaged in (whole[:-5], whole[:99] + bytes([whole[99] ^ 1]) + whole[100:], b"", whole + b"\0"):
        kept.write_bytes(damaged)
        loaded = data.load(config, root)
        assert torch.equal(loaded.splits["train"]["inputs"], first) and loaded.notes == ()
        assert kept.read_bytes() == whole
    assert len(list(cache.iterdir())) == 4


def test_unwritable_cache(config: dict[str, Any], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file in the folder's place stops root as well.
    (tmp_path / "blocked").write_text("")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "blocked"))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    loaded = data.load(config, root)
    assert len(loaded.splits["test"]["targets"]) == TEST
    assert len(loaded.notes) == 1 and "blocked/normbench/mnist cannot be used (Not a directory)" in loaded.notes[0]
    assert not list(scratch.iterdir())


def test_folder_in_the_place_of_a_cached_file(config: dict[str, Any], root: Path, cache: Path) -> None:
    data.load(config, root)
    kept = next(cache.iterdir())
    kept.unlink()
    kept.mkdir()
    loaded = data.load(config, root)
    assert len(loaded.splits["test"]["targets"]) == TEST and len(loaded.notes) == 1
    assert len(list(cache.iterdir())) == 4


def test_nowhere_to_unpack(config: dict[str, Any], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "blocked"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "blocked"))
    with pytest.raises(NormbenchError, match=r"MNIST cannot be unpacked: .* Set XDG_CACHE_HOME or TMPDIR"):
        data.load(config, root)


def test_disk_full_while_unpacking(
    config: dict[str, Any], root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, calls = mnist.shutil.copyfileobj, []

    def full(source: Any, out: Any, length: int) -> None:
        calls.append(1)
        if len(calls) == 1:
            out.write(b"half")
            raise OSError(28, "No space left on device")
        copy(source, out, length)

    monkeypatch.setattr(mnist.shutil, "copyfileobj", full)
    loaded = data.load(config, root)
    assert "No space left on device" in loaded.notes[0]
    assert not list(cache.iterdir())


@pytest.mark.parametrize("home", ["", "relative/path"])
def test_cache_folder_default(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert mnist.cache_folder() == tmp_path / ".cache" / "normbench" / "mnist"


def _load_often(config: dict[str, Any], root: Path, sums: Any) -> None:
    for _ in range(20):
        for path in mnist.cache_folder().glob("train-*"):
            path.unlink(missing_ok=True)
        loaded = data.load(config, root)
        sums.put((float(loaded.splits["train"]["inputs"].sum()), loaded.notes))


def test_processes_unpacking_at_once(config: dict[str, Any], root: Path, cache: Path) -> None:
    # Each removes what the other has unpacked, the worst that can happen between a look and a read.
    context = multiprocessing.get_context("fork")
    sums = context.Queue()
    workers = [context.Process(target=_load_often, args=(config, root, sums)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = [sums.get(timeout=60) for _ in range(60)]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len({total for total, _ in found}) == 1
    assert len(list(cache.iterdir())) == 4


# -- the package's edges


@pytest.mark.parametrize("name", ["mnits", "vision", "fetch", "files", "__init__", "../mnist", "os.path", ""])
def test_not_a_data_set(config: dict[str, Any], name: str) -> None:
    with pytest.raises(NormbenchError, match="is not a data set"):
        data.load(config | {"name": name})


def test_planning_needs_no_torch(root: Path, config: dict[str, Any]) -> None:
    import subprocess

    code = (
        "import sys; from normbench import data; from pathlib import Path; "
        f"data.check({config!r}, Path({str(root)!r})); assert not {{'torch', 'numpy', 'sklearn'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=CONF.parents[2])


def test_declared_files_are_torchvisions() -> None:
    from normbench.data import vision

    declared = yaml.safe_load(CONF.read_text())["declares"]["files"]
    known = vision.torchvision().datasets.MNIST.resources
    assert declared == {f"MNIST/raw/{name}": md5 for name, md5 in known}
    assert all(mirror.endswith("/") for mirror in mnist.mirrors())


@pytest.mark.data
def test_real_mnist() -> None:
    config = yaml.safe_load(CONF.read_text())
    loaded = data.load(config)
    assert {name: tuple(split["inputs"].shape) for name, split in loaded.splits.items()} == {
        "train": (55000, 784),
        "valid": (5000, 784),
        "test": (10000, 784),
    }
    test, train, valid = (loaded.splits[name] for name in ("test", "train", "valid"))
    assert test["targets"].bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert (train["targets"].bincount() + valid["targets"].bincount()).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert valid["targets"][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert test["targets"][:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    for split in loaded.splits.values():
        assert split["inputs"].min() == 0 and split["inputs"].max() == 1
    # The published mean and deviation of the 60 000 training images.
    images = torch.cat([valid["inputs"], train["inputs"]]).double()
    assert images.mean().item() == pytest.approx(0.1307, abs=5e-5)
    assert images.std().item() == pytest.approx(0.3081, abs=5e-5)
    assert {name: _sha256(split) for name, split in loaded.splits.items()} == GOLDEN


def _sha256(split: data.Split) -> str:
    """Of the grey values as bytes and the labels as bytes, in order."""
    grey = (split["inputs"] * 255).round().to(torch.uint8).numpy().tobytes()
    return hashlib.sha256(grey + split["targets"].to(torch.uint8).numpy().tobytes()).hexdigest()


# Computed from the files with gzip and numpy alone.
GOLDEN = {
    "train": "12d85ccf7045311321359e8016611fe8928a6317b69b4543429ee07dce628b3d",
    "valid": "47d921ad3f2875ef61ee1565a06261eb42e205fa9b89340f349dbb60792ff55c",
    "test": "c3f9adf9c66efb572b1f9326c3a511b45910c7173b97be66ceceeeeaef6b802b",
}
