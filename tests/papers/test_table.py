"""Tables: text of numbers, censoring, Markdown that stays text, golden CSV."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import madeup
import pytest

from normbench.draw import figure, tables
from normbench.draw.text import visible
from normbench.papers import artifact as artifacts
from normbench.runs.run import Run


def _run(seed: int, nlls: list[float], arm: str = "ln", status: str = "done", batch: int = 128) -> Run:
    records = [
        {"epoch": epoch, "step": epoch * 10, "split": split, "mode": mode, "nll": nll, "error": nll / 10}
        for epoch, nll in enumerate(nlls)
        for split, mode in (("train", "both"), ("test", "eval"))
    ]
    return Run(f"{arm}{seed}", "e", arm, seed, status, len(nlls) - 1, {"train.batch_size": batch}, records=records)


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ([(1.45, (1.36, 1.54)), (5.7, (1.5, 9.8)), (2.59, None)], "1.45 [1.36, 1.54] | 5.70 [1.50, 9.80] | 2.59"),
        ([(57.07, (56.19, 57.96)), (59.6, (58.4, 60.8))], "57.1 [56.2, 58.0] | 59.6 [58.4, 60.8]"),
        ([(4301.2, (4271.0, 4332.0)), (1.25, (1.21, 1.29))],
         "4.301e+03 [4.271e+03, 4.332e+03] | 1.250e+00 [1.210e+00, 1.290e+00]"),
        ([(6.9e-4, (3.5e-5, 0.013)), (0.0434, None)], "6.9e−04 [3.5e−05, 1.3e−02] | 4.3e−02"),
        ([(36.8, None), (6.613, None)], "36.8 | 6.6"),
        ([(-0.45, None), (0.0, None)], "−0.450 | 0.000"),
        ([(1.5, None), (math.inf, None), (math.nan, None)], "1.50 | inf | nan"),
        ([(2.0, (2.0, 2.0)), (3.0, (-math.inf, math.inf))], "2 [2, 2] | 3 [−inf, inf]"),
    ],
)  # fmt: skip
def test_a_column_has_one_format(numbers, texts):
    entries = [tables.Entry("g", str(n), "q", "", 5, mean, interval) for n, (mean, interval) in enumerate(numbers)]
    assert " | ".join(tables.column(entries, count=False)) == texts
    _, rows = tables.grid(entries, "g")
    assert " | ".join(row[1].removesuffix(" (n = 5)") for row in rows) == texts


def test_a_row_without_a_quantity_has_an_empty_cell_there():
    entries = [
        tables.Entry("g", row, quantity, "", 5, literal=f"{row}{quantity}") for row, quantity in ("ax", "ay", "by")
    ]
    assert tables.grid(entries, "g") == (["", "x", "y"], [["a", "ax", "ay"], ["b", "", "by"]])


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (0.0014, 0.0004, 0.0025, "0.0014 [0.0004, 0.0025]"),
        (2.2e-4, -3.6e-4, 8.0e-4, "0.00022 [−0.00036, 0.00080]"),
        (0.46, 0.04, 0.88, "0.46 [0.04, 0.88]"),
        (-8e-5, -1.6e-4, -4e-7, "−8.0e−05 [−1.6e−04, −4.0e−07]"),
        (0.0, -0.04, 0.04, "0.000 [−0.040, 0.040]"),
        (12345.6, 12000.4, 12690.8, "12346 [12000, 12691]"),
        (3.2e-5, 1.1e-6, 9.3e-4, "3.2e−05 [1.1e−06, 9.3e−04]"),
        (1.50e-7, 1.48e-7, 1.52e-7, "1.500e−07 [1.480e−07, 1.520e−07]"),
        (2.0, 2.0, 2.0, "2 [2, 2]"),
        (1.0, float("-inf"), float("inf"), "1 [−inf, inf]"),
    ],
)
def test_an_interval_is_written_like_its_mean(mean: float, low: float, high: float, text: str):
    assert tables.Entry("g", "r", "q", "", 5, mean, (low, high)).text() == text


def test_entries_count_what_is_missing_censored_or_diverged():
    where = ("train", "eval", "nll")
    runs = [_run(seed, [2.0, 0.1, 0.001]) for seed in (1, 2)]
    late = _run(3, [2.0, 1.0, 0.5])
    lost = _run(4, [2.0, float("nan")], status="diverged")
    assert tables.final_entry([], "g", "r", "q", where).text() == "not run"
    assert tables.final_entry(runs[:1], "g", "r", "q", where).text() == "0.00100 (n = 1)"
    assert "1 diverged" in tables.final_entry([*runs, lost], "g", "r", "q", where).text()
    assert tables.final_entry([lost], "g", "r", "q", where).text() == "1 diverged"
    assert tables.time_entry([*runs, late], "g", "r", "q", where, 0.01).text() == "≥ 2 (1 of 3 not reached)"
    ends = [_run(5, [2.0, 1.0, 0.5, 0.4]), late, _run(6, [2.0, 1.0])]
    assert tables.time_entry(ends, "g", "r", "q", where, 0.01).text() == "≥ 1 (3 of 3 not reached)"
    reached = tables.time_entry(runs, "g", "r", "q", where, 0.01)
    assert reached.mean == pytest.approx(1.5)  # half way between 0.1 and 0.001 on the log axis


def test_geometric_mean_on_request():
    runs = [_run(1, [2.0, 1e-2]), _run(2, [2.0, 1e-4])]
    assert tables.final_entry(runs, "g", "r", "q", ("train", "eval", "nll"), log=True).mean == pytest.approx(1e-3)


def test_markdown_keeps_names_as_text():
    evil = "<script>|`*\n"
    text = tables.markdown([tables.Entry(evil, evil, evil, "", 0)])
    assert "\\<script\\>\\|\\`\\*" in text and text.count("\n| ") == 3


def test_fig6_table_golden():
    runs = [_run(seed, [2.3, 0.1 * seed, 0.001 * seed], arm) for arm in ("none", "ln") for seed in (1, 2, 3)]
    entries = artifacts.table(artifacts.load("ln2016/fig6"), runs)
    assert len(entries) == 5 * 2 * 6
    header, rows = tables.headline(entries)
    assert header == ["final test error, %", "batch 128: paper", "ours", "batch 4: paper", "ours"]
    assert rows[0] == ["none", "figure only", "0.0200 [0.0058, 0.0692] (n = 3)", "figure only", "not run"]
    assert tables.as_csv(entries).splitlines()[1] == (
        "batch 128,none,final test error,%,figure only,3,0,0,0.02,0.00577511,0.0692385"
    )


def test_a_row_stands_under_its_own_groups() -> None:
    places = [("trained", "ln", "1"), ("without", "random", "2"), ("less random", "ln", "3")]
    entries = [tables.Entry(group, row, "r", "", 1, literal=text) for group, row, text in places]
    header, rows = tables.headline(entries)
    assert header == ["r", "trained", "without", "less random"]
    assert rows == [["ln", "1", "", "3"], ["random", "", "2", ""]]


@pytest.mark.thinned(0)
@pytest.mark.parametrize("name", [madeup.HOSTILE, "$\\frac{1}{", "_hidden", "a$b$c", "\x1b[31m"])
def test_any_arm_name_is_text_in_the_figure_and_the_table(tmp_path, name: str):
    runs = [_run(seed, [2.3, 0.1 * seed, 0.001 * seed], name) for seed in (1, 2, 3)]
    with open(tmp_path / "a.svg", "wb") as file:
        figure.figure(artifacts.panels(artifacts.load("ln2016/fig6"), runs), file)
    root = ElementTree.parse(tmp_path / "a.svg").getroot()  # well-formed, whatever the name holds
    tags = {element.tag.rsplit("}", 1)[-1] for element in root.iter()}
    assert not tags & {"script", "img", "foreignObject"}
    assert visible(name).strip() in {(element.text or "").strip() for element in root.iter()}
    assert "\n" not in tables.escape(name) and "<" not in tables.escape(name).replace("\\<", "")


def test_fig6_figure_is_byte_stable_and_says_not_run(tmp_path):
    runs = [_run(seed, [2.3, 0.1 * seed, 0.001 * seed]) for seed in (1, 2, 3)]
    for name in ("a.svg", "b.svg"):
        with open(tmp_path / name, "wb") as file:
            figure.figure(artifacts.panels(artifacts.load("ln2016/fig6"), runs), file)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert text.count(">not run<") == 2 and "Seeds 1–3." in text
