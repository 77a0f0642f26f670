"""Times a training step with all normalizers in interleaved rounds, so that all have the same machine load."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from normbench import data as datasets
from normbench.config.spec import Spec
from normbench.data.examples import Split
from normbench.models import base as models
from normbench.train import optim
from normbench.train.environment import flushed

ROUND, ROUNDS = 0.05, 11  # seconds of one side in one round


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a step, and the ratio to no normalization with the middle half of the rounds."""

    ms: float
    ratio: float
    low: float
    high: float


def interleave(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each side in each round, A B, B A, A B, ...; the first `warmup` rounds do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for index in range(warmup + rounds):
        order = list(sides) if index % 2 == 0 else list(sides)[::-1]
        for name in order:
            started = clock()
            sides[name]()
            if index >= warmup:
                seconds[name].append(clock() - started)
    return seconds


def costs(specs: Mapping[str, Spec], rounds: int = ROUNDS) -> dict[str, Cost]:
    """Forward, backward and update on the first minibatch, one thread; ratios to the first side's.

    `specs`: name -> a run, all of one model, data set and batch size.
    """
    torch.set_num_threads(1)
    first = next(iter(specs.values()))
    split = datasets.load(first.config["data"]).splits["train"]
    size = first.config["train"]["batch_size"]
    steps = {name: _step(spec, split, size) for name, spec in specs.items()}
    once = min(interleave(steps, 3)[next(iter(steps))])
    repeats = max(1, round(ROUND / once))

    def repeated(step: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(repeats):
                step()

        return run

    seconds = interleave({name: repeated(step) for name, step in steps.items()}, rounds)
    reference = seconds[next(iter(steps))]
    by_name = {}
    for name, times in seconds.items():
        low, middle, high = statistics.quantiles([a / b for a, b in zip(times, reference, strict=True)], n=4)
        by_name[name] = Cost(1e3 * statistics.median(times) / repeats, middle, low, high)
    return by_name


def _step(spec: Spec, split: Split, size: int) -> Callable[[], None]:
    model = models.build(spec.config, spec.sites).train()
    batch = split.only(models.takes(model)).batch(slice(size))
    models.start_from_data(model, batch, spec.seed)
    optimizer = optim.build(spec.config["optim"], model, spec.config["model"]["declares"].get("outer", ()))

    def step() -> None:
        with flushed():
            with models.update(model, spec.seed, 0):
                loss = model(**batch.tensors)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return step
