"""What is too wide for a terminal: nothing of it is cut."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from normbench.commands import data, doctor, terminal
from normbench.commands.judging import print_verdicts
from normbench.commands.terminal import say, show_rows
from normbench.papers import published
from normbench.papers.page import ClaimText

COLUMNS = ("norm", "status", "test NLL", "against none", "norm.sites")
ROWS = (
    ("batch_layer", "interrupted", "1.350 [1.277, 1.423]", "-0.35 [-0.53, -0.18], 5 pairs", "[hidden,logits]"),
    ("none", "done", "2.842e-05", "", "hidden"),
)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
@pytest.mark.parametrize("terminal", [True, False])
def test_no_character_of_a_table_is_cut(width: int, terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, color_system=None, width=width)
    show_rows(console, COLUMNS, ROWS)
    text = console.file.getvalue()
    assert Counter("".join(text.split())) == Counter("".join("".join(row) for row in (COLUMNS, *ROWS)).replace(" ", ""))
    assert max(map(len, text.splitlines())) <= width


def test_cells_are_shown_as_they_are_but_steer_no_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    show_rows(console, ("\x1b[2J", "sites"), [("[red]a[/]", ":ant: \x1b]0;b")])
    say(console, "[red]c[/] \x9bd :ant:")
    table, line = console.file.getvalue().split("[red]c")
    assert table.split() == ["\ufffd[2J", "sites", "[red]a[/]", ":ant:", "\ufffd]0;b"]
    assert line == "[/] \ufffdd :ant:\n"


@pytest.mark.parametrize("command", [data.command, doctor.command])
def test_long_lines_go_on_below_their_beginning(command: Callable[[Path], object], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORMBENCH_DATA", "data")
    wide, narrow = io.StringIO(), io.StringIO()
    for file, kind in ((wide, {}), (narrow, {"force_terminal": True, "color_system": None})):
        made = Console(file=file, width=80, **kind)
        monkeypatch.setattr(terminal, "console", lambda stderr=False, made=made: made)
        command(Path("results"))
    assert "at ./data/bookcorpus what only you can bring" in wide.getvalue(), "it names the folder, in one line"
    lines = narrow.getvalue().splitlines()
    assert max(map(len, [line for line in lines if "://" not in line])) <= 80
    at = next(number for number, line in enumerate(lines) if "book_corpus" in line)
    assert lines[at + 1].startswith(" " * 11) and lines[at + 1].split()


def test_a_verdict_is_a_line_of_a_pipe_and_on_a_terminal_a_line_for_each_thing_beside_it() -> None:
    path = Path(__file__).parents[2] / "results" / "ln2016" / "fig6" / "paper" / "verdicts.json"
    (claim,) = [claim for claim in published.read_verdicts(path).claims if claim.id == "LN-F4"]
    pieces = ClaimText.of(claim).pieces
    printed = {}
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=2000, color_system=None)
        print_verdicts([claim], console)
        printed[is_terminal] = console.file.getvalue()
    assert len(pieces) > 2 and printed[False].count("\n") == 2 and "; ".join(pieces) in printed[False]
    lines = [line.strip() for line in printed[True].strip().splitlines()]
    assert lines[1:] == pieces[1:] and lines[0].endswith(pieces[0])
