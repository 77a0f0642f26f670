"""Plotly figures and forest plots as data."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import madeup
import plotly.graph_objects
import pytest

from normbench.draw.panels import Look, Quantity, panels
from normbench.draw.text import show, visible
from normbench.papers import artifact as artifacts
from normbench.papers import describe
from normbench.web import figures, forest, site


def test_figures_are_valid_and_hold_the_panels_numbers():
    runs = madeup.runs()
    drawings = artifacts.drawing(artifacts.load("ln2016/fig6")).panels(artifacts.load("ln2016/fig6"), runs)
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


def test_how_a_part_is_decided_is_told_by_its_test():
    one = {"kind": "direction", "level": 0.975, "test": "t"}
    assert site._how(one).startswith("holds when the whole 97.5 % interval lies on the claimed side")
    assert "by the exact sign test at the 97.5 % level" in site._how({**one, "test": "sign"})
    assert site._how({"kind": "exact", "level": None, "test": ""}) == "is computed, without seeds"


def part(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = dict.fromkeys(("tost", "expect", "within", "paper", "prediction", "sign_test"))
    base |= {"kind": "direction", "test": "t", "level": 0.95, "unit": "u", "effect": 1.0, "interval": [0.5, 1.5]}
    base |= {"n": 8, "censored": 0, "diverged": 0, "better": "", "scale": "linear"}
    return base | changes


def test_right_is_as_claimed():
    middle = forest.WIDTH / 2
    scale = {"u": 2.0}
    plus, minus = forest.mark(part(expect="positive"), scale), forest.mark(part(expect="negative"), scale)
    assert plus and minus
    assert (plus.low, plus.effect, plus.high) == (middle * 1.25, middle * 1.5, middle * 1.75)
    assert (minus.low, minus.effect, minus.high) == (middle * 0.25, middle * 0.5, middle * 0.75)
    assert plus.claimed == minus.claimed == (middle, forest.WIDTH)
    assert re.findall(r"[\d.]+", minus.text) == ["1", "0.5", "1.5"]  # as measured
    equal = forest.mark(part(within=1.0, tost=[0.6, 1.4]), scale)
    assert equal and equal.claimed == (middle / 2, middle * 1.5) and equal.inner == (middle * 1.3, middle * 1.7)


def test_a_size_holds_where_one_more_run_would_fall():
    middle = forest.WIDTH / 2
    directed = part(
        kind="size", paper=-2.0, expect="negative", prediction=[-1.0, 1.0], effect=-0.5, interval=[-0.8, -0.2]
    )
    sized = forest.mark(directed, {"u": 2.0})
    assert sized and sized.paper == forest.WIDTH and sized.claimed == (middle / 2, middle * 1.5)
    bare_size = part(kind="size", paper=10.0, effect=11.0, interval=[10.5, 11.5], prediction=[9.0, 13.0])
    scale = forest.limits([bare_size, part()])
    assert set(scale) == {"u", "u from the paper's number"} and scale["u from the paper's number"] < 5
    held = forest.mark(bare_size, {"u from the paper's number": 4.0})
    assert held and held.paper == middle and held.claimed == (middle * 0.75, middle * 1.75)
    assert held.effect == middle * 1.25


def test_computed_numbers_and_bare_orders_are_told_in_words():
    assert forest.mark(part(kind="exact", interval=None), {"u": 1.0}) is None
    order = part(effect=None, interval=None, sign_test={"above": 0, "below": 8, "p": 0.0078})
    assert forest.mark(order, {"u": 1.0}) is None
    assert re.findall(r"[\d.]+", describe.effect(order)) == ["8", "0", "8", "0.0078"]


def test_one_wide_interval_is_cut_and_does_not_flatten_the_others():
    parts = [part(), part(effect=0.9), part(effect=1.2, interval=[-500.0, 502.0])]
    scale = forest.limits(parts)
    assert 1.5 < scale["u"] < 10
    wide = forest.mark(parts[2], scale)
    assert wide and wide.cut_low and wide.cut_high and (wide.low, wide.high) == (0, forest.WIDTH)
    narrow = forest.mark(parts[0], scale)
    assert narrow and not narrow.cut_low and not narrow.cut_high
    assert forest.mark(part(effect=None, interval=None), scale) is None
    assert forest.limits([part(effect=None, interval=None)]) == {}


@pytest.mark.parametrize(
    ("text", "visible_text"),
    [("ln", "ln"), ("a\nb", "a b"), ("a\x00b\u202eb\u200b", "a\ufffdb\ufffdb\ufffd"), ("\ud800", "\ufffd"), (3, 3)],
)
def test_text_that_hides_is_shown(text: Any, visible_text: Any):
    assert visible(text) == visible_text


def test_numbers():
    assert show(-0.00412345) == "−0.00412" and show(None) == "–" and show(5) == "5" and show(-1234.4) == "−1234"
