"""Figures of learning curves as data: matplotlib's published files and the report are drawn from the same panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from normbench.draw.style import EXTRA_COLOURS
from normbench.runs.record import RunRecord
from normbench.stats.series import FLOOR, Point, Series, aggregate, series

AXES = {"epoch": "Epoch", "step": "Update", "examples": "Example"}  # label of an axis over each


@dataclass(frozen=True)
class Look:
    """The look of an arm: name, its normalizer's colour, whether it is the paper's own arm."""

    name: str
    colour: str
    in_paper: bool = True


@dataclass(frozen=True)
class Quantity:
    """One logged metric as a row of panels, against epochs or what a probe counts there (`x`).

    `top` is the end of the paper's axis, if that is linear; `floor` replaces smaller values under a logarithm: losses
    in float32 end at 1e-12.
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


@dataclass(frozen=True)
class Reference:
    """A published curve, the paper's or its authors' own: one run, no interval."""

    name: str
    points: Series
    dash: str = "solid"  # solid | dash | dot: references are all grey


@dataclass(frozen=True)
class Panel:
    """One pair of axes: `quantity`, in the column called `column`; `references` lie under the lines."""

    column: str
    quantity: Quantity
    lines: Sequence[Line]
    references: Sequence[Reference] = ()

    def count(self) -> str:
        """`n = 5`, and the arms that lost runs; empty where nothing was run."""
        if not self.lines:
            return ""
        counts = sorted(len(line.seeds) for line in self.lines)
        lost = [f"{line.arm}: {line.diverged} diverged" for line in self.lines if line.diverged]
        return ", ".join([f"n = {'–'.join(str(n) for n in dict.fromkeys([counts[0], counts[-1]]))}", *lost])

    def view(self) -> tuple[float, float]:
        """Where the axis begins and ends: the means set it, for an interval can span more decades than the curves do.

        A linear axis leaves out the first tenth of the epochs, where a slow arm would flatten everything else.
        """
        if self.quantity.log:
            means = [p.mean for line in self.lines for p in line.points if p.mean is not None]
            room = max(1.1, (max(means) / min(means)) ** 0.15)
            return min(means) / min(3.0, room), max(means) * min(2.0, room)
        late = [p.mean for line in self.lines for p in line.points[len(line.points) // 10 :] if p.mean is not None]
        return min(late) - 0.1 * abs(min(late)), max(late) + 0.05 * abs(max(late))


def panels(
    runs: Sequence[RunRecord],
    looks: Mapping[str, Look],
    columns: Mapping[str, Mapping[str, Any]],
    quantities: Sequence[Quantity],
) -> list[Panel]:
    """All panels, row by row; `columns`: title -> cell. The runs of control settings are not drawn.

    An arm that is not in `looks`, from a user's experiment, is drawn under its own name.
    """
    own = [run for run in runs if not run.control]
    unknown = [arm for arm in dict.fromkeys(run.arm for run in own) if arm not in looks]
    all_looks = {**looks}
    for index, arm in enumerate(unknown):
        all_looks[arm] = Look(arm, EXTRA_COLOURS[index % len(EXTRA_COLOURS)], in_paper=False)
    return [
        Panel(
            title,
            quantity,
            [
                line
                for arm, look in all_looks.items()
                if (line := _line([r for r in own if r.matches({**cell, "arm": arm})], arm, look, quantity)).points
            ],
        )
        for quantity in quantities
        for title, cell in columns.items()
    ]


def _line(cell: Sequence[RunRecord], arm: str, look: Look, quantity: Quantity) -> Line:
    where = (quantity.split, quantity.mode, quantity.metric)
    means = aggregate(cell, *where, log=quantity.log, floor=quantity.floor, x=quantity.clock)
    return Line(
        arm,
        look,
        [point for point in means if point.x > 0 and point.mean is not None],
        [(run.seed, run.id, [p for p in series(run, *where, x=quantity.clock) if p[0] > 0]) for run in cell],
        sum(run.status == "diverged" for run in cell),
    )
