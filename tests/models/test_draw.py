"""DRAW of LN 2016, section 6.4: its formulas, its bound and that of several samples, its scale, pictures, bad input."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from devices import has_kernel
from PIL import Image
from reference import draw as reference
from smallest import batches, built, moved, small

from normbench import data as datasets
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.models import draw
from normbench.models.base import Noise
from normbench.models.draw import Draw
from normbench.norms import kernel
from normbench.rnn import attention, backends
from normbench.rnn.cells import LSTMCell

ARMS = {
    "none": ("norm=none",),
    "none-scaled": ("norm=none", "model.cell_scale=first_glimpse"),
    "ln": ("norm=layer", "norm.eps_mode=out", "norm.eps=0.01"),
    "ln-torch": ("norm=layer", "norm.eps_mode=out", "norm.eps=0.01", "model.bias=double", "model.init=torch"),
}


def made(arm: str, *words: str) -> Draw:
    """In float64, away from its start."""
    network = moved(built(small("draw", *ARMS[arm], *words)))
    assert isinstance(network, Draw)
    network.rescale(network.encoder.cells[0].weight_ih)
    return network


def seen(network: Draw, name: str) -> Callable[[np.ndarray], np.ndarray]:
    """What the cell's value becomes before its tanh."""
    p = {key: t.detach().numpy() for key, t in network.state_dict().items()}
    if f"{name}.cells.0.scale" in p:
        return lambda c: c * p[f"{name}.cells.0.scale"]
    if f"{name}.cells.0.norms.cell.gain" not in p:
        return lambda c: c
    gain, bias = (p[f"{name}.cells.0.norms.cell.{part}"] for part in ("gain", "bias"))

    def layer_norm(c: np.ndarray) -> np.ndarray:
        mean = sum(c) / len(c)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in c) / len(c))
        return np.array([g * (v - mean) / (deviation + 0.01) + b for v, g, b in zip(c, gain, bias, strict=True)])

    return layer_norm


@pytest.mark.parametrize("arm", ARMS)
def test_the_bound_is_its_formula(arm: str) -> None:
    network = made(arm)
    inputs = batches(small("draw"), 1)[0]["inputs"][:3].double()
    with torch.no_grad(), models.evaluating(network, Noise(1, "test", range(3))):
        found = network.evaluate(inputs)
        noise = network.normal("latent", inputs.new_empty(3, network.glimpses, network.latent_size))
    p = {name: t.detach().numpy() for name, t in network.named_parameters()}
    for b in range(3):
        bound, kl = reference.bound(
            p,
            inputs[b].view(8, 8).numpy(),
            noise[b].numpy(),
            (2, 3),
            {n: seen(network, n) for n in ("encoder", "decoder")},
        )
        assert found["bound"][b].item() == pytest.approx(bound, rel=1e-11)
        assert found["kl"][b].item() == pytest.approx(kl, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_gradients_of_the_bound(arm: str) -> None:
    network = made(arm, "model.hidden_size=3", "model.latent_size=2", "model.glimpses=2")
    inputs = batches(small("draw"), 1)[0]["inputs"][:2].double()
    names, values = zip(*((n, p.detach().requires_grad_()) for n, p in network.named_parameters()), strict=True)

    def bound(*given: torch.Tensor) -> torch.Tensor:
        with models.update(network, 1, 0):
            found: torch.Tensor = torch.func.functional_call(network, dict(zip(names, given, strict=True)), (inputs,))
        return found

    with kernel.using("loop"):  # the only way that can be gone back twice
        assert torch.autograd.gradcheck(bound, values)
        wanted = torch.autograd.grad(bound(*values), values)
    for fast in backends.BACKENDS if has_kernel() else ("aten",):
        with kernel.using(fast):
            torch.testing.assert_close(torch.autograd.grad(bound(*values), values), wanted, rtol=1e-9, atol=1e-9)


def test_pictures_meet_the_same_noise_at_every_evaluation_and_another_in_every_update() -> None:
    network = made("ln")
    inputs = batches(small("draw"), 1)[0]["inputs"][:4].double()
    with torch.no_grad():
        whole, parts = [], []
        with models.evaluating(network, Noise(1, "test", range(4))):
            whole = network.evaluate(inputs)["bound"]
        for rows in (range(2), range(2, 4)):
            with models.evaluating(network, Noise(1, "test", rows)):
                parts.append(network.evaluate(inputs[rows.start : rows.stop])["bound"])
        torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-12, atol=0)
        found = []
        for number in (0, 1, 0):
            with models.update(network, 1, number):
                found.append(network(inputs).item())
    assert found[0] == found[2] != found[1]


def test_the_bound_of_several_samples_is_the_logarithm_of_their_mean() -> None:
    network = made("none")
    bounds = torch.tensor([[800.0, 3.0], [801.0, 2.0], [2000.0, 7.0]], dtype=torch.float64)
    found = network.over_samples({"bound": bounds, "kl": bounds})
    for column in range(2):
        least = bounds[:, column].min().item()
        wanted = least - math.log(sum(math.exp(least - b) for b in bounds[:, column].tolist()) / 3)
        assert found["bound"][column].item() == pytest.approx(wanted, rel=1e-14)
    assert found["kl"].tolist() == bounds.mean(0).tolist()


def test_more_samples_never_make_the_bound_worse_in_expectation() -> None:
    """Log-normal weights w, log w ~ N(-m, s²): -log E w = m - s²/2 is what K samples come down to, from m for K = 1."""
    network, m, s = made("none"), 5.0, 1.0
    draws = torch.from_numpy(np.random.default_rng(0).normal(m, s, (16, 40_000)))
    means = [network.over_samples({"bound": draws[:k]})["bound"].mean().item() for k in (1, 2, 3, 4, 8, 16)]
    assert means == sorted(means, reverse=True)
    assert means[0] == pytest.approx(m, abs=0.02) and m - s**2 / 2 < means[-1] < m - s**2 / 2 + 0.06


def test_of_two_samples_the_expected_bound_is_known() -> None:
    """Each with one of two values: E of the bound by counting, (b, b), (b, c), (c, b), (c, c)."""
    network, b, c = made("none"), 1.0, 4.0
    pairs = torch.tensor([[b, b, c, c], [b, c, b, c]], dtype=torch.float64)
    mixed = -math.log((math.exp(-b) + math.exp(-c)) / 2)
    expected = (b + c + 2 * mixed) / 4
    found = network.over_samples({"bound": pairs})["bound"].mean().item()
    assert found == pytest.approx(expected, rel=1e-14) and found < (b + c) / 2


def test_the_scale_is_that_of_layer_normalization_at_the_first_glimpse() -> None:
    scaled, unscaled = (built(small("draw", *ARMS[arm], "model.init=normal")) for arm in ("none-scaled", "none"))
    assert isinstance(scaled, Draw) and isinstance(unscaled, Draw)
    inputs = batches(small("draw"), 1)[0]["inputs"]
    scaled.rescale(inputs)
    begin = {name: t.clone() for name, t in scaled.state_dict().items()}
    scaled.rescale(inputs.flip(0))
    assert all(torch.equal(t, begin[name]) for name, t in scaled.state_dict().items()), "the data have no part in it"
    for name, parameter in unscaled.named_parameters():
        assert torch.equal(parameter, begin[name]), "the weights are the same"
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((500, 1, 4))).float()
    first = next(scaled.paint(torch.zeros(500, 64), noise))
    for layer, c in zip((scaled.encoder, scaled.decoder), first.cells, strict=True):
        cell = layer.cells[0]
        assert isinstance(cell, LSTMCell) and cell.scale > 3
        assert (cell.scale * c.std()).item() == pytest.approx(1, abs=0.1)
    with pytest.raises(NormbenchError, match="a fixed scale is a control without a normalizer at encoder"):
        built(small("draw", "norm=layer", "model.cell_scale=first_glimpse"))


def test_torchs_initial_draws_are_those_of_a_linear_layer_for_each_term_of_a_gate() -> None:
    """Weights and biases of U(-1/sqrt(in), 1/sqrt(in)), as torch draws its `nn.Linear`; one bias for each term."""
    network = built(
        small("draw", "model.hidden_size=60", "model.latent_size=200", "model.init=torch", "model.bias=double")
    )
    inputs = {"encoder": 2 * 2**2 + 60, "decoder": 200}
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    for name, parameter in parameters.items():
        layer, own = name.split(".")[0], name.rpartition(".")[2]
        law = torch.nn.Linear(inputs[layer] if own.endswith("_ih") else 60, 500)
        assert 0 < parameter.abs().max() <= law.in_features**-0.5, name
        if parameter.numel() >= 200:
            assert parameter.std() == pytest.approx(law.weight.std().item(), rel=0.15), name
            assert parameter.abs().max() > 0.95 * law.bias.abs().max(), name
    assert {name.rpartition(".")[2] for name in parameters} == {
        *("weight", "bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    for unscaled in ("normal", "glorot_uniform"):
        network = built(small("draw", f"model.init={unscaled}", "model.bias=double"))
        assert not any(p.any() for p in network.parameters() if p.dim() == 1)
    one = built(small("draw", "model.init=torch"))
    assert isinstance(one, Draw)
    assert 0 < one.encoder.cells[0].bias.abs().max() <= 8**-0.5
    assert small("draw", "model.bias=one").id == small("draw").id != small("draw", "model.bias=double").id


def test_samples_are_pictures_of_the_seed() -> None:
    network = built(small("draw", "norm=layer")).eval()
    data = datasets.load(small("draw").config["data"])
    found, again, other = (network.sample(seed, 5, data) for seed in (1, 1, 2))
    assert found == again and found.keys() == {"drawn.png", "painting.png"} and found["drawn.png"] != other["drawn.png"]
    side = 8 * draw.ENLARGED
    with Image.open(io.BytesIO(found["drawn.png"])) as sheet, Image.open(io.BytesIO(found["painting.png"])) as painting:
        gap = draw.GAP * draw.ENLARGED
        assert sheet.size == (4 * side + 3 * gap, 2 * side + gap)
        assert painting.size == (3 * side + 2 * gap, side)
        colours = painting.convert("RGB").getcolors(1 << 16)
        assert colours and draw.FRAME in [colour for _, colour in colours]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers_leave_black_pictures(value: float) -> None:
    network = built(small("draw")).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(value)
    found = network.sample(1, 2, datasets.load(small("draw").config["data"]))
    with Image.open(io.BytesIO(found["drawn.png"])) as sheet:
        assert sheet.convert("L").getpixel((0, 0)) == 0


def test_a_frame_is_where_the_filters_are() -> None:
    network = made("none")
    given = torch.tensor([[0.2, -0.4, math.log(0.5), 0.0, 0.0]], dtype=torch.float64)
    frame = network._frame(given[0])
    pixels = torch.arange(8, dtype=torch.float64)
    narrow = torch.tensor([[0.2, -0.4, math.log(0.5), math.log(0.01), 0.0]], dtype=torch.float64)
    rows, columns, _ = attention.window(narrow, 3, 8)
    for filters, first, last in ((rows[0], frame.top, frame.bottom), (columns[0], frame.left, frame.right)):
        for row, edge in ((filters[0], first), (filters[-1], last)):
            assert abs((row / row.sum() @ pixels).item() - edge) < 0.5 or not 0 <= edge <= 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model.read_size=9",), "model.read_size=9 must be from 1 to the picture's 8 pixels a side."),
        (("model.write_size=0",), "model.write_size=0 is too small: at least 1."),
        (("model.glimpses=0",), "model.glimpses=0 is too small: at least 1."),
    ],
)
def test_bad_input(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(NormbenchError) as error:
        built(small("draw", *words))
    assert message in str(error.value)


def test_pictures_that_are_not_square_are_refused() -> None:
    spec = small("draw")
    config = {**spec.config, "data": {**spec.config["data"], "declares": {"features": 63}}}
    with pytest.raises(NormbenchError, match="paints square pictures: data=binarized_digits has 63 values a picture"):
        models.build(config, spec.sites)
