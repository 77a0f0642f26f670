"""What a launcher is: it trains runs somewhere. `normbench/launch/NAME.py` gives the one that is called NAME."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError

Listener = Callable[[RunSpec, dict[str, Any]], None]
Watch = Callable[[int], AbstractContextManager[Listener]]  # a context for the training of so many runs

# glibc: large blocks that one step frees stay for the next. Given back and taken anew they are fresh pages every time,
# which cost a quarter of a training step of the RNN on IMDB and almost half of its evaluation.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


LEFT = ("queued", "planned")  # how runs end for a command whose launcher submits and leaves


@dataclass
class Outcome:
    """How a run ended for this command: done, diverged, interrupted, failed, refused, busy or not started; or LEFT."""

    status: str
    reason: str = ""
    code: int = 0


class Launcher(Protocol):
    """Trains runs; what a launcher's module returns from `launcher(**options)`, the options those of its YAML."""

    @property
    def processes(self) -> int:
        """How many runs it trains at once, at most."""

    @property
    def here(self) -> bool:
        """Whether runs are trained on this machine, before `launch` returns."""

    def launch(
        self,
        specs: Sequence[RunSpec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        """Train `specs` below `root`; returns outcomes by run id and whether the user interrupted.

        listen: hears `start`, `progress` and `end` of every run; a `progress` with an `epoch` is an evaluation's.
        deadline: by time.monotonic(); then running runs are saved and stopped. A run that another process writes ends
        as `busy`.
        """


def python(*words: str) -> list[str]:
    """The command of a process of ours; a `queue.py` in the working directory is nothing to it, as to `normbench`."""
    return [sys.executable, "-P", *words]


def worker_environment() -> dict[str, str]:
    """What a process that trains runs must be started with: one thread; kept memory, unless the user says otherwise."""
    return {key: os.environ.get(key, value) for key, value in KEEP_MEMORY.items()} | dict.fromkeys(THREADS, "1")


def load(options: Mapping[str, Any]) -> Launcher:
    """The launcher that a checked `launcher` node names, with its options."""
    name, own = options["name"], {key: value for key, value in options.items() if key != "name"}
    if (launcher := function(name, "launcher")) is None:
        raise NormbenchError(f"launcher={name}: there is no normbench/launch/{name}.py with a function launcher.")
    made: Launcher = launcher(**own)
    return made


def function(launcher: str, name: str) -> Any:
    """The function that a launcher's module has by this name; None where there is no such module or function."""
    path = f"normbench.launch.{launcher}"
    module = importlib.import_module(path) if launcher.isidentifier() and importlib.util.find_spec(path) else None
    return getattr(module, name, None)


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use: by its affinity and its container's share, not all that the machine has."""
    usable = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # no cgroup v2, or "max": no share is set
        allowed, period = quota.read_text().split()
        usable = min(usable, max(1, round(int(allowed) / int(period))))
    return usable
