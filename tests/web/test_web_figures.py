"""Plotly figures and forest plots as data."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import madeup
import plotly.graph_objects
import pytest
from judged import part_result

from normbench.draw.panels import Look, Quantity, panels
from normbench.draw.text import cut, show, told_apart, visible
from normbench.papers import artifact as artifacts
from normbench.papers import describe
from normbench.papers.page import PartText
from normbench.papers.parts import PartResult
from normbench.web import figures, forest


def test_figures_are_valid_and_hold_the_panels_numbers():
    runs = madeup.runs()
    drawings = artifacts.panels(artifacts.load("ln2016/fig6"), runs)
    assert [bool(panel.lines) for panel in drawings] == [True, False, True, False]
    for panel in drawings:
        figure = figures.figure(panel)
        plotly.graph_objects.Figure(figure)  # raises for a property that Plotly does not know
        means = [t for t in figure["data"] if t["meta"]["role"] == "mean"]
        assert [t["y"] for t in means] == [[p.mean for p in line.points] for line in panel.lines]
        roles = [t["meta"]["role"] for t in figure["data"]]
        assert roles == sorted(roles, key=figures.ROLES.index)
        assert roles.count("seed") == sum(len(line.seeds) for line in panel.lines)


def test_two_seeds_have_no_band_and_one_no_interval():
    look = {"ln": Look("LN", "#d1495b")}
    for n, bands in ((1, 0), (2, 0), (3, 1)):
        runs = [run for run in madeup.runs(n) if run.arm == "ln"]
        (panel,) = panels(runs, look, {"all": {}}, [Quantity("NLL", "train", "eval", "nll", log=True)])
        roles = [t["meta"]["role"] for t in figures.figure(panel)["data"]]
        assert roles.count("band") == bands and roles.count("seed") == n


def test_a_diverged_seed_has_a_gap_and_is_counted():
    runs = [run for run in madeup.runs(3) if run.arm == "ln"]
    broken = [{**dict(r), "nll": "NaN"} if r["epoch"] >= 3 else r for r in runs[0].records]
    runs[0] = replace(runs[0], status="diverged", records=broken)
    (panel,) = panels(
        runs, {"ln": Look("LN", "#d1495b")}, {"all": {}}, [Quantity("NLL", "train", "eval", "nll", log=True)]
    )
    data = figures.figure(panel)["data"]
    seed = next(t for t in data if t["meta"]["role"] == "seed" and "seed 6 " in t["name"])
    assert [value is None for value in seed["y"]] == [epoch >= 3 for epoch in seed["x"]]
    mean = next(t for t in data if t["meta"]["role"] == "mean")
    assert "n = 2, 1 diverged" in mean["customdata"][-1] and all(math.isfinite(y) for y in mean["y"])


def test_few_epochs_have_a_tick_each_and_other_axes_their_own():
    look = {"ln": Look("LN", "#d1495b")}
    epochs = [run for run in madeup.runs(3) if run.arm == "ln"]
    few = [replace(run, records=[r for r in run.records if r["epoch"] <= 3]) for run in epochs]

    long = [replace(run, records=[{**r, "epoch": 4 * r["epoch"]} for r in run.records]) for run in epochs]

    def ticks(runs: Any, **over: Any) -> Any:
        quantity = Quantity("NLL", "train", "eval", "nll", **over)
        (panel,) = panels(runs, look, {"all": {}}, [quantity])
        return figures.figure(panel)["layout"]["xaxis"].get("dtick")

    assert (
        ticks(few) == 1
        and ticks(long) is None
        and ticks(few, x="Time step") is None
        and ticks(few, clock="step", x="Update") is None
    )


@pytest.mark.parametrize(("power", "dtick"), [(1, 1), (12, 4)])
def test_powers_of_ten_have_room_for_their_labels(power: int, dtick: int):
    runs = [run for run in madeup.runs(3) if run.arm == "ln"]
    falling = [replace(run, records=[{**r, "nll": r["nll"] ** power} for r in run.records]) for run in runs]
    quantity = Quantity("NLL", "train", "eval", "nll", log=True, floor=1e-300)
    (panel,) = panels(falling, {"ln": Look("LN", "#d1495b")}, {"all": {}}, [quantity])
    axis = figures.figure(panel)["layout"]["yaxis"]
    assert axis["dtick"] >= dtick and (axis["range"][1] - axis["range"][0]) / axis["dtick"] <= figures.MOST_DECADES


def test_how_a_part_is_decided_is_told_by_its_test():
    one = part(level=0.975)
    assert PartText.of(one).rule.startswith("holds when the whole 97.5 % interval lies on the claimed side")
    assert "by the exact sign test at the 97.5 % level" in PartText.of(replace(one, test="sign")).rule
    assert PartText.of(part(kind="exact", level=None, test="")).rule == "is computed, without seeds"


def part(**changes: Any) -> PartResult:
    base = {"effect": 1.0, "interval": (0.5, 1.5), "unit": "u", "n": 8, "better": "", "expect": None, "tost": None}
    return part_result(**base | {"prediction": None} | changes)


def rows(*parts: PartResult) -> list[forest.Row]:
    """The rows of one plot."""
    (plot,) = forest.plots(("", part) for part in parts)
    return list(plot.rows)


@pytest.mark.parametrize(
    ("better", "sides"), [("lower", "better worse"), ("higher", "worse better"), ("", "lower higher")]
)
@pytest.mark.parametrize("expect", ["positive", "negative"])
def test_an_axis_is_signed_and_names_its_better_side(better: str, sides: str, expect: str):
    effects = [part(expect=expect, better=better, effect=e, interval=[e - 0.5, e + 0.5]) for e in (-2.0, 1.0)]
    (plot,) = forest.plots(("", effect) for effect in effects)
    assert plot.sides == tuple(sides.split())
    low, high = plot.rows
    assert low.effect is not None and high.effect is not None and low.effect < plot.zero < high.effect  # never mirrored
    assert [row.value for row in plot.rows] == ["−2.00 [−2.50, −1.50]", "1.00 [0.50, 1.50]"]
    ticks = [float(text.replace("−", "-")) for _, text in plot.ticks]
    assert 3 <= len(ticks) <= 5 and ticks == sorted(ticks) and (plot.zero, "0") in plot.ticks
    claimed = (plot.zero, 100) if expect == "positive" else (0, plot.zero)
    assert all(row.claimed == (claimed[0], pytest.approx(claimed[1] - claimed[0], abs=0.02)) for row in plot.rows)


def test_ratios_have_an_axis_of_ratios():
    effects = [part(unit="log ratio", scale="log", effect=math.log(r), interval=[math.log(r / 2), math.log(2 * r)])
               for r in (0.1, 30)]  # fmt: skip
    (plot,) = forest.plots(("", effect) for effect in effects)
    assert plot.unit == "ratio" and plot.ticks[0][0] < plot.zero < plot.ticks[-1][0] and (plot.zero, "1") in plot.ticks
    assert [row.value for row in plot.rows] == ["0.10 [0.05, 0.20]", "30.00 [15.00, 60.00]"]


@pytest.mark.parametrize("width", [1e-6, 0.02, 0.7, 2.0, 9.0, 40.0, 300.0])
def test_every_axis_of_ratios_has_a_few_ticks(width: float):
    (plot,) = forest.plots([("", part(unit="log ratio", effect=width / 2, interval=[0.0, width]))])
    assert 1 <= len(plot.ticks) <= forest.MOST_TICKS
    assert len({text for _, text in plot.ticks}) == len(plot.ticks)


def test_an_equivalence_has_its_margin_and_interval():
    (equal,) = rows(part(within=1.0, tost=[0.6, 1.4]))
    assert equal.claimed and equal.inner and equal.interval
    assert equal.claimed[0] < equal.inner[0] < sum(equal.claimed) < sum(equal.inner)


def test_a_size_holds_where_one_more_run_would_fall():
    (directed,) = rows(part(kind="size", paper=-2.0, expect="negative", prediction=[-1.0, 1.0], effect=-0.5,
                            interval=[-0.8, -0.2]))  # fmt: skip
    assert directed.claimed and directed.paper is not None and directed.paper < directed.claimed[0]
    bare_size = part(kind="size", paper=10.0, effect=11.0, interval=[10.5, 11.5], prediction=[9.0, 13.0])
    sized, other = forest.plots([("", bare_size), ("", part())])
    assert (other.unit, sized.unit) == ("u", "u from the paper's number")
    (held,) = sized.rows
    assert held.paper == sized.zero and held.claimed and held.claimed[0] < sized.zero < sum(held.claimed)
    assert held.value == "1.00 [0.50, 1.50]"


def test_computed_numbers_and_bare_orders_are_told_in_words():
    order = part(effect=None, interval=None, sign_test={"above": 0, "below": 8, "p": 0.0078})
    (plot,) = forest.plots([("", part(kind="exact", interval=None)), ("", order)])
    assert not plot.ticks and [row.value for row in plot.rows] == ["", ""]
    assert re.findall(r"[\d.]+", describe.effect(order)) == ["8", "0", "8", "0.0078"]


def test_one_wide_interval_is_cut_and_does_not_flatten_the_others():
    first, _, wide = rows(part(), part(effect=0.9), part(effect=1.2, interval=[-500.0, 502.0]))
    assert wide.cut == (True, True) and wide.interval == (0, 100)
    assert first.cut == (False, False) and first.interval and first.interval[1] > 5


@pytest.mark.parametrize(
    ("text", "visible_text"),
    [("ln", "ln"), ("a\nb", "a b"), ("a\x00b\u202eb\u200b", "a\ufffdb\ufffdb\ufffd"), ("\ud800", "\ufffd"), (3, 3)],
)
def test_text_that_hides_is_shown(text: Any, visible_text: Any):
    assert visible(text) == visible_text


def test_numbers():
    assert show(-0.00412345) == "−0.00412" and show(None) == "–" and show(5) == "5" and show(-1234.4) == "−1234"


def test_long_names_are_told_apart_by_what_differs():
    pairs = [(scale, site) for scale in ("one", "root") for site in "ab"]
    names = [f"batch eps=0.001 momentum=0.01 scale={scale} sites.dense={site}" for scale, site in pairs]
    found = told_apart([*names, "layer eps=0.001"], 32)
    assert found[:2] == ["batch … scale=one sites.dense=a", "batch … scale=one sites.dense=b"]
    assert found[4] == "layer eps=0.001" and len({*found}) == 5 and max(map(len, found)) <= 32
    assert told_apart([*names, "layer eps=0.001"], 28)[0] == "batch scale=one sites.…nse=a"
    assert cut("abcdefghijkl", 8) == "abcd…jkl"
