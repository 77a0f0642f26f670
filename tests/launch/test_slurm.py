"""On a real Slurm (scripts/slurm/check.sh): an array trains what the pool trains, whatever stops its tasks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import tiny

from normbench.launch.pool import Pool
from normbench.runs import directory
from normbench.runs.table import Runs

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(shutil.which("sbatch") is None, reason="there is no Slurm here: scripts/slurm/check.sh"),
]
LONG = ["train.batch_size=10", "train.epochs=50"]  # some seconds on a fast machine, too


def train(results: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a user types it."""
    command = [sys.executable, "-m", "normbench", "train", "-m", *tiny.WORDS, *words, "--results", str(results)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def submit(results: Path, *words: str) -> str:
    """The number of the job."""
    done = train(results, "launcher=slurm", *words)
    (number,) = re.findall(r"submitted: job (\d+)", done.stdout)
    return number


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def states(results: Path) -> Counter[str]:
    return Counter(run.status for run in Runs(results).raw)


def is_over() -> bool:
    return not slurm("squeue", "--noheader").strip()


@pytest.fixture(autouse=True)
def empty() -> None:
    assert is_over(), "other jobs are in this Slurm"


def test_requeued_and_killed_workers_train_what_the_pool_does(tmp_path: Path) -> None:
    """A task is requeued, what trains for another is killed, and the same command goes on."""
    results, words = tmp_path / "slurm", [*LONG, "seed=1,2,3,4,5", "launcher.workers=3"]
    number = submit(results, *words)
    assert tiny.wait_until(lambda: states(results)["running"] == 3)
    slurm("scontrol", "requeue", f"{number}_0")
    (victim,) = (path for path in results.glob("runs/*/*/lock") if f" (job {number}_1) " in path.read_text())
    os.kill(tiny.writer(victim.parent), signal.SIGKILL)
    assert tiny.wait_until(is_over, 240), slurm("squeue")
    logs = "".join(path.read_text() for path in sorted(results.glob("plans/*/*.log")))
    assert states(results) == {"done": 4, "interrupted": 1}, logs
    submit(results, *words)
    assert tiny.wait_until(is_over, 240), slurm("squeue")
    assert states(results) == {"done": 5}
    assert "5 done, 0 to run" in train(results, "launcher=slurm", *words).stdout and is_over()

    runs = {run.id: run for run in Runs(results).raw}
    Pool(2).launch([tiny.spec(*LONG, f"seed={seed}") for seed in range(1, 6)], tmp_path / "pool" / "runs")
    pools = {run.id: run.curve_sha256 for run in Runs(tmp_path / "pool").raw}
    assert {run.id: run.curve_sha256 for run in runs.values()} == pools
    assert not any(directory.is_locked(run.path) for run in runs.values())


def test_a_time_limit_saves_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Slurm's shortest limit is a minute; the worker gets the signal 20 s before, or up to half a minute earlier."""
    # an hour on a fast machine, too
    words = ["train.batch_size=2", "train.epochs=5000", "seed=1", "launcher.time=1", "launcher.grace=20"]
    submit(tmp_path, *words)
    assert tiny.wait_until(is_over, 120), slurm("squeue")
    (cut,) = Runs(tmp_path).raw
    assert cut.status == "interrupted" and cut.step > 0
    (log,) = tmp_path.glob("plans/*/*.log")
    assert "stopped: 1 of 1 runs are left" in log.read_text()

    number = submit(tmp_path, *words)
    timing = cut.path / "timing.jsonl"
    assert tiny.wait_until(lambda: json.loads(timing.read_text().splitlines()[-1])["step"] > cut.step)
    slurm("scancel", number)
    assert tiny.wait_until(is_over)
    assert tiny.trained_once(cut.path), "it goes on where it was cut"


def test_what_slurm_refuses_is_one_line(tmp_path: Path) -> None:
    refused = train(tmp_path, "launcher=slurm", "launcher.partition=nope")
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "invalid partition specified: nope" in line and is_over()
