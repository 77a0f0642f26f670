"""Runs that other programs logged: where they lie, their ids, and the packs that hold them.

results/imported/NAME/logged/runs.jsonl.gz    of `normbench import ... --as NAME`
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normbench.errors import BadInput, unknown
from normbench.files.stored import IMPORT, LOGGED, RUN_GROUPS
from normbench.runs import files, pack
from normbench.runs.curve import Curve
from normbench.runs.run import PLACE, Run

FOLDER, MAP = "imported", "map.yaml"
NAME = re.compile(r"[\w-][\w.-]{0,99}")
LEVEL = 3  # of compression: numbers take four times as long at 9, for no smaller file


def place(results: Path, name: str) -> Path:
    """The pack of this name. NormbenchError for a name that is no name of a folder."""
    if not NAME.fullmatch(name):
        raise BadInput(f"'{name}' is no name to import runs as: letters, digits, - . _ and no . at its beginning.")
    return results / FOLDER / name / LOGGED / pack.NAME


def names(results: Path) -> list[str]:
    """The names that something was imported as."""
    packs = (results / FOLDER).glob(f"*/{LOGGED}/{pack.NAME}")
    return sorted(path.parents[1].name for path in packs if NAME.fullmatch(path.parents[1].name))


def remove(results: Path, name: str) -> None:
    """Delete what was imported as `name`. NormbenchError where there is nothing."""
    path = place(results, name)
    if not path.exists():
        raise unknown(f"nothing was imported as '{name}' into {results}.", name, names(results))
    with files.alone(results / FOLDER):
        path.unlink(missing_ok=True)  # first: without it nothing reads the folder
        shutil.rmtree(path.parents[1], ignore_errors=True)


def run_id(name: str, key: Any, arm: str, seed: int, control: str = "", axes: Mapping[str, Any] | None = None) -> str:
    """First 12 hex digits of the SHA-256 of what names a run, and not of its values: a longer log has the same id.

    key: what makes it one run where it was logged, as JSON: a relative path, an id, the values of columns.
    """
    named = {"import": 1, "name": name, "run": key, "arm": arm, "seed": seed, "control": control, "axes": axes or {}}
    return files.seal(named)[:12]


def record(
    name: str,
    key: Any,
    arm: str,
    seed: int,
    curve: Curve,
    steps: int,
    control: str = "",
    axes: Mapping[str, Any] | None = None,
    diverged: str = "",
    monitor: Mapping[str, str] | None = None,
    metrics: Mapping[str, Mapping[str, Any]] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """A run of a log, with the configuration that what reads runs needs.

    Args:
        key, arm, seed, control, axes: as of `run_id`.
        curve: records of mode `logged`, or running, eval where the map says so; see `Curve.of_columns`.
        steps: the last step of the monitored series, or where nothing is monitored of all of them; where `clocks` of
            `about` are ["epoch"], in epochs.
        diverged: which series end without a finite number, in words; "" where none does.
        monitor: {split, metric, goal}; None where it is not declared: then nothing is best.
        metrics: by name what the map declares: {goal: min or max, unit: fraction, ...}.
        about: what else is recorded: source, files, clocks, hparams, counted, counted_seeds.
    """
    for metric in metrics or {}:
        if metric in PLACE:
            raise BadInput(f"metric {metric}: that name says where a value stands. Give it another name in the map.")
    goals = {metric: facts.get("goal") for metric, facts in (metrics or {}).items()}
    declares = {
        "metrics": [metric for metric, goal in goals.items() if goal],
        "rising": [metric for metric, goal in goals.items() if goal == "max"],
        "shares": [metric for metric, facts in (metrics or {}).items() if facts.get("unit") == "fraction"],
    }
    config: dict[str, Any] = {
        "model": {"name": f"{FOLDER}/{name}", "declares": declares},
        "data": {"name": "unknown"},
        "norm": {"name": arm},
        "seed": seed,
        IMPORT: {"name": name, "run": key, "metrics": dict(metrics or {}), **(about or {})},
    } | ({"monitor": dict(monitor)} if monitor else {})
    _set_options(config, {**(axes or {}), **({"control": control} if control else {})})
    return Run(
        id=run_id(name, key, arm, seed, control, axes),
        experiment=f"{FOLDER}/{name}",
        arm=arm,
        seed=seed,
        status="diverged" if diverged else "done",
        reason=diverged,
        epochs=steps if (about or {}).get("clocks") == ["epoch"] else 0,
        steps=steps,
        axes=axes or {},
        control=control,
        fidelity=LOGGED,
        config=config,
        records=curve,
    )


def _set_options(config: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Put options into a configuration, by which runs are averaged and compared."""
    for option, value in options.items():
        group, _, option_of_it = option.partition(".")
        if group in RUN_GROUPS and option_of_it:
            config.setdefault(group, {})[option_of_it] = value
        else:
            config.setdefault("train", {})[option.removeprefix("train.")] = value


def write(results: Path, name: str, runs: Sequence[Run], map_yaml: bytes = b"") -> None:
    """Replace the pack of this name, whole or not at all. NormbenchError for more than one can hold.

    map_yaml: the map by which they were read, written beside them.
    """
    path, content = place(results, name), pack.dump(runs, LEVEL)
    files.make_folder(path.parent)
    with files.alone(results / FOLDER), files.alone(path.parent):
        files.atomic_write(path, content)
        if map_yaml:
            files.atomic_write(path.with_name(MAP), map_yaml)


def log_of(run: Run) -> Any:
    """What makes it one run where it was logged: the key of `run_id`."""
    return run.config.get(IMPORT, {}).get("run")
