"""On a real Slurm (scripts/slurm/check.sh): an array trains what the pool trains, whatever stops its tasks.

A requeued task waits two minutes for its turn: the tests move that forward, as an operator may.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import tiny

from normbench.launch.pool import Pool
from normbench.runs import directory
from normbench.runs.table import Runs
from normbench.web.index import Index

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(shutil.which("sbatch") is None, reason="there is no Slurm here: scripts/slurm/check.sh"),
]
LONG = ["train.batch_size=10", "train.epochs=50"]  # some seconds on a fast machine, too
SHORT = ["train.batch_size=60", "train.epochs=2"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """As a user types it; it never takes long, for it submits and leaves."""
    return subprocess.run(
        [sys.executable, "-m", "normbench", *words], capture_output=True, text=True, timeout=120, check=False
    )


def submit(results: Path, runs: int, length: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    seeds = f"seed={','.join(map(str, range(1, runs + 1)))}"
    return command("train", "-m", *tiny.WORDS, *length, seeds, "launcher=slurm", *words, "--results", str(results))


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def job(output: str) -> str:
    found = re.search(r"submitted: job (\d+)", output)
    assert found, output
    return found[1]


def states(results: Path) -> Counter[str]:
    return Counter(run["status"] for run in listed(results))


def listed(results: Path) -> list[dict[str, str]]:
    return json.loads(command("status", "--json", "--results", str(results)).stdout)["runs"]


SINCE: dict[str, float] = {}  # when a task was first seen to wait for its turn


def hurry() -> None:
    """Requeued tasks begin now, but for the first seconds: within one second of its end Slurm refuses a task."""
    waiting = slurm("squeue", "--noheader", "--array", "--states=PENDING", "--format=%i").split()
    for task in SINCE.keys() - set(waiting):
        del SINCE[task]
    for task in waiting:
        if time.monotonic() - SINCE.setdefault(task, time.monotonic()) > 2.5:
            subprocess.run(["scontrol", "update", f"JobId={task}", "StartTime=now"], capture_output=True, check=False)


def is_over() -> bool:
    hurry()
    return not slurm("squeue", "--noheader").strip()


def logs(results: Path) -> str:
    return "".join(path.read_text() for path in sorted(results.glob("plans/*/*.log")))


def processes(results: Path, task: str) -> list[int]:
    """The processes that train for a task, by the locks that they hold."""
    locks = [path for path in results.glob("runs/*/*/lock") if f" (job {task}) " in path.read_text()]
    return [tiny.writer(path.parent) for path in locks]


@pytest.fixture(autouse=True)
def empty() -> None:
    assert is_over(), "other jobs are in this Slurm"


def test_requeued_and_killed_workers_train_what_the_pool_does(tmp_path: Path) -> None:
    """12 runs, 3 tasks, a requeue each, a kill -9 of what trains, one of the worker above it; then nothing is left.

    The command repeated meanwhile submits nothing.
    """
    results = tmp_path / "slurm"
    first = submit(results, 12, LONG, "launcher.workers=3")
    assert first.returncode == 0, first.stderr
    number = job(first.stdout)
    assert states(results)["queued"] >= 9  # of 12: three may have begun
    index = Index(results)
    index.refresh()
    assert Counter(run.status for run in index.heads)["queued"] >= 9
    again = submit(results, 12, LONG, "launcher.workers=3")
    assert "12 runs queued already" in " ".join(again.stdout.split()) and again.returncode == 0
    assert set(slurm("squeue", "--noheader", "--format=%F").split()) == {number}

    assert tiny.wait_until(lambda: states(results)["running"] == 3)
    slurm("scontrol", "requeue", f"{number}_0")  # from outside
    slurm("scontrol", "requeue", f"{number}_2")
    slurm("scancel", "--batch", "--signal=TERM", f"{number}_1")  # the task itself, by its own array and number
    assert tiny.wait_until(lambda: "1 goes back into the queue" in logs(results))
    assert tiny.wait_until(lambda: states(results)["running"] == 0)  # saved, all three, before Slurm's KILL
    assert states(results)["queued"] + states(results)["done"] == 12
    assert tiny.wait_until(lambda: (hurry(), states(results)["running"] == 3)[1])
    (victim,) = processes(results, f"{number}_1")
    os.kill(victim, signal.SIGKILL)
    (trains,) = processes(results, f"{number}_2")
    os.kill(int(Path(f"/proc/{trains}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    assert tiny.wait_until(is_over, 240), slurm("squeue")

    assert states(results) == {"done": 12}, logs(results)
    runs = {stored.id: stored for stored in Runs(results).raw}
    specs = [tiny.spec(*LONG, f"seed={seed}") for seed in range(1, 13)]
    Pool(4).launch(specs, tmp_path / "pool" / "runs")
    for stored in Runs(tmp_path / "pool").raw:
        assert runs[stored.id].curve_sha256 == stored.curve_sha256
    repeated = [run for run in runs.values() if not tiny.trained_once(run.path)]
    assert len(repeated) <= 1, [run.path for run in repeated]  # the one whose worker was killed: from its checkpoint
    ended = Counter(re.findall(r": ([0-9a-f]{12}) interrupted", logs(results)))
    assert len(ended) == 3  # each of the three requeued saved its run
    assert not any(directory.is_locked(run.path) for run in runs.values())


def test_other_commands_leave_a_stopped_task_its_runs(tmp_path: Path) -> None:
    """The same sweep by the pool, while one task waits for its turn again."""
    results = tmp_path / "slurm"
    number = job(submit(results, 4, LONG, "launcher.workers=2").stdout)
    assert tiny.wait_until(lambda: states(results)["running"] == 2)
    slurm("scancel", "--batch", "--signal=TERM", f"{number}_0")
    assert tiny.wait_until(lambda: f"{number}_0 goes back into the queue" in logs(results))
    assert tiny.wait_until(lambda: states(results)["running"] == 1)
    words = ["train", "-m", *tiny.WORDS, *LONG, "seed=1,2,3,4", "launcher=pool", "--results", str(results)]
    other = command(*words)
    assert other.returncode == 0, other.stderr
    printed = " ".join(other.stdout.split())  # on a slow machine a run has ended meanwhile
    done = int(printed.partition("4 runs · ")[2].partition(" done")[0])
    assert done <= 2 and f"{4 - done} runs queued already: left to job {number}" in printed
    assert tiny.wait_until(is_over, 240), slurm("squeue")
    assert states(results) == {"done": 4}, logs(results)
    specs = [tiny.spec(*LONG, f"seed={seed}") for seed in range(1, 5)]
    Pool(2).launch(specs, tmp_path / "pool" / "runs")
    curves = {stored.id: stored.curve_sha256 for stored in Runs(tmp_path / "pool").raw}
    runs = Runs(results).raw
    assert {stored.id: stored.curve_sha256 for stored in runs} == curves
    assert all(tiny.trained_once(stored.path) for stored in runs)


def test_a_time_limit_saves_and_goes_on(tmp_path: Path) -> None:
    """Slurm's shortest limit is a minute; the worker gets the signal 20 s before, or up to half a minute earlier."""
    words = ["launcher.workers=1", "launcher.time=1", "launcher.grace=20"]
    submitted = submit(
        tmp_path, 1, ["train.batch_size=2", "train.epochs=5000"], *words
    )  # an hour on a fast machine, too
    assert submitted.returncode == 0, submitted.stderr
    assert tiny.wait_until(lambda: "goes back into the queue" in logs(tmp_path), 100), logs(tmp_path)
    assert "interrupted" in logs(tmp_path)
    (cut,) = listed(tmp_path)
    assert int(cut["step"]) > 0

    def goes_on() -> bool:
        hurry()
        return int(listed(tmp_path)[0]["step"]) > int(cut["step"])

    assert tiny.wait_until(goes_on, 120), logs(tmp_path)
    slurm("scancel", job(submitted.stdout))
    assert tiny.wait_until(lambda: not slurm("squeue", "--noheader").strip())
    (stored,) = Runs(tmp_path).raw
    assert tiny.trained_once(stored.path), "it goes on where it was cut"


def test_shards_that_are_not_equal_and_a_setup_line_that_fails(tmp_path: Path) -> None:
    submitted = submit(tmp_path, 7, SHORT, "launcher.workers=5", "launcher.setup=['cd /nowhere']")
    assert "5 tasks for 7 runs" in " ".join(submitted.stdout.split()), submitted.stderr
    assert tiny.wait_until(is_over, 120)
    assert states(tmp_path) == {"done": 7}
    assert logs(tmp_path).count("setup line failed with code 1: cd /nowhere") == 5
    again = submit(tmp_path, 7, SHORT, "launcher.workers=5")
    assert "7 runs · 7 done, 0 to run" in again.stdout
    assert not slurm("squeue", "--noheader").strip()


def test_a_cancelled_array_stays_cancelled_and_the_command_goes_on(tmp_path: Path) -> None:
    number = job(submit(tmp_path, 2, LONG, "launcher.workers=2").stdout)
    assert tiny.wait_until(lambda: states(tmp_path)["running"] == 2)
    slurm("scancel", number)
    assert tiny.wait_until(lambda: not slurm("squeue", "--noheader").strip())
    assert states(tmp_path) == {"interrupted": 2}
    assert job(submit(tmp_path, 2, LONG, "launcher.workers=2").stdout) != number
    assert tiny.wait_until(is_over, 120)
    assert states(tmp_path) == {"done": 2}
    assert all(tiny.trained_once(stored.path) for stored in Runs(tmp_path).raw)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("launcher.partition=nope", "invalid partition specified: nope"),
        ("launcher.time=soon", "Invalid --time specification"),
        ("launcher.time=100-0", "Requested time limit is invalid"),
        ("launcher.memory=900T", "memory"),
        ("launcher.options=[--nope]", "nope"),
        ("launcher.workers=7", "array"),  # more than MaxArraySize
    ],
)
def test_what_slurm_refuses_is_one_line(tmp_path: Path, word: str, reason: str) -> None:
    submitted = submit(tmp_path, 7, SHORT, word)
    assert submitted.returncode == 2
    (line,) = submitted.stderr.splitlines()
    assert line.startswith("normbench: launcher=slurm: nothing was submitted: ") and reason in line, line
    assert not slurm("squeue", "--noheader").strip()
    assert not list(tmp_path.glob("plans/*"))


def test_a_results_folder_that_the_node_does_not_see(tmp_path: Path) -> None:
    """Its job ends without a log, and the command repeated says so."""
    results, away = tmp_path / "results", tmp_path / "away"
    job(submit(results, 1, SHORT, "launcher.options=['--begin=now+1hour']").stdout)
    results.rename(away)
    assert tiny.wait_until(is_over, 60)
    assert not results.exists()
    away.rename(results)
    assert "left no log" in " ".join(submit(results, 1, SHORT).stdout.split())
    assert tiny.wait_until(is_over, 60)
    assert states(results) == {"done": 1}
