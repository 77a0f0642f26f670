"""BLN Tables 1 and 2: the 16 configurations of statistics in the paper's order, and statistics of that order."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from normbench.draw.panels import Line, Look, Panel, Quantity, Reference
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, estimate_entry, mean_of_all, percents, within
from normbench.draw.text import show
from normbench.papers.claims import Artifact
from normbench.papers.rules_file import ALPHA
from normbench.runs.run import Run
from normbench.stats.series import Point, Series, at_epoch
from normbench.stats.statistics import kendall, significant_signs, t_interval

SIZES = {0.2: "A: 20 %", 1.0: "B: whole"}
FLAGS = {"T***": "E_B", "*T**": "Std_B", "**T*": "E_F", "***T": "Std_F"}
LOSS = Quantity("Test NLL less the mean of the 16", "test", "eval", "nll", x="Configuration, in the paper's order")
LETTERS = (
    "A configuration has a letter each for E_B and Std_B, mean and standard deviation over the mini-batch, and E_F and "
    "Std_F, those over the features. T: estimated for the population in training; F: of the batch that is evaluated."
)
ARM = Look("BLN", COLOURS["batch_layer"])
Losses = Mapping[str, float]


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    """Loss of the 16 in the paper's order, less their mean: where the order is the paper's, the points rise."""
    figure = []
    for size, name in SIZES.items():
        paper_losses = artifact.reference["test_loss"][size]
        cell = _cell(runs, size)
        seeds = [(run.seed, run.id, _in_order(_losses(run), list(paper_losses))) for run in cell]
        curves = [dict(curve) for _, _, curve in seeds if curve]
        points = []
        for place in range(1, 17) if curves else ():
            estimate = t_interval([curve[place] for curve in curves])
            points.append(Point(place, estimate.mean, estimate.interval, estimate.n, 0))
        lines = [Line("bln", ARM, points, seeds, len(seeds) - len(curves))] if points else []
        theirs = Reference("authors' log", _in_order(paper_losses, list(paper_losses)))
        references = [theirs] if all(run.fidelity != "smoke" for run in cell) else []
        figure.append(Panel(name, LOSS, lines, references, list(paper_losses), LETTERS))
    return figure


def _in_order(grid: Losses, order: Sequence[str]) -> Series:
    """(place, loss less the mean of the 16); nothing of a grid with gaps."""
    if not _whole(grid):
        return []
    mean = statistics.fmean(grid.values())
    return [(float(place), grid[variant] - mean) for place, variant in enumerate(order, 1)]


def table(artifact: Artifact, runs: Sequence[Run], error: str = "error") -> list[Entry]:
    """Test and validation loss of each configuration, the lowest of ours first; then contrasts, orders and the price of
    choosing on the test set.

    In each column the best is marked, and those that the seeds do not tell apart from it. Ranks are of the means over
    seeds. Unless the column names another epoch, values are those at the lowest validation loss under FFFF, as
    published. `error` is the metric behind the paper's accuracy.
    """
    entries: list[Entry] = []
    cells = {size: _cell(runs, size) for size in SIZES}
    for size, name in SIZES.items():
        order = list(artifact.reference["test_loss"][size])
        columns = {
            "test NLL": ("test", "best"),
            "validation NLL": ("valid", "best"),
            "test NLL, each at its own epoch": ("test", "own"),
            "test NLL, last epoch": ("test", "last"),
        }
        for column, (split, when) in columns.items():
            values = {variant: [at_epoch(run, split, "nll", when, variant) for run in cells[size]] for variant in order}
            ranks = _ranks({variant: mean_of_all(losses) for variant, losses in values.items()})
            notes = _against_best(values, ranks)
            if column == "test NLL":  # the first, whose order all rows have
                rows = [*ranks, *(variant for variant in order if variant not in ranks)]
            for variant in rows:
                place = order.index(variant) + 1
                paper = (
                    f"{artifact.reference['test_loss'][size][variant]:.5f} (authors' log)"
                    if column == "test NLL"
                    else ""
                )
                entry = estimate_entry(values[variant], name, variant, column, paper=paper)
                entries.append(replace(entry, note=notes.get(variant, "")))
                if when == "best":
                    text = str(ranks[variant]) if variant in ranks else "–"
                    paper_rank = str(place) if column == "test NLL" else ""
                    rank = Entry(
                        name, variant, f"rank by {column}", "", len(cells[size]), literal=text, paper=paper_rank
                    )
                    entries.append(rank)
    for size, name in SIZES.items():
        entries += _summary(artifact, cells[size], size, name, error)
    return entries + _between(cells) + _with_bn_and_ln(artifact, runs, error)


def _against_best(values: Mapping[str, Sequence[float | None]], ranks: Mapping[str, int]) -> dict[str, str]:
    """The best configuration, and those whose differences from it, paired by seed, t does not tell from 0 (Holm)."""
    if not ranks:
        return {}
    best, *others = ranks
    differences = []
    for variant in others:
        pairs = zip(values[variant], values[best], strict=True)
        differences.append([a - b for a, b in pairs if a is not None and b is not None])
    signs = dict(zip(others, significant_signs(differences, ALPHA), strict=True))
    return {best: "best"} | {variant: "not told apart" for variant, sign in signs.items() if sign == 0}


def _summary(artifact: Artifact, runs: Sequence[Run], size: float, column: str, error: str) -> list[Entry]:
    group, paper = "contrasts and orders", artifact.reference["test_loss"][size]
    grids = [_losses(run) for run in runs]
    numbers: dict[str, list[float | None]] = {
        f"test NLL, {flag} = T less F": [
            _less(run, pattern, pattern.replace("T", "F")) for run in runs
        ]
        for pattern, flag in FLAGS.items()
    }  # fmt: skip
    numbers |= {
        "std of the 16 test NLLs": [statistics.pstdev(grid.values()) if _whole(grid) else None for grid in grids],
        "Kendall's tau with the paper, 16": [_tau(grid, paper) for grid in grids],
        "Kendall's tau with the paper, 4 groups": [_tau(_groups(grid), _groups(paper)) for grid in grids],
        "test accuracy, chosen on test less on validation, points": [
            _inflation(run, error) for run in runs
        ],
    }  # fmt: skip
    entries = [estimate_entry(values, group, row, column) for row, values in numbers.items()]
    means = [statistics.fmean(grid.values()) for grid in grids if _whole(grid)]
    spread = statistics.stdev(means) if len(means) > 1 else None
    between = [tau for a, b in combinations(grids, 2) if (tau := _tau(a, b)) is not None]
    for row, value in (
        ("std of their mean over seeds", spread),
        ("Kendall's tau between seeds, mean over pairs", statistics.fmean(between) if between else None),
    ):
        text = show(value)
        entries.append(Entry(group, row, column, "", len(means), value, literal=text))
    order = sorted(groups, key=groups.__getitem__) if (groups := _groups(_mean_grid(grids))) else []
    paper_order = ", ".join(artifact.reference["group_order"][size])
    entries.append(
        Entry(group, "groups, best first", column, "", len(grids), literal=", ".join(order) or "–", paper=paper_order)
    )
    return entries


def _between(cells: dict[float, list[Run]]) -> list[Entry]:
    """Kendall's tau between the two sizes, of different seeds as within one size: equal ones share their batches."""
    small, large = ({run.seed: _losses(run) for run in runs} for runs in cells.values())
    taus = [tau for a in small for b in large if a != b and (tau := _tau(small[a], large[b])) is not None]
    mean = statistics.fmean(taus) if taus else None
    return [
        Entry(
            "between the sizes",
            "Kendall's tau of the 16 test NLL, mean over pairs of seeds",
            "A with B",
            "",
            len(large),
            mean,
            literal=show(mean),
        )
    ]


def _with_bn_and_ln(artifact: Artifact, runs: Sequence[Run], error: str) -> list[Entry]:
    """BLN with each choice of its configuration, BN and LN; the paper trains the last two on 20 % only."""
    rows: dict[str, tuple[str, str | None]] = {
        "BLN, FFFF": ("bln", None),
        "BLN, best on validation": ("bln", "best by valid"),
        "BLN, best on test (as published)": ("bln", "best by test"),
        "BN": ("bn", None),
        "BN, statistics of the evaluation batch": ("bn", "eval_stats=batch"),
        "LN": ("ln", None),
    }
    entries = []
    for row, (arm, variant) in rows.items():
        for size, name in SIZES.items():
            cell = _cell(runs, size, arm)
            losses = [at_epoch(run, "test", "nll", "best", variant) for run in cell]
            errors = [at_epoch(run, "test", error, "best", variant) for run in cell]
            paper = (
                f"{100 * (1 - artifact.reference['test_accuracy'][size]):.1f} (authors' log)"
                if "published" in row
                else "–"
            )
            entries += [
                estimate_entry(losses, "BLN, BN and LN", row, f"{name}, test NLL"),
                estimate_entry(percents(errors), "BLN, BN and LN", row, f"{name}, test error", "%", paper),
            ]
    return entries


def _cell(runs: Sequence[Run], size: float, arm: str = "bln") -> list[Run]:
    return within(runs, {"arm": arm, "data.fraction": size})


def _losses(run: Run) -> Losses:
    """Test NLL of the 16."""
    losses = {variant: at_epoch(run, "test", "nll", "best", variant) for variant in _variants()}
    return {variant: value for variant, value in losses.items() if value is not None}


def _variants() -> list[str]:
    return [a + b + c + d for a in "TF" for b in "TF" for c in "TF" for d in "TF"]


def _whole(grid: Losses) -> bool:
    return len(grid) == 16 and all(map(math.isfinite, grid.values()))


def _tau(a: Losses, b: Losses) -> float | None:
    both = [variant for variant in a if variant in b]
    if len(both) < 2 or not all(math.isfinite(grid[variant]) for variant in both for grid in (a, b)):
        return None
    return kendall([a[variant] for variant in both], [b[variant] for variant in both])


def _groups(grid: Losses) -> Losses:
    """Mean of the four configurations with the same statistics of the batch."""
    if len(grid) < 16:
        return {}
    return {
        pair: statistics.fmean(v for variant, v in grid.items() if variant.startswith(pair))
        for pair in ("TT", "TF", "FT", "FF")
    }


def _mean_grid(grids: Sequence[Losses]) -> Losses:
    whole = [grid for grid in grids if _whole(grid)]
    return {variant: statistics.fmean(grid[variant] for grid in whole) for variant in _variants()} if whole else {}


def _less(run: Run, first: str, second: str) -> float | None:
    a, b = (at_epoch(run, "test", "nll", "best", pattern) for pattern in (first, second))
    return None if a is None or b is None else a - b


def _inflation(run: Run, error: str) -> float | None:
    on_test, on_valid = (at_epoch(run, "test", error, "best", f"best by {split}") for split in ("test", "valid"))
    return None if on_test is None or on_valid is None else 100 * (on_valid - on_test)


def _ranks(means: dict[str, float | None]) -> dict[str, int]:
    complete = {variant: mean for variant, mean in means.items() if mean is not None}
    return {variant: rank for rank, variant in enumerate(sorted(complete, key=complete.__getitem__), 1)}
