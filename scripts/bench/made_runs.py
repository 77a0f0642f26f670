"""Runs that were never trained, written as training writes them: for benchmarks of what reads them."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from normbench.config.plan import train_specs
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.runs import directory
from normbench.train.environment import environment

NORMS = ("none", "batch", "layer", "rms", "weight")
RATES = (0.0003, 0.001, 0.003, 0.01)
SEEDS = 10
TASK = len(NORMS) * len(RATES) * SEEDS  # runs of one length: what may be compared
SPLITS = ("train", "valid", "test")
PER_EVALUATION = len(SPLITS) + 1
FIRST = 16  # batch size of the first task, of each further one two more: no last batch of one example


def specs(lines: int) -> Iterator[Spec]:
    """Tasks of TASK runs each, without end: normalizers by learning rates by seeds, each task of another length."""
    for task in itertools.count():
        for norm, rate in itertools.product(NORMS, RATES):
            words = [
                "model=mnist_mlp", "data=digits", f"norm={norm}", f"optim.lr={rate}",
                f"train.epochs={lines // PER_EVALUATION + task}", f"train.batch_size={FIRST + 2 * task}",
            ]  # fmt: skip
            (spec,) = train_specs(words, False)
            for seed in range(1, SEEDS + 1):
                yield spec.with_seed(seed)


def records(spec: Spec, lines: int) -> list[dict[str, Any]]:
    """A curve that falls at a rate of its cell and seed, `lines` evaluations of a split."""
    config = spec.config
    rate = 2 + NORMS.index(config["norm"]["name"]) / 3 + RATES.index(config["optim"]["lr"]) / 2
    noise = stream(config["seed"], "bench", spec.arm).standard_normal(lines) / 50
    curve = []
    for place in range(lines):
        epoch, split = divmod(place, PER_EVALUATION)
        nll = 2.3 * float(np.exp(-rate * place / lines + noise[place]))
        at = {"epoch": epoch, "step": epoch * spec.steps // spec.epochs, "nll": nll, "error": min(0.9, nll / 3)}
        name, mode = (SPLITS[split], "eval") if split < len(SPLITS) else ("train", "train")
        curve.append({**at, "split": name, "mode": mode})
    return curve


@contextlib.contextmanager
def unflushed() -> Iterator[None]:
    """These runs need not survive a power cut."""
    fsync, os.fsync = os.fsync, lambda handle: None
    try:
        yield
    finally:
        os.fsync = fsync


def write(results: Path, made: Iterable[Spec], lines: int) -> None:
    """Whole run directories, as training leaves them, sealed."""
    recorded = environment()
    with unflushed():
        for spec in made:
            run = directory.RunDirectory(directory.place(results / "runs", spec))
            run.path.mkdir(parents=True)
            run.content = spec.content() | {"environment": recorded}
            run.append("curve.jsonl", records(spec, lines))
            run.finish("done", step=spec.steps, seconds=1.0)
