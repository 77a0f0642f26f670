"""Each cell is the paper's equation, and torch's layer where nothing is normalized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from cases import draw, lengths, make, sites
from reference import recurrent
from torch import nn

from normbench import load_torch
from normbench.errors import NormbenchError
from normbench.norms import modes
from normbench.rnn.cells import GRUCell, LSTMCell
from normbench.rnn.layers import LSTM, Recurrent

TORCH: dict[str, Callable[..., nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
AS_TORCH: dict[str, dict[str, Any]] = {"lstm": {}, "gru": {"bias": "double", "update": "old"}, "rnn": {}}
ALL = {
    "lstm": {"input": "layer", "hidden": "layer", "cell": "layer"},
    "gru": {"input": "layer", "hidden": "layer"},
    "rnn": {"summed": "layer"},
}


def both(kind: str, **sizes: Any) -> tuple[Recurrent, nn.RNNBase]:
    torch.manual_seed(3)
    theirs = TORCH[kind](5, 4, batch_first=True, **sizes).double()
    ours = make(kind, 5, 4, **AS_TORCH[kind], **sizes)
    load_torch(ours, theirs)
    return ours, theirs


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, False), (2, False), (1, True), (2, True)])
@pytest.mark.parametrize(("batch", "steps"), [(3, 7), (1, 1), (1, 9), (4, 1)])
def test_without_normalizers_it_is_torchs_layer(
    kind: str, num_layers: int, bidirectional: bool, batch: int, steps: int
) -> None:
    ours, theirs = both(kind, num_layers=num_layers, bidirectional=bidirectional)
    x = draw(batch, steps, 5).requires_grad_()
    begin = draw(num_layers * (1 + bidirectional), batch, 4, seed=1)
    state = (begin, begin.flip(0)) if kind == "lstm" else begin
    results = []
    for layer in (ours, theirs):
        x.grad = None
        y, end = layer(x, state=state) if layer is ours else layer(x, state)
        (y * draw(*y.shape, seed=2)).sum().backward()
        results.append((y, *(end if isinstance(end, tuple) else [end]), x.grad))
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", TORCH)
def test_gradients_of_the_weights_are_torchs_in_our_order_of_gates(kind: str) -> None:
    ours, theirs = both(kind)
    x = draw(3, 7, 5)
    for layer in (ours, theirs):
        layer(x)[0].square().sum().backward()
    (cell,) = ours.cells
    rows = torch.cat([torch.arange(4) + 4 * gate for gate in cell.torch_order])
    for name in ("weight_ih", "weight_hh"):
        wanted = getattr(theirs, f"{name}_l0").grad[rows]
        torch.testing.assert_close(getattr(cell, name).grad, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_is_torchs_packed_sequence(kind: str, bidirectional: bool) -> None:
    """Its outputs at valid positions and its last states; at padding ours repeat the last state, its are zero."""
    ours, theirs = both(kind, bidirectional=bidirectional)
    x, mask = draw(4, 6, 5), lengths(4, 6)
    y, end = ours(x, mask)
    packed = nn.utils.rnn.pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    packed_y, packed_end = theirs(packed)
    wanted, _ = nn.utils.rnn.pad_packed_sequence(packed_y, batch_first=True, total_length=6)
    torch.testing.assert_close(y[mask], wanted[mask], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(end, packed_end, rtol=1e-12, atol=1e-12)
    last = mask.sum(1) - 1
    for row in range(4):
        repeated = y[row, last[row], :4].expand(6 - int(last[row]), 4)
        assert torch.equal(y[row, last[row] :, :4], repeated)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("option", [0, 1])
def test_is_the_papers_equations(kind: str, normalized: bool, option: int) -> None:
    """Eq. 4 and 17-28 row by row, with the convention of the update gate, a forget bias and masks."""
    ours = {
        "lstm": {"forget_bias": 0.7 * option},
        "gru": {"update": ("new", "old")[option]},
        "rnn": {"bias": "none"},
    }[kind]
    layer = make(kind, 5, 4, ALL[kind] if normalized else {}, **ours)
    (cell,) = layer.cells
    p = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    norms = {
        name: recurrent.layer_norm(norm.gain.detach().numpy(), norm.bias.detach().numpy(), 1e-5)
        for name in cell.site_sizes(4)
        if (norm := cell.norm(name)) is not None
    }
    assert bool(norms) == normalized
    x, mask = draw(3, 6, 5), lengths(3, 6)
    begin = draw(2, 3, 4, seed=1)
    arguments = x.transpose(0, 1).numpy(), p, norms, begin[0].numpy()
    valid = mask.T.numpy()
    if kind == "lstm":
        wanted = recurrent.lstm(*arguments, begin[1].numpy(), valid, ours["forget_bias"])
        y, _ = layer(x, mask, (begin[:1], begin[1:]))
    elif kind == "gru":
        wanted = recurrent.gru(*arguments, valid, ours["update"])
        y, _ = layer(x, mask, begin[:1])
    else:
        wanted = recurrent.rnn(*arguments, valid)
        y, _ = layer(x, mask, begin[:1])
    torch.testing.assert_close(y.transpose(0, 1).detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_the_authors_bias_stands_inside_the_normalizer_and_outside() -> None:
    """pre = LN(h U) + LN(x W + b) + b; without a normalizer b counts twice, in its gradient too."""
    one, two = make("lstm", 5, 4, bias="one"), make("lstm", 5, 4, bias="both")
    two.load_state_dict(one.state_dict())
    with torch.no_grad():
        two.cells[0].bias /= 2
    x = draw(3, 6, 5)
    torch.testing.assert_close(two(x)[0], one(x)[0])
    for layer in (one, two):
        layer(x)[0].sum().backward()
    torch.testing.assert_close(two.cells[0].bias.grad, 2 * one.cells[0].bias.grad)
    ln = make("lstm", 5, 4, {"input": "layer", "hidden": "layer"}, bias="both")
    cell = ln.cells[0]
    inside = cell.norm("input")(x[:2, :1] @ cell.weight_ih.T + cell.bias) + cell.bias
    raw = cell.summed(x[:2, :1].transpose(0, 1), cell.sequence_weights(2))
    torch.testing.assert_close(cell.input_term(raw, None), inside.transpose(0, 1))


@pytest.mark.parametrize(
    ("asked", "remaining"), [("inside", "none"), ("both", "one"), ("one", "one"), ("double", "double")]
)
def test_a_preceding_bias_goes_where_the_choice_says_so(asked: str, remaining: str) -> None:
    layer = make("lstm", 5, 4, {"input": ("layer", {"keep_bias": False})}, bias=asked)
    assert layer.cells[0].bias_kind == remaining


def test_h0_is_learned_and_c0_is_not() -> None:
    layer = make("lstm", 5, 4, learn_h0=True)
    x = draw(3, 2, 5)
    h0 = layer.cells[0].h0
    state = (h0.detach().expand(1, 3, 4), torch.zeros(1, 3, 4, dtype=torch.float64))
    torch.testing.assert_close(layer(x)[0], layer(x, state=state)[0])
    layer(x)[0].sum().backward()
    assert h0.grad.abs().min() > 0


@pytest.mark.parametrize("kind", TORCH)
def test_dropout_is_one_mask_per_gate_for_all_steps(kind: str) -> None:
    """Against torch's layer whose weights lose columns, which is what a fixed mask amounts to for one sequence."""
    layer = make(kind, 5, 4, input_dropout=0.4, state_dropout=0.3, **AS_TORCH[kind])
    (cell,) = layer.cells
    x = draw(1, 6, 5)
    weights = cell.sequence_weights(1, np.random.default_rng(1))
    assert weights.input_drop.shape == (cell.gates, 1, 5) and weights.state_drop.shape == (cell.gates, 1, 4)
    for drop, p in ((weights.input_drop, 0.4), (weights.state_drop, 0.3)):
        values = set(drop.unique().tolist())
        assert len(values) == 2 and min(values) == 0 and max(values) == pytest.approx(1 / (1 - p))
    reference = make(kind, 5, 4, **AS_TORCH[kind])
    reference.load_state_dict(layer.state_dict())
    with torch.no_grad():
        reference.cells[0].weight_ih *= weights.input_drop[:, 0].repeat_interleave(4, 0)
        reference.cells[0].weight_hh *= weights.state_drop[:, 0].repeat_interleave(4, 0)
    y, _ = layer(x, rng=np.random.default_rng(1))
    torch.testing.assert_close(y, reference(x)[0])
    assert not torch.equal(layer.eval()(x)[0], y)
    torch.testing.assert_close(layer(x)[0], layer(x, rng=np.random.default_rng(2))[0])
    assert torch.equal(layer.train()(x, drop=False)[0], layer.eval()(x)[0])


def test_shared_dropout_drops_the_same_for_all_gates() -> None:
    layer = make("lstm", 5, 4, state_dropout=0.5, per_gate=False)
    weights = layer.cells[0].sequence_weights(2, np.random.default_rng(0))
    assert weights.input_drop is None and weights.state_drop.shape == (1, 2, 4)
    wide = make("lstm", 5, 4, state_dropout=0.5)
    wide.load_state_dict(layer.state_dict())
    wide.cells[0].sequence_weights = lambda batch, rng, drop: type(weights)(
        wide.cells[0].weight_ih, wide.cells[0].weight_hh, None, weights.state_drop.repeat(4, 1, 1)
    )
    x = draw(2, 5, 5)
    torch.testing.assert_close(layer(x, rng=np.random.default_rng(0))[0], wide(x)[0])


def test_steps_with_feedback_are_the_sequence() -> None:
    """One step at a time gives what the whole sequence gives, with every kind of normalizer memory there is."""
    per_step = ("batch", {"stats": "per_step", "t_max": 4})
    for norms in ({"input": "layer", "hidden": "layer", "cell": "layer"}, dict.fromkeys(ALL["lstm"], per_step)):
        layer, other = make("lstm", 5, 4, norms), make("lstm", 5, 4, norms)
        x, mask = draw(3, 6, 5), lengths(3, 6)
        for training in (True, False):
            layer.train(training)
            other.train(training)
            y, _ = layer(x, mask)
            steps, state = other.steps(3), other.cells[0].initial(3)
            for t in range(6):
                state = steps(x[:, t], state, mask[:, t])
                torch.testing.assert_close(state[0], y[:, t])
        for ours, theirs in zip(layer.buffers(), other.buffers(), strict=True):
            if ours.dim() > 1:
                torch.testing.assert_close(ours, theirs)


def test_recurrent_batch_norm_is_a_torch_batch_norm_for_each_step() -> None:
    """Cooijmans et al. 2016: own statistics at each step; later than t_max the last ones serve."""
    options = {"stats": "per_step", "t_max": 3, "bias": False, "gain_init": 0.1}
    norms = {"input": ("batch", options), "hidden": ("batch", options), "cell": ("batch", options | {"bias": True})}
    layer = make("lstm", 5, 4, norms)
    (cell,) = layer.cells
    stand_in: dict[str, list[nn.BatchNorm1d]] = {}
    for name, size in cell.site_sizes(4).items():
        stand_in[name] = [nn.BatchNorm1d(size).double() for _ in range(3)]
        for norm in stand_in[name]:
            norm.weight.data.copy_(cell.norm(name).gain)
            if cell.norm(name).bias is not None:
                norm.bias.data.copy_(cell.norm(name).bias)

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(len(x), 4, dtype=torch.float64)
        outputs = []
        for t in range(x.shape[1]):
            n_x, n_h, n_c = (stand_in[name][min(t, 2)] for name in ("input", "hidden", "cell"))
            pre = n_h(h @ cell.weight_hh.T) + n_x(x[:, t] @ cell.weight_ih.T) + cell.bias
            f, i, o, g = pre.chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * n_c(c).tanh()
            outputs.append(h)
        return torch.stack(outputs, 1)

    for seed in range(3):
        x = draw(6, 3, 5, seed=seed)
        torch.testing.assert_close(layer(x)[0], by_hand(x))
    for group in stand_in.values():
        for norm in group:
            norm.eval()
    x = draw(6, 8, 5, seed=9)
    torch.testing.assert_close(layer.eval()(x)[0], by_hand(x))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("use_mask", [False, True])
def test_recurrent_batch_norm_leaves_padding_out_or_not(kind: str, use_mask: bool) -> None:
    """The moments of a step, value by value: of all rows, or of the valid ones, which at the last step is one."""
    options = {"stats": "per_step", "use_mask": use_mask}
    layer = make(kind, 5, 4, dict.fromkeys(ALL[kind], ("batch", options)), bias="one" if kind == "lstm" else "none")
    (cell,) = layer.cells
    p = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    x, mask = draw(4, 6, 5), lengths(4, 6)
    mask[1:, -1] = False
    counted = mask.T.numpy() if use_mask else np.ones((6, 4), dtype=bool)
    norms = {
        name: recurrent.batch_norm(norm.gain.detach().numpy(), norm.bias.detach().numpy(), 1e-5, counted)
        for name in cell.site_sizes(4)
        if (norm := cell.norm(name)) is not None
    }
    given, zero, valid = x.transpose(0, 1).numpy(), np.zeros((4, 4)), mask.T.numpy()
    if kind == "lstm":
        wanted = recurrent.lstm(given, p, norms, zero, zero, valid, 0.0)
    else:
        wanted = recurrent.gru(given, p, norms, zero, valid, "new")
    y, _ = layer(x, mask)
    torch.testing.assert_close(y.transpose(0, 1).detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("norm", ["layer", "rms", "group", "ada", "batch"])
def test_any_normalizer_that_serves_a_state_trains_at_every_site(kind: str, norm: str) -> None:
    chosen = ("batch", {"stats": "per_step"}) if norm == "batch" else norm
    layer = make(kind, 5, 4, dict.fromkeys(("input", "hidden", "cell", "summed"), chosen), bidirectional=True)
    y, _ = layer(draw(3, 4, 5), lengths(3, 4))
    (y * draw(*y.shape, seed=4)).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("beside", [None, "layer"])
@pytest.mark.parametrize("norm", ["weight", "spectral"])
@pytest.mark.parametrize("kind", TORCH)
def test_weight_normalizers_make_the_matrices_of_both_products(kind: str, norm: str, beside: str | None) -> None:
    products = dict.fromkeys(("input", "hidden"), beside) if beside else {}
    layer = make(kind, 5, 4, products | {"weight": norm} if beside else {"input": norm, "hidden": norm}, seed=None)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh"):
            getattr(layer.cells[0], name).mul_(3)
    modes.start(layer)
    (cell,) = layer.cells
    reference = make(kind, 5, 4, products, seed=None)
    weights = cell.eval().sequence_weights(2)
    with torch.no_grad():
        reference.cells[0].weight_ih.copy_(weights.weight_ih)
        reference.cells[0].weight_hh.copy_(weights.weight_hh)
    assert torch.equal(weights.weight_hh, cell.weight_hh) == (norm == "weight")  # which begins as the same function
    x = draw(2, 6, 5)
    torch.testing.assert_close(layer(x)[0], reference(x)[0])
    layer.train()(x)[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n, p in layer.named_parameters() if "bias" not in n)


def test_whole_sequence_statistics_are_refused_inside_the_loop() -> None:
    for stats in ("pooled", "sequence"):
        layer = make("lstm", 5, 4, {"input": ("batch", {"stats": stats})})
        layer(draw(3, 4, 5))
        layer = make("lstm", 5, 4, {"hidden": ("batch", {"stats": stats})})
        with pytest.raises(NormbenchError, match=r"'lstm.hidden' stands inside a time loop.*norm.stats=per_step"):
            layer(draw(3, 4, 5))


def test_bad_input_is_one_clear_line() -> None:
    layer = make("lstm", 5, 4, input_dropout=0.5)
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("bias=twice is not possible", lambda: LSTM(5, 4, bias="twice")),
        ("update=odl is not possible. Did you mean 'old'", lambda: GRUCell(5, 4, update="odl")),
        ("state_dropout=1.0 must be", lambda: LSTM(5, 4, state_dropout=1.0)),
        ("^LSTM: num_layers=0 must be", lambda: LSTM(5, 4, num_layers=0)),
        ("^LSTM: input_size='5' must be a whole number", lambda: LSTM("5", 4)),  # type: ignore[arg-type]  what is refused
        (r"^LSTM: the mask must be \(3, 4\)", lambda: LSTM(5, 4)(draw(3, 4, 5), lengths(3, 5))),
        ("^LSTMCell: bias=twice", lambda: LSTM(5, 4, bias="twice")),
        (r"the input must be \(batch, time, 5\)", lambda: layer(draw(3, 4, 6))),
        (r"at least one step", lambda: layer(draw(3, 0, 5))),
        (r"the mask must be \(3, 4\)", lambda: layer(draw(3, 4, 5), lengths(3, 5))),
        (r"the state must be 2 tensor\(s\) of \(1, 3, 4\)", lambda: layer(draw(3, 4, 5), state=draw(1, 3, 4))),
        ("give it a generator", lambda: layer(draw(3, 4, 5))),
    ]
    for message, call in wrong:
        with pytest.raises(NormbenchError, match=message):
            call()


def test_a_site_that_is_declared_otherwise_is_refused() -> None:
    given = sites(LSTMCell, 5, {"hidden": "layer"})

    with pytest.raises(NormbenchError, match=r"site 'enc.input' must be declared with .* 16 features"):
        LSTM(5, 4, given, "enc")
