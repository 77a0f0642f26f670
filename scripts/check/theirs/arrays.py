"""What normbench computes, for the checks, which import nothing of it and run this as a process of their own.

python scripts/check/theirs/arrays.py data ARTIFACT FIDELITY FILE
    the examples, by split and name (`train.document`), sequences one after another with `.offsets`
python scripts/check/theirs/arrays.py update ARTIFACT FIDELITY ARM MOVED FILE
    the first update of seed 1 in float64, every parameter moved by N(0, MOVED^2) from its initial value: `weight.NAME`,
    `batch.NAME`, `drawn.N` (noise and masks in the order in which they are drawn), `loss`, `gradient.NAME`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench import data as datasets
from normbench.config import plan
from normbench.data.examples import Ragged
from normbench.data.sampler import Sampler
from normbench.models import base as models
from normbench.streams import stream

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
    config = plan.plain(artifact, fidelity, [])
    found = {}
    for part, split in datasets.load(config["data"], seed=SEED).splits.items():
        for name, tensor in split.tensors.items():
            found[f"{part}.{name}"] = (tensor.values if isinstance(tensor, Ragged) else tensor).numpy()
            if isinstance(tensor, Ragged):
                found[f"{part}.{name}.offsets"] = tensor.offsets.numpy()
    return found


def update(artifact: str, fidelity: str, arm: str, moved: float) -> Arrays:
    spec = plan.experiment_spec(artifact, arm, fidelity, [f"seed={SEED}"])
    config = spec.config
    model = models.build(config, spec.sites()).double().train()
    noise = np.random.default_rng(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += moved * torch.from_numpy(noise.standard_normal(tuple(parameter.shape)))
    split = datasets.load(config["data"], seed=SEED).splits["train"].only(models.takes(model))
    batch = split.batch(Sampler.of(config["train"], SEED, len(split), split.lengths).batch(0)).tensors
    batch = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
    drawn: list[np.ndarray] = []
    model.draws = lambda purpose: Recorded(stream(SEED, purpose, 0), drawn)
    loss = model(**batch)
    loss.backward()
    found = {"loss": loss.detach().numpy()}
    found |= {f"batch.{name}": tensor.numpy() for name, tensor in batch.items()}
    found |= {f"drawn.{number}": array for number, array in enumerate(drawn)}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        found |= {f"weight.{name}": parameter.detach().numpy(), f"gradient.{name}": parameter.grad.numpy()}
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, *given, file = sys.argv[1:]
    arrays = examples(*given) if what == "data" else update(*given[:3], float(given[3]))
    np.savez(Path(file), **arrays)
