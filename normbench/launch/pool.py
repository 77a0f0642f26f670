"""Reused worker processes, one thread each; they end with their parent, however that ends."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.runs import store

Listener = Callable[[RunSpec, dict[str, Any]], None]

# glibc: large blocks that one step frees stay for the next. Given back and taken anew they are fresh pages every time,
# which cost a quarter of a training step of the RNN on IMDB and almost half of its evaluation.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


@dataclass
class Outcome:
    """How a run ended for this command: done, diverged, interrupted, failed, refused, busy or not started."""

    status: str
    reason: str = ""
    code: int = 0


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    spec: RunSpec | None = None
    told_to_stop: bool = False


@dataclass
class Pool:
    """Runs `specs` below `root` on `jobs` processes.

    The first interrupt (or a passed deadline) lets each worker save its run; a second one kills them at once, which
    loses nothing but the work since the last checkpoint.
    """

    root: Path
    jobs: int
    listen: Listener = lambda spec, event: None
    deadline: float | None = None  # by time.monotonic()
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    interrupts: int = 0

    def run(self, specs: Sequence[RunSpec]) -> dict[str, Outcome]:
        """Outcomes by run id; a run that another process writes ends as `busy`."""
        self.events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
        self.outcomes = {spec.id: Outcome("not started") for spec in specs}
        waiting = deque(specs)
        workers: list[_Worker] = []
        with self._signals():
            try:
                for _ in range(min(self.jobs, len(waiting))):
                    workers.append(self._start())
                    self._feed(workers[-1], waiting)
                while any(worker.spec for worker in workers):
                    self._check_stop(workers)
                    try:
                        worker, event = self.events.get(timeout=0.1)
                    except queue.Empty:
                        continue
                    self._handle(worker, event, workers, waiting)
            finally:
                self._end(workers)
        return self.outcomes

    # --- workers ---

    def _start(self) -> _Worker:
        environment = KEEP_MEMORY | os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        process = subprocess.Popen(
            [sys.executable, "-m", "normbench.launch.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which asks its workers to save
        )
        worker = _Worker(process)
        threading.Thread(target=self._read, args=(worker,), daemon=True).start()
        return worker

    def _read(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        for text in worker.process.stdout:
            self.events.put((worker, json.loads(text)))
        self.events.put((worker, None))

    def _feed(self, worker: _Worker, waiting: deque[RunSpec]) -> None:
        worker.spec = None
        if not waiting or self._stopped:
            return
        worker.spec = waiting.popleft()
        path = store.directory(self.root, worker.spec).path
        self._send(worker, {"run": worker.spec.message(), "path": str(path)})
        self.listen(worker.spec, {"event": "start"})

    @staticmethod
    def _send(worker: _Worker, message: dict[str, Any]) -> None:
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):  # a worker that has just died is met at the end of its output
            worker.process.stdin.write(json.dumps(message) + "\n")
            worker.process.stdin.flush()

    def _handle(
        self, worker: _Worker, event: dict[str, Any] | None, workers: list[_Worker], waiting: deque[RunSpec]
    ) -> None:
        spec = worker.spec
        if spec is None:
            return
        if event is None:
            code = worker.process.wait()
            self._finish(spec, Outcome("failed", f"its worker ended unexpectedly (exit code {code})", 4))
            workers.remove(worker)
            if waiting and not self._stopped:
                workers.append(self._start())
                self._feed(workers[-1], waiting)
        elif event["event"] == "end":
            outcome = Outcome(event["status"], event.get("reason", ""), event.get("code", 0))
            self._finish(spec, outcome)
            self._feed(worker, waiting)
        else:
            self.listen(spec, event)

    def _finish(self, spec: RunSpec, outcome: Outcome) -> None:
        self.outcomes[spec.id] = outcome
        self.listen(spec, {"event": "end", "status": outcome.status, "reason": outcome.reason})

    def _end(self, workers: list[_Worker]) -> None:
        for worker in workers:
            if worker.process.stdin is not None:
                with contextlib.suppress(OSError):
                    worker.process.stdin.close()
            if worker.spec is not None:  # only after a kill or an error of our own: nothing waits for it
                worker.process.kill()
        for worker in workers:
            worker.process.wait()

    # --- stopping ---

    @property
    def _stopped(self) -> bool:
        late = self.deadline is not None and time.monotonic() >= self.deadline
        return self.interrupts > 0 or late

    def _check_stop(self, workers: list[_Worker]) -> None:
        if self.interrupts > 1:
            raise KeyboardInterrupt
        if self._stopped:
            for worker in workers:
                if worker.spec is not None and not worker.told_to_stop:
                    self._send(worker, {"stop": True})
                    worker.told_to_stop = True

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signal handlers belong to the main thread; a caller's thread leaves them alone
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            self.interrupts += 1

        kept = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use: by its affinity and its container's share, not all that the machine has."""
    usable = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # no cgroup v2, or "max": no share is set
        allowed, period = quota.read_text().split()
        usable = min(usable, max(1, round(int(allowed) / int(period))))
    return usable


def launch(
    specs: Sequence[RunSpec],
    root: Path,
    jobs: int,
    listen: Listener = lambda spec, event: None,
    seconds: float | None = None,
    wait_for_busy: bool = False,
) -> tuple[dict[str, Outcome], bool]:
    """Train `specs` below `root`; returns outcomes by id and whether the user interrupted.

    jobs: 0 is one per core. seconds: after that long, running runs are saved and stopped. wait_for_busy: runs that
    another process writes are waited for after all others, and taken over if that process ends without finishing.
    """
    jobs = jobs or cores()
    deadline = None if seconds is None else time.monotonic() + seconds
    pool = Pool(root, jobs, listen, deadline)
    outcomes = dict(pool.run(specs))
    interrupted = pool.interrupts > 0
    while wait_for_busy and not interrupted:
        busy = [spec for spec in specs if outcomes[spec.id].status == "busy"]
        if not busy or (deadline is not None and time.monotonic() >= deadline):
            break
        if all(store.is_locked(store.directory(root, spec).path) for spec in busy):
            time.sleep(0.5)
            continue
        # `train` returns at once for a run that the other process has finished
        pool = Pool(root, jobs, listen, deadline)
        outcomes |= pool.run(busy)
        interrupted = pool.interrupts > 0
    return outcomes, interrupted


def check_writable(root: Path) -> None:
    """Refuse an unwritable results folder before anything starts."""
    from normbench.runs import files

    files.make_folder(root)
    if not os.access(root, os.W_OK):
        raise NormbenchError(f"{root} cannot be written. Choose another place with --results or NORMBENCH_RESULTS.")
