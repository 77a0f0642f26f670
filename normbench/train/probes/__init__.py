"""Probes: runs that compute records instead of training. Each is a module with `compute(spec)`, named as its model."""

from __future__ import annotations

import importlib
import time
from typing import Any

import torch
from torch import Tensor

from normbench.config.resolve import ResolvedRun
from normbench.runs import files, writing
from normbench.streams import stream
from normbench.train import environment

Record = dict[str, Any]


def compute(spec: ResolvedRun) -> list[Record]:
    """A probe's records: numbers by key; `epoch` is the position in a series, and 0 for single numbers."""
    module = importlib.import_module(f"normbench.train.probes.{spec.config['model']['name']}")
    return [{"epoch": 0, "step": 0, "split": "probe", "mode": "exact"} | record for record in module.compute(spec)]


def draw(seed: int, name: Any, *shape: int) -> Tensor:
    """Standard normal values in float64 of a stream of this name."""
    return torch.from_numpy(stream(seed, "probe", name).standard_normal(shape))


def write(spec: ResolvedRun, run: writing.RunDirectory, anew: bool) -> str:
    """A probe's records, written at once; there is nothing to resume."""
    started = time.monotonic()
    content = b"".join(files.line(record) for record in compute(spec))  # nothing stored has changed so far
    run.take_over(spec.content(), anew)
    run.begin()
    run.content["environment"] = environment.since(None, 0, [], environment.environment())
    run.write("running", step=0, reason="")  # first: without the hashes of the files that change
    files.atomic_write(run.curve, content)
    run.finish("done", step=spec.steps, reason="", seconds=round(time.monotonic() - started, 3))
    return "done"
