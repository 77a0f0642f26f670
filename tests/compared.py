"""Runs for a comparison, made up in a moment: arms by normalizer, curves that fall at another rate in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from normbench.runs.run import Run
from normbench.web.view import Load

MONITOR = {"split": "valid", "metric": "nll", "goal": "min"}
HOSTILE = (
    '</script><img src=x onerror="window.pwned=1"><b>b</b><a href="javascript:window.pwned=2">x</a>%{y}\'\u202e\x07'
)


def run(norm: str = "none", seed: int = 1, points: int = 20, **given: Any) -> Run:
    """An evaluation an epoch of ten updates on two splits; `lr`, `batch_size`, `name` (of the data) on wish."""
    lr, batch_size, name = given.pop("lr", 1e-3), given.pop("batch_size", 32), given.pop("name", "digits")
    rate = 1 + len(norm) / 10 + 20 * lr + seed / 50
    records = [
        {"epoch": epoch, "step": 10 * epoch, "split": split, "mode": "eval",
         "nll": 2.3 / (1 + rate * epoch), "error": 0.9 / (1 + rate * epoch) + 0.001 * ((seed * epoch) % 3)}
        for epoch in range(points + 1)
        for split in ("valid", "test")
    ]  # fmt: skip
    fields: dict[str, Any] = {
        "experiment": "adhoc", "arm": f"mnist_mlp-{norm}", "fidelity": "adhoc", "status": "done", "epochs": points,
        "steps": 10 * points, "records": records, "seconds": points / 10,
        "config": {
            "seed": seed, "model": {"name": "mnist_mlp"}, "data": {"name": name}, "norm": {"name": norm},
            "optim": {"name": "adam", "lr": lr}, "train": {"batch_size": batch_size}, "monitor": MONITOR,
        },
    }  # fmt: skip
    return Run(**{"id": f"{norm}-{lr}-{batch_size}-{seed}", "seed": seed, **fields, **given})


def runs(norms: Sequence[str] = ("none", "batch", "layer"), seeds: int = 5, **given: Any) -> list[Run]:
    return [run(norm, seed, **given) for norm in norms for seed in range(1, seeds + 1)]


def heads(records: Sequence[Run]) -> list[Run]:
    """The same as an index knows them before anybody asks for their curves."""
    return [replace(run, records=()) for run in records]


def loader(records: Sequence[Run], asked: list[str] | None = None) -> Load:
    """Curves by id; `asked` takes the ids."""
    found = {run.id: run for run in records}

    def load(ids: Sequence[str]) -> Mapping[str, Run]:
        if asked is not None:
            asked.extend(ids)
        return {run_id: found[run_id] for run_id in ids if run_id in found}

    return load
