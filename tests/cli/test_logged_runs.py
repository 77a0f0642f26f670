"""Commands on runs that another program logged, beside those of this one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import compared
import logged
import pytest

from normbench import load_runs
from normbench.runs import imported, pack

Run = Callable[..., int]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    runs = [
        logged.run(arm, seed, about={"hparams": {"home": "${oc.env:HOME}"}})
        for arm in ("base", "ln")
        for seed in range(1, 6)
    ]
    imported.write(tmp_path / "results", "x", [*runs, logged.run("bn", 1, end="NaN")])
    ours = compared.runs(("none", "layer"), 2)
    pack.write(tmp_path / "results" / "own" / "p" / "a" / "smoke" / pack.NAME, ours)
    return tmp_path / "results"


def test_compare_shows_both_and_mixes_neither(results: Path, normbench: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert normbench("compare") == 0
    output = capfd.readouterr().out
    assert "imported/x, 100 updates, logged" in output and "mnist_mlp on digits, 20 epochs" in output
    assert normbench("compare", "experiment=imported/x", "--at", "best", "--json") == 0
    (content,) = json.loads(capfd.readouterr().out)
    assert {seed["source"] for group in content["groups"] for row in group["rows"] for seed in row["seeds"]} == {
        "imported"
    }
    assert normbench("compare", "fidelity=logged", "norm=bn") == 0


def test_show_prints_one_and_nothing_in_it_is_resolved(
    results: Path, normbench: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    run = logged.run("bn", 1)
    assert normbench("show", run.id, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    assert content["status"] == "diverged" and {record["step"] for record in content["last"]} == {100}
    assert normbench("show", logged.run().id) == 0
    assert "${oc.env:HOME}" in (output := capfd.readouterr().out) and os.environ["HOME"] not in output.replace(
        str(results), ""
    )


@pytest.mark.parametrize("command", ["rerun", "sample", "weights"])
def test_none_is_trained_again_here(
    command: str, results: Path, normbench: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert normbench(command, logged.run().id) == 2
    assert "made by another program" in capfd.readouterr().err


def test_status_check_and_report_know_them(results: Path, normbench: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert normbench("status") == 0
    assert "imported/x/logged: 11 runs in a pack" in capfd.readouterr().out
    (results / "own").rename(results / "elsewhere")  # of its made-up runs the ids are none
    assert normbench("check", "--json") == 0
    assert json.loads(capfd.readouterr().out)["checked"]["imported runs"] == 11


def test_tables_have_them(results: Path, normbench: Run, tmp_path: Path) -> None:
    assert normbench("export", "csv", "experiment=imported/x") == 0
    rows = (results / "export" / "curves.csv").read_text().splitlines()
    assert len(rows) == 1 + 11 * len(logged.run().records)
    runs = load_runs("fidelity=logged", results=results)
    assert {*runs["source"]} == {"imported"} and runs["last train loss"].notna().all()
    assert {*load_runs(results=results)["source"]} == {"imported", "own"}
    curves = load_runs("fidelity=logged", results=results, records=True)
    assert curves["epoch"].isna().all() and {*curves["mode"]} == {"logged"}
