"""Every normalizer follows the device of its input, on the meta device, and on CUDA where there is one."""

from __future__ import annotations

import copy

import pytest
import torch
from contract import NAMES, layouts, masks, subject
from devices import needs_cuda, to_meta
from torch import Tensor, nn

from normbench.battery import contract as promises
from normbench.battery.cases import Axes, draw
from normbench.norms import modes

CASES = [pytest.param(name, axes, id=f"{name}-{'.'.join(axes)}") for name in NAMES for axes in layouts(name)]


def life(module: nn.Module, x: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
    """Two training passes with gradients, a step of SGD, the end of the epoch, a pass of statistics, all variants."""
    found, optimizer = {}, torch.optim.SGD(module.parameters(), lr=0.1) if [*module.parameters()] else None
    for turn in range(2):
        given = x.clone().requires_grad_()
        y = promises.called(module.train(), given, mask)
        module.zero_grad()
        (y * draw(y.shape, seed=turn).to(y.device)).sum().backward()
        found |= {f"y {turn}": y, f"dx {turn}": given.grad}
        found |= {f"d {name} {turn}": parameter.grad for name, parameter in module.named_parameters()}
    if optimizer is not None:
        optimizer.step()
    promises.end_epoch(module)
    with modes.gathering(module), torch.no_grad():
        promises.called(module, x, mask)
    for variant in promises.variants(module):
        with modes.inference(module, variant), torch.no_grad():
            found[f"evaluation {variant}"] = promises.called(module, x, mask)
    return found | {f"after {name}": value for name, value in module.state_dict().items() if value.dim()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_what_it_makes_is_where_the_input_is(name: str, axes: Axes) -> None:
    of = subject(name)
    module = to_meta(of.settled(axes, of.defaults))
    for mask in masks(name, axes, 4, 0):
        found = life(module, of.inputs(axes).to("meta"), None if mask is None else mask.to("meta"))
        assert all(value.is_meta for value in found.values())


@needs_cuda
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_cuda_is_the_cpu(name: str, axes: Axes) -> None:
    of = subject(name)
    for options in promises.rows(of, axes):
        for mask in masks(name, axes, 4, 0):
            module, x = of.settled(axes, options), of.inputs(axes)
            other = copy.deepcopy(module).cuda()
            wanted = life(module, x, mask)
            found = life(other, x.cuda(), None if mask is None else mask.cuda())
            assert set(found) == set(wanted) and all(value.is_cuda for value in found.values())
            for key, value in wanted.items():
                torch.testing.assert_close(
                    found[key].cpu(), value, rtol=1e-9, atol=1e-9, equal_nan=True, msg=f"{key}, {options}"
                )


def test_an_epoch_goes_on_where_the_module_has_been_moved_to() -> None:
    """What batch layer normalization has gathered, but not added up yet, goes along."""
    of, axes = subject("batch_layer"), ("batch", "feature")
    module, x = of.make(axes, of.defaults), of.inputs(axes)
    (norm,) = modes.normalizers(module)
    module(x)
    module.to("meta")(x.to("meta"))
    promises.end_epoch(module)
    assert norm.trained.batches == 2 and norm.trained.feature_mean.is_meta
