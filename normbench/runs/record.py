"""What a finished run says: the unit that curves, claims and packs share."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from normbench.runs import files

PART = re.compile(r"(shuffle|block)=\d+$")  # a variant: the same way, on another order or on a part of the examples


def whole(records: Sequence[Mapping[str, Any]], epoch: int) -> bool:
    """Whether a curve has got past the evaluation of `epoch`: all its records are there, and the train NLL is finite.

    An epoch has the records of epoch 0 and the running mean, and may have more; those of test splits it may lack.
    """
    if any(record["epoch"] > epoch for record in records):
        return True
    counts = Counter(record["epoch"] for record in records if not str(record.get("split")).startswith("test"))
    finite = all(isinstance(r.get("nll", 0.0), float | int) for r in records if r["epoch"] == epoch)
    return finite and epoch > 0 and counts[epoch] >= counts[0] + 1


def curve_sha256(records: Sequence[Mapping[str, Any]]) -> str:
    """The fingerprint of a curve: the SHA-256 of its records as the lines of a curve.jsonl."""
    return hashlib.sha256(b"".join(map(files.line, records))).hexdigest()


@dataclass(frozen=True)
class RunRecord:
    """One run as logged: `records` are the lines of its curve, cut to `epochs`.

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

    def cut(self, epochs: int) -> RunRecord:
        """The same run as if it had been asked for `epochs` only: one that diverged later is done by then."""
        if epochs >= self.epochs and self.status != "diverged":
            return self
        later = whole(self.records, epochs)
        records = [record for record in self.records if record["epoch"] <= epochs]
        return replace(
            self,
            epochs=epochs,
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
