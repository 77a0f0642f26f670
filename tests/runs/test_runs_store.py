"""Reading run directories: whatever has become of one, it is listed with its reason and hides no other."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest
from spoil import LISTED, READ, forbid

from normbench.errors import NormbenchError
from normbench.runs import directory, files, pack
from normbench.runs.directory import Damaged
from normbench.runs.table import Runs, named
from normbench.train.weights import locate_run


@pytest.fixture(scope="module")
def trio() -> list:
    return fake.specs(3)


@pytest.mark.parametrize("damage", LISTED)
def test_a_damaged_directory_is_listed_and_hides_no_other(damage: str, trio: list, tmp_path: Path) -> None:
    spoil, reason = LISTED[damage]
    paths = [fake.directory(tmp_path / "runs", spec) for spec in trio]
    spoil(paths[1])
    found = Runs(tmp_path).raw
    assert [s.status for s in found] == ["done", "damaged", "done"]
    assert reason in found[1].reason and "\n" not in found[1].reason
    assert (found[1].experiment, found[1].arm, found[1].seed, found[1].id) == ("adhoc", "mnist_mlp-none", 2, trio[1].id)
    looked = Runs(tmp_path)
    assert [looked.state(spec) for spec in trio] == ["done", "damaged", "done"]
    assert [d.path for d in looked.damaged] == [paths[1]]


@pytest.mark.parametrize("damage", READ)
def test_a_damaged_finished_run_never_counts_and_hides_no_other(damage: str, trio: list, tmp_path: Path) -> None:
    spoil, reason = READ[damage]
    paths = [fake.directory(tmp_path / "runs", spec) for spec in trio]
    spoil(paths[1])
    looked = Runs(tmp_path)
    assert [looked.state(spec) for spec in trio] == ["done", "damaged", "done"]
    assert {run.id for run in looked.find(trio)} == {trio[0].id, trio[2].id}
    assert [d.path for d in looked.damaged] == [paths[1]] and reason in looked.damaged[0].reason


def test_fields_that_are_not_known_do_no_harm(trio: list, tmp_path: Path) -> None:
    path = fake.directory(tmp_path / "runs", trio[0], colour="green", more={"deep": [1]})
    (path / "colour.bin").write_bytes(b"\0")
    assert Runs(tmp_path).find(trio[:1])[0].records == fake.lines(2)


def test_an_empty_directory_is_a_run_that_never_began(trio: list, tmp_path: Path) -> None:
    path = directory.place(tmp_path / "runs", trio[0])
    path.mkdir(parents=True)
    (found,) = Runs(tmp_path).raw
    assert (found.status, found.reason) == ("interrupted", "killed before it began")


def test_what_may_not_be_read_is_damaged(trio: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: the test may run as a user who may read anything."""
    paths = [fake.directory(tmp_path / "runs", spec) for spec in trio]
    real = Path.read_bytes

    def forbidden(path: Path) -> bytes:
        if path.parent == paths[1]:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    found = Runs(tmp_path).raw
    assert [s.status for s in found] == ["done", "damaged", "done"] and "Permission denied" in found[1].reason


def test_a_folder_that_may_not_be_listed_is_damaged(
    trio: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.directory(tmp_path / "runs", trio[0])
    forbid(tmp_path / "runs" / "secret", monkeypatch)
    assert [(s.status, s.reason) for s in Runs(tmp_path).raw] == [
        ("done", ""),
        ("damaged", "cannot be read: Permission denied"),
    ]
    assert Runs(tmp_path).state(trio[0]) == "done"


def test_other_things_among_the_runs_are_passed_over(trio: list, tmp_path: Path) -> None:
    fake.directory(tmp_path / "runs", trio[0])
    (tmp_path / "runs" / "README").write_text("x")
    (tmp_path / "runs" / "adhoc" / "notes.s1").mkdir()
    (tmp_path / "runs" / "round").symlink_to(tmp_path / "runs")
    assert len(Runs(tmp_path).raw) == 1
    assert directory.listed(tmp_path / "nowhere") == []


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_damaged_copy_does_not_hide_the_whole_one(damaged: int, trio: list, tmp_path: Path) -> None:
    specs = [replace(trio[0], experiment=name) for name in ("aaa", "zzz")]
    paths = []
    for spec in specs:
        paths.append(tmp_path / "runs" / spec.experiment / f"{spec.arm}.s1.{spec.id}")
        made = fake.directory(tmp_path / "other" / spec.experiment, spec)
        paths[-1].parent.mkdir(parents=True)
        made.rename(paths[-1])
    (paths[damaged] / "run.json").write_text("{")
    looked = Runs(tmp_path)
    assert looked.state(trio[0]) == "done" and [d.path for d in looked.damaged] == [paths[damaged]]


def test_a_copy_whose_curve_is_damaged_does_not_hide_the_whole_one(trio: list, tmp_path: Path) -> None:
    paths = []
    for name in ("aaa", "zzz"):
        made = fake.directory(tmp_path / "other" / name, trio[0])
        paths.append(tmp_path / "runs" / name / made.name)
        paths[-1].parent.mkdir(parents=True)
        made.rename(paths[-1])
    (paths[1] / "curve.jsonl").write_text("{}\n")
    looked = Runs(tmp_path)
    assert looked.of(trio[0]).path == paths[0] and looked.state(trio[0]) == "done"
    assert [run.path for run in looked.damaged] == [paths[1]]


@pytest.mark.parametrize("left", [0, 1])
def test_a_copy_that_was_left_does_not_hide_the_finished_one(left: int, trio: list, tmp_path: Path) -> None:
    paths = []
    for place, name in enumerate(("aaa", "zzz")):
        made = fake.directory(tmp_path / "other" / name, trio[0], "interrupted" if place == left else "done")
        paths.append(tmp_path / "runs" / name / made.name)
        paths[-1].parent.mkdir(parents=True)
        made.rename(paths[-1])
    looked = Runs(tmp_path)
    assert looked.state(trio[0]) == "done" and looked.copy(trio[0].id).path == paths[1 - left]
    assert named(trio[0].id, tmp_path).path == paths[1 - left]
    assert locate_run(trio[0].id, tmp_path)[1] == paths[1 - left]


def test_of_a_published_run_and_a_longer_one_the_longer_is_meant(trio: list, tmp_path: Path) -> None:
    pack.write(tmp_path / "p" / "a" / "paper" / pack.NAME, [fake.record(trio[0])])
    assert named(trio[0].id, tmp_path).path.name == pack.NAME
    longer = replace(trio[0], config={**trio[0].config, "train": {**trio[0].config["train"], "epochs": 5}})
    fake.directory(tmp_path / "runs", longer, "interrupted")
    assert named(trio[0].id, tmp_path).epochs == trio[0].epochs
    fake.directory(tmp_path / "other", longer).replace(tmp_path / "runs" / "whole")
    (tmp_path / "runs" / "whole").rename(tmp_path / "runs" / f"{longer.arm}.s1.{longer.id}")
    assert named(trio[0].id, tmp_path).epochs == 5


def test_states(trio: list, tmp_path: Path) -> None:
    """Running while somebody holds the lock; interrupted when nobody does, whatever the status says."""
    path = fake.directory(tmp_path / "runs", trio[0], status="running")
    fake.directory(tmp_path / "runs", trio[1], status="failed")
    fake.directory(tmp_path / "runs", trio[2], status="diverged", epochs=1)
    looked = Runs(tmp_path)
    assert [looked.state(s) for s in trio] == ["interrupted", "failed", "diverged"]
    with directory.RunDirectory(path).writing():
        assert Runs(tmp_path).state(trio[0]) == "running"
    assert Runs(tmp_path).state(fake.specs(5)[4]) == "missing"


def test_a_run_that_is_too_short_is_missing(trio: list, tmp_path: Path) -> None:
    (longer,) = fake.specs(1, "train.epochs=3")
    fake.directory(tmp_path / "runs", trio[0])
    assert Runs(tmp_path).state(longer) == "missing"
    assert Runs(tmp_path).state(trio[0]) == "done"


# --- curves ----------------------------------------------------------------------------------------------------------


def test_a_torn_last_line_is_not_there_yet(tmp_path: Path) -> None:
    run = directory.read(fake.directory(tmp_path, fake.specs(1)[0], status="failed", curve_sha256=""))
    path = run.path / "curve.jsonl"
    whole = b"".join(files.line(r) for r in fake.lines(2))
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        assert directory.curve(run) == fake.lines(2)[: whole[:end].count(b"\n")]


@pytest.mark.parametrize(
    "line",
    [b"", b"{broken", b"\xff", b"[" * 10**5, b"[" * 900 + b"]" * 900, b"[]", b"{}", b'{"step": 1e999}', b"9" * 10**5],
    ids=["empty", "torn", "binary", "deep", "deep and closed", "list", "no place", "infinity", "huge number"],
)
def test_a_bad_line_of_an_unfinished_curve_is_damage(line: bytes, tmp_path: Path) -> None:
    """It has no hash yet."""
    run = directory.read(fake.directory(tmp_path, fake.specs(1)[0], status="failed", curve_sha256=""))
    path = run.path / "curve.jsonl"
    first, *others = map(files.line, fake.lines(2))
    path.write_bytes(first + line + b"\n" + b"".join(others))
    with pytest.raises(Damaged, match="line 2 of "):
        directory.curve(run)


def test_a_curves_line_is_one_text_per_value() -> None:
    record = {"step": 3, "nll": 0.1, "epoch": 1, "bad": float("nan"), "up": float("inf"), "down": float("-inf")}
    assert files.line(record) == (
        b'{"bad": "NaN", "down": "-Infinity", "epoch": 1, "nll": 0.1, "step": 3, "up": "Infinity"}\n'
    )
    assert json.loads(files.line({"x": 0.1 + 0.2}))["x"] == 0.1 + 0.2


# --- packs -----------------------------------------------------------------------------------------------------------


def packed(folder: Path, *runs: Any, artifact: str = "fig") -> Path:
    path = folder / "paper" / artifact / "smoke" / pack.NAME
    pack.write(path, runs)
    return path


def test_a_pack_gives_back_what_was_put_in(trio: list, tmp_path: Path) -> None:
    runs = [
        fake.record(trio[0]),
        fake.record(trio[1], status="diverged", reason="train NLL is nan <\n&>"),
        fake.record(trio[2]),
    ]
    assert pack.read(packed(tmp_path, *runs)).runs == runs
    assert pack.read(tmp_path / "none.gz") == ("", ())


def test_a_pack_is_the_same_bytes_for_the_same_runs(
    trio: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [fake.record(spec) for spec in trio]
    first = packed(tmp_path, *runs).read_bytes()
    monkeypatch.setattr(pack.gzip.time, "time", lambda: 10**9)
    assert packed(tmp_path, *reversed(runs), artifact="other").read_bytes() == first
    assert packed(tmp_path, *pack.read(packed(tmp_path, *runs)).runs).read_bytes() == first


def test_merging_never_loses_a_run(trio: list) -> None:
    short, long = fake.record(trio[0], epochs=1), fake.record(trio[0], epochs=4)
    others = [fake.record(spec) for spec in trio[1:]]
    for published, fresh in (
        ([long, *others], [short]),
        ([short, *others], [long]),
        ([long], others),
        ([], [long, *others]),
    ):
        merged = {run.id: run.epochs for run in pack.merge(published, fresh)}
        assert merged[trio[0].id] == 4 and len(merged) == 3
    same = fake.record(trio[0], epochs=4, seconds=9.0)
    assert pack.merge([long], [same]) == [same], "fresh labels take the place of old ones"


def test_a_pack_cut_anywhere_or_with_a_bit_flipped_is_refused(trio: list, tmp_path: Path) -> None:
    whole = packed(tmp_path, *(fake.record(spec) for spec in trio))
    content, wanted = whole.read_bytes(), pack.read(whole).runs
    path = tmp_path / pack.NAME
    for place in range(0, len(content), 17):
        path.write_bytes(content[:place])
        with pytest.raises(NormbenchError):
            pack.read(path)
        changed = bytearray(content)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        with contextlib.suppress(NormbenchError):  # some bytes of the header say nothing about the content
            assert pack.read(path).runs == wanted, f"byte {place}"


# --- packs and directories together ----------------------------------------------------------------------------------


def test_published_runs_are_found_without_directories(trio: list, tmp_path: Path) -> None:
    packed(tmp_path, fake.record(trio[0], experiment="another", arm="x", fidelity="paper"))
    (found,) = Runs(tmp_path).find(trio)
    assert (found.id, found.experiment, found.arm) == (trio[0].id, "adhoc", trio[0].arm), "under the labels asked for"


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_longest_published_run_is_cut_to_what_is_asked(order: tuple[str, str], trio: list, tmp_path: Path) -> None:
    packed(tmp_path, fake.record(trio[0], epochs=1), artifact=order[0])
    packed(tmp_path, fake.record(trio[0], epochs=5), artifact=order[1])
    found = Runs(tmp_path).find(trio[:1])[0]
    assert found.epochs == 2 and found.records == fake.lines(2)


def test_too_short_in_the_pack_long_enough_on_disk(trio: list, tmp_path: Path) -> None:
    packed(tmp_path, fake.record(trio[0], epochs=1))
    assert Runs(tmp_path).state(trio[0]) == "missing"
    fake.directory(tmp_path / "runs", trio[0])
    assert Runs(tmp_path).find(trio[:1])[0].epochs == 2


def test_a_damaged_pack_of_another_artifact_hides_no_run(trio: list, tmp_path: Path) -> None:
    packed(tmp_path, fake.record(trio[0]))
    fake.directory(tmp_path / "runs", trio[1])
    (tmp_path / "paper" / "other" / "smoke").mkdir(parents=True)
    (tmp_path / "paper" / "other" / "smoke" / pack.NAME).write_bytes(b"garbage")
    looked = Runs(tmp_path)
    assert [looked.state(spec) for spec in trio] == ["done", "done", "missing"]
    assert len(looked.notes) == 1 and "is damaged" in looked.notes[0]


def test_a_published_run_outlives_its_damaged_directory(trio: list, tmp_path: Path) -> None:
    path = fake.directory(tmp_path / "runs", trio[0])
    packed(tmp_path, fake.record(trio[0]))
    (path / "run.json").write_text("{")
    looked = Runs(tmp_path)
    assert looked.state(trio[0]) == "done" and [d.path for d in looked.damaged] == [path]


def test_one_directory_per_run_whatever_the_experiment(trio: list, tmp_path: Path) -> None:
    path = fake.directory(tmp_path / "runs", trio[0])
    assert directory.place(tmp_path / "runs", replace(trio[0], experiment="ln2016/fig6", arm="none")) == path
    assert directory.place(tmp_path / "runs", trio[1]).name == f"mnist_mlp-none.s2.{trio[1].id}"


@pytest.mark.parametrize("name", ["with space", "mit-ümlaut-日本", "[a-b]*?", "x" * 200])
def test_odd_places(name: str, trio: list, tmp_path: Path) -> None:
    results = tmp_path / name
    fake.directory(results / "runs", trio[0])
    packed(results, fake.record(trio[1]))
    looked = Runs(results)
    assert [looked.state(spec) for spec in trio] == ["done", "done", "missing"]


def test_runs_are_taken_from_other_folders_which_stay_as_they_are(trio: list, tmp_path: Path) -> None:
    """From directories and packs; not one whose configuration gives another id here."""
    theirs = tmp_path / "theirs"
    fake.directory(theirs / "runs", trio[0])
    packed(theirs, fake.record(trio[1]))
    other = fake.directory(theirs / "runs", trio[2])
    content = directory.read_json(other)
    directory.write_json(other, content | {"config": {**content["config"], "seed": 9}})
    before = {path: path.stat().st_mtime_ns for path in theirs.rglob("*")}
    found = Runs(tmp_path / "ours", others=[theirs])
    assert [found.state(spec) for spec in trio] == ["done", "done", "missing"]
    assert [note for note in found.notes if trio[2].id in note and str(theirs) in note]
    assert {path: path.stat().st_mtime_ns for path in theirs.rglob("*")} == before and not (tmp_path / "ours").exists()


def test_a_damaged_copy_in_another_folder_is_told_once(trio: list, tmp_path: Path) -> None:
    (fake.directory((theirs := tmp_path / "theirs") / "runs", trio[0]) / "run.json").write_text("{")
    packed(theirs, fake.record(trio[0]))
    looked = Runs(tmp_path / "ours", others=[theirs])
    assert looked.state(trio[0]) == "done" and len(looked.notes) == 1


def test_heads_keep_no_curves_and_a_pack_that_changed_is_read_again(trio: list, tmp_path: Path) -> None:
    packed(tmp_path, fake.record(trio[0], epochs=1))
    looked = Runs(tmp_path)
    assert looked.load([trio[0].id])[trio[0].id].records == fake.lines(1)
    assert looked.ends()[trio[0].id]["test.nll"] == 0.25
    packed(tmp_path, fake.record(trio[0], epochs=3))
    assert looked.refresh() and looked.load([trio[0].id])[trio[0].id].records == fake.lines(3)
    assert looked.ends()[trio[0].id]["test.nll"] == 0.125
    assert looked.of(trio[0]).records == fake.lines(2)
    assert [len(head.records) for head in looked.heads] == [0]


def test_a_run_that_was_cut_says_its_own_length(trio: list, tmp_path: Path) -> None:
    (longer,) = fake.specs(1, "train.epochs=4")
    fake.directory(tmp_path / "runs", longer)
    run = Runs(tmp_path).find(trio[:1])[0]
    assert (run.epochs, run.config["train"]["epochs"], run.cut_from) == (2, 2, longer.steps)
