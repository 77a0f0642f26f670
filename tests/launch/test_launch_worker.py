"""Workers of a plan: each trains its shard, each run is trained once even if workers stop or die."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import child
import fake
import pytest
import tiny

from normbench.commands import worker
from normbench.config.spec import Spec
from normbench.errors import BadInput, NormbenchError
from normbench.launch import plan, process
from normbench.launch.plan import Plan
from normbench.launch.pool import Pool
from normbench.runs import directory, pack
from normbench.runs.table import Runs


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", child.path())


def planned(specs: list[Spec], results: Path) -> Plan:
    return plan.read(plan.write(specs, results).path)


def worked(planned: Plan, shard: str = "0/1") -> int:
    return worker.command(planned.path, shard)


PATH = "results/plans/1a2b3c4d5e6f"  # in the help


def line_of_help() -> str:
    """With `xargs`."""
    (line,) = (line for line in worker.EPILOG.splitlines() if "xargs" in line)
    return line.partition("    ")[0]


@pytest.mark.slow
@pytest.mark.parametrize("line", [line_of_help(), f"seq 2 | xargs -P 2 -I{{}} normbench worker {PATH}"])
def test_workers_at_once_train_each_run_once(tmp_path: Path, line: str) -> None:
    """A shard each, or all the runs each. Their curves are the pool's."""
    specs = [tiny.spec("train.batch_size=20", f"seed={seed}") for seed in range(1, 6)]
    path = planned(specs, tmp_path).path
    line = line.replace("normbench", f"{sys.executable} -m normbench").replace(PATH, str(path))
    subprocess.run(["bash", "-o", "pipefail", "-c", line], check=True, timeout=300)
    runs = {run.id: run for run in Runs(tmp_path).raw}
    assert {run.id: run.status for run in runs.values()} == {spec.id: "done" for spec in specs}
    assert all(tiny.trained_once(run.path) and not directory.is_locked(run.path) for run in runs.values())
    Pool(1).launch(specs[:1], tmp_path / "pool" / "runs")
    (run,) = Runs(tmp_path / "pool").raw
    assert runs[run.id].curve_sha256 == run.curve_sha256


@pytest.mark.slow
def test_a_worker_saves_at_sigterm_and_says_what_is_left(tmp_path: Path) -> None:
    path = planned([tiny.spec("train.batch_size=4", "train.epochs=3000", f"seed={n}") for n in (1, 2)], tmp_path).path
    command = [sys.executable, "-m", "normbench", "worker", str(path)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert tiny.wait_until(lambda: any((tmp_path / "runs").glob("*/*/timing.jsonl")))
    started.send_signal(signal.SIGTERM)
    started.send_signal(signal.SIGTERM)  # a batch system may send it twice
    assert "2 of 2 runs are left" in started.communicate(timeout=30)[0]
    assert started.returncode == 130
    (run,) = Runs(tmp_path).raw
    assert run.status == "interrupted" and run.step and not directory.is_locked(run.path)


def test_a_damaged_copy_of_a_published_run_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spec,) = fake.specs(1)
    (fake.directory(tmp_path / "runs", spec) / "run.json").write_text("{")
    pack.write(tmp_path / "p" / "a" / "paper" / pack.NAME, [fake.record(spec)])
    assert worked(planned([spec], tmp_path)) == 0 and "damaged" not in capsys.readouterr().out


def test_a_damaged_run_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done, damaged = fake.specs(2)
    fake.directory(tmp_path / "runs", done)
    (fake.directory(tmp_path / "runs", damaged) / "run.json").write_text("{")
    assert worked(planned([done, damaged], tmp_path)) == 4
    assert f"{damaged.id} damaged: " in capsys.readouterr().out


@pytest.mark.parametrize("shard", ["1/1", "0", "a/2", "-1/2", "0/0"])
def test_a_shard_that_is_none(shard: str, tmp_path: Path) -> None:
    with pytest.raises(NormbenchError, match=re.escape(shard)):
        worked(planned([tiny.spec()], tmp_path), shard)


def test_every_run_is_in_one_shard(tmp_path: Path) -> None:
    whole = planned(fake.specs(7), tmp_path)
    dealt = Counter(run["id"] for number in range(3) for run in whole.shard(number, 3))
    assert dealt == {run["id"]: 1 for run in whole.runs}


def test_a_refused_run_stops_no_other(tmp_path: Path) -> None:
    done, other = fake.specs(2)
    fake.directory(tmp_path / "runs", done)
    refused = other.to_json()
    refused["maths"] = {**refused["maths"], "model": {**refused["maths"]["model"], "file": "0" * 64}}
    refused["config"] = {**other.config, "model": {**other.config["model"], "declares": {"file": __file__}}}
    path = planned([done, other], tmp_path).path
    content = json.loads((path / "plan.json").read_text())
    (path / "plan.json").write_text(json.dumps(content | {"runs": [done.to_json(), refused]}))
    assert worked(plan.read(path)) == 2


def test_a_failure_of_an_unfinished_run_is_recorded(tmp_path: Path) -> None:
    path = fake.directory(tmp_path, tiny.spec("train.epochs=9"), "running", epochs=5)
    try:
        raise ValueError("no")
    except ValueError:
        process._record_failure(directory.RunDirectory(path), "no")
    assert directory.read_json(path)["status"] == "failed"


def test_a_plan_of_other_code_is_refused(tmp_path: Path) -> None:
    planned_now = planned([tiny.spec()], tmp_path)
    file = planned_now.path / "plan.json"
    assert planned_now == planned([tiny.spec()], tmp_path), "it is named by its content"
    other = json.dumps(json.loads(file.read_text()) | {"code": "0" * 12})
    file.write_text(other)
    with pytest.raises(BadInput, match=str(planned_now.path)):
        plan.read(planned_now.path)
    with pytest.raises(BadInput, match="nowhere"):
        plan.read(tmp_path / "plans" / "nowhere")
