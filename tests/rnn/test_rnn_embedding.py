"""The embedding is torch's, values and gradients."""

from __future__ import annotations

import pytest
import torch
from cases import draw
from torch import nn

from normbench.rnn.embedding import Embedding


@pytest.mark.parametrize("shape", [(3, 4), (5,), (2, 3, 4)])
@pytest.mark.parametrize("words", [7, 300_000])  # the gradient of many lies in large pages
def test_rows_and_gradient_are_torchs(shape: tuple[int, ...], words: int) -> None:
    ours, theirs = Embedding(words, 3), nn.Embedding(words, 3)
    theirs.load_state_dict(ours.state_dict())
    indices = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(1))  # some of them repeatedly
    weight = draw(*shape, 3).float()
    for step in range(2):  # gradients add up where they are left standing
        for layer in (ours, theirs):
            (layer(indices) * weight * (step + 1)).sum().backward()
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    assert torch.equal(ours(indices), theirs(indices))


def test_a_frozen_weight_gets_no_gradient() -> None:
    layer = Embedding(7, 3).requires_grad_(False)
    assert not layer(torch.tensor([1, 2])).requires_grad
    with pytest.raises(IndexError):
        layer(torch.tensor([7]))


def test_second_derivatives_and_transforms_are_torchs() -> None:
    ours, indices = Embedding(7, 3).double(), torch.tensor([[1, 2], [2, 6]])
    weight = ours.weight.detach()

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(ours, {"weight": weight}, (indices,)).pow(3).sum()

    wanted = torch.autograd.functional.hessian(lambda w: nn.functional.embedding(indices, w).pow(3).sum(), weight)
    assert wanted.any()
    torch.testing.assert_close(torch.autograd.functional.hessian(loss, weight), wanted)
    torch.testing.assert_close(torch.func.hessian(loss)(weight), wanted)
