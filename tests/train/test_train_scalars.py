"""Numbers that a model or a normalizer logs in training are metrics like others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from normbench.compare import answer
from normbench.compare.groups import tasks
from normbench.compare.question import Question, value
from normbench.errors import NormbenchError
from normbench.models.mnist_mlp import MnistMLP
from normbench.runs import directory, pack
from normbench.runs.directory import RunDirectory, place
from normbench.runs.table import Runs
from normbench.train.train_one import ensure_run

NODE = (
    "{name: own, sites: null, preceding_bias: site, declares: {title: t, source: s, maths: 1, file: own.py, "
    "kinds: [pre_activation], axes: [batch, feature], options: {}}}"
)
CODE = '''
from torch import nn
from normbench.norms.scalars import Scalars

class Own(nn.Module, Scalars):
    """A plain module that logs in whatever pass it is called."""

    def __init__(self, features):
        super().__init__()

    def forward(self, x):
        self.log("NAME", VALUE)
        return x
'''


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Any]:
    def made(*words: str, name: str = "spread", value: str = "x.std()") -> Any:
        """The tiny run with a user's normalizer that logs this value under this name."""
        folder = tmp_path / "conf" / "norm"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "own.yaml").write_text(NODE)
        (folder / "own.py").write_text(CODE.replace("NAME", name).replace("VALUE", value))
        return tiny.spec("norm=own", *words, config_dir=tmp_path / "conf")

    return made


def logged(folder: Path, name: str) -> dict[int, Any]:
    """The logged numbers by epoch."""
    records = tiny.curve(folder)
    found = [record for record in records if name in record]
    assert {(record["split"], record["mode"]) for record in found} <= {("train", "both")}
    return {record["epoch"]: record[name] for record in found}


def test_an_evaluation_has_the_mean_since_the_one_before(
    spec: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both passes of the updates; what is logged in evaluations is no part of it."""
    seen: list[int] = []
    forward = MnistMLP.forward

    def watched(self: MnistMLP, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = forward(self, inputs, targets)
        loss.register_hook(lambda gradient: self.log("rows", gradient * len(targets)))
        self.log("update", (seen.append(len(targets)), len(seen))[1])
        return loss

    monkeypatch.setattr(MnistMLP, "forward", watched)
    run = tmp_path / "run"
    assert ensure_run(spec("train.epochs=3"), RunDirectory(run)) == "done"
    assert seen == [210, 210, 210, 210, 210, 150] * 3
    assert logged(run, "update") == {1: 3.5, 2: 9.5, 3: 15.5}
    assert logged(run, "rows") == {1: 200, 2: 200, 3: 200}
    spread = logged(run, "spread")
    assert spread.keys() == {1, 2, 3} and len({*spread.values()}) == 3


def test_an_interrupted_run_logs_the_same_to_the_byte(spec: Callable[..., Any], tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    assert ensure_run(spec(), RunDirectory(calm)) == "done" and logged(calm, "spread").keys() == {1, 2}
    for stop in (1, 4, 6, 8):
        run = RunDirectory(tmp_path / f"stopped {stop}")
        assert ensure_run(spec(), run, stopping=tiny.after(stop)) == "interrupted"
        assert ensure_run(spec(), run) == "done" and tiny.result(run.path) == tiny.result(calm), stop


def test_it_is_compared_like_others(spec: Callable[..., Any], tmp_path: Path) -> None:
    specs = [spec(f"seed={seed}") for seed in (1, 2)]
    for one in specs:
        ensure_run(one, RunDirectory(place(tmp_path / "runs", one)))
    (task,) = tasks(Runs(tmp_path).find(specs))
    question = Question.of(task, {"split": "train", "metric": "spread"})
    for run in task.runs:
        (folder,) = (tmp_path / "runs").glob(f"**/*{run.id}")
        assert value(run, question) == logged(folder, "spread")[2]
    assert answer.compare(task, question).groups
    path = tmp_path / "pack.jsonl.gz"
    pack.write(path, task.runs)
    assert [run.records for run in pack.read(path).runs] == [run.records for run in task.runs]


@pytest.mark.parametrize(("value", "stored"), [("float('nan')", "NaN"), ("1e300", "Infinity")])
def test_numbers_that_no_curve_has_are_words(value: str, stored: str, spec: Callable[..., Any], tmp_path: Path) -> None:
    """They end nothing, and a run that is interrupted has them too."""
    run = RunDirectory(tmp_path / "run")
    assert ensure_run(spec(value=value), run, stopping=tiny.after(3)) == "interrupted"
    assert ensure_run(spec(value=value), run) == "done"
    assert logged(run.path, "spread") == {1: stored, 2: stored}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "1") for name in ("nll", "error", "step", "clipped", "two words", "1st", "")),
        *(("spread", value) for value in ("x", "x.std(0)", "[1]", "None")),
    ],
)
def test_what_cannot_be_a_metric_is_refused_in_one_line(
    name: str, value: str, spec: Callable[..., Any], tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(NormbenchError, match=rf"^log\('{name}'\): [^\n]*$"):
        ensure_run(spec(name=name, value=value), run)
    assert directory.read_json(run.path)["status"] == "failed"
