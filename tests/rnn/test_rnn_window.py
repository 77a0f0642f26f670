"""The window that moves along a text: the formulas, the kernel, gradients, places far off; bounded derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from cases import FAST, draw
from reference import handwriting as reference

from normbench.errors import NormbenchError
from normbench.norms import kernel
from normbench.norms.derivatives import clipped
from normbench.rnn import window
from normbench.rnn.layers import LSTM

LIST = pytest.mark.parametrize("backend", FAST)
SYMBOLS = 5


def made(n: int, lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor, window.Text]:
    """Numbers, places, and texts of these lengths, in which letters come more than once."""
    letters = torch.arange(max(lengths)).repeat(len(lengths), 1) * 3 % SYMBOLS
    given, places = 0.7 * draw(len(lengths), 3 * n), 2 * draw(len(lengths), n, seed=1).abs()
    return given.requires_grad_(), places.requires_grad_(), window.Text(letters, torch.tensor(lengths), SYMBOLS)


@LIST
@pytest.mark.parametrize(("n", "lengths"), [(1, [1]), (2, [7, 3]), (10, [33, 60, 1])])
@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_the_window_is_the_formulas(backend: str, n: int, lengths: list[int], shift: float) -> None:
    given, places, text = made(n, lengths)
    with kernel.using(backend):
        seen, after = window.step(given, places, text, shift)
    phi = window.weights(given, after, max(lengths))
    for b, length in enumerate(lengths):
        letters = text.letters[b, :length].tolist()
        wanted = reference.window(given[b].tolist(), places[b].tolist(), letters, SYMBOLS, shift)
        for ours, theirs in zip((seen[b], after[b], phi[b, :length]), wanted, strict=True):
            np.testing.assert_allclose(ours.detach(), theirs, rtol=1e-12, atol=1e-12)


@LIST
def test_gradients_of_the_window(backend: str) -> None:
    given, places, text = made(3, [7, 4])
    with kernel.using(backend):
        assert torch.autograd.gradcheck(lambda g, p: window.step(g, p, text, -1.0), (given, places))
        assert torch.autograd.gradgradcheck(lambda g, p: window.step(g, p, text, -1.0), (given, places))


@LIST
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_window_far_off_is_finite_and_its_logarithms_are_bounded(backend: str, dtype: torch.dtype) -> None:
    far = torch.tensor([[88.0, 0, 0], [0, 88, 0], [0, 0, 88], [-88, -88, -88], [400, 400, 400]], dtype=dtype)
    text = window.Text(torch.zeros(5, 4, dtype=torch.int64), torch.full((5,), 4), 2)
    given, places = far.clone().requires_grad_(), torch.zeros(5, 1, dtype=dtype, requires_grad=True)
    with kernel.using(backend):
        seen, after = window.step(given, places, text, -3.0)
        (seen.sum() + after.sum()).backward()
        shifted = far + torch.tensor([0, 0, -3.0], dtype=dtype)
        inside = shifted.clamp(-window.BOUND, window.BOUND) + torch.tensor([0, 0, 3.0], dtype=dtype)
        torch.testing.assert_close(window.step(inside, places, text, -3.0), (seen, after))
    for tensor in (seen, after, given.grad, places.grad):
        assert tensor is not None and torch.isfinite(tensor).all()
    assert given.grad is not None and (given.grad[shifted.abs() > window.BOUND] == 0).all()


@LIST
def test_what_is_no_number_stays_none(backend: str) -> None:
    given, places, text = (t.detach() if isinstance(t, torch.Tensor) else t for t in made(2, [3, 3]))
    given[0, 0] = torch.nan
    with kernel.using(backend):
        seen, _ = window.step(given, places, text, 0.0)
    assert seen[0, text.letters[0]].isnan().all() and torch.isfinite(seen[1]).all()


def test_a_number_of_no_symbol_is_refused() -> None:
    for wrong in (SYMBOLS, -1):
        letters = torch.tensor([[0, wrong]])
        with pytest.raises(NormbenchError, match="symbols are numbered 0 to 4"):
            window.Text.of(letters, letters > -2, SYMBOLS)


@pytest.mark.parametrize("backend", [*FAST, "loop"])
@pytest.mark.parametrize("bound", [0.05, 1e6])
@pytest.mark.parametrize("steps", [False, True])
def test_the_gates_derivatives_are_bounded_as_they_go_back(backend: str, bound: float, steps: bool) -> None:
    """Of a batch's mean: each row's own derivatives, held to the bound, then divided by the rows."""
    layer = LSTM(3, 4, clip=bound).double()
    x, dout = draw(2, 9, 3), 3 * draw(2, 9, 4, seed=1)
    x.requires_grad_()
    with kernel.using(backend):
        if steps:
            run, state, outputs = layer.steps(2, count=9), layer.cells[0].initial(2), []
            for part in x.unbind(1):
                state = run(part, state)
                outputs.append(state[0])
            y = torch.stack(outputs, 1)
        else:
            y, _ = layer(x)
        (y * dout).sum((1, 2)).mean().backward()
    cell = layer.cells[0]
    p = {name: getattr(cell, name).detach().numpy() for name in ("weight_ih", "weight_hh", "bias")}
    rows = [reference.clipped_gradient(p, x[b].detach().numpy(), dout[b].numpy(), bound) for b in range(2)]
    for name in p:
        np.testing.assert_allclose(getattr(cell, name).grad, sum(r[name] for r in rows) / 2, rtol=1e-10, atol=1e-12)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, np.stack([r["x"] for r in rows]) / 2, rtol=1e-10, atol=1e-12)
    unbounded = reference.clipped_gradient(p, x[0].detach().numpy(), dout[0].numpy(), np.inf)
    assert np.allclose(unbounded["x"], rows[0]["x"]) == (bound == 1e6)


def test_bounded_derivatives_of_any_tensor() -> None:
    x = torch.tensor([1.0, -2, torch.nan], requires_grad=True)
    y = clipped(x, 0.5)
    (y * torch.tensor([0.1, -3, 1])).nan_to_num().sum().backward()
    assert torch.equal(y.nan_to_num(), x.nan_to_num()) and x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([0.1, -0.5, 0.0]))
    (z,) = torch.autograd.grad(clipped(x, 0.5).sum(), x, grad_outputs=torch.tensor(torch.nan))
    assert z.isnan().all()


def test_a_bound_below_zero_is_refused() -> None:
    with pytest.raises(NormbenchError, match=r"lstm: clip=-1\.0 must be a finite number, at least 0"):
        LSTM(3, 4, path="lstm", clip=-1.0)


@pytest.mark.parametrize("value", ["a", None, True, float("nan")])
def test_options_of_a_cell_that_are_no_numbers_are_refused(value: Any) -> None:
    with pytest.raises(NormbenchError, match=f"lstm: forget_bias={value!r} must be a finite number"):
        LSTM(3, 4, path="lstm", forget_bias=value)
