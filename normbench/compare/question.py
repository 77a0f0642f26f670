"""The question to a task: which number, when, against which arm, to which level; each part has a default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from normbench.compare import metrics
from normbench.compare.groups import Cell, Task
from normbench.compare.metrics import Metric
from normbench.errors import NormbenchError, unknown
from normbench.runs.record import RunRecord
from normbench.runs.store import FINISHED
from normbench.stats.series import Censored, Reached, Series, level_at_share, series, time_to_level

END, BEST = "end", "best"
MODE = "eval"
TUNED = "optim.lr"  # each arm is also compared at its own best value of it
SHARE = 0.95
NOTHING = "none"  # the choice of no normalizer: the default baseline
CLOCK_OF = {"epochs": "epoch", "updates": "step"}  # the unit of a budget -> its key in records


@dataclass(frozen=True)
class Question:
    """`at`: the last evaluation (`end`) or the best of what the run monitors (`best`); `by`: the keys that tell arms
    apart, `facets` the others that differ; `against`: the baseline, "" with one arm;
    `level`: in the logged unit, None where no curve improves; `arms`: their names by the cells' keys."""

    split: str
    metric: Metric
    at: str
    by: tuple[str, ...]
    facets: tuple[str, ...]
    against: str
    level: float | None
    clock: str
    arms: Mapping[str, str]

    @property
    def where(self) -> tuple[str, str, str]:
        return self.split, MODE, self.metric.name

    def arm(self, cell: Cell) -> str:
        """The arm that a cell is of: `layer`, or `layer norm.eps=0.1` where more than the normalizer differs."""
        return self.arms[cell.key]

    def place(self, cell: Cell) -> str:
        """The facets of a cell: only cells of one place are compared."""
        return cell.label(self.facets)

    def curve(self, run: Any) -> Series:
        """The metric over the budget's clock, as logged."""
        return series(run, *self.where, x=self.clock)

    def time_to_level(self, points: Series) -> Reached | Censored:
        """When a curve, as logged, reaches the level."""
        assert self.level is not None
        sign = -1 if self.metric.rising else 1
        return time_to_level([(x, sign * y) for x, y in points], sign * self.level, self.metric.loss and sign > 0)

    @classmethod
    def of(cls, task: Task, asked: Mapping[str, str]) -> Question:
        """A question from words: split, metric, at, by (keys, comma), against, level; those missing get their default.

        NormbenchError where the task has no such thing, or no record at all.
        """
        logged = metrics.logged([run for run in task.runs if run.records])
        if not logged:
            raise NormbenchError(f"{task.title}: no run has an evaluation yet. See: normbench status")
        split = asked.get("split") or ("test" if "test" in logged else next(iter(logged)))
        if split not in logged:
            raise unknown(f"split={split}: {task.title} has none.", split, logged)
        name = asked.get("metric") or metrics.chief(logged[split]).name
        metric = next((metric for metric in logged[split] if metric.name == name), None)
        if metric is None:
            metric_names = [metric.name for metric in logged[split]]
            raise unknown(f"metric={name}: {task.title} logs no such number on {split}.", name, metric_names)
        at = asked.get("at") or END
        if at not in (END, BEST):
            raise unknown(f"at={at} is no point of a run.", at, (END, BEST))
        by = tuple(key for key in dict.fromkeys(asked.get("by", "").split(",")) if key)
        for key in by:
            if key not in task.differing:
                raise unknown(f"by={key}: it does not differ between the runs of {task.title}.", key, task.differing)
        by = by or task.arm_keys
        facets = tuple(key for key in task.differing if key not in by)
        names = task.arms(by)
        clock = CLOCK_OF[task.budget[1]]
        question = cls(split, metric, at, by, facets, "", None, clock, names)
        question = replace(question, against=_baseline(task, question, asked.get("against", "")))
        return question.at_level(task, asked.get("level", ""))

    def at_level(self, task: Task, asked: str) -> Question:
        """The question with a level: the given one, in the displayed unit, else SHARE of the way of all curves."""
        if asked:
            try:
                level = float(asked.rstrip(" %")) / self.metric.factor
            except ValueError:
                level = math.nan
            if not math.isfinite(level):
                raise NormbenchError(f"level={asked} is no number.")
            if self.metric.share and not 0 <= level <= 1:
                raise NormbenchError(f"level={asked}: {self.metric.title} lies between 0 and 100 %.")
            if self.metric.loss and level <= 0:
                raise NormbenchError(f"level={asked}: {self.metric.title} must be above 0.")
        else:
            curves = [self.curve(run) for run in task.runs if run.records and run.status == "done"]
            found = level_at_share(curves, SHARE, better="higher" if self.metric.rising else "lower")
            if found is None:
                return self
            best = level_at_share(curves, 1.0, better="higher" if self.metric.rising else "lower") or found
            level = next(
                rounded
                for digits in (*range(2, 15), 17)  # as few digits as possible, so that some curve still reaches it
                if abs((rounded := float(f"{found:.{digits}g}")) - found) <= abs(best - found) / 2 or digits == 17
            )
        return replace(self, level=level)


def _baseline(task: Task, question: Question, asked: str) -> str:
    """The baseline: the given arm, else the one without a normalizer, else the first.

    An arm whose runs all ended without a number is no default.
    """
    names, by = question.arms, question.by
    arms = list(dict.fromkeys(names.values()))
    if asked:
        if asked in arms:
            return asked
        having = list(dict.fromkeys(names[cell.key] for cell in task.cells if cell.norm == asked))
        if not having and len(by) == 1:  # the value alone
            having = list(dict.fromkeys(names[cell.key] for cell in task.cells if cell.format_value(by[0]) == asked))
        if len(having) == 1:
            return having[0]
        if having:
            raise NormbenchError(f"against={asked}: several arms of {task.title} have it: {', '.join(having)}.")
        raise unknown(f"against={asked}: {task.title} has no such arm.", asked, arms)
    if len(arms) == 1:
        return ""
    alive = {names[cell.key] for cell in task.cells if any(_may_have_a_number(run, question) for run in cell.runs)}
    arms = [arm for arm in arms if arm in alive] or arms
    baselines = [name for cell in task.cells if cell.norm == NOTHING and (name := names[cell.key]) in arms]
    return next((name for name in arms if name == NOTHING), baselines[0] if baselines else arms[0])


def _may_have_a_number(run: RunRecord, question: Question) -> bool:
    """Whether it ended with a finite number of this metric, or has not ended."""
    if run.status != "done":
        return run.status not in FINISHED
    curve = question.curve(run)
    return bool(curve) and math.isfinite(curve[-1][1])
