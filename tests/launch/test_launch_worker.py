"""Workers of a plan: each trains its shard, each run is trained once even if workers stop or die."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import child
import fake
import pytest
import tiny

from normbench.commands import worker
from normbench.config.identity import code
from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.launch import queue, run_one
from normbench.launch.base import KILLED, STOPPED
from normbench.launch.plan import PlanWriter
from normbench.launch.pool import Pool
from normbench.runs import directory, pack, plans
from normbench.runs.run import Run
from normbench.runs.table import Runs

LONG = ("train.batch_size=4", "train.epochs=3000")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", child.path())
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)


def planned(specs: list[Spec], results: Path) -> plans.Plan:
    PlanWriter().launch(specs, results / "runs")
    (path,) = (results / "plans").iterdir()
    return plans.read(path)


def started(plan: plans.Plan, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "normbench", "worker", str(plan.path), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def worked(plan: plans.Plan, shard: str = "0/1") -> int:
    return worker.command(plan.path, plan.results, shard)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [("0/1", "0/1"), ("0/2", "1/2")])
def test_two_workers_at_once_train_each_run_once(tmp_path: Path, shards: tuple[str, str]) -> None:
    """All the runs each, or a shard each. Their curves are the pool's."""
    specs = [tiny.spec("train.batch_size=20", f"seed={seed}") for seed in range(1, 5)]
    plan = planned(specs, tmp_path)
    workers = [started(plan, "--shard", shard) for shard in shards]
    first, second = (re.findall(r"([0-9a-f]{12}) done", one.communicate(timeout=120)[0]) for one in workers)
    found = {run.id: run for run in Runs(tmp_path).raw}
    assert {run.id for run in specs} == {run for run in found if found[run].status == "done"} == {*first, *second}
    assert all(tiny.trained_once(run.path) and not directory.is_locked(run.path) for run in found.values())
    if shards[0] != shards[1]:
        assert [first, second] == [[specs[0].id, specs[2].id], [specs[1].id, specs[3].id]]  # dealt in turn
    Pool(1).launch(specs[:1], tmp_path / "pool" / "runs")
    for run in Runs(tmp_path / "pool").raw:
        assert found[run.id].curve_sha256 == run.curve_sha256


def begun(results: Path, seeds: int) -> tuple[subprocess.Popen[str], plans.Plan, Run]:
    """A worker in the middle of its first run."""
    plan = planned([tiny.spec(*LONG, f"seed={seed}") for seed in range(1, seeds + 1)], results)
    first = started(plan)
    assert tiny.wait_until(lambda: any((results / "runs").glob("*/*/timing.jsonl")))
    (run,) = Runs(results).raw
    return first, plan, run


@pytest.mark.slow
def test_a_stopped_worker_saves_and_reports_what_is_left(tmp_path: Path) -> None:
    first, _, _ = begun(tmp_path, 2)
    first.send_signal(signal.SIGTERM)
    first.send_signal(signal.SIGTERM)  # a batch system may send it twice
    assert "2 of 2 runs are left" in first.communicate(timeout=30)[0]
    assert first.returncode == STOPPED
    (run,) = Runs(tmp_path).raw
    assert run.status == "interrupted" and run.step and not directory.is_locked(run.path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_worker_outlives_the_process_that_trains(tmp_path: Path, number: signal.Signals) -> None:
    """A run that was killed is left, and one that was saved is: the worker's exit code says that."""
    first, _, run = begun(tmp_path, 1)
    os.kill(tiny.writer(run.path), number)
    assert "1 of 1 runs are left" in first.communicate(timeout=60)[0]
    assert first.returncode == KILLED
    (run,) = Runs(tmp_path).raw
    assert bool(run.step) == (number == signal.SIGTERM)


@pytest.mark.slow
def test_a_run_whose_process_was_killed_with_its_worker_is_taken_over_at_once(tmp_path: Path) -> None:
    first, plan, run = begun(tmp_path, 1)
    for process in (killed := tiny.writer(run.path), first.pid):
        os.kill(process, signal.SIGKILL)
    first.wait()
    assert tiny.wait_until(lambda: not directory.is_locked(run.path))
    again = started(plan)
    assert tiny.wait_until(lambda: directory.is_locked(run.path) and tiny.writer(run.path) != killed)
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == STOPPED


def test_a_damaged_copy_of_a_published_run_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spec,) = fake.specs(1)
    (fake.directory(tmp_path / "runs", spec) / "run.json").write_text("{")
    pack.write(tmp_path / "p" / "a" / "paper" / pack.NAME, [fake.record(spec)])
    assert worked(planned([spec], tmp_path)) == 0 and "damaged" not in capsys.readouterr().out


def test_a_run_is_tried_once_a_plan_and_damage_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done, damaged, failed = fake.specs(3)
    fake.directory(tmp_path / "runs", done)
    (fake.directory(tmp_path / "runs", damaged) / "run.json").write_text("{")
    path = fake.directory(tmp_path / "runs", failed, "failed")
    time.sleep(0.02)
    plan = planned([done, damaged, failed], tmp_path)
    assert not queue.failed_since(plan, failed)
    time.sleep(0.02)
    os.utime(path / "run.json")
    assert worked(plan) == 4
    assert f"{damaged.id} damaged: " in capsys.readouterr().out
    assert directory.read_json(path)["status"] == "failed" and not directory.is_locked(path)


@pytest.mark.parametrize("shard", ["1/1", "0", "a/2", "-1/2", "0/0"])
def test_a_shard_that_is_none(shard: str, tmp_path: Path) -> None:
    with pytest.raises(NormbenchError, match=re.escape(shard)):
        worked(planned([tiny.spec()], tmp_path), shard)


def test_every_run_is_in_one_shard(tmp_path: Path) -> None:
    plan = planned(fake.specs(7), tmp_path)
    dealt = Counter(run["id"] for number in range(3) for run in plan.shard(number, 3))
    assert dealt == {run["id"]: 1 for run in plan.runs}


def test_a_refused_run_stops_no_other(tmp_path: Path) -> None:
    done, other = fake.specs(2)
    fake.directory(tmp_path / "runs", done)
    refused = other.to_json()
    refused["maths"] = {**refused["maths"], "model": {**refused["maths"]["model"], "file": "0" * 64}}
    refused["config"] = {**other.config, "model": {**other.config["model"], "declares": {"file": __file__}}}
    plan = plans.new([done.to_json(), refused], tmp_path, code())
    plan.write()
    assert worked(plan) == 4


def test_a_failure_of_an_unfinished_run_is_recorded(tmp_path: Path) -> None:
    path = fake.directory(tmp_path, tiny.spec("train.epochs=9"), "running", epochs=5)
    try:
        raise ValueError("no")
    except ValueError:
        run_one._record_failure(directory.RunDirectory(path), "no")
    assert directory.read_json(path)["status"] == "failed"


def test_a_plan_of_another_version_or_other_code_is_refused(tmp_path: Path) -> None:
    plan = planned([tiny.spec()], tmp_path)
    assert plans.load(plan.path / "plan.json", code()).runs == plan.runs
    assert planned([tiny.spec()], tmp_path) == plan  # the same name
    content = (plan.path / "plan.json").read_text()
    for text in (*(json.dumps(json.loads(content) | change) for change in ({"schema": 9}, {"runs": []})), "{"):
        (plan.path / "plan.json").write_text(text)
        with pytest.raises(NormbenchError, match=str(plan.path)) as refused:
            plans.load(plan.path, code())
        assert refused.value.code == 2
    (plan.path / "plan.json").write_text(content)
    for path, other in ((plan.path, "0" * 12), (tmp_path / "plans" / "nowhere", code())):
        with pytest.raises(NormbenchError, match=str(path)):
            plans.load(path, other)
