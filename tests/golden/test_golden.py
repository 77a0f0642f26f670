"""Guards of what no change of the code may change: ids, losses, commands, import arrows, old checkpoints, users' files;
and of the size of each room.

`golden.py` makes the golden files. `scripts/judge_again.sh` guards verdicts, `scripts/mutants.py` the tests themselves.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import golden
import pytest
import sizes
import tiny
import yaml

from normbench.check.ids import Ids
from normbench.runs import pack

RESULTS = golden.ROOT / "results"
CHECKPOINT = ("norm=batch_layer", "norm.also_configurations=[TTTT,FFFF]", "clip=global", "clip.at=1")
PACKS = pack.paths(RESULTS)


def near(record: dict[str, Any], rel: float) -> dict[str, Any]:
    return {key: pytest.approx(value, rel=rel) if type(value) is float else value for key, value in record.items()}


def test_every_published_run_keeps_its_id() -> None:
    """Recomputed from the configurations in the packs."""
    ids, count = Ids(), 0
    for path in PACKS:
        for run in pack.read(path).runs:
            assert ids.of(run.config) == run.id, path
            count += 1
    assert count >= 3_695  # what was published when this guard was made


def test_the_default_of_a_component_with_published_runs_is_not_changed() -> None:
    """Ids leave defaults out, so another one would mean other runs: another value goes into a preset or an experiment.

    An option or component that came since is added by `golden.py defaults`.
    """
    assert golden.defaults() == golden.read("defaults")


def test_three_updates_of_every_model_give_the_same_losses() -> None:
    found = golden.losses()
    assert found.keys() == golden.read("losses").keys()
    for name, losses in golden.read("losses").items():
        assert found[name] == pytest.approx(losses, rel=1e-9), name


@pytest.mark.parametrize("command", golden.read("commands"))
def test_every_command_keeps_its_options(command: str) -> None:
    assert set(golden.read("commands")[command]) <= set(golden.options(command))


def test_rooms_import_no_more_rooms_than_before() -> None:
    assert set(golden.arrows()) <= set(golden.read("arrows"))


def test_no_room_grows_beyond_its_size() -> None:
    """A number is raised by a commit of its own, which names the user who meets what came in: see sizes.py."""
    allowed = yaml.safe_load(sizes.SIZE.read_text())
    rooms = sizes.sizes()
    assert sizes.total(rooms)["statements"] > 10_000
    grown = {
        f"{room}: {key}": f"{count}, allowed {allowed.get(room, {}).get(key, 0)}"
        for room, counts in rooms.items()
        for key, count in counts.items()
        if count > allowed.get(room, {}).get(key, 0)
    }
    assert not grown


def test_an_old_checkpoint_goes_on_as_the_undisturbed_run(tmp_path: Path) -> None:
    """To the byte where this processor computes the first half to the byte, else to five digits."""
    assert tiny.train(tmp_path / "whole", *CHECKPOINT) == "done"
    shutil.copytree(golden.HERE / "checkpoint", tmp_path / "resumed")
    begun = (tmp_path / "resumed" / "curve.jsonl").read_bytes()
    assert begun.count(b"\n") > 1 and tiny.train(tmp_path / "resumed", *CHECKPOINT) == "done"
    resumed, whole = tiny.result(tmp_path / "resumed"), tiny.result(tmp_path / "whole")
    assert resumed[0].startswith(begun)
    if whole[0].startswith(begun):
        assert resumed == whole
    pairs = zip(*(map(json.loads, curve.splitlines()) for curve in (resumed[0], whole[0])), strict=True)
    for ours, theirs in pairs:
        assert ours == near(theirs, 1e-5)


def test_a_users_normalizer_of_before_is_the_same_run() -> None:
    spec = tiny.spec("norm=centre", config_dir=golden.HERE / "user")
    assert spec.id == golden.read("user")["id"]


def test_a_users_normalizer_of_before_trains(tmp_path: Path) -> None:
    from normbench.runs.directory import RunDirectory
    from normbench.train.train_one import ensure_run

    spec, run = tiny.spec("norm=centre", config_dir=golden.HERE / "user"), RunDirectory(tmp_path / "run")
    assert ensure_run(spec, run) == "done"
    last = json.loads((tmp_path / "run" / "curve.jsonl").read_text().splitlines()[-1])
    assert last == near(golden.read("user")["last"], 1e-4)
