"""Full passes over the splits; the records that make a curve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from normbench.data import Dataset, Split
from normbench.models.base import Model
from normbench.norms.base import inference, normalizers, stacked, training_without_tracking, variants
from normbench.streams import stream
from normbench.train import populations

CHUNK = 1000  # examples at once in evaluation mode; part of the maths, for it decides the rounding
STACK_ROWS = 1200  # rows at once where several ways are stacked: their activations stay in the cache
USUAL: Mapping[str, Any] = {"variants": (), "splits": ("test",), "populations": (), "reshuffles": 0, "reshuffled": ()}
Record = dict[str, Any]


def evaluate(
    model: Model,
    data: Dataset,
    epoch: int,
    seed: int,
    batch_size: int,
    mode_dependent: bool,
    asked: Mapping[str, Any] = USUAL,
    lowest: float = -math.inf,
) -> list[Record]:
    """Metrics of every split in evaluation mode, and of the training split in training mode.

    In training mode a normalizer sees batches of the training size in a fresh order, and running statistics rest.
    Where training and evaluation are the same function there is one pass, with `"mode": "both"`.
    Records of further inference variants, of the parts for testing alone, carry `"variant"`. Normalizers that evaluate
    with statistics of a pass over the training batches get one before all else.

    asked: the configuration's `eval`: further variants on its splits; and where the validation NLL is below `lowest`,
    so far the lowest, those with other populations, and on test splits some in further orders of the examples
    (`shuffle=K`).
    """
    populations.gather(model, data.splits["train"], epoch, seed, batch_size)
    records = []
    with torch.no_grad(), inference(model):
        for name in data.splits:
            mode = "both" if name == "train" and not mode_dependent else "eval"
            split = data.splits[name]
            chunks = _chunks(len(split.targets), _chunk(model, [""], batch_size))
            records.append({"split": name, "mode": mode} | full_pass(model, split, chunks))
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
                result = full_pass(model, split, _chunks(len(split.targets), _chunk(model, [variant], batch_size)))
            records.append({"split": name, "mode": "eval", "variant": variant} | result)
    return [*records, *_further(model, data, epoch, seed, batch_size, asked, validation_nll(records) < lowest, records)]


def validation_nll(records: Sequence[Record]) -> float:
    """The usual one; infinite where it is no number."""
    value = next(r["nll"] for r in records if r["split"] == "valid" and "variant" not in r)
    return math.inf if math.isnan(value) else float(value)


def _further(
    model: Model,
    data: Dataset,
    epoch: int,
    seed: int,
    batch_size: int,
    asked: Mapping[str, Any],
    best: bool,
    records: Sequence[Record],
) -> Iterator[Record]:
    """What the configuration asks for beside the usual evaluation, each record once."""
    names = list(asked["variants"])
    others = _others(model, ["", *names], asked["populations"]) if best else []
    if others:
        populations.gather(model, data.splits["train"], epoch, seed, batch_size, others)
    made = {(record["split"], record.get("variant")) for record in records}
    for name in asked["splits"]:
        split = data.splits[name]
        wanted = [variant for variant in [*names, *others] if (name, variant) not in made]
        for variant, result in zip(wanted, several(model, split, wanted, batch_size), strict=True):
            yield {"split": name, "mode": "eval", "variant": variant} | result
        again = name.startswith("test") and best
        for shuffle in range(1, asked["reshuffles"] + 1 if again else 1):
            order = torch.from_numpy(stream(seed, f"evaluation order {name}", shuffle).permutation(len(split.targets)))
            shuffled = Split(split.inputs[order], split.targets[order])
            wanted = ["", *asked["reshuffled"]]
            for variant, result in zip(wanted, several(model, shuffled, wanted, batch_size), strict=True):
                words = f"{variant} shuffle={shuffle}".strip()
                yield {"split": name, "mode": "eval", "variant": words} | result


def _others(model: Model, names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """These variants with other populations, without those that compute the same as another."""

    def way(variant: str) -> tuple[Any, ...]:
        return tuple(norm.way(variant) for norm in normalizers(model))

    known = {way(name) for name in names}
    found = []
    for kind in kinds:
        for name in names:
            variant = f"{name} populations={kind}".strip()
            possible = any(variant in norm.possible for norm in normalizers(model))
            if possible and way(variant) not in known:
                known.add(way(variant))
                found.append(variant)
    return found


def several(model: Model, split: Split, names: Sequence[str], batch_size: int) -> list[dict[str, float]]:
    """A full pass in each of the variants; stacked into one where every normalizer can be.

    The same numbers but for the rounding: layers before the first normalizer are computed once.
    """
    if not names:
        return []
    count = len(split.targets)
    if len(names) == 1 or not all(norm.stacks for norm in normalizers(model)):
        results = []
        for name in names:
            with torch.no_grad(), inference(model, name):
                results.append(full_pass(model, split, _chunks(count, _chunk(model, [name], batch_size))))
        return results
    sums: list[dict[str, list[float]]] = [{} for _ in names]
    size = _whole_batches(STACK_ROWS // len(names), batch_size)
    with torch.no_grad(), stacked(model, names) as stack:
        for index in _chunks(count, size):
            inputs, targets = split.inputs[index], split.targets[index]
            stack.examples = len(targets)
            for name, values in model.evaluate(inputs, targets.repeat(len(names))).items():
                for of_way, total in zip(sums, values.double().view(len(names), -1).sum(1).tolist(), strict=True):
                    of_way.setdefault(name, []).append(total)
    return [_means(of_way, count) for of_way in sums]


def full_pass(model: Model, split: Split, batches: Iterable[Any]) -> dict[str, float]:
    """Mean of each metric over a split: sums of a batch in float64."""
    sums: dict[str, list[float]] = {}
    for index in batches:
        for name, values in model.evaluate(split.inputs[index], split.targets[index]).items():
            sums.setdefault(name, []).append(_total(values))
    return _means(sums, len(split.targets))


def _total(values: Tensor) -> float:
    return values.double().sum().item()


def _means(sums: Mapping[str, Sequence[float]], count: int) -> dict[str, float]:
    return {name: math.fsum(parts) / count if _all_finite(parts) else _first_bad(parts) for name, parts in sums.items()}


def _all_finite(parts: Sequence[float]) -> bool:
    return all(math.isfinite(part) for part in parts)


def _first_bad(parts: Sequence[float]) -> float:
    return next(part for part in parts if not math.isfinite(part))


def _chunk(model: Model, names: Sequence[str], batch_size: int) -> int:
    """Examples at once: a training batch where what comes at once is normalized together, else whole such batches."""
    if any(norm.by_batch(name) for norm in normalizers(model) for name in names):
        return batch_size
    return _whole_batches(CHUNK, batch_size) if any(norm.stacks for norm in normalizers(model)) else CHUNK


def _whole_batches(size: int, batch_size: int) -> int:
    return max(1, size // batch_size) * batch_size


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
