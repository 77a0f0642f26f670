"""`normbench compare` and what a sweep says at its end, on runs made up in a moment."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import compared
import fake
import pytest
import tiny

from normbench import load_runs
from normbench.compare import configuration, paper_references
from normbench.draw.panels import Quantity, Reference
from normbench.papers.bln2022 import configurations
from normbench.runs import pack

Run = Callable[..., str]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two arms of two seeds, and a run that was cut off."""
    for norm in ("none", "layer"):
        for seed in (1, 2):
            fake.directory(tmp_path / "runs", tiny.spec(f"norm={norm}", f"seed={seed}"))
    fake.directory(tmp_path / "runs", tiny.spec("norm=batch"), "running")
    return tmp_path


@pytest.fixture
def command(normbench: Callable[..., int], capfd: pytest.CaptureFixture[str]) -> Run:
    """What a command that ends with 0, or with `code`, prints."""

    def run(*words: str, code: int = 0) -> str:
        assert normbench(*words) == code
        output = capfd.readouterr()
        return output.err if code else output.out

    return run


def test_a_table_a_word_and_the_commands_that_go_on(results: Path, command: Run) -> None:
    output = command("compare", "model=mnist_mlp", "--results", str(results))
    assert "mnist_mlp on digits" in output and "test NLL at the end" in output and "against none" in output
    assert "No verdict: fewer than 5 seeds." in output
    assert "to decide normbench train -m model=mnist_mlp norm=layer,none" in output and "seed=range(3,6)" in output
    assert f"seed=range(3,6)' launcher=pool --results {results}\n" in output
    assert output.rstrip().endswith(f"curves    normbench dashboard model=mnist_mlp --results {results}")


def test_arms_are_ranked_over_tasks(results: Path, command: Run, tmp_path: Path) -> None:
    for norm, seed in itertools.product(("none", "layer"), (1, 2)):
        fake.directory(results / "runs", tiny.spec(f"norm={norm}", f"seed={seed}", "train.batch_size=7"))
    words = ("compare", "--over", "train.batch_size", "--results", str(results))
    output = command(*words)
    assert "2 tasks: average ranks" in output and "train.batch_size=7: mnist_mlp on digits" in output
    assert "No verdict: fewer than 5 seeds." in output and "P(better than none)" in output
    command(*words, "--figure", str(tmp_path / "profile.svg"))
    assert "score τ" in (tmp_path / "profile.svg").read_text()
    for more in (["--level", "1"], ["--form", "latex"], ["--json"]):
        command(*words, *more, code=2)
    for norm in ("none", "batch"):
        fake.directory(results / "runs", tiny.spec(f"norm={norm}", "train.batch_size=9"))
    assert "P(better than none)" in command(*words, "train.batch_size=9,7")
    command(*words, "train.batch_size=9,7", "--figure", str(tmp_path / "none.svg"), code=2)


def test_seeds_that_the_filter_leaves_out_are_no_command(results: Path, command: Run) -> None:
    output = command("compare", "seed=1", "--results", str(results))
    assert "to decide # The filter leaves out seeds 3 to 6, which a verdict needs." in output
    assert "normbench train" not in output


def test_a_run_that_stands_alone_is_called_by_its_normalizer(results: Path, command: Run) -> None:
    lines = command("compare", "norm=layer", "seed=1", "--results", str(results)).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["norm", "layer"]


@pytest.mark.parametrize("form", ["pdf", "svg", "png"])
def test_a_figure_for_a_paper_is_written_beside_the_answer(form: str, results: Path, command: Run) -> None:
    pytest.importorskip("matplotlib")
    path = results / "figures" / f"curves.{form}"
    output = command(
        "compare", "--results", str(results), "--figure", str(path), "--width", "8cm", "--font-size", "7pt"
    )
    assert f"figure    {path}" in output and "Seeds 1–2." in output and "against none" in output
    assert path.read_bytes()[:4] in (b"%PDF", b"<?xm", b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--figure", "curves.jpg"), "curves.jpg"),
        (("--figure", "curves"), ".pdf"),
        (("--width", "3in"), "--figure"),
        (("--figure", "curves.pdf", "--width", "3"), "--width 3"),
        (("--figure", "curves.pdf", "--font-size", "1in"), "--font-size 1in"),
    ],
)
def test_a_figure_that_cannot_be_is_one_line(words: tuple[str, ...], part: str, results: Path, command: Run) -> None:
    output = command("compare", "--results", str(results), *words, code=2)
    assert part in output and len(output.strip().splitlines()) == 1 and not Path("curves.pdf").exists()


def test_json_has_the_same_numbers(results: Path, command: Run) -> None:
    (content,) = json.loads(command("compare", "--json", "--results", str(results)))
    rows = {row["arm"]: row for row in content["groups"][0]["rows"]}
    assert rows["none"]["at"]["mean"] == pytest.approx(0.5 / 3) and rows["none"]["at"]["n"] == 2
    assert [seed["seed"] for seed in rows["layer"]["seeds"]] == [1, 2]
    printed = command("compare", "--results", str(results))
    texts = [row[name]["text"] for row in rows.values() for name in ("at", "best", "time", "difference") if row[name]]
    assert len(texts) == 7 and all(text in printed for text in texts if text != "not logged")


def test_a_run_that_is_damaged_is_reported_beside_the_json(results: Path, normbench, capfd) -> None:
    (curve,) = results.glob("runs/**/mnist_mlp-none.s1.*/curve.jsonl")
    curve.write_text("{")
    assert normbench("compare", "--json", "--results", str(results)) == 0
    output = capfd.readouterr()
    assert json.loads(output.out) and f"normbench: {curve.parent} is damaged: " in output.err


def test_nothing_in_a_name_steers_the_terminal(tmp_path: Path, command: Run) -> None:
    steering = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e"
    made = [replace(one, arm=one.arm + steering) for one in compared.runs(("none", f"layer{steering}"), 5)]
    folder = tmp_path / "made" / "up" / "paper"
    folder.mkdir(parents=True)
    pack.write(folder / pack.NAME, [replace(one, id=f"{i:012x}") for i, one in enumerate(made)])
    output = command("compare", "--results", str(tmp_path))
    for words in (("norm=laye",), ("--against", "zz")):
        output += command("compare", *words, "--results", str(tmp_path), code=2)
    assert "layer\ufffd" in output and not set(steering) & set(output) - set("]0;title[31m2J")


def test_what_the_papers_and_their_authors_have_stands_beside(
    results: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = [Reference("authors' log, LN", [(0.0, 2.3), (1.0, 0.25), (2.0, 0.05)]), Reference("far", [(1.0, 2.0)])]
    monkeypatch.setattr(paper_references, "references", lambda c: references)
    words = ("--results", str(results), "--level", "0.05")
    output = command("compare", *words)
    assert "beside    authors' log, LN: 0.05 after 2 epochs, 2 epochs to the level" in output
    assert "beside    far: 2 after 1 epochs, ≥ 1 epochs to the level" in output
    (content,) = json.loads(command("compare", "--json", *words))
    assert content["beside"][0] == {"name": "authors' log, LN", "x": 2.0, "last": 0.05, "time": "2"}


def test_places_in_a_papers_table_are_no_epochs() -> None:
    assert configurations.LOSS.clock == "epoch" and not configurations.LOSS.over_time
    assert Quantity("", "", "", "").over_time and Quantity("", "", "", "", x="Update", clock="step").over_time


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["norm=laier"], "Did you mean 'layer'?"),
        (["--against", "batch"], "has no such arm"),
        (["--metric", "error"], "logs no such number on test"),
        (["norm"], "is no experiment, arm or id"),
    ],
)
def test_bad_input_is_one_line(results: Path, words: list[str], says: str, command: Run) -> None:
    output = command("compare", *words, "--results", str(results), code=2)
    assert says in output and output.count("\n") == 1


def test_nothing_to_compare_says_how_to_begin(tmp_path: Path, command: Run) -> None:
    assert "normbench reproduce ln2016/fig6 --fidelity smoke" in command("compare", "--results", str(tmp_path), code=2)


def test_a_sweep_of_runs_that_are_there_ends_in_the_comparison(results: Path, command: Run) -> None:
    output = command("train", "-m", *tiny.WORDS, "norm=none,layer", "seed=1,2", "--results", str(results))
    assert "No verdict: " in output and "curves    normbench dashboard model=mnist_mlp" in output
    (header,) = [line for line in output.splitlines() if line.startswith("run ")]
    assert header.split()[:4] == ["run", "norm", "seed", "status"]


def test_status_tells_runs_by_what_differs(results: Path, command: Run) -> None:
    output = command("status", "--results", str(results))
    assert "model=mnist_mlp norm=layer" in output and "2 done" in output
    runs = json.loads(command("status", "--json", "--results", str(results)))["runs"]
    assert {run["label"] for run in runs} == {f"model=mnist_mlp norm={norm}" for norm in ("none", "layer", "batch")}


def test_status_lists_the_runs_that_fit_with_their_ids(results: Path, command: Run) -> None:
    output = command("status", "norm=layer", "seed=2", "--results", str(results))
    header, line = output.splitlines()
    assert header.split() == ["run", "experiment", "configuration", "seed", "status"] and line.split()[-1] == "done"
    run = line.split()[0]
    assert f"id: {run}" in command("show", run, "--results", str(results))
    (entry,) = json.loads(command("status", "norm=layer", "seed=2", "--json", "--results", str(results)))["runs"]
    assert entry["id"] == run and entry["seed"] == 2
    assert "Did you mean" in command("status", "norm=layr", "--results", str(results), code=2)


@pytest.mark.parametrize("experiment", ["adhoc", "ln2016/fig6"])
def test_status_has_the_configuration_of_each_run_of_a_pack(experiment: str, tmp_path: Path, command: Run) -> None:
    """All of them lie at one path."""
    specs = [tiny.spec(f"norm={norm}") for norm in ("none", "layer", "batch")]
    records = [fake.record(replace(spec, experiment=experiment, arm=spec.config["norm"]["name"])) for spec in specs]
    pack.write(tmp_path / "ln2016" / "fig6" / "paper" / pack.NAME, records)
    runs = json.loads(command("status", "model=mnist_mlp", "--json", "--results", str(tmp_path)))["runs"]
    assert len({run["path"] for run in runs}) == 1
    assert sorted(run["label"].split("norm=")[-1] for run in runs) == ["batch", "layer", "none"]


def test_a_key_that_tells_arms_apart_in_one_task_does_not_hide_the_others(results: Path, command: Run) -> None:
    for lr in ("0.1", "0.2"):
        fake.directory(
            results / "runs", tiny.spec("norm=layer", "model.hidden_sizes=[9]", f"optim.lr={lr}", "train.epochs=3")
        )
    output = command("compare", "--by", "norm,optim.lr", "--results", str(results))
    assert "\noptim.lr=0.2  1 " in output and "against none" in output and output.count("test NLL at the end") == 2
    assert "by=optim.eps" in command("compare", "--by", "norm,optim.eps", "--results", str(results), code=2)


def test_a_folder_that_cannot_be_looked_into_is_no_run(tmp_path: Path, command: Run) -> None:
    (tmp_path / "runs").write_text("mine")
    output = command("status", "--results", str(tmp_path))
    assert f"  {tmp_path / 'runs'} damaged: cannot be read: Not a directory" in output and " s0 " not in output


def test_a_configuration_that_cannot_be_read_does_not_hide_the_others(results: Path, command: Run) -> None:
    (path,) = results.glob("runs/**/mnist_mlp-batch.s1.*/run.json")
    path.write_text("{}")
    assert "mnist_mlp-batch" in command("status", "--results", str(results))
    assert "No verdict" in command("compare", "model=mnist_mlp", "--results", str(results))


def test_csv_has_the_configuration(results: Path, tmp_path: Path, command: Run) -> None:
    target = tmp_path / "curves.csv"
    command("export", "csv", "--results", str(results), "--output", str(target))
    row = next(csv.DictReader(target.read_text().splitlines()))
    assert (row["model"], row["data"]) == ("mnist_mlp", "digits") and row["norm"] in ("none", "layer")


def test_published_smoke_and_own_runs_are_distinguished(results: Path, command: Run) -> None:
    """In the table where a task has several sources, in JSON, and in the data frame always."""
    assert "source" not in command("compare", "model=mnist_mlp", "--results", str(results))
    labels = {"experiment": "x/fig", "arm": "ln"}
    for seed, fidelity, place in (
        (7, "paper", "x/fig/paper"),
        (8, "paper", "own/y/fig/paper"),
        (9, "smoke", "own/x/fig/smoke"),
    ):
        made = fake.record(tiny.spec("norm=layer", f"seed={seed}"), fidelity=fidelity, **labels)
        pack.write(results / place / pack.NAME, [made])
    output = command("compare", "model=mnist_mlp", "--results", str(results))
    assert "source" in output and "1 own, 1 published" in " ".join(output.split()) and "1 smoke" in output
    (task,) = json.loads(command("compare", "model=mnist_mlp", "--json", "--results", str(results)))
    sources = {seed["seed"]: seed["source"] for g in task["groups"] for row in g["rows"] for seed in row["seeds"]}
    assert (sources[7], sources[8], sources[9], sources[1]) == ("published", "own", "smoke", "own")
    frame = load_runs("norm=layer", results=results).set_index("seed")
    assert frame["source"].to_dict() == {1: "own", 2: "own", 7: "published", 8: "own", 9: "smoke"}


def test_what_is_found_damaged_leaves_out_no_seed(tmp_path):
    """A suggestion that counts it as one that a filter leaves out would go round its seed for ever."""
    specs = fake.specs(3)
    paths = [fake.directory(tmp_path / "runs", spec) for spec in specs]
    (paths[2] / "curve.jsonl").write_bytes(b"{}\n")
    notes: list[str] = []
    runs, every = configuration.finished(["experiment=*"], tmp_path, notes.append)
    assert [run.id for run in runs] == [run.id for run in every] and len(runs) == 2
    assert any(specs[2].id in note for note in notes)
