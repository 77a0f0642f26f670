"""From columns to a curve: whole steps that rise, blanks and numbers that are not finite, all counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normbench.imports.log import Question, refuse
from normbench.imports.map_keys import Clock, Clocks, Map
from normbench.imports.parts import Part, as_numbers, check_column, first_other
from normbench.runs.run import HIGHEST, LARGEST

DENSE = ("csv", "parquet", "jsonl")  # where a blank needs a word; elsewhere it is no log, by design
GAP = 1.5  # times the median distance of two steps


@dataclass(frozen=True)
class Points:
    """The points of one series of one run: steps rise."""

    step: np.ndarray
    epoch: np.ndarray | None
    value: np.ndarray
    counted: Counter[str]

    @property
    def diverged(self) -> bool:
        return not np.isfinite(self.value[-1])

    def until(self, step: int) -> Points:
        keep = self.step <= step
        epoch = None if self.epoch is None else self.epoch[keep]
        return Points(self.step[keep], epoch, self.value[keep], self.counted + Counter(cut=int(np.sum(~keep))))


def points_of(name: str, parts: Sequence[Part], clocks: Clocks | None, map: Map) -> Points:
    """Of parts in the order of their files; without a clock of the one row, at step 1.

    NormbenchError with the run where the rules of the map refuse it.
    """
    pieces = [_piece(name, part, clocks, map) for part in parts]
    step, epoch, value = (np.concatenate(column) for column in zip(*pieces, strict=True))
    counted = Counter(nonfinite=int(np.sum(~np.isfinite(value))))
    if parts[0].log.source in DENSE:
        counted["blank"] = sum(part.table.num_rows for part in parts) - len(value)
    kept = _in_order(step, map.repeats or "rewind", f"run {parts[0].key}: {name}", counted)
    step, epoch, value = step[kept], epoch[kept], value[kept]
    if len(step) > 2:
        distances = np.diff(step)
        counted["gaps"] = int(np.sum(distances > GAP * np.median(distances)))
    return Points(step, epoch if clocks and clocks.epoch else None, value, counted)


def _piece(name: str, part: Part, clocks: Clocks | None, map: Map) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, epochs and values of the rows that have a value."""
    value, valid = numbers(part, part.values or name)
    if map.blank == "diverged":
        valid = np.ones(len(value), dtype=bool)
    elif not valid.all() and map.blank is None and part.log.source in DENSE:
        raise Question(
            f"{part.log.file['path']}: {np.sum(~valid)} values of '{name}' are blank. Write `blank: missing` into the "
            "map if they were not logged, `blank: diverged` if they were NaN.",
            "blank: missing",
        )
    value = np.where(np.abs(value) > LARGEST, np.copysign(np.inf, value), value)[valid]
    if clocks is None:
        return np.ones(len(value), dtype=np.int64), np.ones(len(value)), value
    clock = clocks.step or clocks.epoch
    assert clock, "a map has one of them"
    step = _clock(part, clock, name, valid)
    epoch = _clock(part, clocks.epoch, name, valid) if clocks.epoch else step
    is_off = (step != np.rint(step)) | (step < 0) | (step >= HIGHEST)
    if is_off.any():
        raise refuse(
            part.log.file["path"],
            f"'{clock.name}' is {step[is_off][0]:g} for '{name}', no whole number from 0 on: with times: N in the map "
            "N updates are one.",
        )
    return np.rint(step).astype(np.int64), epoch, value


def _clock(part: Part, clock: Clock, name: str, valid: np.ndarray) -> np.ndarray:
    values, has_clock = numbers(part, clock.name)
    if not has_clock[valid].all():
        raise refuse(
            part.log.file["path"],
            f"{np.sum(~has_clock[valid])} values of '{name}' have no '{clock.name}': clocks are mixed. Give the series "
            "its own x.",
        )
    scaled = values[valid] * (clock.times or 1)
    nearest = np.rint(scaled)
    return np.where(np.isclose(scaled, nearest, rtol=1e-12, atol=1e-9), nearest, scaled)


def numbers(part: Part, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A column as float64, and where it is not blank. NormbenchError where it has something else than numbers."""
    check_column(part.log, part.table, name)
    values, valid, is_other = as_numbers(part.table.column(name))
    if is_other.any():
        raise refuse(part.log.file["path"], f"column '{name}' has {first_other(part.log, name)}, which is no number.")
    return values, valid


def _in_order(step: np.ndarray, rule: str, where: str, counted: Counter[str]) -> np.ndarray:
    """Which points stay, in the order of their steps."""
    if not len(step):
        return step
    order = np.argsort(step, kind="stable")
    if rule == "last":
        last = np.append(np.diff(step[order]) > 0, True)
        counted["repeated"] = len(step) - int(last.sum())
        return order[last]
    repeats = np.zeros(len(step), dtype=bool)  # whether a step was logged before
    repeats[order[1:]] = np.diff(step[order]) == 0
    if repeats.any() and rule == "refuse":
        place = np.flatnonzero(repeats)[0]
        raise refuse(where, f"step {step[place]} comes after {step[place - 1]}, and repeats: refuse is in the map.")
    again = np.flatnonzero(np.append(False, np.diff(step) < 0) & (step <= step[0]))
    if repeats.any() and len(again):
        raise Question(
            f"{where}: step {step[again[0]]} comes after {step[again[0] - 1]}, back to the first: two runs, or one "
            "that was begun again. Tell them apart under run:, or take the last of each step with repeats: last.",
            "repeats: last",
        )
    # A step that comes again takes back whatever was logged before it at this step or later; where none does, what was
    # written late is put in its place.
    never = np.iinfo(np.int64).max
    later = np.append(np.minimum.accumulate(np.where(repeats, step, never)[::-1])[::-1][1:], never)
    stay = step < later
    same = np.append(np.diff(step) == 0, False)
    counted["repeated"] = int(np.sum(~stay & same))
    counted["rewound"] = int(np.sum(~stay & ~same))
    counted["unordered"] = int(np.sum(step[stay] < np.maximum.accumulate(step[stay])))
    return order[stay[order]]
