"""The progress of a run: saved with its tensors, so that a run killed at any moment resumes as if undisturbed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from normbench.errors import BadInput, Failed
from normbench.files import reading
from normbench.norms.modes import generators
from normbench.norms.scalars import Sums
from normbench.runs.directory import RunDirectory
from normbench.runs.run import LARGEST
from normbench.train import checkpoint, environment, optim

SCHEMA = 2  # of a checkpoint's progress


@dataclass
class Progress:
    """Everything that resuming needs besides the tensors. The clock is `step`; sums are since the last evaluation."""

    step: int = 0  # completed updates
    epochs: int = 0  # completed epochs, whose end the normalizers have seen
    evaluated: int = -1  # the step of the last evaluation
    loss_sum: float = 0.0
    count: int = 0  # the examples or places over which the loss is a mean
    sums: dict[str, float] = field(default_factory=dict)  # of further metrics
    examples: int = 0
    logged: Sums = field(default_factory=dict)  # by modules of the model: see `Scalars`
    seen: int = 0  # examples in all
    lowest: dict[str, float] = field(default_factory=dict)  # the monitored metric, by variant
    curve_bytes: int = 0  # length of the curve when this was saved; later records are written again
    curve_sha256: str = ""  # of these bytes
    seconds: float = 0.0
    schema: int = SCHEMA

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Progress:
        """The progress in a checkpoint. ValueError for another schema."""
        if saved.get("schema") != SCHEMA:
            raise ValueError(f"it has schema {saved.get('schema')!r:.40}, this version reads {SCHEMA}")
        return cls(**saved)

    def add(self, loss: float, count: int, examples: int, sums: Mapping[str, Tensor | float]) -> None:
        """Count an update."""
        self.step += 1
        self.loss_sum += loss * count
        self.count += count
        self.examples += examples
        self.seen += examples
        for name, total in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(total)

    def means(self, loss: str) -> dict[str, float]:
        """The means over the updates since the last evaluation, whose sums are then reset."""
        means = {loss: self.loss_sum / self.count, **{name: v / self.examples for name, v in self.sums.items()}}
        self.loss_sum, self.count, self.examples, self.sums = 0.0, 0, 0, {}
        return means

    def means_logged(self) -> dict[str, float]:
        """The means of what was logged since the last evaluation; infinite where no record could have one so large."""
        means = {name: total / count for name, (total, count) in self.logged.items()}
        self.logged = {}
        return {name: math.copysign(math.inf, mean) if abs(mean) > LARGEST else mean for name, mean in means.items()}


def save(run: RunDirectory, progress: Progress, model: nn.Module, optimizer: Optimizer, seconds: float) -> None:
    """Write a checkpoint of a run that has been trained for `seconds`."""
    progress.seconds = seconds
    progress.curve_bytes = run.sync("curve.jsonl")  # a checkpoint must not count records that a power cut can lose
    progress.curve_sha256 = reading.sha256(run.curve)
    tensors: dict[str, Tensor] = {f"model:{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"optim:{name}": tensor for name, tensor in optim.state_tensors(optimizer, model).items()}
    tensors |= {f"torch:{name}": generator.get_state() for name, generator in _generators(model).items()}
    checkpoint.write(run.path, asdict(progress), tensors)


def _generators(model: nn.Module) -> dict[str, torch.Generator]:
    return generators(next(model.parameters()).device)


def _check_curve(run: RunDirectory, progress: Progress) -> None:
    """NormbenchError if the curve does not begin with the records that it had at the checkpoint."""
    if not progress.curve_bytes:
        return
    begun = b""
    if run.curve.exists():
        with open(run.curve, "rb") as curve:
            begun = curve.read(progress.curve_bytes)
    if len(begun) < progress.curve_bytes:
        why = "is shorter than its checkpoint remembers"
    elif progress.curve_sha256 == hashlib.sha256(begun).hexdigest():
        return
    else:
        why = "does not begin as its checkpoint remembers"
    raise Failed(f"{run.curve} {why}: it was changed by hand. Delete the run's directory to start it anew.")


def resume(
    run: RunDirectory, model: nn.Module, optimizer: Optimizer, steps: int, current: Mapping[str, Any]
) -> Progress:
    """Restore model, optimizer and curve from the checkpoint, or start afresh; the status is then `running`.

    `current`: the environment. Errors: a checkpoint beyond the requested steps, damage.
    """
    progress = Progress()
    if saved := checkpoint.read(run.path):
        content, tensors = saved
        try:
            progress = Progress.of(content)
            if progress.step > steps:
                raise BadInput(
                    f"run {run.content['id']} is already at step {progress.step} of a longer one, beyond the {steps} "
                    "asked for. Finish that one first (the same length as before), or delete its directory.",
                )
            model.load_state_dict({n[6:]: t for n, t in tensors.items() if n.startswith("model:")})
            optim.load_state(optimizer, model, {n[6:]: t for n, t in tensors.items() if n.startswith("optim:")})
            for name, generator in _generators(model).items():
                if (state := tensors.get(f"torch:{name}")) is not None:  # None: an older checkpoint, or another device
                    generator.set_state(state)
        except (RuntimeError, KeyError, ValueError) as error:
            raise checkpoint.damaged(run.path, error) from None
    _check_curve(run, progress)
    if not progress.step:
        run.begin()
    run.content["environment"] = environment.since(run.old(), progress.step, current)
    run.write("running", step=progress.step, reason="")  # first: a finished one has the hash of the whole curve
    if not progress.step:
        (run.path / "timing.jsonl").unlink(missing_ok=True)
    with open(run.curve, "ab") as curve:
        curve.truncate(progress.curve_bytes)
    return progress
