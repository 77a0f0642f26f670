"""Colours of arms: told apart by everybody, on a light page and on a dark one; of many arms by dashes and marks too."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import compared
import pytest

from normbench.config import compose
from normbench.draw.style import COLOURS, DISTINCT, distinct_colours, on_dark
from normbench.web.board import ARM
from normbench.web.view import view

Rows = tuple[tuple[float, float, float], ...]
GROUNDS = {"light": "#ffffff", "dark": "#13161b"}  # style.css: --surface
SIGHT: dict[str, Rows] = {  # linear RGB as it is seen; Machado, Oliveira and Fernandes 2009, severity 1.0
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
XYZ: Rows = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)


def linear(colour: str) -> list[float]:
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def times(rows: Rows, values: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, values, strict=True)) for row in rows]


def lab(colour: str, sight: Rows) -> tuple[float, float, float]:
    """CIE 1976 L*a*b* of the colour as it is seen."""
    visible = [min(1.0, max(0.0, value)) for value in times(sight, linear(colour))]
    x, y, z = (
        math.cbrt(share) if (share := value / white) > 216 / 24389 else (24389 / 27 * share + 16) / 116
        for value, white in zip(times(XYZ, visible), WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def least_distance(colours: list[str]) -> float:
    pairs = itertools.combinations(colours, 2)
    return min(math.dist(lab(a, sight), lab(b, sight)) for a, b in pairs for sight in SIGHT.values())


def contrast(a: str, b: str) -> float:
    """WCAG 2.2; 3 is enough for graphics."""
    low, high = sorted(times(XYZ, linear(colour))[1] for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def of_page(page: str, names: list[str]) -> list[str]:
    colours = [*distinct_colours(names).values()]
    return list(map(on_dark, colours)) if page == "dark" else colours


@pytest.mark.parametrize("page", GROUNDS)
@pytest.mark.parametrize(("arms", "least"), [(2, 31.0), (3, 25.0), (4, 21.0), (5, 19.0), (6, 18.5)])
def test_arms_and_the_baseline_are_told_apart_without_red_or_green_cones(page: str, arms: int, least: float):
    colours = of_page(page, [f"arm {i}" for i in range(arms)])
    assert len(colours) == arms + 1 and least_distance(colours) >= least  # 2.3 is just noticeable


def test_the_measure_sees_what_a_reader_without_green_cones_does_not():
    brown, green = "#8c564b", "#3f7d3f"
    assert least_distance([brown, green]) < 18.5 < math.dist(*(lab(c, SIGHT["all cones"]) for c in (brown, green)))


@pytest.mark.parametrize(("page", "ground"), GROUNDS.items())
def test_lines_stand_out_from_the_page(page: str, ground: str):
    assert min(contrast(colour, ground) for colour in of_page(page, [*map(str, DISTINCT)])) >= 3


def test_a_colour_depends_on_the_normalizers_beside_it_and_not_on_their_order():
    some = distinct_colours(["none", "mine", "layer", "batch"])
    assert some == distinct_colours(["batch", "none", "mine", "layer"])
    assert [*distinct_colours(COLOURS)][:3] == ["none", "batch", "layer"] == [*some][:3]
    assert distinct_colours(["layer"])["layer"] == next(iter(DISTINCT)) and some["none"] == COLOURS["none"]


def test_more_arms_than_colours_differ_in_dash_and_mark():
    norms = compose.choices("norm")
    shown = [run for lr in (1e-3, 1e-2) for run in compared.runs(norms[:16], 2, lr=lr)]
    query = {"filter": "", "metric": "nll"}
    found = view(compared.heads(shown), compared.loader(shown), query)
    looks = {(arm["colour"], arm["dash"]) for arm in found["arms"]}
    assert found["choices"]["dash"]["now"] == ARM and len(looks) == len(found["arms"]) == 16
    of_sensitivity = {(t["meta"]["light"], t["line"]["dash"]) for t in found["sensitivity"]["data"]}
    assert of_sensitivity == looks
    points = view(compared.heads(shown), compared.loader(shown), {**query, "plot": "optim.lr"})["swept"]["data"]
    marks = {(t["meta"]["light"], t["marker"]["symbol"]) for t in points if t["meta"]["role"] == "point"}
    assert len(marks) == 16


def test_points_of_few_arms_are_circles_whatever_their_dash_says():
    shown = [run for lr in (1e-3, 1e-2) for run in compared.runs(seeds=2, lr=lr)]
    found = view(compared.heads(shown), compared.loader(shown), {"plot": "optim.lr"})
    marks = {t["marker"]["symbol"] for t in found["swept"]["data"] if t["meta"]["role"] == "point"}
    assert marks == {"circle"} and len({cell["dash"] for cell in found["cells"]}) == 2


def test_arms_of_one_normalizer_have_a_colour_each():
    shown = [
        replace(run, id=f"{eps}{run.id}", config={**run.config, "norm": {"name": "layer", "eps": eps}})
        for eps in (1e-5, 0.1)
        for run in compared.runs(("layer",), 2)
    ]
    found = view(compared.heads(shown), compared.loader(shown), {})
    assert len({arm["colour"] for arm in found["arms"]}) == 2
