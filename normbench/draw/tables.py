"""Tables of an artifact: entries in long form; Markdown, CSV and the terminal show the same entries."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.draw.text import visible
from normbench.runs.record import RunRecord
from normbench.stats.series import CLOCKS, LOSSES, Censored, Reached, Series, geometric, level_at_share, time_to_level
from normbench.stats.series import final as final_value
from normbench.stats.series import series as read_series
from normbench.stats.statistics import t_interval


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

    def text(self, count: bool = True) -> str:
        """`1.62 [1.55, 1.69]`; fewer than two runs have no interval; censored times begin with ≥.

        count: n as well, where it is below 5 or runs were lost; not where it has a column of its own.
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
        if self.interval is None:
            text = number(self.mean, abs(self.mean) / 50)
        else:
            mean, low, high = alike(self.mean, *self.interval)
            text = f"{mean} [{low}, {high}]"
        few = self.interval is None or self.n < 5 or lost
        inside = f"n = {self.n}{lost}" if count and few else lost.removeprefix(", ")
        return f"{text} ({inside})" if inside else text


def cells(
    settings: Iterable[str], runs: Sequence[RunRecord], arms: Iterable[str], group: str
) -> Iterator[tuple[str, str, str, list[RunRecord]]]:
    """A table's parts: the group's title, the control, the arm and its runs. Of a control only arms that have runs.

    group: the title of what is no control.
    """
    for control in settings:
        for arm in arms:
            cell = [run for run in runs if (run.control, run.arm) == (control, arm)]
            if cell or not control:
                yield (f"control {control}" if control else group), control, arm, cell


def within(runs: Sequence[RunRecord], cell: Mapping[str, Any], control: str = "") -> list[RunRecord]:
    """The runs in a cell, such as `{"arm": "ln", "train.batch_size": 4}`, at the paper's setting or under a control."""
    return [run for run in runs if run.control == control and run.matches(cell)]


def alike(mean: float, low: float, high: float) -> list[str]:
    """A mean and its interval with the same decimals, two digits of the half width: 0.0014 [0.0004, 0.0025].

    An interval that is not symmetric comes from a logarithmic scale; over tenfold, each end has two digits of its own.
    """
    values, step = (mean, low, high), (high - low) / 2
    if abs(mean - (low + high) / 2) > step / 100 and high * low > 0 and not 0.1 <= high / low <= 10:
        return [number(value, abs(value)) for value in values]
    decimals = 1 - math.floor(math.log10(step)) if 0 < step < math.inf else 99
    if decimals > 6 or max(map(abs, values)) >= 1e5:
        return [number(value, step) for value in values]
    return [f"{value:z.{max(0, decimals)}f}" for value in values]


def number(value: float, uncertainty: float) -> str:
    """A number to two digits of its uncertainty, small ones in scientific form: 1.617, 3.2e-05."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if uncertainty <= 0 or not math.isfinite(uncertainty):
        return f"{value:.4g}"
    digits = max(1, min(6, 2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(uncertainty))))
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.{digits - 1}e}"


def final_entry(
    runs: Sequence[RunRecord],
    group: str,
    row: str,
    quantity: str,
    where: tuple[str, str, str],
    factor: float = 1.0,
    unit: str = "",
    paper: str = "",
    variant: str | None = None,
    log: bool = False,
) -> Entry:
    """The values at the last epoch of one cell's runs; `where` is (split, mode, metric).

    `log`: geometric mean and interval, for losses that differ by orders of magnitude.
    """
    found = [final_value(run, *where, variant=variant) if run.status == "done" else None for run in runs]
    values = [None if value is None else value * factor for value in found]
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
    """Mean and interval of one number per run; None and what is not finite count as diverged. `log`: as above."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    estimate = geometric(finite) if log else t_interval(finite)
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
    runs: Sequence[RunRecord], group: str, row: str, quantity: str, key: str, unit: str = "", factor: float = 1.0
) -> Entry:
    """The number that a probe logged under `key`, times `factor`, over its seeds."""
    found = [factor * float(record[key]) for run in runs for record in run.records if key in record]
    estimate = t_interval([value for value in found if math.isfinite(value)])
    return Entry(
        group, row, quantity, unit, estimate.n, estimate.mean, estimate.interval, diverged=len(runs) - estimate.n
    )


def levels_by_seed(
    runs: Sequence[RunRecord], arms: Collection[str], where: tuple[str, str, str], share: float
) -> dict[int, float]:
    """The relative level of each seed's runs of these arms; NaN, which no run reaches, without a finite value."""
    curves: dict[int, list[Series]] = {run.seed: [] for run in runs}
    for run in runs:
        if run.arm in arms:
            curves[run.seed].append(read_series(run, *where))
    found = {seed: level_at_share(of_seed, share) for seed, of_seed in curves.items()}
    return {seed: math.nan if level is None else level for seed, level in found.items()}


def time_entry(
    runs: Sequence[RunRecord],
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
    estimate = t_interval([time.x for time in times if isinstance(time, Reached)])
    return Entry(group, row, quantity, unit, estimate.n, estimate.mean, estimate.interval, paper, diverged=lost)


def grid(entries: Sequence[Entry], group: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one group: a column per quantity, before it the paper's value where there is one."""
    own = [entry for entry in entries if entry.group == group]
    quantities = list(dict.fromkeys(entry.quantity for entry in own))
    with_paper = {entry.quantity for entry in own if entry.paper}
    header = [""]
    for quantity in quantities:
        unit = next(entry.unit for entry in own if entry.quantity == quantity)
        name = f"{quantity}, {unit}" if unit and unit != "epochs" else quantity
        header += [f"{name}: paper", "ours"] if quantity in with_paper else [name]
    rows = []
    for row in dict.fromkeys(entry.row for entry in own):
        cells = [row]
        for quantity in quantities:
            entry = next(e for e in own if e.row == row and e.quantity == quantity)
            cells += [entry.paper, entry.text()] if quantity in with_paper else [entry.text()]
        rows.append(cells)
    return header, rows


def headline(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first quantity alone, a column per group, for the terminal."""
    first = [entry for entry in entries if entry.quantity == entries[0].quantity]
    unit = f", {first[0].unit}" if first[0].unit else ""
    header, with_paper = [first[0].quantity + unit], any(entry.paper for entry in first)
    for group in groups(first):
        header += [f"{group}: paper", "ours"] if with_paper else [group]
    rows = []
    for row in dict.fromkeys(entry.row for entry in first):
        cells = [row]
        for group in groups(first):  # a row may be in some of them alone
            entry = next((e for e in first if (e.group, e.row) == (group, row)), None)
            texts = [entry.paper, entry.text()] if entry else ["", ""]
            cells += texts if with_paper else texts[1:]
        rows.append(cells)
    return header, rows


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
    """A Markdown table, the first row its header."""
    header, *others = ([escape(cell) for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ["---"] * len(header), *others))


def escape(text: str) -> str:
    """Text that stays text in a Markdown table."""
    text = visible(text)
    for character in "\\`*<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def as_csv(entries: Sequence[Entry]) -> str:
    """Long form, one number a line; six digits, so that another version of a library changes no published file."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["group", "row", "quantity", "unit", "paper", "n", "diverged", "censored", "mean", "low", "high"])
    for e in entries:
        numbers = [e.mean, *(e.interval or (None, None))]
        texts = ["" if value is None else f"{value:.6g}" for value in numbers]
        writer.writerow([e.group, e.row, e.quantity, e.unit, e.paper, e.n, e.diverged, e.censored, *texts])
    return out.getvalue()
