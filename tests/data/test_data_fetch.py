"""`normbench data get`: addresses that are dead, hang, lie or break off; what it fetches is read."""

from __future__ import annotations

import hashlib
import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tinysets
import torch
from rich.console import Console
from servers import Handler

from normbench import data
from normbench.commands import data as data_command
from normbench.config import compose
from normbench.data import captions, files
from normbench.errors import NormbenchError
from normbench.sentences import sets

IMAGES = "train-images-idx3-ubyte.gz"
HANGING = (Handler.hang_halfway,)  # only this is waited for: a busy machine answers late


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def fetched(config: dict[str, Any], *addresses: str) -> dict[str, Any]:
    """The same set, from these addresses."""
    return config | {"declares": config["declares"] | {"fetch": config["declares"]["fetch"] | {"from": addresses}}}


def public(config: dict[str, Any], bodies: dict[str, bytes], *addresses: str) -> dict[str, Any]:
    """The same set, of which these files can be fetched."""
    sums = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}
    fetch = {"from": addresses, "files": sums}
    return config | {"declares": config["declares"] | {"megabytes": 1, "fetch": fetch}}


def get(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the command prints."""
    out = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(compose, "choice", lambda group, name, config_dir: config)
        data_command.get(config["name"], Console(file=out, width=20))
    return out.getvalue().splitlines()


def complete(folder: Path, made: dict[str, bytes]) -> bool:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == made


def test_a_fresh_folder(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mirror()
    config = fetched(config, server.url)
    config["declares"]["terms"] = "to be read"
    lines = [f"brought {folder / name}" for name in config["declares"]["files"]]
    assert get(config, monkeypatch) == [*lines, "terms of use: to be read"]
    assert complete(folder, made)
    assert len(data.load(config).splits["test"]) == 20
    assert get(config, monkeypatch) == [f"mnist is complete below {folder}"]
    assert len(server.asked) == 4


def test_only_what_is_missing(config: dict[str, Any], raw: Path, mirror: Any, made: dict[str, bytes]) -> None:
    (raw / IMAGES).unlink()
    server = mirror()
    assert list(files.fetch(fetched(config, server.url), raw.parents[1])) == [raw / IMAGES]
    assert server.asked == [IMAGES] and complete(raw, made)


def test_a_damaged_file_is_the_users(
    config: dict[str, Any], root: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORMBENCH_DATA", str(root))
    (root / "MNIST/raw" / IMAGES).write_bytes(b"<html>")
    with pytest.raises(NormbenchError, match=r"is damaged, or of another set.*Move it away"):
        get(fetched(config, mirror().url), monkeypatch)
    assert (root / "MNIST/raw" / IMAGES).read_bytes() == b"<html>"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Handler.html, "MD5 hash of downloaded file"),
        (Handler.missing, "404"),
        (Handler.hang_halfway, "timed out"),
        (Handler.breaks_off, "IncompleteRead|MD5"),
    ],
)
def test_bad_addresses(
    config: dict[str, Any],
    folder: Path,
    mirror: Any,
    dead: str,
    made: dict[str, bytes],
    bad: Any,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "TIMEOUT", 0.2 if bad in HANGING else 20)
    address = mirror(bad).url
    with pytest.raises(NormbenchError) as caught:
        list(files.fetch(fetched(config, dead, address), folder))
    line, target = str(caught.value), folder / "MNIST" / "raw" / IMAGES
    assert caught.value.code == 2 and "\n" not in line
    assert line.startswith(f"{IMAGES} could not be fetched ({dead}: ") and f"; {address}: " in line
    assert re.search(reason, line)
    md5 = config["declares"]["files"][f"MNIST/raw/{IMAGES}"]
    assert line.endswith(f"Try again later, or place it at {target} by hand (md5 {md5}).")
    assert complete(folder, {})
    monkeypatch.setattr(files, "TIMEOUT", 1 if bad in HANGING else 20)
    list(files.fetch(fetched(config, address, mirror().url), folder))
    assert complete(folder, made)


def test_several_at_once(config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes]) -> None:
    config = fetched(config, mirror().url)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: list(files.fetch(config, folder)), range(3)))
    assert complete(folder, made)


# -- public files of another form are the same set


def same(one: data.Dataset, other: data.Dataset) -> bool:
    pairs = [
        (split[key], other.splits[part][key]) for part, split in one.splits.items() for key in ("inputs", "targets")
        if key in split.tensors
    ]  # fmt: skip
    return bool(pairs) and one.copy == other.copy and all(torch.equal(*pair) for pair in pairs)


def test_binarized_mnist_as_text(tmp_path: Path, folder: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config, bodies = tinysets.binarized_mnist(tmp_path), {}
    with np.load(tmp_path / "binarized_mnist/binarized_mnist.npz") as arrays:
        for part in ("train", "valid", "test"):
            rows = np.unpackbits(arrays[part], axis=1)
            text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
            bodies[f"binarized_mnist/binarized_mnist_{part}.amat"] = text.encode()
    config = public(config, bodies, mirror(files={Path(name).name: body for name, body in bodies.items()}).url)
    wanted = data.load(config, tmp_path)
    assert len(get(config, monkeypatch)) >= 3
    assert same(data.load(config), wanted)


def test_images_and_reviews_of_the_hub(
    tmp_path: Path, folder: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, column in (("cifar10", "img"), ("imdb", "text")):
        config = tinysets.write(name, tmp_path)
        wanted = data.load(config, tmp_path)
        bodies = {}
        for part in ("train", "test"):
            paths = [tmp_path / path for path in config["declares"]["files"] if Path(path).name.startswith(part)]
            table = pa.concat_tables([pq.read_table(path, columns=[column, "label"]) for path in paths])
            pq.write_table(table, tmp_path / "x")
            bodies[f"{name}/plain_text/{part}-00000-of-00001.parquet"] = (tmp_path / "x").read_bytes()
        config = public(config, bodies, mirror(files={Path(path).name: body for path, body in bodies.items()}).url)
        get(config, monkeypatch)
        assert same(data.load(config), wanted)


def test_captions_as_text(tmp_path: Path) -> None:
    names = ["c.jpg", "a.jpg", "b.jpg", "d.jpg"]
    lines = [f"{name}#{place}\tcaption {place} of {name} ." for name in names for place in range(5)]
    lines[0] = lines[0].replace("c.jpg#", "c.jpg.1#")  # as one line of the official file
    bodies = {"Flickr8k.token.txt": "\n".join(lines) + "\n", "Flickr_8k.trainImages.txt": "b.jpg\nc.jpg\n",
              "Flickr_8k.devImages.txt": "d.jpg\n", "Flickr_8k.testImages.txt": ""}  # fmt: skip
    for name, body in bodies.items():
        (tmp_path / name).write_text(body)
    rows = captions._rows_of_text(*(tmp_path / name for name in bodies))
    assert rows["split"] == ["train", "", "train", "dev"]
    assert rows["captions"][0] == [f"caption {place} of c.jpg ." for place in range(5)]


def test_labelled_sentences_as_text(tmp_path: Path) -> None:
    bodies = {"rt-polarity.all": b"0 simplistic , silly . \n1 caf\xe9 \x85 fine\n", "custrev.all": b"1 good\n0 \n",
              "subj.all": b"0 a\n", "mpqa.all": b"1 b\n"}  # fmt: skip
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
    row = "1\tA dog\tNo dog\t3.5\tCONTRADICTION\r\n"
    bodies |= {f"SICK_{part}.txt": (head + row).encode() for part in ("train", "trial", "test_annotated")}
    (tmp_path / "sentence_eval").mkdir()
    for name, body in bodies.items():
        (tmp_path / "sentence_eval" / name).write_bytes(body)
    assert sets.read("mr", tmp_path).all == ["simplistic , silly .", "café \u0085 fine"]
    assert sets.read("cr", tmp_path).targets["cr"].tolist() == [1, 0] and sets.read("subj", tmp_path).all == ["a"]
    sick = sets.read("sick", tmp_path)
    assert sick.sentences["test_b"] == ["No dog"] and sick.targets["train"].tolist() == [3.5]
