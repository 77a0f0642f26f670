"""`normbench battery` from a file to its page."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
from pathlib import Path

import json_examples
import pytest

from normbench.battery import budget, cost, trials
from normbench.commands import battery
from normbench.commands.progress import label
from normbench.config import plan
from normbench.runs.table import Runs

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_normalizer" / "norm" / "centre.py"
SMALL = ("--only", "ln2016/online", "--seeds", "2", "--jobs", "1")


@pytest.fixture
def small(monkeypatch):
    """The experiment of SMALL on 200 training images, and costs by a moment's measurement."""
    real = plan.experiment

    def fewer(name, *folder):
        experiment = real(name, *folder)
        if name not in SMALL:
            return experiment
        smoke = experiment.fidelities["smoke"]
        smoke = dataclasses.replace(smoke, set=(*smoke.set, "data.valid=797", "data.test=800"))
        return dataclasses.replace(experiment, fidelities={**experiment.fidelities, "smoke": smoke})

    monkeypatch.setattr(plan, "experiment", fewer)
    monkeypatch.setattr(cost, "ROUND", 1e-3)


@pytest.mark.slow
def test_the_example_gets_its_page(normbench, capfd, small, tmp_path):
    """With two seeds no number is given, on the terminal, in battery.json and on the page."""
    assert len(EXAMPLE.read_text().splitlines()) <= 22
    assert normbench("battery", "--norm", str(EXAMPLE), *SMALL) == 0
    out = capfd.readouterr().out
    assert "centre keeps all 19 promises" in out
    assert "batch at site 'hidden.0' has one value per feature" in out, "who takes no part is told why"
    nothing = "better in 0, worse in 0, undecided in 0 of 1 experiment; not yet in 1"
    answers = [line for line in out.splitlines() if " against " in line and nothing in line]
    assert answers == [f"centre against layer: {nothing}", f"centre against none: {nothing}"]
    assert out.index(answers[0]) < out.index("× none"), "the answer comes first"
    place = tmp_path / "results" / "battery" / "centre"
    content = json.loads((place / "battery.json").read_text())
    (trial,) = content["trials"]
    assert {len(ids) for ids in trial["runs"].values()} == {2} and set(trial["refused"]) == {"batch"}
    assert set(trial["cost"]) == {"centre", "none", "layer"} and trial["cost"]["none"]["ratio"] == 1
    assert [c["against"] for c in trial["comparisons"]] == ["layer", "none"]
    for comparison in trial["comparisons"]:
        assert (comparison["quantity"], comparison["word"]) == ("test error", "not yet")
        assert comparison["effect"] is comparison["interval"] is comparison["p"] is None and comparison["n"] == 2
        assert comparison["why"] == "2 of 5 seeds" and comparison["better"] == "lower"
    held = {name for name, word in content["table1"]["centre"].items() if word.startswith("yes")}
    assert held == {"weight matrix re-centring", "summed inputs of a case shifted", "fixed weights in evaluation"}
    assert content["measured"] == {}, "its YAML declares them"
    assert f"normbench train norm=centre --config-dir {tmp_path}/results/own" in out
    page = (place / "page" / "index.html").read_text()
    for words in ("LN 2016, Table 1", "The online regime", "ms per update", "2 of 5 seeds"):
        assert words in page
    assert page.index(f"against layer: {nothing}") < page.index("<table") < page.index("<details")
    assert "http://" not in page and "https://" not in page

    by_name = ("--norm", "centre", "--config-dir", "results/own")
    assert normbench("battery", *by_name, *SMALL, "--json") == 0
    captured = capfd.readouterr()
    assert "10 runs · 10 done, 0 to run" in captured.err
    answer = json.loads(captured.out)
    json_examples.check("battery", [answer])
    assert answer["numbers"] == json.loads((place / "battery.json").read_text())
    assert answer["numbers"]["command"] == f"normbench battery {' '.join(by_name)} --seeds 2 --only ln2016/online"


@pytest.mark.slow
def test_a_broken_one_is_named_and_nothing_is_trained(normbench, capfd, tmp_path):
    text = EXAMPLE.read_text().replace("y = x - x.mean(", "y = x - x.detach().mean(").replace('"centre"', '"mine"')
    (tmp_path / "mine.py").write_text(text)
    assert normbench("battery", "--norm", "mine.py") == 2
    captured = capfd.readouterr()
    assert "broken  gradients: gradients are those of finite differences" in captured.out
    assert captured.err == "normbench: mine breaks 1 of 19 promises: gradients. Nothing was trained.\n"
    assert not (tmp_path / "results" / "runs").exists()


def test_a_dry_run_says_how_long_and_trains_nothing(normbench, capfd, small, tmp_path):
    words = ("battery", "--norm", str(EXAMPLE), *SMALL, "--dry-run")
    assert normbench(*words) == 0
    out = capfd.readouterr().out
    (row,) = (line for line in out.splitlines() if line.startswith("ln2016/online  "))
    assert "6 runs" in row and "21 s" in row
    assert "has one value per feature" in out and "--seeds 2 gives no answer" in out and "promises" not in out
    assert "10 runs · 0 done, 10 to run" in out and "about 21 s; --dry-run: nothing is run" in out
    assert normbench(*words, "--seeds", "5", "--json") == 0
    answer = json.loads(capfd.readouterr().out)
    json_examples.check("battery", [answer])
    (trial,) = answer["numbers"]["trials"]
    assert trial["seconds"] == 5 * 3 * (2.5 + budget.START) and len(answer["missing"]) == 5 * 3 + 4
    assert not (tmp_path / "results").exists()


def test_a_budget_takes_whole_experiments(normbench, capfd, tmp_path):
    """Table 1 and the quickest experiments; of one that is left out nothing is trained."""
    words = ("battery", "--norm", "rms", "--only", "ln2016/fig1", "--only", "ln2016/fig5", "--jobs", "1", "--dry-run")
    assert normbench(*words, "--budget", "40s", "--json") == 0
    captured = capfd.readouterr()
    answer = json.loads(captured.out)
    rows = answer["numbers"]["trials"]
    assert {row["experiment"]: row["taken"] for row in rows} == {"ln2016/fig1": True, "ln2016/fig5": False}
    assert answer["runs"] == len(answer["missing"]) == 4 + 20 + 20
    assert "beyond --budget: 1 experiment" in captured.err


@pytest.fixture
def kept(monkeypatch):
    """A contract that takes no time."""
    monkeypatch.setattr(battery.Battery, "_contract", lambda self, adopted: {"a promise": 1})


def test_a_budget_is_of_the_whole_and_leaves_a_scorecard(normbench, capfd, small, kept, tmp_path):
    """Of the same command again only what is left; without any nothing is trained, and the scorecard is there."""
    words = ("battery", "--norm", "rms", *SMALL, "--json", "--budget")
    place = tmp_path / "results" / "battery" / "rms" / "battery.json"
    assert normbench(*words, "0s") == 0
    answer = json.loads(capfd.readouterr().out)
    assert len(answer["missing"]) == 10 and not answer["numbers"]["trials"][0]["taken"] and place.is_file()
    assert normbench(*words, "1h") == 0
    answer = json.loads(capfd.readouterr().out)
    (trial,) = answer["numbers"]["trials"]
    assert answer["missing"] == [] and trial["cost"]["none"]["ratio"] == 1
    assert answer["numbers"]["seconds"] == json.loads(place.read_text())["seconds"] > 0
    for path in (tmp_path / "results" / "runs").glob("*/*.s2.*"):
        shutil.rmtree(path)
    place.write_text(json.dumps(answer["numbers"] | {"seconds": 3600.0}))
    assert normbench(*words, "1h") == 0
    again = json.loads(capfd.readouterr().out)
    assert len(again["missing"]) == 3 and again["numbers"]["trials"][0]["cost"] == trial["cost"]
    place.write_text("{}")  # not of this plan: a new budget
    assert normbench(*words, "1h") == 0
    assert json.loads(capfd.readouterr().out)["missing"] == []


def test_what_is_done_is_shown_after_an_interrupt(normbench, capfd, small, kept, monkeypatch, tmp_path):
    real = battery.ensure_runs

    def interrupted(specs, *rest, **more):
        return dataclasses.replace(real(specs[:5], *rest, **more), interrupted=True)

    monkeypatch.setattr(battery, "ensure_runs", interrupted)
    assert normbench("battery", "--norm", "rms", *SMALL) == 130
    out = capfd.readouterr().out
    assert "rms against layer: " in out and "interrupted; the same command goes on." in out
    content = json.loads((tmp_path / "results" / "battery" / "rms" / "battery.json").read_text())
    assert content["trials"][0]["missing"] == 5 and set(content["table1"]["rms"].values()) != {"missing"}


def test_ctrl_c_while_costs_are_measured_leaves_the_scorecard(normbench, capfd, small, kept, monkeypatch, tmp_path):
    def interrupted(specs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cost, "costs", interrupted)
    assert normbench("battery", "--norm", "rms", *SMALL) == 0
    content = json.loads((tmp_path / "results" / "battery" / "rms" / "battery.json").read_text())
    assert content["trials"][0]["missing"] == 0 and content["trials"][0]["cost"] == {}
    assert "× none" not in capfd.readouterr().out


def test_table_1_can_be_asked_for_alone(normbench, capfd):
    assert normbench("battery", "--norm", "rms", "--only", "ln2016/table1", "--dry-run") == 0
    assert "4 runs · 0 done, 4 to run" in capfd.readouterr().out


def test_a_printed_command_finds_what_it_is_about(normbench, capfd, tmp_path):
    """In another results folder, with a normalizer that the tool keeps there."""
    place = ("--results", str(tmp_path / "r"))
    short = ("model=mnist_mlp", "data=digits", "train.epochs=1", "seed=1", "data.valid=797", "data.test=800")
    assert normbench("status", *place) == 0
    assert f"--results {tmp_path}/r" in capfd.readouterr().out
    assert normbench("train", "-m", *short, f"norm={EXAMPLE},none", "launcher.jobs=1", *place) == 0
    capfd.readouterr()
    assert normbench("compare", *place) == 0
    (decide,) = (line for line in capfd.readouterr().out.splitlines() if line.startswith("to decide"))
    words = shlex.split(decide.removeprefix("to decide "))
    assert words[:2] == ["normbench", "train"] and "norm=centre,none" in decide.replace("none,centre", "centre,none")
    assert normbench(*words[1:], "--dry-run") == 0
    assert "8 runs" in capfd.readouterr().out
    assert normbench("battery", "--norm", "centre", "--only", "ln2016/table1", "--dry-run", *place) == 0
    assert normbench("battery", "--norm", "centre", "--only", "ln2016/table1", "--dry-run") == 2


def test_progress_names_a_run_by_model_normalizer_and_axes():
    (trial, *_), _ = trials.trials("rms", "smoke", 1, ["bln2022/fig6"], None)
    assert [label(spec) for (spec,) in trial.specs.values()] == [f"imdb_rnn {n} b25 s1" for n in trial.specs]


def test_a_probe_that_is_not_there_is_no_answer(tmp_path):
    rows = battery._table1(trials.table1("rms", None), Runs(tmp_path))
    assert {word for texts in rows.values() for word in texts.values()} == {"missing"}
