"""Handwriting of LN 2016, section 6.5: its formulas, gradients, bounds of derivatives, what it writes, bad input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from devices import has_kernel
from reference import handwriting as reference
from smallest import batches, built, moved, small

from normbench import data as datasets
from normbench.config.plan import experiment_spec
from normbench.errors import NormbenchError
from normbench.models import pen
from normbench.models.handwriting import BOUND, MOST, Handwriting
from normbench.norms import kernel
from normbench.rnn import backends, window

LSTMS, SITES = ("first", "second", "third"), ("input", "hidden", "cell")
ARMS = {"none": ("norm=none",), "ln": ("norm=layer", "norm.eps=0.01")}


def made(arm: str, *words: str) -> Handwriting:
    """In float64, away from its start."""
    network = moved(built(small("handwriting", *ARMS[arm], *words)))
    assert isinstance(network, Handwriting)
    return network


def lines(count: int = 3) -> dict[str, torch.Tensor]:
    """Of several lengths: the last two lines and texts are shorter."""
    found = {name: tensor[:count].clone() for name, tensor in batches(small("handwriting"), 1)[0].items()}
    found["strokes_mask"][1:, 9:] = False
    found["characters_mask"][1:, 2:] = False
    found["strokes"] = found["strokes"].double()
    return {name: tensor[:, : 14 if name.startswith("strokes") else None] for name, tensor in found.items()}


def norms(p: dict[str, np.ndarray], lstm: str) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    def layer_norm(gain: np.ndarray, bias: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        def apply(z: np.ndarray) -> np.ndarray:
            mean = sum(z) / len(z)
            deviation = math.sqrt(sum((v - mean) ** 2 for v in z) / len(z) + 0.01)
            return np.array([g * (v - mean) / deviation + b for v, g, b in zip(z, gain, bias, strict=True)])

        return apply

    found = {}
    for site in SITES:
        own = [f"{lstm}.cells.0.norms.{site}.{part}" for part in ("gain", "bias")]
        found[site] = layer_norm(*(p[name] for name in own)) if own[0] in p else lambda z: z
    return found


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("shift", [-3.0, 0.0])
def test_the_density_of_a_line_is_its_formula(arm: str, shift: float) -> None:
    network, given = made(arm, f"model.window_shift={shift}"), lines()
    with torch.no_grad():
        found = network.evaluate(**given)
    p = {name: t.detach().numpy() for name, t in network.named_parameters()}
    for b in range(3):
        line = given["strokes"][b, given["strokes_mask"][b]].numpy()
        letters = given["characters"][b, given["characters_mask"][b]].tolist()
        wanted = reference.nll(p, line, letters, network.symbols, shift, {n: norms(p, n) for n in LSTMS})
        assert found["line_nll"][b].item() == pytest.approx(wanted, rel=1e-10)


def test_what_lies_behind_a_line_and_its_text_counts_for_nothing() -> None:
    network, given = made("ln"), lines()
    with torch.no_grad():
        found = network.evaluate(**given)
        given["strokes"][~given["strokes_mask"]] = 7.0
        given["characters"][~given["characters_mask"]] = 1
        again = network.evaluate(**given)
        alone = network.evaluate(
            **{n: t[1:2, : 9 if n.startswith("strokes") else 2] for n, t in given.items()},
        )
    for name in ("line_nll", "speed"):
        torch.testing.assert_close(again[name], found[name], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(alone[name], found[name][1:2], rtol=1e-10, atol=1e-10)


def test_the_windows_speed_is_what_its_places_move_by() -> None:
    network = built(small("handwriting")).double()
    with torch.no_grad():
        for parameter in network.window.parameters():
            parameter.zero_()
        found = network.evaluate(**lines())["speed"]
    np.testing.assert_allclose(found, math.exp(-3), rtol=1e-12)


@pytest.mark.parametrize("arm", ARMS)
def test_gradients(arm: str) -> None:
    words = (
        "model.hidden_size=3",
        "model.gaussians=2",
        "model.mixtures=2",
        "model.clip_gates=0",
        "model.clip_outputs=0",
    )
    network, given = made(arm, *words), {name: tensor[:2, :5] for name, tensor in lines().items()}
    names, values = zip(*((n, p.detach().requires_grad_()) for n, p in network.named_parameters()), strict=True)

    def loss(*parameters: torch.Tensor) -> torch.Tensor:
        replaced = dict(zip(names, parameters, strict=True))
        found: torch.Tensor = torch.func.functional_call(network, replaced, (), given)
        return found

    with kernel.using("loop"):
        assert torch.autograd.gradcheck(loss, values, fast_mode=True)
        wanted = torch.autograd.grad(loss(*values), values)
    for fast in backends.BACKENDS if has_kernel() else ("aten",):
        with kernel.using(fast):
            torch.testing.assert_close(torch.autograd.grad(loss(*values), values), wanted, rtol=1e-9, atol=1e-9)


def test_derivatives_are_bounded_inside_by_default_and_alike_in_all_backends() -> None:
    """Bounds so small that they act at every step."""
    found = {}
    for words in ((), ("model.clip_gates=1e-3", "model.clip_outputs=1e-2")):
        for name in ("loop", *(backends.BACKENDS if has_kernel() else ("aten",))):
            network = made("ln", *words)
            with kernel.using(name):
                network(**lines()).backward()
            found[words, name] = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        torch.testing.assert_close(found[words, name], found[words, "loop"], rtol=1e-9, atol=1e-9)
    assert found[words, "loop"].norm() < 0.1 * found[(), "loop"].norm()
    defaults = small("handwriting").config["model"]
    assert (defaults["clip_gates"], defaults["clip_outputs"]) == (10, 100)


def test_the_batch_does_not_change_what_bounds_do_to_a_line() -> None:
    """Of a line among others a third of the gradient that it has alone: bounds are of its own derivatives."""
    network, given = made("none", "model.clip_gates=0.05", "model.clip_outputs=0.5"), lines()
    network(**given).backward()
    together = network.first.cells[0].weight_hh.grad.clone()
    alone = torch.zeros_like(together)
    for row in range(3):
        network.zero_grad()
        network(**{name: tensor[row : row + 1] for name, tensor in given.items()}).backward()
        alone += network.first.cells[0].weight_hh.grad
    torch.testing.assert_close(together, alone / 3, rtol=1e-9, atol=1e-12)


def test_the_paper_has_so_many_parameters() -> None:
    specs = {arm: experiment_spec("ln2016/fig5", arm, "paper", []) for arm in ("none", "ln")}
    counts = {arm: sum(p.numel() for p in built(spec).parameters()) for arm, spec in specs.items()}
    assert counts == {"none": 3_650_151, "ln": 3_671_751}


def test_densities_far_off_are_finite() -> None:
    """Deviations near zero, correlations near one, points far away: finite, and so are the derivatives."""
    network = built(small("handwriting"))
    assert isinstance(network, Handwriting)
    numbers = 6 * network.mixtures + 1
    y = torch.tensor([[-200.0], [200.0], [0.0]]).expand(3, numbers).clone().requires_grad_()
    points = torch.tensor([[50.0, -50, 1], [0, 0, 0], [200, 200, 1]])
    found = network.log_density(points, network.mixture(y))
    found.sum().backward()
    assert torch.isfinite(found).all() and y.grad is not None and torch.isfinite(y.grad).all()
    given = network.mixture(y)
    assert given.rho.abs().max() <= MOST and given.log_sigma.abs().max() == BOUND


def test_a_drawn_point_has_the_mixtures_moments() -> None:
    """Of one component with weight 1: mean, deviation and correlation over many draws; and with a bias less spread."""
    network = made("none")
    y = torch.zeros(1, 6 * network.mixtures + 1, dtype=torch.float64)
    parts = y[:, :-1].view(6, -1)
    parts[0, 1], parts[1, 1], parts[2, 1] = 50.0, 2.0, -1.0  # π̂, μ of the second
    parts[3, 1], parts[4, 1], parts[5, 1] = math.log(0.5), math.log(2.0), math.atanh(0.8)
    y[0, -1] = math.log(0.3 / 0.7)
    draw = np.random.default_rng(0)
    uniform, normal = (torch.from_numpy(f((20_000, 2))) for f in (draw.random, draw.standard_normal))
    for bias, factor in ((0.0, 1.0), (2.0, math.exp(-2))):
        given = network.mixture(y.expand(20_000, -1), bias)
        x, other, end = network._point(given, uniform, normal).unbind(1)
        assert x.mean().item() == pytest.approx(2, abs=0.02) and other.mean().item() == pytest.approx(-1, abs=0.06)
        assert x.std().item() == pytest.approx(0.5 * factor, rel=0.03)
        assert other.std().item() == pytest.approx(2 * factor, rel=0.03)
        assert torch.corrcoef(torch.stack([x, other]))[0, 1].item() == pytest.approx(0.8, abs=0.01)
        assert end.mean().item() == pytest.approx(0.3, abs=0.01)


def test_components_are_drawn_by_their_weights_which_a_bias_sharpens() -> None:
    network = made("none")
    y = torch.zeros(20_000, 6 * network.mixtures + 1, dtype=torch.float64)
    parts = y[:, :-1].view(20_000, 6, -1)
    parts[:, 0] = -50.0
    parts[:, 0, 0], parts[:, 0, 1] = math.log(0.25), math.log(0.75)
    parts[:, 1, 1], parts[:, 3:5] = 100.0, -5.0
    draw = np.random.default_rng(0)
    uniform, normal = (torch.from_numpy(f((20_000, 2))) for f in (draw.random, draw.standard_normal))
    for bias, share in ((0.0, 0.75), (1.0, 0.9)):
        x = network._point(network.mixture(y, bias), uniform, normal)[:, 0]
        assert (x > 50).double().mean().item() == pytest.approx(share, abs=0.01)


def resting(*words: str) -> Handwriting:
    """Whose window moves a quarter of a letter at each point, whatever it writes."""
    network = made("ln", f"model.window_shift={math.log(0.25)}", *words)
    with torch.no_grad():
        for parameter in network.window.parameters():
            parameter.zero_()
    return network


def test_writing_ends_where_the_text_does() -> None:
    """The place is t / 4: what follows a text of U letters counts for more than its last from U - 1/2 on."""
    network, texts = resting(), [[1, 2, 3], [4]]
    written = network.written(texts, 0.0, seed=3)
    assert [len(points) for points, _ in written] == [4 * 3 - 1, 4 * 1 - 1]
    assert [weights.shape for _, weights in written] == [(11, 3), (3, 1)]
    again, other = (network.written(texts, 0.0, seed=seed) for seed in (3, 4))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(written, again, strict=True))
    assert not np.array_equal(written[0][0], other[0][0])


def test_a_line_whose_window_stands_still_is_given_up() -> None:
    network = made("none", "model.window_shift=-9")
    ((points, weights),) = network.written([[1, 2]], 0.0, seed=1)
    assert len(points) == len(weights) == 200 + 60 * 2


def test_writing_steps_as_training_does() -> None:
    """With a great bias each point is the mean of what the training pass, over the same points, holds for likeliest."""
    network, text = made("ln"), [1, 2, 3, 1]
    ((points, _),) = network.written([text], 300.0, seed=3)
    line = torch.from_numpy(np.concatenate([np.zeros((1, 3)), points]))[None]
    given = window.Text(torch.tensor([text]), torch.tensor([len(text)]), network.symbols)
    with torch.no_grad():
        y, _ = network._outputs(line[:, :-1], torch.ones(1, len(points), dtype=torch.bool), given)
        found = network.mixture(y)
    likeliest = found.log_weight.argmax(-1, keepdim=True).expand(2, -1, -1, 1)
    wanted = found.mean.gather(-1, likeliest)[:, 0, :, 0].T
    torch.testing.assert_close(line[0, 1:, :2], wanted, rtol=1e-5, atol=1e-5)


# --- pictures and bad input -------------------------------------------------------------------------------------------


def parsed(content: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content.decode())


def test_a_run_leaves_lines_and_the_windows_path() -> None:
    spec = small("handwriting")
    network, data = built(spec), datasets.load(spec.config["data"])
    files = network.sample(1, 8, data)
    assert set(files) == {"lines.svg", "steady.svg", "window.svg"} and files == network.sample(1, 8, data)
    texts = [node.text for node in parsed(files["lines.svg"]).iter() if node.tag.endswith("text")]
    characters = data.splits["test"]["characters"]
    first = "".join(data.words[number] for number in characters[:1].values.tolist())
    assert len(texts) == 4 and texts[0] == first
    assert len(files["lines.svg"]) < 1 << 19  # what a page of the report shows


def test_strokes_are_drawn_from_offsets_and_lifts() -> None:
    """Two strokes and a dot, at the height of a line; markup in a text stays text."""
    points = np.array([[0, 0, 0], [1, 10, 1], [5, -10, 0], [1, 10, 1], [2, 0, 1]])
    picture = parsed(pen.lines([pen.Line(points, "<b>&", np.zeros((5, 4)))]))
    paths = [node.attrib["d"] for node in picture.iter() if node.tag.endswith("path")]
    places = [[tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)] for path in paths]
    assert [len(stroke) for stroke in places] == [2, 2, 2] and places[2][0] == places[2][1]
    (a, b), (c, d), _ = places
    assert b[1] - a[1] == d[1] - c[1] > 0.9 * pen.HEIGHT  # downwards is downwards
    assert (c[0] - b[0]) / (b[0] - a[0]) == pytest.approx(5, rel=0.05)
    assert [node.text for node in picture.iter() if node.tag.endswith("text")] == ["<b>&"]


def test_a_pen_that_runs_away_leaves_a_picture() -> None:
    points = np.array([[1e30, -1e30, 0], [math.nan, math.inf, 1], [1, 1, 0]])
    assert b"nan" not in pen.lines([pen.Line(points, "a", np.zeros((3, 1)))]).lower()
    assert parsed(pen.lines([pen.Line(np.zeros((1, 3)), "a", np.zeros((1, 1)))])) is not None


def test_the_windows_path_is_dark_where_a_letter_counts() -> None:
    weights = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])
    picture = parsed(pen.path(pen.Line(np.zeros((3, 3)), "ab", weights)))
    cells = [node.attrib for node in picture.iter() if node.tag.endswith("rect") and "fill-opacity" in node.attrib]
    shades = {(round(float(c["x"])), float(c["y"])): float(c["fill-opacity"]) for c in cells}
    assert sorted(shades.values()) == [0.5, 1, 1, 1] and len({y for _, y in shades}) == 2


def test_a_users_text_is_written_or_refused_in_one_line() -> None:
    spec = small("handwriting")
    network, data = built(spec), datasets.load(spec.config["data"])
    letters = [symbol for symbol in data.words if len(symbol) == 1]
    text = letters[0] + letters[1]
    files = network.write(text, 0.7, 1, 2, data)
    assert set(files) == {"lines.svg", "window.svg"}
    assert [node.text for node in parsed(files["lines.svg"]).iter() if node.tag.endswith("text")] == [text, text]
    for bad, reason in (("a\u0416", "--text: 'Ж' is none"), ("", "--text has 0 letters"), (letters[0] * 501, "501")):
        with pytest.raises(NormbenchError, match=reason):
            network.write(bad, 0.0, 1, 1, data)
