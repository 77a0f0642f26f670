"""A stranger's pack, whose hashes anybody can make: what is wrong in a run is refused where it is read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import logged
import pytest

from normbench import imports, load_runs
from normbench.cli import main
from normbench.errors import NormbenchError
from normbench.judge import sources
from normbench.runs import imported, pack
from normbench.runs.table import Runs, named
from normbench.web import index

DEEP: Any = 1
for _ in range(400):
    DEEP = {"a": DEEP}
HOSTILE: dict[str, Callable[[dict[str, Any], list[Any]], Any]] = {
    "a deep configuration": lambda run, curves: run["config"].update(x=DEEP),
    "a model that is a text": lambda run, curves: run["config"].update(model="x"),
    "an import that is a list": lambda run, curves: run["config"].update({"import": []}),
    "metrics that are a text": lambda run, curves: run["config"]["import"].update(metrics="x"),
    "a metric that is a text": lambda run, curves: run["config"]["import"].update(metrics={"loss": "x"}),
    "an axis that is a map": lambda run, curves: run.update(axes={"lr": {"x": 1}}),
    "steps that are texts": lambda run, curves: curves[0]["columns"].update(step=["1"] * 10),
    "a value that is a map": lambda run, curves: curves[0]["columns"].update(loss=[{}] * 10),
    "a split that is a number": lambda run, curves: curves[0].update(split=1),
    "a variant that is a list": lambda run, curves: curves[0].update(variant=[1]),
    "a key that no block has": lambda run, curves: curves[0].update(loss="x"),
    "a column of splits": lambda run, curves: curves[0]["columns"].update(split=[1] * 10),
    "a step below 0": lambda run, curves: curves[0]["columns"].update(step=[-1] * 10),
    "epochs that are none": lambda run, curves: curves[0]["columns"].update(epoch=["NaN"] * 10),
    "a value whose square is infinite": lambda run, curves: curves[0]["columns"].update(loss=[1e300] * 10),
}


def hostile(how: str) -> bytes:
    """The pack of one run that is changed in this way, with a hash that fits."""
    return changed(HOSTILE[how])


def changed(change: Callable[[dict[str, Any], list[Any]], Any]) -> bytes:
    _, *lines = gzip.decompress(pack.dump([logged.run()])).splitlines()
    run, curves = map(json.loads, lines)
    change(run, curves)
    return fake.packed([json.dumps(run), json.dumps(curves)])


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_pack_is_one_line_wherever_it_comes_in(how: str, tmp_path: Path) -> None:
    path = tmp_path / "theirs" / pack.NAME
    path.parent.mkdir()
    path.write_bytes(hostile(how))
    for read in (lambda: imports.read([path], "y"), lambda: sources.load([str(path)], tmp_path)):
        with pytest.raises(NormbenchError) as caught:
            read()
        assert str(path) in str(caught.value) and len(str(caught.value)) < 600


def test_what_a_pack_cannot_say_is_not_read(tmp_path: Path) -> None:
    """Another experiment's name, a folder to delete: who reads runs relies on their types."""
    path = tmp_path / pack.NAME
    path.write_bytes(changed(lambda run, curves: run.update(elsewhere=5, files=5, cut_from="x", path="/", unknown=1)))
    (run,) = pack.read(path).runs
    assert (run.elsewhere, run.files, run.cut_from, run.path) == ((), {}, 0, path) and not run.is_called("x")


def test_a_run_whose_curve_is_damaged_in_a_pack_is_left_out_with_a_line(tmp_path: Path) -> None:
    """A whole copy takes its place."""
    (path := imported.place(tmp_path, "x")).parent.mkdir(parents=True)
    path.write_bytes(hostile("a value that is a map"))
    runs, notes = Runs(tmp_path).finished()
    assert not runs and len(notes) == 1 and f"{path} is damaged: " in notes[0] and "column loss" in notes[0]
    with pytest.raises(NormbenchError, match="column loss") as caught:
        named(logged.run().id, tmp_path)
    assert "Delete it to train" not in str(caught.value)
    (spec,) = fake.specs(1)
    theirs = changed(lambda run, curves: (run.update(id=spec.id, steps=spec.steps), curves[0].update(split=1)))
    path.write_bytes(theirs)
    copy = fake.directory(tmp_path / "runs", spec)
    runs, notes = Runs(tmp_path).finished()
    assert [run.path for run in runs] == [copy] and any("is damaged" in note for note in notes)


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_pack_among_the_results_leaves_other_runs_usable(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [replace(logged.run(seed=seed), experiment="imported/fine", id=f"{seed:012x}") for seed in (1, 2)]
    imported.write(tmp_path, "fine", runs)
    (path := imported.place(tmp_path, "x")).parent.mkdir(parents=True)
    path.write_bytes(hostile(how))
    assert len(load_runs("imported/fine", results=tmp_path)) == 2
    dashboard = index.Index(tmp_path)
    dashboard.refresh()
    assert len(dashboard.heads) >= 2
    for words in (["compare", "imported/fine"], ["export", "csv", "imported/fine", "--output", f"{tmp_path}/runs.csv"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--results", str(tmp_path)])
        assert ended.value.code == 0 and "Traceback" not in capsys.readouterr().err
