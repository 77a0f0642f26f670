"""`normbench check`: every damage is named at its place, no other run is, and nothing is changed but by --repair."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import madeup
import pytest
import tiny

from normbench import runs
from normbench.battery.adopt import adopt
from normbench.check import Check
from normbench.check.ids import Ids
from normbench.cli import main
from normbench.config import compose, grammar, plan
from normbench.config.compose import stored_form
from normbench.files.stored import OWN
from normbench.runs import checkpoint_file, directory, pack

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published artifact; a trained run with all it can leave, an interrupted one, and two made up."""
    results = tmp_path_factory.mktemp("whole")
    madeup.published(results)
    root = results / "runs"
    for words in (("seed=1",), ("seed=2", "train.checkpoint_seconds=0")):
        run = directory.RunDirectory(directory.place(root, tiny.spec(*words, "train.keep=[best,last]")))
        stopping = tiny.after(8) if len(words) > 1 else lambda: False
        tiny.train(run.path, *words, "train.keep=[best,last]", stopping=stopping)
    for spec in fake.specs(2, "train.batch_size=400"):
        fake.directory(root, spec)
    return results


@pytest.fixture
def results(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "results"))


def found(results: Path, *kinds: str) -> list[tuple[str, str]]:
    """Kinds and places, but for what is known of made-up runs: their configurations are none."""
    told = [(f.kind, f.place.relative_to(results).as_posix()) for f in Check(results).findings()]
    return [entry for entry in told if entry != ("unknown", f"{PLACE}/{pack.NAME}")]


PLACE = "ln2016/fig6/paper"


def run_of(results: Path, seed: int) -> Path:
    return directory.place(results / "runs", tiny.spec(f"seed={seed}"))


def flip(path: Path, at: int = -9, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def repacked(path: Path) -> None:
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(text.replace("2.3", "2.4", 1).encode()))


def judged_otherwise(place: Path) -> None:
    content = json.loads((place / "verdicts.json").read_text())
    content["claims"][1]["n"] += 1
    (place / "verdicts.json").write_text(madeup.sealed(content))


def swapped(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def replaced(path: Path) -> None:
    contents = [other.read_bytes() for other in sorted(path.parent.iterdir(), reverse=True) if other.is_file()]
    path.write_bytes(next((content for content in contents if content not in (b"", path.read_bytes())), b"other"))


EVERY: dict[str, Damage] = {  # what can become of any file
    # of a bit that makes no digit another one: the last of a float may be without meaning
    "a bit": lambda path: flip(path, path.stat().st_size // 2, 0x10),
    "cut": lambda path: os.truncate(path, path.stat().st_size * 2 // 3),
    "gone": Path.unlink,
    "another file's content": replaced,
}
PROMISED_NOTHING = ("lock", "output.log", "figure.svg")
SINGLE: dict[str, tuple[Damage, list[tuple[str, str]]]] = {  # in a place and in a run
    "a digit of the pack, packed again": (lambda p: repacked(p / pack.NAME), [("damage", pack.NAME)]),
    "verdicts with a fitting seal": (judged_otherwise, [("verdict", "verdicts.json")]),
    "a word of a table": (lambda p: change(p / "table.md", "Means", "Meens"), [("verdict", "table.md")]),
    "a figure that is gone": (lambda p: (p / "figure.svg").unlink(), [("missing", "figure.svg")]),
    "a pipe": (lambda p: ((p / "table.md").unlink(), os.mkfifo(p / "table.md")), [("verdict", "table.md")]),
    "other contrasts": (lambda p: (p / "contrasts.npz").write_bytes(b"PK nonsense"), [("damage", "contrasts.npz")]),
    "a status of another schema": (lambda p: change(p / "run.json", '"schema": 5', '"schema": 4'), [("damage", "")]),
    "another rate": (lambda p: change(p / "run.json", '"lr": 0.001', '"lr": 0.002'), [("id", "run.json")]),
    "strange weights": (lambda p: (p / "weights/a.npz").write_bytes(b"1"), [("damage", "weights/a.npz")]),
    "swapped files": (
        lambda p: swapped(p / "outcomes/last.npz", p / "timing.jsonl"),
        [("damage", "outcomes/last.npz"), ("damage", "timing.jsonl")],
    ),
    "a torn write": (lambda p: (p / ".run.json.99.tmp").write_text("{"), [("leftover", ".run.json.99.tmp")]),
    "a checkpoint that was not cleared": (lambda p: (p / "checkpoint").mkdir(), [("leftover", "checkpoint")]),
}
OF_A_PLACE = [*SINGLE][:6]


def test_nothing_is_wrong_and_nothing_is_written(results: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    check = Check(results)
    assert [finding for finding in check.findings() if not finding.harmless] == [] and found(results) == []
    assert check.counted["raw runs"] == 4 and check.counted["published runs"] == len(madeup.runs())
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before


@pytest.mark.slow
@pytest.mark.parametrize("all_files", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damage", EVERY)
def test_damage_of_any_file_is_named_at_its_place_alone(damage: str, all_files: bool, results: Path) -> None:
    """A run's run.json, which has no hash, makes the run unreadable; a checkpoint names its curve, and may be missing.

    By default one file of each name.
    """
    ids = Ids(results=results)
    files = sorted(p for p in results.rglob("*") if p.is_file() and p.name not in PROMISED_NOTHING)
    for path in files if all_files else {p.name: p for p in files}.values():
        if (path.name, damage) in (("run.json", "a bit"), ("state", "gone")):
            continue
        content = path.read_bytes()
        EVERY[damage](path)
        named = {finding.place for finding in Check(results, ids).findings() if not finding.harmless}
        belong = {path, path.parent, path.parent / checkpoint_file.NAME}
        assert named and named <= belong, path
        path.write_bytes(content)


@pytest.mark.parametrize("what", SINGLE)
def test_damage_is_named_at_its_place(results: Path, what: str) -> None:
    damage, expected = SINGLE[what]
    place = results / PLACE if what in OF_A_PLACE else run_of(results, 1)
    damage(place)
    assert found(results) == [(kind, (place / name).relative_to(results).as_posix()) for kind, name in expected]


def test_an_interrupted_run_is_checked_as_far_as_it_has_hashes(results: Path) -> None:
    run = run_of(results, 2)
    flip(run / checkpoint_file.NAME)
    flip(run / "weights" / "best.safetensors", 1)
    kinds = sorted(found(results))
    assert kinds == [("damage", (run / name).relative_to(results).as_posix())
                     for name in (checkpoint_file.NAME, "weights/best.safetensors")]  # fmt: skip
    with directory.RunDirectory(run).writing():
        assert found(results) == [], "whoever writes it knows better"


def test_swapped_runs_are_both_named(results: Path) -> None:
    one, other = (directory.place(results / "runs", spec) for spec in fake.specs(2, "train.batch_size=400"))
    for name in ("run.json", "curve.jsonl"):
        swapped(one / name, other / name)
    assert sorted(p for kind, p in found(results)) == sorted(
        run.relative_to(results).as_posix() for run in (one, other)
    )


def test_a_run_of_a_pack_whose_configuration_is_another_ones_is_named(tmp_path: Path) -> None:
    spec = tiny.spec()
    run = fake.record(spec)
    other = replace(run, config=stored_form(tiny.spec("optim.lr=0.01").config))
    place = tmp_path / "made2000" / "up" / "paper"
    pack.write(place / pack.NAME, [run])
    assert ("id", f"made2000/up/paper/{pack.NAME}") not in found(tmp_path)
    pack.write(place / pack.NAME, [other])
    assert ("id", f"made2000/up/paper/{pack.NAME}") in found(tmp_path)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: Any) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["check", *map(str, words)])
        return int(ended.value.code or 0), capfd.readouterr().out

    return run


def test_the_command_says_a_line_for_each_and_has_an_exit_code(results: Path, command: Any) -> None:
    code, out = command("--results", results)
    assert code == 0 and out.splitlines()[-1].startswith("whole, 1 note: ") and "4 raw runs" in out
    run = run_of(results, 1)
    flip(run / "curve.jsonl")
    (run / ".run.json.99.tmp").write_text("{")
    code, out = command("--results", results)
    line = next(line for line in out.splitlines() if line.startswith("damage"))
    assert code == 4 and str(run / "curve.jsonl") in line and line.endswith("to train this run again")
    code, out = command("--results", results, "--json")
    content = json.loads(out)
    assert code == 4 and not content["whole"] and content["checked"]["raw runs"] == 4
    assert {f["kind"]: f["place"] for f in content["findings"] if not f["harmless"]} == {
        "damage": str(run / "curve.jsonl")
    }


def test_repair_removes_leftovers_alone(results: Path, command: Any) -> None:
    run = run_of(results, 1)
    flip(run / "curve.jsonl")
    damaged = (run / "curve.jsonl").read_bytes()
    left = [run / ".curve.jsonl.7.tmp", results / PLACE / ".verdicts.json.8.tmp", results / ".report.normbench-aside"]
    for path in left[:2]:
        path.write_text("half")
    (left[2] / "assets").mkdir(parents=True)
    mine = [run / ".mine", results / PLACE / ".keep.tmp", results / ".notes.tmp"]
    for path in mine:
        path.write_text("of the user")
    code, out = command("--results", results, "--repair")
    assert code == 4 and out.count("; removed") == 3
    assert not any(path.exists() for path in left) and all(path.exists() for path in mine)
    assert (run / "curve.jsonl").read_bytes() == damaged
    assert "\nleftover" not in command("--results", results, "--repair")[1]
    with directory.RunDirectory(run).writing():
        left[0].write_text("on its way")
        assert "\nleftover" not in command("--results", results, "--repair")[1] and left[0].exists()


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--results", str(tmp_path / "no")])
    assert ended.value.code == 2 and "is not there" in capfd.readouterr().err


def test_own_choices_are_found_with_their_folder(results: Path, tmp_path: Path) -> None:
    run = directory.place(results / "runs", fake.specs(1, "train.batch_size=400")[0])
    refiled(run, norm={"name": "mine"})
    assert found(results) == [("unknown", (run / "run.json").relative_to(results).as_posix())]


def refiled(run: Path, **changes: Any) -> None:
    """The run with this in its configuration in the place of its normalizers' hashes."""
    content = directory.read_json(run)
    config = {key: value for key, value in content["config"].items() if key != OWN}
    directory.write_json(run, {**content, "config": {**config, **changes}})


def test_a_normalizer_that_was_given_as_a_file_is_known_where_it_lies(results: Path, tmp_path: Path) -> None:
    """As long as its file is there, which may have been edited: the run has the hash of the one it was trained with."""
    example = Path(__file__).parents[2] / "examples" / "own_normalizer" / "norm" / "centre.py"
    file = tmp_path / "halves.py"
    file.write_text(example.read_text().replace('"centre"', '"halves"'))
    folder = adopt(str(file), None, runs.own(results)).config_dir
    words = grammar.parse(["model=mnist_mlp", "data=digits", "norm=halves"])
    spec = plan.resolved(compose.compose(words, folder), plan.ADHOC, "halves", plan.ADHOC, config_dir=folder)
    run = fake.directory(results / "runs", spec)
    assert found(results) == []
    unknown = [("unknown", (run / "run.json").relative_to(results).as_posix())]
    source, known = file.read_text(), spec.stored_config()[OWN]
    file.write_text(source + "# another one\n")
    assert found(results) == []
    file.unlink()
    assert found(results) == unknown
    file.write_text(source)
    refiled(run, own_files={"halves": "0" * 64})
    assert found(results) == unknown, "the id is of that hash too"
    refiled(run, own_files=known, seed=2)
    assert found(results) == [("id", unknown[0][1])], "the file is as it was: not that was changed"
    refiled(run, seed=1)
    assert found(results) == [], "a run that knows no hash has this file"
    file.write_text(source + "# another one\n")
    assert found(results) == unknown, "or perhaps another"
    (told,) = [finding for finding in Check(results).findings() if finding.place == run / "run.json"]
    assert str(file) in told.text and "the normalizer was changed since" in told.text and "Delete" not in told.text
    file.write_text(source)
    shutil.rmtree(runs.own(results))
    assert found(results) == unknown
