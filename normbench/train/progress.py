"""Where a run is: saved with its tensors, so that it can be killed at any moment and goes on as if it had not been."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn

from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.runs import store
from normbench.train import checkpoint, environment, optim


@dataclass
class Progress:
    """Everything that resuming needs beside the tensors. The clock is `step`; sums are since the last evaluation."""

    step: int = 0  # updates that are done
    epochs: int = 0  # that are finished, and told so to the normalizers
    evaluated: int = -1  # the step of the last evaluation
    loss_sum: float = 0.0
    count: int = 0  # what the loss is a mean over: examples or places
    sums: dict[str, float] = field(default_factory=dict)  # of further metrics
    examples: int = 0
    seen: int = 0  # examples in all
    lowest: dict[str, float] = field(default_factory=dict)  # what is monitored, by variant
    curve_bytes: int = 0  # the curve when this was saved; what comes after is repeated
    seconds: float = 0.0
    schema: int = store.SCHEMA  # the form of the curve's records

    def add(self, loss: float, count: int, examples: int, sums: Mapping[str, Tensor | float]) -> None:
        """Take an update in."""
        self.step += 1
        self.loss_sum += loss * count
        self.count += count
        self.examples += examples
        self.seen += examples
        for name, total in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(total)

    def means(self, loss: str) -> dict[str, float]:
        """Of the updates since the last evaluation, which are forgotten."""
        found = {loss: self.loss_sum / self.count, **{name: v / self.examples for name, v in self.sums.items()}}
        self.loss_sum, self.count, self.examples, self.sums = 0.0, 0, 0, {}
        return found


def labels(spec: RunSpec) -> dict[str, Any]:
    """What every status file of a run says."""
    return {"id": spec.id, "seed": spec.seed, "epochs": spec.epochs, "steps": spec.steps, **spec.labels()}


def save(
    run: store.RunDirectory, curve: BinaryIO, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """A checkpoint of a run that is being written."""
    curve.flush()
    os.fsync(curve.fileno())  # a checkpoint must never promise records that a power cut can still take
    progress.curve_bytes = curve.tell()
    tensors: dict[str, Tensor] = {f"model:{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"optim:{name}": tensor for name, tensor in optim.state_tensors(optimizer, model).items()}
    checkpoint.save_slot(run.path / "checkpoint", asdict(progress), tensors)


def resume(
    spec: RunSpec,
    run: store.RunDirectory,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    here: Mapping[str, Any],
    every: int,
) -> Progress:
    """Model, optimizer and curve as the newest checkpoint left them, or a fresh start; says `running` from here on.

    `here`: the environment. `every`: updates between evaluations; a finished run that ended between two of them has one
    that a longer one would not have, which starts anew. Errors: a checkpoint beyond the steps asked for, damage.
    """
    old = old_status(run)
    found = checkpoint.newest(run.path / "checkpoint")
    if found is not None and old is not None and old["status"] in store.FINISHED and found[0]["step"] % every:
        checkpoint.clear(run.path / "checkpoint")
        found = None
    notes: list[str] = []
    progress = Progress()
    if found is not None and found[0]["step"] > spec.steps:
        raise NormbenchError(
            f"run {spec.id} is already at step {found[0]['step']} of a longer one, beyond the {spec.steps} asked for. "
            "Finish that one first (the same length as before), or delete its directory.",
        )
    if found is not None and found[0].get("schema", 1) != store.SCHEMA:  # else the loop had seen to it
        raise NormbenchError(
            f"{run.path} is damaged: its checkpoint goes on with a curve of another form than status.json says. Delete "
            "the run's directory to start it anew.",
            code=4,
        )
    if found is not None:
        saved, tensors, notes = found
        progress = Progress(**saved)
        model.load_state_dict({n[6:]: t for n, t in tensors.items() if n.startswith("model:")})
        optim.load_state(optimizer, model, {n[6:]: t for n, t in tensors.items() if n.startswith("optim:")})
    if old is not None and old["status"] in store.FINISHED:
        run.set_aside_finished(goes_on=found is not None)
    environment.record(run, progress.step, notes, here)
    run.write_config(spec)
    if run.curve.exists() and run.curve.stat().st_size < progress.curve_bytes:
        raise NormbenchError(
            f"{run.curve} is shorter than its checkpoint remembers: it was changed by hand. Delete the run's directory "
            "to start it anew.",
            code=4,
        )
    # the status first: a curve without one counts as damaged
    run.write_status("running", **labels(spec), step=progress.step, reason="")
    with open(run.curve, "ab") as curve:
        curve.truncate(progress.curve_bytes)
    return progress


def old_status(run: store.RunDirectory) -> dict[str, Any] | None:
    """The status that lies there, None where there is none; NormbenchError where it is damaged."""
    if not (run.path / "status.json").exists():
        return None
    try:
        return store.read_status(run.path)
    except store.Damaged as damage:
        raise store.start_anew(run.path, damage) from None
