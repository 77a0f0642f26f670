"""Full passes over the splits; the records that make a curve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from normbench.data import Dataset, Split
from normbench.models.base import Model
from normbench.norms.base import inference, training_without_tracking, variants
from normbench.streams import stream
from normbench.train import populations

CHUNK = 1000  # examples at once in evaluation mode; part of the maths, for it decides the rounding
Record = dict[str, Any]


def evaluate(model: Model, data: Dataset, epoch: int, seed: int, batch_size: int, mode_dependent: bool) -> list[Record]:
    """Metrics of every split in evaluation mode, and of the training split in training mode.

    In training mode a normalizer sees batches of the training size in a fresh order, and running statistics rest.
    Where training and evaluation are the same function there is one pass, with `"mode": "both"`.
    Records of further inference variants, of the parts for testing alone, carry `"variant"`. Normalizers that evaluate
    with statistics of a pass over the training batches get one before all else.
    """
    populations.gather(model, data.splits["train"], epoch, seed, batch_size)
    records = []
    with torch.no_grad(), inference(model):
        for name in data.splits:
            mode = "both" if name == "train" and not mode_dependent else "eval"
            split = data.splits[name]
            records.append({"split": name, "mode": mode} | full_pass(model, split, _chunks(len(split.targets), CHUNK)))
    if mode_dependent:
        split = data.splits["train"]
        order = torch.from_numpy(stream(seed, "training-mode pass", epoch).permutation(len(split.targets)))
        with torch.no_grad(), training_without_tracking(model):
            result = full_pass(model, split, order.split(batch_size))
        records.append({"split": "train", "mode": "train"} | result)
    for variant in variants(model):
        for name in (name for name in data.splits if name.startswith("test")):
            split = data.splits[name]
            with torch.no_grad(), inference(model, variant):
                result = full_pass(model, split, _chunks(len(split.targets), CHUNK))
            records.append({"split": name, "mode": "eval", "variant": variant} | result)
    return records


def full_pass(model: Model, split: Split, batches: Iterable[Any]) -> dict[str, float]:
    """Mean of each metric over a split: sums of a batch in float64."""
    sums: dict[str, list[float]] = {}
    for index in batches:
        for name, values in model.evaluate(split.inputs[index], split.targets[index]).items():
            sums.setdefault(name, []).append(values.double().sum().item())
    return {
        name: math.fsum(parts) / len(split.targets) if _all_finite(parts) else _first_bad(parts)
        for name, parts in sums.items()
    }


def _all_finite(parts: list[float]) -> bool:
    return all(math.isfinite(part) for part in parts)


def _first_bad(parts: list[float]) -> float:
    return next(part for part in parts if not math.isfinite(part))


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
