"""Evaluates a run in training and writes its curve, timing, best weights and the results of each test example."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from normbench.core.eval_variants import DEFAULT, text
from normbench.data import Dataset
from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.errors import Diverged, NormbenchError
from normbench.models.base import Model
from normbench.norms.modes import inference
from normbench.runs import files
from normbench.runs.directory import RunDirectory
from normbench.train import checkpoint
from normbench.train.evaluate import Evaluation, Record, State
from normbench.train.progress import Progress

Event = dict[str, Any]
SAMPLES = 8  # written by runs of generative models, at the end and at updates whose weights are stored


def diverged(model: Model, loss: float, where: str) -> Diverged:
    """The end of a run whose loss is not finite."""
    return Diverged(f"train {model.loss.upper() if model.loss == 'nll' else model.loss} is {loss} {where}")


@dataclass
class Recorder:
    """Evaluates a run in training and writes the results."""

    run: RunDirectory
    evaluation: Evaluation
    data: Dataset  # with all tensors, of which a model shows some beside what it draws
    sampler: Sampler
    config: Mapping[str, Any]
    steps: int  # updates in the whole run
    listen: Callable[[Event], None]
    clock: float = field(default_factory=time.monotonic)  # when the current stretch of training began

    def is_due(self, progress: Progress) -> bool:
        """Whether the run is to be evaluated at its current step, and was not."""
        return progress.evaluated < progress.step and self._is_evaluated(progress.step)

    def is_observed(self, progress: Progress) -> bool:
        """Whether the coming update is the last before the first evaluation in a tenth of the run."""
        before, after = (10 * step // self.steps for step in (progress.evaluated, progress.step + 1))
        return before < after and self._is_evaluated(progress.step + 1)

    def _is_evaluated(self, step: int) -> bool:
        schedule = self.config["eval"]
        every = schedule["every"] * (self.sampler.per_epoch if schedule["unit"] == "epochs" else 1)
        return step % every == 0 or step in (0, self.steps, *schedule["also_after"])

    def evaluate(self, progress: Progress) -> None:
        """Evaluate the run at its current step. Raises Diverged, after writing everything, if the training loss is not
        finite or the evaluation is broken.
        """
        loss, began = self.evaluation.model.loss, time.monotonic()
        place, state = self._place(progress)
        records = self.evaluation(state)
        if not state.first:
            records.insert(0, {"split": "train", "mode": "running", **progress.means(loss)})
            if logged := progress.means_logged():
                records.append({"split": "train", "mode": "both", **logged})  # one number for both modes, as others
        values = self.evaluation.values(records)
        self._write_best_and_last(text(DEFAULT) in state.at_lowest(values), state.last)
        if not state.first:
            for variant, value in values.items():
                progress.lowest[variant] = min(progress.lowest.get(variant, math.inf), value)
        self.run.append("curve.jsonl", [place | record for record in records])
        at = "epoch" if isinstance(place["epoch"], int) else "step"
        when = "before the first update" if state.first else f"after {at} {place[at]}"
        for record in records:
            if record["split"] == "train" and "variant" not in record and not math.isfinite(record.get(loss, 0.0)):
                raise diverged(self.evaluation.model, record[loss], when)
        if self.evaluation.broken:
            raise Diverged(f"{when}: {self.evaluation.broken}")
        if not state.first:
            spent = {"train_seconds": began - self.clock, "evaluate_seconds": time.monotonic() - began}
            self.run.append("timing.jsonl", [place | spent])
            event = {"step": progress.step, "steps": self.steps, "loss": records[0][loss], "epoch": place["epoch"]}
            if text(DEFAULT) in values:  # the default evaluation gives the monitored metric
                event["monitored"] = self.evaluation.sign * values[text(DEFAULT)]
            self.listen(event)
        progress.evaluated, self.clock = progress.step, time.monotonic()

    def keep_step(self, progress: Progress) -> None:
        """Store the weights at the current step, with the statistics that they are evaluated with, and samples."""
        self.evaluation.gather(self._place(progress)[1], [DEFAULT])
        self.save_weights(f"step-{progress.step}")
        self.write_samples(f"step-{progress.step}-")

    def save_weights(self, name: str) -> None:
        checkpoint.save_weights(self.run.path / "weights" / f"{name}.safetensors", self.evaluation.model)

    def write_samples(self, prefix: str = "") -> None:
        """Files that a generative model draws with its current weights."""
        model = self.evaluation.model
        try:
            with inference(model):
                drawn = model.sample(self.config["seed"], SAMPLES, self.data)
        except NormbenchError as error:  # a normalizer that needs whole sequences: no reason to lose a trained run
            print(f"no samples are drawn: {error}")
            return
        self.run.write_samples({prefix + name: content for name, content in drawn.items()})

    def _place(self, progress: Progress) -> tuple[Record, State]:
        per_epoch, step = self.sampler.per_epoch, progress.step
        epoch, beyond = divmod(step, per_epoch)
        place: Record = {"epoch": epoch + beyond / per_epoch if beyond else epoch, "step": step}
        if self.sampler.by_length:  # batches differ in size: the step does not give the number of examples
            place["examples"] = progress.seen
        moment = f"update {step}" if beyond else epoch
        return place, State(moment, first=step == 0, last=step == self.steps, lowest=progress.lowest)

    def _write_best_and_last(self, best: bool, last: bool) -> None:
        """Write the weights of the best evaluation, and the test examples' results of the best and of the last one."""
        if best and "best" in self.config["train"]["keep"]:
            self.save_weights("best")
        if self.evaluation.outcomes:
            for name in [*(["best"] if best else []), *(["last"] if last else [])]:
                path = self.run.path / "outcomes" / f"{name}.npz"
                write_outcomes(path, self.evaluation.outcomes, self.evaluation.splits)


def write_outcomes(
    path: Path, results: Mapping[tuple[str, str], Mapping[str, Tensor]], splits: Mapping[str, Split]
) -> None:
    """The file that `normbench.runs.outcomes` reads.

    results: by split and variant, each example's value of every metric, in the order of the split. Names outside
    `splits` have their examples in order.
    """
    arrays: dict[str, np.ndarray] = {}
    for (name, variant), metrics in results.items():
        index = splits[name].index if name in splits else None
        count = len(next(iter(metrics.values())))
        numbers = np.arange(count) if index is None else index.cpu().numpy()
        order = np.argsort(numbers)
        arrays[f"{name}|count"] = np.array(len(order))
        if not np.array_equal(numbers[order], np.arange(len(order))):
            arrays[f"{name}|numbers"] = numbers[order].astype(np.int32)
        for metric, tensor in metrics.items():
            values = tensor.cpu().numpy()[order]
            binary = bool(np.isin(values, (0, 1)).all())
            with np.errstate(over="ignore"):  # beyond half precision: infinite
                packed = np.packbits(values.astype(bool)) if binary else values.astype(np.float16)
            arrays[f"{name}|{variant}|{metric}"] = packed
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # its stub takes the names for allow_pickle's
    path.parent.mkdir(exist_ok=True)
    files.atomic_write(path, content.getvalue())
