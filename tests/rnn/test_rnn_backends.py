"""Both backends, C kernel and torch's operations, and the reference loop are one function: values and all gradients."""

from __future__ import annotations

import ctypes
import itertools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cases import FAST, PER_STEP, VALID, draw, gradients, lengths, make, near
from devices import has_kernel

from normbench.errors import NormbenchError
from normbench.norms import kernel, modes
from normbench.norms.base import Normalizer
from normbench.norms.batch import BatchNorm
from normbench.norms.context import ForwardContext
from normbench.norms.layer import LayerNorm
from normbench.norms.sites import Choice, Site
from normbench.rnn import aten, backends, native, stepwise
from normbench.rnn.loop import notes
from normbench.rnn.matmul import Packed, Projection, empty, matmul, tall_matmul
from normbench.rnn.plan import plan

NORMS = {
    "lstm": ("input", "hidden", "cell"),
    "gru": ("input.gates", "input.candidate", "hidden.gates", "hidden.candidate"),
}
BIASES = ("one", "double", "inside", "both", "none")
OUT = ("layer", {"eps_mode": "out", "eps": 0.1})


def noted(run: object, real: Any, taken: list[object]) -> Any:
    return lambda self, rows: (taken.append(run), real(self, rows))[1]


@pytest.fixture(autouse=True)
def the_named_backend_is_taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that names a backend must not have taken another."""
    name = request.node.callspec.params.get("backend") if hasattr(request.node, "callspec") else None
    taken: list[object] = []
    for run in backends.BACKENDS.values():
        monkeypatch.setattr(run, "prepare", noted(run, run.prepare, taken))
    infer = native.Run.infer
    monkeypatch.setattr(native.Run, "infer", lambda *given: infer(*given) and taken.append(native.Run) is None)
    yield
    if name is not None:
        assert set(taken) == {backends.BACKENDS[name]}


def both(backend: str, layer: Any, *arguments: Any, **keywords: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    with kernel.using("loop"):
        wanted = gradients(layer, *arguments, **keywords)
    with kernel.using(backend):
        return gradients(layer, *arguments, **keywords), wanted


def rows(kind: str) -> list[dict[str, Any]]:
    """Each kind of normalizer at each site alone and at all, each bias, each option."""
    sites = NORMS[kind]
    found: list[dict[str, Any]] = [{}]
    for norm in ("layer", "rms", OUT, "derf"):
        found += [{"norms": {site: norm}} for site in sites] + [{"norms": dict.fromkeys(sites, norm)}]
    found += [{"norms": dict.fromkeys(sites, norm)} for norm in ("dyt", "scale")]
    found.append({"norms": dict(zip(sites, ("dyt", "scale", "derf", "dyt"), strict=False))})
    mixed = [("rms", {"bias": True, "eps": 0.1}), ("layer", {"eps": 1e-3}), ("layer", {"affine": False}), "rms"]
    found.append({"norms": dict(zip(sites, mixed, strict=False))})
    found.append({"norms": {site: ("layer", {"bias": False}) for site in sites}})
    for bias, layered in itertools.product(BIASES, (False, True)):
        found.append({"bias": bias, "norms": dict.fromkeys(sites, "layer") if layered else {}})
    found.append({"learn_h0": True, **({"update": "old"} if kind == "gru" else {"forget_bias": 1.5})})
    found.append({"norms": dict.fromkeys(("input", "hidden"), "weight")})
    found.append({"norms": {**dict.fromkeys(sites, "layer"), "weight": "weight"}})
    if kind == "lstm":
        found += [{"scaled": True}, {"scaled": True, "norms": {"input": "layer"}}]
        found += [{"clip": 0.3}, {"clip": 0.3, "norms": dict.fromkeys(sites, "layer")}]
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("masked", [False, True])
def test_every_option_is_the_plain_loop(backend: str, kind: str, masked: bool) -> None:
    mask = lengths(3, 6) if masked else None
    for options in rows(kind):
        layer = make(kind, 5, 7, **options)
        for buffer in layer.buffers():  # of the options here a fixed scale alone has one
            buffer.fill_(3.0)
        state = draw(2, 1, 3, 7, seed=4).unbind(0)[: layer.cell.states]
        given = {"mask": mask} if options.get("learn_h0") else {"mask": mask, "state": state}
        near(*both(backend, layer, draw(3, 6, 5), **given))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("mode", ["training", "running", "batch"])
def test_batch_norm_per_step_is_the_plain_loop(backend: str, kind: str, mode: str) -> None:
    """At all sites, at each together with others; steps with one valid row, with none, and beyond t_max."""
    sites, mask = NORMS[kind], lengths(5, 6)
    mask[:2, 4:] = torch.tensor([[True, False], [False, False]])
    cases = [dict.fromkeys(sites, PER_STEP), dict.fromkeys(sites, VALID)]
    cases += [{**dict.fromkeys(sites, "layer"), site: norm} for site in sites for norm in (PER_STEP, VALID)]
    cases += [{**dict.fromkeys(sites, "derf"), site: VALID} for site in sites]
    for norms, padding in itertools.product(cases, (None, mask)):
        results = []
        for name in ("loop", backend):
            options = {"clip": 0.3} if kind == "lstm" and mode == "batch" else {}
            layer = make(kind, 3, 7, norms, **options)
            if mode != "training":
                for at, (_, buffer) in enumerate(layer.eval().named_buffers()):
                    buffer.add_(draw(*buffer.shape, seed=at).square())
                for norm in layer.modules():
                    if isinstance(norm, BatchNorm):
                        norm.forward_context = ForwardContext(variants=({"eval_stats": mode},))
            with kernel.using(name):
                results.append(gradients(layer, draw(5, 6, 3), mask=padding))
                with torch.no_grad():
                    results[-1]["without gradients"], _ = layer(draw(5, 6, 3, seed=1), padding)
            results[-1] |= {name: value for name, value in layer.named_buffers() if "running" in name}
        near(results[1], results[0], tolerance=1e-10)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize(("batch", "steps", "size"), [(1, 1, 1), (1, 9, 4), (5, 1, 16), (2, 3, 33), (4, 40, 8)])
def test_every_shape_is_the_plain_loop(backend: str, kind: str, batch: int, steps: int, size: int) -> None:
    norms = dict.fromkeys(NORMS[kind], "layer")
    layer = make(kind, 3, size, norms, num_layers=2, bidirectional=True)
    near(*both(backend, layer, draw(batch, steps, 3), mask=lengths(batch, steps)), tolerance=1e-10)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("per_gate", [False, True])
@pytest.mark.parametrize("batch", [3, 1])
def test_dropout_is_the_plain_loop(backend: str, kind: str, per_gate: bool, batch: int) -> None:
    layer = make(
        kind, 5, 4, dict.fromkeys(NORMS[kind], "layer"), input_dropout=0.3, state_dropout=0.4, per_gate=per_gate
    )
    x, mask = draw(batch, 6, 5), lengths(batch, 6)
    with kernel.using("loop"):
        wanted = gradients(layer, x, mask=mask, rng=np.random.default_rng(5))
    with kernel.using(backend):
        near(gradients(layer, x, mask=mask, rng=np.random.default_rng(5)), wanted)


def test_onednn_gets_operands_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate's part of a gradient has the other gates' between its rows; oneDNN's reference for that never ends."""
    handed = []

    def recorded(a: torch.Tensor, b: torch.Tensor, *_: object) -> torch.Tensor:
        handed.append(b)
        return a @ b.t()

    monkeypatch.setattr("normbench.rnn.matmul.onednn", lambda: True)
    monkeypatch.setattr("normbench.rnn.matmul.SMALL", 0)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", recorded, raising=False)
    x, d, drop = (draw(*shape).float() for shape in ((6, 3, 5), (6, 3, 8), (4, 3, 5)))
    found = Projection(draw(8, 5).float(), drop).to_weight(d, x)
    wanted = [d[..., 2 * g : 2 * g + 2].flatten(0, 1).T @ (x * drop[g]).flatten(0, 1) for g in range(4)]
    torch.testing.assert_close(found, torch.cat(wanted))
    assert len(handed) == 4 and all(b.is_contiguous() or b.t().is_contiguous() for b in handed)


def fed_back(layer: Any, x: torch.Tensor, mask: torch.Tensor | None, **keywords: Any) -> dict[str, torch.Tensor]:
    """Gradients of a model whose input at t holds its output at t - 1, but at first; only some steps count."""
    layer.zero_grad()
    x, size = x.clone(), layer.hidden_size
    steps, state = layer.steps(len(x), **keywords), layer.cells[0].initial(len(x))
    outputs = []
    for t in range(x.shape[1]):
        inputs = torch.cat([x[:, t], state[0].detach().sin() if t < 2 else state[0].sin()], 1)
        assert inputs.requires_grad == (t >= 2)
        state = steps(inputs, state, None if mask is None or t % 2 else mask[:, t])
        outputs.append(state[0])
    y = torch.stack(outputs[: len(outputs) // 2], 1)
    (y * draw(*y.shape, seed=2)).sum().backward()
    assert y.shape[2] == size
    found = {"y": y.detach(), "last": state[0].detach()}
    return found | {name: p.grad.clone() for name, p in layer.named_parameters() if p.grad is not None}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("masked", [False, True])
def test_steps_with_feedback_are_the_plain_loop(
    backend: str, kind: str, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several chunks of steps, with gradients from the first half of them."""
    monkeypatch.setattr(stepwise, "CHUNK", 3)
    dropped = {"input_dropout": 0.3, "state_dropout": 0.3}
    for batch, options in [*((3, options) for options in rows(kind)), (3, dropped), (1, dropped)]:
        layer = make(kind, 5 + 4, 4, **options)
        x, mask = draw(batch, 10, 5), lengths(batch, 10) if masked else None
        rng = {"rng": np.random.default_rng(3)} if "input_dropout" in options else {}
        with kernel.using("loop"):
            wanted = fed_back(layer, x, mask, **rng)
        rng = {"rng": np.random.default_rng(3)} if rng else {}
        with kernel.using(backend):
            near(fed_back(layer, x, mask, **rng), wanted)


@pytest.mark.parametrize("backend", FAST)
def test_steps_without_gradients_keep_nothing_but_the_state(backend: str) -> None:
    layer = make("lstm", 5, 4, dict.fromkeys(NORMS["lstm"], "layer"))
    x = draw(2, 70, 5)
    with kernel.using(backend), torch.no_grad():
        y, _ = layer(x)
        steps, state = layer.steps(2), layer.cells[0].initial(2)
        for t in range(70):
            state = steps(x[:, t], state)
            torch.testing.assert_close(state[0], y[:, t])
    assert len(steps.fast.chunks) == 1 and len(steps.fast.chunks[0].z) == 1


@pytest.mark.parametrize("backend", FAST)
def test_a_second_backward_pass_over_steps_is_refused(backend: str) -> None:
    layer = make("gru", 5, 4)
    with kernel.using(backend):
        (h,) = layer.steps(2)(draw(2, 5), layer.cells[0].initial(2))
        h.sum().backward(retain_graph=True)
        with pytest.raises(NormbenchError, match="second backward pass over steps"):
            h.sum().backward()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("norm", ["layer", OUT, "scale", "derf", PER_STEP])
def test_gradcheck(backend: str, kind: str, norm: Any) -> None:
    layer = make(kind, 3, 2, dict.fromkeys(NORMS[kind], norm))
    parameters = [p.detach().requires_grad_() for p in layer.parameters()]
    names = [name for name, _ in layer.named_parameters()]
    mask = lengths(2, 3)

    def run(x: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, end = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x, mask))
        return (y, *end) if isinstance(end, tuple) else (y, end)

    with kernel.using(backend):
        assert torch.autograd.gradcheck(run, (draw(2, 3, 3).requires_grad_(), *parameters), fast_mode=True)


def twice(layer: Any, loss: torch.Tensor, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of a loss, those of the sum of their squares, and the statistics that were learned on the way."""
    given = dict(layer.named_parameters()) | {f"input{i}": x for i, x in enumerate(inputs)}
    first = torch.autograd.grad(loss, list(given.values()), create_graph=True, allow_unused=True)
    penalty = sum(d.square().sum() for d in first if d is not None)
    second = torch.autograd.grad(penalty, list(given.values()), allow_unused=True)  # type: ignore[arg-type]
    found = {f"d{name}": d for name, d in zip(given, first, strict=True) if d is not None}
    found |= {f"dd{name}": d for name, d in zip(given, second, strict=True) if d is not None and d.any()}
    return found | {name: buffer.clone() for name, buffer in layer.named_buffers() if "running" in name}


@pytest.mark.thinned(0)
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
def test_second_derivatives_are_the_plain_loops(backend: str, kind: str) -> None:
    dropped = {"input_dropout": 0.3, "state_dropout": 0.3}
    cases = [*rows(kind), dropped, *({"norms": dict.fromkeys(NORMS[kind], norm)} for norm in (PER_STEP, VALID))]
    for options, batch in [*((options, 3) for options in cases), (dropped, 1)]:
        results = []
        for name in ("loop", backend):
            layer, x = make(kind, 5, 4, **options), draw(batch, 6, 5).requires_grad_()
            state = draw(2, 1, batch, 4, seed=4).unbind(0)[: layer.cell.states] if "learn_h0" not in options else None
            with kernel.using(name):
                y, _ = layer(x, lengths(batch, 6), state, np.random.default_rng(3))
                results.append(twice(layer, (y * draw(*y.shape, seed=2)).sum(), x))
        near(results[1], results[0], tolerance=1e-9)
        assert "ddinput0" in results[0], options


@pytest.mark.slow
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
def test_second_derivatives_of_steps_are_the_plain_loops(
    backend: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepwise, "CHUNK", 3)
    for options in rows(kind):
        if "clip" in options:  # a bound on what goes back is no derivative: of sums of parts it is another one
            continue
        layer, x = make(kind, 5, 4, **options), draw(3, 5, 5).requires_grad_()
        results = []
        for name in ("loop", backend):
            with kernel.using(name):
                steps, state, seen = layer.steps(3), layer.cells[0].initial(3), []
                for t, mask in enumerate(lengths(3, 5).unbind(1)):
                    state = steps(x[:, t] + state[0].sum(1, keepdim=True), state, mask if t % 2 else None)
                    seen.append(state[0])
                y = torch.stack(seen)
                results.append(twice(layer, (y * draw(*y.shape, seed=2)).sum(), x))
        near(results[1], results[0], tolerance=1e-9)


@pytest.mark.parametrize("backend", FAST)
def test_second_derivatives_after_a_change_of_mode_are_refused(backend: str) -> None:
    layer = make("lstm", 5, 4, {"hidden": PER_STEP})
    with kernel.using(backend):
        loss = layer(draw(3, 6, 5))[0].sum()
        layer.eval()
        with pytest.raises(NormbenchError, match="between a forward pass and create_graph"):
            torch.autograd.grad(loss, layer.cells[0].weight_hh, create_graph=True)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("hidden", [1, 4])
@pytest.mark.parametrize("norm", [("layer", {"eps_mode": "out"}), "scale", "derf"])
def test_eps_outside_the_root_where_nothing_varies(backend: str, hidden: int, norm: Any) -> None:
    """A cell of one unit never varies, one of zeros not at first: no division by a deviation or a length of zero."""
    layer = make("lstm", 3, hidden, dict.fromkeys(("hidden", "cell"), norm))
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "norms" not in name:
                parameter.zero_()
    near(*both(backend, layer, draw(2, 4, 3)), tolerance=1e-9)  # 1 / eps makes the rounding as much larger
    with kernel.using(backend):
        ours = gradients(layer.float(), draw(2, 4, 3).float())
    assert all(value.isfinite().all() for value in ours.values())


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("norm", ["layer", "derf", PER_STEP])
def test_a_second_backward_pass_is_like_the_first(backend: str, kind: str, norm: Any) -> None:
    layer = make(kind, 5, 4, dict.fromkeys(NORMS[kind], norm), bias="inside")
    with kernel.using(backend):
        x = draw(3, 6, 5).requires_grad_()
        y, _ = layer(x, lengths(3, 6))
        first, second = (
            torch.autograd.grad(y.square().sum(), [x, *layer.parameters()], retain_graph=True) for _ in range(2)
        )
        torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", FAST)
def test_parts_that_need_no_gradient_are_left_out(backend: str) -> None:
    layer = make("lstm", 5, 4, dict.fromkeys(NORMS["lstm"], "layer"))
    x = draw(3, 6, 5)
    whole, _ = both(backend, layer, x)
    for frozen in ("weight_ih", "weight_hh", "bias"):
        layer.zero_grad()
        getattr(layer.cells[0], frozen).requires_grad_(False)
        with kernel.using(backend):
            y, end = layer(x)
            sum((p * draw(*p.shape, seed=i)).sum() for i, p in enumerate((y, *end))).backward()
        for name, parameter in layer.named_parameters():
            assert (parameter.grad is not None) == parameter.requires_grad
            if parameter.requires_grad:
                torch.testing.assert_close(parameter.grad, whole[name])
        getattr(layer.cells[0], frozen).requires_grad_(True)


ISRU = Path(__file__).parents[2] / "examples" / "own_normalizer" / "isru.py"


def own(kind: str, steps: str) -> Any:
    """A layer with a user's element-wise normalizer at some sites, another normalizer at the others."""
    chosen = [("isru", {"file": str(ISRU)}), "layer"]
    return make(
        kind, 9 if steps else 5, 4, {site: chosen[at % 2 if steps else 0] for at, site in enumerate(NORMS[kind])}
    )


@pytest.mark.parametrize("backend", ["aten"])
@pytest.mark.parametrize("kind", NORMS)
def test_a_users_element_wise_normalizer_is_the_plain_loop(
    backend: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several pieces of a sequence, several chunks of steps; first and second derivatives."""
    monkeypatch.setattr(stepwise, "CHUNK", 3)
    monkeypatch.setattr(aten, "AT_ONCE", 3 * 4 * 8)
    for mask in (None, lengths(3, 7)):
        near(*both(backend, own(kind, ""), draw(3, 7, 5), mask=mask))
        results = []
        for name in ("loop", backend):
            with kernel.using(name):
                results.append(fed_back(own(kind, "steps"), draw(3, 7, 5), mask))
                layer, x = own(kind, ""), draw(3, 6, 5).requires_grad_()
                results[-1] |= twice(layer, (layer(x)[0] * draw(3, 6, 4, seed=2)).sum(), x)
                with torch.no_grad():
                    results[-1]["without gradients"], _ = layer(draw(3, 6, 5), lengths(3, 6))
        near(results[1], results[0], tolerance=1e-9)
    assert any(name.endswith("alpha") for name in results[1])


@pytest.mark.parametrize(
    ("forward", "held"),
    [
        (lambda x, mask: x.tanh(), True),
        (lambda x, mask: x - x.mean(-1, keepdim=True), False),  # other features
        (lambda x, mask: x - x.roll(1, -1) * 1e-3, False),
        (lambda x, mask: x / (1 + x.square().mean(0)).sqrt(), False),  # other rows
        (lambda x, mask: torch.nn.functional.dropout(x), False),
        (lambda x, mask: x.tanh_(), False),  # the input is changed
        (lambda x, mask: x if mask is None else x * mask[..., None], False),
        (lambda x, mask: x[..., :1], False),
    ],
)
def test_what_is_element_wise_is_measured(forward: Any, held: bool) -> None:
    class Own(Normalizer):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            y: torch.Tensor = forward(x, mask)
            return y

    site = Site("own", ("state",), ("batch", "time", "feature"), 6)
    norm = Own(site)
    assert (norm.fused() is not None) == held
    with modes.inference(norm):
        assert norm.fused() is not None or not held
    norm = Own(site)
    norm.register_buffer("calls", torch.zeros(()))
    assert norm.fused() is None


def test_a_normalizer_that_the_kernel_lacks_is_noted() -> None:
    kinds = {"lstm.input": "pre_activation", "lstm.hidden": "state", "words": "pre_activation"}
    sites = {p: {"kinds": [kind], "axes": ["batch", "time", "feature"], "features": 6} for p, kind in kinds.items()}
    config = {"model": {"name": "own", "declares": {"sites": sites}}}
    kernels = [(name, "", []) for name in ("layer", "dyt", "derf", "scale")]
    for name, file, ways in (*kernels, ("group", "", ["plain loop"]), ("isru", str(ISRU), ["torch's"])):
        choice = Choice(name, "state", {}, True, False, 1, file)
        found = notes(config, dict.fromkeys(sites, choice))
        assert [way in note for way, note in zip(ways, found, strict=True)] == [True for _ in ways]
        assert notes(config, {"words": choice}) == []


def test_a_subclass_with_a_forward_of_its_own_is_not_computed_as_its_base() -> None:
    class Own(LayerNorm):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return super().forward(x, mask) * 2

    site = Site("own", ("state",), ("batch", "time", "feature"), 6)
    assert LayerNorm(site).fused() is not None and Own(site).fused() is None


@pytest.mark.parametrize("kind", NORMS)
def test_what_the_backends_cannot_do_goes_the_plain_way(kind: str) -> None:
    unbiased, pooled = ("batch", PER_STEP[1] | {"unbiased_norm": True}), ("batch", {"stats": "sequence"})
    others = ["group", ("layer", {"scale": "inverse_root_d"}), ("rms", {"p": 0.5}), unbiased, pooled]
    for norms in ({"hidden": norm} for norm in others):
        assert plan(make(kind, 5, 4, norms).cells[0]) is None
    assert plan(make(kind, 5, 4).bfloat16().cells[0]) is None
    single = make(kind, 5, 4, {"hidden": PER_STEP})
    assert plan(single.cells[0]) is not None
    with pytest.raises(NormbenchError, match="met one value per feature"):
        single(draw(1, 6, 5))
    layer = make(kind, 5, 4, {"hidden": "layer"})
    assert plan(layer.cells[0]) is not None
    seen: list[torch.Size] = []
    norm = next(m for name, m in layer.named_modules() if name.endswith("norms.hidden" + "_gates" * (kind == "gru")))
    norm.register_forward_hook(lambda module, arguments, output: seen.append(output.shape))
    layer(draw(3, 6, 5))
    assert len(seen) == 6, "a hook sees every step"


@pytest.mark.parametrize("shape", [(3, 5, 7), (8, 400, 1600), (200, 100, 300), (3000, 20, 40)])
def test_products_are_torchs(shape: tuple[int, int, int]) -> None:
    """On both sides of the size where another library may make them, in float32 where it may."""
    rows, depth, columns = shape
    a, b = draw(rows, depth), draw(depth, columns, seed=1)
    torch.testing.assert_close(matmul(a.float(), b.float()), (a @ b).float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(matmul(a.float(), b.t().contiguous().float().t()), (a @ b).float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tall_matmul(a.float(), b.float()), (a @ b).float(), rtol=1e-4, atol=1e-4)
    d = draw(1, rows, columns, seed=2)
    torch.testing.assert_close(Projection(b.t(), None).to_weight(d, a[None]), d[0].t() @ a)
    assert empty(a, 3, 4).shape == (3, 4) and empty(a, 1 << 20).dtype == a.dtype


@pytest.mark.skipif(not has_kernel(), reason="there is no C compiler here")
@pytest.mark.parametrize("columns", [1, 15, 16, 47, 48, 97])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 300])
@pytest.mark.parametrize("depth", [1, 511, 513])
def test_products_of_the_kernel_are_torchs(rows: int, depth: int, columns: int) -> None:
    """At the edges of its tiles and blocks; nothing is written beyond the result."""
    a, b, room = draw(rows, depth), draw(columns, depth, seed=1), draw(rows + 1, columns, seed=2)
    for real in (torch.float32, torch.float64):
        out = room.to(real)
        for matrix in (b.to(real).t(), b.to(real).t().contiguous()):
            Packed(matrix).matmul(a.to(real), out[:rows])
            close = 1e-3 if real == torch.float32 else 1e-11
            torch.testing.assert_close(out[:rows].double(), a @ b.t(), rtol=close, atol=close)
            assert torch.equal(out[rows], room[rows].to(real))


@pytest.mark.skipif(not has_kernel(), reason="there is no C compiler here")
def test_what_is_fetched_ahead_changes_no_bit() -> None:
    a, packed = draw(9, 70), Packed(draw(70, 100, seed=1))
    fetched = ctypes.c_int64.in_dll(kernel.load(), "step_fetched")
    before, products = fetched.value, []
    for fetched.value in (0, 1 << 40, before):
        products.append(packed.matmul(a))
    assert torch.equal(products[0], products[1]) and torch.equal(products[0], products[2])


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("norm", ["layer", "derf", PER_STEP])
def test_large_weights_go_step_by_step(backend: str, kind: str, norm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cache does not hold is not for the kernel's own products, where others may be the faster ones."""
    monkeypatch.setattr(native, "CACHED", 0)
    monkeypatch.setattr(native.Run, "packs", lambda: False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    layer = make(kind, 5, 7, dict.fromkeys(NORMS[kind], norm))
    near(*both(backend, layer, draw(3, 6, 5), mask=lengths(3, 6)))
    with torch.no_grad(), kernel.using("loop"):
        wanted, _ = layer(draw(3, 6, 5))
    with torch.no_grad(), kernel.using(backend):
        for cached in (0, 1 << 22):
            monkeypatch.setattr(native, "CACHED", cached)
            torch.testing.assert_close(layer(draw(3, 6, 5))[0], wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("norm", ["none", "layer", "derf", VALID])
def test_parts_of_a_sequence_are_the_whole(backend: str, kind: str, norm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no backward pass comes, the input's products need not all be there at once."""
    layer, mask = make(kind, 5, 7, dict.fromkeys(NORMS[kind], norm)), lengths(3, 6)
    with torch.no_grad(), kernel.using(backend):
        wanted, _ = layer(draw(3, 6, 5), mask)
        monkeypatch.setattr(Projection, "at_once", lambda projection, x: 4)
        monkeypatch.setattr(native, "IN_CACHE", 4 * draw(3, 7 * layer.cell.gates).nbytes)  # four steps of three rows
        torch.testing.assert_close(layer(draw(3, 6, 5), mask)[0], wanted, rtol=1e-12, atol=1e-12)
        apart = draw(3, 6, 10)[:, :, ::2]  # numbers of a row that do not lie side by side
        torch.testing.assert_close(layer(apart, mask)[0], layer(apart.contiguous(), mask)[0], rtol=1e-12, atol=1e-12)
    monkeypatch.undo()
    inputs = Projection(torch.empty(4000, 1), None)
    assert [inputs.at_once(torch.empty(200, batch, 1)) for batch in (64, 60, 1)] == [16, 200, 200]


def test_the_kernel_is_timed_with_floats_of_the_cpu_whatever_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel goes by addresses: smaller numbers, or those of another device, would be written past their end."""
    made: list[torch.Tensor] = []
    zeros = torch.zeros

    def noted_zeros(*shape: Any, **options: Any) -> torch.Tensor:
        made.append(zeros(*shape, **options))
        return made[-1]

    monkeypatch.setattr(torch, "zeros", noted_zeros)
    library = types.SimpleNamespace(product_float=lambda *_: None)
    with torch.device("meta"):
        kernel._gain(library, ctypes.c_int64(), 2, 3)  # type: ignore[arg-type]
    assert [tuple(tensor.shape) for tensor in made] == [(16, 2), (2, 3), (16, 3)]
    assert {(tensor.dtype, tensor.device.type) for tensor in made} == {(torch.float32, "cpu")}
