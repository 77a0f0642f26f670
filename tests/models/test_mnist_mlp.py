"""The classifier of LN 2016, section 6.6: its draws and its size."""

from __future__ import annotations

import pytest
import torch
from smallest import built, small

from normbench.config.plan import train_specs


def test_draws_are_uniform_within_their_bound_and_biases_zero() -> None:
    for scheme, bound in (("glorot_uniform", (6 / (64 + 400)) ** 0.5), ("he_uniform", (6 / 64) ** 0.5)):
        network = built(small("mnist_mlp", "model.hidden_sizes=[400]", f"model.init={scheme}"))
        weight = network.hidden[0].linear.weight
        assert 0.99 * bound < weight.abs().max() <= bound
        assert abs(weight.mean()) < 0.01 * bound
        torch.testing.assert_close(weight.std(), torch.tensor(bound / 3**0.5), rtol=0.02, atol=0)
        assert not network.hidden[0].linear.bias.any()


@pytest.mark.parametrize(
    ("arm", "count"),
    [
        ("none", 784 * 1000 + 1000 + 1000 * 1000 + 1000 + 1000 * 10 + 10),
        ("bn", 784 * 1000 + 2000 + 1000 * 1000 + 2000 + 1000 * 10 + 10),
        ("ln-all", 784 * 1000 + 2000 + 1000 * 1000 + 2000 + 1000 * 10 + 20),
    ],
)
def test_the_papers_network_has_the_papers_size(arm: str, count: int) -> None:
    (spec,) = train_specs(["experiment=ln2016/fig6", f"arm={arm}"], False)
    assert sum(p.numel() for p in built(spec).parameters()) == count
