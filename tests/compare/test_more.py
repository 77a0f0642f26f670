"""What would decide an open comparison: commands that train what lacks, or a line that says why there is none."""

from __future__ import annotations

import io
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from swept import asked, run, sweep

from normbench.commands.compare import show
from normbench.compare import configuration, describe, suggested_seeds
from normbench.compare.answer import compare
from normbench.compare.groups import Task, tasks
from normbench.compare.question import Question
from normbench.config.plan import train_specs
from normbench.runs.run import Run


def _task(runs: Sequence[Run]) -> Task:
    (task,) = tasks(runs)
    return task


def test_the_command_that_would_decide_composes_the_same_configurations() -> None:
    specs = train_specs(["model=mnist_mlp", "data=digits", "norm=none,layer", "optim.lr=3e-3", "model.hidden_sizes=[8]",
                         "train.epochs=2", "seed=range(1,4)"], multirun=True)  # fmt: skip
    runs = [
        Run(spec.id, "adhoc", spec.arm, spec.seed, "done", 2, fidelity="adhoc", steps=spec.steps,
                  config=spec.stored_config(), records=run(0.1).records)
        for spec in specs
    ]  # fmt: skip
    (task,) = tasks(runs)
    (line,) = suggested_seeds.suggested_commands(compare(task, Question.of(task, {})))
    words = line.replace("'", "").split()
    assert words[:4] == ["normbench", "train", "-m", "model=mnist_mlp"] and "seed=range(4,6)" in words
    repeated = [word.replace("range(4,6)", "range(1,4)") for word in words[3:]]
    assert {spec.id for spec in train_specs(repeated, multirun=True)} == {spec.id for spec in specs}


def test_a_normalizer_of_ones_own_is_in_the_command_or_told_to_be_missing() -> None:
    own = Path(__file__).parents[2] / "examples" / "own_normalizer"
    specs = train_specs(["model=mnist_mlp", "data=digits", "norm=layer,centre", "train.epochs=1"], True, own)
    specs += train_specs(
        ["model=mnist_mlp", "data=digits", "norm=centre", "optim.lr=0.1", "train.epochs=1"], False, own
    )
    cells = _task([
        Run(spec.id, "adhoc", spec.arm, 1, "done", 1, fidelity="adhoc", steps=spec.steps,
                  config=spec.stored_config(), records=run(0.1).records)
        for spec in specs
    ]).cells  # fmt: skip
    options = ["--results", "a b", "--config-dir", str(own)]
    lines = suggested_seeds.commands(cells, range(2, 6), own, options)
    assert "norm=centre" in " ".join(lines) and all(line.endswith(shlex.join(options)) for line in lines)
    command, reason = suggested_seeds.commands(cells, range(2, 6))  # told once for both learning rates
    assert "norm=layer" in command and "centre" not in command
    assert reason.startswith("# seeds 2 to 5 of centre: norm=centre is not")
    assert "one's own: --config-dir DIR, with DIR/norm/centre.yaml" in reason


def test_runs_before_and_after_ones_own_normalizer_was_edited_are_two_arms(tmp_path: Path) -> None:
    own = Path(shutil.copytree(Path(__file__).parents[2] / "examples" / "own_normalizer", tmp_path / "own"))
    file = own / "norm" / "centre.py"

    def trained(seeds: str) -> list[Run]:
        words = ["model=mnist_mlp", "data=digits", "norm=centre", f"seed={seeds}", "train.epochs=1"]
        return [
            Run(spec.id, "adhoc", spec.arm, spec.seed, "done", 1, fidelity="adhoc", steps=spec.steps,
                      config=spec.stored_config(), records=run(0.1).records)
            for spec in train_specs(words, True, own)
        ]  # fmt: skip

    runs = trained("1,2")
    file.write_text(file.read_text() + "# another one\n")
    task = _task([*runs, *trained("2,3")])
    assert [[r.seed for r in cell.runs] for cell in task.cells] == [[1, 2], [2, 3]]
    hashes = [str(cell.values["norm.own_file"]) for cell in task.cells]
    assert list(task.arms(task.arm_keys).values()) == [f"norm.own_file={sha256}" for sha256 in hashes]
    assert configuration.select([f"norm.own_file={hashes[0]}"], task.runs) == runs
    reason, line = sorted(suggested_seeds.commands(task.cells, (4, 5), own))
    assert (
        reason == f"# seeds 4, 5 of centre: {file} was changed since the run was trained: undo that, or train it anew."
    )
    assert "norm=centre" in line and "own_file" not in line, "that is no word of a command"


@pytest.mark.parametrize(("name", "key"), [("model", "model"), ("data", "data"), ("centre", "norm")])
def test_a_file_of_ones_own_is_an_option_of_what_it_is(name: str, key: str) -> None:
    flat = configuration.flat({**run(0.1).config, "own_files": {name: "0123456789"}})
    assert {option for option in flat if option.endswith("own_file")} == {f"{key}.own_file"}


def test_normalizers_that_are_not_known_here_have_one_line() -> None:
    runs = [run(0.1 + 0.1 * n, norm, seed) for n, norm in enumerate(("mine", "other")) for seed in (1, 2)]
    (line,) = suggested_seeds.commands(_task(runs).cells, range(3, 6))
    assert line.startswith("# seeds 3 to 5 of mine, other: norm=")


def test_runs_of_an_experiment_are_added_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"experiment": "x/y", "fidelity": "proxy"}
    runs = [run(0.1, "layer", s, arm="ln", **ours) for s in (1, 2)] + [run(0.2, arm="none", **ours)]
    (task,) = tasks(runs)
    lines = suggested_seeds.commands(task.cells, range(3, 6))
    assert lines == ["normbench train -m experiment=x/y arm=ln,none fidelity=proxy 'seed=range(3,6)' launcher=pool"]
    monkeypatch.setattr(suggested_seeds.artifacts, "ids", lambda extra: ["x/y"])
    lines = suggested_seeds.commands(task.cells, range(3, 6))
    assert lines == ["normbench reproduce x/y --fidelity proxy --only ln --only none --seeds 3-5"]


def test_the_command_for_an_experiment_without_claims_trains_its_runs(tmp_path: Path) -> None:
    own = Path(__file__).parents[2] / "examples" / "own_claims"
    shutil.copytree(own / "experiment", tmp_path / "experiment")
    words = ["experiment=mine/rms", "arm=none,rms", "control=lr-low"]
    specs = train_specs([*words, "seed=range(1,3)"], True, tmp_path)
    runs = [
        Run(spec.id, spec.experiment, spec.arm, spec.seed, "done", spec.epochs, fidelity=spec.fidelity,
                  control=spec.control, steps=spec.steps, config=spec.stored_config(), records=run(0.1).records)
        for spec in specs
    ]  # fmt: skip
    (line,) = suggested_seeds.commands(_task(runs).cells, (1, 2), tmp_path)
    assert {spec.id for spec in train_specs(shlex.split(line)[3:-1], True, tmp_path)} == {spec.id for spec in specs}


def _needing(seeds: dict[str, Sequence[int]]) -> dict[str, list[int]]:
    """By normalizer the seeds of the commands that would decide between arms with these seeds."""
    errors = {"none": 0.5, "layer": 0.1, "batch": 0.11}
    found = asked([run(errors[norm] + 0.001 * k, norm, s) for norm, own in seeds.items() for k, s in enumerate(own)])
    wanted: dict[str, list[int]] = {}
    for line in suggested_seeds.suggested_commands(found):
        specs = train_specs(shlex.split(line)[3:-1], True)
        for spec in specs:
            wanted.setdefault(spec.config["norm"]["name"], []).append(spec.seed)
    return {norm: sorted(own) for norm, own in wanted.items()}


@pytest.mark.parametrize(
    ("seeds", "wanted"),
    [
        ({"layer": (1, 2, 7), "none": (1, 2)}, {"layer": [3, 4], "none": [3, 4, 7]}),
        ({"layer": (1, 2, 3), "none": (1, 2, 3, 4, 5)}, {"layer": [4, 5]}),
        ({"layer": (1, 2**63 - 1), "none": (1,)}, {"layer": [2, 3, 4], "none": [2, 3, 4, 2**63 - 1]}),
        ({"layer": (11, 12), "none": (1, 2)}, {"layer": [1, 2, 3], "none": [3, 11, 12]}),
        ({"layer": range(1, 6), "batch": range(1, 7), "none": (1, 2)}, {"layer": [6], "none": [3, 4, 5, 6]}),
    ],
    ids=str,
)
def test_all_arms_get_the_same_seeds(seeds: dict[str, Sequence[int]], wanted: dict[str, list[int]]) -> None:
    """Those that another arm has, then the lowest that none has: as many pairs as there can be."""
    assert _needing(seeds) == wanted


def test_every_comparison_has_a_line_of_its_own_and_says_why_it_has_no_command() -> None:
    near = asked(sweep({"none": 0.30, "layer": 0.2999, "batch": 0.3001}))
    (group,) = near.groups
    first, rest = describe.group_sentences(group, near)
    assert (
        len(first) == 1 and len(rest) > 1 and describe.group_sentence(group, near) == f"{first[0]} {'; '.join(rest)}."
    )
    reason = io.StringIO()
    show(near, [], Console(file=reason, width=300), Path("results"))
    lines = reason.getvalue().splitlines()
    assert {f"  {line}" for line in rest} <= {*lines}
    (why,) = [line for line in lines if "no command for" in line]
    assert "batch against none" in why and why.endswith(": out of reach (more than 60 seeds)")
    few = asked(sweep({"none": 0.30, "layer": 0.2999}, seeds=2))
    assert suggested_seeds.suggested_commands(few) and not suggested_seeds.out_of_reach(few), (
        "first there are seeds for a word at all"
    )


def test_both_sides_of_an_open_comparison_get_their_seeds_where_they_lie() -> None:
    """In one command, at the cell's own place alone."""
    noisy = {"none": 0.30, "layer": 0.285}
    seeds = {"none": (0.02, -0.03, 0.01, 0.04, -0.02), "layer": (0.0, 0.02, -0.01, 0.01, 0.0)}
    runs = [
        run(noisy[norm] + place, norm, seed, experiment="ln2016/fig6", arm=arm, fidelity="paper",
            axes={"train.batch_size": 128})
        for arm, norm in (("none", "none"), ("ln", "layer"))
        for seed, place in enumerate(seeds[norm], 1)
    ]  # fmt: skip
    (task,) = tasks(runs)
    (line,) = suggested_seeds.suggested_commands(compare(task, Question.of(task, {})))
    start = "normbench reproduce ln2016/fig6 --only none --only ln --only train.batch_size=128 --seeds 6-"
    assert line.startswith(start), line
