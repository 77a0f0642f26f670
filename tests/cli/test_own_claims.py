"""Claims of one's own on one's own experiment, as in `examples/own_claims`: judged and found like those shipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_claims"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The example, an epoch of four units and five seeds, in a folder whose name a shell would take apart."""
    own = tmp_path / "my claims"
    shutil.copytree(EXAMPLE, own)
    experiment, claims = (own / kind / "mine" / "rms.yaml" for kind in ("experiment", "papers"))
    node = yaml.safe_load(experiment.read_text())
    node["base"] = [w for w in node["base"] if "epochs" not in w and "sizes" not in w]
    node["base"] += ["model.hidden_sizes=[4]", "train.epochs=1", "data.valid=797", "data.test=800"]
    experiment.write_text(yaml.safe_dump(node))
    claims.write_text(claims.read_text().replace("seeds: 10", "seeds: 5"))
    return own


def test_they_are_planned_judged_and_found_again(normbench, capfd, small: Path, tmp_path: Path):
    own = ("--config-dir", str(small))
    assert normbench("reproduce", *own, "mine/rms", "--controls", "--dry-run") == 0
    assert "45 runs · " in capfd.readouterr().out
    assert normbench("reproduce", *own, "mine", "--jobs", "1") == 0
    out = capfd.readouterr().out
    command = f"normbench reproduce mine/rms --config-dir '{small}'"
    assert "MINE-1" in out and " of 2 claims" in out and command in " ".join(out.split())
    place = tmp_path / "results" / "own" / "mine" / "rms" / "paper"
    judged = json.loads((place / "verdicts.json").read_text())
    assert judged["command"] == f"{command} --fidelity paper" and [c["n"] for c in judged["claims"]] == [5, 5]
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    assert normbench("reproduce", *own, "mine/rms", "--max-time", "0") == 0
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    elsewhere = ("--results", str(tmp_path / "again"), "--from", str(tmp_path / "results" / "own"))
    assert normbench("reproduce", *own, "mine/rms", "--only", "none", "--max-time", "0", *elsewhere) == 0
    again = json.loads((tmp_path / "again" / "own" / "mine" / "rms" / "paper" / "verdicts.json").read_text())
    assert [claim["n"] for claim in again["claims"]] == [5, 5], "--only chooses what is trained, not the evidence"

    assert normbench("reproduce", *own, "mine/rms", "--control", "lr-high", "--controls") == 2
    one_control = ("--only", "MINE-1", "--control", "lr-high")
    assert normbench("reproduce", *own, "mine/rms", *one_control, "--jobs", "1") == 0
    capfd.readouterr()
    assert normbench("reproduce", *own, "mine/rms", *one_control, "--max-time", "0", "--json") == 0
    answer = json.loads(capfd.readouterr().out)["artifacts"][0]
    assert answer["done"] == 10, "two arms, five seeds, without the paper's setting"
    controls = {control["name"]: control for control in answer["claims"][0]["controls"]}
    assert {name: control["n"] for name, control in controls.items()} == {"lr-high": 5, "lr-low": 0}
    alone = f"{command} --fidelity paper --only MINE-1 --control lr-low"
    assert controls["lr-low"]["command"] == alone
    table = (place / "table.md").read_text()
    assert alone in table and ", n = 5: " in table

    assert normbench("status") == 0
    assert "own/mine/rms/paper: 25 runs in a pack" in capfd.readouterr().out
    for words, expected, without in (
        (("list", "artifacts"), "mine/rms ", ""),
        (("check",), "whole: 25 published runs", "(one's own: --config-dir DIR)"),
        (("report",), "report", "report"),
    ):
        capfd.readouterr()
        assert normbench(*words, *own) == 0 and expected in capfd.readouterr().out, words
        assert normbench(*words) == 0
        out = capfd.readouterr().out
        assert without in out if without else expected not in out, words
    (place / "table.md").unlink()
    assert normbench("check", *own) == 4
    assert f"or make it again: {command} --fidelity paper --max-time 0" in capfd.readouterr().out


def test_without_their_folder_they_are_unknown(normbench, capfd):
    assert normbench("reproduce", "mine/rms") == 2
    assert "one's own: --config-dir DIR, with DIR/papers/PAPER/NAME.yaml" in capfd.readouterr().err


def test_a_claim_that_its_experiment_cannot_decide_is_refused(normbench, capfd, small: Path):
    claims = small / "papers" / "mine" / "rms.yaml"
    claims.write_text(claims.read_text().replace("arm: layer", "arm: lager"))
    assert normbench("reproduce", "--config-dir", str(small), "mine/rms", "--dry-run") == 2
    err = capfd.readouterr().err
    assert err.count("\n") == 1 and "rms.yaml: claim MINE-2" in err and "lager" in err


@pytest.mark.slow
def test_the_example_is_decided(normbench, capfd):
    assert normbench("reproduce", "--config-dir", str(EXAMPLE), "mine/rms", "--controls", "--jobs", "2") == 0
    out = capfd.readouterr().out
    assert "holds" in out and "decided   " in out
