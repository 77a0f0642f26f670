"""How a run is evaluated changes no byte of its weights, and a kill none of its curve, whatever normalizer it has."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from devices import needs_cuda

from normbench.config import compose
from normbench.config.plan import train_specs
from normbench.runs.directory import RunDirectory
from normbench.train import checkpoint
from normbench.train.train_one import ensure_run

FILE = Path(__file__).with_name("odd.py")
PRESETS = [
    n for n in compose.choices("norm") if "like" in compose.declaration("norm", n)
]  # their runs are others' runs
ODD = [line.split('"')[1] for line in FILE.read_text().splitlines() if line.startswith("@normalizer")]
SMALL = ("data.fraction=0.05", "train.batch_size=40", "train.epochs=2", "eval.strides={test: 20}")
IMAGES = ("model=lenet5", "data=coloured_digits", "norm.sites=[conv]", *SMALL)
EVALUATIONS = (
    ("eval.strides={train: 0, test: 7}", "eval.reshuffles=2"),
    ("eval.unit=updates", "eval.every=5", "eval.also_after=[1]", "eval.test=lowest"),
)


def quick(name: str) -> Any:
    """A convolutional network takes ten times as long; what does the same in training and evaluation has no trace."""
    facts = {"mode_dependent": True} if name in ODD else compose.declaration("norm", name)
    of_images = name == "images" or "space" in (facts.get("needs") or [])
    return pytest.param(name, marks=pytest.mark.slow) if of_images or not facts.get("mode_dependent") else name


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "conf" / "norm"
    folder.mkdir(parents=True)
    shutil.copy(FILE, folder)
    for name in ODD:
        kinds, axes = "pre_activation, post_activation", "batch, feature" + ", space" * (name == "images")
        (folder / f"{name}.yaml").write_text(
            f"{{name: {name}, sites: null, preceding_bias: site, declares: {{title: t, source: s, maths: 1, "
            f"file: odd.py, kinds: [{kinds}], axes: [{axes}], mode_dependent: true, options: {{}}}}}}"
        )
    return folder.parent


@pytest.fixture
def train(tmp_path: Path, config_dir: Path) -> Callable[..., RunDirectory]:
    """Trains with a normalizer until it is interrupted, at the update of that number."""

    def trained(folder: str, name: str, *words: str, stop: int = 0) -> RunDirectory:
        facts = {} if name in ODD else compose.declaration("norm", name)
        of_images = name == "images" or "space" in (facts.get("needs") or [])
        before = ["norm.sites=[summed.conv]"] if facts.get("replaces") else []
        setting = [*(IMAGES if of_images else tiny.WORDS), *before]
        (spec,) = train_specs([*setting, f"norm={name}", *words], False, config_dir)
        run = RunDirectory(tmp_path / folder)
        status = ensure_run(spec, run, stopping=tiny.after(stop) if stop else lambda: False)
        assert status == ("interrupted" if stop else "done")
        return run

    return trained


@pytest.mark.thinned(1)
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("words", EVALUATIONS)
@pytest.mark.parametrize("name", [quick(name) for name in [*compose.choices("norm"), *ODD] if name not in PRESETS])
def test_neither_an_evaluation_nor_a_kill_changes_the_training(
    name: str, words: tuple[str, ...], train: Callable[..., RunDirectory]
) -> None:
    curve, weights = tiny.result(train("calm", name).path)
    torch.rand(1)  # what this process has drawn before does not matter
    assert tiny.result(train("evaluated", name, *words).path)[1] == weights
    train("killed", name, stop=random.Random(name).randint(1, 11))
    torch.rand(1)
    assert tiny.result(train("killed", name).path) == (curve, weights)


@needs_cuda
@pytest.mark.parametrize("name", ["dropped", "batch_layer"])
def test_so_it_is_on_cuda(name: str, train: Callable[..., RunDirectory]) -> None:
    cuda = "device=cuda"
    curve, weights = tiny.result(train("calm", name, cuda).path)
    assert tiny.result(train("evaluated", name, cuda, *EVALUATIONS[0]).path)[1] == weights
    killed = train("killed", name, cuda, stop=5).path
    _, tensors = checkpoint.read(killed) or ({}, {})
    assert {key for key in tensors if key.startswith("torch:")} == {"torch:cpu", "torch:cuda"}
    torch.rand(1, device="cuda")
    assert tiny.result(train("killed", name, cuda).path) == (curve, weights)


@pytest.mark.parametrize(
    ("norm", "word"),
    [
        ("batch", "eval.variants=['eval_stats=batch']"),
        ("batch_layer", "eval.variants=[FFFF,TTTT]"),
        ("batch_layer", "eval.also_at_best=['populations=recalibrated']"),
    ],
)
def test_variants_are_evaluated_without_a_trace(norm: str, word: str, train: Callable[..., RunDirectory]) -> None:
    assert tiny.result(train("more", norm, word).path)[1] == tiny.result(train("calm", norm).path)[1]


def test_a_checkpoint_without_torchs_generator_is_gone_on_with(train: Callable[..., RunDirectory]) -> None:
    """One of before: what draws nothing ends as ever, what draws goes on from the seed."""
    for name in ("batch", "dropped"):
        run = train(name, name, stop=5)
        progress, tensors = checkpoint.read(run.path) or ({}, {})
        assert [key for key in tensors if key.startswith("torch:")] == ["torch:cpu"]
        checkpoint.write(run.path, progress, {k: v for k, v in tensors.items() if not k.startswith("torch:")})
        same = tiny.result(train(name, name).path) == tiny.result(train(f"{name} calm", name).path)
        assert same == (name == "batch")
