"""LSTM and GRU against torch.nn: the rows of the table in `normbench.library.recurrent`, each a contract.

Without a normalizer the reference is torch's layer with the same weights, with layer normalization our reference loop.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import normbench
from normbench import NormbenchError, load_torch
from normbench.norms import kernel

KINDS = ("LSTM", "GRU")
NORMS = ("none", "layer")


class Plain(nn.Module):
    """A layer of ours by its definition."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *given: Any) -> Any:
        with kernel.using("loop"):
            return self.layer(*given)


def pair(kind: str, norm: str, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    ours = getattr(normbench, kind)(3, 4, norm, bias=True, **options).double()
    if norm != "none":
        return ours, Plain(copy.deepcopy(ours))
    theirs = getattr(nn, kind)(3, 4, **({"batch_first": True} | options)).double()
    load_torch(ours, theirs)
    return ours, theirs


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def tensors(found: Any) -> list[Tensor]:
    """Outputs and states of a layer, or whatever else it gives, in a row."""
    if isinstance(found, PackedSequence):
        return [found.data]
    return [found] if isinstance(found, Tensor) else [tensor for part in found for tensor in tensors(part)]


def hessian(layer: Any, x: Tensor) -> Any:
    return torch.autograd.functional.hessian(lambda v: layer(v)[0].sum(), x)


def hvp(layer: Any, x: Tensor) -> Any:
    return torch.autograd.functional.hvp(lambda v: layer(v)[0].sum(), x, torch.ones_like(x))


def jvp(layer: Any, x: Tensor) -> Any:
    return torch.autograd.functional.jvp(lambda v: layer(v)[0], x, torch.ones_like(x))


def penalty(layer: Any, x: Tensor) -> Any:
    """The gradient of x by a loss with a penalty on a gradient in it."""
    x = x.clone().requires_grad_()
    loss = layer(x)[0].square().sum()
    (d,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    return torch.autograd.grad(loss + 10 * d.square().sum(), x)


def func_grad(layer: Any, x: Tensor) -> Any:
    return torch.func.grad(lambda v: layer(v)[0].square().sum())(x)


def func_hessian(layer: Any, x: Tensor) -> Any:
    """As `hessian`: torch's layer has no batching rule."""
    if isinstance(layer, nn.RNNBase):
        return hessian(layer, x)
    return torch.func.hessian(lambda v: layer(v)[0].sum())(x)


def forward_derivative(layer: Any, x: Tensor) -> Any:
    """As `jvp`: torch's layer has no forward derivative."""
    if isinstance(layer, nn.RNNBase):
        return jvp(layer, x)
    return torch.func.jvp(lambda v: layer(v)[0], (x,), (torch.ones_like(x),))


def in_place(layer: Any, x: Tensor) -> Any:
    """Outputs that are changed in place are changed, and gradients are as if they had been copied."""
    x = x.clone().requires_grad_()
    outputs, _ = layer(x)
    outputs[1, 2:] = 0
    outputs *= 2
    nn.functional.relu(outputs, inplace=True)
    return outputs, *torch.autograd.grad(outputs.square().sum(), x)


def in_place_without_gradients(layer: Any, x: Tensor) -> Any:
    outputs, _ = copy.deepcopy(layer).requires_grad_(False)(x)
    outputs += nn.Parameter(torch.ones_like(outputs))
    return outputs


def empty_batch(layer: Any, x: Tensor) -> Any:
    x = x[:0].clone().requires_grad_()
    found = layer(x)
    found[0].sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in layer.parameters())
    return found, x.grad


def packed(layer: Any, x: Tensor) -> Any:
    """A layer gives as many outputs as it takes, in their order."""
    found = []
    for lengths in ((5, 3, 3), (2, 5, 2)):
        given = pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted=lengths[0] == 5)
        outputs, state = layer(given)
        assert outputs.data.shape[0] == given.data.shape[0] and torch.equal(outputs.batch_sizes, given.batch_sizes)
        found += [outputs, state, pad_packed_sequence(outputs, True)[0]]
    return found


def states(layer: Any, x: Tensor) -> Any:
    """The state as second argument, a tuple of an LSTM."""
    h = draw(1, 3, 4)
    return layer(x, h if "GRU" in str(layer) else (h, h.sin()))


def copies(layer: Any, x: Tensor) -> Any:
    layer(x)[0].sum().backward()
    other = copy.deepcopy(layer)
    other.load_state_dict(layer.state_dict())
    return copy.deepcopy(layer)(x), pickle.loads(pickle.dumps(layer))(x), other(x)


def compiled(layer: Any, x: Tensor) -> Any:
    torch._dynamo.reset()
    return torch.compile(layer, backend="eager")(x) if not isinstance(layer, Plain) else layer(x)


def traced(layer: Any, x: Tensor) -> Any:
    return torch.jit.trace(layer, (x,), check_trace=False)(x.flip(0))


def exported(layer: Any, x: Tensor, strict: bool = False) -> Any:
    return torch.export.export(layer, (x,), strict=strict).module()(x.flip(0))


def strictly_exported(layer: Any, x: Tensor) -> Any:
    return exported(layer, x, strict=True)


def checkpointed(layer: Any, x: Tensor) -> Any:
    x = x.clone().requires_grad_()
    outputs, _ = checkpoint(layer, x, use_reentrant=False)
    return outputs, *torch.autograd.grad(outputs.square().sum(), x)


ROWS: tuple[Callable[[Any, Tensor], Any], ...] = (
    *(hessian, hvp, jvp, penalty, func_grad, func_hessian, forward_derivative),
    *(in_place, in_place_without_gradients, empty_batch, packed, states),
    *(copies, traced, checkpointed),
)
SLOW_ROWS = (compiled, exported, strictly_exported)


@pytest.mark.thinned(2)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "row", [*ROWS, *(pytest.param(row, marks=pytest.mark.slow) for row in SLOW_ROWS)], ids=lambda row: row.__name__
)
def test_it_does_as_torchs(row: Callable[[Any, Tensor], Any], kind: str, norm: str) -> None:
    ours, reference = pair(kind, norm)
    found, wanted = (tensors(row(layer, draw(3, 5, 3))) for layer in (ours, reference))
    assert len(found) == len(wanted) and (row is empty_batch or any(tensor.any() for tensor in wanted))
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_vmap_is_the_batch(kind: str, norm: str) -> None:
    ours, _ = pair(kind, norm)
    x = draw(3, 5, 3)
    each = torch.func.vmap(lambda one: ours(one[None])[0][0])(x)
    torch.testing.assert_close(each, ours(x)[0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_low_precision_keeps_the_inputs_type(kind: str, norm: str) -> None:
    ours, _ = pair(kind, norm)
    x = draw(3, 5, 3)
    wanted = ours(x)[0].detach()
    for dtype in (torch.bfloat16, torch.float16):
        layer = copy.deepcopy(ours).to(dtype)
        found = layer(x.to(dtype))
        found[0].sum().backward()
        assert {tensor.dtype for tensor in tensors(found)} == {dtype}
        torch.testing.assert_close(found[0].double(), wanted, rtol=0, atol=0.1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_autocast_makes_products_in_its_type(kind: str, norm: str) -> None:
    ours, _ = pair(kind, norm)
    x, single = draw(3, 5, 3).float(), copy.deepcopy(ours).float()
    with torch.autocast("cpu", torch.bfloat16):
        for given in (x, x.bfloat16()):
            outputs, _ = single(given)
            outputs.sum().backward()
            assert outputs.dtype == torch.float32
            assert 0 < (outputs - ours(x.double())[0]).abs().max() < 0.1
    assert all(p.grad is not None and p.grad.isfinite().all() for p in single.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_counter_of_operations_sees_all_steps(kind: str) -> None:
    ours, _ = pair(kind, "none")
    with FlopCounterMode(display=False) as counter:
        ours(draw(3, 5, 3))
    assert counter.get_total_flops() == 2 * 3 * 5 * ours.cell.gates * 4 * (3 + 4)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("norm", [*NORMS, "rms", "weight", "group", {"name": "batch", "stats": "per_step"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["", "aten", "loop"])
def test_what_stands_at_padding_counts_nowhere(backend: str, kind: str, norm: Any) -> None:
    torch.manual_seed(0)
    layer = getattr(normbench, kind)(3, 4, norm, num_layers=2, bidirectional=True).double()
    mask = torch.arange(5) < torch.tensor([5, 3, 4])[:, None]
    seen = []
    for value in (0.0, torch.nan, torch.inf, 1e300):
        x = draw(3, 5, 3)
        x[~mask] = value
        x.requires_grad_()
        layer.zero_grad()
        with kernel.using(backend):
            outputs, _ = layer(x, mask)
            outputs.square().sum().backward()
        assert x.grad is not None and x.grad.isfinite().all()
        seen.append([outputs, x.grad[mask], *(p.grad for p in layer.parameters())])
    for other in seen[1:]:
        torch.testing.assert_close(other, seen[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_at_padding_of_single_steps_counts_nowhere(kind: str) -> None:
    ours, _ = pair(kind, "layer")
    grads = []
    for value in (0.0, torch.nan):
        ours.zero_grad()
        steps, state = ours.steps(3), ours.cells[0].initial(3)
        for t in range(4):
            mask, x = torch.tensor([True, t < 2, False]), draw(3, 3)
            x[~mask] = value
            state = steps(x, state, mask)
        state[0].square().sum().backward()
        grads.append([p.grad for p in ours.parameters()])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_teaches_nothing(kind: str) -> None:
    layer = getattr(normbench, kind)(3, 4, {"name": "batch", "stats": "per_step"}, num_layers=2, bidirectional=True)
    before = copy.deepcopy(layer.state_dict())
    outputs, _ = layer(torch.zeros(0, 5, 3), torch.ones(0, 5, dtype=torch.bool))
    assert outputs.shape == (0, 5, 8)
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"batch_first": False, "num_layers": 2},
        {"num_layers": 3, "bidirectional": True},
        {"num_layers": 3, "dropout": 0.5},
        {"num_layers": 2, "dropout": 1.0, "bidirectional": True},
    ],
    ids=str,
)
def test_options_have_torchs_meaning(kind: str, options: dict[str, Any]) -> None:
    theirs = getattr(nn, kind)(3, 4, **({"batch_first": True} | options)).double()
    for update in ("new", "old") if kind == "GRU" else (None,):
        ours = getattr(normbench, kind)(3, 4, **({"bias": True} | options | ({"update": update} if update else {})))
        load_torch(ours.double(), theirs)
        found = []
        for layer in (ours, theirs):
            torch.manual_seed(2)
            found.append(layer(draw(3, 5, 3)))
        for one, two in zip(*map(tensors, found), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)
        assert ours.eval()(draw(3, 5, 3))[0].shape == found[1][0].shape


def test_time_first_is_also_the_masks() -> None:
    first, last = (normbench.LSTM(3, 4, "layer", batch_first=value) for value in (True, False))
    last.load_state_dict(first.state_dict())
    x, mask = draw(3, 5, 3).float(), torch.arange(5) < torch.tensor([5, 2, 3])[:, None]
    torch.testing.assert_close(last(x.transpose(0, 1), mask.T)[0].transpose(0, 1), first(x, mask)[0])
    for wrong in ((x.transpose(0, 1), mask), (x[:, :0].transpose(0, 1),)):
        with pytest.raises(NormbenchError):
            last(*wrong)


def test_what_torch_has_and_ours_has_not_is_one_line() -> None:
    packed = pack_padded_sequence(draw(3, 5, 3), torch.tensor([5, 3, 2]), True)
    lstm, gru = nn.LSTM(3, 4), nn.GRU(3, 4)
    for call in (
        lambda: normbench.LSTM(3, 4, proj_size=2),
        lambda: normbench.LSTM(3, 4, dropout=1.5),
        lambda: normbench.LSTM(3, 4)(draw(3, 5, 3).numpy()),
        lambda: normbench.LSTM(3, 4).double()(draw(3, 5, 3), [5, 3, 2]),
        lambda: normbench.LSTM(3, 4).double()(packed, torch.ones(3, 5, dtype=torch.bool)),
        lambda: load_torch(normbench.LSTM(3, 4), gru),
        lambda: load_torch(normbench.LSTM(3, 4), nn.LSTM(3, 4, proj_size=2)),
        lambda: load_torch(normbench.LSTM(3, 4), nn.LSTM(3, 5)),
        lambda: load_torch(normbench.LSTM(3, 4), nn.LSTM(3, 4, bidirectional=True)),
        lambda: load_torch(normbench.LSTM(3, 4, "layer"), lstm),
        lambda: load_torch(normbench.LSTM(3, 4, learn_h0=True), lstm),
        lambda: load_torch(normbench.LSTM(3, 4, forget_bias=1.0), lstm),
        lambda: load_torch(normbench.LSTM(3, 4, scaled=True), lstm),
        lambda: load_torch(normbench.LSTM(3, 4, bias=False), lstm),
        lambda: load_torch(normbench.GRU(3, 4), gru),
        lambda: load_torch(normbench.GRU(3, 4, bias="one"), gru),
        lambda: load_torch(normbench.LSTM(3, 4, "weight"), lstm),
        lambda: load_torch(nn.Identity(), gru),
        lambda: load_torch(normbench.LSTM(3, 4), nn.Identity()),
    ):
        with pytest.raises(NormbenchError):
            call()


@pytest.mark.parametrize(("ours", "theirs"), [(normbench.LSTM, nn.LSTM), (normbench.GRU, nn.GRU)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_code_around_torchs_layers_reads_their_attributes(ours: type, theirs: type, bias: bool, bidirectional: bool):
    options = {"num_layers": 2, "bidirectional": bidirectional, "bias": bias, "dropout": 0.1, "batch_first": True}
    one, other = ours(4, 6, **options), theirs(4, 6, **options)
    for name in ("input_size", "hidden_size", "proj_size", *options):
        assert getattr(one, name) == getattr(other, name), name
    one.flatten_parameters()
