"""One run that is there when this returns: as it lies in its directory, gone on with, or trained from the start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from normbench.config.identity import RunSpec
from normbench.errors import FULL, NormbenchError
from normbench.runs import store, writing
from normbench.runs.damaged import Damaged
from normbench.train import checkpoint, memory, probes
from normbench.train.loop import train


def ensure_run(
    spec: RunSpec,
    run: writing.RunDirectory,
    listen: Callable[[dict[str, Any]], None] = lambda event: None,
    stopping: Callable[[], bool] = lambda: False,
) -> str:
    """Train one run to its end, or on from its checkpoint, unless the stored run serves; returns its status.

    A stored run serves if it has at least as many updates and the evaluations that are asked for; an unfinished one is
    continued if its evaluations are those. Any other is kept as NAME.old-1 beside the run that is trained anew.

    `done`, `diverged` or `interrupted`. Kill it at any moment: the same call goes on and ends with weights and curve
    byte-equal to an undisturbed run. A full disk leaves the run interrupted and raises NormbenchError (code 4); so does
    a folder that is moved or deleted meanwhile.
    """
    torch.set_num_threads(1)  # one process per core; two threads on a busy core stall each other
    with run.writing():
        already = store.finished(run.path, spec.steps, spec)
        if already is not None:
            _tidy(run)
            return str(already["status"])
        old = run.old_status()  # refused where it is damaged, before anything is changed
        anew = old is not None and not store.can_become(run.path, spec)
        run.began = "" if anew else str((old or {}).get("began", ""))
        run.file_as(spec)
        try:
            if spec.config["model"]["declares"].get("probe"):
                return probes.write(spec, run, anew)
            memory.refuse_too_large(spec)
            return train(spec, run, listen, stopping, anew)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not run.path.exists():
                raise NormbenchError(
                    f"run {spec.id}: {run.path} was moved or deleted while it was written. Where it lies now the same "
                    "command goes on (--results DIR); elsewhere it starts anew.",
                    code=4,
                ) from None
            if error.errno not in FULL:
                raise
            reason = f"disk full: {error.strerror}"
            # no room for a new status: the old one says running, and nobody holds the lock, which reads the same
            with contextlib.suppress(OSError):
                run.write_status("interrupted", reason=reason)
            raise NormbenchError(
                f"run {spec.id}: {reason} below {run.path}. The last checkpoint is whole: free some space and repeat "
                "the command.",
                code=4,
            ) from None


def _tidy(run: writing.RunDirectory) -> None:
    """Remove the checkpoint of a run that was killed at its very end."""
    with contextlib.suppress(Damaged):
        if store.read_status(run.path)["status"] in store.FINISHED:
            checkpoint.clear(run.path / "checkpoint")
