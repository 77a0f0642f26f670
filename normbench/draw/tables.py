"""Tables of an artifact: entries in long form; Markdown, CSV and the terminal show the same entries."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.draw.text import minus, visible
from normbench.runs.run import LOSSES, Run
from normbench.stats.series import CLOCKS, Censored, Reached, Series, geometric, level_at_share, time_to_level
from normbench.stats.series import final as final_value
from normbench.stats.series import series as read_series
from normbench.stats.statistics import Interval, rate_interval, t_interval, time_interval

Form = Callable[[float], str]  # of the numbers of a column


@dataclass(frozen=True)
class Entry:
    """One number of a table: mean and 95 % interval over seeds, in `unit`; `paper` is the paper's value as text."""

    group: str
    row: str
    quantity: str
    unit: str
    n: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    paper: str = ""
    diverged: int = 0
    censored: int = 0
    at_least: float | None = None
    literal: str = ""  # text in place of an estimate, for computed numbers
    note: str = ""  # behind the estimate: how it compares with others of its column

    def text(self, count: bool = True, form: Form | None = None) -> str:
        """`1.62 [1.55, 1.69]`; fewer than two runs have no interval; censored times begin with ≥.

        count: n as well, where it is below 5 or runs were lost; not where it has a column of its own.
        form: of the numbers of its column, else of its own.
        """
        if self.n + self.diverged == 0:
            return "not run"
        if self.literal:
            return self.literal
        lost = f", {self.diverged} diverged" if self.diverged else ""
        if self.censored:
            return f"≥ {self.at_least:g} ({self.censored} of {self.n} not reached{lost})"
        if self.mean is None:
            return f"{self.diverged} diverged"
        text = format_estimate(self.mean, self.interval, form)
        few = self.interval is None or self.n < 5 or lost
        counts = f"n = {self.n}{lost}" if count and few else lost.removeprefix(", ")
        inside = ", ".join(filter(None, [self.note, counts]))
        return f"{text} ({inside})" if inside else text


def format_estimate(mean: float, interval: Interval | None, form: Form | None = None) -> str:
    """`1.62 [1.55, 1.69]`. form: of the numbers of its column, else of its own."""
    form = form or one_format([(mean, interval)])
    return form(mean) + (f" [{form(interval[0])}, {form(interval[1])}]" if interval else "")


def within(runs: Sequence[Run], cell: Mapping[str, Any], control: str = "") -> list[Run]:
    """The runs in a cell, such as `{"arm": "ln", "train.batch_size": 4}`, at the paper's setting or under a control."""
    return [run for run in runs if run.control == control and run.matches(cell)]


def one_format(numbers: Iterable[tuple[float, Interval | None]]) -> Form:
    """One format for the numbers of a column and their intervals: the decimals that give most intervals two digits and
    each at least one, or without intervals most numbers three and each at least two; the largest number at most five.

    Scientific form, with two to four digits, where that leaves too little. An interval that is not symmetric comes from
    a logarithmic scale: over tenfold, its lower end has two digits.
    """
    numbers = [(mean, interval) for mean, interval in numbers if math.isfinite(mean)]
    needed = [
        _needed(mean, interval) for mean, interval in numbers if interval and 0 < interval[1] - interval[0] < math.inf
    ]
    needed = needed or [(2 - _power(mean), 3) for mean, interval in numbers if mean and not interval]
    if not needed:
        return _true_minus(".4g")
    ends = [value for mean, interval in numbers for value in (mean, *(interval or ()))]
    largest = max(abs(value) for value in ends if math.isfinite(value))
    wanted = sorted(decimals for decimals, _ in needed)
    decimals = max(0, min(max(statistics.median_low(wanted), wanted[-1] - 1), 4 - _power(largest)))
    if decimals <= 5 and wanted[-1] - decimals <= 1 and largest < 1e5:
        return _true_minus(f"z.{decimals}f")
    digits = min(4, max(digits for _, digits in needed))
    return _true_minus(f"z.{max(1, digits - 1)}e")


def _true_minus(form: str) -> Form:
    return lambda value: minus(f"{value:{form}}")


@dataclass(frozen=True)
class Forms:
    """One format for numbers with an interval, and one for those without: no interval limits their digits."""

    sure: Form
    alone: Form

    @classmethod
    def among(cls, numbers: Iterable[tuple[float, Interval | None]]) -> Forms:
        numbers = list(numbers)
        return cls(one_format(n for n in numbers if n[1]), one_format(n for n in numbers if not n[1]))

    def of(self, interval: Interval | None) -> Form:
        return self.sure if interval else self.alone


def _needed(mean: float, interval: Interval) -> tuple[int, int]:
    """Decimals that give an interval two digits, and digits in scientific form."""
    low, high = interval
    half = (high - low) / 2
    if low * high > 0 and not 0.1 <= high / low <= 10 and abs(mean - (low + high) / 2) > half / 100:
        return 1 - _power(min(abs(low), abs(high))), 2
    return 1 - _power(half), 2 + _power(mean or 1.0) - _power(half)


def _power(value: float) -> int:
    """Of ten: the place of the first digit."""
    return math.floor(math.log10(abs(value)))


def column(entries: Sequence[Entry], count: bool = True) -> list[str]:
    """The texts of entries below one another, in one format."""
    form = one_format((e.mean, e.interval) for e in entries if e.mean is not None and not e.literal)
    return [entry.text(count, form) for entry in entries]


def final_entry(
    runs: Sequence[Run],
    group: str,
    row: str,
    quantity: str,
    where: tuple[str, str, str],
    factor: float = 1.0,
    unit: str = "",
    paper: str = "",
    log: bool = False,
) -> Entry:
    """The values at the last epoch of one cell's runs; `where` is (split, mode, metric).

    `log`: geometric mean and interval, for losses that differ by orders of magnitude.
    """
    finals = [final_value(run, *where) if run.status == "done" else None for run in runs]
    values = [None if value is None else value * factor for value in finals]
    return estimate_entry(values, group, row, quantity, unit, paper, log)


def estimate_entry(
    values: Sequence[float | None],
    group: str,
    row: str,
    quantity: str,
    unit: str = "",
    paper: str = "",
    log: bool = False,
) -> Entry:
    """Mean and interval of one number per run; None and what is not finite count as diverged. `log`: as above.

    Of the unit % they are rates: the interval stays between 0 and 100; differences of rates have the unit points.
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if log:
        estimate = geometric(finite)
    else:
        estimate = rate_interval(finite, 100.0) if unit == "%" else t_interval(finite)
    lost = len(values) - len(finite)
    return Entry(group, row, quantity, unit, estimate.n, estimate.mean, estimate.interval, paper, diverged=lost)


def percents(shares: Sequence[float | None]) -> list[float | None]:
    """Shares in per cent, None where there is none."""
    return [None if share is None else 100 * share for share in shares]


def mean_of_all(values: Sequence[float | None]) -> float | None:
    """The mean, None where one of them is missing or not finite."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.fmean(finite) if finite and len(finite) == len(values) else None


def spread_entry(orders: Sequence[Sequence[float]], group: str, row: str, unit: str = "") -> Entry:
    """Standard deviation over the orders of one run, averaged over runs; a dash where there are none."""
    spread = [statistics.stdev(values) for values in orders if len(values) > 1]
    entry = estimate_entry(spread, group, row, "std over test-set orders", unit)
    return entry if spread else replace(entry, n=1, literal="–")


def value_entry(
    runs: Sequence[Run], group: str, row: str, quantity: str, key: str, unit: str = "", factor: float = 1.0
) -> Entry:
    """The number that a probe logged under `key`, times `factor`, over its seeds."""
    numbers = [factor * float(record[key]) for run in runs for record in run.records if key in record]
    entry = estimate_entry(numbers, group, row, quantity, unit)
    return replace(entry, diverged=len(runs) - entry.n)


def levels_by_seed(
    runs: Sequence[Run], arms: Collection[str], where: tuple[str, str, str], share: float
) -> dict[int, float]:
    """The relative level of each seed's runs of these arms; NaN, which no run reaches, without a finite value."""
    curves: dict[int, list[Series]] = {run.seed: [] for run in runs}
    for run in runs:
        if run.arm in arms:
            curves[run.seed].append(read_series(run, *where))
    levels = {seed: level_at_share(of_seed, share) for seed, of_seed in curves.items()}
    return {seed: math.nan if level is None else level for seed, level in levels.items()}


def time_entry(
    runs: Sequence[Run],
    group: str,
    row: str,
    quantity: str,
    where: tuple[str, str, str],
    level: float | Mapping[int, float],
    paper: str = "",
    clock: str = "epoch",
) -> Entry:
    """Epochs, or the units of `clock`, to a level, one for all runs or by seed.

    With any run that does not reach it there is a bound and no mean.
    """
    times = [
        time_to_level(
            read_series(run, *where, x=clock),
            level if isinstance(level, float) else level[run.seed],
            where[2] in LOSSES,
        )
        for run in runs
        if run.status != "diverged"
    ]
    lost = sum(run.status == "diverged" for run in runs)
    return times_entry(times, lost, group, row, quantity, CLOCKS[clock], paper)


def times_entry(
    times: Sequence[Reached | Censored], lost: int, group: str, row: str, quantity: str, unit: str, paper: str = ""
) -> Entry:
    """The times of the runs that did not diverge, and how many did; with any that is censored a bound and no mean."""
    if bounds := [time.at for time in times if isinstance(time, Censored)]:
        n, at_least = len(times) + lost, min(bounds)
        return Entry(group, row, quantity, unit, n, paper=paper, diverged=lost, censored=len(bounds), at_least=at_least)
    estimate = time_interval([time.x for time in times if isinstance(time, Reached)])
    return Entry(group, row, quantity, unit, estimate.n, estimate.mean, estimate.interval, paper, diverged=lost)


def grid(entries: Sequence[Entry], group: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one group: a column per quantity, before it the paper's value where there is one."""
    of_group = [entry for entry in entries if entry.group == group]
    quantities = list(dict.fromkeys(entry.quantity for entry in of_group))
    with_paper = {entry.quantity for entry in of_group if entry.paper}
    header = [""]
    for quantity in quantities:
        unit = next(entry.unit for entry in of_group if entry.quantity == quantity)
        name = _with_unit(quantity, unit)
        header += [f"{name}: paper", "ours"] if quantity in with_paper else [name]
    rows = {entry.row: [entry.row] for entry in of_group}
    for quantity in quantities:
        _add_column(rows, [entry for entry in of_group if entry.quantity == quantity], quantity in with_paper)
    return header, [*rows.values()]


def headline(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first quantity alone, a column per group: for the terminal, and first on a page."""
    first = [entry for entry in entries if entry.quantity == entries[0].quantity]
    header, with_paper = [_with_unit(first[0].quantity, first[0].unit)], any(entry.paper for entry in first)
    for group in groups(first):
        header += [f"{group}: paper", "ours"] if with_paper else [group]
    rows = {entry.row: [entry.row] for entry in first}
    for group in groups(first):
        _add_column(rows, [entry for entry in first if entry.group == group], with_paper)
    return header, [*rows.values()]


def _add_column(rows: Mapping[str, list[str]], entries: Sequence[Entry], with_paper: bool) -> None:
    """Add the entries to their rows, the paper's value before each if asked for; other rows get empty cells."""
    by_row = {entry.row: entry for entry in reversed(entries)}  # the first of a row
    texts = dict(zip(by_row, column([*by_row.values()]), strict=True))
    for name, row in rows.items():
        cells_of_row = [by_row[name].paper, texts[name]] if name in by_row else ["", ""]
        row += cells_of_row if with_paper else cells_of_row[1:]


def _with_unit(quantity: str, unit: str) -> str:
    """`test NLL, nats`; `epochs to a train NLL of 0.1` has its unit."""
    return quantity if quantity.startswith(unit) else f"{quantity}, {unit}"


def groups(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.group for entry in entries))


def markdown(entries: Sequence[Entry]) -> str:
    """All groups as Markdown tables; mean [95 % interval] over seeds."""
    parts = []
    for group in groups(entries):
        header, rows = grid(entries, group)
        parts.append(f"**{escape(group)}**\n\n{lines([header, *rows])}")
    return "\n".join(parts)


def lines(rows: Sequence[Sequence[str]]) -> str:
    header, *others = ([escape(cell) for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ["---"] * len(header), *others))


def escape(text: str) -> str:
    """Text that stays text in a Markdown table."""
    text = visible(text)
    for character in "\\`*<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def as_csv(entries: Sequence[Entry]) -> str:
    """Long form, one number a line."""
    names = ("group", "row", "quantity", "unit", "paper", "n", "diverged", "censored", "mean")
    rows = [[*(getattr(e, name) for name in names), *(e.interval or (None, None))] for e in entries]
    return csv_text([[*names, "low", "high"], *rows])


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """One line a row, nothing for None; six digits, so that another version of a library changes no published file."""
    out = io.StringIO()
    plain = ([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    csv.writer(out, lineterminator="\n").writerows(plain)
    return out.getvalue()
