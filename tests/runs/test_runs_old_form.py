"""Run directories of earlier versions go on, serve, and are converted once, under their lock."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest
import tiny

from normbench.errors import NormbenchError
from normbench.runs import find, old_form, run_file, store, writing
from normbench.runs.damaged import Damaged

GOLDEN = Path(__file__).parents[1] / "golden"
WORDS = ("norm=layer", "train.batch_size=200")
INTERRUPTED = ("norm=batch_layer", "norm.also_configurations=[TTTT,FFFF]", "clip=global", "clip.at=1")


def lying(folder: Path, state: str) -> tuple[Path, tiny.ResolvedRun]:
    """A directory as an earlier version left it, and the run that it is of."""
    spec = tiny.spec(
        *(INTERRUPTED if state in ("interrupted", "running") else WORDS), f"seed={1 + (state == 'failed')}"
    )
    source = next((GOLDEN / "old_runs").glob(f"*.{spec.id}"), GOLDEN / "checkpoint")
    path = store.place(folder / "runs", spec)
    shutil.copytree(source, path)
    if state == "running":
        status = json.loads((path / old_form.STATUS).read_text()) | {"status": state}
        (path / old_form.STATUS).write_text(json.dumps(old_form.files.sealed(status)))
    return path, spec


@pytest.mark.parametrize("state", ["done", "failed", "interrupted", "running"])
def test_it_is_read_and_converted_once(state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, spec = lying(tmp_path, state)
    others = {file.name: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    old_form._noted = False
    (found,) = store.scan(tmp_path / "runs")
    assert (found.state, found.id) == ("interrupted" if state == "running" else state, spec.id), found.reason
    assert capsys.readouterr().err.count("now have a run.json") == 1
    assert not any((path / name).exists() for name in old_form.NAMES)
    assert all((path / file).read_bytes() == others[file] for file in ("curve.jsonl", "timing.jsonl") if file in others)
    store.scan(tmp_path / "runs")
    assert capsys.readouterr().err == "" and store.scan(tmp_path / "runs") == [found]
    assert found.content["config"]["model"]["name"] == "mnist_mlp" and found.content["environment"]["torch"]


def test_a_finished_one_serves(tmp_path: Path) -> None:
    path, spec = lying(tmp_path, "done")
    run = find.find([spec], tmp_path).of(spec)
    assert run is not None and run.status == "done" and len(run.records) > 4
    before = tiny.result(path)
    assert tiny.train(path, *WORDS) == "done" and tiny.result(path) == before


@pytest.mark.parametrize("state", ["failed", "interrupted"])
def test_an_unfinished_one_goes_on(state: str, tmp_path: Path) -> None:
    path, spec = lying(tmp_path, state)
    words = INTERRUPTED if state == "interrupted" else (*WORDS, "seed=2")
    assert tiny.train(path, *words) == "done"
    assert run_file.read(path)["status"] == "done" and find.find([spec], tmp_path).state(spec) == "done"


def test_one_that_a_process_writes_is_left_as_it_is(tmp_path: Path) -> None:
    path, spec = lying(tmp_path, "running")
    (path / "lock").touch()
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with open(path / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert find.find([spec], tmp_path).state(spec) == "running"
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_killed_while_it_was_converted(tmp_path: Path) -> None:
    """run.json counts once it is there; what is left of the old files goes with the next holder of the lock."""
    path, spec = lying(tmp_path, "done")
    run_file.write(path, old_form._content(path))
    assert find.find([spec], tmp_path).state(spec) == "done"
    with writing.RunDirectory(path).writing():
        assert not any((path / name).exists() for name in old_form.NAMES)


@pytest.mark.parametrize("name", old_form.NAMES)
def test_its_damage_is_named_and_nothing_converted(name: str, tmp_path: Path) -> None:
    path, _ = lying(tmp_path, "done")
    text = (path / name).read_text()
    (path / name).write_text(text.replace("e", "a", 1))
    with pytest.raises(Damaged, match=name):
        run_file.read(path)
    assert (path / name).exists() and not (path / run_file.NAME).exists()


def test_in_another_folder_it_serves_and_is_left_as_it_is(tmp_path: Path) -> None:
    path, spec = lying(tmp_path / "theirs", "done")
    assert find.find([spec], tmp_path / "ours", [tmp_path / "theirs"]).state(spec) == "done"
    assert all((path / name).exists() for name in old_form.NAMES) and not (path / run_file.NAME).exists()


def test_one_that_another_process_converts_meanwhile_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not there when run.json was looked for, and the old files are gone when these are."""
    path, spec = lying(tmp_path, "done")
    real = old_form.is_there

    def converted(folder: Path) -> bool:
        monkeypatch.setattr(old_form, "is_there", real)
        old_form.convert_held(folder)
        return False

    monkeypatch.setattr(old_form, "is_there", converted)
    assert run_file.read(path)["id"] == spec.id


def test_a_damaged_one_is_not_trained_over(tmp_path: Path) -> None:
    path, _ = lying(tmp_path, "interrupted")
    (path / old_form.STATUS).write_text("{")
    with pytest.raises(NormbenchError, match=old_form.STATUS) as caught:
        tiny.train(path, *INTERRUPTED)
    assert caught.value.code == 4
