"""MNIST: the splits, copies of all kinds, damaged files, sets of one's own, and (marked `data`) the real set."""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from idxfiles import SIDE, TEST, TRAIN, declare, idx, write

from normbench import data
from normbench.commands import data as data_command
from normbench.commands.list import entries
from normbench.config import compose, plan
from normbench.config.spec import Spec
from normbench.config.updates import updates_per_epoch
from normbench.data import files
from normbench.errors import NormbenchError

CONF = Path(__file__).resolve().parents[2] / "conf" / "data" / "mnist.yaml"
IMAGES = "train-images-idx3-ubyte.gz"
PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


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


def test_another_set_under_the_same_names_is_not_replaced(config: dict[str, Any], raw: Path) -> None:
    other = gzip.compress(idx(np.ones((TRAIN, SIDE, SIDE))))
    (raw / IMAGES).write_bytes(other)
    assert "is damaged, or of another set" in refused(config, raw.parents[1])
    assert list(files.fetch(config, raw.parents[1])) == []
    assert (raw / IMAGES).read_bytes() == other


# -- a set of one's own in this format

OWN = {
    "name": "fashion",
    "valid": 10,
    "declares": {
        "title": "Fashion-MNIST",
        "source": "Xiao et al. 2017",
        "like": "mnist",
        "features": SIDE * SIDE,
        "sizes": {"train": TRAIN, "test": TEST},
        "files": dict.fromkeys(f"MNIST/raw/{part}.gz" for part in PARTS),
    },
}


def own(folder: Path, **facts: Any) -> Path:
    """A --config-dir with this set; facts: what it declares otherwise."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "fashion.yaml").write_text(
        yaml.safe_dump({**OWN, "declares": {**OWN["declares"], **facts}}, sort_keys=False)
    )
    return folder


def planned(folder: Path) -> Spec:
    plan.forget()
    (spec,) = plan.train_specs(["model=mnist_mlp", "data=fashion", "train.batch_size=10"], False, folder)
    return spec


@pytest.fixture
def here(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NORMBENCH_DATA", str(root))
    return root


def test_a_set_of_ones_own_needs_no_python(here: Path, raw: Path, config: dict[str, Any], tmp_path: Path) -> None:
    spec = planned(own(tmp_path / "conf"))
    assert (updates_per_epoch(spec.config), spec.config["data"]["valid"]) == (5, 10)
    loaded, official = data.load(spec.config["data"]), data.load(config)
    assert loaded.name == "fashion"
    for part, split in official.splits.items():
        assert torch.equal(loaded.splits[part]["inputs"], split["inputs"])
    assert Spec.from_json(spec.to_json()).id == spec.id
    listed = entries("data", tmp_path / "conf")
    assert "Fashion-MNIST" in [entry["title"] for entry in listed]
    assert dict(data_command.states(tmp_path / "conf"))["fashion"].startswith("ready")


def test_the_set_that_the_help_shows(tmp_path: Path) -> None:
    example = textwrap.dedent(
        data_command.EPILOG.split("DIR/data/fashion.yaml with\n\n")[1].split("\n\n  normbench")[0]
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fashion.yaml").write_text(example)
    declares = compose.declaration("data", "fashion", tmp_path)
    assert declares["sizes"] == {"train": 60000, "test": 10000}
    assert list(declares["files"]) == [f"fashion/{part}.gz" for part in PARTS]


def test_the_id_has_what_the_files_hold_and_what_the_yaml_says(here: Path, raw: Path, tmp_path: Path) -> None:
    first = planned(own(tmp_path / "conf")).id
    for path in raw.iterdir():
        path.write_bytes(gzip.decompress(path.read_bytes()))
    assert planned(own(tmp_path / "conf", title="other words")).id == first
    assert planned(own(tmp_path / "conf", classes=12)).id != first
    spec = planned(own(tmp_path / "conf"))
    (raw / IMAGES).write_bytes(gzip.compress(idx(np.ones((TRAIN, SIDE, SIDE)))))
    assert planned(own(tmp_path / "conf")).id != first
    with pytest.raises(NormbenchError, match=f"{spec.id}: data=fashion was edited"):
        Spec.from_json(spec.to_json())


def test_a_missing_file_of_ones_own(here: Path, raw: Path, tmp_path: Path) -> None:
    (raw / IMAGES).unlink()
    with pytest.raises(NormbenchError, match=f"{IMAGES} is missing. Place it at ") as caught:
        _ = planned(own(tmp_path / "conf")).id
    assert "data get" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [b"PK\3\4", idx(np.ones((TRAIN, SIDE, SIDE)))[:-20], b"", gzip.compress(b"x" * 99)[:20]],
    ids=["zip", "short", "empty", "short gzip"],
)
def test_a_file_of_ones_own_in_another_format(here: Path, raw: Path, tmp_path: Path, body: bytes) -> None:
    (raw / IMAGES).write_bytes(body)
    with pytest.raises(NormbenchError, match=f"{IMAGES} is no whole "):
        data.load(planned(own(tmp_path / "conf")).config["data"])


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        ({"like": "cifar10"}, "like"),
        ({"like": "fashion"}, "fashion"),
        ({"like": 3}, "declares.like: 3 "),
        ({"files": None}, "files"),
        ({"files": ["a", "b", "c", "d"]}, "files"),
        ({"files": {"a": "x"}}, "files"),
        ({"files": {**OWN["declares"]["files"], "MNIST/raw/" + IMAGES: "f68b"}}, IMAGES),
        ({"classes": "ten"}, "classes"),
        ({"classes": 0}, "classes"),
        ({"features": -1}, "features"),
        ({"sizes": 60}, "sizes"),
        ({"sizes": {"train": 60}}, "sizes"),
        ({"sizes": {"train": 60, "test": "all"}}, "sizes.test"),
        ({"title": None}, "title"),
    ],
)
def test_a_slip_in_the_yaml_is_one_line(here: Path, tmp_path: Path, facts: dict[str, Any], key: str) -> None:
    with pytest.raises(NormbenchError, match=re.escape(key)) as caught:
        planned(own(tmp_path / "conf", **facts))
    assert "\n" not in str(caught.value)


# -- what can be wrong with a file


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body + b"x", lambda body: b""])
def test_damaged(config: dict[str, Any], raw: Path, change: Any) -> None:
    body = change((raw / IMAGES).read_bytes())
    (raw / IMAGES).write_bytes(body)
    given, declared = hashlib.md5(body).hexdigest(), config["declares"]["files"][f"MNIST/raw/{IMAGES}"]
    line = refused(config, raw.parents[1])
    assert line.startswith(f"{raw / IMAGES} is damaged, or of another set: its md5 is {given} instead of {declared}.")
    assert line.endswith("Bring it with: normbench data get mnist (11 MB).")


@pytest.mark.parametrize(
    ("part", "array"),
    [
        (PARTS[0], np.zeros((TRAIN - 1, SIDE, SIDE))),
        (PARTS[0], np.zeros((TRAIN, SIDE, SIDE + 1))),
        (PARTS[0], np.zeros((TRAIN, SIDE))),
        (PARTS[1], np.arange(TRAIN) % 11),
        (PARTS[3], np.zeros(0)),
    ],
)
def test_right_md5_wrong_content(made: dict[str, bytes], tmp_path: Path, part: str, array: Any) -> None:
    made[f"{part}.gz"] = gzip.compress(idx(array))
    write(tmp_path / "other", made)
    with pytest.raises(NormbenchError, match=r"instead of \d0 images of 16 grey values"):
        data.load(declare(made), tmp_path / "other")


# -- the package's edges


def test_planning_needs_no_torch(root: Path, config: dict[str, Any]) -> None:
    import subprocess

    code = (
        "import sys; from normbench import data; from pathlib import Path; "
        f"data.check({config!r}, Path({str(root)!r})); assert not {{'torch', 'numpy', 'sklearn'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=CONF.parents[2])


@pytest.mark.slow  # the import takes seconds
def test_declared_files_are_torchvisions(repaired_torchvision: Any) -> None:
    declares = compose.declaration("data", "mnist")
    published = repaired_torchvision.datasets.MNIST.resources
    assert declares["files"] == {f"MNIST/raw/{name}": md5 for name, md5 in published}


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
