"""The backward pass of power normalization, which no finite differences give once nu has moved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from contract import defaults, masks, near, pair

from normbench.battery.cases import draw, sizes
from normbench.norms import modes
from normbench.norms.context import ForwardContext

TIME, IMAGE = ("batch", "time", "feature"), ("batch", "feature", "space", "space")


def options(**changed: Any) -> dict[str, Any]:
    return defaults("power") | {"group_scaling": False} | changed


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("axes", [TIME, IMAGE])
def test_gradient_and_nu_are_those_of_the_formulas(axes: tuple[str, ...], form: str) -> None:
    """Over the end of the warm-up."""
    module, reference = pair("power", axes, options(form=form, warmup_updates=3, alpha_bkd=0.6))
    for step in range(6):
        for mask in masks("power", axes, 4, step):
            x, by_y = draw(sizes(axes), seed=step).requires_grad_(), draw(sizes(axes), seed=50 + step)
            wanted = reference.backward(x.detach().numpy(), by_y.numpy(), mask)
            y = module.train()(x, mask)
            near(y, reference(x.detach().numpy(), training=True, mask=mask), step)
            y.backward(by_y)
            assert x.grad is not None
            near(x.grad, wanted, step)
            near(module.get_buffer("nu"), reference.nu, step)


def test_in_the_warm_up_the_gradient_is_that_of_the_batch_form() -> None:
    module, _ = pair("power", TIME, options(), seed=None)
    for step in range(2):
        x, by_y = draw(sizes(TIME), seed=step).requires_grad_(), draw(sizes(TIME), seed=9)
        module(x).backward(by_y)
        plain = x.detach().clone().requires_grad_()
        (plain / (plain.square().mean((0, 1)) + 1e-5).sqrt()).backward(by_y)
        torch.testing.assert_close(x.grad, plain.grad)


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("warmup", [0, 100])
def test_only_the_backward_pass_of_an_update_moves_nu(form: str, warmup: int) -> None:
    module, _ = pair("power", TIME, options(form=form, warmup_updates=warmup))
    x = draw(sizes(TIME)).requires_grad_()
    module(x).sum().backward()
    before = module.get_buffer("nu").clone()
    assert before.abs().min() > 0
    with modes.training_without_tracking(module):
        untracked = module(x)
    with modes.inference(module):
        evaluated = module(x)
    module.train().forward_context = ForwardContext()  # as it is when they are run backward
    for y in (untracked, evaluated):
        y.sum().backward()
    assert torch.equal(module.get_buffer("nu"), before)
