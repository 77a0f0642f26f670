"""Arms over several tasks: which is best, and how sure that is. The numbers are those of `stats.tasks`."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from normbench.compare import configuration, describe
from normbench.compare.answer import Comparison
from normbench.compare.difference import AHEAD, ALPHA, BEHIND, FEWEST, UNDECIDED, Difference
from normbench.compare.groups import Cell, Task
from normbench.compare.question import NOTHING, Question, has_logged, value
from normbench.draw.typeset import in_columns
from normbench.errors import BadInput, unknown
from normbench.stats.statistics import Interval
from normbench.stats.tasks import Scores, Standing, standing

TITLE = "average ranks, and the probability of improvement, with 95 % intervals"
LEGEND = (
    "These tasks: what more seeds of them would say. Tasks like these: what more tasks would say, if these are a "
    "random sample of them."
)


@dataclass(frozen=True)
class Ranking:
    """`scores`: the runs of each arm, by task; `measured`: by task what is compared; `why`: no pair has a word."""

    scores: Scores
    measured: Mapping[str, str]
    against: str
    why: str
    notes: Sequence[str]

    @cached_property
    def ranked(self) -> dict[str, Standing | None]:
        """Of each arm against all others, the best first; None where no task has them all."""
        arms = dict.fromkeys(arm for arms in self.scores.values() for arm in arms)
        ranked = {arm: standing(self.scores, arm, [other for other in arms if other != arm]) for arm in arms}
        return dict(sorted(ranked.items(), key=lambda item: -item[1].share if item[1] else 0.0))

    def pairs(self, level: float = 1 - ALPHA) -> dict[tuple[str, str], Standing]:
        """Of each arm against each other one that it shares tasks with."""
        pairs = {(a, b): standing(self.scores, a, [b], level) for a, b in itertools.permutations(self.ranked, 2)}
        return {names: pair for names, pair in pairs.items() if pair}

    @cached_property
    def words(self) -> dict[tuple[str, str], str]:
        """Of the first against the second over these tasks, {} for no verdict: all pairs share ALPHA (Bonferroni)."""
        pairs = {} if self.why else self.pairs(1 - ALPHA / math.comb(len(self.ranked), 2))
        ends = {names: pair.these for names, pair in pairs.items()}
        return {n: AHEAD if low > 0.5 else BEHIND if high < 0.5 else UNDECIDED for n, (low, high) in ends.items()}

    @property
    def sentence(self) -> str:
        """Who is ahead of all others over these tasks, or who may be."""
        if self.why:
            return self.why
        behind = {arm for (arm, _), word in self.words.items() if word == BEHIND}
        front = [arm for arm in self.ranked if arm not in behind] or [*self.ranked]  # each may be behind another
        others = [arm for arm in self.ranked if arm != front[0]]
        if all(self.words.get((front[0], other)) == AHEAD for other in others):
            return f"Winner over these tasks: {front[0]}, ahead of {describe.join(others)}."
        return f"No winner over these tasks: {describe.join(front)} may be the best."


def over(tasks: Sequence[Task], query: Mapping[str, str], keys: Sequence[str]) -> Ranking:
    """Of the tasks that the values of these keys name."""
    scores: dict[str, Mapping[str, Sequence[float]]] = {}
    measured: dict[str, str] = {}
    reasons = set[str]()
    notes = defaultdict[str, list[str]](list)  # of which tasks each is
    option = f"--over {','.join(keys)}"
    for task in tasks:
        question = Question.of(task, {**query, "against": ""})
        if question.metric.rising is None:
            raise BadInput(f"{task.title}: nothing says which way {question.metric.title} is better. Say --better.")
        c = Comparison(task, question, [])
        for place in dict.fromkeys(map(question.place, task.cells)):
            # names by values, which are the same in all tasks
            arms = {task.arm_name(cell, question.by): cell for cell in task.cells if question.place(cell) == place}
            title = ", ".join(filter(None, [task.title, place]))
            name = " ".join(_value(key, list(arms.values()), title) for key in keys)
            runs = {arm: values for arm, cell in arms.items() if (values := numbers(cell, question))}
            if len(runs) < 2:
                notes[f"fewer than two of {describe.join([*arms])} have such a number. It is left out."].append(title)
                continue
            if name in scores:
                several = f"{option}: {name} has several tasks ({title}; {measured[name]})"
                raise BadInput(f"{several}. Add the key that tells them apart, after a comma, or choose by a filter.")
            without = {arm: sum(not has_logged(run, question) for run in cell.done) for arm, cell in arms.items()}
            unlogged = [f"{n} of {arm} log no such number, and are left out." for arm, n in without.items() if n]
            for note in (*unlogged, *describe.runs_notes(c)):
                notes[note].append(name)
            reasons |= {question.why_none(list(arms.values()))} - {""}
            measured[name] = f"{title}: {question.split} {question.metric.title} {describe.when(c)}"
            scores[name] = runs
    if len(scores) < 2:
        raise BadInput(f"{option} needs two tasks with several arms each, and has {len(scores)}.")
    every = list(dict.fromkeys(arm for arms in scores.values() for arm in arms))
    against = query.get("against") or (NOTHING if NOTHING in every else every[0])
    if against not in every:
        raise unknown(f"against={against}: no task has such an arm.", against, every)
    for name, of_task in scores.items():
        if lacking := [arm for arm in every if arm not in of_task]:
            notes[f"no such number of {describe.join(lacking)}. Ranks and pairs with these leave it out."].append(name)
        if lost := [f"{n} of {arm}" for arm, runs in of_task.items() if (n := sum(map(math.isinf, runs)))]:
            notes[f"{describe.join(lost)} diverged, and count as worse than all others."].append(name)
    few = any(len(runs) < FEWEST for of_task in scores.values() for runs in of_task.values())
    why = f"No verdict: fewer than {FEWEST} seeds." if few else ""
    why = f"{Difference(why=min(reasons)).because().capitalize()}." if reasons else why
    return Ranking(scores, measured, against, why, [f"{describe.join(names)}: {note}" for note, names in notes.items()])


def _value(key: str, cells: Sequence[Cell], title: str) -> str:
    """The one value of a key that all these cells have."""
    texts = list(dict.fromkeys(configuration.text(cell.values[key]) for cell in cells if key in cell.values))
    if not texts:
        keys = dict.fromkeys(itertools.chain(*(cell.values for cell in cells)))
        raise unknown(f"--over {key}: {title} has no such key.", key, keys)
    if len(texts) > 1:
        raise BadInput(f"--over {key}: it has several values in {title} ({', '.join(texts)}), so it names no task.")
    return f"{key}={texts[0]}" if "." in key else texts[0]


def numbers(cell: Cell, question: Question) -> list[float]:
    """The value of each finished run that logs it, lower is better; infinity of a diverged one."""
    values = [value(run, question) for run in cell.done if has_logged(run, question)]
    sign = -1.0 if question.metric.rising else 1.0
    return [math.inf if number is None else sign * number for number in [*values, *[None] * len(cell.diverged)]]


def table(r: Ranking) -> list[list[str]]:
    """A header and a row for each arm, the best first; columns in which nothing stands are left out."""
    ranks, pairs = r.ranked.values(), r.pairs()
    beside = [pairs.get((arm, r.against)) for arm in r.ranked]
    return in_columns({
        "arm": [*r.ranked],
        "n": [str(min(len(arms[arm]) for arms in r.scores.values() if arm in arms)) for arm in r.ranked],
        "average rank, these tasks": [f"{s.rank(s.share):.1f} {_ends(s.ranks(s.these))}" if s else "" for s in ranks],
        "tasks like these": [_ends(s.ranks(s.like_these)) if s else "" for s in ranks],
        f"P(better than {r.against}), %, these tasks": [
            f"{100 * p.share:.0f} {_ends(p.these, 100, 0)}" if p else "" for p in beside
        ],
        "%, tasks like these": [_ends(p.like_these, 100, 0) if p else "" for p in beside],
        f"against {r.against}": [r.words.get((arm, r.against), "") for arm in r.ranked],
    })  # fmt: skip


def _ends(ends: Interval, factor: int = 1, digits: int = 1) -> str:
    return f"[{factor * ends[0]:.{digits}f}, {factor * ends[1]:.{digits}f}]"
