"""Arms over several tasks: which is best, and how sure that is. The numbers are those of `stats.tasks`."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from normbench.compare import configuration, describe
from normbench.compare.answer import Comparison, monitored_rank, why_none
from normbench.compare.difference import AHEAD, ALPHA, BEHIND, FEWEST, UNDECIDED, Difference
from normbench.compare.groups import Cell, Task
from normbench.compare.question import NOTHING, TUNED, Question, has_logged, value
from normbench.errors import BadInput, unknown
from normbench.stats.tasks import Scores, Standing, standing

LEGEND = (
    "These tasks: what more seeds of them would say. Tasks like these: what more tasks would say, if these are a "
    "random sample of them."
)
Arms = Mapping[str, Sequence[Cell]]  # the cells of an arm, which differ in the learning rate alone


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
        if self.no_verdict:
            return {}
        ends = {names: pair.these for names, pair in self.pairs(1 - ALPHA / math.comb(len(self.ranked), 2)).items()}
        return {n: AHEAD if low > 0.5 else BEHIND if high < 0.5 else UNDECIDED for n, (low, high) in ends.items()}

    @property
    def no_verdict(self) -> str:
        fewest = min(len(runs) for arms in self.scores.values() for runs in arms.values())
        return self.why or (f"No verdict: fewer than {FEWEST} seeds." if fewest < FEWEST else "")

    @property
    def sentence(self) -> str:
        """Who is ahead of all others over these tasks, or who may be."""
        if not self.words:
            return self.no_verdict
        for arm in self.ranked:
            others = [other for other in self.ranked if other != arm]
            if all(self.words.get((arm, other)) == AHEAD for other in others):
                return f"Winner over these tasks: {arm}, ahead of {describe.join(others)}."
        behind = {arm for (arm, _), word in self.words.items() if word == BEHIND}
        front = [arm for arm in self.ranked if arm not in behind]
        return f"No winner over these tasks: {describe.join(front)} may be the best."


def over(tasks: Sequence[Task], query: Mapping[str, str], keys: Sequence[str]) -> Ranking:
    """Of the tasks that the values of these keys name; with several learning rates each arm is at its best one."""
    scores: dict[str, Mapping[str, Sequence[float]]] = {}
    measured: dict[str, str] = {}
    reasons = set[str]()
    notes = defaultdict[str, list[str]](list)  # of which tasks each is
    known = {key for task in tasks for cell in task.cells for label in _labels(cell) for key in label}
    for key in keys:
        if key not in known:
            raise unknown(f"--over {key}: no run here has such a key.", key, known)
    for task, question, place, arms in _places(tasks, query):
        title = ", ".join(filter(None, [task.title, place]))
        if len(arms) == 1:
            notes[f"{next(iter(arms))} has no other beside it, which leaves it out."].append(title)
            continue
        name = _name([cell for cells in arms.values() for cell in cells], keys, title)
        if name in scores:
            way_out = "Add the key that tells them apart, after a comma, or choose by a filter."
            raise BadInput(f"--over {','.join(keys)}: {name} has several tasks ({title}; {measured[name]}). {way_out}")
        for note in _notes(name, task, question, arms):
            notes[note].append(name)
        chosen = {arm: min(cells, key=monitored_rank) for arm, cells in arms.items()}
        reasons |= {why_none(list(chosen.values()), question)} - {""}
        scores[name] = {arm: runs for arm, cell in chosen.items() if (runs := numbers(cell, question))}
        where = describe.when(Comparison(task, question, []))
        measured[name] = f"{title}: {question.split} {question.metric.title} {where}"
    if len(scores) < 2:
        raise BadInput(f"--over {','.join(keys)} needs two tasks with several arms each, and has {len(scores)}.")
    every = list(dict.fromkeys(arm for arms in scores.values() for arm in arms))
    against = query.get("against") or (NOTHING if NOTHING in every else every[0])
    if against not in every:
        raise unknown(f"against={against}: no task has such an arm.", against, every)
    for name, of_task in scores.items():
        if lacking := [arm for arm in every if arm not in of_task]:
            note = f"no such number of {describe.join(lacking)}. Ranks leave it out, as do pairs with these."
            notes[note].append(name)
        if lost := [f"{n} of {arm}" for arm, runs in of_task.items() if (n := sum(map(math.isinf, runs)))]:
            notes[f"{describe.join(lost)} diverged, and count as worse than all others."].append(name)
    why = f"{describe.because(Difference(why=min(reasons))).capitalize()}." if reasons else ""
    return Ranking(scores, measured, against, why, [f"{describe.join(names)}: {note}" for note, names in notes.items()])


def _places(tasks: Sequence[Task], query: Mapping[str, str]) -> Iterator[tuple[Task, Question, str, Arms]]:
    """Of each place of each task the cells by arm, under names that are the same in all tasks."""
    words = {name: word for name, word in query.items() if name != "against"}
    questions = [Question.of(task, words) for task in tasks]
    by_values: dict[str, str] = {}
    in_experiments: dict[str, str] = {}
    for task, question in zip(tasks, questions, strict=True):
        by_values |= {cell.key: task.arm_name(cell, question.by) for cell in task.cells}
        in_experiments |= question.arms
    # those that more tasks share: an experiment may have an arm with other options in each task, or `mnist-none`
    arms = min(by_values, in_experiments, key=lambda names: len({*names.values()}))
    for task, question in zip(tasks, questions, strict=True):
        question = replace(question, arms=arms, facets=tuple(key for key in question.facets if key != TUNED))
        if question.metric.rising is None:
            raise BadInput(f"{task.title}: nothing says which way {question.metric.title} is better. Say --better.")
        places: dict[str, dict[str, list[Cell]]] = {}
        for cell in task.cells:
            places.setdefault(question.place(cell), {}).setdefault(question.arm(cell), []).append(cell)
        yield from ((task, question, place, of_place) for place, of_place in places.items())


def _name(cells: Sequence[Cell], keys: Sequence[str], title: str) -> str:
    """The values of the keys, each of which has one for all these cells, or none."""
    words = []
    for key in keys:
        labels = [label for cell in cells for label in _labels(cell)]
        texts = list(dict.fromkeys(configuration.text(label[key]) for label in labels if key in label))
        if len(texts) > 1:
            raise BadInput(f"--over {key}: it has several values in {title} ({', '.join(texts)}), so it names no task.")
        words += [f"{key}={text}" if "." in key else text for text in texts]
    return " ".join(words)


def _labels(cell: Cell) -> list[dict[str, Any]]:
    """Of each run what it is filed by, its length and its configuration."""
    return [{**configuration.labels_of(run), **configuration.length_of(run), **cell.values} for run in cell.runs]


def numbers(cell: Cell, question: Question) -> list[float]:
    """The value of each finished run that logs it, lower is better; infinity of a diverged one."""
    values = [value(run, question) for run in cell.done if has_logged(run, question)]
    sign = -1.0 if question.metric.rising else 1.0
    return [math.inf if number is None else sign * number for number in [*values, *[None] * len(cell.diverged)]]


def _notes(name: str, task: Task, question: Question, arms: Arms) -> Iterator[str]:
    """What to read before the numbers are believed."""
    yield from describe.runs_notes(Comparison(task, question, []))
    for arm, cells in arms.items():
        if without := sum(not has_logged(run, question) for cell in cells for run in cell.done):
            yield f"{without} of {arm} log no such number, and are left out."
    tried = {arm: len(cells) for arm, cells in arms.items()}
    if max(tried.values()) > 1:
        if not task.has_best:
            raise BadInput(f"{name}: no run says what chooses among its learning rates. Choose one: {TUNED}=VALUE")
        shown = ", the split that is shown: optimistic" if task.monitored.get("split") == question.split else ""
        counts = ", ".join(f"{count} of {arm}" for arm, count in tried.items())
        counts = counts if len({*tried.values()}) > 1 else f"{max(tried.values())} each"
        yield f"each arm at its best learning rate by {describe.chosen_by(task)}{shown}. Tried: {counts}."


# --- words -----------------------------------------------------------------------------------------------------------


def title(r: Ranking) -> str:
    return f"average ranks over {len(r.scores)} tasks, and the probability of improvement, with 95 % intervals"


def table(r: Ranking) -> list[list[str]]:
    """A header and a row for each arm, the best first; columns in which nothing stands are left out."""
    ranks, pairs = r.ranked.values(), r.pairs()
    beside = [pairs.get((arm, r.against)) for arm in r.ranked]
    columns = {
        "arm": [*r.ranked],
        "n": [str(min(len(arms[arm]) for arms in r.scores.values() if arm in arms)) for arm in r.ranked],
        "average rank, these tasks": [
            f"{s.rank(s.share):.1f} {_ends(s.ranks(s.these), 1)}" if s else "" for s in ranks
        ],
        "tasks like these": [_ends(s.ranks(s.like_these), 1) if s else "" for s in ranks],
        f"P(better than {r.against}), %, these tasks": [
            f"{100 * p.share:.0f} {_percent(p.these)}" if p else "" for p in beside
        ],
        "%, tasks like these": [_percent(p.like_these) if p else "" for p in beside],
        f"against {r.against}": [r.words.get((arm, r.against), "") for arm in r.ranked],
    }
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    return [[*shown], *map(list, zip(*shown.values(), strict=True))]


def _ends(interval: tuple[float, float], digits: int) -> str:
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def _percent(interval: tuple[float, float]) -> str:
    return _ends((100 * interval[0], 100 * interval[1]), 0)


def as_json(r: Ranking) -> dict[str, Any]:
    """All of it as JSON values; each pair once, the better arm first. `share`: the probability of improvement."""
    both = r.pairs()
    pairs = {names: both[names] for names in itertools.combinations(r.ranked, 2) if names in both}
    return {
        "tasks": [
            {"task": task, "measured": r.measured[task], "runs": {arm: len(runs) for arm, runs in arms.items()}}
            for task, arms in r.scores.items()
        ],
        "arms": [{"arm": arm, "rank": s.rank(s.share), **asdict(s)} for arm, s in r.ranked.items() if s],
        "pairs": [
            {"first": a, "second": b, **asdict(pair), "word": r.words.get((a, b), "")} for (a, b), pair in pairs.items()
        ],
        "against": r.against, "sentence": r.sentence, "notes": [*r.notes],
    }  # fmt: skip
