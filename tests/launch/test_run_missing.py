"""Runs that are ensured: what a launcher is asked for, and what it never hears of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest
import tiny

from normbench.config import compose, plan
from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.launch import base, pace
from normbench.launch.base import Outcome
from normbench.launch.run_missing import ensure_runs
from normbench.runs import directory
from normbench.runs.table import Runs


class Made:
    """A launcher that makes runs up."""

    processes = 1
    is_local = True

    def __init__(self) -> None:
        self.launches: list[list[int]] = []

    def launch(
        self, specs: Sequence[Spec], root: Path, listen: Any = None, deadline: float = 0.0
    ) -> tuple[dict[str, Outcome], bool]:
        self.launches.append([spec.seed for spec in specs])
        for spec in specs:
            if not directory.place(root, spec).exists():
                fake.directory(root, spec)
        return {spec.id: Outcome("done") for spec in specs}, False


def test_only_what_is_missing_is_launched(tmp_path: Path) -> None:
    done, damaged, failed, fresh = specs = fake.specs(4)
    fake.directory(tmp_path / "runs", done)
    (fake.directory(tmp_path / "runs", damaged) / "run.json").write_text("{")
    fake.directory(tmp_path / "runs", failed, "failed")
    launcher, stored = Made(), Runs(tmp_path)
    nothing = ensure_runs(specs, launcher, stored, seconds=0)
    assert not nothing.outcomes and not launcher.launches
    ensured = ensure_runs(specs, launcher, stored)
    assert nothing.missing == ensured.missing == [failed, fresh] and launcher.launches == [[3, 4]]
    assert [stored.state(spec) for spec in (done, damaged, fresh)] == ["done", "damaged", "done"]


def test_a_time_to_stop_is_refused_where_runs_are_left_to_others(tmp_path: Path) -> None:
    launcher = Made()
    launcher.is_local = False
    with pytest.raises(NormbenchError, match="--max-time ends runs that this command trains"):
        ensure_runs(fake.specs(1), launcher, Runs(tmp_path), seconds=60)
    assert not launcher.launches and not list(tmp_path.iterdir())


def test_missing_data_are_reported_before_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path / "nowhere"))
    launcher = Made()
    with pytest.raises(NormbenchError, match="Bring it with: normbench data get mnist"):
        ensure_runs([tiny.spec("seed=1"), tiny.spec("data=mnist")], launcher, Runs(tmp_path / "results"))
    assert not launcher.launches and not (tmp_path / "results").exists()


def test_a_launcher_is_made_with_its_options() -> None:
    assert base.load({"name": "local", "jobs": 1}).processes == 1


def test_how_long_runs_take_is_predicted_by_similar_runs_else_by_their_experiment() -> None:
    spec = tiny.spec("norm=none")
    labels = {"experiment": "ln2016/fig6", "fidelity": "smoke", "axes": {"train.batch_size": 4}}
    timed = [fake.record(spec, seconds=seconds, steps=20, **labels) for seconds in (2.0, 4.0, 60.0)]
    four = replace(spec, **labels)
    more = replace(four, axes={"train.batch_size": 128})
    other = replace(four, config={**four.config, "model": {**four.config["model"], "name": "lenet5"}})
    median = 0.2 * spec.steps
    assert pace.seconds([four, four], timed, None) == pytest.approx(2 * median)
    (declared,) = (plan.experiment("ln2016/fig6").fidelities["smoke"].seconds,)
    for unlike in (more, other):
        assert pace.seconds([four, unlike], timed, None) == pytest.approx(median + declared)
    assert pace.seconds([four, replace(four, fidelity="paper", axes={})], timed, None) is None


@pytest.mark.parametrize("name", [n for n in compose.choices("experiment") if "smoke" in plan.experiment(n).fidelities])
def test_every_smoke_run_says_how_long_it_takes(name: str) -> None:
    model = plan.model_of(name)
    assert plan.experiment(name).fidelities["smoke"].seconds or (model and compose.is_probe(model))
