"""A model and a data set of one's own, `examples/own_model` and `examples/own_data`, outside of the checkout."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import sklearn.datasets  # noqa: F401  # examples/own_data reads it: once, in the process that the others are forked off

from normbench.config import plan

SUM = hashlib.sha256(b"a,b").hexdigest()
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
    def better(*words: str, metric: str = "error") -> tuple[str, str]:
        assert normbench("compare", "--metric", metric, "--json", *words) == 0
        question = json.loads(capfd.readouterr().out)[0]["question"]
        return question["better"], question["unit"]

    train(normbench, capfd, own)
    assert better() == ("lower", "%") and better(metric="nll") == ("lower", "")
    change(
        own / "model" / "residual.yaml", "    metrics: ", "    rising: [error]\n    units: {nll: nats}\n    metrics: "
    )
    plan.forget()  # as another process would
    assert better("--config-dir", str(own)) == ("higher", "%")
    assert better("--config-dir", str(own), metric="nll") == ("lower", "nats")


METHOD = "return self.logits(x)\n\n    def {}(self, inputs, targets):\n        {}"
EVALUATE = METHOD.format("evaluate", "return {{'nll': {}, '{}': targets.float()}}")
FAULTS = {
    "own_model": [
        ("residual.py", "def build", "def make", "residual.py has no function build"),
        ("residual.py", "Any], sites: Sites", "Any]", "TypeError: build() takes 1 positional argument"),
        ("residual.py", "return Residual(", "return (", "build gives tuple, not a normbench.extend.Model"),
        ("residual.py", 'f"block', 'f"blok', "Did you mean 'block.0'? (residual.py, line 19)"),
        ("residual.py", "return self.logits(x)", EVALUATE.format("1.0", "error"), "gives nll as float"),
        (
            "residual.py",
            "return self.logits(x)",
            EVALUATE.format("targets - targets[:, None]", "error"),
            "gives nll as Tensor of shape",
        ),
        (
            "residual.py",
            "return self.logits(x)",
            EVALUATE.format("targets.float()", "eror"),
            "metrics has error, which evaluate does not give. Did you mean 'eror'?",
        ),
        ("residual.py", "return self.logits(x)", METHOD.format("forward", "return targets"), "forward gives Tensor of"),
        ("residual.py", "return self.logits(x)", METHOD.format("evaluate", "{}['a']"), "'a' (residual.py, line 30)"),
        ("residual.yaml", "shares: [error]", "shares: [eror]", "shares: 'eror' is not possible. Did you mean 'error'?"),
        (
            "residual.yaml",
            "train:\n  batch_size: 100\n  epochs: 5",
            "",
            "train.batch_size is declared but has no value: give train.batch_size=VALUE",
        ),
        ("residual.yaml", "[nll, error]", "[mse, error]", 'loss = "mse"'),
        ("residual.yaml", "  init: he_uniform", "  # init: he_uniform", "model.init"),
        ("residual.yaml", "  - /data: digits", "", "data=NAME"),
        ("residual.yaml", "file: residual.py", "file: other.py", "other.py does not exist"),
        ("residual.yaml", "    file: residual.py", "", "declares.file"),
    ],
    "own_data": [
        ("wine.py", ", root: Path, seed: int = 0", "", "TypeError: load() takes 1 positional argument"),
        ("wine.py", 'Dataset("wine", {', "dict({", "AttributeError: 'dict' object has no attribute 'splits'"),
        ("wine.py", "{name: Split(", "{name[:2]: Split(", "KeyError: 'train'"),
        ("wine.py", "targets[i])", "targets[i[1:]])", "inputs 48, targets 47. (wine.py, line 24)"),
        ("wine.py", "torch.from_numpy(classes).long()", "classes", "targets is ndarray of shape (48,), not a tensor"),
        ("wine.py", "deviation).float()", "deviation)", "RuntimeError: mat1 and mat2 must have the same dtype"),
        ("wine.py", "deviation).float()", "deviation).float() * float('nan')", "before the first update"),
        ("wine.yaml", "features: 13", "features: 12", "inputs of shape (48, 13), declares.features is 12"),
        ("wine.yaml", "of: 178", "of: 179", "100 training examples, declares.train_size is 101"),
    ],
}


@pytest.mark.parametrize(
    ("own", "file", "old", "new", "named"),
    [(own, *fault) for own, faults in FAULTS.items() for fault in faults],
    indirect=["own"],
)
def test_faults_are_named(normbench, capfd, own: Path, file: str, old: str, new: str, named: str):
    change(code(own).parent / file, old, new)
    assert normbench("train", "--config-dir", str(own), *SMALL[own.name]) != 0
    printed = capfd.readouterr()
    assert named in " ".join((printed.out + printed.err).split())


LEAVES_OUT = """NormedLinear as Layer, Sites


def NormedLinear(inputs, site, choice, act):
    return Layer(inputs, site, choice and choice.__class__(**{**vars(choice), "weight": None}), act)
"""


@pytest.mark.parametrize("own", ["own_model"], indirect=True)
def test_a_weights_normalizer_beside_another_is_never_left_out(normbench, capfd, own: Path):
    words = ("--config-dir", str(own), *SMALL[own.name], "norm.sites={block:layer,block.weight:weight}")
    assert normbench("train", *words) == 0
    change(code(own).parent / "residual.py", "NormedLinear, Sites\n", LEAVES_OUT)
    assert normbench("train", *words) == 2
    assert "residual.py: the layer at 'block.0' leaves weight of its weight out." in capfd.readouterr().out


@pytest.mark.parametrize("own", ["own_data"], indirect=True)
@pytest.mark.parametrize(
    ("declared", "content", "named"),
    [
        ("", b"a,b", "1 done"),
        (SUM, b"a,b", "1 done"),
        (
            SUM,
            b"a,c",
            f"is damaged, or of another set: its sha256 is {hashlib.sha256(b'a,c').hexdigest()} instead of {SUM}",
        ),
        (SUM, None, "Place it at {}/wine.csv"),
        ("abc", b"a,b", "declares.files.wine.csv: 'abc' must be an md5 or sha256"),
    ],
)
def test_a_file_of_ones_own_in_any_format(
    normbench, capfd, own: Path, monkeypatch, declared: str, content: bytes | None, named: str
):
    monkeypatch.setenv("NORMBENCH_DATA", str(own))
    if content is not None:
        (own / "wine.csv").write_bytes(content)
    change(own / "data" / "wine.yaml", "files: {}", f"files: {{wine.csv: {declared}}}")
    normbench("train", "--config-dir", str(own), *SMALL[own.name])
    printed = capfd.readouterr()
    assert named.format(own) in " ".join((printed.out + printed.err).split())
    assert "data get" not in printed.err


def test_the_normalizer_in_the_readme_trains(normbench, capfd, tmp_path: Path):
    (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(), re.DOTALL)
    (tmp_path / "squash.py").write_text(block)
    words = ("model=mnist_mlp", "data=digits", "model.hidden_sizes=[4]", "train.epochs=1", "norm=squash.py")
    assert normbench("train", *words) == 0
    assert " squash " in capfd.readouterr().out
    assert normbench("train", *words[:-1], "norm=none") == 0
    assert normbench("compare", "model=mnist_mlp") == 0
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("to decide")]
    assert "norm=none,squash" in line or "norm=squash,none" in line
    assert line.endswith("/results/own"), "where train keeps it"
