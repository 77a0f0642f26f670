"""Handwriting point by point along a text (Graves 2013, section 5), as LN 2016 trains it (6.5, Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.core.streams import stream
from normbench.data import Dataset
from normbench.data.examples import Ragged
from normbench.errors import BadInput
from normbench.models import pen
from normbench.models.base import Model, Sites
from normbench.norms.derivatives import clipped
from normbench.norms.layers import NormedLinear
from normbench.rnn import window
from normbench.rnn.layers import LSTM
from normbench.rnn.window import Text

NUMBERS = 6  # of each Gaussian: weight, two means, two deviations, correlation
MOST = 1 - 1e-6  # of a correlation
BOUND = 10.0  # of the logarithm of a deviation: the pen's places are whole numbers, and one could be hit exactly
LINES = 4  # of the test set's texts that a run's samples write
POINTS_A_LETTER, FEWEST, LONGEST = 60, 200, 3000  # after which a line is given up whose window does not reach the end
TEXT = 500  # letters of a user's text at most


class Mixture(NamedTuple):
    """Of each point: logarithms of the weights, means (2, ...), logarithms of deviations (2, ...), correlations, and
    ê of the end of a stroke; the others (..., mixtures).
    """

    log_weight: Tensor
    mean: Tensor
    log_sigma: Tensor
    rho: Tensor
    end: Tensor


class Handwriting(Model):
    """Three LSTMs write the next point of a line, with a window over its text (Graves 2013, eq. 15-26, 46-53).

        h¹_t = LSTM([x_t, w_{t-1}]);  (α̂, β̂, κ̂)_t = W_p h¹_t + b_p;  w_t: see `rnn.window`
        h²_t = LSTM([x_t, h¹_t, w_t]);  h³_t = LSTM([x_t, h²_t, w_t])
        y_t = W_y [h¹_t, h²_t, h³_t] + b_y;  ê_t = W_e [h¹_t, h²_t, h³_t] + b_e
        line_nll = Σ_t -log p(x_{t+1} | y_t)   in nats, of densities of standardized offsets: it can be negative

    x_t: offsets of the pen and whether it is lifted after this point; the first is given. y_t: of each bivariate
    Gaussian π̂, μ, log σ, ρ̂ with ρ = tanh ρ̂; p(lift) = σ(ê). States, w_0 and places begin at zero; no peepholes (LN
    2016, eq. 17). Derivatives are bounded as they go back: of gates by `clip_gates`, of y and ê by `clip_outputs`
    (Graves 2013, 5.2), each line's own.
    Sites: `first.*`, `second.*`, `third.*` of input, hidden, cell; the input's is one over all of W [x, h, w]; `window`
    (W_p), `output` (W_y) and `lift` (W_e) on their weights.
    Metrics of a line: `line_nll`; `speed`, how far the window moved, in letters a point, mean of its Gaussians.
    Shapes: strokes (B, T, 3), characters (B, U) numbers of symbols, each with its mask.
    Not the same as: Graves' network has peepholes; his ê has the other sign; log σ is kept within ± `BOUND` and the
    window's logarithms within ± `window.BOUND`.
    """

    loss = "line_nll"
    evaluated_at_once = 64

    def __init__(
        self,
        symbols: int,
        hidden_size: int,
        gaussians: int,
        mixtures: int,
        window_shift: float,
        clip_gates: float,
        clip_outputs: float,
        sites: Sites,
    ) -> None:
        super().__init__()
        self.symbols, self.gaussians, self.mixtures = symbols, gaussians, mixtures
        self.window_shift, self.clip_outputs = window_shift, clip_outputs
        inputs = 3 + symbols  # the point and the window
        self.first = LSTM(inputs, hidden_size, sites, "first", clip=clip_gates)
        self.second = LSTM(inputs + hidden_size, hidden_size, sites, "second", clip=clip_gates)
        self.third = LSTM(inputs + hidden_size, hidden_size, sites, "third", clip=clip_gates)
        self.window = NormedLinear(hidden_size, *sites("window"), nn.Identity())
        self.output = NormedLinear(3 * hidden_size, *sites("output"), nn.Identity())
        self.lift = NormedLinear(3 * hidden_size, *sites("lift"), nn.Identity())

    def forward(self, strokes: Tensor, strokes_mask: Tensor, characters: Tensor, characters_mask: Tensor) -> Tensor:
        nll, speed = self._lines(strokes, strokes_mask, characters, characters_mask)
        self.tally = {"speed": speed.detach().sum()}
        return nll.mean()

    def evaluate(
        self, strokes: Tensor, strokes_mask: Tensor, characters: Tensor, characters_mask: Tensor
    ) -> dict[str, Tensor]:
        nll, speed = self._lines(strokes, strokes_mask, characters, characters_mask)
        return {"line_nll": nll, "speed": speed}

    def _lines(
        self, strokes: Tensor, strokes_mask: Tensor, characters: Tensor, characters_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """-log p and the window's speed of each line, (B,)."""
        text = Text.of(characters, characters_mask, self.symbols)
        valid = strokes_mask[:, 1:]
        y, places = self._outputs(strokes[:, :-1], valid, text)
        nll = -self.log_density(strokes[:, 1:], self.mixture(y))
        count = valid.sum(1)
        last = places.gather(1, (count - 1)[:, None, None].expand(-1, 1, places.shape[2])).squeeze(1)
        return (nll * valid).sum(1), last.mean(1) / count

    def _outputs(self, x: Tensor, valid: Tensor, text: Text) -> tuple[Tensor, Tensor]:
        """y with ê behind it (B, T, 6 mixtures + 1), and the window's places (B, T, gaussians)."""
        hidden, windows, places = [], [], []  # of each step
        steps, window_inputs = self.first.steps(len(x), count=x.shape[1]), self.window.once()
        state = steps.cell.initial(len(x))
        w, place = x.new_zeros(len(x), self.symbols), x.new_zeros(len(x), self.gaussians)
        for point, is_valid in zip(x.unbind(1), valid.unbind(1), strict=True):
            state = steps(torch.cat([point, w], 1), state, is_valid)
            w, place = window.step(window_inputs(state[0]), place, text, self.window_shift)
            hidden.append(state[0])
            windows.append(w)
            places.append(place)
        first, window_seq = torch.stack(hidden, 1), torch.stack(windows, 1)
        second, _ = self.second(torch.cat([x, first, window_seq], 2), valid)
        third, _ = self.third(torch.cat([x, second, window_seq], 2), valid)
        layers = torch.cat([first, second, third], 2)
        y = torch.cat([self.output(layers), self.lift(layers)], 2)
        return clipped(y, self.clip_outputs / len(y)) if self.clip_outputs else y, torch.stack(places, 1)

    def mixture(self, y: Tensor, bias: float = 0.0) -> Mixture:
        """`bias` b (Graves 2013, eq. 61, 62): weights of (1 + b) π̂, deviations of exp(log σ - b)."""
        parts = y[..., :-1].unflatten(-1, (NUMBERS, self.mixtures)).movedim(-2, 0)
        log_sigma = parts[3:5].clamp(-BOUND, BOUND) - bias
        return Mixture(
            F.log_softmax(parts[0] * (1 + bias), -1),
            parts[1:3],
            log_sigma,
            parts[5].tanh().clamp(-MOST, MOST),
            y[..., -1],
        )

    def log_density(self, points: Tensor, given: Mixture) -> Tensor:
        """log p(x | y) of points (..., 3) (Graves 2013, eq. 23-25)."""
        offsets = points[..., :2].movedim(-1, 0)[..., None]
        a, b = (offsets - given.mean) * (-given.log_sigma).exp()
        rest = (1 - given.rho) * (1 + given.rho)
        z = a.square() + b.square() - 2 * given.rho * a * b
        log_normal = -z / (2 * rest) - given.log_sigma.sum(0) - 0.5 * rest.log() - math.log(2 * math.pi)
        log_offsets = torch.logsumexp(given.log_weight + log_normal, -1)
        return log_offsets - F.binary_cross_entropy_with_logits(given.end, points[..., 2], reduction="none")

    # --- writing ------------------------------------------------------------------------------------------------------

    def sample(self, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        """`lines.svg`, test texts in a hand that the model draws; `steady.svg`, the same with bias 1; `window.svg`, the
        window's path along the first.
        """
        characters = data.splits["test"]["characters"]
        assert isinstance(characters, Ragged)
        rows = torch.linspace(0, len(characters) - 1, min(count, LINES)).long()
        texts = [characters[row : row + 1].values.tolist() for row in rows.tolist()]
        lines, steady = (self._write_lines(texts, bias, seed, data) for bias in (0.0, 1.0))
        return {"lines.svg": pen.lines(lines), "steady.svg": pen.lines(steady), "window.svg": pen.path(lines[0])}

    def write(self, text: str, bias: float, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        numbers = {symbol: number for number, symbol in enumerate(data.words) if len(symbol) == 1}
        unknown = sorted({letter for letter in text if letter not in numbers})
        if unknown:
            letters = " ".join(map(repr, unknown))
            symbols = "".join(numbers)
            raise BadInput(f"--text: {letters} is none of the symbols that this model has seen: {symbols!r}.")
        if not 0 < len(text) <= TEXT:
            raise BadInput(f"--text has {len(text)} letters: from 1 to {TEXT} can be written.")
        lines = self._write_lines([[numbers[letter] for letter in text]] * count, bias, seed, data)
        return {"lines.svg": pen.lines(lines), "window.svg": pen.path(lines[0])}

    def _write_lines(self, texts: Sequence[Sequence[int]], bias: float, seed: int, data: Dataset) -> list[pen.Line]:
        lines = []
        for (points, weights), text in zip(self.written(texts, bias, seed), texts, strict=True):
            points[:, :2] = points[:, :2] * np.asarray(data.scale.deviation) + np.asarray(data.scale.mean)
            letters = [data.words[number] for number in text]
            label = "".join(letter if len(letter) == 1 else "\N{REPLACEMENT CHARACTER}" for letter in letters)
            lines.append(pen.Line(points, label, weights))
        return lines

    @torch.no_grad()
    def written(self, texts: Sequence[Sequence[int]], bias: float, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Points (n, 3) of each text and its letters' weights (n, U). A line ends where what follows the last letter
        would count for most (Graves 2013, 5.3), or is given up.
        """
        lengths = [len(text) for text in texts]
        most = min(LONGEST, FEWEST + POINTS_A_LETTER * max(lengths))
        points, weights, ended = [], [], np.full(len(texts), most)
        for t, (point, phi) in enumerate(self._points(Ragged.of(map(torch.tensor, texts)), bias, seed, most)):
            points.append(point.cpu().numpy())
            weights.append(phi.cpu().numpy())
            for row in np.flatnonzero(ended == most):
                of_text = weights[-1][row, : lengths[row] + 1]
                if of_text.argmax() == lengths[row] and of_text[-1] > 0:
                    ended[row] = t + 1
            if (ended < most).all():
                break
        drawing, shares = np.stack(points, 1), np.stack(weights, 1)
        return [(drawing[i, : ended[i]].copy(), shares[i, : ended[i], : lengths[i]]) for i in range(len(texts))]

    def _points(self, texts: Ragged, bias: float, seed: int, most: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Points (B, 3), and the weights (B, U + 1) of letters and of what follows them."""
        like = self.output.linear.weight
        letters, mask = texts.padded(slice(None))
        text = Text.of(letters.to(like.device), mask.to(like.device), self.symbols)
        layers = [layer.steps(len(letters), count=most) for layer in (self.first, self.second, self.third)]
        states = [steps.cell.initial(len(letters)) for steps in layers]
        window_inputs, output, lift = self.window.once(), self.output.once(), self.lift.once()
        draw = stream(seed, "samples")
        draws = [numbers((most, len(letters), 2)) for numbers in (draw.random, draw.standard_normal)]
        w, place = like.new_zeros(len(letters), self.symbols), like.new_zeros(len(letters), self.gaussians)
        x = like.new_zeros(len(letters), 3)
        for uniform, normal in zip(*(torch.from_numpy(values).to(like) for values in draws), strict=True):
            states[0] = layers[0](torch.cat([x, w], 1), states[0])
            given = window_inputs(states[0][0])
            w, place = window.step(given, place, text, self.window_shift)
            for layer in (1, 2):
                states[layer] = layers[layer](torch.cat([x, states[layer - 1][0], w], 1), states[layer])
            hidden = torch.cat([h for h, _ in states], 1)
            x = self._point(self.mixture(torch.cat([output(hidden), lift(hidden)], 1), bias), uniform, normal)
            yield x, window.weights(given, place, letters.shape[1] + 1)

    def _point(self, given: Mixture, uniform: Tensor, normal: Tensor) -> Tensor:
        """A point (B, 3) drawn with uniform and normal numbers, (B, 2) each."""
        chosen = (given.log_weight.exp().cumsum(-1) < uniform[:, :1]).sum(-1, keepdim=True).clamp(max=self.mixtures - 1)
        means, log_sigmas = (part.gather(-1, chosen.expand(2, -1, -1)).squeeze(-1) for part in given[1:3])
        rho = given.rho.gather(-1, chosen).squeeze(-1)
        a, b = normal.unbind(1)
        x = means[0] + log_sigmas[0].exp() * a
        y = means[1] + log_sigmas[1].exp() * (rho * a + (1 - rho.square()).sqrt() * b)
        return torch.stack([x, y, (given.end.sigmoid() > uniform[:, 1]).to(x)], 1)


def build(config: Mapping[str, Any], sites: Sites) -> Handwriting:
    model, data = config["model"], config["data"]
    return Handwriting(
        int(data["declares"]["symbols"]),
        model["hidden_size"],
        model["gaussians"],
        model["mixtures"],
        float(model["window_shift"]),
        float(model["clip_gates"]),
        float(model["clip_outputs"]),
        sites,
    )
