"""The words of a comparison, and its JSON form: heading, sentences, notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from normbench.compare import configuration, metrics
from normbench.compare.answer import Comparison, Group, Row
from normbench.compare.difference import AHEAD, UNDECIDED, Difference
from normbench.compare.groups import Task
from normbench.compare.question import BEST, END, TUNED, has_logged
from normbench.draw.tables import Entry, Forms, column, format_estimate, one_format
from normbench.draw.text import format_seeds
from normbench.papers.rules_file import ALPHA, FEWEST

TUNED_EACH = " (each at its own best learning rate)"
MOST_PAIRS = 6  # undecided ones by name
NOT_LOGGED = "not logged"
LOADED = 1.5  # slowest seed of an arm / fastest: above it, the machine was busy with other work too


def heading(c: Comparison) -> str:
    """`test error at the end, % · mean and 95 % interval over seeds alone · lower is better`."""
    q = c.question
    unit = f", {q.metric.unit}" if q.metric.unit else ""
    better = f"{q.metric.better} is better" if q.metric.better else "nothing says which way is better"
    better += ", as its name suggests (else: --better)" if q.metric.guessed else ""
    spread = any(row.at.interval for group in c.groups for row in group.rows)
    how = "mean and 95 % interval over seeds alone" if spread else "single runs"
    return f"{q.split} {q.metric.title} {when(c)}{unit} · {how} · {better}"


def when(c: Comparison) -> str:
    """The point of a run that is compared."""
    return "at the end" if c.question.at == END else f"at the best by {chosen_by(c.task)}"


def chosen_by(task: Task) -> str:
    """The metric that says when a run is at its best: `valid NLL`."""
    monitor = task.monitored
    return metrics.format_metric(monitor["split"], monitor["metric"]) if monitor else "what each run monitors"


# --- sentences -------------------------------------------------------------------------------------------------------


def sentence(c: Comparison) -> str:
    """Who wins in each group that has several arms, in one line."""
    several = [group for group in c.groups if len(group.rows) > 1]
    places = (f"{group.place}: " if group.place else "" for group in several)
    return " ".join(place + group_sentence(g, c) for place, g in zip(places, several, strict=True))


def group_sentence(group: Group, c: Comparison) -> str:
    """`group_sentences` in one line."""
    first, phrases = group_sentences(group, c)
    return " ".join([*first, *([f"{'; '.join(phrases)}."] if phrases else [])])


def group_sentences(group: Group, c: Comparison) -> tuple[list[str], list[str]]:
    """Who wins and by how much, or that it is open; then a phrase for each further comparison."""
    unit, forms = c.question.metric.step_unit, c.difference_forms
    rows = [row for row in group.rows if not row.unlogged]
    most = max((row.at.n for row in rows), default=0)
    if not rows:
        return ["No run has such a number."], []
    if most == 0 and all(row.lost for row in rows):
        return ["Every run diverged."], []
    if len(rows) < 2:
        return (["No run is done yet."] if most == 0 else []), []
    how = TUNED_EACH if group.tuned else ""
    if most < FEWEST:
        return [f"No verdict{how}: fewer than {FEWEST} seeds."], []
    lost = [f"Every run of {join(group.lost)} diverged."] if group.lost else []
    if c.question.metric.rising is None:
        undirected = f"nothing says whether a lower or a higher {c.question.metric.title} is better"
        return [f"No winner{how}: {undirected} (--better; of an import: goal in its map).", *lost], []
    few = [row.arm for row in rows if row.at.n < FEWEST and not row.lost]
    front = [arm for arm in group.front if arm not in few]
    if group.winner:
        others = [f"{d.second} ({difference(d, unit, forms)})" for d in group.best_against_others]
        first = f"Winner{how}: {group.winner}, ahead of {join(others)}."
    elif len(front) != 1:
        first = f"No winner{how}: undecided between {join(front)}."
    else:
        behind = "not significantly ahead of every arm after Holm's correction"
        reason = f"{front[0]} is in front, but {behind}"
        if few:  # which may have better means
            reason = f"fewer than {FEWEST} seeds of {join(few)}"
        first = f"No winner{how}: {reason}."
    decided = [d for d in group.against if d.word != UNDECIDED and group.winner not in (d.first, d.second)]
    phrases = [
        f"{d.first} is {'ahead of' if d.word == AHEAD else 'behind'} {d.second} ({difference(d, unit, forms)})"
        for d in decided
    ]
    return [first, *lost], [*phrases, *_open(group.open, unit)]


def _open(differences: Sequence[Difference], unit: str) -> list[str]:
    """The undecided pairs, those with the same reason in one phrase."""
    pairs: dict[str, list[str]] = {}
    for d in differences:
        pairs.setdefault(d.because(unit), []).append(f"{d.first} against {d.second}")
    return [f"{join(_few(names))}: undecided{why and f' ({why})'}" for why, names in pairs.items()]


def _few(pairs: Sequence[str]) -> Sequence[str]:
    """The first pairs by name, the others by number."""
    return [*pairs[:MOST_PAIRS], f"{len(pairs) - MOST_PAIRS} further pairs"] if len(pairs) > MOST_PAIRS + 1 else pairs


def join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# --- two arms --------------------------------------------------------------------------------------------------------


def difference(d: Difference | None, unit: str = "", forms: Forms | None = None) -> str:
    """`−0.62 [−1.01, −0.23] points`, with a note where seeds are unpaired.

    forms: of its comparison.
    """
    if d is None or d.mean is None:
        return ""
    seeds = f" (n = {d.n})"
    if d.interval:
        seeds = "" if d.paired else ", unpaired"
    estimate = format_estimate(d.mean, d.interval, forms.of(d.interval) if forms else None)
    return f"{estimate}{unit and f' {unit}'}{seeds}"


@dataclass(frozen=True)
class Texts:
    """A row of a table: each column of the table has one format."""

    at: str = ""
    seeds: Mapping[int, str] = field(default_factory=dict)  # of `at`
    best: str = ""
    time: str = ""
    difference: str = ""
    p: str = ""
    holm: str = ""
    pace: str = ""  # milliseconds an update


NO_TEXTS = Texts()


def table(rows: Sequence[Row], c: Comparison) -> list[Texts]:
    """The texts of each row; n is in a column of its own."""
    differences = [row.difference for row in rows]
    seed_form = one_format((value, None) for row in rows for value in row.values.values() if value is not None)
    pace = one_format((1000 * row.seconds_per_step, None) for row in rows if row.seconds_per_step)
    best_forms = Forms.among((row.best.mean, row.best.interval) for row in rows if row.best.mean is not None)
    columns = (
        [NOT_LOGGED if row.unlogged else row.at.text(False, c.forms.of(row.at.interval)) for row in rows],
        [{seed: seed_form(value) for seed, value in row.values.items() if value is not None} for row in rows],
        [NOT_LOGGED if row.lacks(row.best) else row.best.text(False, best_forms.of(row.best.interval)) for row in rows],
        column([row.time for row in rows if row.time], count=False) or [""] * len(rows),  # all have one, or none
        [difference(d, forms=c.difference_forms) for d in differences],
        [_p(d.p if d else None) for d in differences],
        [_p(d.holm if d else None) for d in differences],
        [pace(1000 * row.seconds_per_step) if row.seconds_per_step else "" for row in rows],
    )
    return [Texts(*texts) for texts in zip(*columns, strict=True)]


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.4f}" if p >= 1e-4 else "< 0.0001"


# --- notes -----------------------------------------------------------------------------------------------------------


def notes(c: Comparison) -> list[str]:
    """Warnings to read before the numbers are believed."""
    return [*runs_notes(c), *_time_notes(c.task), *_rate_notes(c)]


def runs_notes(c: Comparison) -> Iterator[str]:
    task, q = c.task, c.question
    for cell in task.cells:
        if cell.repeated_seeds:
            yield (
                f"{cell.norm} has several runs of seed {join([*map(str, cell.repeated_seeds)])}: of one "
                "configuration, made by other code. One counts, and other seeds may be of either: delete those of the "
                "code that is gone."
            )
    sources = Counter(run.source for run in task.runs if run.source)
    if len(sources) > 1:
        counts = ", ".join(f"{count} {source}" for source, count in sorted(sources.items()))
        yield f"Runs of several sources are compared: {counts}. source=own, for example, leaves the others out."
    if task.other_lengths:
        yield (
            f"Further runs of it end after {join(task.other_lengths)}, and are compared apart. "
            "Import them with length: common in the map, and all are cut to the shortest."
        )
    ends = {q.curve(run)[-1][0] for run in task.runs if run.logged and run.status == "done" and q.curve(run)}
    if q.at == END and len(ends) > 1:
        yield f"Ends of unequal length are compared: after {min(ends):g} to {max(ends):g} {task.budget[1]}."
    if unfinished := Counter(run.status for cell in task.cells for run in cell.unfinished):
        yield f"Not counted: {', '.join(f'{count} {state}' for state, count in sorted(unfinished.items()))}."
    if unlogged := [row.arm for group in c.groups if not group.tuned for row in group.rows if row.unlogged]:
        yield f"{join(unlogged)}: no such number is logged, so there is nothing to compare."
    for row in (row for group in c.groups if not group.tuned for row in group.rows if not row.unlogged):
        if without := [run.seed for run in row.cell.done if not has_logged(run, q)]:
            yield f"{row.arm}: {format_seeds(without)} logs no such number, and is left out."
    yield from _unpaired_notes(c)
    if q.split != "test" and not any(block.split == "test" for run in task.runs for block in run.records.blocks):
        yield f"No run has a test split: compared on {q.split}."
    if diverged := sum(row.diverged for group in c.groups if not group.tuned for row in group.rows):
        yield f"{diverged} diverged: means are of the others, and an arm that lost runs is never ahead."
    if (compared := sum(len(group.rows) > 1 for group in c.groups)) > 1:
        yield f"{compared} groups are judged separately, each at {100 * ALPHA:g} %."
    if q.at == BEST and task.monitored.get("split") == q.split:
        yield f"The best is chosen by {chosen_by(task)}, the split that is shown: optimistic, and no verdict."


def _unpaired_notes(c: Comparison) -> Iterator[str]:
    """The seeds that have no partner, where arms share some seeds and not all."""
    for group in (group for group in c.groups if not group.tuned):
        seeds = {row.arm: {seed for seed, value in row.values.items() if value is not None} for row in group.rows}
        counted = [*filter(None, seeds.values())]
        shared = set.intersection(*counted) if counted else set()
        alone = [f"{format_seeds(sorted(seeds[arm] - shared))} of {arm}" for arm in seeds if seeds[arm] - shared]
        if shared and alone:
            place = f"{group.place}: " if group.place else ""
            yield f"{place}{join(alone)}: not in every arm. Arms with other seeds: all runs count (Welch)."


def _time_notes(task: Task) -> Iterator[str]:
    """Why seconds do not compare: the first reason that there is."""
    for key, plural in (("device", "devices"), ("processor", "processors")):
        names = {str(run.environment.get(key, "")) for run in task.runs if run.environment}
        if len(names) > 1:
            yield f"Trained on different {plural} ({', '.join(sorted(names))}): seconds do not compare."
            return
    spread = max((max(cell.paces) / min(cell.paces) for cell in task.cells if cell.paces), default=1)
    if spread > LOADED:
        times = f"{spread:.2g} times as long as others"
        yield f"Seeds of one arm took up to {times}, at different loads: seconds do not compare."


def _rate_notes(c: Comparison) -> Iterator[str]:
    """What is unfair where each arm is at its own best learning rate."""
    tuned = [group for group in c.groups if group.tuned]
    for group in tuned:
        where = f"{group.place}: " if group.place else ""
        chosen = {c.question.arm(row.cell): row.cell.values[TUNED] for row in group.rows}
        if left := [arm for arm in group.rates if arm not in chosen]:
            predicate = "has one learning rate and is" if len(left) == 1 else "have one learning rate and are"
            yield f"{where}{join(left)} {predicate} not compared at the best rates."
        if len({len(group.rates[arm]) for arm in chosen}) > 1:
            tried = ", ".join(f"{len(rates)} of {arm}" for arm, rates in group.rates.items() if arm in chosen)
            yield f"{where}Learning rates tried: {tried}. An arm that chooses among more of them looks better."
        ends = {arm: (min(rates), max(rates)) for arm, rates in group.rates.items()}
        if edge := [arm for arm in ends if chosen.get(arm) in ends[arm]]:  # a better rate may lie beyond
            yield f"{where}The best learning rate of {join(edge)} is the first or last of those tried."
    if tuned and c.task.monitored.get("split") == c.question.split:
        yield f"Learning rates are chosen by {chosen_by(c.task)}, the split that is shown: optimistic."


# --- JSON ------------------------------------------------------------------------------------------------------------


def as_json(c: Comparison) -> dict[str, Any]:
    """All of it as JSON values: numbers of each arm and each pair, and the words."""
    q = c.question
    return {
        "task": {"key": c.task.key, "title": c.task.title},
        "question": {
            "split": q.split, "metric": q.metric.name, "at": q.at, "by": list(q.by), "facets": list(q.facets),
            "against": q.against, "level": None if q.level is None else q.level * q.metric.factor,
            "clock": q.clock, "unit": q.metric.unit, "better": q.metric.better,
        },
        "heading": heading(c),
        "sentence": sentence(c),
        "groups": [
            {
                "place": group.place,
                "tuned": group.tuned,
                "winner": group.winner,
                "sentence": group_sentence(group, c),
                "rows": list(map(_row_json, group.rows, table(group.rows, c))),
                "pairs": [_difference_json(pair, difference(pair, forms=c.difference_forms)) for pair in group.pairs],
            }
            for group in c.groups
        ],
        "notes": notes(c),
    }  # fmt: skip


def _row_json(row: Row, texts: Texts) -> dict[str, Any]:
    return {
        "cell": row.cell.key,
        "arm": row.arm,
        "values": {key: configuration.text(item) for key, item in row.cell.values.items()},
        "seeds": [
            {"run": run.id, "seed": run.seed, "status": run.status, "value": row.values[run.seed], "source": run.source}
            for run in row.cell.runs
        ],
        "at": _entry_json(row.at, texts.at),
        "best": _entry_json(row.best, texts.best),
        "time": row.time and _entry_json(row.time, texts.time),
        "diverged": row.diverged,
        "unfinished": len(row.cell.unfinished),
        "seconds_per_step": row.seconds_per_step,
        "difference": row.difference and _difference_json(row.difference, texts.difference),
    }


def _entry_json(entry: Entry, text: str) -> dict[str, Any]:
    names = ("n", "mean", "interval", "unit", "diverged", "censored", "at_least")
    return {**{name: getattr(entry, name) for name in names}, "text": text}


def _difference_json(d: Difference, text: str) -> dict[str, Any]:
    names = ("first", "second", "paired", "n", "mean", "interval", "p", "holm", "word", "why", "detectable", "needed")
    return {**{name: getattr(d, name) for name in names}, "why": d.because(), "text": text}
