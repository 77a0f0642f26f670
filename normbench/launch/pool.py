"""Reused worker processes on this machine, one thread each; they end when their parent ends, even if it is killed."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import Any

from normbench.config.spec import Spec
from normbench.launch.base import Listener, Outcome, Outcomes, cores, python, worker_environment
from normbench.runs import directory

WORKER = ("-m", "normbench.launch.process")
POLL_SECONDS = 0.1
END_SECONDS = 10.0  # for a process to exit before it is killed
ToWandb = Callable[[Spec], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Pool:
    """Trains runs on `jobs` processes, 0 for one per core.

    The first interrupt, a SIGTERM or the deadline lets each worker save its run. A second interrupt kills them at once,
    which loses only the work since the last checkpoint; a batch system may send SIGTERM twice.

    wandb: gives the arguments of `wandb.init` by which a run is logged, None for one that is not.
    """

    jobs: int = 0
    is_local: bool = True
    wandb: ToWandb = lambda spec: None

    @property
    def processes(self) -> int:
        return self.jobs or cores()

    def launch(
        self,
        specs: Sequence[Spec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float = math.inf,
    ) -> Outcomes:
        launch = _Launch(specs, root, listen, deadline, self.wandb)
        launch.run(self.processes)
        return launch.outcomes, launch.interrupts > 0


launcher = Pool


class _Worker:
    """A worker process, and the connection over which it gets runs and sends events."""

    def __init__(self) -> None:
        self.spec: Spec | None = None
        self.connection, its_end = connection.Pipe()
        with its_end:
            self.process = subprocess.Popen(
                python(*WORKER, str(its_end.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # a run's own output goes to its log
                env=os.environ | worker_environment(),
                pass_fds=[its_end.fileno()],
                start_new_session=True,  # Ctrl-C reaches only the parent, which asks its workers to save
            )

    def send(self, job: Mapping[str, Any] | None) -> None:
        """A run to train, or None: save it and end."""
        with contextlib.suppress(OSError):  # if the worker has just died, `receive` finds out
            self.connection.send(job)

    def receive(self) -> tuple[list[dict[str, Any]], bool]:
        """New events, and whether they are the last: its process has ended, or closed the connection."""
        # checked first: what it wrote before that is read below. Processes that it forked may hold the connection open.
        last, events = self.process.poll() is not None, []
        try:
            while self.connection.poll():
                events.append(self.connection.recv())
        except (EOFError, OSError):
            last = True
        return events, last

    def end(self) -> int:
        """Wait for its end; returns its exit code."""
        self.connection.close()
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class _Launch:
    """One call of `launch`: its workers, the waiting runs, and the outcomes of the others."""

    def __init__(self, specs: Sequence[Spec], root: Path, listen: Listener, deadline: float, wandb: ToWandb) -> None:
        self.root, self.listen, self.deadline, self.wandb = root, listen, deadline, wandb
        self.listed = directory.listed(root, {spec.id for spec in specs}.__contains__)
        self.waiting = deque(specs)
        self.outcomes = {spec.id: Outcome("not started") for spec in specs}
        self.workers: list[_Worker] = []
        self.interrupts = 0

    def run(self, processes: int) -> None:
        told = False
        with self._signals():
            try:
                for _ in range(processes):
                    self._assign()
                while busy := [worker for worker in self.workers if worker.spec is not None]:
                    if self.interrupts > 1:
                        raise KeyboardInterrupt
                    if self._stopped and not told:
                        told = True
                        for worker in busy:
                            worker.send(None)
                    connection.wait([worker.connection for worker in busy], POLL_SECONDS)
                    for worker in busy:
                        self._handle_events(worker)
            finally:
                for worker in self.workers:
                    worker.connection.close()
                    if worker.spec is not None:  # only after a second interrupt or an error in the parent
                        worker.process.kill()
                for worker in self.workers:
                    worker.end()

    def _assign(self, worker: _Worker | None = None) -> None:
        """The next run for a worker, or for a new one."""
        if self.waiting and not self._stopped:
            if worker is None:
                self.workers.append(worker := _Worker())
            worker.spec = self.waiting.popleft()
            path = directory.place(self.root, worker.spec, self.listed)
            worker.send({"run": worker.spec.to_json(), "path": path, "wandb": self.wandb(worker.spec)})
            self.listen(worker.spec, {"event": "start"})

    def _handle_events(self, worker: _Worker) -> None:
        events, last = worker.receive()
        for event in events:
            if event["event"] == "end":
                self._finish(worker, event["outcome"])
                last = last or event["last"]  # it has run a user's code
            elif worker.spec is not None:
                self.listen(worker.spec, event)
        if last:
            self.workers.remove(worker)
            code = worker.end()
            self._finish(worker, Outcome("failed", f"its worker ended unexpectedly (exit code {code})", 4))
            self._assign()
        elif worker.spec is None:
            self._assign(worker)

    def _finish(self, worker: _Worker, outcome: Outcome) -> None:
        if worker.spec is not None:
            self.outcomes[worker.spec.id] = outcome
            self.listen(worker.spec, {"event": "end", "status": outcome.status, "reason": outcome.reason})
            worker.spec = None

    @property
    def _stopped(self) -> bool:
        return self.interrupts > 0 or time.monotonic() >= self.deadline

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupt(number: int, frame: FrameType | None) -> None:
            self.interrupts = 1 if number == signal.SIGTERM else self.interrupts + 1

        handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
