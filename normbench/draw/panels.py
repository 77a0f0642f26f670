"""Figures of learning curves as data: matplotlib's published files and the report are drawn from the same panels."""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.draw.style import EXTRA_COLOURS, REFERENCE, colours_of
from normbench.draw.tables import within
from normbench.runs.run import Run
from normbench.stats.series import FLOOR, Point, Series, aggregate, series
from normbench.stats.tasks import Scores, improvement

AXES = {"epoch": "Epoch", "step": "Update", "examples": "Example"}  # label of an axis over each


@dataclass(frozen=True)
class Look:
    """The look of an arm: name, its normalizer's colour, whether it is the paper's own arm, which is drawn solid.

    `dash`: of arms that share a colour.
    """

    name: str
    colour: str
    in_paper: bool = True
    dash: str = ""

    @property
    def line_dash(self) -> str:
        return self.dash or ("solid" if self.in_paper else "dash")


@dataclass(frozen=True)
class Quantity:
    """One logged metric as a row of panels, against epochs or what a probe counts there (`x`).

    `top` is the end of the paper's axis, if that is linear; `floor` replaces smaller values under a logarithm: losses
    in float32 end at 1e-12. `median`: a line is the median over seeds, and each seed is drawn beside it.
    """

    name: str
    split: str
    mode: str
    metric: str
    log: bool = False
    top: float | None = None
    x: str = "Epoch"
    floor: float = FLOOR
    clock: str = "epoch"  # or step, examples: what of a record `x` is
    log_x: bool = False
    factor: float = 1.0  # from what is logged to what the axis has: 100 for per cent
    median: bool = False

    @property
    def over_time(self) -> bool:
        """Whether `x` is the length of training, and not a quantity of a probe or a place in a table."""
        return self.x == AXES.get(self.clock)


@dataclass(frozen=True)
class Line:
    """One arm in one panel: its mean over seeds by epoch, from epoch 1, and each seed's own curve."""

    arm: str
    look: Look
    points: Sequence[Point]
    seeds: Sequence[tuple[int, str, Series]]  # seed, run id, curve
    diverged: int

    def band(self) -> list[tuple[float, float, float]]:
        """(x, low, high) where an interval is drawn: that of two runs would cover the whole panel."""
        return [(p.x, *p.interval) for p in self.points if p.interval is not None and p.n >= 3]


@dataclass(frozen=True)
class Reference:
    """A published curve, the paper's or its authors' own, in the unit of the axis: one run, no interval."""

    name: str
    points: Series
    dash: str = "solid"  # solid | dash | dot | dashdot
    colour: str = REFERENCE  # or that of the arm it is of


@dataclass(frozen=True)
class Panel:
    """One pair of axes: `quantity`, in the column called `column`; `references` lie under the lines.

    With `categories` the places 1, 2, ... have these names, and are points: no line leads from one to another.
    `note` says what a reader needs in order to read the axes; `limits` are where a reader has zoomed in on.
    """

    column: str
    quantity: Quantity
    lines: Sequence[Line]
    references: Sequence[Reference] = ()
    categories: Sequence[str] = ()
    note: str = ""
    limits: tuple[float, float] | None = None

    def means(self) -> list[float]:
        """Of all lines, at all places."""
        return [p.mean for line in self.lines for p in line.points if p.mean is not None]

    def view(self) -> tuple[float, float]:
        """Where the axis begins and ends: the means set it, for an interval can span more decades than the curves do.

        A linear axis leaves out the first tenth of the epochs, where a slow arm would flatten everything else.
        """
        if self.limits:
            return self.limits
        if self.quantity.log:
            means = self.means()
            room = max(1.1, (max(means) / min(means)) ** 0.15)
            return min(means) / min(3.0, room), max(means) * min(2.0, room)
        late = [p.mean for line in self.lines for p in line.points[len(line.points) // 10 :] if p.mean is not None]
        return min(late) - 0.1 * abs(min(late)), max(late) + 0.05 * abs(max(late))

    def ticks(self, most: int = 9) -> list[float]:
        """Of a logarithmic axis where powers of ten alone would leave one label, or none; else empty."""
        low, high = self.view()
        return log_ticks(low, high, most) if self.quantity.log and high < 100 * low else []


def log_ticks(low: float, high: float, most: int = 9) -> list[float]:
    """Round numbers on a logarithmic axis: equal steps where both ends are close together, else as few as are three.

    Powers of ten or some of them; 1, 2, 5 and their multiples by ten; or all digits. Fewer than three where the next
    choice has more than `most`.
    """
    if high < 4 * low:
        return linear_ticks(low, high)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    choices = [(2**stride, (1,)) for stride in range(6, -1, -1)] + [(1, (1, 2, 5)), (1, range(1, 10))]
    for stride, digits in choices:
        denser = [m * 10.0**e for e in decades if e % stride == 0 for m in digits if low <= m * 10.0**e <= high]
        if len(ticks) > 2 or len(denser) > most:
            break
        ticks = denser
    return ticks


def linear_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers in equal steps, at most so many."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * m for m in (1, 2, 5, 10) if (high - low) / (power * m) < most)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def layout(panels: Sequence[Panel], most: int = 4) -> list[list[list[Panel]]]:
    """Blocks of rows: a row per quantity, a column per condition. Of one condition, the quantities are side by side.

    Up to four are in one row; of more three, and the others in the blocks below. No row has more than `most`.
    """
    columns = list(dict.fromkeys(panel.column for panel in panels))
    quantities = list(dict.fromkeys(panel.quantity for panel in panels))
    if len(columns) == 1:
        return [[row] for row in _in_rows(panels, most)]
    return [
        [[p for p in panels if p.quantity == q and p.column in row] for q in quantities]
        for row in _in_rows(columns, most)
    ]


def _in_rows(items: Sequence[Any], most: int) -> list[list[Any]]:
    across = min(most, 4 if len(items) <= 4 else 3)
    return [list(items[i : i + across]) for i in range(0, len(items), across)]


def panels(
    runs: Sequence[Run],
    looks: Mapping[str, Look],
    columns: Mapping[str, Mapping[str, Any]],
    quantities: Sequence[Quantity],
) -> list[Panel]:
    """All panels, row by row; `columns`: title -> cell. The runs of control settings are not drawn.

    An arm that is not in `looks`, from a user's experiment, is drawn under its own name.
    """
    strangers = dict.fromkeys(run.arm for run in within(runs, {}) if run.arm not in looks)
    coloured = zip(strangers, itertools.cycle(EXTRA_COLOURS), strict=False)
    looks = {**looks, **{arm: Look(arm, colour, in_paper=False) for arm, colour in coloured}}
    drawn = []
    for quantity, (title, cell) in itertools.product(quantities, columns.items()):
        lines = [line_of(within(runs, {**cell, "arm": arm}), arm, look, quantity) for arm, look in looks.items()]
        drawn.append(Panel(title, quantity, [line for line in lines if line.points]))
    return drawn


SCORE = (
    "The score of a run is the share of the other arms' runs in its task that it beats; a diverged run beats none. The "
    "area below a line is the larger, the better the average rank is."
)


def profile(scores: Scores) -> Panel:
    """The performance profile of arms over the tasks that all of them have (Agarwal et al. 2021): the share of runs
    with a score above τ, each task with the same weight."""
    arms = list(dict.fromkeys(arm for runs in scores.values() for arm in runs))
    tasks, colours = [runs for runs in scores.values() if len(runs) == len(arms)], colours_of(arms)
    reached = {arm: [_scores(arm, runs) for runs in tasks] for arm in arms}
    places = sorted({0.0, 1.0}.union(*itertools.chain(*reached.values())))
    lines = []
    for arm, of_tasks in reached.items():
        points = []
        for place, is_beyond in itertools.product(places, (operator.ge, operator.gt)):  # before and after a step
            share = statistics.fmean(statistics.fmean(is_beyond(score, place) for score in of) for of in of_tasks)
            points.append(Point(place, share, None, 0, 0))
        lines.append(Line(arm, Look(arm, colours[arm]), points, (), 0))
    return Panel(f"{len(tasks)} tasks", Quantity("share of runs above τ", "", "", "", x="score τ"), lines, note=SCORE)


def _scores(arm: str, runs: Mapping[str, Sequence[float]]) -> list[float]:
    """Of each run of an arm the probability that it beats one of another arm, averaged over these."""
    others = [numbers for name, numbers in runs.items() if name != arm]
    return [statistics.fmean(improvement([number], other) for other in others) for number in runs[arm]]


def line_of(cell: Sequence[Run], arm: str, look: Look, quantity: Quantity) -> Line:
    where, factor = (quantity.split, quantity.mode, quantity.metric), quantity.factor
    seeds = [
        (run.seed, run.id, [(x, factor * y) for x, y in series(run, *where, x=quantity.clock) if x > 0]) for run in cell
    ]
    points = []
    for p in aggregate(cell, *where, log=quantity.log, floor=quantity.floor, x=quantity.clock):
        if p.x > 0 and p.mean is not None:
            ends = p.interval and (factor * p.interval[0], factor * p.interval[1])
            points.append(replace(p, mean=factor * p.mean, interval=ends))
    if quantity.median:
        points = [replace(p, mean=_median(seeds, p.x), interval=None) for p in points]
    return Line(arm, look, points, seeds, sum(run.status == "diverged" for run in cell))


def _median(seeds: Sequence[tuple[int, str, Series]], x: float) -> float:
    return statistics.median(y for _, _, curve in seeds for at, y in curve if at == x and math.isfinite(y))
