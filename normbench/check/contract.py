"""What every model and every data set promises. A broken promise is an exception with one sentence.

The tests of this package demand it of all that are registered; `normbench check --config-dir` of a user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import torch
from torch import Tensor

from normbench.data import Dataset
from normbench.data.examples import Ragged, Split
from normbench.models import base as models
from normbench.models.base import Metric, Model
from normbench.norms.base import Normalizer, WeightNormalizer, own_parameters
from normbench.norms.modes import normalizers
from normbench.norms.sites import Site

TYPES = (torch.float32, torch.int64, torch.int32, torch.uint8)
Batch = Mapping[str, Tensor]


class Broken(Exception):
    """A broken promise, as a sentence."""


def demand(holds: bool, words: str) -> None:
    if not holds:
        raise Broken(words)


# --- models ----------------------------------------------------------------------------------------------------------


def sites(network: Model, wanted: Mapping[str, Site]) -> None:
    """A normalizer stands at each chosen site, and nowhere else."""
    stand = {norm.site.path: norm.site for norm in normalizers(network)}
    missing, surplus = sorted(wanted.keys() - stand.keys()), sorted(stand.keys() - wanted.keys())
    demand(not missing, f"no normalizer stands at site {', '.join(missing)}, which the YAML declares")
    demand(not surplus, f"a normalizer stands at {', '.join(surplus)}, where none was chosen")
    demand(stand == dict(wanted), "a site has other sizes or axes than the YAML declares")


def forms(network: Model, batch: Batch, paths: Iterable[str]) -> None:
    """The tensor at each site has the declared axes and sizes, and the pass goes through all of them."""
    passed: set[str] = set()

    def check(norm: Normalizer, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        site, shape = norm.site, tuple(arguments[0].shape)
        if isinstance(norm, WeightNormalizer):
            fits = len(shape) >= 2 and shape[0] == site.features
        else:
            space = tuple(size for size, axis in zip(shape, site.axes, strict=False) if axis == "space")
            fits = len(shape) == len(site.axes) and shape[site.feature_axis] == site.features and space == site.space
        axes = " × ".join(site.axes)
        demand(fits, f"site {site.path} gets {shape}: declared are {axes} with {site.features} features")
        demand(output.shape == shape and output.dtype == arguments[0].dtype, f"site {site.path} changes the shape")
        passed.add(site.path)

    hooks = [norm.register_forward_hook(check) for norm in normalizers(network)]
    try:
        network(**batch)
    finally:
        for hook in hooks:
            hook.remove()
    by_step = {  # of a time loop, which a hook of forward does not see
        norm.site.path
        for norm in normalizers(network)
        if "state" in norm.site.kinds and type(norm).step is not Normalizer.step
    }
    unused = sorted({*paths} - by_step - passed)
    demand(not unused, f"the forward pass leaves the normalizer at {', '.join(unused)} out")


def gradients(network: Model, batch: Batch) -> set[str]:
    """The loss is one finite number and each parameter gets a finite gradient; the names of those that get zeros."""
    examples = range(len(next(iter(batch.values()))))
    network.zero_grad()
    with models.evaluating(network, models.Noise(1, "train", examples)):
        loss = network(**batch)
    demand(loss.shape == () and bool(torch.isfinite(loss)), f"the loss is {loss.tolist()}, not one finite number")
    loss.backward()
    zeros = set()
    for name, parameter in network.named_parameters():
        if parameter.grad is None:
            demand(not parameter.requires_grad, f"no gradient arrives at {name}")
            continue
        demand(bool(torch.isfinite(parameter.grad).all()), f"the gradient of {name} is not finite")
        if parameter.dim() and not parameter.grad.any():  # the next layer may divide out one gain of a whole layer
            zeros.add(name)
    return zeros


def metrics(network: Model, alike: Model, batch: Batch) -> dict[str, Tensor]:
    """Each metric has one number for each example, whose mean is the loss; these numbers.

    alike: the same network once more, for a pass may leave something for the next.
    """
    examples = len(next(iter(batch.values())))
    values = numbers(network.evaluate(**batch))
    for name, value in values.items():
        demand(value.shape == (examples,), f"evaluate gives {name} as {tuple(value.shape)}, of {examples} examples")
    if network.loss in values:
        loss = alike(**batch)
        mean = values[network.loss].mean()
        demand(
            torch.allclose(mean, loss, rtol=1e-5, atol=1e-5),
            f"forward gives {loss.item():.6g}, the mean of evaluate's {network.loss} is {mean.item():.6g}",
        )
    return values


def declared_metrics(network: Model, batch: Batch, declared: Iterable[str]) -> None:
    """Those of each example and of a whole split are the declared ones."""
    with torch.no_grad():
        given = {*network.evaluate(**batch), *network.whole("valid", network.collect(**batch))}
    names = f"evaluate gives {', '.join(sorted(given))}; declares.metrics has {', '.join(sorted(declared))}"
    demand(given == {*declared}, names)


def draws(network: Model, others: Mapping[str, Tensor]) -> None:
    """A normalizer has no part in the draws of the weights, nor has the order in which they are made.

    others: the initial parameters of the same network without a normalizer.
    """
    norms = own_parameters(network)
    for name, parameter in network.named_parameters():
        if name not in norms:
            is_same = name in others and torch.equal(parameter, others[name])
            demand(is_same, f"{name} begins at other values with a normalizer than without: its arms are no pairs")


def numbers(values: Mapping[str, Metric]) -> dict[str, Tensor]:
    """One number per example, (B,); of places, such as words, their mean."""
    return {name: m if isinstance(m, Tensor) else m.sums / m.counts for name, m in values.items()}


# --- data sets -------------------------------------------------------------------------------------------------------


def sizes_and_types(loaded: Dataset, facts: Mapping[str, object]) -> None:
    """There are examples to train on; tensors have types that models take, finite values, classes that are declared."""
    demand("train" in loaded.splits, f"there is no split train: {', '.join(loaded.splits)}")
    for part, split in loaded.splits.items():
        demand(len(split) > 0, f"split {part} has no examples")
        for name, tensor in split.tensors.items():
            values = tensor.values if isinstance(tensor, Ragged) else tensor
            demand(values.dtype in TYPES, f"{part} {name} is {values.dtype}: take float32, or int64 for numbers")
            finite = not values.dtype.is_floating_point or bool(values.isfinite().all())
            demand(finite, f"{part} {name} holds NaN or infinity")
        if isinstance(classes := facts.get("classes"), int) and "targets" in split.tensors:
            least, most = int(split["targets"].min()), int(split["targets"].max())
            demand(least >= 0 and most < classes, f"{part} targets are {least} to {most}, of {classes} classes")
        if loaded.words:
            tensors = [split["text"]] if "text" in split.tensors else split.tensors.values()
            texts = [tensor.values if isinstance(tensor, Ragged) else tensor for tensor in tensors]
            for text in texts:
                fits = text.is_floating_point() or (int(text.min()) >= 0 and int(text.max()) < len(loaded.words))
                demand(fits, f"{part} has numbers of words outside of the {len(loaded.words)} words")


def alike(loaded: Dataset, again: Dataset) -> None:
    """A second reading gives the same."""
    for part, split in loaded.splits.items():
        demand(part in again.splits and same(split, again.splits[part]), f"read again, split {part} is another one")


def common(splits: Mapping[str, Split]) -> dict[tuple[str, str], int]:
    """How many different examples two splits have in common, by the two; those that have none are left out."""
    distinct = {part: {*examples(split)} for part, split in splits.items()}
    pairs = [(part, other) for part in splits for other in splits if part < other]
    shared = {pair: len(distinct[pair[0]] & distinct[pair[1]]) for pair in pairs}
    return {pair: count for pair, count in shared.items() if count}


def same(split: Split, other: Split) -> bool:
    return examples(split) == examples(other) and list(split.tensors) == list(other.tensors)


def examples(split: Split) -> list[bytes]:
    """A digest of each example."""
    batch = split.batch(slice(None)).tensors
    rows = []
    for row in range(len(split)):
        tensors = (batch[name][row] for name in split.tensors)
        masks = (batch.get(f"{name}_mask", {row: ...})[row] for name in split.tensors)
        content = b"|".join(tensor[mask].numpy().tobytes() for tensor, mask in zip(tensors, masks, strict=True))
        rows.append(blake2b(content, digest_size=16).digest())
    return rows
