"""The published figures: their layout and their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import madeup
import plotly.graph_objects
import pytest

from normbench.draw import captions, figure
from normbench.draw.panels import Line, Look, Panel, Quantity, layout, log_ticks, panels
from normbench.papers import artifact as artifacts
from normbench.runs.run import Run
from normbench.stats.series import Point
from normbench.web import figures

LOSS = Quantity("NLL", "train", "eval", "nll", log=True)


def line(name: str, means: Sequence[float], seeds: Sequence[int] = (1, 2, 3), diverged: int = 0) -> Line:
    points = [Point(x, mean, (0.9 * mean, 1.1 * mean), len(seeds), 0) for x, mean in enumerate(means, 1)]
    curves = [(seed, f"{name}{seed}", [(p.x, seed * (p.mean or 0.0)) for p in points]) for seed in seeds]
    return Line(name, Look(name, "#1f6fb4"), points, curves, diverged)


def panel(*lines: Line, column: str = "all", quantity: Quantity = LOSS, categories: Sequence[str] = ()) -> Panel:
    return Panel(column, quantity, lines, categories=categories)


def svg(found: Sequence[Panel]) -> ElementTree.Element:
    file = BytesIO()
    figure.figure(found, file)
    return ElementTree.fromstring(file.getvalue())


def texts(root: ElementTree.Element) -> list[str]:
    return [(element.text or "").strip() for element in root.iter() if element.tag.endswith("}text")]


@pytest.mark.parametrize(
    ("columns", "quantities", "rows"),
    [(1, 1, [1]), (1, 3, [3]), (1, 4, [4]), (1, 7, [3, 3, 1]), (2, 3, [2, 2, 2]), (4, 1, [4]), (6, 2, [3] * 4)],
)
def test_no_more_than_four_panels_are_side_by_side(columns: int, quantities: int, rows: list[int]) -> None:
    drawn = [
        panel(column=f"c{c}", quantity=replace(LOSS, name=f"q{q}")) for q in range(quantities) for c in range(columns)
    ]
    found = [row for block in layout(drawn) for row in block]
    assert [len(row) for row in found] == rows and {id(p) for row in found for p in row} == set(map(id, drawn))
    assert all(len({p.quantity for p in row}) == 1 for row in found) or columns == 1


@pytest.mark.parametrize(
    ("means", "ticks"),
    [([2, 0.4], [0.5, 1, 2]), ([0.85, 0.68], [0.7, 0.8, 0.9]), ([40, 5.5], [5, 10, 20, 50]), ([1, 0.001], [])],
)
def test_a_short_logarithmic_axis_has_labels(means: list[float], ticks: list[float]) -> None:
    short = panel(line("LN", means))
    assert short.ticks() == pytest.approx(ticks)
    assert figures.figure(short)["layout"]["yaxis"].get("ticktext", []) == [f"{tick:g}" for tick in ticks]
    assert {f"{tick:g}" for tick in ticks} <= set(texts(svg([short])))


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [
        (0.3, 2.5, 9, "0.5 1 2"), (0.62, 0.93, 9, "0.7 0.8 0.9"), (4, 60, 9, "5 10 20 50"),
        (1.0, 1.21, 9, "1 1.05 1.1 1.15 1.2"), (1.5, 9, 9, "2 3 4 5 6 7 8 9"), (1.5, 9, 5, "2 5"),
        (0.12, 99, 5, "1 10"), (1e-7, 3, 5, "1e-06 0.0001 0.01 1"),
    ],
)  # fmt: skip
def test_a_logarithmic_axis_has_a_few_round_numbers(low: float, high: float, most: int, ticks: str) -> None:
    assert " ".join(f"{tick:.6g}" for tick in log_ticks(low, high, most)) == ticks


def test_lines_that_look_alike_are_named() -> None:
    bn, ln = line("BN", [1, 0.1, 0.01]), line("LN", [1, 0.1, 0.0101])
    assert captions.coinciding(panel(bn, ln, line("none", [1, 0.5, 0.01]))) == "BN and LN coincide"
    assert captions.coinciding(panel(bn, ln, line("WN", [1, 0.1, 0.01]))) == "all lines coincide"
    assert not captions.coinciding(panel(bn, line("short", [1, 0.1])))
    everywhere = [panel(bn, ln), panel(bn, ln, column="b")]
    assert captions.of_figure(everywhere).endswith(" BN and LN coincide in all panels.")
    assert texts(svg(everywhere)).count("BN and LN coincide") == 0
    apart = [panel(bn, ln), panel(bn, line("LN", [1, 0.5, 0.01]), column="b")]
    assert texts(svg(apart)).count("BN and LN coincide") == 1, "at its panel"


def test_the_caption_names_the_seeds_that_are_drawn() -> None:
    a, b = line("a", [1, 2], [1, 2, 3, 5]), line("b", [1, 3], [1, 2, 3, 5])
    assert captions.describe_seeds([panel(a)]) == "seeds 1–3, 5"
    assert captions.describe_seeds([panel(line("a", [1], [4]))]) == "seed 4"
    assert captions.describe_seeds([panel()]) == captions.of_figure([panel()]) == ""
    other = panel(line("a", [1, 2], [6, 7]), line("b", [1, 3], [6, 7]), column="c", quantity=LOSS)
    assert captions.describe_seeds([panel(a, b, line("x", [1], [1, 2, 3, 5])), other]) == "seeds 1–3, 5; c: 6–7"
    mixed = panel(a, b, line("x", [1, 2], [6]), column="c")
    assert captions.describe_seeds([panel(a, b), mixed]) == "seeds 1–3, 5; x: 6"
    assert captions.describe_seeds([panel(a, line("b", [1, 3], [1, 2, 3, 5], 2))]) == "seeds 1–3, 5; b: 2 diverged"
    root = svg([panel(a, b), mixed])
    assert "x: 6." in " ".join(texts(root)) and not any(text.startswith("n =") for text in texts(root))


def test_no_line_leads_through_categories() -> None:
    names = ["TTFF", "FFTF"]
    drawn = panel(line("BLN", [1, 2]), quantity=Quantity("NLL", "test", "eval", "nll", x="Place"), categories=names)
    assert {text for text in texts(svg([drawn])) if text in names} == set(names)
    of_page = figures.figure(drawn)
    plotly.graph_objects.Figure(of_page)  # raises for a property that Plotly does not know
    (points,) = of_page["data"]
    assert points["mode"] == "markers" and points["error_y"]["array"] == pytest.approx([0.1, 0.2])
    assert of_page["layout"]["xaxis"]["ticktext"] == names


def test_long_names_at_an_axis_leave_the_curves_their_height_and_the_legend_has_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "save", lambda fig, target: drawn.append(fig) or fig.canvas.draw())
    names = ["block.0.attention", "block.3.attention"]
    points = panel(line("LN", [2.0, 1.0]), quantity=replace(LOSS, name="share"), categories=names)
    figure.figure([panel(line("LN", [2.0, 1.0])), *[points] * 3], BytesIO())
    (fig,) = drawn
    curves = fig.axes[0]
    assert curves.get_position().height * fig.get_figheight() > 1.2
    (entry,) = fig.legends[0].legend_handles
    assert entry.get_linestyle() == curves.lines[0].get_linestyle() == "-"
    title = figures.figure(points)["layout"]["xaxis"]["title"]
    assert title["text"] == "Epoch" and title["standoff"] > 0


def test_a_median_is_drawn_with_each_seed_and_shares_as_per_cent() -> None:
    runs = [run for run in madeup.runs(3) if run.arm == "ln"]
    looks = {"ln": Look("LN", "#d1495b")}
    own, each = ([p] for p in panels(runs, looks, {"all": {}}, [LOSS, replace(LOSS, median=True)]))
    assert own[0].lines[0].band() and not each[0].lines[0].band()
    last = each[0].lines[0]
    assert last.points[-1].mean == sorted(curve[-1][1] for _, _, curve in last.seeds)[1]
    paths = [sum(e.tag.endswith("}path") for e in svg(p).iter()) for p in (own, each)]
    assert paths[1] >= paths[0] + 3 - 1, "three seeds, and no band"
    roles = [trace["meta"]["role"] for trace in figures.figure(each[0])["data"]]
    assert roles == ["mean"] * 4, "a page shows and hides the seeds with their median"
    (hundred,) = panels(runs, looks, {"all": {}}, [replace(LOSS, factor=100)])
    assert hundred.lines[0].points[-1].mean == pytest.approx(100 * (own[0].lines[0].points[-1].mean or 0))


def test_a_figure_shows_the_seeds_that_its_claims_use() -> None:
    """LN-F1 to F3 are decided by seeds 6 to 10."""
    artifact = artifacts.load("ln2016/fig6")
    one = next(run for run in madeup.runs() if run.arm == "ln")

    def run(arm: str, seed: int, batch: int = 128) -> Run:
        labels = {"arm": arm, "seed": seed, "axes": {"train.batch_size": batch}, "fidelity": "paper"}
        return replace(one, id=f"{arm}{seed}{batch}", **labels)

    runs = [run(arm, seed) for arm in ("none", "bn-all", "ln") for seed in range(1, 11)]
    runs += [run("ln-all", seed) for seed in range(1, 6)] + [run("bn", 1, 4), run("ln", 1, 4)]
    found = artifacts.panels(artifact, runs)
    assert captions.describe_seeds(found) == "seeds 6–10; LayerNorm, all layers (ours): 1–5; batch size 4: 1"
    few = artifacts.panels(artifact, [run("ln", 1), run("none", 1)])
    assert captions.describe_seeds(few) == "seed 1", "what there is, where none of these is"


def test_figures_are_laid_out_as_the_papers_have_them() -> None:
    def made(name: str, splits: dict[str, tuple[str, ...]], mode: str) -> list[Panel]:
        numbers = [
            {"epoch": n, "step": 100 * n, "split": split, "mode": mode, **dict.fromkeys(metrics, 0.5 / n)}
            for n in (1, 2, 3)
            for split, metrics in splits.items()
        ]
        base = next(iter(madeup.runs()))
        return artifacts.panels(
            artifacts.load(name),
            [replace(base, arm=arm, axes={}, control="", records=numbers) for arm in ("none", "ln")],
        )

    recall = made("ln2016/fig1", {"valid": ("image_r1", "image_r5", "image_r10")}, "eval")
    assert [[len(row) for row in block] for block in layout(recall)] == [[3]]
    assert recall[0].quantity.name.endswith(", %") and recall[0].lines[0].points[0].mean == 50
    both = made("ln2016/fig5", {"test": ("line_nll", "speed"), "train": ("line_nll",)}, "eval")
    assert [(one.look.name, one.look.in_paper) for one in both[0].lines] == [
        ("Baseline, test lines", True), ("LN, test lines", True),
        ("Baseline, training lines", False), ("LN, training lines", False),
    ]  # fmt: skip
    assert both[0].quantity.log_x and figures.figure(both[0])["layout"]["xaxis"]["type"] == "log"
    assert all(p.quantity.median for p in made("ln2016/fig4", {"test": ("bound", "kl")}, "eval"))
