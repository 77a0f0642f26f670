"""The worker pool: each run ends in an outcome, none takes another with it, and nothing outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import child
import pytest
import tiny

from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.launch import base, pool, run_missing
from normbench.launch.pool import Pool
from normbench.runs import checkpoint_file, directory
from normbench.runs.run import Run
from normbench.runs.table import Runs
from normbench.train.train_one import ensure_run

# saved after every step, so that it is met in the middle
LONG = ("train.epochs=400", "train.checkpoint_seconds=0")
DRIVE = """
import sys
from pathlib import Path
import tiny
from normbench.launch.pool import Pool

specs = [tiny.spec(*sys.argv[2:], f"seed={seed}") for seed in (1, 2, 3)]
Pool(2).launch(specs, Path(sys.argv[1]))
"""
RAISES = """
import os, threading, time

from normbench.norms.base import Normalizer, normalizer

print("a word at import")


def chatter():
    while True:
        os.write(1, b"not an event\\n")
        time.sleep(0.001)


@normalizer("raises")
class Raises(Normalizer):
    def __init__(self, site, *, how: str = "raise") -> None:
        super().__init__(site)
        self.how = how

    def forward(self, x, mask=None):
        print("a word to standard output")
        if self.how == "chatter":
            if threading.active_count() < 3:
                threading.Thread(target=chatter, daemon=True).start()
            return x
        if self.how == "exit":
            os._exit(9)
        raise ValueError("not with me\\nsecond line")
"""
KILLED = """
import os, signal, sys, time
from multiprocessing.connection import Connection

from normbench.launch.base import Outcome

pool = Connection(int(sys.argv[1]))
while job := pool.recv():
    if job["run"]["config"]["seed"] == 1:
        if os.fork() == 0:  # lives on with a copy of whatever its parent has open
            time.sleep(30)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    pool.send({"event": "end", "outcome": Outcome("done"), "last": False})
"""
YAML = """
name: raises
sites: null
preceding_bias: site
how: raise
declares:
  title: Raises
  source: a test
  maths: 1
  file: raises.py
  kinds: [pre_activation]
  axes: [batch, feature]
  options:
    how: {type: str, choices: [raise, exit, chatter]}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own" / "norm").mkdir(parents=True)
    (tmp_path / "own" / "norm" / "raises.py").write_text(RAISES)
    (tmp_path / "own" / "norm" / "raises.yaml").write_text(YAML)
    return tmp_path / "own"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the package as this process does."""
    monkeypatch.setenv("PYTHONPATH", child.path())


@pytest.mark.slow
def test_every_run_gets_its_outcome(own: Path, tmp_path: Path) -> None:
    """On two processes: runs that are done, one that raises, one that takes its worker with it, one that is busy.

    One more prints from a thread that goes on after it, while its worker trains others.
    """
    root = tmp_path / "runs"
    raises = tiny.spec("norm=raises", config_dir=own)
    dies = tiny.spec("norm=raises", "norm.how=exit", config_dir=own)
    chatters = tiny.spec("norm=raises", "norm.how=chatter", config_dir=own)
    busy = tiny.spec("seed=9")
    specs = [chatters, raises, dies, busy, tiny.spec("seed=1"), tiny.spec("norm=layer")]
    heard: list[tuple[str, str]] = []
    with directory.RunDirectory(directory.place(root, busy)).writing():
        outcomes, interrupted = Pool(2).launch(specs, root, lambda spec, event: heard.append((spec.id, event["event"])))
    assert not interrupted
    assert [outcomes[spec.id].status for spec in specs] == ["done", "failed", "failed", "busy", "done", "done"]
    assert outcomes[raises.id].reason == "ValueError: not with me (raises.py, line 29)"
    assert "its worker ended unexpectedly (exit code 9)" in outcomes[dies.id].reason
    assert outcomes[busy.id].code == 5 and f"process {os.getpid()}" in outcomes[busy.id].reason
    for spec in specs:
        events = [event for run_id, event in heard if run_id == spec.id]
        assert events[0] == "start" and events[-1] == "end" and events.count("end") == 1

    chatter = (directory.place(root, chatters) / "output.log").read_text()
    assert "a word at import" in chatter and "a word to standard output" in chatter and "not an event" in chatter
    path = directory.place(root, raises)
    log = (path / "output.log").read_text()
    assert "a word to standard output" in log and "Traceback" in log and "ValueError: not with me" in log
    assert 'raise ValueError("not with me' in log, "with the line of the user's file"
    found = Runs(tmp_path)
    states = ["done", "failed", "interrupted", "interrupted", "done", "done"]
    assert [found.state(spec) for spec in specs] == states
    assert found.damaged == []
    assert found.copy(raises.id).reason == "ValueError: not with me (raises.py, line 29)"


def test_a_worker_that_is_killed_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a process that it forked holds its connection open."""
    monkeypatch.setattr(pool, "WORKER", ("-c", KILLED))
    specs = [tiny.spec("seed=1"), tiny.spec("seed=2")]
    before = time.monotonic()
    outcomes, _ = Pool(1).launch(specs, tmp_path / "runs")
    assert time.monotonic() - before < 25, "nobody waited for those who sleep"
    assert [outcomes[spec.id].status for spec in specs] == ["failed", "done"]
    assert outcomes[specs[0].id].reason == "its worker ended unexpectedly (exit code -9)"


def stored(root: Path) -> list[Run]:
    return [*map(directory.read, directory.listed(root))]


@pytest.mark.slow
def test_workers_end_with_a_pool_that_is_killed_and_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    parent = subprocess.Popen([sys.executable, "-c", DRIVE, str(root), *LONG])
    try:
        begun = (root / "adhoc").glob
        assert tiny.wait_until(lambda: len([*begun(f"*/{checkpoint_file.NAME}")]) == 2, 600)
    finally:
        parent.kill()
        parent.wait()
    assert tiny.wait_until(lambda: not any(directory.is_locked(run.path) for run in stored(root)))
    assert [run.status for run in stored(root)] == ["interrupted"] * 2
    assert all(run.step > 0 and "the same command goes on" in run.reason for run in stored(root)), "each was saved"

    spec = tiny.spec(*LONG, "seed=1")
    before, steps = stored(root)[0].step, list[int]()
    resumed, calm = directory.RunDirectory(directory.place(root, spec)), directory.RunDirectory(tmp_path / "calm")
    ensure_run(spec, resumed, lambda event: steps.append(event["step"]), tiny.after(2))
    assert steps[0] >= before and steps[-1] == before + 2, "it went on where it had been"
    ensure_run(spec, calm, stopping=tiny.after(before + 2))
    assert calm.curve.read_bytes() == resumed.curve.read_bytes()


@pytest.mark.slow
def test_the_deadline_saves_what_is_on_its_way_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def listen(spec: Spec, event: dict[str, Any]) -> None:
        now[0] += event["event"] == "progress"

    specs = [tiny.spec(*LONG, f"seed={seed}") for seed in (1, 2)]
    outcomes, interrupted = Pool(1).launch(specs, tmp_path / "runs", listen, deadline=1.0)
    assert not interrupted
    assert [outcomes[spec.id].status for spec in specs] == ["interrupted", "not started"]
    (run,) = stored(tmp_path / "runs")
    assert run.status == "interrupted" and run.step > 0


def test_results_that_cannot_be_written_are_refused_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_missing.os, "access", lambda path, mode: False)  # simulated: root may write anywhere
    with pytest.raises(NormbenchError, match=r"cannot be written\. Choose another place"):
        run_missing.check_writable(tmp_path / "results")


@pytest.mark.parametrize(
    ("text", "limit"), [("max 100000", None), ("150000 100000", 2), ("10000 100000", 1), ("", None)]
)
def test_cores_are_those_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, limit: int | None
):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 5})
    (tmp_path / "cpu.max").write_text(text)
    assert base.cores(tmp_path / "cpu.max") == (limit or 4)
    assert base.cores(tmp_path / "missing") == 4
