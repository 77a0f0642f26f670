"""What is too wide for a terminal: nothing of it is cut."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from normbench.commands import data, doctor, terminal
from normbench.commands.terminal import Table, Terminal

COLUMNS = ("norm", "status", "test NLL", "against none", "norm.sites")
ROWS = (
    ("batch_layer", "interrupted", "1.350 [1.277, 1.423]", "-0.35 [-0.53, -0.18], 5 pairs", "[hidden,logits]"),
    ("none", "done", "2.842e-05", "", "hidden"),
)


def printed(width: int, terminal: bool, *whole: str, below: str = "") -> str:
    """The table as it is shown."""
    table = Table(*COLUMNS, whole=whole, below=[below])
    for row in ROWS:
        table.add_row(*(text.replace("[", "\\[") for text in row))
    console = Terminal(file=io.StringIO(), force_terminal=terminal, color_system=None, width=width)
    console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("terminal", [True, False])
def test_no_word_of_a_table_is_cut(width: int, terminal: bool) -> None:
    text = printed(width, terminal)
    words = [word for row in ROWS for entry in row for word in entry.split()]
    assert not [word for word in words if word not in text.split()] and "…" not in text
    if terminal and width >= 40:
        assert max(map(len, text.splitlines())) <= width


def test_columns_are_folded_while_the_words_fit_beside_each_other() -> None:
    lines = printed(80, True, "test NLL").splitlines()
    assert lines[1].index("1.350 [1.277, 1.423]") == lines[0].index("test NLL"), "one that is whole is not"
    assert lines[2].strip() == "[-0.53, -0.18],", "nor is an interval broken"


def test_a_row_is_a_list_where_they_do_not() -> None:
    assert printed(40, True).splitlines()[:3] == [
        "batch_layer",
        "  status        interrupted",
        "  test NLL      1.350 [1.277, 1.423]",
    ]
    assert printed(40, False).splitlines()[-1].split() == ["none", "done", "2.842e-05", "hidden"]


def test_a_long_text_stands_under_its_row_where_it_is_narrow() -> None:
    lines = printed(70, True, below="against none").splitlines()
    assert lines[0].split() == ["norm", "status", "test", "NLL", "norm.sites"]
    assert lines[1].split() == ["batch_layer", "interrupted", "1.350", "[1.277,", "1.423]", "[hidden,logits]"]
    assert lines[2] == "  -0.35 [-0.53, -0.18], 5 pairs" and len(lines) == 4, "the other row has none"
    assert printed(30, True, below="against none").splitlines()[-1].split() == ["norm.sites", "hidden"]
    assert "against none" in printed(140, True, below="against none")


@pytest.mark.parametrize("command", [data.command, doctor.command])
def test_long_lines_go_on_below_their_beginning(command: Callable[[Path], object], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORMBENCH_DATA", "data")
    wide, narrow = io.StringIO(), io.StringIO()
    for file, kind in ((wide, {}), (narrow, {"force_terminal": True, "color_system": None})):
        made = Terminal(file=file, width=80, **kind)
        monkeypatch.setattr(terminal, "console", lambda stderr=False, made=made: made)
        command(Path("results"))
    assert "at ./data/bookcorpus what only you can bring" in wide.getvalue(), "it names the folder, in one line"
    lines = narrow.getvalue().splitlines()
    assert max(map(len, [line for line in lines if "://" not in line])) <= 80
    at = next(number for number, line in enumerate(lines) if "book_corpus" in line)
    assert lines[at + 1].startswith(" " * 12) and lines[at + 1].split()
