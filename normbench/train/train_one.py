"""Ensures one run: uses the stored one, resumes it, or trains it from the start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from normbench.config.spec import Spec
from normbench.errors import FULL, Failed
from normbench.runs import directory
from normbench.runs.run import FINISHED
from normbench.runs.table import can_become, is_long_enough
from normbench.train import checkpoint, probes
from normbench.train.loop import train


def ensure_run(
    spec: Spec,
    run: directory.RunDirectory,
    listen: Callable[[dict[str, Any]], None] = lambda event: None,
    stopping: Callable[[], bool] = lambda: False,
) -> str:
    """Train one run to its end, resuming from its checkpoint, unless the stored run serves; returns its status.

    A stored run serves if it has at least as many updates and the requested evaluations; an unfinished one is continued
    if its evaluations are the same. Any other is renamed to NAME.old-1, and the run is trained anew.

    The status is `done`, `diverged` or `interrupted`. After a kill at any moment the same call resumes and ends with
    weights and curve byte-equal to those of an undisturbed run. A full disk leaves the run interrupted and raises
    Failed; so does a folder that is moved or deleted meanwhile.
    """
    torch.set_num_threads(1)  # one process per core; two threads on a busy core stall each other
    with run.writing():
        old = run.old()  # NormbenchError if it is damaged, before anything is changed
        if old and old.status in FINISHED:
            checkpoint.clear(run.path)  # left by a kill after the run had finished
            if is_long_enough(old, spec):
                return old.status
        anew = old is not None and not can_become(old, spec)
        run.content = directory.carried(old) if old else spec.content()  # until the run is taken over
        try:
            if spec.config["model"]["declares"].get("probe"):
                return probes.write(spec, run, anew)
            return train(spec, run, listen, stopping, anew)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not run.path.exists():
                raise Failed(
                    f"run {spec.id}: {run.path} was moved or deleted while it was written. Where it lies now the same "
                    "command goes on (--results DIR); elsewhere it starts anew."
                ) from None
            if error.errno not in FULL:
                raise
            reason = f"disk full: {error.strerror}"
            # no space for a new status: `running` without a lock counts as interrupted
            with contextlib.suppress(OSError):
                if not run.is_finished():  # one that was to be trained anew stays as it is
                    run.write("interrupted", reason=reason)
            raise Failed(
                f"run {spec.id}: {reason} below {run.path}. The last checkpoint is whole: free some space and repeat "
                "the command."
            ) from None
