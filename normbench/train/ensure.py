"""One run that is there when this returns: as it lies in its directory, gone on with, or trained from the start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from normbench.config.identity import RunSpec, merged, satisfies
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
    """Train one run to its end, or on from its checkpoint, unless it has all that is asked for; returns its status.

    `done`, `diverged` or `interrupted`. Kill it at any moment: the same call goes on and ends with weights and curve
    byte-equal to an undisturbed run. A full disk leaves the run interrupted and raises NormbenchError (code 4); so does
    a folder that is moved or deleted meanwhile.
    """
    torch.set_num_threads(1)  # one process per core; two threads on a busy core stall each other
    with run.writing():
        already = store.finished(run.path, spec.steps, spec)
        if already is not None:
            _tidy(run)
            return str(already[0]["status"])
        old = run.old_status()  # refused where it is damaged, before anything is changed
        run.began = str((old or {}).get("began", ""))
        spec, anew = _with_evaluations(spec, run)
        run.file_as(spec)
        try:
            if spec.config["model"]["declares"].get("probe"):
                return probes.write(spec, run)
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
    """Remove what a run that was killed at its very end had no time to."""
    with contextlib.suppress(Damaged):
        if store.read_status(run.path)["status"] in store.FINISHED:
            run.drop_shorter()
            if not store.read_config(run.path)["config"]["train"].get("keep_checkpoint"):
                checkpoint.clear(run.path / "checkpoint")


def _with_evaluations(spec: RunSpec, run: writing.RunDirectory) -> tuple[RunSpec, bool]:
    """The spec with all evaluations that what is there was asked for, and whether it has to start anew for its own.

    A longer run keeps those of the shorter one that it replaces. What is trained again in the place of a finished run
    becomes as long as that was, also when it was stopped on the way.
    """
    with contextlib.suppress(Damaged):
        old = store.read_config(run.path)["config"]
        both, own = merged(spec, old), spec.config["train"]
        as_asked = replace(both, config={**both.config, "train": own})
        if store.read_status(run.path)["status"] in store.FINISHED:
            return (as_asked, False) if satisfies(old, spec) else (both, True)
        return both if store.has_aside(run.path) else as_asked, not store.can_become(run.path, spec)
    return spec, False
