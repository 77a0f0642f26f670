"""Probes: runs that compute records instead of training. Each is `compute(spec)` in `papers/PAPER/probes/MODEL.py`."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import normbench
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.errors import unknown
from normbench.runs import directory, files
from normbench.train import environment

PAPERS = Path(normbench.__file__).parent / "papers"
Record = dict[str, Any]


def probe(model: str) -> Callable[[Spec], list[Record]]:
    """The probe of this name. NormbenchError for a YAML file of one's own that names none: it brings no code."""
    papers = {path.stem: path.parts[-3] for path in PAPERS.glob("*/probes/[!_]*.py")}
    if model not in papers:
        raise unknown(f"model={model}: there is no such probe.", model, sorted(papers))
    compute: Callable[[Spec], list[Record]] = importlib.import_module(
        f"normbench.papers.{papers[model]}.probes.{model}"
    ).compute
    return compute


def compute(spec: Spec) -> list[Record]:
    """A probe's records: numbers by key; `epoch` is the position in a series, and 0 for single numbers."""
    records = probe(spec.config["model"]["name"])(spec)
    return [{"epoch": 0, "step": 0, "split": "probe", "mode": "exact"} | record for record in records]


def draw(seed: int, name: Any, *shape: int) -> Tensor:
    """Standard normal values in float64 of a stream of this name."""
    return torch.from_numpy(stream(seed, "probe", name).standard_normal(shape))


def deviation(after: Tensor, before: Tensor) -> float:
    """max |after - before| / max |before|."""
    return float((after - before).abs().max() / before.abs().max())


def write(spec: Spec, run: directory.RunDirectory, anew: bool) -> str:
    """A probe's records, written at once; there is nothing to resume."""
    started = time.monotonic()
    content = b"".join(files.line(record) for record in compute(spec))  # nothing stored has changed so far
    run.take_over(spec.content(), anew)
    run.begin()
    run.content["environment"] = environment.since(None, 0, environment.environment())
    run.write("running", step=0, reason="")  # first: without the hashes of the files that change
    files.atomic_write(run.curve, content)
    run.finish("done", step=spec.steps, reason="", seconds=round(time.monotonic() - started, 3))
    return "done"
