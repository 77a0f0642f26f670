"""Runs as another program logged them, made up in a moment."""

from __future__ import annotations

from typing import Any

from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.run import Run

VALID = {"split": "valid", "metric": "loss", "goal": "min"}
METRICS = {"loss": {"goal": "min"}, "acc": {"goal": "max", "unit": "fraction"}}


def run(arm: str = "ln", seed: int = 1, points: int = 10, name: str = "x", end: Any = None, **given: Any) -> Run:
    """A loss each ten steps on two splits, an accuracy each twenty; `end`: the last loss of valid; `epochs`: steps
    are epochs."""
    loss = [1 / (1 + s + seed / 10 + len(arm)) for s in range(points + 1)]
    valid = [*loss[:-1], loss[-1] if end is None else end]
    steps = [10 * s for s in range(points + 1)]
    blocks = [
        {"split": "train", "mode": "logged", "columns": {"step": [s + 5 for s in steps[:-1]], "loss": loss[:-1]}},
        {"split": "valid", "mode": "logged", "columns": {"step": steps, "loss": valid}},
        {"split": "valid", "mode": "logged", "columns": {"step": steps[::2], "acc": [1 - x for x in loss[::2]]}},
    ]
    epochs = bool(given.pop("epochs", False))
    for block in blocks if epochs else ():
        block["columns"]["epoch"] = block["columns"]["step"]
    facts: dict[str, Any] = {
        "monitor": VALID,
        "metrics": METRICS,
        "about": {"clocks": ["epoch"] if epochs else ["step"]},
    }
    facts |= {"diverged": "valid loss is not finite" if isinstance(end, str) else ""} | given
    key = facts.pop("key", f"{arm}_s{seed}")
    return imported.record(name, key, arm, seed, Curve.of_columns(blocks), steps[-1], **facts)
