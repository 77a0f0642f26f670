"""Reading and writing through Gaussian filters: the formulas, the kernel, gradients, windows far off."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import FAST, draw
from devices import has_kernel
from reference import draw as reference

from normbench.norms import kernel
from normbench.rnn import attention

SIZES = [(1, 5), (2, 8), (5, 28), (3, 3)]
LIST = pytest.mark.parametrize("backend", FAST)


def made(n: int, side: int, batch: int = 3) -> tuple[torch.Tensor, ...]:
    """Picture, canvas, window and patch, with gradients but the picture."""
    image = (draw(batch, side * side) > 0).double()
    return image, *(
        t.requires_grad_() for t in (draw(batch, side**2, seed=1), 0.6 * draw(batch, 5, seed=2), draw(batch, n * n))
    )


@LIST
@pytest.mark.parametrize(("n", "side"), SIZES)
def test_read_and_write_are_the_formulas(backend: str, n: int, side: int) -> None:
    image, canvas, given, patch = made(n, side)
    with kernel.using(backend):
        seen, written = attention.read(image, canvas, given, n), attention.write(canvas, patch, given, n)
    for b in range(len(image)):
        x, c = (t[b].detach().view(side, side).numpy() for t in (image, canvas))
        np.testing.assert_allclose(seen[b].detach(), reference.read(x, c, given[b].tolist(), n), rtol=1e-12, atol=1e-12)
        wanted = reference.write(c, patch[b].tolist(), given[b].tolist(), n)
        np.testing.assert_allclose(written[b].detach().view(side, side), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.thinned(1)
@LIST
@pytest.mark.parametrize(("n", "side"), SIZES[:2])
def test_gradients(backend: str, n: int, side: int) -> None:
    image, canvas, given, patch = made(n, side, batch=2)
    with kernel.using(backend):
        for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
            assert check(lambda c, g: attention.read(image, c, g, n), (canvas, given), fast_mode=True)
            assert check(lambda c, p, g: attention.write(c, p, g, n), (canvas, patch, given), fast_mode=True)


@LIST
def test_a_window_far_off_is_finite_and_its_logarithms_are_bounded(backend: str) -> None:
    """As early updates make them: no filter sees anything, nothing overflows, beyond the bound nothing changes."""
    given = torch.tensor(
        [[400.0, -400, 0, -3, 0], [0, 0, 88, 0, 0], [0, 0, 0, 88, 0], [0, 0, 0, -88, -88], [0, 0, 0, 0, 88]]
    )
    image, canvas, _, patch = (t.detach().float() for t in made(3, 8, batch=5))
    for dtype in (torch.float32, torch.float64):
        inputs = [t.detach().to(dtype, copy=True).requires_grad_() for t in (canvas, given, patch)]
        with kernel.using(backend):
            seen = attention.read(image.to(dtype), inputs[0], inputs[1], 3)
            written = attention.write(inputs[0], inputs[2], inputs[1], 3)
        (seen.sum() + written.sum()).backward()
        for tensor in (seen, written, *(t.grad for t in inputs)):
            assert tensor is not None and torch.isfinite(tensor).all()
        assert (seen[0] == 0).all() and torch.equal(written[0], inputs[0][0])
        beyond = given[:, 2:].abs() > attention.BOUND
        grad = inputs[1].grad
        assert grad is not None and (grad[:, 2:][beyond] == 0).all()
        inside = inputs[1].detach().clone()
        inside[:, 2:].clamp_(-attention.BOUND, attention.BOUND)
        with kernel.using(backend):
            torch.testing.assert_close(attention.read(image.to(dtype), inputs[0], inside, 3), seen)


@LIST
def test_what_is_no_number_stays_none(backend: str) -> None:
    image, canvas, given, patch = (t.detach() for t in made(2, 8, batch=2))
    given[0, 3] = torch.nan
    with kernel.using(backend):
        seen, written = attention.read(image, canvas, given, 2), attention.write(canvas, patch, given, 2)
    assert seen[0].isnan().all() and written[0].isnan().any()
    assert torch.isfinite(seen[1]).all() and torch.isfinite(written[1]).all()


def test_arrays_of_any_strides() -> None:
    image, canvas, given, patch = (t.detach() for t in made(2, 8))
    for name in kernel.NAMES:
        if name == "c" and not has_kernel():
            continue
        with kernel.using(name):
            turned = [t.t().contiguous().t() for t in (image, canvas, given, patch)]
            torch.testing.assert_close(attention.read(*turned[:3], 2), attention.read(image, canvas, given, 2))
            ours = attention.write(turned[1], turned[3], turned[2], 2)
            torch.testing.assert_close(ours, attention.write(canvas, patch, given, 2))
