"""Models of finished runs, with their stored weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normbench.config import compose
from normbench.config.identity import assign, edited
from normbench.errors import BadInput
from normbench.runs import directory
from normbench.runs.run import Run
from normbench.runs.table import Runs, ours


def locate_run(name: str, results: Path) -> tuple[Run, Path]:
    """The run called `name` and its directory. NormbenchError if it exists only as a published run, without weights."""
    run = ours(name, results)
    copy = Runs(results, {run.id}).copy(run.id)
    if copy is None or copy.status == "damaged":
        raise BadInput(f"run {run.id} is published without its weights: train it below another --results.")
    return run, copy.path


def refuse_edited(run: Run, config_dir: Path | None) -> None:
    """NormbenchError if the user's normalizer file was changed since the run was trained."""
    if why := edited(run.config, run.id, config_dir):
        raise BadInput(f"run {run.id}: {why}")


def trained(
    folder: Path,
    config: compose.Config,
    weights: str | None,
    config_dir: Path | None,
    prefer: Sequence[str] = ("last", "best"),
) -> tuple[Any, str]:
    """The run's model with its stored weights, and their name; by default the first of `prefer` that is stored, else
    those of the latest update.

    Errors: weights that are not stored, that are not those that were trained, that do not fit, or are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    from normbench.models import base as models

    stems = (file.stem for file in (folder / "weights").glob("*.safetensors"))
    names = sorted(stems, key=lambda name: (len(name), name))  # best, last, step-9, step-10
    chosen = weights or next((name for name in (*prefer, *names[-1:]) if name in names), prefer[0])
    if chosen not in names:
        raise BadInput(f"--weights {chosen}: the run kept {', '.join(names) or 'none'}. (train.keep=[last,best])")
    model = models.build(config, assign(config, config_dir)).eval()
    path = folder / "weights" / f"{chosen}.safetensors"
    try:
        content = path.read_bytes()
        sha256 = directory.read(folder).files.get(f"weights/{path.name}")  # none of a run that has not ended
        if sha256 and hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError(f"it does not have the hash that {directory.NAME} recorded")
        model.load_state_dict(load(content))
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        reason = " ".join(str(getattr(error, "strerror", "") or error).split())[:300]
        raise BadInput(f"{path} does not fit the run's model and data ({reason}). Train the run again.") from None
    if not models.finite(model.parameters()):
        raise BadInput(f"{path} holds NaN or Inf: the run diverged, its weights are of no use.")
    return model, chosen
