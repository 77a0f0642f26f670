"""The worker pool: each run ends in an outcome, none takes another with it, and nothing outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import child
import pytest
import tiny

from normbench.errors import NormbenchError
from normbench.launch import base, pool, run_missing
from normbench.launch.pool import Pool
from normbench.runs import checkpoint_file, directory
from normbench.runs.run import Run
from normbench.runs.table import Runs

DRIVE = Path(__file__).with_name("drive.py")
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
SPOILT = """
import json, os, signal, sys, time

events = int(sys.argv[1])
for job in sys.stdin:
    if json.loads(job)["run"]["config"]["seed"] == 1:
        os.write(events, b'{"event": "end", "status": "do')
        if os.fork() == 0:  # lives on with a copy of whatever its parent has open
            time.sleep(30)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.write(events, b'{"event": "end", "status": "done"}\\n')
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


def test_a_worker_that_is_killed_as_it_writes_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that it forked holds its pipe open."""
    monkeypatch.setattr(pool, "WORKER", ("-c", SPOILT))
    specs = [tiny.spec("seed=1"), tiny.spec("seed=2")]
    before = time.monotonic()
    outcomes, _ = Pool(1).launch(specs, tmp_path / "runs")
    assert time.monotonic() - before < 25, "nobody waited for those who sleep"
    assert [outcomes[spec.id].status for spec in specs] == ["failed", "done"]
    assert outcomes[specs[0].id].reason == "its worker ended unexpectedly (exit code -9)"


class Driven:
    """The pool in a process of its own."""

    def __init__(self, root: Path, jobs: int, *seeds: int) -> None:
        self.root, self.jobs = root, jobs
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVE), str(root), *map(str, (jobs, *seeds))], stdout=subprocess.PIPE
        )

    def stored(self) -> list[Run]:
        return [*map(directory.read, directory.listed(self.root))]

    def workers(self) -> list[int]:
        """Process numbers of the live workers, from the locks that they hold."""
        return [tiny.writer(stored.path) for stored in self.stored() if directory.is_locked(stored.path)]

    def trains(self) -> bool:
        """Whether as many runs as can be are well on their way."""
        return sum((stored.path / checkpoint_file.NAME).exists() for stored in self.stored()) >= self.jobs

    def answer(self) -> dict[str, Any]:
        output, _ = self.process.communicate(timeout=600)
        return json.loads(output)


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    """Two runs of three on their way, each on a worker that takes seconds to start."""
    running = Driven(tmp_path / "runs", 2, 1, 2, 3)
    try:
        assert tiny.wait_until(running.trains, 600)
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    try:  # one that has ended and that nobody has asked after yet
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


@pytest.mark.slow
def test_workers_end_with_their_parent_and_lose_nothing(driven: Driven, tmp_path: Path) -> None:
    workers = driven.workers()
    assert len(workers) == 2
    driven.process.kill()
    assert tiny.wait_until(lambda: not any(alive(number) for number in workers), 600)
    stored = driven.stored()
    assert [s.status for s in stored] == ["interrupted"] * 2 and all(s.step > 0 for s in stored)
    assert all("the same command goes on" in s.reason for s in stored), "each has saved its last step"
    resumed_and_equal(driven, tmp_path)


def resumed_and_equal(driven: Driven, tmp_path: Path) -> None:
    """The run goes on to its end; asked for fewer steps than it has, so that this takes no time."""
    from drive import WORDS

    from normbench.train.train_one import ensure_run

    spec = tiny.spec(*WORDS, "seed=1")
    before = driven.stored()[0].step
    steps: list[int] = []
    run = directory.RunDirectory(directory.place(driven.root, spec))
    ensure_run(spec, run, lambda event: steps.append(event["step"]), tiny.after(2))
    assert steps[0] >= before and steps[-1] == before + 2, "it went on where it had been"
    calm = directory.RunDirectory(tmp_path / "calm")
    ensure_run(spec, calm, stopping=tiny.after(before + 2))
    assert calm.curve.read_bytes() == run.curve.read_bytes()


@pytest.mark.slow  # by default the command's own test has it
def test_an_interrupt_saves_every_run(driven: Driven) -> None:
    workers = driven.workers()
    driven.process.send_signal(signal.SIGINT)
    answer = driven.answer()
    assert driven.process.returncode == 0 and answer["interrupted"]
    states = {seed: status for seed, (status, _) in answer["outcomes"].items()}
    assert states == {"1": "interrupted", "2": "interrupted", "3": "not started"}
    assert not any(alive(number) for number in workers)
    assert [s.status for s in driven.stored()] == ["interrupted"] * 2
    assert all(s.step > 0 for s in driven.stored())


def test_a_deadline_that_has_passed_starts_nothing(tmp_path: Path) -> None:
    specs = [tiny.spec("seed=1"), tiny.spec("seed=2")]
    outcomes, interrupted = Pool(1).launch(specs, tmp_path / "runs", deadline=time.monotonic())
    assert {outcome.status for outcome in outcomes.values()} == {"not started"} and not interrupted
    assert not (tmp_path / "runs").exists()


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
