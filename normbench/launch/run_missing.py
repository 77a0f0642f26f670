"""Lets a launcher train the runs that are not stored."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from normbench import data
from normbench.config.spec import Spec
from normbench.core import extras
from normbench.errors import BadInput
from normbench.launch.base import Launcher, Outcome, Watch, python
from normbench.runs import files
from normbench.runs.table import Runs


@dataclass(frozen=True)
class Ensured:
    """The runs that were missing before, and the outcomes of the launched ones."""

    missing: Sequence[Spec]
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # by run id
    interrupted: bool = False


def ensure_runs(
    specs: Sequence[Spec],
    launcher: Launcher,
    runs: Runs,
    watch: Watch = lambda runs: nullcontext(lambda spec, event: None),
    seconds: float | None = None,
) -> Ensured:
    """Train those of `specs` that are missing among `runs`; NormbenchError before any training if that fails.

    watch: gives a context around the training, whose value listens to events. seconds: running runs are saved and
    stopped after that time; 0 trains nothing.
    """
    to_train, root = missing(specs, runs), runs.results / "runs"
    if not to_train or seconds == 0:
        return Ensured(to_train)
    if seconds is not None and not launcher.is_local:
        raise BadInput(
            "--max-time ends runs that this command trains; this launcher leaves them to others. Leave one of the two "
            "out: how long a task of Slurm may take is launcher.time=4:00:00."
        )
    extras.require("torch")
    check_data(to_train)
    check_writable(root)
    for device in sorted({spec.config["device"] for spec in to_train}) if launcher.is_local else ():
        check_device(device)
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    with watch(len(to_train)) as listen:
        outcomes, interrupted = launcher.launch(to_train, root, listen, deadline)
    runs.refresh()
    return Ensured(to_train, outcomes, interrupted)


def missing(specs: Sequence[Spec], runs: Runs) -> list[Spec]:
    """The runs to train: all that are not finished, but damaged ones."""
    return [spec for spec in specs if not runs.of(spec) and runs.state(spec) != "damaged"]


def check_data(specs: Sequence[Spec]) -> None:
    """NormbenchError if data that these runs read is missing or damaged."""
    sets = [config for spec in specs for config in data.read_by(spec.config)]
    for config in {(config["name"], config.get("source")): config for config in sets}.values():
        data.check(config)


def check_device(name: str) -> None:
    """Refuse a missing device before anything starts; in a subprocess, so that this one need not import torch."""
    if name == "cpu":
        return
    ask = f"from normbench.train.environment import device; device({name!r})"
    done = subprocess.run(python("-c", ask), stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BadInput(done.stderr.strip().splitlines()[-1].rpartition("NormbenchError: ")[2])


def check_writable(root: Path) -> None:
    """Refuse an unwritable results folder before anything starts."""
    files.make_folder(root)
    if not os.access(root, os.W_OK):
        raise BadInput(f"{root} cannot be written. Choose another place with --results or NORMBENCH_RESULTS.")
