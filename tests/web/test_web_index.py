"""The index of runs: it shows what the store shows, reads little, and writes nothing there."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest
from spoil import LISTED, READ

from normbench.compare import configuration
from normbench.runs import directory, files, pack
from normbench.runs.run import Run
from normbench.runs.table import Runs
from normbench.web.index import Index


@pytest.fixture(scope="module")
def trio() -> list:
    return fake.specs(3)


@pytest.fixture
def results(trio: list, tmp_path: Path) -> Path:
    for spec in trio:
        fake.directory(tmp_path / "runs", spec)
    return tmp_path


def opened(results: Path) -> Index:
    index = Index(results)
    index.refresh()
    return index


def whole(index: Index) -> list[Run]:
    """All that is shown, with curves."""
    return list(index.load([head.id for head in index.heads]).values())


def states(index: Index) -> dict[int, str]:
    return {head.seed: head.status for head in index.heads}


def append(path: Path, *records: dict[str, Any]) -> None:
    directory.RunDirectory(path).append("curve.jsonl", records)


def going(root: Path, spec: Any, epochs: int = 1) -> Path:
    """The directory of a run on its way."""
    path = fake.directory(root, spec, status="running", epochs=epochs)
    status = json.loads((path / "run.json").read_text())
    del status["curve_sha256"]
    files.write_json(path / "run.json", status)
    return path


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_heads_then_curves_are_what_everything_reads(results: Path, trio: list) -> None:
    index = opened(results)
    wanted, _ = Runs(results).finished()
    assert index.heads == [replace(run, records=()) for run in wanted]
    assert whole(index) == wanted
    assert index.load(["no such id"]) == {}
    assert index.load([trio[0].id])[trio[0].id].path == directory.place(results / "runs", trio[0])


@pytest.mark.parametrize("damage", LISTED)
def test_what_is_damaged_is_listed_with_its_reason(damage: str, trio: list, results: Path) -> None:
    index = opened(results)
    spoil, reason = LISTED[damage]
    spoil(directory.place(results / "runs", trio[1]))
    for shown in (index, Index(results)):
        shown.refresh()
        assert states(shown) == {1: "done", 2: "damaged", 3: "done"}
        (found,) = (head for head in shown.heads if head.status == "damaged")
        assert reason in found.reason and (found.arm, found.id) == ("mnist_mlp-none", trio[1].id)
        assert shown.load([found.id])[found.id].records == ()


@pytest.mark.parametrize("damage", READ)
@pytest.mark.parametrize("known", [True, False])
def test_a_damaged_curve_shows_when_it_is_read(damage: str, known: bool, trio: list, results: Path) -> None:
    index = opened(results)
    if known:
        whole(index)
    spoil, reason = READ[damage]
    spoil(directory.place(results / "runs", trio[1]))
    for shown in (index, Index(results)):
        shown.refresh()
        token = shown.token
        loaded = {run.seed: run for run in whole(shown)}
        assert (loaded[2].status, loaded[2].records) == ("damaged", ()) and reason in loaded[2].reason
        assert states(shown) == {1: "done", 2: "damaged", 3: "done"}
        assert shown.changed_since(token)[1] == [trio[1].id]
        assert not shown.refresh() and states(shown)[2] == "damaged"


def test_a_curve_that_is_repaired_is_whole_again(trio: list, results: Path) -> None:
    path, index = directory.place(results / "runs", trio[1]) / "curve.jsonl", opened(results)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    index.refresh()
    assert [run.status for run in whole(index)] == ["done", "damaged", "done"]
    path.write_bytes(content)
    assert index.refresh() and [run.status for run in whole(index)] == ["done"] * 3


def test_nothing_there(tmp_path: Path) -> None:
    index = opened(tmp_path / "nowhere")
    assert index.heads == [] and not (tmp_path / "nowhere").exists()


# --- one run per id --------------------------------------------------------------------------------------------------


def published(results: Path, *runs: Run, artifact: str = "fig") -> Path:
    path = results / "paper" / artifact / "smoke" / pack.NAME
    pack.write(path, runs)
    return path


def test_a_run_of_two_packs_is_found_by_either_experiment_and_arm(trio: list, tmp_path: Path) -> None:
    shared, alone = fake.record(trio[0]), fake.record(trio[1])
    published(tmp_path, replace(shared, experiment="p/one", arm="theirs"), artifact="one")
    published(tmp_path, replace(shared, experiment="p/two"), replace(alone, experiment="p/two"), artifact="two")
    index = Index(tmp_path)
    index.refresh()
    runs, _ = Runs(tmp_path).finished()
    for known in (runs, index.heads, list(index.load([shared.id, alone.id]).values())):
        for word, ids in (
            ("p/one", {shared.id}),
            ("p/two", {shared.id, alone.id}),
            ("theirs", {shared.id}),
            (shared.arm, {shared.id, alone.id}),
        ):
            assert {run.id for run in configuration.select([word], known)} == ids, word


def test_published_runs_with_own_ones_the_longest_of_each(trio: list, tmp_path: Path) -> None:
    fake.directory(tmp_path / "runs", trio[0])
    fake.directory(tmp_path / "runs", trio[1])
    published(tmp_path, fake.record(trio[0], epochs=5), fake.record(trio[2]))
    published(tmp_path, fake.record(trio[1], epochs=1), fake.record(trio[2], epochs=4), artifact="other")
    wanted, _ = Runs(tmp_path).finished()
    for _ in range(2):  # out of the packs, then from memory
        index = opened(tmp_path)
        assert whole(index) == wanted and [head.epochs for head in index.heads] == [5, 2, 4]
    assert index.load([trio[0].id])[trio[0].id].path == tmp_path / "paper" / "fig" / "smoke" / pack.NAME


def test_a_damaged_pack_hides_no_other_and_is_told(trio: list, results: Path) -> None:
    path = published(results, fake.record(trio[2], epochs=4))
    index = opened(results)
    assert [head.epochs for head in index.heads] == [2, 2, 4]
    path.write_bytes(b"garbage")
    assert index.refresh() and [head.epochs for head in index.heads] == [2, 2, 2]
    assert len(index.notes) == 1 and "is damaged" in index.notes[0]
    path.unlink()
    assert index.refresh() and index.notes == []


def test_a_whole_copy_stands_for_a_damaged_one_that_is_told(trio: list, results: Path) -> None:
    path = directory.place(results / "runs", trio[0])
    shutil.copytree(path, results / "runs" / "aaa" / path.name)
    (path / "run.json").write_text("{")
    index = opened(results)
    assert states(index) == {1: "done", 2: "done", 3: "done"}
    assert [str(path) in note for note in index.notes] == [True]


def test_one_that_shows_its_damage_late_gives_way(trio: list, results: Path) -> None:
    published(results, fake.record(trio[0], epochs=1))
    (directory.place(results / "runs", trio[0]) / "curve.jsonl").write_text("")
    index = opened(results)
    assert [head.epochs for head in index.heads] == [2, 2, 2]
    assert index.load([trio[0].id])[trio[0].id].epochs == 1 and len(index.notes) == 1


# --- what changes ----------------------------------------------------------------------------------------------------


def test_a_growing_curve_is_read_on(trio: list, results: Path) -> None:
    path = going(results / "live" / "runs", trio[0])
    index, records = opened(results / "live"), fake.lines(6)
    assert whole(index)[0].records == fake.lines(1)
    with open(path / "curve.jsonl", "ab") as curve:
        curve.write(files.line(records[3]) + files.line(records[4])[:7])
    token = index.token
    assert index.refresh() and index.changed_since(token) == (index.token, [trio[0].id])
    earlier = whole(index)[0]
    assert earlier.records == records[:4], "a torn last line is not there yet"
    with open(path / "curve.jsonl", "ab") as curve:
        curve.write(files.line(records[4])[7:])
    assert index.refresh() and whole(index)[0].records == records[:5]
    assert len(earlier.records) == 4, "what was handed out stays as it was"
    assert not index.refresh() and index.changed_since(index.token)[1] == []


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_curve_that_was_cut_or_replaced_is_read_anew(cut: int, trio: list, tmp_path: Path) -> None:
    path = going(tmp_path / "runs", trio[0], epochs=3)
    index, other = opened(tmp_path), [{**record, "nll": 9.0} for record in fake.lines(5)]
    whole(index)
    content = b"".join(map(files.line, other[: 2 * cut]))
    if cut == 1:
        files.atomic_write(path / "curve.jsonl", content)
    else:  # in place: shorter, and then longer than before
        (path / "curve.jsonl").write_bytes(content)
    index.refresh()
    assert whole(index)[0].records == other[: 2 * cut]
    (path / "curve.jsonl").write_bytes(b"".join(map(files.line, other)))
    index.refresh()
    assert whole(index)[0].records == other


def test_a_bad_line_in_a_growing_curve_is_damage(trio: list, tmp_path: Path) -> None:
    path = going(tmp_path / "runs", trio[0])
    index = opened(tmp_path)
    whole(index)
    with open(path / "curve.jsonl", "ab") as curve:
        curve.write(b"{broken\n")
    index.refresh()
    assert whole(index)[0].reason.startswith("curve.jsonl line 4 of 4 is not a record")
    append(path, fake.lines(3)[-1])
    index.refresh()
    assert whole(index)[0].status == "damaged", "it goes on, but that line stays"


def test_states_follow_files_and_lock(trio: list, tmp_path: Path) -> None:
    path = going(tmp_path / "runs", trio[0])
    index = opened(tmp_path)
    assert states(index) == {1: "interrupted"}
    run = directory.RunDirectory(path)
    run.content = trio[0].content() | {"environment": {}}
    with run.writing():
        assert index.refresh() and states(index) == {1: "running"}
        assert not index.refresh()
    assert index.refresh() and states(index) == {1: "interrupted"}
    run.append("curve.jsonl", fake.lines(2)[3:])
    run.finish("done", step=trio[0].steps)
    assert index.refresh() and states(index) == {1: "done"}
    assert whole(index) == Runs(tmp_path).finished()[0]


def test_runs_and_folders_come_and_go(trio: list, tmp_path: Path) -> None:
    index = opened(tmp_path)
    path = fake.directory(tmp_path / "runs", trio[0])
    assert index.refresh() and states(index) == {1: "done"}
    fake.directory(tmp_path / "runs" / "more", trio[1])
    fake.directory(tmp_path / "runs", trio[2])
    assert index.refresh() and states(index) == {1: "done", 2: "done", 3: "done"}
    shutil.rmtree(path)
    token = index.token
    assert index.refresh() and states(index) == {2: "done", 3: "done"}
    assert index.changed_since(token)[1] == [trio[0].id]


def test_a_run_that_goes_on_for_longer(trio: list, tmp_path: Path) -> None:
    """It changes between the look at its status and the reading of its curve: that is no damage."""
    (longer,) = fake.specs(1, "train.epochs=4")
    path = fake.directory(tmp_path / "runs", trio[0])
    index = opened(tmp_path)
    shutil.rmtree(path)
    shutil.move(fake.directory(tmp_path / "aside", longer), path)
    (run,) = whole(index)
    assert (run.status, run.epochs, run.records) == ("done", 4, fake.lines(4))


def test_while_another_writes(trio: list, tmp_path: Path) -> None:
    """Every view is of whole lines from the start, while a writer appends, finishes, and begins anew."""
    path = going(tmp_path / "runs", trio[0], epochs=0)
    run, stop, records = directory.RunDirectory(path), threading.Event(), fake.lines(2)
    run.content = trio[0].content() | {"environment": {}}

    def write() -> None:
        with run.writing():
            while not stop.is_set():
                run.write("running", step=0)
                for record in records[1:]:
                    run.append("curve.jsonl", [record])
                run.finish("done", step=trio[0].steps)
                run.write("running", step=0)
                (path / "curve.jsonl").write_bytes(files.line(records[0]))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        index = opened(tmp_path)
        for _ in range(25):
            index.refresh()
            for shown in whole(index):
                assert list(shown.records) == records[: len(shown.records)] or shown.status == "damaged"
    finally:
        stop.set()
        writer.join()
    index.refresh()
    assert states(index) == {1: "interrupted"}


def test_curves_in_memory_have_an_end(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("normbench.runs.table.MOST", 7)
    index = opened(results)
    assert [len(run.records) for run in whole(index)] == [5, 5, 5] and len(index._curves) == 1
