"""What a command opens does not grow with the runs that it was not asked for."""

from __future__ import annotations

import builtins
import io
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest

from normbench.commands import show, status
from normbench.runs import directory, pack
from normbench.runs.table import Runs

FEW, MANY = 3, 40


@pytest.fixture
def specs() -> list[Any]:
    return fake.specs(MANY + 10)


class Opened(Counter[str]):
    """Names of files that are opened, and of folders that are listed, from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "listdir")):
            monkeypatch.setattr(module, name, self._counted(name, getattr(module, name)))

    def _counted(self, what: str, real: Any) -> Any:
        def call(path: Any, *further: Any, **named: Any) -> Any:
            if not isinstance(path, int):  # a handle that was counted when it was opened
                self["listed" if what == "listdir" else Path(path).name] += 1
            return real(path, *further, **named)

        return call


def stored(results: Path, specs: list[Any]) -> Path:
    for spec in specs:
        fake.directory(results / "runs", spec)
    return results


def test_one_run_is_found_without_opening_the_others(specs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    counts = []
    for number in (FEW, MANY):
        results = stored(tmp_path / str(number), specs[:number])
        opened = Opened(monkeypatch)
        found = Runs(results, {specs[0].id, specs[-1].id})
        assert [found.state(spec) for spec in (specs[0], specs[-1])] == ["done", "missing"]
        counts.append(dict(opened))
    assert counts[0] == counts[1] and counts[0]["curve.jsonl"] == 1 and counts[0]["listed"] == 2


def test_show_opens_the_files_of_one_run(
    specs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    results = stored(tmp_path, specs[:MANY])
    opened = Opened(monkeypatch)
    show.command(specs[0].id, results, as_json=True)
    assert opened["run.json"] == 1 and opened["listed"] <= 2, opened


def test_status_opens_no_curve_of_a_finished_run(specs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    results = stored(tmp_path, specs[:MANY])
    opened = Opened(monkeypatch)
    status.command([], results)
    assert opened == {"run.json": MANY, "listed": 2}


def test_the_time_left_is_by_the_pace_of_the_last_evaluation(specs: list[Any], tmp_path: Path) -> None:
    path = stored(tmp_path, specs[:1]) / "runs" / "adhoc"
    run = replace(directory.read(next(path.iterdir())), status="running", step=0, steps=100)
    times = {"train_seconds": 9.0, "evaluate_seconds": 1.0}
    text = "".join(json.dumps({"step": step, **times}) + "\n" for step in (10, 30))
    (run.path / "timing.jsonl").write_text(text + '{"step": 40, "tr')  # on its way
    fields = status.entry(run)
    assert (fields["step"], fields["seconds_left"]) == (30, 35.0)
    (run.path / "timing.jsonl").unlink()
    assert status.entry(run)["seconds_left"] is None


def test_a_new_run_is_placed_by_the_listing_that_the_caller_has(specs: list[Any], tmp_path: Path):
    results = stored(tmp_path, specs[:FEW])
    listed = directory.listed(results / "runs")
    new = directory.place(results / "runs", specs[FEW], listed)
    assert new == directory.place(results / "runs", specs[FEW])
    other = replace(specs[0], experiment="ln2016/fig6")
    assert directory.place(results / "runs", other, listed) == directory.place(results / "runs", specs[0])


def test_directories_come_by_path_and_those_of_an_id_best_first(specs: list[Any], tmp_path: Path):
    root = stored(tmp_path, specs[:FEW]) / "runs"
    copy = root / "zzz" / "deeper" / f"x.s1.{specs[0].id}"
    copy.mkdir(parents=True)
    (root / "adhoc" / f"y.s1.{specs[1].id}.old-1").mkdir()
    (root / "adhoc" / f".x.s1.{specs[1].id}").mkdir()
    (root / ".aside" / f"x.s1.{specs[1].id}").mkdir(parents=True)
    listed = directory.listed(root)
    assert listed == sorted(listed) and len(listed) == FEW + 1
    runs = Runs(root.parent)
    assert sorted(run.status for run in runs.raw if run.id == specs[0].id) == ["done", "interrupted"]
    assert runs.copy(specs[0].id).status == "done"
    assert [run.path.name for run in runs.raw if run.id == specs[1].id] == [f"mnist_mlp-none.s2.{specs[1].id}"]
    assert directory.listed(tmp_path / "nowhere") == []


def test_a_pack_s_runs_are_parsed_where_they_are_asked_for(
    specs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "ln2016" / "fig6" / "paper" / pack.NAME
    pack.write(place, [fake.record(spec) for spec in specs[:FEW]])
    pack._opened.cache_clear()  # another test may have read the same pack
    parsed: list[int] = []
    real = pack.reading.decode
    monkeypatch.setattr(pack.reading, "decode", lambda text: parsed.append(str(text).count('"step"')) or real(text))
    heads = pack.read(place).runs
    assert [head.evaluations for head in heads] == [len(run.records) for run in map(fake.record, specs[:FEW])]
    assert set(parsed) == {0}
    found = Runs(tmp_path)
    assert found.state(specs[1]) == "done" and not any(parsed)
    assert found.of(specs[1]).records and len([count for count in parsed if count]) == 1
    assert [head.records for head in heads] == [fake.record(spec).records for spec in specs[:FEW]]
