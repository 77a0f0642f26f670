"""Full passes over the splits; the records that make a curve."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from normbench.data import Dataset, Split
from normbench.errors import NormbenchError
from normbench.models.base import Model
from normbench.norms.base import inference, normalizers, stacked, training_without_tracking, variants
from normbench.streams import stream
from normbench.train import populations

CHUNK = 1000  # examples at once in evaluation mode; part of the maths, for it decides the rounding
PREPARED = 250  # the same where a model prepares its inputs
STACK_ROWS = 1200  # rows at once where several ways are stacked: their activations stay in the cache
USUAL: Mapping[str, Any] = {
    "variants": (), "splits": ("test",), "test": "each", "populations": (), "reshuffles": 0, "reshuffled": (),
    "blocks": 0,
}  # fmt: skip
Record = dict[str, Any]
Lowest = Mapping[str, float]  # validation NLL of an epoch by variant; "" is the usual one


def evaluate(
    model: Model,
    data: Dataset,
    epoch: int,
    seed: int,
    batch_size: int,
    mode_dependent: bool,
    asked: Mapping[str, Any] = USUAL,
    lowest: Lowest | None = None,
    last: bool = False,
) -> list[Record]:
    """Metrics of every split in evaluation mode, and of the training split in training mode.

    In training mode a normalizer sees batches of the training size in a fresh order, and running statistics rest.
    Where training and evaluation are the same function there is one pass, with `"mode": "both"`.
    Records of further inference variants, of the parts for testing alone, carry `"variant"`. Normalizers that evaluate
    with statistics of a pass over the training batches get one before all else.

    asked: the configuration's `eval`: further variants on its splits; and where the validation NLL is below `lowest`,
    those with other populations, and on test splits some in further orders of the examples (`shuffle=K`), and the usual
    way and the one that is best on validation on parts of the examples (`block=K`). With `test: lowest` test splits
    wait for an epoch at which the validation NLL of any way that is asked for is below its lowest so far, and for the
    `last`.
    lowest: by variant, of all epochs so far; None before training, when nothing is best.
    """

    @functools.cache
    def split(name: str) -> Split:
        return _prepared(model, data.splits[name])

    def own_variants(names: Sequence[str]) -> list[Record]:
        ways = [(variant, name) for variant in variants(model) for name in names]
        return [_in(name, _pass(model, split(name), way, batch_size), variant=way) for way, name in ways]

    populations.gather(model, split("train"), epoch, seed, batch_size)
    tests = [name for name in data.splits if name.startswith("test")]
    each = asked["test"] == "each" or lowest is None or last
    records = []
    for name in data.splits if each else [name for name in data.splits if name not in tests]:
        mode = "both" if name == "train" and not mode_dependent else "eval"
        records.append(_in(name, _pass(model, split(name), "", batch_size), mode))
    if mode_dependent:
        examples = split("train")
        order = torch.from_numpy(stream(seed, "training-mode pass", epoch).permutation(len(examples.targets)))
        with torch.no_grad(), training_without_tracking(model):
            records.append(_in("train", full_pass(model, examples, order.split(batch_size)), "train"))
    if each:
        records += own_variants(tests)
    best = lowest is not None and validation(records)[""] < lowest.get("", math.inf)
    others = _others(model, ["", *asked["variants"]], asked["populations"]) if best else []
    if others:
        populations.gather(model, split("train"), epoch, seed, batch_size, others)

    def further(name: str) -> None:
        made = {record.get("variant") for record in records if record["split"] == name}
        wanted = [variant for variant in [*asked["variants"], *others] if variant not in made]
        found = several(model, split(name), wanted, batch_size)
        records.extend(_in(name, result, variant=way) for way, result in zip(wanted, found, strict=True))
        if best and name in tests:
            records.extend(_in_other_orders(model, name, split(name), seed, batch_size, asked))

    for name in asked["splits"]:
        if name not in tests or each:
            further(name)
    if not each and any(nll < (lowest or {}).get(way, math.inf) for way, nll in validation(records).items()):
        records += [_in(name, _pass(model, split(name), "", batch_size)) for name in tests]
        records += own_variants(tests)
        for name in (name for name in asked["splits"] if name in tests):
            further(name)
    if best and asked["blocks"]:
        valid = validation(records)
        further_ways = [way for way in asked["variants"] if math.isfinite(valid.get(way, math.inf))]
        wanted = ["", *([min(further_ways, key=valid.__getitem__)] if further_ways else [])]
        for name in tests:
            records += _in_blocks(model, name, split(name), wanted, batch_size, asked["blocks"])
    return records


def validation(records: Sequence[Record]) -> dict[str, float]:
    """NLL of the validation split by variant, "" for the usual one; infinite where it is no number."""
    found = {r.get("variant", ""): float(r["nll"]) for r in records if r["split"] == "valid"}
    return {variant: math.inf if math.isnan(nll) else nll for variant, nll in found.items()}


def _in(split: str, result: Mapping[str, float], mode: str = "eval", variant: str = "") -> Record:
    return {"split": split, "mode": mode} | ({"variant": variant} if variant else {}) | dict(result)


def _prepared(model: Model, split: Split) -> Split:
    """With what the model makes of the inputs before its first normalizer: once for all passes of an evaluation."""
    if type(model).prepare is Model.prepare:
        return split
    count, prepared = len(split.targets), None
    with torch.no_grad(), inference(model):
        for index in _chunks(count, PREPARED):
            part = model.prepare(split.inputs[index])
            prepared = part.new_empty(count, *part.shape[1:]) if prepared is None else prepared
            prepared[index] = part
    return Split(split.inputs if prepared is None else prepared, split.targets)


def _pass(model: Model, split: Split, variant: str, batch_size: int, order: Tensor | None = None) -> dict[str, float]:
    chunks = _chunks(len(split.targets), _chunk(model, [variant], batch_size), order)
    with torch.no_grad(), inference(model, variant):
        return full_pass(model, split, chunks)


def _in_other_orders(
    model: Model, name: str, split: Split, seed: int, batch_size: int, asked: Mapping[str, Any]
) -> Iterator[Record]:
    for shuffle in range(1, asked["reshuffles"] + 1):
        order = torch.from_numpy(stream(seed, f"evaluation order {name}", shuffle).permutation(len(split.targets)))
        wanted = ["", *asked["reshuffled"]]
        for way, result in zip(wanted, several(model, split, wanted, batch_size, order), strict=True):
            yield _in(name, result, variant=f"{way} shuffle={shuffle}".strip())


def _in_blocks(
    model: Model, name: str, split: Split, wanted: Sequence[str], batch_size: int, blocks: int
) -> Iterator[Record]:
    size = block_size(len(split.targets), batch_size, blocks, name)
    for block in range(1, blocks + 1):
        part = slice((block - 1) * size, block * size)
        found = several(model, Split(split.inputs[part], split.targets[part]), wanted, batch_size)
        for way, result in zip(wanted, found, strict=True):
            yield _in(name, result, variant=f"{way} block={block}".strip())


def block_size(count: int, batch_size: int, blocks: int, name: str) -> int:
    """Examples of a block; NormbenchError where they are no whole batches: those would be others than in one pass."""
    if count % (blocks * batch_size):
        raise NormbenchError(
            f"eval.blocks={blocks}: the {count} examples of {name} are not so many blocks of whole batches of "
            f"{batch_size}. Choose a divisor of {count // batch_size}, or 0 for none."
        )
    return count // blocks


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


def several(
    model: Model, split: Split, names: Sequence[str], batch_size: int, order: Tensor | None = None
) -> list[dict[str, float]]:
    """A full pass in each of the variants; stacked into one where every normalizer can be.

    The same numbers but for the rounding: layers before the first normalizer are computed once. `order` is that of
    the examples, without one their own.
    """
    if not names:
        return []
    count = len(split.targets)
    if len(names) == 1 or not all(norm.stacks for norm in normalizers(model)):
        return [_pass(model, split, name, batch_size, order) for name in names]
    sums: list[dict[str, list[float]]] = [{} for _ in names]
    size = _whole_batches(STACK_ROWS // len(names), batch_size)
    with torch.no_grad(), stacked(model, names) as stack:
        for index in _chunks(count, size, order):
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


def _chunks(count: int, size: int, order: Tensor | None = None) -> Iterator[slice | Tensor]:
    for start in range(0, count, size):
        part = slice(start, start + size)
        yield part if order is None else order[part]
