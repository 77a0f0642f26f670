"""Statistics for evaluation that training does not leave behind: a pass over the training batches, weights frozen."""

from __future__ import annotations

import torch

from normbench.data import Split
from normbench.models.base import Model
from normbench.norms.base import gathering, normalizers
from normbench.streams import stream


@torch.no_grad()
def gather(model: Model, split: Split, epoch: int, seed: int, batch_size: int) -> None:
    """Let every normalizer that asks for it take its statistics from one pass, in training mode, of the weights as they
    are; without one that asks nothing is done.

    Batches of the training size in an order of the epoch's own. Nothing else moves: running statistics rest, and what
    a model draws in the pass (torch's generator) is fixed by seed and epoch and leaves the generator as it was.
    """
    if not any(norm.gathers for norm in normalizers(model)):
        return
    draws = stream(seed, "population pass", epoch)
    order = torch.from_numpy(draws.permutation(len(split.targets)))
    with gathering(model), torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(int(draws.integers(2**63)))
        for index in order.split(batch_size):
            model(split.inputs[index], split.targets[index])
