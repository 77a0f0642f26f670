"""What a run is called at Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import normbench
from normbench.compare import configuration
from normbench.config.plan import ADHOC
from normbench.runs.run import Run

SETTINGS = {
    "silent": True,
    "console": "off",
    "init_timeout": 30.0,  # with a key and no network, wandb itself would wait 90 s
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
    "x_disable_stats": True,
    "x_disable_meta": True,  # host name, user and command line stay private
    "host": "-",
    "username": "-",
}


def arguments(run: Run, logger: Mapping[str, Any], results: Path) -> dict[str, Any]:
    """Those of `wandb.init`. logger: mode (`offline` into files below `results`, or `online`), project, entity.

    A run has the name of its arm, one of no experiment that of its configuration; runs of a group differ in seed alone.
    """
    name = configuration.describe_config(run.config) if run.experiment == ADHOC else run.arm
    axes = [f"{key}={value}" for key, value in run.axes.items()]
    labels = {"experiment": run.experiment, "arm": run.arm, "fidelity": run.fidelity, "control": run.control}
    more = {"run": run.id, "version": normbench.__version__, "environment": dict(run.environment)}
    return {
        "project": logger["project"],
        "entity": logger["entity"] or None,
        "dir": str(results / "wandb"),
        "mode": logger["mode"],
        "id": run.id,
        "resume": "allow",
        "name": f"{name} s{run.seed}",
        "group": " ".join(filter(None, (run.experiment, name, *axes, run.control))),
        "job_type": run.experiment,
        "tags": [run.fidelity],
        "config": {**run.config, **labels, **{f"axis {axis}": v for axis, v in run.axes.items()}, "normbench": more},
        "reinit": "create_new",
        "settings": SETTINGS,
    }


def files(results: Path) -> str:
    """Where the offline files are, and the command that sends them to a server."""
    return f"W&B files: {results / 'wandb'}; to a server: wandb sync {results / 'wandb'}/wandb/offline-run-*"
