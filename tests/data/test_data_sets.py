"""Every data set of the papers: declarations, the listing, the refusal to train on it, and (marked `data`) itself."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from normbench import data
from normbench.commands import data as data_command
from normbench.config import compose, grammar
from normbench.errors import NormbenchError

SETS = [name for name in compose.choices("data") if "fetch" in compose.declaration("data", name)]
PAPERS = {
    *("mnist", "binarized_mnist", "cifar10", "imdb", "iam_ondb", "sentence_eval", "sick", "books"),
    "flickr8k_captions",
}


def declares(name: str) -> dict[str, Any]:
    return compose.declaration("data", name)


def listing() -> dict[str, str]:
    """Set -> its line in `normbench data`."""
    out = io.StringIO()
    data_command.listed(None, Console(file=out, width=20))
    lines = out.getvalue().splitlines()
    assert lines.pop().startswith("looked in ")
    return {line.split()[0]: line for line in lines}


# -- declarations


def test_the_sets_of_the_papers_are_there() -> None:
    assert set(compose.choices("data")) >= PAPERS | {"digits"}
    assert set(SETS) == PAPERS - {"iam_ondb"}


@pytest.mark.parametrize("name", SETS)
def test_declaration(name: str) -> None:
    facts = declares(name)
    fetch = facts["fetch"]
    assert facts["source"] and facts["megabytes"] > 0 and (facts.get("terms") or name == "mnist")
    assert re.fullmatch("[0-9a-f]{64}", facts["sha256"])
    for path, checksum in [*facts["files"].items(), *fetch["files"].items()]:
        assert re.fullmatch("[0-9a-f]{64}|[0-9a-f]{32}", checksum)
        assert not Path(path).is_absolute() and ".." not in Path(path).parts
    for address in fetch["from"]:
        assert address.startswith("https://") and address.endswith("/")
        # A branch can change under us; a commit cannot.
        if re.search("github|jsdelivr|huggingface", address):
            assert re.search("[/@][0-9a-f]{40}/", address)


def test_no_copy_of_iam_ondb_is_named() -> None:
    text = compose.choice_path("data", "iam_ondb").read_text()
    assert re.findall(r"https?://[^/\s]+", text) == ["https://fki.tic.heia-fr.ch"]


# -- training on them


@pytest.mark.parametrize("name", [name for name in SETS if "train_size" not in declares(name)])
def test_no_model_reads_it_yet(name: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        compose.compose(grammar.parse(["model=mnist_mlp", f"data={name}"]))
    assert caught.value.code == 2
    assert str(caught.value).startswith(f"data={name} can be brought, but no model here reads it yet. (others: ")
    assert "digits" in str(caught.value) and "mnist" in str(caught.value)


def test_images_are_refused_by_a_model_of_vectors() -> None:
    with pytest.raises(NormbenchError) as caught:
        compose.compose(grammar.parse(["model=mnist_mlp", "data=cifar10"]))
    assert caught.value.code == 2
    assert str(caught.value).startswith(
        "model=mnist_mlp reads vectors, data=cifar10 has inputs of 32 x 32 x 3. (that fit: digits, mnist"
    )


def test_half_declared_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = "name: mine\ndeclares: {title: t, source: s, maths: 1, features: 4}\n"
    (tmp_path / "data" / "mine.yaml").write_text(text)
    with pytest.raises(NormbenchError, match=r"mine\.yaml.*(classes|train_size)"):
        compose.compose(grammar.parse(["model=mnist_mlp", "data=mine"]), tmp_path)


# -- the listing


def test_listing_of_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path / "none"))
    lines = listing()
    assert set(lines) == set(compose.choices("data"))
    assert lines["digits"].endswith(": ready (embedded)")
    assert lines["imdb"].endswith(": missing. Bring it with: normbench data get imdb (41 MB)")
    assert lines["mnist"].endswith(": missing. Bring it with: normbench data get mnist (11 MB)")
    assert "who ask for registration (https://fki.tic.heia-fr.ch/" in lines["iam_ondb"]
    assert not (tmp_path / "none").exists()


def test_listing_of_damaged_and_half_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path))
    for name in ("sentence_eval/rt-polarity.all", "iam_ondb/strokes.npz"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"<html>")
    lines = listing()
    assert (
        f"{tmp_path}/sentence_eval/rt-polarity.all is damaged, or of another set: its sha256 is "
        in lines["sentence_eval"]
    )
    assert "strokes.npz is damaged" in lines["iam_ondb"]
    # The neighbour in the same folder has nothing to do with it.
    assert ": missing. Bring it with: normbench data get sick" in lines["sick"]


# -- the real sets


@pytest.fixture(scope="module")
def real() -> Path:
    return data.root()


@pytest.mark.data
def test_all_real_sets_are_whole() -> None:
    lines = listing()
    for name in PAPERS:
        assert re.search(r": ready, \d+\.\d MB(;|$)", lines[name]), lines[name]


@pytest.mark.data
def test_real_sizes(real: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for part, rows in declares("imdb")["sizes"].items():
        table = pq.read_table(real / f"imdb/plain_text/{part}-00000-of-00001.parquet")
        assert table["label"].to_pylist() == [0] * (rows // 2) + [1] * (rows // 2)
    splits = pq.read_table(real / "flickr8k_captions/captions.parquet")["split"].value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in splits} == declares("flickr8k_captions")["sizes"]
    with np.load(real / "binarized_mnist/binarized_mnist.npz") as arrays:
        sizes = declares("binarized_mnist")["sizes"]
        assert {key: arrays[key].shape for key in arrays.files} == {part: (n, 98) for part, n in sizes.items()}
    for name, rows in declares("sentence_eval")["sizes"].items():
        assert (real / f"sentence_eval/{name}.tsv").read_bytes().count(b"\n") == rows + 1
    for part, rows in declares("sick")["sizes"].items():
        assert (real / f"sentence_eval/sick_{part}.tsv").read_bytes().count(b"\n") == rows + 1
    assert (real / "iam_ondb/sentences.tsv").read_bytes().count(b"\n") == 12178
    counted = {"train": [0, 0], "test": [0, 0]}
    for path in declares("cifar10")["files"]:
        table = pq.read_table(real / path, columns=["label", "exact"])
        part = Path(path).name.split("-")[0]
        counted[part][0] += len(table)
        counted[part][1] += pc.sum(pc.invert(table["exact"])).as_py()
        assert set(table["label"].to_pylist()) == set(range(10))
    assert {part: rows for part, (rows, _) in counted.items()} == declares("cifar10")["sizes"]
    if sum(approximate for _, approximate in counted.values()):
        remark = declares("cifar10")["remark"]
        assert re.findall(r"\d+", remark)[:4] == [
            str(counted["train"][1] + counted["test"][1]),
            str(sum(declares("cifar10")["sizes"].values())),
            str(counted["train"][1]),
            str(counted["test"][1]),
        ]
