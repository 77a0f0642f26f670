"""Figures for papers: exact width, one size of text, embedded TrueType, the same bytes; hidden arms are not in them."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import compared
import pytest

pytest.importorskip("matplotlib")

from normbench.commands import format
from normbench.compare.groups import tasks
from normbench.compare.question import Question
from normbench.draw.figure import paper_figure
from normbench.draw.panels import Panel
from normbench.errors import BadInput
from normbench.web.board import Board
from normbench.web.paper_figure import of_groups, on_show

SWEEP = [run for lr in (1e-2, 1e-3) for run in compared.runs(lr=lr)]


def board(runs: Any, query: dict[str, str] | None = None) -> Board:
    (task,) = tasks(runs)
    return Board(task, Question.of(task, query or {}), query or {})


def drawn(panels: list[Panel], form: str, width: float = 3.25, font_size: float = 8.0) -> bytes:
    target = io.BytesIO()
    paper_figure(panels, target, form, width, font_size)
    return target.getvalue()


def names(panels: list[Panel]) -> list[str]:
    return [line.look.name for panel in panels for line in panel.lines]


@pytest.mark.parametrize("width", [2.5, 3.25, 6.75])
def test_a_pdf_is_as_wide_as_its_column_and_has_truetype_alone(width: float) -> None:
    content = drawn(of_groups(board(SWEEP)), "pdf", width)
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", content)
    assert box and float(box[1]) == pytest.approx(72 * width, abs=0.01) and float(box[2]) < 72 * 5
    assert b"/FontFile2" in content and b"/Type3" not in content and b"CreationDate" not in content


def test_an_svg_has_text_in_one_size_and_a_png_its_width() -> None:
    panels = of_groups(board(compared.runs()))
    svg = drawn(panels, "svg", 3.25, 7.0).decode()
    sizes = {float(size) for size in re.findall(r"([\d.]+)px", " ".join(re.findall(r"font[^\"]*px", svg)))}
    assert {"none", "batch", "layer"} <= {*re.findall(r">([^<>]+)</text>", svg)} and sizes == {7.0}
    assert re.search(r'width="234(\.0)?pt"', svg) and "<dc:date>" not in svg
    assert struct.unpack(">I", drawn(panels, "png", 3.25)[16:20])[0] == 975


def test_the_same_runs_give_the_same_bytes_in_every_process() -> None:
    script = (
        "import io, sys, compared, test_web_paper_figure as t\n"
        "sys.stdout.buffer.write(t.drawn(t.of_groups(t.board(t.SWEEP)), 'pdf'))"
    )
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1] and outputs[0].startswith(b"%PDF")


def test_of_a_sweep_of_rates_each_arm_is_at_its_best_one() -> None:
    (panel,) = of_groups(board(SWEEP))
    assert sorted(names([panel])) == [f"{norm} · lr=0.01" for norm in ("batch", "layer", "none")]
    assert {line.look.dash for line in panel.lines} == {"solid"}, "where all have one rate it needs no dash"
    sizes = [run for size in (4, 32) for run in compared.runs(batch_size=size)]
    panels = of_groups(board(sizes))
    assert [panel.column.rpartition(" · ")[2] for panel in panels] == ["train.batch_size=4", "train.batch_size=32"]
    assert names(panels[:1]) == names(panels[1:]) and sorted(names(panels[:1])) == ["batch", "layer", "none"]


@pytest.mark.parametrize(
    ("off", "left"),
    [("batch", 4), ("batch|optim.lr=0.01", 2), ("batch|layer|optim.lr=0.01", 1), ("nothing", 6)],
)
def test_what_a_reader_has_switched_off_is_not_in_it(off: str, left: int) -> None:
    it = board(SWEEP)
    shown = names(on_show(it, {"off": off}))
    assert len(shown) == left and not [name for name in shown if name.split(" ")[0] in off.split("|")]
    first = it.cells[0]
    assert it.styles[first.key].name not in names(on_show(it, {"off": first.key}))
    rows = [row.arm for group in it.comparison_on_show({"off": off}).groups for row in group.rows]
    assert bool(off == "nothing") == any(row.startswith("batch") for row in rows)


def test_of_many_cells_the_best_rates_alone_are_in_it_as_on_the_page() -> None:
    many = [run for lr in (1e-3, 3e-3, 1e-2, 0.1, 1.0) for run in compared.runs(lr=lr, seeds=3)]
    it = board(many)
    assert len(names(on_show(it, {}))) == 3 and len(names(on_show(it, {"rate": "all"}))) == 15
    assert not any(line.band() for panel in on_show(it, {"rate": "all"}) for line in panel.lines)


def test_panels_places_bands_zooms_and_logarithms_are_those_of_the_page() -> None:
    it = board(SWEEP, {"metric": "nll"})
    query = {"panels": "valid:error", "beside": "optim.lr", "zoom": "x,5,9|,0.01,0.5", "band": "0", "logx": "1"}
    panels = on_show(it, query)
    assert [panel.column for panel in panels] == ["optim.lr=0.001", "optim.lr=0.01"] * 2
    assert [panel.quantity.metric for panel in panels] == ["nll", "nll", "error", "error"]
    assert [panel.quantity.log for panel in panels] == [True, True, False, False] and panels[0].quantity.log_x
    assert {point.x for panel in panels for line in panel.lines for point in line.points} == set(range(5, 10))
    assert panels[0].view() == (0.01, 0.5) and panels[2].limits is None
    assert not any(line.band() for panel in panels for line in panel.lines)
    assert all(line.band() for line in on_show(it, {})[0].lines) and not on_show(it, {"log": "0"})[0].quantity.log
    assert drawn(panels, "pdf").startswith(b"%PDF")


def test_a_diverged_run_and_a_name_of_markup_are_drawn() -> None:
    lost = [replace(run, status="diverged", records=[{**r, "nll": "NaN", "error": "NaN"} for r in run.records])
            for run in compared.runs(("layer",), 1)]  # fmt: skip
    odd = [replace(run, config={**run.config, "norm": {"name": "$a_b$<b>"}}) for run in compared.runs(("batch",))]
    assert drawn(of_groups(board([*compared.runs(("none",)), *lost, *odd])), "svg")


@pytest.mark.parametrize(
    ("text", "inches"), [("3.25in", 3.25), ("8.255cm", 3.25), ("82.55mm", 3.25), ("234.8775pt", 3.25)]
)
def test_a_width_has_one_of_four_units(text: str, inches: float) -> None:
    assert format.inches(text) == pytest.approx(inches)
    assert format.points("8pt") == pytest.approx(7.97, abs=0.01) and format.points("4pt") > 3.9


@pytest.mark.parametrize("text", ["3.25", "3.25 in", "3px", "-3in", "0.5in", "30in", "1e1in", "in", ""])
def test_another_width_is_refused_with_what_can_be_written(text: str) -> None:
    with pytest.raises(BadInput, match="83mm or 235pt"):
        format.inches(text)
    with pytest.raises(BadInput, match="8pt"):
        format.points("8")
