"""Normalizers that timm has too, by copied parameters."""

from __future__ import annotations

from typing import Any

import contract
import pytest
import torch
from contract import layouts, make
from torch import Tensor, nn
from weight_cases import inputs
from weight_cases import make as make_map

from normbench.battery.cases import FUNCTIONS, INPUTS, KERNEL, UNITS, draw, sizes
from normbench.norms.base import from_channels, to_channels

pytestmark = pytest.mark.slow  # the import takes seconds


@pytest.fixture
def timm(repaired_torchvision: Any) -> Any:  # which timm imports
    return pytest.importorskip("timm.layers", reason="timm is not installed: pip install timm")


class Channels(nn.Module):
    """timm's layer in the layout of a site."""

    def __init__(self, layer: nn.Module, site: Any) -> None:
        super().__init__()
        self.layer, self.site = layer, site

    def forward(self, x: Tensor) -> Tensor:
        return from_channels(self.layer(to_channels(x, self.site)), self.site, x)


def equal(ours: nn.Module, theirs: nn.Module, x: Tensor) -> None:
    """Outputs and the gradients of x, in training and in evaluation."""
    for training in (True, False):
        found = []
        for module in (ours, theirs):
            given = x.clone().requires_grad_()
            y = module.train(training)(given)
            (y * draw(tuple(y.shape), 9).to(y)).sum().backward()
            found.append((y.detach(), given.grad))
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)  # timm has its moments in float32


@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_filter_response_is_timms(timm: Any, eps: float) -> None:
    for axes in layouts("filter_response"):
        ours = make("filter_response", axes, {"eps": eps})
        theirs = timm.FilterResponseNormTlu2d(ours.site.features, eps=eps).double()
        theirs.load_state_dict({"weight": ours.gain, "bias": ours.bias, "tau": ours.tau})
        equal(ours, Channels(theirs, ours.site), draw(sizes(axes), seed=2))


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_evo_s0_is_timms(timm: Any, groups: int) -> None:
    for axes in layouts("evo_s0"):
        ours = make("evo_s0", axes, contract.defaults("evo_s0") | {"num_groups": groups})
        theirs = timm.EvoNorm2dS0(ours.site.features, groups=groups).double()
        theirs.load_state_dict({"weight": ours.gain, "bias": ours.bias, "v": ours.v})
        equal(ours, Channels(theirs, ours.site), draw(sizes(axes), seed=2))


def test_weight_standardization_is_timms_and_the_authors(timm: Any) -> None:
    """timm has its eps inside the root; the authors' PyTorch layer divides by n - 1."""
    ours = make_map("weight_standardization", "convolution", {"eps": 1e-12})
    ours.activation = FUNCTIONS["none"]
    theirs = timm.StdConv2d(INPUTS, UNITS, KERNEL, padding=0, bias=True, eps=1e-12).double()
    theirs.load_state_dict(ours.linear.state_dict())
    equal(ours, theirs, inputs("convolution"))
    weight = ours.linear.weight
    std, mean = torch.std_mean(weight, dim=(1, 2, 3), keepdim=True)
    n = weight[0].numel()
    torch.testing.assert_close(ours.norm(weight), (weight - mean) / std * (n / (n - 1)) ** 0.5)
