"""Statistics for evaluation from a pass over the training batches with frozen weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normbench.core.eval_variants import DEFAULT, Variant
from normbench.core.streams import stream
from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.models.base import Model, Noise, evaluating
from normbench.norms.modes import gathering, normalizers, seed_torch


@torch.no_grad()
def gather(
    model: Model, split: Split, moment: int | str, sampler: Sampler, variants: Sequence[Variant] = (DEFAULT,)
) -> None:
    """One pass in training mode, with the current weights, from which normalizers take their statistics for `variants`.

    Without a normalizer that needs it, there is no pass. The inputs are those of evaluations of the training split:
    every example has the noise of its first sample, and there is no dropout, as in Cooijmans et al.'s pass (`use_noise`
    is 0 around popstats.py); averages of the training passes, with dropout, are the running statistics.
    Batches are formed as in training, in an order drawn for the moment, an epoch or an update. Running statistics do
    not change, and draws from torch's generator are fixed by seed and moment and do not change its state.
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
