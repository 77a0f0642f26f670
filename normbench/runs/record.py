"""What a finished run says: the unit that curves, claims and packs share."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from normbench.config.identity import MONITOR
from normbench.runs import files


def evaluation_complete(records: Sequence[Mapping[str, Any]], step: int) -> bool:
    """Whether a curve has got past the evaluation at `step`: all its records are there, the training loss finite.

    An evaluation has the records of the first one and the running mean, and may have more; those of test splits it may
    lack.
    """
    if any(record["step"] > step for record in records):
        return True
    counts = Counter(record["step"] for record in records if not str(record.get("split")).startswith("test"))
    finite = all(isinstance(v, float | int) for r in records if r["step"] == step and r["split"] == "train"
                 for key, v in r.items() if key not in PLACE)  # fmt: skip
    return finite and step > 0 and counts[step] >= counts[0] + 1


def curve_sha256(records: Sequence[Mapping[str, Any]]) -> str:
    """The fingerprint of a curve: the SHA-256 of its records as the lines of a curve.jsonl."""
    return hashlib.sha256(b"".join(map(files.line, records))).hexdigest()


def check_record(record: Any) -> None:
    """TypeError, ValueError where this is no record: a place in a run, and metrics."""
    if not isinstance(record, dict):
        raise TypeError(f"{record!r:.40} is not a record")
    step, epoch = record.get("step"), record.get("epoch")
    if type(step) is not int or not 0 <= step < 2**53 or not isinstance(epoch, int | float) or not math.isfinite(epoch):
        raise TypeError(f"{record!r:.40} has no step and epoch")
    if not all(isinstance(record.get(key), str) for key in ("split", "mode")):
        raise TypeError(f"{record!r:.40} has no split or mode")
    variant = record.get("variant", {})
    if not isinstance(variant, dict) or not all(isinstance(v, str | int | float) for v in variant.values()):
        raise TypeError(f"{record!r:.40} has a variant that is none")
    for key, value in record.items():
        if key in ("examples", "order", "block") and type(value) is not int:
            raise TypeError(f"{record!r:.40} has {key}={value!r:.20}")
        if key not in PLACE:
            float(value)  # a number, or the log's "NaN", "Infinity", "-Infinity"


# What places a record in its run; all else in it are metrics.
PLACE = ("step", "epoch", "examples", "split", "mode", "variant", "order", "block")


@dataclass(frozen=True)
class RunRecord:
    """One run as logged: `records` are the lines of its curve, cut to `steps` updates.

    `epochs` is that length in epochs, 0 where it is given in updates; whoever says no `steps` has them of the records.

    `axes` places the run inside its experiment, e.g. `{"train.batch_size": 128}`; `control` names the control
    setting it was trained under ("" is the paper's own). `status` is `done` or `diverged`. `was` has the hash that the
    curve had in an older form, where that is another; it is no part of what the run says.
    """

    id: str
    experiment: str
    arm: str
    seed: int
    status: str
    epochs: int
    axes: Mapping[str, Any] = field(default_factory=dict)
    control: str = ""
    fidelity: str = "paper"
    reason: str = ""
    records: Sequence[Mapping[str, Any]] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    was: Mapping[str, Any] = field(default_factory=dict, compare=False)
    steps: int = 0

    def __post_init__(self) -> None:
        if self.steps or not self.epochs:
            return
        with contextlib.suppress(TypeError, KeyError, ValueError, OverflowError):  # no records: their reader says so
            per_epoch = next((r["step"] / r["epoch"] for r in self.records if r["epoch"] >= 1), 0)
            object.__setattr__(self, "steps", round(per_epoch * self.epochs))

    @property
    def monitor(self) -> Mapping[str, str]:
        """What is best: split, metric and goal (min, max)."""
        return {**MONITOR, **self.config.get("monitor", {})}

    def serves(self, steps: int) -> bool:
        """Whether this run, cut to so many updates, is what one of that length would be: it was evaluated there."""
        longer = self.steps > steps and any(record["step"] == steps for record in self.records)
        return self.steps == steps or longer or self.status == "diverged"

    def cut(self, steps: int) -> RunRecord:
        """The same run as if it had been asked for so many updates only: one that diverged later is done by then."""
        if steps >= self.steps and self.status != "diverged":
            return self
        later = evaluation_complete(self.records, steps)
        records = [record for record in self.records if record["step"] <= steps]
        return replace(
            self,
            epochs=round(self.epochs * steps / self.steps) if self.steps else self.epochs,
            steps=steps,
            records=records,
            was=self.was if len(records) == len(self.records) else {},  # that hash is the whole curve's
            status="done" if later else self.status,
            reason="" if later else self.reason,
            seconds=None if later else self.seconds,
        )

    def matches(self, cell: Mapping[str, Any]) -> bool:
        """Whether this run lies in `cell`, e.g. `{"arm": "ln", "train.batch_size": 128}`.

        A `variant` there says which of its evaluations is meant, and places no run.
        """
        return all(
            (self.arm if key == "arm" else self.axes.get(key)) == value
            for key, value in cell.items()
            if key != "variant"
        )
