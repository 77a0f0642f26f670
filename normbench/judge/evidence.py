"""One part of a claim against logged runs.

All runs of the compared cells count. Effects are paired by seed where all cells have the same seeds; else the means of
all runs are compared (Welch 1947), because pairs would leave runs out, and somebody chose which seeds there are. Where
one side has more than twice as many runs as the other there is no word: if losses are skewed, Welch's interval is then
too narrow on one side (results/check/judge_null.md). Runs of one cell have one configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.compare import configuration
from normbench.compare.difference import MOST_UNEVEN
from normbench.draw.text import format_seeds
from normbench.errors import BadInput
from normbench.files.stored import IMPORT
from normbench.judge.common_steps import AtCommonSteps, at_common_steps, named
from normbench.judge.declared import at_best, declared
from normbench.papers import rules
from normbench.papers.claims import Looks, Part, format_cell
from normbench.papers.endpoints import paired_runs
from normbench.papers.parts import Observed, gather
from normbench.runs.run import Run
from normbench.stats.series import series

Cells = Sequence[Mapping[int, Run]]  # of each cell of the contrast the run of a seed


@dataclass(frozen=True)
class Logged:
    """A part against logged runs. `lost`: how many runs of each cell diverged; `compared`: how runs were compared, and
    what else a reader has to know, in sentences. `step`: where the end is compared, None where all runs end there."""

    observed: Observed
    lost: tuple[int, ...] = ()
    compared: tuple[str, ...] = ()
    step: float | None = None


def observe(
    part: Part, runs: Sequence[Run], length: str, least: int, alone: Sequence[int] | None, looks: Looks | None = None
) -> Logged:
    """The part against runs of one control setting; of them only the seeds `alone`, where these are given.

    Raises NormbenchError for what the logs do not declare, or declare otherwise, for ends that differ, and for runs of
    one cell that differ in more than their seed.
    """
    counted = [run for run in runs if alone is None or run.seed in alone]
    cells, _ = paired_runs(part, counted)
    delta = part.delta.is_ if part.delta else None  # those of `rules.yaml` are of this project's data
    if part.kind == "exact" or not all(cells):
        return Logged(gather(part, counted, least=least, delta=delta))
    _check_cells(part, cells)
    compared = [*{run.id: run for cell in cells for run in cell.values()}.values()]
    part = declared(part, compared)
    end, monitor = part.endpoint, compared[0].monitor
    undecidable = Observed(part=part, gap=rules.NOT_DECIDABLE, runs=tuple(run.id for run in compared))
    if at_best(end) and monitor["split"] == end.split:
        return Logged(replace(undecidable, why="chosen by itself", about=(end.split,)))
    at_common = at_common_steps(part, compared, length)
    if not at_common.runs:
        return Logged(replace(undecidable, why="no common steps"))
    same_seeds = all(cell.keys() == cells[0].keys() for cell in cells) and all(map(_has_seed, compared))
    pairs = same_seeds or len(cells) == 1
    if not pairs and (sorted(part.weights) != [-1, 1] or part.test == "sign" or end.relative or end.least):
        return Logged(replace(undecidable, why="no pairs"), compared=(_not_paired(cells, part),))
    observed = gather(part, at_common.runs, None, least, delta, looks, in_pairs=pairs)
    lost = tuple(sum(run.status == "diverged" for run in cell.values()) for cell in cells)  # after the common end, too
    observed = replace(observed, diverged=max(observed.diverged, sum(lost)))
    if not observed.gap and observed.complete and observed.most > MOST_UNEVEN * observed.n:
        counts = observed.n, observed.most, math.ceil(observed.most / MOST_UNEVEN)
        observed = replace(observed, complete=False, why="uneven", about=tuple(map(str, counts)))
    if observed.why == "no record":
        observed = replace(observed, about=(_lacking(observed, at_common.runs),))
    if not observed.gap and (copies := _copies(part, paired_runs(part, at_common.runs)[0])):
        observed = replace(observed, complete=False, why="copies", about=(copies,))
    if at_common.short:
        observed = replace(observed, complete=False, why="cut short", about=at_common.short)
    step = at_common.end if end.kind == "final" and at_common.end < at_common.last else None
    return Logged(observed, lost, tuple(_compared(part, cells, pairs, at_common, lost)), step)


def _copies(part: Part, cells: Cells) -> str:
    """`seeds 1, 2 of arm ln`, whose curves are the same: one run that was logged twice has no spread of its own."""
    end = part.endpoint
    for (_, cell), runs in zip(part.contrast, cells, strict=True):
        seeds_by_curve: dict[tuple[Any, ...], list[int]] = {}
        for seed, run in runs.items():
            points = tuple(series(run, end.split, end.mode, end.metric, x="step")) if end.kind != "value" else ()
            if len({value for _, value in points}) > 1:  # a flat curve may be that of any run
                seeds_by_curve.setdefault(points, []).append(seed)
        for seeds in seeds_by_curve.values():
            if len(seeds) > 1:
                return f"{format_seeds(sorted(seeds))} of {format_cell(cell)}"
    return ""


def _check_cells(part: Part, cells: Cells) -> None:
    """NormbenchError where runs of one cell differ in an axis or option: a mean over both would depend on how many runs
    each has."""
    for (_, cell), by_seed in zip(part.contrast, cells, strict=True):
        runs = [*by_seed.values()]
        if not (values := _differing(runs)):
            continue
        key, has = next(iter(values.items()))
        others = f" (and {', '.join([*values][1:])})" if len(values) > 1 else ""
        is_axis = any(key in run.axes for run in runs)
        name_it = f"name it in the cell of the claim, {{{key}: {has[0]}}}, or " if is_axis else ""
        raise BadInput(
            f"part '{part.id}': runs of {format_cell(cell)} differ in {key}{others}: {', '.join(has)}. They are not "
            f"averaged: {name_it}choose among the runs, --runs NAME --runs '{key}={has[0]}'."
        )


def _differing(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The axes that runs differ in, or else the options, with their values; a cell may be of several imports."""
    axes = configuration.differing(run.axes for run in runs)
    options = configuration.differing(configuration.flats([run.config for run in runs]))
    if all(run.logged for run in runs):
        options.pop("model", None)  # the import
    texts_by_key = {key: [*map(configuration.text, values)] for key, values in (axes or options).items()}
    # where there is one value, some runs lack the key
    return {key: texts if len(texts) > 1 else [*texts, "none"] for key, texts in texts_by_key.items()}


def _has_seed(run: Run) -> bool:
    """Whether its number names a seed; else the import counted the runs of an arm."""
    return not run.config.get(IMPORT, {}).get("counted_seeds")


def _lacking(observed: Observed, runs: Sequence[Run]) -> str:
    """Which runs have no number, by their names."""
    names = [named(run) for run in runs if run.id in observed.about]
    more = f" and {len(names) - 1} more runs" if len(names) > 1 else ""
    end = observed.part.endpoint
    return f"{names[0]}{more} ({end.split} {end.metric})"


def _compared(part: Part, cells: Cells, pairs: bool, at_common: AtCommonSteps, lost: Sequence[int]) -> list[str]:
    """How the runs of these cells were compared, and what makes the comparison less than it seems."""
    texts = []
    if any(lost):
        counts = zip(lost, cells, part.contrast, strict=True)
        each = [f"{n} of {len(cell_runs)} runs of {format_cell(cell)}" for n, cell_runs, (_, cell) in counts]
        reason = next(run.reason for cell in cells for run in cell.values() if run.status == "diverged")
        texts.append(f"diverged: {', '.join(each)} ({reason})")
    if recovered := [named(run) for cell in cells for run in cell.values() if _recovered(part, run)]:
        texts.append(f"NaN or infinity on the way, and finite again: {', '.join(recovered)}")
    if len(cells) > 1:
        texts.append("pairs of equal seeds" if pairs else f"{_not_paired(cells, part)}: all runs of both sides (Welch)")
    if at_common.end < at_common.last and part.endpoint.kind == "final":
        texts.append(f"the last step that all have is {at_common.end:g} of {at_common.last:g}")
    elif at_common.end < at_common.last:
        texts.append(f"up to step {at_common.end:g} of {at_common.last:g}")
    if at_common.points < at_common.most and part.endpoint.kind != "final":
        texts.append(f"at the {at_common.points} steps that all have, of {at_common.most}")
    named_keys = {key for _, cell in part.contrast for key in cell}
    for key in sorted({key for cell in cells for run in cell.values() for key in run.axes} - named_keys):
        sides = [sorted({str(run.axes.get(key)) for run in cell.values()}) for cell in cells]
        if any(side != sides[0] for side in sides):
            texts.append(f"the sides also differ in {key}: {' and '.join(', '.join(side) for side in sides)}")
    return texts


def _recovered(part: Part, run: Run) -> bool:
    """Whether a run that did not diverge has a value in its compared series that is not finite."""
    end = part.endpoint
    if end.kind == "value" or run.status == "diverged":
        return False
    return not all(math.isfinite(value) for _, value in series(run, end.split, end.mode, end.metric, x="step"))


def _not_paired(cells: Cells, part: Part) -> str:
    """Why runs are no pairs: `seeds 6, 7 of arm rms have no partner`."""
    if not all(_has_seed(run) for cell in cells for run in cell.values()):
        return "seeds are counted, not logged"
    shared = set.intersection(*(set(cell) for cell in cells))
    if not shared:
        return "seeds are not shared"
    texts, count = [], 0
    for by_seed, (_, cell) in zip(cells, part.contrast, strict=True):
        count += len(by_seed.keys() - shared)
        if alone := sorted(by_seed.keys() - shared):
            texts.append(f"{format_seeds(alone)} of {format_cell(cell)}")
    return f"{' and '.join(texts)} {'has' if count == 1 else 'have'} no partner"
