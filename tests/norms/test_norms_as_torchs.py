"""Every normalizer of `create_norm` is used as torch's own are: half precision, empty batches, keywords, copies."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from contract import NAMES, layouts, masks, subject
from torch import Tensor, nn

from normbench import NormbenchError, create_norm
from normbench.battery import contract as promises
from normbench.config import compose
from normbench.norms import modes

FEATURES = 6
SHAPES = {
    ("batch", "feature"): (5, FEATURES),
    ("batch", "time", "feature"): (5, 3, FEATURES),
    ("batch", "feature", "space", "space"): (5, FEATURES, 2, 3),
}
MAPS = {"inputs": FEATURES, "activation": "relu"}


def cases() -> list[object]:
    """Name, axes, and the options of a linear map around it."""
    found = []
    for name in ["none", *NAMES]:
        facts = compose.declaration("norm", name)
        of_weights = set(facts["kinds"]) <= {"weight", "block"}
        for axes in SHAPES:
            there = set(facts.get("needs") or []) <= set(axes)
            for around in [MAPS] if of_weights else [{}, {"inputs": FEATURES}]:
                if there and not ("space" in axes and around):
                    found.append(pytest.param(name, axes, around, id=f"{name}-{'.'.join(axes)}-{'map' * bool(around)}"))
    return found


EACH = pytest.mark.parametrize(("name", "axes", "around"), cases())


def make(name: str, axes: tuple[str, ...], around: dict) -> nn.Module:
    torch.manual_seed(3)
    return create_norm(name, FEATURES, axes=" ".join(axes), space=SHAPES[axes][2:] if "space" in axes else (), **around)


def inputs(axes: tuple[str, ...], seed: int = 0) -> Tensor:
    return 2 * torch.randn(SHAPES[axes], generator=torch.Generator().manual_seed(seed)) + 1


def state(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


def same(module: nn.Module, before: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, before[key]) for key, value in module.state_dict().items())


@pytest.mark.thinned(2)
@EACH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", ["autocast", "of half", "given half"])
def test_half_precision_stays_and_is_near_float32(name, axes, around, dtype, how) -> None:
    """Two updates and an evaluation. A linear map with float32 weights takes no half precision, as `nn.Linear`."""
    if how == "given half" and around:
        return
    wanted, found = make(name, axes, around), make(name, axes, around)
    if how == "of half":
        found.to(dtype)
    for step in range(3):
        for module in (wanted, found):
            module.train(step < 2)
            if step < 2:
                module.begin_epoch()
        x = inputs(axes, step).to(dtype)
        given = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype, enabled=how == "autocast"):
            y = found(given)
        y.float().sum().backward()
        assert (y.dtype, given.grad.dtype) == (dtype, dtype)
        plain = wanted(x.float().requires_grad_())
        plain.sum().backward()  # some learn in the backward pass
        torch.testing.assert_close(y.float(), plain, rtol=0.1, atol=0.1)
        if step < 2:
            wanted.end_epoch()
            found.end_epoch()
    floats = {key: value for key, value in wanted.state_dict().items() if value.is_floating_point()}
    for key, value in floats.items():
        is_parameter = key in dict(found.named_parameters())
        assert found.state_dict()[key].dtype == (dtype if how == "of half" and is_parameter else torch.float32)
        torch.testing.assert_close(found.state_dict()[key].float(), value, rtol=0.1, atol=0.1)


@pytest.mark.thinned(2)
@EACH
@pytest.mark.parametrize("before", [False, True])
def test_an_empty_batch_gives_an_empty_result_and_teaches_nothing(name, axes, around, before) -> None:
    module, other = make(name, axes, around), make(name, axes, around)
    for empty in [inputs(axes)[:0]] + ([inputs(axes)[:, :0]] if "time" in axes else []):
        for each in (module, other):
            each.train().begin_epoch()
            if before:
                each(inputs(axes))
        was = state(module)
        assert module(empty).shape == empty.shape and same(module, was)
        for each in (module, other):
            each(inputs(axes, 1))
            each.end_epoch()
        assert same(module, state(other))
        assert module.eval()(empty).shape == empty.shape and module(inputs(axes)).isfinite().all()


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("name", "axes"), [pytest.param(n, axes, id=f"{n}-{'.'.join(axes)}") for n in NAMES for axes in layouts(n)]
)
def test_so_it_is_with_all_options(name: str, axes: tuple[str, ...]) -> None:
    of = subject(name)
    for options in promises.rows(of, axes):
        for mask in masks(name, axes, 6, 1):
            module, x = of.make(axes, options, 0).float(), of.inputs(axes, batch=6).bfloat16()
            with torch.autocast("cpu", torch.bfloat16, enabled=hasattr(module, "linear")):
                given = [promises.called(module.train(), x, mask)]
                promises.end_epoch(module)
                with modes.gathering(module), torch.no_grad():
                    promises.called(module, x, mask)
                was = state(module)
                for training in (True, False):
                    y = promises.called(module.train(training), x[:0], None if mask is None else mask[:0])
                    assert y.shape == (0, *given[0].shape[1:]) and same(module, was), options
                given.append(promises.called(module, x, mask))
            assert [y.dtype for y in given] == [torch.bfloat16] * 2, options


@EACH
def test_x_and_mask_by_keyword_and_a_wrong_width_is_one_line(name, axes, around) -> None:
    module, x = make(name, axes, around).eval(), inputs(axes)
    mask = torch.ones(SHAPES[axes][:2], dtype=torch.bool) if "time" in axes else None
    assert torch.equal(module(x=x, mask=mask), module(x, mask))
    wrong = x[:, : FEATURES - 1] if "space" in axes else x[..., : FEATURES - 1]
    for other in (wrong, wrong[:0], x.tolist(), x.numpy()):
        with pytest.raises(NormbenchError, match=name):
            module(other)


def saved(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.thinned(2)
@EACH
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)), saved])
def test_copies_go_on_as_it_does(name, axes, around, copied: Callable[[nn.Module], nn.Module]) -> None:
    module = make(name, axes, around).train()
    module(inputs(axes))
    with modes.inference(module):
        module(inputs(axes, 1))
    other = copied(module)
    assert torch.equal(other(inputs(axes, 2)), module(inputs(axes, 2))) and same(other, state(module))


@pytest.mark.thinned(2)
@EACH
@pytest.mark.parametrize("training", [True, False])
def test_a_pass_in_inference_mode_leaves_no_tensor_of_that_mode(name, axes, around, training) -> None:
    """The first use of all in this process, too: nothing of it is kept for others, which could not train then."""
    module, wanted = make(name, axes, around), make(name, axes, around)
    for each, mode in ((module, torch.inference_mode), (wanted, torch.no_grad)):
        each.begin_epoch()
        with mode():
            each.train(training)
            for step in range(2):
                each(inputs(axes, step))
            each.state_dict()
            if not training:
                each.end_epoch()
    for step, mode in enumerate((True, True, False)):
        for each in (module, wanted):
            each.train(mode)
            each.begin_epoch()
            each(inputs(axes, step).requires_grad_()).square().sum().backward()
            if mode:
                each.end_epoch()
    assert not any(tensor.is_inference() for tensor in module.buffers())
    assert same(module, state(wanted))
