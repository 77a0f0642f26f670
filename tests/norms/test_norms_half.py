"""Half precision, of x and of the module: all is computed in float32, and the result has x's type."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from contract import NAMES, declares, subject
from torch import Tensor, nn

from normbench import GRU, LSTM, create_norm
from normbench.norms.layers import NormedLinear

HALF = (torch.bfloat16, torch.float16)
FEATURES = 512
STATES = [name for name in NAMES if "state" in declares(name)["kinds"]]
LEARNING = [name for name in NAMES if not subject(name).of_weights and subject(name).facts["mode_dependent"]]


def make(name: str, features: int = FEATURES) -> nn.Module:
    """With space where it needs that; one of weights without its linear map, for its x is the weight."""
    torch.manual_seed(3)
    if subject(name).of_weights:
        layer = create_norm(name, features, inputs=features, activation="relu")
        assert isinstance(layer, NormedLinear)
        norm = layer.of_weight()
        assert norm is not None
        return norm
    if "space" in (declares(name).get("needs") or []):
        return create_norm(name, features, axes="batch feature space space", space=(2, 3))
    return create_norm(name, features)


def inputs(name: str, batch: int, features: int = FEATURES, seed: int = 0) -> Tensor:
    space = (2, 3) if "space" in (declares(name).get("needs") or []) else ()
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(features if subject(name).of_weights else batch, features, *space, generator=generator) + 0.5


def passed(module: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """Output and gradients of a pass."""
    x = x.clone().requires_grad_()
    y = module(x)
    y.backward(dy.to(y.dtype))
    gradients = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    assert x.grad is not None
    return {"y": y.detach(), "x": x.grad, **gradients}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 200.0])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("of_module", [True, False], ids=["module", "x alone"])
def test_outputs_and_gradients_are_those_of_float64_but_for_rounding(
    name: str, scale: float, dtype: torch.dtype, of_module: bool
) -> None:
    module = make(name).to(dtype) if of_module else make(name)
    x, dy = (inputs(name, 16) * scale).to(dtype), inputs(name, 16, seed=1).to(dtype)
    reference = copy.deepcopy(module).double()
    for training in (True, False):
        for each in (module, reference):
            each.zero_grad()
            each.train(training)
        results = passed(module, x, dy)
        for what, wanted in passed(reference, x.double(), dy.double()).items():
            result = results[what]
            assert result.dtype == (dtype if of_module or what in ("y", "x") else torch.float32)
            off = (result.double() - wanted).abs().max()
            assert off <= 2 * torch.finfo(dtype).eps * wanted.abs().max(), (what, training)


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("dtype", HALF)
def test_statistics_of_3000_batches_are_those_of_float32(name: str, dtype: torch.dtype) -> None:
    """Their sums exceed what half holds, and shares of 1/3000 what bfloat16 resolves."""
    narrow, plain = make(name, 4).to(dtype), make(name, 4)
    for module in (narrow, plain):
        module.begin_epoch()
    batches = [(100 + inputs(name, 8, 4, seed)).to(dtype) for seed in range(100)]
    with torch.no_grad():
        for step in range(3000):
            for module in (narrow, plain):
                module(batches[step % 100].to(dtype if module is narrow else torch.float32))
    for module in (narrow, plain):
        module.end_epoch()
    loaded = make(name, 4).to(dtype)
    loaded.load_state_dict(narrow.state_dict())
    for key in dict(plain.named_buffers()).keys() & plain.state_dict().keys():
        value = plain.get_buffer(key)
        assert value.isfinite().all()
        for module in (narrow, loaded):
            torch.testing.assert_close(module.get_buffer(key), value, rtol=1e-5, atol=1e-5)
    y = narrow.eval()(batches[0])
    assert y.dtype == dtype and torch.equal(loaded.eval()(batches[0]), y)


@pytest.mark.parametrize("name", LEARNING)
def test_statistics_of_a_module_made_in_half_precision_are_float32(name: str) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        module = make(name, 4)
    finally:
        torch.set_default_dtype(before)
    assert {parameter.dtype for parameter in module.parameters()} <= {torch.bfloat16}
    assert {buffer.dtype for buffer in module.buffers() if buffer.is_floating_point()} <= {torch.float32}
    assert module(inputs(name, 8, 4).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_recurrent_layers_of_half_precision_are_near_float64(name: str, dtype: torch.dtype, layer: Any) -> None:
    """From a state of zeros: float16 does not hold the square of an eps. Their gradients, 1/eps times dy, it holds."""
    torch.manual_seed(0)
    options = {"stats": "per_step"} if name == "batch" else {}
    module = layer(16, 32, norm={"name": name, **options}).to(dtype)
    x, dy = torch.randn(64, 3, 16).to(dtype), (torch.randn(64, 3, 32) / 1e4).to(dtype)
    reference = copy.deepcopy(module).double()
    gradients = []
    for each, given in ((module, x), (reference, x.double())):
        y, _ = each(given)
        y.backward(dy.to(y.dtype))
        gradients.append({key: parameter.grad for key, parameter in each.named_parameters()} | {"y": y.detach()})
    for key, wanted in gradients[1].items():
        off = (gradients[0][key].double() - wanted).abs().max()
        assert off <= 40 * torch.finfo(dtype).eps * wanted.abs().max(), key


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("of_module", "of_x"), [("float", "double"), ("double", "float")])
def test_x_of_another_type_is_computed_in_the_modules_and_comes_back_in_its_own(
    name: str, of_module: str, of_x: str
) -> None:
    module, x = getattr(make(name, 6), of_module)(), getattr(inputs(name, 8, 6), of_x)()
    alike = copy.deepcopy(module)
    for training in (True, False):
        y, wanted = (each.train(training)(given) for each, given in ((module, x), (alike, getattr(x, of_module)())))
        assert y.dtype == x.dtype
        if [*module.parameters(), *module.buffers()]:
            assert torch.equal(y, wanted.to(x.dtype))
        else:  # there is no type but x's
            torch.testing.assert_close(y.float(), wanted.float())
