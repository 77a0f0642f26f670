"""What normbench computes, for the checks, which import nothing of it and run this as a process of their own.

python scripts/check/theirs/arrays.py data ARTIFACT FIDELITY FILE
    the examples, by split and name (`train.document`), sequences one after another with `.offsets`
python scripts/check/theirs/arrays.py update ARTIFACT FIDELITY ARM MOVED FILE
    the first update of seed 1 in float64, every parameter moved by N(0, MOVED^2) from its initial value: `weight.NAME`,
    `batch.NAME`, `drawn.N` (noise and masks in the order in which they are drawn), `loss`, `gradient.NAME`
python scripts/check/theirs/arrays.py updates ARTIFACT FIDELITY ARM [OVERRIDE...] FILE
    updates of seed 1 in float64 on the batches that FILE has, `0.NAME`, `1.NAME`, and metrics after them, of
    `evaluated.NAME`: `initial.NAME` and `updated.NAME`, the weights before and after all; `loss.1`, `loss.2`;
    `gradient.NAME` of the first, before it is clipped; `metric.NAME`; `words` of the data, and of their validation part
    `data.NAME`
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normbench import data as datasets
from normbench.config import plan
from normbench.core.streams import stream
from normbench.data.examples import Ragged
from normbench.data.sampler import Sampler
from normbench.models import base as models
from normbench.train import optim
from normbench.train.clipping import Clipping

SEED = 1
Arrays = dict[str, np.ndarray]


class Recorded:
    """A generator that keeps what it draws."""

    def __init__(self, draw: np.random.Generator, drawn: list[np.ndarray]) -> None:
        self.draw, self.drawn = draw, drawn

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> np.ndarray:
            self.drawn.append(getattr(self.draw, name)(*args, **options))
            return self.drawn[-1]

        return call


def examples(artifact: str, fidelity: str) -> Arrays:
    config = plan.config_without_arm(artifact, fidelity, [])
    arrays = {}
    for part, split in datasets.load(config["data"], seed=SEED).splits.items():
        for name, tensor in split.tensors.items():
            arrays[f"{part}.{name}"] = (tensor.values if isinstance(tensor, Ragged) else tensor).numpy()
            if isinstance(tensor, Ragged):
                arrays[f"{part}.{name}.offsets"] = tensor.offsets.numpy()
    return arrays


def update(artifact: str, fidelity: str, arm: str, moved: float) -> Arrays:
    spec = plan.experiment_spec(artifact, arm, fidelity, [f"seed={SEED}"])
    config = spec.config
    model = models.build(config, spec.sites).double().train()
    noise = np.random.default_rng(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += moved * torch.from_numpy(noise.standard_normal(tuple(parameter.shape)))
    split = datasets.load(config["data"], seed=SEED).splits["train"].only(models.takes(model))
    batch = split.batch(Sampler.of(config["train"], SEED, split).batch(0)).tensors
    batch = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
    drawn: list[np.ndarray] = []
    model.draws = lambda purpose: Recorded(stream(SEED, purpose, 0), drawn)
    loss = model(**batch)
    loss.backward()
    arrays = {"loss": loss.detach().numpy()}
    arrays |= {f"batch.{name}": tensor.numpy() for name, tensor in batch.items()}
    arrays |= {f"drawn.{number}": array for number, array in enumerate(drawn)}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        arrays |= {f"weight.{name}": parameter.detach().numpy(), f"gradient.{name}": parameter.grad.numpy()}
    return arrays


def updates(artifact: str, fidelity: str, arm: str, overrides: Sequence[str], given: Arrays) -> Arrays:
    spec = plan.experiment_spec(artifact, arm, fidelity, [f"seed={SEED}", *overrides])
    model = models.build(spec.config, spec.sites).double()
    optimizer = optim.build(spec.config["optim"], model)
    adjust = Clipping(spec.config, model, optimizer)

    def tensors(of: object) -> dict[str, Tensor]:
        start = f"{of}."
        named = {name.removeprefix(start): torch.from_numpy(a) for name, a in given.items() if name.startswith(start)}
        return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in named.items()}

    def weights(when: str) -> Arrays:
        return {f"{when}.{name}": p.detach().numpy().copy() for name, p in model.named_parameters()}

    arrays = weights("initial")
    for number in itertools.takewhile(tensors, itertools.count()):
        with models.update(model, SEED, number):
            loss = model(**tensors(number))
        loss.backward()
        arrays[f"loss.{number + 1}"] = loss.detach().numpy()
        if number == 0:
            for name, p in model.named_parameters():
                assert p.grad is not None, name
                arrays[f"gradient.{name}"] = p.grad.numpy().copy()
        adjust(number)
        optimizer.step()
        optimizer.zero_grad()
    arrays |= weights("updated")
    model.eval()
    with torch.no_grad():
        metrics = {name: m.sums.sum() / m.counts.sum() for name, m in model.evaluate(**tensors("evaluated")).items()}
        metrics |= model.whole("", model.collect(**tensors("evaluated")))
    arrays |= {f"metric.{name}": torch.as_tensor(m, dtype=torch.float64).mean().numpy() for name, m in metrics.items()}
    data = datasets.load(spec.config["data"], seed=SEED)
    valid = data.splits["valid"].batch(slice(None)).tensors
    return arrays | {"words": np.array(data.words)} | {f"data.{name}": tensor.numpy() for name, tensor in valid.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, *given, file = sys.argv[1:]
    if what == "data":
        arrays = examples(*given)
    elif what == "update":
        arrays = update(*given[:3], float(given[3]))
    else:
        with np.load(file) as batches:
            arrays = updates(*given[:3], given[3:], dict(batches))
    np.savez(Path(file), **arrays)
