"""Standard output and error that are closed or full: the command does its work, and its exit code stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import child
import pytest

from normbench.runs import imported
from normbench.runs.table import Runs

CLOSED = ["| true", "2>&1 | true", ">&-", "2>&-", "<&- >&- 2>&-"]
FULL = pytest.param("> /dev/full", marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full"))


def shell(folder: Path, words: str, rest: str) -> tuple[int, str]:
    """The exit code of normbench WORDS in a shell whose command goes on with `rest`, and what comes on standard error.

    The reader of a pipe ends before the command begins.
    """
    begin = "sleep 0.2; " if "|" in rest else ""
    command, *piped = rest.split("|")
    line = f"( {begin}exec {sys.executable} -W ignore -m normbench {words} {command} ) {'|'.join(['', *piped])}"
    environment = os.environ | {"PYTHONPATH": child.path()}
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"], cwd=folder, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stderr


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two arms of five seeds; rms ends below ln."""
    (tmp_path / "logs").mkdir()
    for arm, loss in (("ln", 1.0), ("rms", 0.2)):
        for seed in range(1, 6):
            rows = ("epoch,valid_loss", "1,4.0", f"2,{loss + seed * loss / 100}")
            (tmp_path / "logs" / f"{arm}_seed{seed}.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.mark.parametrize("rest", [*CLOSED, FULL])
def test_a_command_that_writes_ends_its_work(logs: Path, rest: str) -> None:
    code, error = shell(logs, "import logs --as mine --yes", rest)
    assert imported.names(logs / "results") == ["mine"]
    assert [*(logs / "results").rglob("map.yaml")], "which is written last"
    whole = ("> /dev/full" not in rest, code, error)
    assert whole in [(True, 0, ""), (False, 4, "normbench: standard output: No space left on device.\n")]


def test_a_gate_fails_whoever_reads_it(logs: Path) -> None:
    assert shell(logs, "import logs --as mine --yes", "")[0] == 0
    judge = "judge --runs mine --compare ln rms --better lower --fail-on fails"
    codes = {rest: shell(logs, judge, rest)[0] for rest in ("", *CLOSED, "| head -1", *FULL.values)}
    assert set(codes.values()) == {6}, codes


def test_a_run_is_trained_without_a_reader(tmp_path: Path) -> None:
    for seed, rest in enumerate(("| true", "<&- >&- 2>&-")):
        words = f"train model=mnist_mlp data=digits model.hidden_sizes=[4] train.epochs=1 seed={seed}"
        assert shell(tmp_path, words, rest) == (0, "")
    assert [run.status for run in Runs(tmp_path / "results").raw] == ["done"] * 2


@pytest.mark.parametrize("rest", [*CLOSED, "| head -1"])
def test_a_reader_that_has_enough_is_no_error(tmp_path: Path, rest: str) -> None:
    assert shell(tmp_path, "list artifacts", rest) == (0, "")


@pytest.mark.parametrize("words", ["list artifacts", "list --json norms", "--version", "data --help"])
@pytest.mark.parametrize("rest", [FULL])
def test_an_answer_that_is_lost_is_one_line(tmp_path: Path, words: str, rest: str) -> None:
    assert shell(tmp_path, words, rest) == (4, "normbench: standard output: No space left on device.\n")


@pytest.mark.parametrize("rest", ["2> /dev/full", "2>&-", "2>&1 | true"])
def test_an_error_that_nobody_reads_keeps_its_code(tmp_path: Path, rest: str) -> None:
    assert shell(tmp_path, "judge --runs mine", rest)[0] == 2
