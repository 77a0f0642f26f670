"""What long runs lean on: long sequences, low precision, equal bytes, flat memory, NaN that stays NaN."""

from __future__ import annotations

import ctypes
import math
import statistics
from collections import defaultdict

import pytest
import torch
from cases import FAST, draw, gradients, lengths, make, near
from devices import has_kernel
from torch import nn

from normbench import load_torch
from normbench.norms import kernel
from normbench.rnn.cells import LSTMCell

LAYERED = {
    "lstm": dict.fromkeys(("input", "hidden", "cell"), "layer"),
    "gru": dict.fromkeys(("input", "hidden"), "layer"),
    "rnn": {"summed": "layer"},
}
FUSED = ("layer", "dyt", "derf", "scale")
BACKENDS = ["loop", *FAST]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_thousand_steps(backend: str, kind: str) -> None:
    """Against torch's layer without normalizers, gradients too; with them, finite from end to end."""
    torch.manual_seed(0)
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](3, 4, batch_first=True).double()
    ours = make(kind, 3, 4, **({"bias": "double", "update": "old"} if kind == "gru" else {}))
    load_torch(ours, theirs)
    x = draw(2, 1000, 3)
    with kernel.using(backend):
        y, _ = ours(x)
        y.square().sum().backward()
        wanted, _ = theirs(x)
        wanted.square().sum().backward()
        torch.testing.assert_close(y, wanted, rtol=1e-11, atol=1e-11)
        rows = torch.cat([torch.arange(4) + 4 * gate for gate in ours.cell.torch_order])
        torch.testing.assert_close(ours.cells[0].weight_hh.grad, theirs.weight_hh_l0.grad[rows], rtol=1e-9, atol=1e-9)
        normed = gradients(make(kind, 3, 4, LAYERED[kind]), x)
    assert all(value.isfinite().all() for value in normed.values())


@pytest.mark.parametrize("norm", FUSED)
@pytest.mark.parametrize("scale", [1, 100])
def test_the_kernels_float32_is_as_good_as_torchs(norm: str, scale: int) -> None:
    """Both against float64 at a short T: a long one is chaotic, where correct variants part."""
    norms = dict.fromkeys(LAYERED["lstm"], norm)
    double, single = make("lstm", 16, 32, norms), make("lstm", 16, 32, norms).float()
    errors = defaultdict(list)
    for seed in range(15):  # of one number, as alpha's gradient, luck decides a single error
        x = draw(8, 20, 16, seed=seed) * scale
        wanted = gradients(double, x)
        for backend in ["loop", "aten", *(["c"] if has_kernel() else [])]:
            with kernel.using(backend):
                found = gradients(single, x.float())
            parts = [float((found[k].double() - wanted[k]).abs().max() / wanted[k].abs().max()) for k in wanted]
            errors[backend].append(max(parts))
    usual = {backend: statistics.median(found) for backend, found in errors.items()}
    assert all(error < 3 * usual["loop"] for error in usual.values()) and usual["loop"] < 1e-4, errors


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", LAYERED)
def test_equal_bytes_every_time(backend: str, kind: str) -> None:
    layer = make(kind, 5, 33, LAYERED[kind]).float()
    x, mask = draw(5, 12, 5).float(), lengths(5, 12)
    with kernel.using(backend):
        first, second = (gradients(layer, x, mask=mask) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", LAYERED)
@pytest.mark.parametrize("where", ["input", "weight"])
@pytest.mark.parametrize("norm", FUSED)
def test_nan_goes_through(backend: str, kind: str, where: str, norm: str) -> None:
    """To every later step of that row and to the gradients; to no other row."""
    layer = make(kind, 5, 20, dict.fromkeys(LAYERED[kind], norm)).float()
    x = draw(3, 6, 5).float()
    if where == "input":
        x[1, 2, 0] = math.nan
    else:
        with torch.no_grad():
            layer.cells[0].weight_hh[3, 3] = math.nan
    with kernel.using(backend):
        found = gradients(layer, x)
    if where == "input":
        assert found["y"][1, 2:].isnan().all() and found["y"][1, :2].isfinite().all()
        assert found["y"][[0, 2]].isfinite().all() and found["x"][[0, 2]].isfinite().all()
        assert found["cells.0.weight_hh"].isnan().any()
    else:
        assert found["y"][:, -1].isnan().any(1).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2, 1e4])
def test_saturated_gates_stay_finite(backend: str, scale: float) -> None:
    layer, x = make("lstm", 5, 20), draw(3, 6, 5) * scale
    with kernel.using("loop"):
        wanted = gradients(layer, x)
    layer.float()
    with kernel.using(backend):
        found = gradients(layer, x.float())
    near({k: v.double() for k, v in found.items()}, wanted, tolerance=2e-3)


def resident() -> int:
    """Bytes of this process's pages, without those that the heap keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_stays_flat_over_a_thousand_steps_of_training(backend: str) -> None:
    """Tensors alive and resident pages, after a first part in which allocators fill."""
    layer = make("lstm", 8, 16, LAYERED["lstm"]).float()
    x = draw(4, 5, 8).float()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)

    def train(count: int) -> None:
        for step in range(count):
            if step % 10 == 0:  # the one-step form now and then
                steps, state = layer.steps(4), layer.cells[0].initial(4)
                for t in range(3):
                    state = steps(x[:, t], state)
                loss = state[0].sum()
            else:
                loss = layer(x)[0].square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    with kernel.using(backend):
        train(200)
        before = resident()
        train(1000)
    # a leaked sequence's arrays are 10 kB and more: a thousand of them would show
    assert resident() - before < 4e6


def test_what_a_forward_pass_keeps_is_free_after_the_backward_pass() -> None:
    """Though the loss lives on, as it does in a loop until the next one takes its name."""
    layer = make("lstm", 8, 64, LAYERED["lstm"]).float()
    x = draw(16, 200, 8).float()

    losses = []
    layer(x)[0].sum().backward()
    before = resident()
    for _ in range(10):
        loss = layer(x)[0].sum()
        loss.backward()
        losses.append(loss)
    assert resident() - before < 20e6, "one pass keeps 7 MB and more"


def test_later_steps_than_those_trained_use_the_last_statistics() -> None:
    per_step = ("batch", {"stats": "per_step", "t_max": 5})
    layer = make("lstm", 3, 4, dict.fromkeys(("input", "hidden", "cell"), per_step))
    for seed in range(5):
        layer(draw(8, 5, 3, seed=seed))
    y, _ = layer.eval()(draw(8, 50, 3))
    assert y.isfinite().all()
    cell = layer.cells[0]
    assert isinstance(cell, LSTMCell)
    norm = cell.norm("hidden")
    z = draw(8, 16)
    assert norm is not None
    assert torch.equal(norm.step(z, 4), norm.step(z, 49)) and not torch.equal(norm.step(z, 3), norm.step(z, 4))
