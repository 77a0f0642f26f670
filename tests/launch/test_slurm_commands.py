"""What is asked of Slurm's commands, and what follows from what they say: programs of their names stand in for them.

What a real Slurm does is in test_slurm.py.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fake as made_up
import pytest
import tiny

from normbench import check
from normbench import slurm as commands
from normbench.cli import main
from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.launch import queue, slurm, worker
from normbench.runs import files, leases, plans

FAKES = {  # `jobs`: a line per job, its name and number; a file that is called like a command: what that does before
    "sbatch": """
        for word in "$@"; do case $word in --job-name=*) name=${word#*=} ;; --test-only) test=1 ;; esac; done
        cat >"$FAKE/script"
        [ ! -e "$FAKE/refuse" ] || { echo "sbatch: error: invalid partition" >&2; exit 1; }
        [ -z "$test" ] || exit 0
        number=$((100 + $(wc -l <"$FAKE/jobs")))
        echo "$name $number" >>"$FAKE/jobs"
        . "$FAKE/sbatch"
        echo $number""",
    "squeue": """
        . "$FAKE/squeue"
        env | grep ^SQUEUE_ && exit 1
        for word in "$@"; do case $word in
            --name=*) names=${word#*=} ;; --jobs=*) jobs=${word#*=} ;; --format=%T) echo RUNNING; exit 0 ;;
        esac; done
        while read -r name number; do
            case ",$names," in *",$name,"*) echo "$name $number" ;; esac
            case ",$jobs," in *",$number,"*) echo "$name $number" ;; esac
        done <"$FAKE/jobs"
        true""",
    "scontrol": """
        . "$FAKE/scontrol"
        echo "$@" >>"$FAKE/told"
        [ "$1 $2" != "show config" ] || echo "MaxArraySize = 1001" """,
}


class Fake:
    """A Slurm that takes jobs and does nothing with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "jobs").touch()
        for name, body in FAKES.items():
            (folder / name).touch()
            program = folder / "bin" / name
            program.write_text(f"#!/bin/bash\n{body}\n")
            program.chmod(stat.S_IRWXU)

    def first(self, name: str, line: str) -> None:
        """From now on a command does this before it answers."""
        (self.folder / name).write_text(f"{line}\n")

    @property
    def jobs(self) -> list[str]:
        return [line.split()[1] for line in (self.folder / "jobs").read_text().splitlines()]

    @property
    def calls(self) -> str:
        path = self.folder / "told"
        return path.read_text() if path.exists() else ""

    def end(self) -> None:
        (self.folder / "jobs").write_text("")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SQUEUE_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    made = Fake(tmp_path / "slurm")
    monkeypatch.setenv("FAKE", str(made.folder))
    monkeypatch.setenv("PATH", f"{made.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(compose.conf_dir().parent), *(p for p in sys.path if p)]))
    return made


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def submit(results: Path, *seeds: int) -> dict[str, str]:
    """What becomes of each seed's run."""
    specs = {str(seed): tiny.spec(f"seed={seed}") for seed in seeds}
    outcomes, _ = slurm.Slurm(2).launch([*specs.values()], results / "runs")
    return {seed: outcomes[spec.id].reason for seed, spec in specs.items()}


def refused(results: Path, *seeds: int) -> str:
    with pytest.raises(NormbenchError) as caught:
        submit(results, *seeds)
    return str(caught.value)


def command(words: list[str]) -> object:
    """Its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def queued(results: Path) -> int:
    found, notes = queue.queued(results)
    assert not notes
    return len(found)


def test_what_waits_is_not_submitted_again(fake: Fake, results: Path) -> None:
    assert all("submitted: job 100" in reason for reason in submit(results, 1, 2).values())
    reasons = submit(results, 1, 2, 3)
    assert reasons["1"].startswith("queued already") and "job 101" in reasons["3"]
    assert queued(results) == 3 and fake.jobs == ["100", "101"]
    fake.end()
    assert queued(results) == 0
    assert "submitted: job 100" in submit(results, 1, 2)["1"]


def test_a_refusal_passes_on_what_slurm_says(fake: Fake, results: Path) -> None:
    """And leaves no plan, unless that has logs of earlier tasks."""
    (fake.folder / "refuse").touch()
    assert "invalid partition. Nothing was submitted." in refused(results, 1)
    assert not list((results / "plans").iterdir()) and not fake.jobs
    (fake.folder / "refuse").unlink()
    submit(results, 1)
    (plan,) = (results / "plans").iterdir()
    (plan / "100_0.log").write_text("ended\n")
    fake.end()
    (fake.folder / "refuse").touch()
    assert "invalid partition. Nothing was submitted." in refused(results, 1)
    assert sorted(path.name for path in plan.iterdir()) == ["100_0.log", "plan.json"]


def test_an_answer_that_comes_too_late(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job may be there: its plan stays, and the command repeated finds it."""
    monkeypatch.setattr(commands, "SUBMIT_SECONDS", 2.0)
    fake.first("sbatch", "sleep 60 >/dev/null 2>&1")
    assert "it may have been submitted, or not" in refused(results, 1, 2)
    assert queued(results) == 2
    assert submit(results, 1, 2)["1"].startswith("queued already") and len(fake.jobs) == 1


def test_a_command_that_is_killed_as_it_submits(fake: Fake, results: Path) -> None:
    fake.first("sbatch", "kill -KILL $PPID")
    words = ["train", "-m", *tiny.WORDS, "seed=1,2", "launcher=slurm", "--results", str(results)]
    ended = subprocess.run([sys.executable, "-m", "normbench", *words], capture_output=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    fake.first("sbatch", "")
    assert queued(results) == 2
    reasons = submit(results, 1, 2, 3)
    assert reasons["2"].startswith("queued already") and "submitted" in reasons["3"]
    assert fake.jobs == ["100", "101"]


def test_a_disk_that_is_full_once_the_job_is_there(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = files.write_json

    def full(path: Path, value: object) -> None:
        if fake.jobs:
            raise OSError(28, "No space left on device")
        write(path, value)

    monkeypatch.setattr(files, "write_json", full)
    assert "submitted: job 100" in submit(results, 1)["1"]
    assert queued(results) == 1


def test_a_run_that_failed_since_it_was_planned_is_submitted_again(fake: Fake, results: Path) -> None:
    submit(results, 1, 2)
    (plan,) = (results / "plans").iterdir()
    made_up.directory(results / "runs", tiny.spec("seed=1"), "failed")
    os.utime(plan / "plan.json", ns=(0, 0))
    reasons = submit(results, 1, 2)
    assert "submitted: job 101" in reasons["1"] and reasons["2"].startswith("queued already")


def test_a_plan_of_other_code_is_not_waited_for(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers will refuse it."""
    submit(results, 1)
    monkeypatch.setattr("normbench.launch.slurm.code", lambda: "0" * 12)
    assert "submitted: job 101" in submit(results, 1)["1"]


def test_jobs_of_a_moved_folder_are_found_by_number(fake: Fake, results: Path) -> None:
    submit(results, 1)
    moved = results.rename(results.with_name("mounted_elsewhere"))
    assert queued(moved) == 1
    (fake.folder / "jobs").write_text("another_job 100\n")  # the number is used again
    assert queued(moved) == 0


def test_a_users_habits_hide_no_job(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "R")
    submit(results, 1)
    assert queued(results) == 1


def test_notes_of_another_user_stay(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(results, 1)
    fake.end()
    unlink = Path.unlink

    def forbidden(path: Path, missing_ok: bool = False) -> None:
        if path.name == plans.JOBS:
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", forbidden)
    assert "submitted" in submit(results, 2)["2"]


@pytest.mark.parametrize(
    "content",
    [
        '{"launcher": "pool", "jobs": ["5"]}',
        '{"launcher": "nowhere", "jobs": ["5"]}',
        '{"launcher": "../slurm", "jobs": []}',
        '{"launcher": "slurm", "jobs": [["5"]]}',
        '{"launcher": "slurm", "jobs": ["--all"]}',
        '{"jobs": []}',
        "[" * 10**5,
        "",
    ],
    ids=range(8),
)
def test_notes_that_are_none(fake: Fake, results: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    submit(results, 1)
    (plan,) = (results / "plans").iterdir()
    (plan / plans.JOBS).write_text(content)
    assert command(["status", "--results", str(results)]) == 0
    assert "note: " in capsys.readouterr().out
    assert "Nothing was submitted" in refused(results, 1)
    assert len(fake.jobs) == 1


def _changed(plan: Path, change: Callable[[dict], object]) -> Path:
    """The plan with a change, under the name that it then has."""
    content = plans._content(plan)
    change(content)
    (plan / plans.PLAN).unlink()
    named = plan.rename(plan.with_name(files.seal(content)[:12]))
    files.write_json(named / plans.PLAN, content)
    return named


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.update(runs=5),
        lambda plan: plan.update(runs=[{"id": "a"}]),
        lambda plan: plan["runs"][0]["config"].update(seed="q"),
        lambda plan: plan["runs"][0].update(config=[]),
        lambda plan: plan["runs"][0].update(id="../../etc/x"),
        lambda plan: plan.pop("code"),
    ],
    ids=range(6),
)
def test_a_plan_whose_runs_are_none(fake: Fake, results: Path, change: Callable[[dict], object]) -> None:
    submit(results, 1)
    (plan,) = (results / "plans").iterdir()
    plan = _changed(plan, change)
    (fake.folder / "jobs").write_text(f"{slurm.job_name(plan)} 100\n")
    found, (note,) = queue.queued(results)
    assert not found and str(plan) in note and "\n" not in note
    assert [(f.kind, f.place) for f in check.Check(results).findings()] == [("damage", plan / plans.PLAN)]


def test_a_changed_plan_is_reported_by_status_and_check(
    fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(results, 1)
    (plan,) = (results / "plans").iterdir()
    with (plan / plans.PLAN).open("a") as file:
        file.write(" ")
    assert queued(results) == 1  # the same content
    content = (plan / plans.PLAN).read_text()
    (plan / plans.PLAN).write_text(content.replace('"seed": 1', '"seed": 2'))
    assert command(["status", "--results", str(results)]) == 0
    assert "was changed after planning" in capsys.readouterr().out
    assert command(["check", "--results", str(results)]) == 4
    assert "was changed after planning" in capsys.readouterr().out


def test_status_says_in_json_too_that_slurm_did_not_answer(
    fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(results, 1)
    fake.first("squeue", "echo 'slurm_load_jobs error: Unable to contact' >&2; exit 1")
    assert command(["status", "--json", "--results", str(results)]) == 0
    assert "Unable to contact" in capsys.readouterr().out


def test_a_mirror_hears_nothing_of_what_others_train(
    fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", *tiny.WORDS, "launcher=slurm", "logger=wandb", "--results", str(results)]
    assert command(words) == 2
    assert "normbench export wandb" in capsys.readouterr().err and not fake.jobs


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("1", 60), ("1:30", 90), ("4:00:00", 14400), ("2-12", 216000), ("2-12:30", 217800), ("soon", None), ("", None)],
)
def test_limits_as_sbatch_takes_them(time: str, seconds: int | None) -> None:
    assert commands.seconds(time) == seconds


def test_a_grace_as_long_as_the_time_is_refused(fake: Fake, results: Path) -> None:
    with pytest.raises(NormbenchError, match=r"launcher\.grace=60 seconds before the end of launcher\.time=1 \(60 s\)"):
        slurm.Slurm(1, time="1", grace=60).launch([tiny.spec()], results / "runs")
    assert not fake.calls and not results.exists()


# --- the batch script -------------------------------------------------------------------------------------------------


class Task:
    """The script of a task, with a program of a few lines in the worker's place."""

    def __init__(self, fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake, self.folder, self.worker = fake, folder, folder / "worker"
        folder.mkdir()
        (folder / plans.PLAN).touch()
        monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
        monkeypatch.setattr(sys, "executable", str(self.worker))

    def script(self, body: str, *setup: str, grace: int = 0, at_term: str = "") -> str:
        trap = f"trap '{at_term}' TERM" if at_term else ""
        self.worker.write_text(f"#!/bin/bash\n{trap}\ntouch {self.folder / 'begun'}\n{body}\n")
        self.worker.chmod(stat.S_IRWXU)
        return slurm.script(self.folder, setup, grace)

    def start(self, *words: str, grace: int = 0, at_term: str = "") -> subprocess.Popen[bytes]:
        return subprocess.Popen(["bash", "-c", self.script(*words, grace=grace, at_term=at_term)])

    def run(self, body: str, *setup: str, grace: int = 0) -> int:
        return self.start(body, *setup, grace=grace).wait(60)

    @property
    def requeued(self) -> int:
        return self.fake.calls.count("requeue 7_1")

    @property
    def log(self) -> str:
        return (self.folder / "7_1.log").read_text()


@pytest.fixture
def task(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    return Task(fake, tmp_path / "plan", monkeypatch)


@pytest.mark.parametrize(
    ("code", "requeued"), [(0, 0), (2, 0), (4, 0), (worker.STOPPED, 1), (leases.LOST, 1), (137, 1)]
)
def test_which_workers_are_started_again(task: Task, code: int, requeued: int) -> None:
    assert task.run(f"exit {code}") == code
    assert task.requeued == requeued


FOR_EVER, SAVES = "while true; do sleep 0.05; done", "sleep 0.5; echo saved; exit 130"


@pytest.mark.parametrize("setup", [[], ["set -e"], ["set -euo pipefail"], ["true \\"]], ids=range(4))
def test_a_stopped_task_waits_until_its_worker_has_saved(task: Task, setup: list[str]) -> None:
    ended = task.start(FOR_EVER, *setup, at_term=SAVES)
    assert tiny.wait_until((task.folder / "begun").exists)
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(30) == worker.STOPPED
    assert "saved" in task.log and "setup line failed" not in task.log and task.requeued == 1


def test_a_task_stopped_during_its_setup(task: Task) -> None:
    ended = task.start("exit 0", f"touch {task.folder / 'setup'}", "sleep 1")
    assert tiny.wait_until((task.folder / "setup").exists)
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(30) == slurm.ENDED and task.requeued == 1
    assert not (task.folder / "begun").exists()


def test_a_worker_gets_a_signal_that_came_before_its_trap(task: Task) -> None:
    """Between the worker's start and the trap that passes the signal on."""
    script = task.script(FOR_EVER, at_term=SAVES)
    late = script.replace("worker=$!\n", f"worker=$!; until [ -e {task.folder / 'told'} ]; do sleep 0.05; done\n")
    assert late != script
    ended = subprocess.Popen(["bash", "-c", late])
    assert tiny.wait_until((task.folder / "begun").exists)
    ended.send_signal(signal.SIGTERM)
    (task.folder / "told").touch()
    assert ended.wait(30) == worker.STOPPED and "saved" in task.log


def test_a_slurm_that_is_busy_is_asked_again(task: Task) -> None:
    asked = task.fake.folder / "asked"
    task.fake.first("squeue", f"[ -e {asked} ] || {{ touch {asked}; echo busy >&2; exit 1; }}")
    assert task.run("exit 130") == worker.STOPPED
    assert task.requeued == 1 and "busy" in task.log


@pytest.mark.parametrize("how", ["exit 137", "exit 5"])
def test_a_worker_that_is_killed_each_time_is_given_up(task: Task, how: str) -> None:
    for _ in range(slurm.RESTARTS):
        task.run(how)
    task.run("exit 130")  # a time limit is no kill
    assert task.requeued == slurm.RESTARTS + 1
    task.run(how)
    assert task.requeued == slurm.RESTARTS + 1 and "stays out of the queue" in task.log


def test_a_task_stopped_each_time_as_it_begins_is_given_up(task: Task) -> None:
    for _ in range(slurm.RESTARTS + 2):
        task.run("exit 130", grace=60)
    assert task.requeued == slurm.RESTARTS
