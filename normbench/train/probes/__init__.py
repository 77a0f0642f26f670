"""Probes: runs that compute records instead of training. A module each, with `compute(spec)`, by the model's name."""

from __future__ import annotations

import importlib
import time
from typing import Any

from normbench.config.identity import RunSpec
from normbench.runs import files, writing
from normbench.train import environment

Record = dict[str, Any]


def compute(spec: RunSpec) -> list[Record]:
    """A probe's records: numbers by key, each of its own name; `epoch` places one of a series, 0 the others."""
    module = importlib.import_module(f"normbench.train.probes.{spec.config['model']['name']}")
    return [{"epoch": 0, "step": 0, "split": "probe", "mode": "exact"} | record for record in module.compute(spec)]


def write(spec: RunSpec, run: writing.RunDirectory, anew: bool) -> str:
    """A probe's records, written at once; there is nothing to resume."""
    started = time.monotonic()
    run.begin()
    content = b"".join(files.line(record) for record in compute(spec))  # until now all stays as it was
    if anew:
        run.start_anew()
    run.write_status("running", step=0, reason="")  # first: without the hashes of files that are changed
    environment.record(run, 0, [], environment.environment())
    run.write_config()
    files.atomic_write(run.curve, content)
    run.finish("done", step=spec.steps, reason="", seconds=round(time.monotonic() - started, 3))
    return "done"
