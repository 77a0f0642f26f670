"""Workers of one plan: each run is trained once even if workers stop, die or hang, also where locks do not hold."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import fake
import pytest
import tiny

from normbench import locks
from normbench.config import compose
from normbench.config.identity import code
from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.launch import queue, run_one, slurm, worker
from normbench.launch.base import Outcome
from normbench.launch.pool import Pool
from normbench.runs import leases, plans, run_file, store, writing
from normbench.web import index as index_module
from normbench.web.index import Index

DRIVE = Path(__file__).with_name("drive_worker.py")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(compose.conf_dir().parent), *(p for p in sys.path if p)]))
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)


def started(plan: plans.Plan, host: str, stale: str = "1") -> subprocess.Popen[str]:
    words = [sys.executable, str(DRIVE), str(plan.path), host, stale]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def trained_once(run: Path) -> bool:
    steps = [json.loads(line)["step"] for line in (run / "timing.jsonl").read_text().splitlines()]
    return steps == sorted(set(steps))


def test_two_hosts_without_locks_train_each_run_once(tmp_path: Path) -> None:
    """Their curves are the pool's."""
    specs = [tiny.spec("train.batch_size=20", f"seed={seed}") for seed in range(1, 5)]
    plan = planned(specs, tmp_path)
    first, second = started(plan, "one"), started(plan, "two")
    assert tiny.wait_until(lambda: any((tmp_path / "runs").glob("*/*/claim")))
    ended = first.communicate(timeout=120)[0] + second.communicate(timeout=120)[0]
    trained = Counter(re.findall(r"([0-9a-f]{12}) done", ended))
    found = {run.id: run for run in store.scan(plan.root)}
    assert {run.id for run in specs} == {run for run in found if found[run].state == "done"} == set(trained)
    assert all(trained_once(run.path) for run in found.values())
    assert not any((run.path / "claim").exists() for run in found.values())
    Pool(1).launch(specs[:1], tmp_path / "pool" / "runs")
    for run in store.scan(tmp_path / "pool" / "runs"):
        assert found[run.id].content["curve_sha256"] == run.content["curve_sha256"]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is on another host, where the locks of the first do not hold."""
    monkeypatch.setattr(leases, "host", lambda: "two")
    monkeypatch.setattr(leases, "STALE", 1.0)
    monkeypatch.setattr(locks.fcntl, "flock", lambda handle, kind: None)


def planned(specs: list[ResolvedRun], results: Path) -> plans.Plan:
    return plans.write([spec.message() for spec in specs], results, code())


def begun(tmp_path: Path) -> tuple[subprocess.Popen[str], writing.RunDirectory]:
    """A worker in the middle of a long run."""
    plan = plans.write(
        [one.message() for one in [tiny.spec("train.batch_size=4", "train.epochs=3000")]], tmp_path, code()
    )
    first = started(plan, "one")
    assert tiny.wait_until(lambda: any((tmp_path / "runs").glob("*/*/timing.jsonl")))
    return first, writing.RunDirectory(next((tmp_path / "runs").glob("*/*")), claimed=True)


@pytest.mark.usefixtures("elsewhere")
def test_a_killed_worker_is_replaced_when_its_heartbeat_is_stale(tmp_path: Path) -> None:
    first, run = begun(tmp_path)
    time.sleep(1.2)  # it beats
    with pytest.raises(NormbenchError, match=r"being written by process \d+ on one"), run.writing():
        pass
    first.kill()
    first.wait()
    with pytest.raises(NormbenchError, match=r"being written by process \d+ on one"), run.writing():
        pass
    time.sleep(1.2)
    with run.writing():
        assert leases.read(run.path).owner["host"] == "two"
    assert not (run.path / "claim").exists()


@pytest.mark.usefixtures("elsewhere")
def test_a_worker_that_stood_still_too_long_ends_without_writing_on(tmp_path: Path) -> None:
    first, run = begun(tmp_path)
    first.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    with run.writing():
        first.send_signal(signal.SIGCONT)
        assert first.wait(30) == leases.LOST
        assert leases.read(run.path).owner["host"] == "two"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("folder_too", [False, True])
def test_a_file_system_that_does_not_answer_for_a_while_takes_nothing(
    number: int, folder_too: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat goes on afterwards, and notices then who took the run over in earnest."""
    monkeypatch.setattr(leases, "BEAT", 0.01)
    ended: list[int] = []
    monkeypatch.setattr(leases.os, "_exit", ended.append)
    tried, real_open, real_stat = [0], os.open, os.stat

    def fails(path: Any) -> bool:
        mine = str(path) == str(tmp_path / "claim") or (folder_too and str(path) == str(tmp_path))
        tried[0] += mine
        return mine

    def refuse(real: Any) -> Any:
        def asked(path: Any, *words: Any, **named: Any) -> Any:
            if fails(path):
                raise OSError(number, os.strerror(number))
            return real(path, *words, **named)

        return asked

    with leases.hold(tmp_path):
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse(real_open))
            patched.setattr(os, "stat", refuse(real_stat))
            assert tiny.wait_until(lambda: tried[0] > 3) and not ended
        os.utime(tmp_path / "claim", (0, 0))
        assert tiny.wait_until(lambda: (tmp_path / "claim").stat().st_mtime > 0) and not ended
        (tmp_path / "claim").write_text('{"token": "another"}')
        assert tiny.wait_until(lambda: ended) and ended[0] == leases.LOST


def test_a_claim_that_could_not_be_renewed_for_too_long_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have it by then, whom this process cannot see."""
    monkeypatch.setattr(leases, "BEAT", 0.01)
    monkeypatch.setattr(leases, "STALE", 0.5)
    ended: list[int] = []
    monkeypatch.setattr(leases.os, "_exit", ended.append)

    def refuse(path: Path, mine: str) -> bool:
        raise OSError(errno.EMFILE, "Too many open files")

    started = time.monotonic()
    with monkeypatch.context() as patched, leases.hold(tmp_path):
        patched.setattr(leases, "_is_lost", refuse)
        assert tiny.wait_until(lambda: ended) and ended[0] == leases.LOST
    assert time.monotonic() - started >= 0.5


@pytest.mark.parametrize("place", ["write", "fsync"])
def test_a_full_disk_leaves_no_claim(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*words: Any) -> int:
        if place == "write":
            return 0
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, place, full)
        with pytest.raises(OSError, match="No space left"):
            leases._make(tmp_path / "claim", b"{}")
    assert not [*tmp_path.iterdir()]


CONTEST = """
import sys, time
from pathlib import Path
from normbench.errors import NormbenchError
from normbench.runs import leases, run_file, store, writing
leases.host = lambda: sys.argv[1]
print("ready", flush=True)
for folder in sys.stdin:
    try:
        with leases.hold(Path(folder.strip())):
            print("won", flush=True)
            sys.stdin.readline()
    except NormbenchError:
        print("busy", flush=True)
        sys.stdin.readline()
    print("left", flush=True)
"""


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_that_claim_one_run_at_once_one_wins(stale: bool, tmp_path: Path) -> None:
    """Free, or left by one that is gone; each holds on until all have asked."""
    words = [sys.executable, "-c", CONTEST]
    asking = [subprocess.Popen([*words, str(n)], stdin=-1, stdout=-1, text=True, bufsize=1) for n in range(4)]
    try:
        assert all(process.stdout.readline() == "ready\n" for process in asking)
        for number in range(20):
            folder = tmp_path / str(number)
            folder.mkdir()
            if stale:
                (folder / "claim").write_text('{"host": "gone"}')
                os.utime(folder / "claim", (0, 0))
            for process in asking:
                process.stdin.write(f"{folder}\n")
            answers = [process.stdout.readline() for process in asking]
            assert sorted(answers) == ["busy\n"] * 3 + ["won\n"]
            for process in asking:
                process.stdin.write("\n")
            assert all(process.stdout.readline() == "left\n" for process in asking)
            assert not [*folder.iterdir()]
    finally:
        for process in asking:
            process.kill()
            process.communicate()


def test_a_run_that_cannot_be_read_now_stops_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.signal, "signal", lambda number, handler: None)
    done, other = fake.specs(2)
    path = fake.directory(tmp_path / "runs", done)
    fake.directory(tmp_path / "runs", other)
    plan, lines, real_open, real_stat = (
        planned([done, other], tmp_path),
        list[str](),
        os.open,
        os.stat,
    )
    for place, number, name in ((path, errno.EIO, "stat"), (path / "run.json", errno.ESTALE, "open")):

        def refuse(asked: Any, *words: Any, place: Path = place, number: int = number, **named: Any) -> Any:
            if str(asked) == str(place):
                raise OSError(number, os.strerror(number))
            return (real_stat if name == "stat" else real_open)(asked, *words, **named)  # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(os, name, refuse)
            assert worker.work(plan, lines.append) == worker.UNREAD
            assert worker._is_left(plan, plan.runs[0]) != worker._is_left(plan, plan.runs[1])
        assert lines.pop().startswith(f"{done.id} cannot be read now: ")
        assert lines.pop() == "1 of 2 runs found; not trained again" and not lines


def test_a_refused_run_is_not_left(tmp_path: Path) -> None:
    plan = planned([tiny.spec()], tmp_path)
    assert worker._is_left(plan, plan.runs[0])
    assert not worker._is_left(plan, plan.runs[0] | {"id": "0" * 12})


@pytest.mark.parametrize(("status", "code"), [("failed", 4), ("done", 0)])
def test_a_worker_stopped_as_its_last_run_ends_reports_its_outcome(
    status: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: list[Any] = []
    monkeypatch.setattr(worker.signal, "signal", lambda number, handler: handlers.append(handler))
    monkeypatch.setattr(worker, "_is_left", lambda plan, message: False)

    def one(*arguments: Any) -> Outcome:
        handlers[0](signal.SIGTERM, None)
        return Outcome(status)

    monkeypatch.setattr(worker, "_train_if_needed", one)
    assert worker.work(planned([tiny.spec()], tmp_path), lambda line: None) == code


def test_a_stopped_worker_saves_and_reports_what_is_left(tmp_path: Path) -> None:
    plan = plans.write(
        [one.message() for one in [tiny.spec("train.batch_size=4", "train.epochs=3000", f"seed={n}") for n in (1, 2)]],
        tmp_path,
        code(),
    )
    first = started(plan, "one")
    assert tiny.wait_until(lambda: any((tmp_path / "runs").glob("*/*/timing.jsonl")))
    first.send_signal(signal.SIGTERM)
    first.send_signal(signal.SIGTERM)  # a batch system may send it twice
    assert "2 of 2 runs are left" in first.communicate(timeout=30)[0]
    assert first.returncode == worker.STOPPED
    (run,) = (run for run in store.scan(plan.root) if run.content.get("step"))
    assert run.state == "interrupted" and not (run.path / "claim").exists()


def test_a_task_says_which_of_its_setup_lines_failed_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans.write([], tmp_path, code())
    (plan.path / "task.sh").write_text(
        slurm.script(plan.path, ["export A=1", "cd /nowhere", "module() { true; }"], grace=60)
    )
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert subprocess.run(["bash", str(plan.path / "task.sh")], timeout=60, check=False).returncode == 0
    log = (plan.path / "7_0.log").read_text()
    assert log.count("setup line failed") == 1 and "setup line failed with code 1: cd /nowhere" in log
    assert "0 runs" in log  # the worker's


@pytest.mark.parametrize(
    ("claim", "age", "dead"),
    [
        ({"host": "there"}, 10, False),
        ({"host": "there"}, 200, True),
        ({"host": "there", "job": "7_1"}, 30, False),  # not yet worth a question
        ({"host": "there", "job": "7_1"}, 50, True),  # Slurm does not know it any more
        ({"host": "there", "job": "8_1"}, 50, False),
        ({"host": "there", "job": "9_0", "restart": "0"}, 1, True),  # this job, before it was requeued
        ({"host": "there", "job": "9_0", "restart": "1"}, 1, False),  # another worker in this job
        ({"host": "here", "boot": "b", "pid": 1, "born": "no such"}, 1, True),
        ({"host": "here", "boot": "another", "pid": 1, "born": "no such"}, 1, False),
        ({}, 1, False),  # just being written
    ],
)
def test_when_a_claim_is_dead(
    claim: dict[str, object], age: float, dead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "host", lambda: "here")
    monkeypatch.setattr(leases, "_boot", lambda: "b")
    monkeypatch.setattr(leases.slurm, "is_gone", lambda job: job == "7_1")
    for name, value in {"ARRAY_JOB_ID": "9", "ARRAY_TASK_ID": "0", "JOB_ID": "9", "RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert leases.is_dead(leases.Claim(claim, 1000.0), 1000.0 + age) is dead


def test_others_give_way_to_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool on this machine, to a worker on another; `status` says running."""
    spec = tiny.spec()
    path = fake.directory(tmp_path / "runs", spec, "running")
    (path / "claim").write_text(json.dumps({"host": "there", "pid": 3, "job": "5_1"}))
    assert store.scan(tmp_path / "runs")[0].state == "running"
    message = r"written by process 3 on there \(job 5_1\)"
    with pytest.raises(NormbenchError, match=message) as busy, writing.RunDirectory(path).writing():
        pass
    assert busy.value.code == 5
    os.utime(path / "claim", (0, 0))
    assert store.scan(tmp_path / "runs")[0].state == "interrupted"
    with writing.RunDirectory(path).writing():
        assert not (path / "claim").exists()


def test_a_failed_run_is_tried_once_a_plan(tmp_path: Path) -> None:
    """By all its workers together; asked for again, once more."""
    spec = tiny.spec()
    fake.directory(tmp_path / "runs", spec, "failed")
    time.sleep(0.02)
    plan = planned([spec], tmp_path)
    run = writing.directory(plan.root, spec)
    assert worker.settled(plan, spec, run) is None
    time.sleep(0.02)
    os.utime(run.path / "run.json")
    assert worker.settled(plan, spec, run)


def test_a_damaged_run_is_reported_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.signal, "signal", lambda number, handler: None)
    done, damaged = fake.specs(2)
    fake.directory(tmp_path / "runs", done)
    status = fake.directory(tmp_path / "runs", damaged) / "run.json"
    status.write_text("{")
    plan, lines = planned([done, damaged], tmp_path), list[str]()
    assert worker.work(plan, lines.append) == 4
    line, found = lines
    assert found == "1 of 2 runs found; not trained again"
    assert line.startswith(f"{damaged.id} damaged: ") and line.endswith("(normbench check)")
    assert status.read_text() == "{"


def test_a_failure_of_an_unfinished_run_is_recorded(tmp_path: Path) -> None:
    path = fake.directory(tmp_path, tiny.spec("train.epochs=9"), "running", epochs=5)
    try:
        raise ValueError("no")
    except ValueError:
        run_one._record_failure(writing.RunDirectory(path), "no")
    assert run_file.read(path)["status"] == "failed"


def test_a_plan_of_another_version_or_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(NormbenchError, match="planned by"):
        plans.load(plan.path, "0" * 12)
    with monkeypatch.context() as patched, pytest.raises(NormbenchError, match="planned by"):
        patched.setattr(plans.normbench, "__version__", "9")
        plans.load(plan.path, code())
    with pytest.raises(NormbenchError, match="nowhere"):
        plans.load(tmp_path / "plans" / "nowhere", code())


def test_queued_is_what_no_one_has_begun_or_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = fake.specs(3)
    fake.directory(tmp_path / "runs", specs[0])
    fake.directory(tmp_path / "runs", specs[1], "interrupted")
    plan = planned(specs, tmp_path)
    plans.note_jobs(plan, "slurm", ["5"])
    monkeypatch.setattr(slurm, "live", lambda started: {one.path for one in started})
    waiting, notes = queue.queued(tmp_path)
    assert notes == [] and [*waiting] == [spec.id for spec in specs]
    stored = store.scan(tmp_path / "runs")
    assert {run.id: queue.state(run.state, run.id, waiting) for run in stored} == {
        specs[0].id: "done",
        specs[1].id: "queued",
    }
    (fresh,) = queue.not_begun(waiting, [run.id for run in stored], tmp_path / "runs")
    assert (fresh.id, fresh.state, fresh.seed) == (specs[2].id, "queued", specs[2].seed)
    index = Index(tmp_path)
    index.refresh()
    assert {run.id: run.status for run in index.heads()} == dict(
        zip([*waiting], ["done", "queued", "queued"], strict=True)
    )
    assert index.load([specs[2].id])[specs[2].id].config["model"]["name"] == "mnist_mlp"
    monkeypatch.setattr(slurm, "live", lambda started: set())
    assert queue.queued(tmp_path) == ({}, [])
    monkeypatch.setattr(index_module, "QUEUE_SECONDS", 0.0)
    index.refresh()  # the jobs were cancelled
    assert {run.id: run.status for run in index.heads()} == {specs[0].id: "done", specs[1].id: "interrupted"}


def test_without_slurm_one_line_and_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NormbenchError, match=r"launcher=slurm: there is no program \w+ here") as refused:
        slurm.Slurm(2).launch([tiny.spec()], tmp_path / "runs")
    assert refused.value.code == 2 and not [*tmp_path.iterdir()]
