"""One run in this process, and how it ended, whatever it raises; what it prints goes to its log."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.config.identity import RunSpec
from normbench.errors import FULL, NormbenchError
from normbench.launch.base import Outcome
from normbench.runs import store, writing
from normbench.runs.damaged import Damaged


def train_one(
    message: Mapping[str, Any],
    run: writing.RunDirectory,
    listen: Callable[[dict[str, Any]], None] = lambda event: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train the run of a spec's message in its directory, or on from where it stands."""
    from normbench.train.train_one import ensure_run  # here, for torch takes a while, in which others are heard

    try:
        spec = RunSpec.from_message(message)
        with _output_to(run.path / "output.log"):
            status = ensure_run(spec, run, listen, stopping)
        return Outcome(status, store.read_status(run.path).get("reason", ""))
    except NormbenchError as error:
        if error.code == 2:
            _leave_nothing_begun(run.path)
        return Outcome("busy" if error.code == 5 else "refused", str(error), error.code)
    except Exception as error:  # whatever a model or a user's normalizer raises: this run failed, the others go on
        if isinstance(error, OSError) and error.errno in FULL:  # outside of the run's own care
            return Outcome("refused", f"{run.path}: {error.strerror}", 4)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _record_failure(run, reason)
        return Outcome("failed", reason)


def _leave_nothing_begun(path: Path) -> None:
    """A run that was refused before it began leaves no folder: it would be listed as one that was killed."""
    with contextlib.suppress(OSError):
        if {entry.name for entry in path.iterdir()} <= {"lock", "output.log"} and not store.is_locked(path):
            shutil.rmtree(path)


def _record_failure(run: writing.RunDirectory, reason: str) -> None:
    """The traceback into the run's log, and the status; a finished run keeps its own."""
    # the failure may be that nothing can be written here; whoever asked for the run hears of it all the same
    with contextlib.suppress(Exception), run.writing():
        with open(run.path / "output.log", "a", opener=reading.at_once) as log:
            traceback.print_exc(file=log)
        with contextlib.suppress(Damaged):
            if store.read_status(run.path)["status"] in store.FINISHED:
                return
        run.write_status("failed", reason=reason)


class _output_to:
    """Standard output and error of the process into a run's log while the run lasts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        self.kept = os.dup(1), os.dup(2)
        log = reading.at_once(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)

    def __exit__(self, *error: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for target, kept in zip((1, 2), self.kept, strict=True):
            os.dup2(kept, target)
            os.close(kept)
