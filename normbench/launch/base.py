"""The interface of launchers, which train runs somewhere; `normbench/launch/NAME.py` defines the launcher NAME."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from normbench.config.spec import Spec

Listener = Callable[[Spec, dict[str, Any]], None]
Watch = Callable[[int], AbstractContextManager[Listener]]  # a context around the training of that many runs

# glibc: large blocks that one step frees stay allocated. Otherwise every step gets fresh pages, which took a
# quarter of a training step of the RNN on IMDB and almost half of its evaluation.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class Outcome:
    """How a run ended for this command: done, diverged, interrupted, failed, refused, busy, not started; or planned."""

    status: str
    reason: str = ""
    code: int = 0


Outcomes = tuple[dict[str, Outcome], bool]  # by run id, and whether the user interrupted


class Launcher(Protocol):
    """Trains runs. A launcher's module returns one from `launcher(**options)`; the options are those of its YAML."""

    @property
    def processes(self) -> int:
        """The largest number of runs that it trains at once."""

    @property
    def is_local(self) -> bool:
        """Whether runs are trained on this machine, before `launch` returns."""

    def launch(self, specs: Sequence[Spec], root: Path, listen: Listener, deadline: float) -> Outcomes:
        """Train `specs` below `root`.

        listen: called with the events `start`, `progress` and `end` of every run, and with `warning`, which has a text;
        a `progress` with an `epoch` comes from an evaluation. deadline: a time.monotonic() at which running runs are
        saved and stopped. A run that another process writes ends as `busy`.
        """


def python(*words: str) -> list[str]:
    """A command that runs this Python; like `normbench`, it ignores modules in the working directory (`-P`)."""
    return [sys.executable, "-P", *words]


def worker_environment() -> dict[str, str]:
    """Of processes that train runs: one thread; freed memory is not returned, unless the user sets otherwise."""
    return {key: os.environ.get(key, value) for key, value in KEEP_MEMORY.items()} | dict.fromkeys(THREADS, "1")


def load(options: Mapping[str, Any]) -> Launcher:
    """The launcher that a checked `launcher` node names, with its options."""
    name, arguments = options["name"], {key: value for key, value in options.items() if key != "name"}
    launcher: Launcher = importlib.import_module(f"normbench.launch.{name}").launcher(**arguments)
    return launcher


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The number of cores that this process may use: limited by its affinity and by its container's share."""
    usable = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # no cgroup v2, or "max": no limit is set
        allowed, period = quota.read_text().split()
        usable = min(usable, max(1, round(int(allowed) / int(period))))
    return usable
