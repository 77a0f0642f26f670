"""Trains one run in this process and returns its outcome, whatever it raises; its printed output goes to its log."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from normbench.config.spec import Spec
from normbench.errors import FULL, NormbenchError, line_of
from normbench.launch.base import Outcome
from normbench.runs import directory
from normbench.runs.run import FINISHED


def train_one(
    message: Mapping[str, Any],
    run: directory.RunDirectory,
    listen: Callable[[dict[str, Any]], None] = lambda event: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train, or resume, the run of a spec's message in its directory."""
    from normbench.train.train_one import ensure_run  # imported here: torch is slow

    try:
        spec = Spec.from_json(message)
        with _output_to(run.path / "output.log"):
            status = ensure_run(spec, run, listen, stopping)
        return Outcome(status, directory.read(run.path).reason)
    except NormbenchError as error:
        if error.code == 2:
            _remove_if_empty(run.path)
        return Outcome("busy" if error.code == 5 else "refused", f"{error}{line_of(error)}", error.code)
    except BaseException as error:  # raised by a model or a user's code, as sys.exit does: the other runs continue
        if isinstance(error, OSError) and error.errno in FULL:  # where the run does not handle it itself
            return Outcome("refused", f"{run.path}: {error.strerror}", 4)
        reason = f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ") + line_of(error)
        _record_failure(run, reason)
        return Outcome("failed", reason)


def _remove_if_empty(path: Path) -> None:
    """Remove the folder of a run that was refused before it began: it would be listed as killed."""
    with contextlib.suppress(OSError):
        if {entry.name for entry in path.iterdir()} <= {"lock", "output.log"} and not directory.is_locked(path):
            shutil.rmtree(path)


def _record_failure(run: directory.RunDirectory, reason: str) -> None:
    """Write the traceback to the run's log, and the status unless the run is finished."""
    # the failure may be that nothing can be written here; the caller gets the outcome all the same
    with contextlib.suppress(Exception), run.writing():
        with open(run.path / "output.log", "a") as log:
            traceback.print_exc(file=log)
        stored = directory.read(run.path)
        if stored.status not in (*FINISHED, "damaged"):
            run.content = run.content or directory.carried(stored)
            run.write("failed", reason=reason)


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Redirects the process's standard output and error to a run's log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    saved = os.dup(1), os.dup(2)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for target, handle in zip((1, 2), saved, strict=True):
            os.dup2(handle, target)
            os.close(handle)
