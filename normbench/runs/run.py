"""What a finished run says: the unit that curves, claims and packs share."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from normbench.errors import BadInput
from normbench.files.stored import LOGGED
from normbench.runs import files
from normbench.runs.curve import Curve

HIGHEST = 2**53  # of a count: every whole number below it is a float
LARGEST = 1e60  # of a metric: beyond what is trained in float32, and its fourth power is a float
SHORTEST = 4  # characters of an id that name a run
UNLIKE_NUMBERS = ("NaN", "Infinity", "-Infinity")  # as a log has them


def evaluation_complete(records: Sequence[Mapping[str, Any]], step: int) -> bool:
    """Whether a curve has got past the evaluation at `step`: all its records are there, and the default ones finite.

    An evaluation has the records of the first one and the running mean, and may have more; those of test splits it may
    lack. Variants, and what a model does after training, may have numbers that are not finite.
    """
    if any(record["step"] > step for record in records):
        return True
    counts = Counter(record["step"] for record in records if not str(record.get("split")).startswith("test"))
    default = (r for r in records if r["step"] == step and "variant" not in r and r.get("mode") != "stage")
    finite = all(isinstance(value, float | int) for r in default for key, value in r.items() if key not in PLACE)
    return finite and step > 0 and counts[step] >= counts[0] + 1


def begun_by(start: str, ids: Iterable[str]) -> str:
    """The id that begins so, "" for none. NormbenchError with those that do where they are several."""
    hits = sorted({run for run in ids if run.startswith(start)}) if start else []
    if len(hits) > 1:
        more = f" and {len(hits) - 5} more" if len(hits) > 5 else ""
        raise BadInput(f"{start} is the start of {len(hits)} runs: {', '.join(hits[:5])}{more}.")
    return hits[0] if hits else ""


def curve_sha256(records: Sequence[Mapping[str, Any]]) -> str:
    """The fingerprint of a curve: the SHA-256 of its records as the lines of a curve.jsonl."""
    return hashlib.sha256(b"".join(map(files.line, records))).hexdigest()


def check_record(record: Any) -> None:
    """TypeError where this is no record: a place in a run, and metrics."""
    if not isinstance(record, dict) or not {"step", "split", "mode"} <= record.keys():
        raise TypeError(f"{record!r:.40} is not a record: it has no step, split or mode")
    for key, value in record.items():
        if key not in PLACE:
            if type(value) is float and -LARGEST <= value <= LARGEST:
                continue  # nearly all of them: no call of a function, which takes as long as the rest
            fits = _is_finite(value) or value in UNLIKE_NUMBERS
        elif key in COUNTS:
            fits = type(value) is int and 0 <= value < HIGHEST
        elif key == "epoch":
            fits = _is_finite(value) and 0 <= value < HIGHEST
        elif key == "variant":
            fits = isinstance(value, dict) and all(isinstance(v, str) or _is_finite(v) for v in value.values())
        else:
            fits = isinstance(value, str)
        if not fits:
            raise TypeError(f"{record!r:.40} has {key}={value!r:.20}")


def check_columns(place: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> None:
    """The same of many records: the split, mode and variant that they share, and a column for each further key."""
    if not place.keys() <= {*BLOCK} or not columns.keys().isdisjoint(BLOCK):
        raise TypeError(f"{place!r:.40} has other keys than split, mode and variant")
    check_record({"step": max(columns["step"], default=0), **place})
    for key, values in columns.items():
        if str in (types := {*map(type, values)}) and key not in PLACE:
            values = [value for value in values if value not in UNLIKE_NUMBERS]
            types = {*map(type, values)}
        is_count = key in COUNTS
        low, high = (0, HIGHEST) if is_count else (-LARGEST, LARGEST)
        if not types <= ({int} if is_count else {int, float}) or (
            values and not low <= min(values) <= max(values) <= high
        ):
            raise TypeError(f"column {key} has something else than numbers")


def _is_finite(value: Any) -> TypeGuard[float]:
    return type(value) in (float, int) and -LARGEST <= value <= LARGEST


FINISHED = ("done", "diverged")
STATES = (*FINISHED, "running", "failed", "interrupted")  # of a run.json
# What a table of runs says of each, beside its configuration.
LABELS = ("run", "experiment", "arm", "seed", "fidelity", "control", "status")
# What places a record in its run; all else in it are metrics.
PLACE = ("step", "epoch", "examples", "split", "mode", "variant", "order", "block")
COUNTS = ("step", "examples", "order", "block")
BLOCK = ("split", "mode", "variant")  # what the records of a block share
EVALUATED = ("eval", "both", LOGGED)  # modes of records that stand for evaluation
LOSSES = ("nll", "loss")  # metrics of ours whose ratios count: interpolated on their logarithm
NO_CURVE = Curve()  # of all runs whose curve is not read
NO_MONITOR = {"split": "", "metric": "", "goal": "min"}


@dataclass(frozen=True)
class Run:
    """One run as it is stored, in a directory or a pack; its curve, cut to `steps` updates, is read when it is used.

    `epochs` is that length in epochs, 0 where it is given in updates; without `steps` the records give them.

    `axes` places the run inside its experiment, e.g. `{"train.batch_size": 128}`; `control` names the control
    setting it was trained under ("" is the paper's own). `status` is `done` or `diverged`; of a directory also
    `running`, `interrupted`, `failed`, and `damaged` with the `reason`. `step`: how far a directory's run has been
    saved. `began`: when it did, in UTC. `earlier_id`: the id that a published run had before version 0.2.
    `evaluations`: the number of its records in a pack. `curve_sha256`, `files`: hashes of what a finished run left in
    its directory. `elsewhere`: experiment and arm of other published results that have it too. `cut_from`: the updates
    of the longer run that it was cut from. `source`: published, smoke, own or imported, where all runs of a results
    folder are read. `path`: its directory, or its pack.
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
    records: Curve = field(default_factory=lambda: NO_CURVE)
    environment: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    earlier_id: str = field(default="", compare=False)
    began: str = field(default="", compare=False)
    step: int = field(default=0, compare=False)
    evaluations: int = field(default=0, compare=False)
    curve_sha256: str = field(default="", compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)
    elsewhere: Sequence[tuple[str, str]] = field(default=(), compare=False)
    cut_from: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)
    path: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.records, Curve):  # from a pack, or made up
            object.__setattr__(self, "records", Curve(self.records))
        if self.steps or not self.epochs:
            return
        with contextlib.suppress(TypeError, KeyError, ValueError, OverflowError):  # no records: their reader says so
            per_epoch = next((r["step"] / r["epoch"] for r in self.records if r["epoch"] >= 1), 0)
            object.__setattr__(self, "steps", round(per_epoch * self.epochs))

    @functools.cached_property
    def cache(self) -> dict[Any, Any]:
        """What was made of the records before, by what was asked for."""
        return {}

    @property
    def log(self) -> Path | None:
        """What it printed, and why it failed; None where that is nothing."""
        log = self.path / "output.log"
        with contextlib.suppress(OSError):
            return log if log.stat().st_size else None
        return None

    @property
    def monitor(self) -> Mapping[str, str]:
        """What is best: split, metric and goal (min, max); no metric where that was not declared."""
        return {**NO_MONITOR, **self.config.get("monitor", {})}

    @property
    def logged(self) -> bool:
        """Whether another program made it: its length and its evaluations were not planned here."""
        return self.fidelity == LOGGED

    def is_called(self, word: str) -> bool:
        """Whether a word is its experiment or arm, here or elsewhere, or begins its id."""
        named = any(word in place for place in ((self.experiment, self.arm), *self.elsewhere))
        return named or (len(word) >= SHORTEST and self.id.startswith(word))

    def serves(self, steps: int) -> bool:
        """Whether this run, cut to so many updates, is what one of that length would be: it was evaluated there.

        A diverged run serves every length at which it was to be evaluated, which `Wanted.accepts` asks: it was, or
        it diverged before.
        """
        longer = self.steps > steps and any(record["step"] == steps for record in self.records)
        return self.steps == steps or longer or self.status == "diverged"

    def cut(self, steps: int) -> Run:
        """The same run as if it had been asked for so many updates only: one that diverged later is done by then."""
        if steps >= self.steps and (self.status != "diverged" or self.logged):
            return self
        later = evaluation_complete(self.records, steps)
        records = Curve(record for record in self.records if record["step"] <= steps)
        return replace(
            self,
            epochs=round(self.epochs * steps / self.steps) if self.steps else self.epochs,
            steps=steps,
            records=records,
            status="done" if later else self.status,
            reason="" if later else self.reason,
            seconds=None if later or not records else self.seconds,
            cut_from=self.steps if steps < self.steps else self.cut_from,
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
