"""DRAW and the handwriting network as their papers' readers write them, step by step in torch's own operations.

Each takes the weights of ours and computes the same loss from them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.models.draw import Draw
from normbench.models.handwriting import MOST, Handwriting
from normbench.rnn.layers import LSTM


def gates(of: LSTM) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of the input and of the hidden state, and biases, of the first layer, gates in PyTorch's order."""
    f, i, o, g = torch.arange(4 * of.hidden_size).chunk(4)
    rows, cell = torch.cat([i, f, g, o]), of.cells[0]
    return cell.weight_ih[rows], cell.weight_hh[rows], cell.bias[rows]


def torch_weights(of: LSTM) -> dict[str, Tensor]:
    """The state of a `torch.nn.LSTMCell` that computes what that layer does."""
    x, h, bias = gates(of)
    return {"weight_ih": x, "weight_hh": h, "bias_ih": bias, "bias_hh": torch.zeros_like(bias)}


class DrawLN(nn.Module):
    """h = σ(o) tanh(LN(c)), eps outside the root."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.gain, self.shift = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.zeros(hidden))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        i, f, g, o = (self.x(x) + self.h(state[0])).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        centred = c - c.mean(1, keepdim=True)
        normed = centred / (c.std(1, keepdim=True, correction=0) + 1e-5) * self.gain + self.shift
        return o.sigmoid() * normed.tanh(), c


class DrawPort(nn.Module):
    """DRAW glimpse by glimpse in torch's own operations."""

    def __init__(self, of: Draw, normed: bool) -> None:
        super().__init__()
        hidden, self.side = of.encoder.hidden_size, of.side
        self.glimpses, self.windows = of.glimpses, (of.read_size, of.write_size)
        cell = DrawLN if normed else nn.LSTMCell
        self.encoder, self.decoder = cell(of.encoder.input_size, hidden), cell(of.latent_size, hidden)
        self.read, self.latent = nn.Linear(hidden, 5), nn.Linear(hidden, 2 * of.latent_size)
        self.write, self.patch = nn.Linear(hidden, 5), nn.Linear(hidden, of.write_size**2)
        with torch.no_grad():
            for mine, ours in ((self.encoder, of.encoder), (self.decoder, of.decoder)):
                self._take(mine, ours)
            linears = {"window.read": self.read, "window.write": self.write, "latent": self.latent, "patch": self.patch}
            for name, linear in linears.items():
                linear.load_state_dict(of.get_submodule(name).linear.state_dict())

    @staticmethod
    def _take(mine: nn.Module, ours: LSTM) -> None:
        x, h, bias = gates(ours)
        if isinstance(mine, DrawLN):
            mine.load_state_dict({**mine.state_dict(), "x.weight": x, "x.bias": bias, "h.weight": h})
        else:
            mine.load_state_dict(torch_weights(ours))

    def filters(self, given: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
        gy, gx, log_stride, log_variance, log_intensity = given.chunk(5, 1)
        stride = (self.side - 1) / (n - 1) * log_stride.exp()
        pixels, matrices = torch.arange(self.side, dtype=given.dtype), []
        for place in (gy, gx):
            means = (place + 1) / 2 * self.side + (torch.arange(n) - n / 2 + 0.5) * stride
            values = (-((pixels - means[..., None]) ** 2) / (2 * log_variance.exp()[..., None])).exp()
            matrices.append(values / (values.sum(2, keepdim=True) + 1e-4))
        return matrices[0], matrices[1], log_intensity.exp()[..., None]

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        n, m = self.windows
        image = inputs.view(-1, self.side, self.side)
        canvas = torch.zeros_like(image)
        zero = inputs.new_zeros(len(inputs), self.read.in_features)
        read, write, kl = (zero, zero), (zero, zero), torch.zeros(len(inputs))
        for t in range(self.glimpses):
            rows, columns, intensity = self.filters(self.read(write[0]), n)
            error = image - canvas.sigmoid()
            glimpses = [
                intensity * torch.einsum("biy,byx,bjx->bij", rows, picture, columns) for picture in (image, error)
            ]
            read = self.encoder(torch.cat([*(part.flatten(1) for part in glimpses), write[0]], 1), read)
            mean, log_sigma = self.latent(read[0]).chunk(2, 1)
            kl = kl + (0.5 * ((2 * log_sigma).exp() + mean**2) - log_sigma - 0.5).sum(1)
            write = self.decoder(mean + log_sigma.exp() * noise[:, t], write)
            rows, columns, intensity = self.filters(self.write(write[0]), m)
            patch = self.patch(write[0]).view(-1, m, m) / intensity
            canvas = canvas + torch.einsum("biy,bij,bjx->byx", rows, patch, columns)
        nll = F.binary_cross_entropy_with_logits(canvas.flatten(1), inputs, reduction="none").sum(1)
        return (nll + kl).mean()


class HandwritingLN(nn.Module):
    """LN of both terms and of the cell (LN 2016, eq. 20-22)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.x, self.h = (nn.Linear(size, 4 * hidden, bias=False) for size in (inputs, hidden))
        self.of_x, self.of_h, self.of_c = (nn.LayerNorm(size) for size in (4 * hidden, 4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        i, f, g, o = (self.of_x(self.x(x)) + self.of_h(self.h(state[0])) + self.bias).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * self.of_c(c).tanh(), c


class HandwritingPort(nn.Module):
    """Three cells and the window point by point, then all mixtures at once; derivatives are not bounded."""

    def __init__(self, of: Handwriting, normed: bool) -> None:
        super().__init__()
        self.symbols, self.gaussians, self.mixtures, self.shift = of.symbols, of.gaussians, of.mixtures, of.window_shift
        kind = HandwritingLN if normed else nn.LSTMCell
        layers = (of.first, of.second, of.third)
        self.cells = nn.ModuleList(kind(layer.input_size, layer.hidden_size) for layer in layers)
        self.window, self.output, self.lift = (
            nn.Linear(m.linear.in_features, m.linear.out_features) for m in (of.window, of.output, of.lift)
        )
        with torch.no_grad():
            for mine, ours in zip(self.cells, layers, strict=True):
                self._take(mine, ours)
            for mine, theirs in ((self.window, of.window), (self.output, of.output), (self.lift, of.lift)):
                mine.load_state_dict(theirs.linear.state_dict())

    @staticmethod
    def _take(mine: nn.Module, ours: LSTM) -> None:
        x, h, bias = gates(ours)
        if isinstance(mine, HandwritingLN):
            mine.load_state_dict({**mine.state_dict(), "x.weight": x, "h.weight": h, "bias": bias})
        else:
            mine.load_state_dict(torch_weights(ours))

    def forward(self, strokes: Tensor, characters: Tensor) -> Tensor:
        x, target = strokes[:, :-1], strokes[:, 1:]
        text = F.one_hot(characters, self.symbols).to(strokes)
        places = torch.arange(characters.shape[1]).to(strokes)
        states = [2 * (x.new_zeros(len(x), self.lift.in_features // 3),) for _ in self.cells]
        w, place, outputs = x.new_zeros(len(x), self.symbols), x.new_zeros(len(x), self.gaussians), []
        for t in range(x.shape[1]):
            states[0] = self.cells[0](torch.cat([x[:, t], w], 1), states[0])
            height, narrowness, pace = self.window(states[0][0]).chunk(3, 1)
            place = place + (pace + self.shift).exp()
            away = place[:, :, None] - places
            phi = (height.exp()[:, :, None] * (-narrowness.exp()[:, :, None] * away**2).exp()).sum(1)
            w = torch.bmm(phi[:, None], text).squeeze(1)
            for layer in (1, 2):
                states[layer] = self.cells[layer](torch.cat([x[:, t], states[layer - 1][0], w], 1), states[layer])
            outputs.append(torch.cat([h for h, _ in states], 1))
        every = torch.stack(outputs, 1)
        weight, mx, my, sx, sy, r = self.output(every).chunk(6, 2)
        rho = r.tanh().clamp(-MOST, MOST)
        a, b = (target[..., :1] - mx) / sx.exp(), (target[..., 1:2] - my) / sy.exp()
        z = (a**2 + b**2 - 2 * rho * a * b) / (2 * (1 - rho**2))
        log_normal = -z - sx - sy - 0.5 * (1 - rho**2).log() - math.log(2 * math.pi)
        nll = -torch.logsumexp(weight.log_softmax(2) + log_normal, 2)
        nll = nll + F.binary_cross_entropy_with_logits(self.lift(every)[..., 0], target[..., 2], reduction="none")
        return nll.sum(1).mean()
