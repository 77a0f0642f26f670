"""Statistics for evaluation that training does not leave behind: a pass over the training batches, weights frozen."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.eval_variants import DEFAULT, Variant
from normbench.models.base import Model, Noise, evaluating
from normbench.norms.modes import gathering, normalizers, seed_torch
from normbench.streams import stream


@torch.no_grad()
def gather(
    model: Model, split: Split, moment: int | str, sampler: Sampler, variants: Sequence[Variant] = (DEFAULT,)
) -> None:
    """Let every normalizer that asks for it for these variants take its statistics from one pass, in training mode, of
    the weights as they are; without one that asks nothing is done.

    The inputs are those that evaluations of the training split have: every example meets the noise of their first
    sample, and nothing is dropped, as in Cooijmans et al.'s pass (`use_noise` is 0 around popstats.py). Averages of the
    passes that train, with their dropout, are the running ones.
    Batches as training makes them, in an order of the moment's own, an epoch or an update. Nothing else moves: running
    statistics rest, and what a model draws from torch's generator is fixed by seed and moment and leaves it as it was.
    """
    if not any(norm.by_pass(variant) for norm in normalizers(model) for variant in variants):
        return
    draws = stream(sampler.seed, "population pass", moment)
    batches = sampler.once(draws)
    with gathering(model, variants):
        seed_torch(int(draws.integers(2**63)), next(model.parameters()).device)
        for index in batches:
            with evaluating(model, Noise(sampler.seed, "train", split.numbers(index))):
                model(**split.batch(index).tensors)
