"""What is asked of Slurm's commands, and what follows from their answers: programs of their names stand in for them.

What a real Slurm does is in test_slurm.py.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import child
import fake as made_up
import pytest
import tiny

from normbench import check
from normbench.cli import main
from normbench.config.identity import code
from normbench.errors import NormbenchError
from normbench.launch import batch_jobs as commands
from normbench.launch import queue, run_missing, slurm
from normbench.launch.base import KILLED, STOPPED
from normbench.launch.pool import Pool
from normbench.runs import plans
from normbench.runs.table import Runs
from normbench.web import index as index_module
from normbench.web.index import Index

FAKES = {  # `jobs`: a line per task: name, number, array; a file that is called like a command: what it does first
    "sbatch": """
        for word in "$@"; do case $word in
            --job-name=*) name=${word#*=} ;; --test-only) test=1 ;; --array=0-*) last=${word##*-} ;;
        esac; done
        cat >"$FAKE/script"
        [ ! -e "$FAKE/refuse" ] || { echo "sbatch: error: invalid partition" >&2; exit 1; }
        [ -z "$test" ] || exit 0
        number=$((100 + $(cut -d" " -f3 "$FAKE/jobs" | sort -u | wc -l)))
        for task in $(seq 0 "$last"); do echo "$name $task $number" >>"$FAKE/jobs"; done
        . "$FAKE/sbatch"
        echo $number""",
    "squeue": """
        . "$FAKE/squeue"
        env | grep ^SQUEUE_ && exit 1
        for word in "$@"; do case $word in --name=*) names=${word#*=} ;; --format=%T) echo RUNNING; exit 0 ;; esac; done
        while read -r name task number; do
            case ",$names," in *",$name,"*) echo "$name $task $number" ;; esac
        done <"$FAKE/jobs"
        true""",
    "scontrol": """
        . "$FAKE/scontrol"
        echo "$@" >>"$FAKE/told" """,
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
    def tasks(self) -> list[str]:
        return ["_".join(line.split()[:0:-1]) for line in (self.folder / "jobs").read_text().splitlines()]

    @property
    def calls(self) -> str:
        path = self.folder / "told"
        return path.read_text() if path.exists() else ""

    def end(self, task: str = "") -> None:
        """All tasks end, or those with this number."""
        lines = (self.folder / "jobs").read_text().splitlines()
        left = [line for line in lines if task and line.split()[1] != task]
        (self.folder / "jobs").write_text("".join(f"{line}\n" for line in left))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SQUEUE_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    made = Fake(tmp_path / "slurm")
    monkeypatch.setenv("FAKE", str(made.folder))
    monkeypatch.setenv("PATH", f"{made.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", child.path())
    return made


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def submit(results: Path, *seeds: int) -> dict[int, str]:
    """The reason that each seed's run gets from the launcher."""
    specs = {seed: tiny.spec(f"seed={seed}") for seed in seeds}
    outcomes, _ = slurm.Slurm(2).launch([*specs.values()], results / "runs")
    return {seed: outcomes[spec.id].reason for seed, spec in specs.items()}


def refused(results: Path, *seeds: int) -> str:
    with pytest.raises(NormbenchError) as caught:
        submit(results, *seeds)
    return str(caught.value)


def command(*words: object) -> object:
    """Its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def queued(results: Path) -> list[int]:
    """The seeds of the queued runs."""
    found, notes = queue.queued(results)
    assert not notes
    return sorted(run["config"]["seed"] for run in found.values())


def test_what_waits_is_not_submitted_again_and_what_is_left_is(fake: Fake, results: Path) -> None:
    assert all("submitted: job 100" in reason for reason in submit(results, 1, 2, 3).values())
    reasons = submit(results, 1, 2, 3, 4)
    assert "left to job 100" in reasons[1] and "submitted: job 101" in reasons[4]
    assert queued(results) == [1, 2, 3, 4] and fake.tasks == ["100_0", "100_1", "101_0"]
    fake.end("1")  # of the shard of seed 2
    assert queued(results) == [1, 3, 4]
    reasons = submit(results, 1, 2, 3, 4)
    assert ["left to job 100" in reasons[seed] for seed in (1, 2, 3)] == [True, False, True] and "102" in reasons[2]
    fake.end()
    assert queued(results) == []
    assert "submitted: job 100" in submit(results, 1, 2)[1]


@pytest.mark.slow
def test_other_commands_leave_the_runs_of_live_tasks_to_them(
    fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pool is one; where Slurm cannot be asked they are refused, with the folder to delete."""
    submit(results, 1, 2)
    fake.end("1")
    mine, others = tiny.spec("seed=2"), tiny.spec("seed=1")
    ensured = run_missing.ensure_runs([others, mine], Pool(1), stored := Runs(results))
    assert ensured.outcomes[others.id].status == "queued" and "left to job 100" in ensured.outcomes[others.id].reason
    assert stored.state(others) == "missing" and stored.state(mine) == "done"
    (plan,) = (results / "plans").iterdir()
    assert command("worker", plan, "--results", results) == 0  # by hand
    assert "left to job 100" in capsys.readouterr().out.replace("\n", " ")
    fake.first("squeue", "exit 1")
    outcome = run_missing.ensure_runs([others, mine], Pool(1), Runs(results)).outcomes[others.id]
    assert outcome.status == "refused" and str(plan) in outcome.reason
    assert not [*(results / "runs").glob(f"*/*{others.id}*")]


def test_a_refusal_passes_on_what_slurm_says_and_leaves_no_plan(fake: Fake, results: Path) -> None:
    (fake.folder / "refuse").touch()
    assert "nothing was submitted: invalid partition." in refused(results, 1)
    assert not list((results / "plans").iterdir()) and not fake.tasks


def test_without_slurm_one_line_and_nothing_written(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(results))
    assert "there is no program sbatch here" in refused(results, 1)
    assert not [*results.glob("*/*")]


@pytest.mark.slow
def test_an_answer_that_comes_too_late(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job may be there: its plan stays, and the command repeated finds it."""
    monkeypatch.setattr(commands, "SUBMIT_SECONDS", 2.0)
    fake.first("sbatch", "sleep 60 >/dev/null 2>&1")
    assert "it may have been submitted, or not" in refused(results, 1, 2)
    assert queued(results) == [1, 2]
    assert "left to job 100" in submit(results, 1, 2)[1] and len(fake.tasks) == 2


def test_a_command_that_is_killed_as_it_submits(fake: Fake, results: Path) -> None:
    fake.first("sbatch", "kill -KILL $PPID")
    words = ["train", "-m", *tiny.WORDS, "seed=1,2", "launcher=slurm", "--results", str(results)]
    ended = subprocess.run([sys.executable, "-m", "normbench", *words], capture_output=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    fake.first("sbatch", "")
    assert queued(results) == [1, 2]
    reasons = submit(results, 1, 2, 3)
    assert "left to job" in reasons[2] and "submitted" in reasons[3]


def test_a_job_that_left_no_log_is_reported(fake: Fake, results: Path) -> None:
    submit(results, 1)
    fake.end()
    assert "left no log" in submit(results, 1)[1]
    (plan,) = (results / "plans").iterdir()
    (plan / "100_0.log").touch()
    fake.end()
    assert "left no log" not in submit(results, 1)[1]


def test_a_run_that_failed_since_it_was_planned_is_submitted_again(fake: Fake, results: Path) -> None:
    submit(results, 1, 2)
    (plan,) = (results / "plans").iterdir()
    made_up.directory(results / "runs", tiny.spec("seed=1"), "failed")
    os.utime(plan / "plan.json", ns=(0, 0))
    reasons = submit(results, 1, 2)
    assert "submitted: job 101" in reasons[1] and "left to job 100" in reasons[2]


def test_a_plan_of_other_code_is_not_waited_for(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers will refuse it."""
    submit(results, 1)
    for module in (slurm, queue):
        monkeypatch.setattr(module, "code", lambda: "0" * 12)
    assert "submitted: job 101" in submit(results, 1)[1]


def test_jobs_are_those_of_one_results_folder_also_if_that_is_moved(fake: Fake, results: Path) -> None:
    submit(results, 1)
    assert "submitted: job 101" in submit(results.with_name("other"), 1)[1]
    assert queued(results.rename(results.with_name("mounted_elsewhere"))) == [1]


def test_a_users_habits_hide_no_job(fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "R")
    submit(results, 1)
    assert queued(results) == [1]


def test_queued_is_what_no_one_has_begun_or_finished(
    fake: Fake, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = made_up.specs(3)
    made_up.directory(results / "runs", specs[0])
    made_up.directory(results / "runs", specs[1], "interrupted")
    submit(results, 1, 2, 3)
    waiting, _ = queue.queued(results)
    stored = {run.id: queue.state(run.status, run.id, waiting) for run in Runs(results).raw}
    assert stored == {specs[0].id: "done", specs[1].id: "queued"}
    (fresh,) = queue.not_begun(waiting, stored, results / "runs")
    assert (fresh.id, fresh.status, fresh.seed) == (specs[2].id, "queued", 3)
    index = Index(results)
    index.refresh()
    states = ("done", "queued", "queued")
    assert {run.id: run.status for run in index.heads} == {s.id: t for s, t in zip(specs, states, strict=True)}
    assert index.load([specs[2].id])[specs[2].id].config["model"]["name"] == "mnist_mlp"
    monkeypatch.setattr(index_module, "QUEUE_SECONDS", 0.0)
    fake.end()
    index.refresh()  # the jobs were cancelled
    assert {run.id: run.status for run in index.heads} == {specs[0].id: "done", specs[1].id: "interrupted"}


def test_a_changed_plan_is_reported_by_status_and_check(
    fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(results, 1)
    (plan,) = (results / "plans").iterdir()
    content = (plan / plans.PLAN).read_text()
    (plan / plans.PLAN).write_text(content.replace('"seed": 1', '"seed": 2'))
    assert command("status", "--results", results) == 0
    assert str(plan) in capsys.readouterr().out.replace("\n", "")
    assert command("check", "--results", results) == 4
    assert [(f.kind, f.place) for f in check.Check(results).findings()] == [("damage", plan / plans.PLAN)]


def test_status_says_in_json_too_that_slurm_did_not_answer(
    fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(results, 1)
    fake.first("squeue", "echo 'slurm_load_jobs error: Unable to contact' >&2; exit 1")
    assert command("status", "--json", "--results", results) == 0
    assert "Unable to contact" in capsys.readouterr().out


def test_what_others_train_is_not_logged(fake: Fake, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("train", *tiny.WORDS, "launcher=slurm", "logger=wandb", "--results", results) == 2
    assert "normbench export wandb" in capsys.readouterr().err and not fake.tasks


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("1", 60), ("1:30", 90), ("4:00:00", 14400), ("2-12", 216000), ("2-12:30", 217800), ("soon", None), ("", None)],
)
def test_limits_as_sbatch_takes_them(time: str, seconds: int | None) -> None:
    assert commands.seconds(time) == seconds


def test_a_grace_as_long_as_the_time_is_refused(fake: Fake, results: Path) -> None:
    with pytest.raises(NormbenchError, match=r"launcher\.grace=60 .*launcher\.time=1 "):
        slurm.Slurm(1, time="1", grace=60).launch([tiny.spec()], results / "runs")
    assert not fake.tasks and not results.exists()


# --- the batch script -------------------------------------------------------------------------------------------------


class Task:
    """The script of a task, with a program of a few lines in the worker's place."""

    def __init__(self, fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake, self.plan = fake, plans.new([], folder, code(), tasks=3)
        self.plan.write()
        self.folder, self.worker = self.plan.path, self.plan.path / "worker"
        monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
        monkeypatch.setattr(sys, "executable", str(self.worker))

    def script(self, body: str, *setup: str, grace: int = 0, at_term: str = "") -> str:
        trap = f"trap '{at_term}' TERM" if at_term else ""
        self.worker.write_text(f"#!/bin/bash\n{trap}\ntouch {self.folder / 'begun'}\n{body}\n")
        self.worker.chmod(stat.S_IRWXU)
        return slurm.script(self.plan, setup, grace)

    def start(self, *words: str, grace: int = 0, at_term: str = "") -> subprocess.Popen[bytes]:
        return self.begin(self.script(*words, grace=grace, at_term=at_term))

    def begin(self, script: str) -> subprocess.Popen[bytes]:
        with (self.folder / "7_1.log").open("ab") as log:
            return subprocess.Popen(["bash", "-c", script], stdout=log, stderr=log)

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


@pytest.mark.parametrize(("code", "requeued"), [(0, 0), (2, 0), (4, 0), (STOPPED, 1), (KILLED, 1)])
def test_which_workers_are_started_again(task: Task, code: int, requeued: int) -> None:
    assert task.run(f"exit {code}") == code
    assert task.requeued == requeued


FOR_EVER, SAVES = "while true; do sleep 0.05; done", "sleep 0.5; echo saved; exit 130"


@pytest.mark.parametrize("setup", [[], ["set -e"], ["set -euo pipefail"], ["true \\"]], ids=range(4))
def test_a_stopped_task_waits_until_its_worker_has_saved(task: Task, setup: list[str]) -> None:
    ended = task.start(FOR_EVER, *setup, at_term=SAVES)
    assert tiny.wait_until((task.folder / "begun").exists)
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(30) == STOPPED
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
    late = script.replace('3" &\n', f'3" &\nuntil [ -e {task.folder / "told"} ]; do sleep 0.05; done\n')
    assert late != script
    ended = task.begin(late)
    assert tiny.wait_until((task.folder / "begun").exists)
    ended.send_signal(signal.SIGTERM)
    (task.folder / "told").touch()
    assert ended.wait(30) == STOPPED and "saved" in task.log


def test_a_slurm_that_is_busy_is_asked_again(task: Task) -> None:
    asked = task.fake.folder / "asked"
    task.fake.first("squeue", f"[ -e {asked} ] || {{ touch {asked}; echo busy >&2; exit 1; }}")
    assert task.run("exit 130") == STOPPED
    assert task.requeued == 1 and "busy" in task.log


@pytest.mark.parametrize("how", ["exit 137", "kill -KILL $$"])
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
