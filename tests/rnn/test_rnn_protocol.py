"""What every backend keeps to: the signatures of the protocol, and what its docstrings say."""

from __future__ import annotations

import inspect

import pytest
import torch
from cases import FAST, draw, lengths, make
from torch import Tensor

from normbench.rnn.backends import BACKENDS
from normbench.rnn.matmul import Projection
from normbench.rnn.plan import Backend, Recurrence, Vectors, plan, vectors

METHODS = [name for name, member in vars(Backend).items() if inspect.isfunction(member) and name[0] != "_"]
SITES = {"lstm": ("input", "hidden", "cell"), "gru": ("input", "hidden")}
T, B, H = 5, 3, 4


@pytest.mark.parametrize("name", BACKENDS)
def test_signatures_are_the_protocols(name: str) -> None:
    assert {"prepare", "forward_all", "backward", "dz", "finish"} <= set(METHODS)
    for method in ("__init__", *METHODS):
        declared, ours = (inspect.signature(getattr(of, method)) for of in (Backend, BACKENDS[name]))
        assert ours == declared, method
    assert all(inspect.getdoc(getattr(Backend, method)) for method in METHODS)
    assert isinstance(BACKENDS[name].overwrites, bool)


def arguments(kind: str, masked: bool) -> tuple[Recurrence, Tensor]:
    """A cell's recurrence, and its weight; the same numbers every time."""
    layer = make(kind, 2, H, dict.fromkeys(SITES[kind], "layer"))
    (cell,) = layer.cells
    h, c = draw(T + 1, B, H, seed=1), draw(T + 1, B, H if kind == "lstm" else 0, seed=2)
    detached = Vectors(*(v.detach().contiguous() for v in vectors(cell)))
    mask = lengths(B, T).T.contiguous() if masked else None
    planned = plan(cell)
    assert planned is not None
    return Recurrence(planned, detached, draw(T, B, layer.cell.gates * H), h, c, mask), cell.weight_hh.detach()


def forward(run: Backend, given: Recurrence, weight: Tensor, at_once: bool = False, one_by_one: bool = False) -> bool:
    """Whether it was done: of one that makes no steps at once, only if it need not."""
    projection, h = Projection(weight, None), given.h
    if not one_by_one:
        run.prepare(slice(0, T))
    if at_once:
        return run.forward_all(projection)
    for t in range(T):
        if one_by_one:
            run.prepare(slice(t, t + 1))
        run.forward(t, h[t] @ weight.T)  # which lies elsewhere than in run.u
    return True


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("masked", [False, True])
def test_all_steps_at_once_are_the_steps(backend: str, kind: str, masked: bool) -> None:
    """Forward and backward, with and without what a backward pass needs; false says that nothing was done."""
    found: list[list[Tensor]] = []
    for keep, at_once in ((True, False), (False, False), (True, True), (False, True)):
        given, weight = arguments(kind, masked)
        before = given.h.clone()
        run = BACKENDS[backend](given._replace(keep=keep))
        if not forward(run, given, weight, at_once):
            assert torch.equal(given.h, before)
            continue
        assert run.u.shape == given.z.shape
        found.append([given.h, given.c])
        if keep:
            back = BACKENDS[backend](given._replace(saved=run.saved()))
            back.begin(draw(T, B, H, seed=3), draw(*given.c[0].shape, seed=4), draw(B, H, seed=5))
            dh, projection = draw(B, H, seed=6), Projection(weight, None)
            assert not at_once or back.backward_all(projection, dh)
            for t in reversed(range(0 if at_once else T)):
                back.backward(t, dh)
                dh = back.du[t] @ weight
            got = back.finish()
            assert got.u.data_ptr() == back.du.data_ptr()
            assert got.z.shape == given.z.shape == got.u.shape and len(got.vectors) == len(given.vectors)
            assert [v.shape for v in got.vectors] == [v.shape for v in given.vectors]
            found[-1] += [got.z, got.u, *got.vectors, dh, back.dc, back.carry]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=False):  # those that keep nothing have no gradients
            torch.testing.assert_close(two, one, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", SITES)
def test_steps_that_are_prepared_one_by_one_are_the_sequence(backend: str, kind: str) -> None:
    """And those that do not come back count as zero, where not every one is announced."""
    got = []
    for one_by_one in (False, True):
        given, weight = arguments(kind, False)
        run = BACKENDS[backend](given)
        forward(run, given, weight, one_by_one=one_by_one)
        if not one_by_one:
            run = BACKENDS[backend](given._replace(saved=run.saved()))
        zero = torch.zeros(B, H, dtype=torch.float64)
        run.begin(torch.zeros(T, B, H, dtype=torch.float64), torch.zeros_like(given.c[0]), zero, every=False)
        rows = []
        for t in (2, 1, 0):
            run.backward(t, draw(B, H, seed=t))
            rows += [run.dz(t).clone()] if one_by_one else []
        found = run.finish()
        assert all(torch.equal(found.z[t], row) for t, row in zip((2, 1, 0), rows, strict=False))
        got.append([found.z[:3], found.u[:3], *found.vectors, run.dc, run.carry])
    torch.testing.assert_close(got[1], got[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", SITES)
def test_what_is_overwritten_is_restored(backend: str, kind: str) -> None:
    given, weight = arguments(kind, False)
    z = given.z.clone()
    run = BACKENDS[backend](given)
    forward(run, given, weight)
    saved, products = run.saved(), given.h[:-1] @ weight.T
    gradients = []
    for turn in range(2):
        back = BACKENDS[backend](given._replace(saved=saved))
        if turn and back.overwrites:
            back.restore(z, products)
        back.begin(draw(T, B, H, seed=3), torch.zeros_like(given.c[0]), torch.zeros(B, H, dtype=torch.float64))
        for t in reversed(range(T)):
            back.backward(t, draw(B, H, seed=t))
        gradients.append(back.finish().u.clone())
        assert torch.equal(given.z, z) != back.overwrites
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-11)
