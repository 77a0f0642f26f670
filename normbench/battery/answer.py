"""The answer of a battery: a word with its numbers for each experiment and opponent, and how often each was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from normbench.battery.trials import OPPONENTS, Trial, contestants
from normbench.compare import metrics
from normbench.compare.answer import compare
from normbench.compare.difference import AHEAD, ALPHA, BEHIND, FEWEST, UNDECIDED, Difference, difference_of, judge
from normbench.compare.groups import FIDELITY, Cell, Task
from normbench.compare.metrics import Metric, format_metric
from normbench.compare.question import Question
from normbench.compare.ranking import numbers
from normbench.config.plan import ADHOC
from normbench.runs.run import Run
from normbench.stats.series import final, series
from normbench.stats.statistics import significant_signs
from normbench.stats.tasks import standing

if TYPE_CHECKING:  # imports torch
    from normbench.battery.cost import Cost

BETTER, WORSE, NOT_YET = "better", "worse", "not yet"
WORDS = (BETTER, WORSE, UNDECIDED, NOT_YET)
OF_DIFFERENCES = {AHEAD: BETTER, BEHIND: WORSE, UNDECIDED: UNDECIDED}


@dataclass(frozen=True)
class Comparison:
    """The new normalizer minus an opponent, as `compare` has it at the last evaluation.

    `not_yet`: why the numbers tell nothing; "" if they do.
    """

    quantity: str
    unit: str
    difference: Difference
    not_yet: str = ""

    @property
    def against(self) -> str:
        return self.difference.second

    @property
    def has_number(self) -> bool:
        return not self.not_yet and self.difference.interval is not None

    @property
    def gone(self) -> int | None:
        """The side whose runs all diverged, which decides without a number."""
        lost = self.difference.lost
        return lost.index(max(lost)) if self.difference.n == 0 == min(lost) and max(lost) >= FEWEST else None

    @property
    def word(self) -> str:
        if self.gone is not None:
            return (WORSE, BETTER)[self.gone]
        return NOT_YET if self.not_yet else OF_DIFFERENCES[self.difference.word]

    @property
    def why(self) -> str:
        """The reason for no decision, or for one without a number."""
        if self.gone is not None:
            return f"all runs of {(self.difference.first, self.difference.second)[self.gone]} diverged"
        return self.not_yet or self.difference.because(self.unit)


@dataclass(frozen=True)
class Outcome:
    """One trial with its runs by normalizer, a comparison with each opponent, the cost of an update, and the reasons
    of failed runs."""

    trial: Trial
    runs: Mapping[str, Sequence[Run]]
    comparisons: Sequence[Comparison]
    costs: Mapping[str, Cost]
    failed: Mapping[str, str]


def quantities(runs: Sequence[Run]) -> list[tuple[str, Metric]]:
    """(split, metric) of what the last evaluation logged: of the test split, or else the monitored one, then of train.

    The first is the chief one: the first share, since it needs no unit, else the first that the model declares. Numbers
    of which nothing says whether a lower or a higher one is better are none of them.
    """
    if not runs:
        return []
    logged = metrics.logged([*runs])
    listed = []
    for split in dict.fromkeys(("test" if "test" in logged else runs[0].monitor["split"], "train")):
        at_the_end = [
            m
            for m in logged.get(split, ())
            if m.better and any(final(run, split, "eval", m.name) is not None for run in runs)
        ]
        listed += [(split, m) for m in sorted(at_the_end, key=lambda m: m != metrics.chief(at_the_end))]
    return listed


def comparisons(name: str, trial: Trial, runs: Mapping[str, Sequence[Run]]) -> list[Comparison]:
    """The difference from each opponent in the chief metric; `runs`: normalizer -> finished runs of the trial."""
    none = {other: difference_of({}, {}, (name, other)) for other in trial.specs if other != name}
    if not (chief := _chief(trial, runs)):
        return [Comparison("", "", d, f"0 of {FEWEST} seeds") for d in none.values()]
    task, question = chief
    split, metric = question.split, question.metric
    (group,) = compare(task, replace(question, arms={norm: norm for norm in runs}, against=name)).groups
    differences = none | {row.arm: row.difference.reversed for row in group.rows if row.difference}
    learned = {norm: _learned(of_norm, split, metric) for norm, of_norm in runs.items()}
    quantity, unit = format_metric(split, metric.name), metric.step_unit or metric.measured_in
    return [
        Comparison(quantity, unit, d, _not_yet(d, learned[name] or learned[other])) for other, d in differences.items()
    ]


def _chief(trial: Trial, runs: Mapping[str, Sequence[Run]]) -> tuple[Task, Question] | None:
    """The runs as a task, and the question after their chief metric; None where nothing is logged."""
    if not (logged := quantities([run for of_norm in runs.values() for run in of_norm])):
        return None
    split, metric = logged[0]
    cells = tuple(Cell(norm, {"norm": norm, FIDELITY: ADHOC}, tuple(of_norm), {}) for norm, of_norm in runs.items())
    task = Task(trial.name, "", "", (0, "updates"), cells)
    return task, Question.of(task, {"split": split, "metric": metric.name})


def _not_yet(d: Difference, learned: bool) -> str:
    """Why the numbers of two arms tell nothing; "" if they do. learned: whether any of the two did."""
    if d.n < FEWEST:
        return f"{d.n} of {FEWEST} seeds{f', {sum(d.lost)} diverged' if any(d.lost) else ''}"
    if not learned:
        return "at chance: no better than before training"
    return "all seeds alike" if d.flat else ""


def _learned(runs: Sequence[Run], split: str, metric: Metric) -> bool:
    """Whether the last values are better than those before training, by t over seeds."""
    curves = [dict(series(run, split, "eval", metric.name, x="step")) for run in runs if run.status == "done"]
    gains = [curve[max(curve)] - curve[0] for curve in curves if 0 in curve]
    return significant_signs([gains], ALPHA) == [1 if metric.rising else -1]


# --- words -----------------------------------------------------------------------------------------------------------


def decide(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with a word for each comparison, the most important outcome first.

    The comparisons with one opponent share Holm's adjustment. First come outcomes with the most decided comparisons,
    then with the most undecided ones; among equals the surest difference.
    """
    words: dict[tuple[int, str], Comparison] = {}
    for other in dict.fromkeys(c.against for outcome in outcomes for c in outcome.comparisons):
        family = {i: c for i, outcome in enumerate(outcomes) for c in outcome.comparisons if c.against == other}
        # judged anew, because `compare` had another family; what tells nothing is no test of it
        fresh = {i: replace(c.difference, word=UNDECIDED, why="", holm=None) for i, c in family.items()}
        telling = [i for i, c in family.items() if not c.not_yet]
        fresh |= dict(zip(telling, judge([fresh[i] for i in telling]), strict=True))
        words |= {(i, other): replace(c, difference=fresh[i]) for i, c in family.items()}
    decided = []
    for i, outcome in enumerate(outcomes):
        decided.append(replace(outcome, comparisons=[words[i, c.against] for c in outcome.comparisons]))
    return sorted(decided, key=_importance)


def ranks(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The average rank of the normalizer, and the probability that a run of it is better than one of layer, over the
    experiments in which any normalizer learns and each has FEWEST runs, diverged ones too; {} below two of these."""
    scores = {}
    for outcome in outcomes:
        if chief := _chief(outcome.trial, outcome.runs):
            task, question = chief
            if any(_learned(of_norm, question.split, question.metric) for of_norm in outcome.runs.values()):
                scores[outcome.trial.name] = {cell.key: numbers(cell, question) for cell in task.cells}
    norms = contestants(name)
    whole = {trial: s for trial, s in scores.items() if all(len(s.get(norm, ())) >= FEWEST for norm in norms)}
    of_all, beside = standing(whole, name, norms[1:]), standing(whole, name, norms[1:2])
    if not of_all or not beside or of_all.tasks < 2:
        return {}
    return {
        "rank": of_all.rank(of_all.share), "rank_interval": of_all.ranks(of_all.these), "of": len(norms),
        "against": norms[1], "probability": beside.share, "interval": beside.these, "experiments": of_all.tasks,
    }  # fmt: skip


def _importance(outcome: Outcome) -> tuple[int, int, float]:
    given = [c.word for c in outcome.comparisons]
    surest = min((p for c in outcome.comparisons if (p := c.difference.holm) is not None), default=1.0)
    return -given.count(BETTER) - given.count(WORSE), -given.count(UNDECIDED), surest


def counts(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """For each opponent how many experiments have each word."""
    by_opponent: dict[str, dict[str, int]] = {}
    for c in (c for outcome in outcomes for c in outcome.comparisons):
        by_opponent.setdefault(c.against, dict.fromkeys(WORDS, 0))[c.word] += 1
    return {other: by_opponent[other] for other in OPPONENTS if other in by_opponent}
