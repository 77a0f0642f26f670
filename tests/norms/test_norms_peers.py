"""The same numbers as independent implementations on PyPI, by copied weights."""

from __future__ import annotations

import pytest
import torch
from contract import make
from torch import Tensor, nn

from normbench.battery.cases import draw, sizes

TIME = ("batch", "time", "feature")


def alike(ours: nn.Module, theirs: nn.Module, x: Tensor) -> None:
    """Outputs and all gradients; the parameters of both have one order."""
    found = []
    for module in (ours, theirs):
        inputs = x.clone().requires_grad_()
        y = module(inputs)
        (y * draw(tuple(y.shape), seed=5)).sum().backward()
        found.append([y.detach(), inputs.grad, *(parameter.grad.flatten() for parameter in module.parameters())])
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


@pytest.mark.slow  # the import takes seconds
@pytest.mark.parametrize("name", ["dyt", "derf", "scale"])
def test_as_x_transformers(name: str) -> None:
    peers = pytest.importorskip("x_transformers.x_transformers")
    ours = make(name, TIME, {"scale": {"eps": 1e-12}}.get(name, {"alpha_init": 0.5}))
    features = ours.site.features
    theirs = {"dyt": peers.DynamicTanh, "derf": peers.Derf, "scale": peers.ScaleNorm}[name](features).double()
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            # its gain begins at 1 and is multiplied by sqrt(d), ours begins at sqrt(d)
            other.copy_((mine / features**0.5 if name == "scale" else mine).reshape(other.shape))
    if name == "scale":
        theirs.g.register_hook(lambda gradient: gradient / features**0.5)
    alike(ours, theirs, draw(sizes(TIME), seed=1))
