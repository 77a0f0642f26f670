"""Recurrent layers follow the device of their tensors, on the meta device, and on CUDA where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from cases import VALID, draw, gradients, lengths, make, near
from devices import needs_cuda

from normbench.errors import NormbenchError
from normbench.norms import kernel
from normbench.rnn import aten, backends, matmul
from normbench.rnn.embedding import Embedding
from normbench.rnn.plan import Recurrence

SITES = {"lstm": ("input", "hidden", "cell"), "gru": ("input", "hidden"), "rnn": ("input", "hidden", "summed")}


@pytest.fixture
def of_the_cpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What must not be handed another device's memory; asked for at every size."""

    def refused(*_: object) -> None:
        raise AssertionError("this serves the CPU alone")

    monkeypatch.setenv("NORMBENCH_RNN", "")
    monkeypatch.setattr(kernel, "load", refused)
    monkeypatch.setattr(matmul, "onednn", lambda: True)
    monkeypatch.setattr(matmul, "SMALL", 0)
    monkeypatch.setattr(matmul, "HUGE", 0)
    monkeypatch.setattr(matmul, "_madvise", lambda: refused)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", refused, raising=False)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "meta"])
def test_the_kernel_is_for_the_cpu(
    device: str, of_the_cpu_alone: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert backends.current(device) is backends.current(torch.device(device)) is aten.Run
    assert backends.describe(device) == f"ATen; products by torch on {device.split(':')[0]}"
    assert capfd.readouterr().err == ""
    for name, backend in (("aten", aten.Run), ("loop", None)):
        monkeypatch.setenv("NORMBENCH_RNN", name)
        assert backends.current(device) is backend
    monkeypatch.setenv("NORMBENCH_RNN", "c")
    with pytest.raises(NormbenchError, match=rf"NORMBENCH_RNN=c: .* CPU, not on {device}\. Take aten or loop\.$"):
        backends.current(device)


def test_c_asked_for_with_tensors_of_another_device_is_one_clear_line() -> None:
    layer = make("lstm", 5, 4).to("meta")
    with kernel.using("c"):
        for call in (lambda: layer(draw(3, 6, 5).to("meta")), lambda: layer.steps(3)):
            with pytest.raises(NormbenchError, match="NORMBENCH_RNN=c: the C kernel computes on the CPU, not on meta"):
                call()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("norm", ["layer", VALID])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_layers_compute_where_their_tensors_are(
    kind: str, norm: Any, dropout: float, of_the_cpu_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward, whole sequences and step by step; an operand left on the CPU would be refused."""
    taken, prepare = [], aten.Run.prepare
    monkeypatch.setattr(aten.Run, "prepare", lambda run, rows: (taken.append(run.z.device.type), prepare(run, rows)))
    options: dict[str, Any] = {"input_dropout": dropout, "state_dropout": dropout, "learn_h0": True}
    norms = dict.fromkeys(SITES[kind], norm)
    layer = make(kind, 5, 4, norms, bidirectional=True, **options).float().to("meta")
    x, mask = draw(3, 6, 5).float().to("meta"), lengths(3, 6).to("meta")
    found = gradients(layer, x, mask=mask, rng=np.random.default_rng(0))
    assert found["y"].shape == (3, 6, 8) and {value.device.type for value in found.values()} == {"meta"}
    one = make(kind, 5, 4, norms, **options).float().to("meta")
    steps, state = one.steps(3, np.random.default_rng(0)), one.cells[0].initial(3)
    for t in range(3):
        state = steps(x[:, t], state, mask[:, t])
    state[0].sum().backward()
    assert all(p.grad is not None and p.grad.is_meta for p in one.parameters())
    assert set(taken) == ({"meta"} if kind != "rnn" else set())


def test_the_embeddings_gradient_is_where_its_weight_is(of_the_cpu_alone: None) -> None:
    layer = Embedding(300, 3).to("meta")
    layer(torch.zeros(2, 3, dtype=torch.int64, device="meta")).sum().backward()
    assert layer.weight.grad.is_meta


@pytest.mark.parametrize("other", [{"device": "meta"}, {"dtype": torch.float32}])
def test_what_does_not_fit_the_weights_never_reaches_a_backend(
    other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel goes by addresses, and would read and write outside such tensors."""
    handed: set[tuple[torch.device, torch.dtype]] = set()

    def noted(real: Any) -> Any:
        def init(run: Any, recurrence: Recurrence) -> None:
            z, mask = recurrence.z, recurrence.mask
            handed.update((tensor.device, tensor.dtype) for tensor in (z, recurrence.h, recurrence.c))
            handed.update([] if mask is None else [(mask.device, z.dtype)])
            real(run, recurrence)

        return init

    for backend in backends.BACKENDS.values():
        monkeypatch.setattr(backend, "__init__", noted(backend.__init__))
    layer, x, mask, state = make("lstm", 5, 4), draw(3, 6, 5), lengths(3, 6), draw(2, 1, 3, 4)
    calls = [lambda: layer(x.to(**other)), lambda: layer(x, state=tuple(state.to(**other)))]
    calls += [lambda: layer.steps(3)(x[:, 0].to(**other), tuple(state[:, 0]), mask[:, 0])]
    if "device" in other:
        calls += [lambda: layer(x, mask.to(**other)), lambda: layer.steps(3)(x[:, 0], tuple(state[:, 0].to(**other)))]
    for call in calls:
        with pytest.raises((RuntimeError, NotImplementedError)):
            call()
    layer(x, mask)
    assert handed == {(x.device, x.dtype)}


def on(device: str, layer: Any, x: torch.Tensor, mask: torch.Tensor, fed_back: bool) -> dict[str, torch.Tensor]:
    """Outputs, gradients, and the parameters after a step of Adam, on the CPU again."""
    layer, x, mask = layer.to(device), x.to(device), mask.to(device)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    rng = np.random.default_rng(0)
    if fed_back:
        layer.zero_grad()
        steps, state = layer.steps(len(x), rng), layer.cells[0].initial(len(x))
        for t in range(x.shape[1]):
            state = steps(torch.cat([x[:, t], state[0].sin()], 1), state, mask[:, t])
        state[0].square().sum().backward()
        found = {"last": state[0].detach()} | {f"d {n}": p.grad for n, p in layer.named_parameters()}
    else:
        found = gradients(layer, x, mask=mask, rng=rng)
    optimizer.step()
    found |= {f"after {name}": parameter.detach() for name, parameter in layer.named_parameters()}
    assert {value.device.type for value in found.values()} == {torch.device(device).type}
    return {name: value.cpu() for name, value in found.items()}


@pytest.mark.thinned(2)
@needs_cuda
@pytest.mark.parametrize("backend", ["", "aten", "loop"])
@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("norm", ["none", "layer", "rms", VALID])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("fed_back", [False, True])
def test_cuda_is_the_cpu(backend: str, kind: str, norm: Any, dropout: float, fed_back: bool) -> None:
    norms = {} if norm == "none" else dict.fromkeys(SITES[kind], norm)
    results = []
    for device, asked in (("cpu", "loop"), ("cuda", backend)):
        options: dict[str, Any] = {"bidirectional": not fed_back, "input_dropout": dropout, "state_dropout": dropout}
        layer = make(kind, 9 if fed_back else 5, 4, norms, **options)
        with kernel.using(asked):
            results.append(on(device, layer, draw(3, 7, 5), lengths(3, 7), fed_back))
    near(results[1], results[0], tolerance=1e-9)


@needs_cuda
def test_c_asked_for_with_cuda_tensors_is_one_clear_line() -> None:
    layer = make("lstm", 5, 4).cuda()
    with kernel.using("c"), pytest.raises(NormbenchError, match="the C kernel computes on the CPU, not on cuda:0"):
        layer(draw(3, 6, 5).cuda())


@needs_cuda
def test_the_embedding_on_cuda_is_the_cpus() -> None:
    layer, indices = Embedding(300_000, 3), torch.tensor([[1, 7, 1], [0, 299_999, 1]])
    layer(indices).square().sum().backward()
    wanted = layer.weight.grad.clone()
    layer.zero_grad()
    layer.cuda()
    layer(indices.cuda()).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad.cpu(), wanted)
