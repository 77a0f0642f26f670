"""Probes: runs that compute records instead of training. A module each, with `compute(spec)`, by the model's name."""

from __future__ import annotations

import importlib
from typing import Any

from normbench.config.identity import RunSpec

Record = dict[str, Any]


def compute(spec: RunSpec) -> list[Record]:
    """A probe's records: numbers by key, each of its own name; `epoch` places one of a series, 0 the others."""
    module = importlib.import_module(f"normbench.train.probes.{spec.config['model']['name']}")
    return [{"epoch": 0, "step": 0, "split": "probe", "mode": "exact"} | record for record in module.compute(spec)]
