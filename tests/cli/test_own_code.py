"""A model and a data set of one's own, `examples/own_model` and `examples/own_data`, outside of the checkout."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from normbench.config import compose

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "own_model": ("model=residual", "norm=layer", "train.epochs=1"),
    "autoencoder": ("model=autoencoder", "norm=layer", "train.epochs=1"),
    "own_data": ("model=mnist_mlp", "data=wine", "model.hidden_sizes=[4]", "train.epochs=1", "train.batch_size=50"),
}


@pytest.fixture(params=SMALL)
def own(request, tmp_path: Path) -> Path:
    folder = {"autoencoder": "own_model"}.get(request.param, request.param)
    return Path(shutil.copytree(EXAMPLES / folder, tmp_path / request.param))


def code(own: Path) -> Path:
    (path,) = (path for path in own.glob("*/*.py") if any(w.endswith(f"={path.stem}") for w in SMALL[own.name]))
    return path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def train(normbench, capfd, own: Path) -> tuple[int, dict[str, Any]]:
    ended = normbench("train", "--config-dir", str(own), *SMALL[own.name], "--json")
    return ended, json.loads(capfd.readouterr().out)["runs"][0]


def test_it_trains_is_checked_and_is_another_run_once_it_is_changed(normbench, capfd, own: Path):
    ended, first = train(normbench, capfd, own)
    assert ended == 0 and train(normbench, capfd, own)[1]["id"] == first["id"]
    assert normbench("check", "--config-dir", str(own)) == 0
    assert "whole" in capfd.readouterr().out
    change(code(own), '"""', '"""Changed: ')
    assert normbench("check", "--config-dir", str(own)) == 0
    assert "whole" in capfd.readouterr().out, "the run is what it was"
    ended, second = train(normbench, capfd, own)
    assert ended == 0 and second["id"] != first["id"]


@pytest.mark.parametrize("own", ["own_model"], indirect=True)
def test_which_way_is_better_is_stored_with_the_run_and_may_be_corrected(normbench, capfd, own: Path) -> None:
    def better(*words: str) -> tuple[str, str]:
        assert normbench("compare", "--metric", "error", "--json", *words) == 0
        question = json.loads(capfd.readouterr().out)[0]["question"]
        return question["better"], question["unit"]

    train(normbench, capfd, own)
    assert better() == ("lower", "%")
    change(own / "model" / "residual.yaml", "    metrics: ", "    rising: [error]\n    metrics: ")
    compose.forget()  # as another process would
    assert better("--config-dir", str(own)) == ("higher", "%")


@pytest.mark.parametrize("own", ["own_model"], indirect=True)
@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("residual.py", "def build", "def make", "residual.py has no function build"),
        ("residual.py", 'f"block', 'f"blok', "Did you mean 'block.0'?"),
        ("residual.yaml", "  init: he_uniform", "  # init: he_uniform", "model.init"),
        ("residual.yaml", "  - /data: digits", "", "data=NAME"),
        ("residual.yaml", "file: residual.py", "file: other.py", "other.py does not exist"),
        ("residual.yaml", "    file: residual.py", "", "declares.file"),
    ],
)
def test_faults_are_named(normbench, capfd, own: Path, file: str, old: str, new: str, named: str):
    change(own / "model" / file, old, new)
    assert normbench("train", "--config-dir", str(own), *SMALL[own.name]) != 0
    printed = capfd.readouterr()
    assert named in " ".join((printed.out + printed.err).split())


def test_the_normalizer_in_the_readme_trains(normbench, capfd, tmp_path: Path):
    (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(), re.DOTALL)
    (tmp_path / "squash.py").write_text(block)
    words = ("model=mnist_mlp", "data=digits", "model.hidden_sizes=[4]", "train.epochs=1", "norm=squash.py")
    assert normbench("train", *words) == 0
    assert " squash " in capfd.readouterr().out
