"""`normbench import`: what is shown, asked, written, listed and removed."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from normbench.runs import imported, pack


def write(folder: Path, name: str, *rows: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{row}\n" for row in ("step,valid/loss", *rows)))


def unpack_stores(folder: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "imports" / "stores.tar.gz") as packed:
        packed.extractall(folder)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for seed in (1, 2):
        write(tmp_path / "logs", f"ln_s{seed}.csv", "1,2", "2,1")
        write(tmp_path / "logs", f"bn_s{seed}.csv", "1,2", "2,1.5")
    return tmp_path / "logs"


def test_the_command_asks_writes_lists_and_removes(logs: Path, normbench: Any, capfd: Any, tmp_path: Path) -> None:
    path = imported.place(tmp_path / "results", "mine")
    assert normbench("import", str(logs), "--as", "mine") == 2 and not path.exists()
    assert "--yes" in capfd.readouterr().err
    assert normbench("import", str(logs), "--as", "mine", "--yes", "--json") == 0
    answer = json.loads(capfd.readouterr().out)
    assert (
        answer["imported"] == [{"name": "mine", "runs": 4, "arms": ["bn", "ln"]}] and answer["guessed"]["run"] == "path"
    )
    first, written = path.read_bytes(), path.with_name("map.yaml")
    assert normbench("import", str(logs), "--as", "mine", "--map", str(written)) == 0 and path.read_bytes() == first
    assert normbench("import", "--remove", "mine") == 0 and not path.parent.exists()
    assert normbench("import", "--remove", "mine") == 2


def test_series_that_runs_are_without_are_listed_in_a_fixed_order(logs: Path, normbench: Any, capfd: Any) -> None:
    (logs / "ln_s1.csv").write_text("step,valid/loss,valid/f1,test/loss,test/f1,train/loss\n1,2,3,4,5,6\n2,1,2,3,4,5\n")
    assert normbench("import", str(logs), "--as", "mine", "--yes") == 0
    lines = [line.strip() for line in capfd.readouterr().out.splitlines() if " without " in line]
    places = ["f1 of test", "loss of test", "loss of train", "f1 of valid"]
    assert lines == [f"3 runs without {place}" for place in places]


def test_an_import_says_what_it_replaces(logs: Path, normbench: Any, capfd: Any, tmp_path: Path) -> None:
    path, words = imported.place(tmp_path / "results", "mine"), ("import", str(logs), "--as", "mine", "--yes")
    assert normbench(*words) == 0 and "replaced" not in capfd.readouterr().out
    ids = {run.id for run in pack.read(path).runs}
    write(logs, "ln_s1.csv", "1,2", "2,1", "3,0.5")
    assert normbench(*words) == 0
    out = capfd.readouterr().out
    assert "replaced 4 runs of" in out and "gone" not in out
    assert {run.id for run in pack.read(path).runs} == ids and max(run.steps for run in pack.read(path).runs) == 3
    for name in ("bn_s1.csv", "bn_s2.csv", "ln_s1.csv"):
        (logs / name).unlink()
    write(logs, "ln_s3.csv", "1,2")
    assert normbench(*words) == 0
    assert "3 of them are gone: bn seeds 1, 2, ln seed 1\n" in capfd.readouterr().out
    assert sorted((run.arm, run.seed) for run in pack.read(path).runs) == [("ln", 2), ("ln", 3)]
    path.write_bytes(b"no pack")
    assert normbench(*words) == 0 and "could not be read" in capfd.readouterr().out


def test_an_open_question_shows_the_rest_of_the_map(tmp_path: Path, normbench: Any, capfd: Any) -> None:
    write(tmp_path / "logs", "ln.csv", "1,2")
    write(tmp_path / "logs", "bn.csv", "1,2")
    assert normbench("import", str(tmp_path / "logs"), "--as", "mine", "--yes") == 2
    shown = capfd.readouterr()
    assert "column: valid/loss" in shown.out and "#  seed: none" in shown.out and "name no seed" in shown.err
    draft = shown.out[shown.out.index("source: csv") :].replace("\n#", "\n")
    (tmp_path / "map.yaml").write_text(draft)
    assert normbench("import", str(tmp_path / "logs"), "--as", "mine", "--map", str(tmp_path / "map.yaml")) == 0


@pytest.mark.parametrize(
    ("metric", "says", "word"),
    [("loss", "by the name alone: loss (lower)", "Winner: "), ("spread", "which way spread is better", "No winner")],
)
def test_a_direction_that_is_guessed_or_open_is_said(
    metric: str, says: str, word: str, tmp_path: Path, normbench: Any, capfd: Any
) -> None:
    for arm in (1, 2):
        for seed in range(1, 6):
            write(tmp_path / "logs", f"a{arm}_s{seed}.csv", "1,9", f"2,{arm + arm * seed / 99}")
    for path in (tmp_path / "logs").iterdir():
        path.write_text(path.read_text().replace("loss", metric))
    assert normbench("import", str(tmp_path / "logs"), "--as", "mine", "--yes") == 0
    output = capfd.readouterr().out
    assert says in output and ("no winner" in output) == (word == "No winner")
    assert normbench("compare", "imported/mine", "--split", "valid", "--metric", metric) == 0
    assert f"\n{word}" in capfd.readouterr().out


def test_a_run_whose_curve_begins_later_is_named(tmp_path: Path, normbench: Any, capfd: Any) -> None:
    write(tmp_path / "logs", "ln_s1.csv", "350,2", "360,1")
    write(tmp_path / "logs", "ln_s2.csv", "0,2", "360,1")
    assert normbench("import", str(tmp_path / "logs"), "--as", "mine", "--yes") == 0
    assert "begins differ: valid loss at 350 in ln seed 1 and at 0 in ln seed 2" in capfd.readouterr().out


def test_the_examples_do_what_their_page_has(normbench: Any, capfd: Any, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    unpack_stores(tmp_path)
    page = (root / "examples" / "imports" / "README.md").read_text()
    lines = [line.partition("#")[0].split() for line in page.splitlines()]
    commands = [words[1:] for words in lines if words[:1] == ["normbench"]]
    for words in commands:
        there = [str(root / word) if (root / word).exists() else word for word in words]
        assert normbench(*there) == 0, capfd.readouterr().err
    assert len(commands) == 16 and len(imported.names(tmp_path / "results")) == 10


WRONG = (["--as", "../x"], ["--as", ""], [], ["--as", "x", "--list"], ["--as", "x", "--remove", "x"])


@pytest.mark.parametrize("words", WRONG)
def test_wrong_words_are_refused(words: list[str], logs: Path, normbench: Any) -> None:
    assert normbench("import", str(logs), *words, "--yes") == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_published_runs_are_exported(form: str, normbench: Any, capfd: Any, tmp_path: Path) -> None:
    place = Path(__file__).parents[2] / "results" / "ln2016" / "fig5" / "reduced"
    shutil.copytree(place, tmp_path / "results" / "ln2016" / "fig5" / "reduced")
    assert normbench("export", form, "--json") == 0
    records = sum(len(run.records) for run in pack.read(place / pack.NAME).runs)
    answer = json.loads(capfd.readouterr().out)
    assert answer["records"] == records
    (table,) = (tmp_path / "results" / "export").iterdir()
    assert table.name == f"curves.{form}" and answer["place"] == str(table)
    assert normbench("export", form, "fidelity=reduced", "--output", "-") == 0 and not capfd.readouterr().err
    assert not [*tmp_path.glob("-*")]


@pytest.mark.parametrize("store", ["trackio", "mlflow.db", "mlruns"])
def test_a_store_is_imported_compared_and_judged(store: str, normbench: Any, capfd: Any, tmp_path: Path) -> None:
    """Of five seeds; a third arm diverged."""
    unpack_stores(tmp_path)
    assert normbench("import", store, "--as", "mine", "--yes") == 0
    out = capfd.readouterr().out
    assert "2 diverged" in out and "4 points that a resumed run logged again" in out and "system metrics" in out
    judge = ("judge", "--runs", "mine", "--metric", "loss", "--split", "valid", "--better", "lower", "--json")
    words = {}
    for arms in (("ln", "base"), ("base", "ln")):
        assert normbench(*judge, "--compare", *arms) == 0
        (claim,) = json.loads(capfd.readouterr().out)["claims"]
        words[arms] = claim["word"]
    assert words == {("ln", "base"): "holds", ("base", "ln"): "fails"}
    assert normbench("compare", "imported/mine", "--metric", "loss", "--split", "valid", "--json") == 0
    assert "high" in capfd.readouterr().out
