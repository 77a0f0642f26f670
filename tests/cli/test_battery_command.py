"""`normbench battery` from a file to its page."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from normbench.battery import cost, trials
from normbench.commands import battery
from normbench.commands.terminal import console
from normbench.config import plan
from normbench.runs.find import Found

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_normalizer" / "norm" / "centre.py"
SMALL = ("--only", "ln2016/online", "--seeds", "2", "--jobs", "1")


def last_errors(tmp_path, ids):
    """From the curves as they were logged."""
    for run in ids:
        (curve,) = (tmp_path / "results" / "runs").glob(f"*/*.{run}/curve.jsonl")
        records = [json.loads(line) for line in curve.read_text().splitlines()]
        yield [r for r in records if r["split"] == "test" and r["epoch"] == 3][-1]["error"]


@pytest.fixture
def small(monkeypatch):
    """The experiment of SMALL on 200 training images, and costs by a moment's measurement."""
    real = plan.experiment

    def fewer(name, *folder):
        node = copy.deepcopy(real(name, *folder))
        if name in SMALL:
            node["fidelities"]["smoke"]["set"] += ["data.valid=797", "data.test=800"]
        return node

    monkeypatch.setattr(plan, "experiment", fewer)
    monkeypatch.setattr(cost, "ROUND", 1e-3)


def test_the_example_gets_its_page(normbench, capfd, small, tmp_path):
    assert len(EXAMPLE.read_text().splitlines()) <= 22
    assert normbench("battery", "--norm", str(EXAMPLE), *SMALL) == 0
    out = capfd.readouterr().out
    assert "centre keeps all 18 promises" in out
    assert "test error, centre against layer" in out and "× none" in out
    assert "batch at site 'hidden.0' has one value per feature" in out, "who takes no part is told why"
    place = tmp_path / "results" / "battery" / "centre"
    content = json.loads((place / "battery.json").read_text())
    (trial,) = content["trials"]
    assert {len(ids) for ids in trial["runs"].values()} == {2} and set(trial["refused"]) == {"batch"}
    assert set(trial["cost"]) == {"centre", "none", "layer"} and trial["cost"]["none"]["ratio"] == 1
    quantities = {effect["quantity"] for effect in trial["effects"]}
    assert quantities == {"test error", "test NLL", "train error", "train NLL"}
    held = {name for name, word in content["table1"]["centre"].items() if word.startswith("yes")}
    assert held == {"weight matrix re-centring", "summed inputs of a case shifted", "fixed weights in evaluation"}
    (effect,) = [e for e in trial["effects"] if e["quantity"] == "test error" and e["against"] == "layer"]
    centre, layer = (last_errors(tmp_path, trial["runs"][norm]) for norm in ("centre", "layer"))
    wanted = [a - b for a, b in zip(centre, layer, strict=True)]
    assert effect["effect"] == pytest.approx(100 * sum(wanted) / 2) and effect["n"] == 2
    assert effect["unit"] == "points"
    (mean,) = re.findall(r"^layer +([\d.]+) \[", out, re.MULTILINE)
    wanted = 100 * sum(last_errors(tmp_path, trial["runs"]["layer"])) / 2
    assert "test error, %" in out and float(mean) == pytest.approx(wanted, abs=0.6)
    assert f"normbench train --config-dir {tmp_path}/results/own norm=centre" in out
    page = (place / "page" / "index.html").read_text()
    for words in ("Where does centre stand?", "LN 2016, Table 1", "The online regime", "ms per step"):
        assert words in page
    assert "http://" not in page and "https://" not in page

    by_name = ("--norm", "centre", "--config-dir", "results/own")
    assert normbench("battery", *by_name, *SMALL) == 0
    assert "10 runs · 10 done, 0 to run" in capfd.readouterr().out
    command = json.loads((place / "battery.json").read_text())["command"]
    assert command == f"normbench battery {' '.join(by_name)} --seeds 2 --only ln2016/online"


def test_a_broken_one_is_named_and_nothing_is_trained(normbench, capfd, tmp_path):
    text = EXAMPLE.read_text().replace("y = x - x.mean(", "y = x - x.detach().mean(").replace('"centre"', '"mine"')
    (tmp_path / "mine.py").write_text(text)
    assert normbench("battery", "--norm", "mine.py") == 2
    captured = capfd.readouterr()
    assert "broken  gradients: gradients are those of finite differences" in captured.out
    assert captured.err == "normbench: mine breaks 1 of 18 promises: gradients. Nothing was trained.\n"
    assert not (tmp_path / "results" / "runs").exists()


def test_noise_and_a_change_in_place_are_called_what_they_are(normbench, capfd, tmp_path):
    for change, cause in (("x = x + torch.randn_like(x)", "repeatable"), ("x.data.mul_(2)", "shape_and_type")):
        (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace("y = x", f"{change}\n        y = x"))
        assert normbench("battery", "--norm", "mine.py") == 2
        out = capfd.readouterr().out
        assert "no YAML beside the file" in out and "defaults differ from those of its YAML" not in out
        assert f"note    mend {cause} first" in out


def test_one_that_raises_in_training_names_the_log_with_the_traceback(normbench, capfd, small, tmp_path):
    raises = 'if x.shape[-1] == 100: raise KeyError("mine")'
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace("y = x", f"{raises}\n        y = x"))
    assert normbench("battery", "--norm", "mine.py", *SMALL) == 4
    out = capfd.readouterr().out
    assert "centre: KeyError: 'mine'" in out
    (log,) = re.findall(r"failed: KeyError: 'mine' \(more in (\S+)\)", out.replace("\n", " ").replace("( ", "("))
    assert "mine.py" in (tmp_path / log).read_text()


def test_a_dry_run_lists_what_would_be_trained_and_trains_nothing(normbench, capfd, small, tmp_path):
    words = ("battery", "--norm", str(EXAMPLE), *SMALL)
    assert normbench(*words, "--dry-run") == 0
    out = capfd.readouterr().out
    assert "ln2016/online" in out and "0 done, 2 to run" in out and "has one value per feature" in out
    assert (
        "10 runs · 0 done, 10 to run, about 15 s on 1 process; --dry-run: nothing is run" in out
        and "promises" not in out
    )
    assert not (tmp_path / "results").exists()


def test_table_1_can_be_asked_for_alone(normbench, capfd):
    assert normbench("battery", "--norm", "rms", "--only", "ln2016/table1", "--dry-run") == 0
    assert "4 runs · 0 done, 4 to run" in capfd.readouterr().out


def test_a_probe_that_is_not_there_is_no_answer(capfd):
    rows = battery._table1(trials.table1("rms", None), Found())
    battery._show_table1(rows, console())
    assert "  rms: missing\n" in capfd.readouterr().out
