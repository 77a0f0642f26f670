"""Runs of a sweep with a known answer, and what a comparison of them says."""

from collections.abc import Sequence
from typing import Any

from normbench.compare.answer import Comparison, compare
from normbench.compare.groups import tasks
from normbench.compare.question import Question
from normbench.runs.run import Run

SPREAD = (0.0, 0.004, -0.003, 0.002, -0.002, 0.001)


def config(norm: str = "none", lr: float = 1e-3, seed: int = 1, **more_: Any) -> dict[str, Any]:
    """As a run keeps it: a choice by group, `data`, `batch_size` and `options` of the normalizer on wish."""
    return {
        "seed": seed,
        "train": {"epochs": 3, "steps": 0, "batch_size": more_.get("batch_size", 128)},
        "data": {"name": "digits", "valid": 197, **more_.get("data", {})},
        "model": {"name": "mnist_mlp", "hidden_sizes": [8]},
        "norm": {"name": norm, **more_.get("options", {})},
        "optim": {"name": "adam", "lr": lr},
        "monitor": {"split": "valid", "metric": "nll", "goal": "min"},
    }


def run(error: float | str | None, norm: str = "none", seed: int = 1, lr: float = 1e-3, **given_: Any) -> Run:
    """Three epochs of ten updates: the test error falls from 0.9 by halves of the way to `error`; valid follows it."""
    settings = {key: given_.pop(key) for key in ("batch_size", "data", "options") if key in given_}
    records: list[dict[str, Any]] = []
    valid = given_.pop("valid", 0.0)
    for epoch in range(4):
        place = {"epoch": epoch, "step": 10 * epoch, "mode": "eval"}
        value = error if not isinstance(error, float) else error + (0.9 - error) * (1 - epoch / 3) ** 2
        records.append({**place, "split": "valid", "nll": 2.3 - 0.5 * epoch + valid})
        if value is not None:
            records.append({**place, "split": "test", "nll": 2.3 - 0.5 * epoch, "error": value})
    values: dict[str, Any] = {"status": "done", "epochs": 3, "records": records, "seconds": 3.0, "steps": 30, **given_}
    values.setdefault("fidelity", "adhoc")
    name = f"{norm}-{lr}-{seed}-{sorted(settings.items())}"
    return Run(
        name, given_.pop("experiment", "adhoc"), values.pop("arm", f"mnist_mlp-{norm}"), seed,
        config=config(norm, lr, seed, **settings), **{key: v for key, v in values.items() if key != "experiment"},
    )  # fmt: skip


def sweep(errors: dict[str, float], seeds: int = 6, **more_: Any) -> list[Run]:
    """Paired seeds: each adds the same to all arms, and a little of its own to each."""
    return [
        run(error + 0.03 * (seed % 3) + SPREAD[(seed * (place + 2)) % 6], norm, seed, **more_)
        for place, (norm, error) in enumerate(errors.items())
        for seed in range(1, seeds + 1)
    ]


def asked(runs: Sequence[Run], **words: str) -> Comparison:
    (task,) = tasks(runs)
    return compare(task, Question.of(task, words))
