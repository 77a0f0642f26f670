"""Sets read through `datasets`: its tables of parquet files, `data.source`, offline, what it keeps and where."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tinysets
import torch
from huggingface_hub import constants

from normbench import data
from normbench.config import compose, grammar, identity
from normbench.data import hub, imdb
from normbench.errors import NormbenchError


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No socket is opened, and the user's hub cache is an empty one."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    for config in (constants, datasets.config):  # as in a process that the package has started
        monkeypatch.setattr(config, "HF_HUB_OFFLINE", True)


def hub_layout(folder: Path, texts: dict[str, list[str]], files: int = 2) -> Path:
    """These reviews as the hub has such a set: several files a part, labels of classes, more columns and parts."""
    (folder / "plain_text").mkdir(parents=True)
    features = '{"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, "label": {"names": ["neg", "pos"]'
    metadata = {"huggingface": features + ', "_type": "ClassLabel"}}}}'}
    for part, rows in (texts | {"unsupervised": ["-"] * 2}).items():
        half = len(rows) // 2
        order = imdb.as_in_archive(half)
        table = pa.table({"text": [rows[i] for i in order], "label": [int(i >= half) for i in order]})
        for number in range(files):
            piece = table.slice(len(rows) * number // files, len(rows) // files).replace_schema_metadata(metadata)
            pq.write_table(piece, folder / "plain_text" / f"{part}-{number:05}-of-{files:05}.parquet")
    (folder / "README.md").write_text("---\nlicense: other\n---\n")
    return folder


LONG = [f"word{place % 7} of review {place}" for place in range(600)]  # blocks of the archive: 128, 128 and 44 a class


def same(one: data.Dataset, other: data.Dataset) -> bool:
    pairs = ((one.splits[part][key], other.splits[part][key]) for part in one.splits for key in ("inputs", "targets"))
    return one.copy == other.copy and all(torch.equal(*pair) for pair in pairs)


def test_a_folder_in_the_hubs_layout_and_order_is_the_same_set(tmp_path: Path) -> None:
    config = tinysets.imdb(tmp_path / "data", train=LONG)
    folder = hub_layout(tmp_path / "mine", {"train": LONG, "test": tinysets.TEST})
    wanted = data.load(config, tmp_path / "data")
    for source in (folder, tmp_path / "data"):  # in the archive's order, and in ours
        there = config | {"source": str(source)}
        data.check(there, tmp_path / "none")
        assert same(data.load(there, tmp_path / "none"), wanted)
    assert pq.read_table(folder / "plain_text" / "train-00000-of-00002.parquet")["text"][0].as_py() == LONG[127]


def test_other_rows_are_refused(tmp_path: Path) -> None:
    config = tinysets.imdb(tmp_path / "data")
    other = [*tinysets.TRAIN[:-1], "it's so so bad"]
    there = config | {"source": str(hub_layout(tmp_path / "mine", {"train": other, "test": tinysets.TEST}, 1))}
    for _ in range(2):  # nothing of them is kept
        line = tinysets.refused(there, tmp_path / "none")
        assert line.startswith(f"data.source={tmp_path}/mine has other reviews than data=imdb declares. ")
        assert line.endswith("normbench data get imdb.")


@pytest.mark.parametrize("source", ["stanfordnlp/imdb", "nobody", "parquet", "/no/such/folder"])
def test_a_source_that_is_not_here_is_one_line(tmp_path: Path, source: str) -> None:
    config = compose.choice("data", "imdb") | {"source": source}
    line = tinysets.refused(config, tmp_path)
    assert line.startswith(f"data.source={source} cannot be loaded: ") and line.endswith("normbench data get imdb.")
    with pytest.raises(NormbenchError) as caught:
        data.check(config, tmp_path)
    assert str(caught.value) == line


def test_a_source_without_the_column_is_one_line(tmp_path: Path) -> None:
    for part in ("train", "test"):
        tinysets.parquet(tmp_path / "mine" / f"{part}-0.parquet", review=["x"], label=[0])
    config = compose.choice("data", "imdb") | {"source": str(tmp_path / "mine")}
    assert "lacks the column text; it has review, label." in tinysets.refused(config, tmp_path)


def test_the_network_is_asked_only_by_its_variable() -> None:
    code = (
        "from normbench.config import compose; from normbench.data import hub; from pathlib import Path\n"
        "try: hub.parts(compose.choice('data', 'imdb') | {'source': '/none'}, Path())\n"
        "except Exception: import datasets; print(datasets.config.HF_HUB_OFFLINE)"
    )
    for value, offline in ((None, "True"), ("0", "False")):
        environment = {key: text for key, text in os.environ.items() if key != "HF_HUB_OFFLINE"}
        environment |= {} if value is None else {"HF_HUB_OFFLINE": value}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == offline


def test_what_load_dataset_kept_for_its_user(tmp_path: Path) -> None:
    """~/.cache/huggingface/datasets/someone___reviews/default/0.0.0/COMMIT/*.arrow, as an earlier load left it."""
    config = tinysets.imdb(tmp_path / "data")
    folder = hub_layout(tmp_path / "mine", {"train": tinysets.TRAIN, "test": tinysets.TEST})
    made = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "elsewhere"))
    cached = Path(made["train"].cache_files[0]["filename"]).parent
    target = tmp_path / "datasets" / "someone___reviews" / "default" / "0.0.0" / ("b" * 40)
    target.mkdir(parents=True)
    for path in cached.iterdir():
        (target / path.name.replace("mine-", "reviews-")).write_bytes(path.read_bytes())
    text = (target / "dataset_info.json").read_text()
    (target / "dataset_info.json").write_text(text.replace('"mine"', '"reviews"'))
    there = config | {"source": "someone/reviews"}
    assert same(data.load(there, tmp_path / "none"), data.load(config, tmp_path / "data"))


def test_a_source_is_no_part_of_a_run() -> None:
    without, there = (
        compose.compose(grammar.parse(["model=imdb_rnn", "data=imdb", *more]))
        for more in ([], ["data.source=stanfordnlp/imdb"])
    )
    assert there["data"]["source"] == "stanfordnlp/imdb" and identity.run_id(there) == identity.run_id(without)
    stored = compose.stored_form(without)
    del stored["data"]["source"]  # of a run from before it could be said
    assert compose.restore(stored)["data"]["source"] == ""


# -- images


def test_images_in_the_hubs_layout(tmp_path: Path) -> None:
    """No column `exact`, metadata of its own, and the official files in another order."""
    config = tinysets.cifar10(tmp_path / "data")
    wanted = data.load(config, tmp_path / "data")
    made = tinysets.pictures()
    features = {"img": {"_type": "Image"}, "label": {"dtype": "int64", "_type": "Value"}}
    swapped = [*range(30, 60), *range(30)]
    for part, order in (("train", swapped), ("test", range(30))):
        packed = pa.table({"img": tinysets.packed(made[part][list(order)]), "label": [place % 10 for place in order]})
        metadata = datasets.Features.from_dict(features).arrow_schema.metadata
        (tmp_path / "mine").mkdir(exist_ok=True)
        pq.write_table(packed.replace_schema_metadata(metadata), tmp_path / "mine" / f"{part}-0.parquet")
    there = config | {"source": str(tmp_path / "mine")}
    assert same(data.load(there, tmp_path / "none"), wanted)
    made["test"][3, 0, 0, 0] ^= 1
    labels = [place % 10 for place in range(30)]
    tinysets.parquet(tmp_path / "mine" / "test-0.parquet", img=tinysets.packed(made["test"]), label=labels)
    for _ in range(2):
        assert "has other images than data=cifar10 declares" in tinysets.refused(there, tmp_path)


# -- the real sets


def sums(loaded: data.Dataset) -> dict[str, str]:
    return {
        part: hashlib.sha256(split["inputs"].numpy().tobytes()).hexdigest()[:16]
        for part, split in loaded.splits.items()
    }


@pytest.mark.data
def test_real_arrays_are_those_before_datasets(tmp_path: Path) -> None:
    """The sums were taken when pyarrow read the files, seed 1; the sets' copies are those that developers have."""
    assert sums(data.load(compose.choice("data", "imdb"), seed=1)) == {
        "train": "d6b22c66b6e3d154",
        "valid": "73491fa42635009e",
        "test": "a1ddbf92d6c4f7b2",
    }
    loaded = data.load(config := compose.choice("data", "cifar10"), seed=1)
    if loaded.copy["sha256"] != config["declares"]["copy"]:
        pytest.skip("another copy of CIFAR-10")
    assert sums(loaded) == {"train": "aef5a55da9dc8efd", "valid": "98576c74bfa19bf5", "test": "aa1fc66335441133"}
    there = config | {"source": str(data.root() / "cifar10")}
    assert sums(data.load(there, tmp_path, seed=1)) == sums(loaded)


@pytest.mark.data
def test_real_reviews_in_the_hubs_order(tmp_path: Path) -> None:
    """What the hub's viewer shows first and last, and what shuffle(seed=42) of the hub's set begins with."""
    config = compose.choice("data", "imdb")
    rows = {part: [] for part in hub.PARTS}
    for name in config["declares"]["files"]:
        rows["train" if "train" in name else "test"] = hub.columns([data.root() / name], "text")["text"]
    order = imdb.as_in_archive(12500)
    beginnings = {
        0: "I rented I AM CURIOUS-YELLOW from my video store",
        24999: "The story centers around Barry McKenzie",
        19923: "There is no relation at all between Fortier and Profiler",
        18453: "This movie is a great. The plot is very true to the book",
        12236: 'George P. Cosmatos\' "Rambo: First Blood Part II"',
    }
    assert np.random.default_rng(42).permutation(25000)[:3].tolist() == [19923, 18453, 12236]
    for place, start in beginnings.items():
        assert rows["train"][order[place]].startswith(start)
    folder = hub_layout(tmp_path / "mine", rows)
    assert sums(data.load(config | {"source": str(folder)}, tmp_path, 1)) == sums(data.load(config, None, 1))
