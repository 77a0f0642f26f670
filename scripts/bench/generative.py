"""Updates of DRAW by normalizer, and against a straightforward port: python scripts/bench/generative.py [--rounds N]

An update is forward, backward and the optimizer's step on 128 pictures of 28 x 28, at the sizes of the paper and of
`reduced`. LN at the cells' outputs against no normalization; both against DRAW as its papers' readers write it, with
`nn.LSTMCell` (with LN: the gates by one linear map of each input) and filters by einsum, which computes the
same loss from the same weights; and without the kernel, where there is no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import harness
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.battery.cost import interleave
from normbench.config.identity import RunSpec
from normbench.config.plan import experiment_spec
from normbench.models import base
from normbench.models.draw import Draw
from normbench.rnn import backends
from normbench.rnn.layers import LSTM
from normbench.streams import stream
from normbench.train import optim

SEED, BATCH = 1, 128
LN_GOAL, PORT_GOAL = 1.10, 1 / 1.4
ARMS = ("none", "ln")


class PortedLN(nn.Module):
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


class Port(nn.Module):
    """DRAW glimpse by glimpse in torch's own operations."""

    def __init__(self, of: Draw, normed: bool) -> None:
        super().__init__()
        hidden, self.side = of.encoder.hidden_size, of.side
        self.glimpses, self.windows = of.glimpses, (of.read_size, of.write_size)
        cell = PortedLN if normed else nn.LSTMCell
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
        f, i, o, g = torch.arange(4 * ours.hidden_size).chunk(4)
        rows, cell = torch.cat([i, f, g, o]), ours.cells[0]
        if isinstance(mine, PortedLN):
            given = {"x.weight": cell.weight_ih[rows], "x.bias": cell.bias[rows], "h.weight": cell.weight_hh[rows]}
            mine.load_state_dict({**mine.state_dict(), **given})
            return
        zero = torch.zeros_like(cell.bias)
        given = {"weight_ih": cell.weight_ih[rows], "weight_hh": cell.weight_hh[rows], "bias_ih": cell.bias[rows]}
        mine.load_state_dict({**given, "bias_hh": zero})

    def filters(self, given: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
        gy, gx, log_stride, log_variance, log_intensity = given.chunk(5, 1)
        stride = (self.side - 1) / (n - 1) * log_stride.exp()
        pixels, found = torch.arange(self.side, dtype=given.dtype), []
        for place in (gy, gx):
            means = (place + 1) / 2 * self.side + (torch.arange(n) - n / 2 + 0.5) * stride
            values = (-((pixels - means[..., None]) ** 2) / (2 * log_variance.exp()[..., None])).exp()
            found.append(values / (values.sum(2, keepdim=True) + 1e-4))
        return found[0], found[1], log_intensity.exp()[..., None]

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        n, m = self.windows
        image = inputs.view(-1, self.side, self.side)
        canvas = torch.zeros_like(image)
        zero = inputs.new_zeros(len(inputs), self.read.in_features)
        read, write, kl = (zero, zero), (zero, zero), torch.zeros(len(inputs))
        for t in range(self.glimpses):
            rows, columns, intensity = self.filters(self.read(write[0]), n)
            error = image - canvas.sigmoid()
            seen = [intensity * torch.einsum("biy,byx,bjx->bij", rows, what, columns) for what in (image, error)]
            read = self.encoder(torch.cat([*(part.flatten(1) for part in seen), write[0]], 1), read)
            mean, log_sigma = self.latent(read[0]).chunk(2, 1)
            kl = kl + (0.5 * ((2 * log_sigma).exp() + mean**2) - log_sigma - 0.5).sum(1)
            write = self.decoder(mean + log_sigma.exp() * noise[:, t], write)
            rows, columns, intensity = self.filters(self.write(write[0]), m)
            patch = self.patch(write[0]).view(-1, m, m) / intensity
            canvas = canvas + torch.einsum("biy,bij,bjx->byx", rows, patch, columns)
        nll = F.binary_cross_entropy_with_logits(canvas.flatten(1), inputs, reduction="none").sum(1)
        return (nll + kl).mean()


def stepping(loss: Callable[[], Tensor], model: nn.Module, spec: RunSpec) -> Callable[[], object]:
    optimizer = optim.build(spec.config["optim"], model)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def sides(arm: str, fidelity: str, inputs: Tensor) -> tuple[RunSpec, Draw, Callable[[], Tensor]]:
    """The arm's model and its loss in update 0."""
    spec = experiment_spec("ln2016/fig4", arm, fidelity, [f"seed={SEED}"])
    model = base.build(spec.config, spec.sites()).train()
    assert isinstance(model, Draw)

    def loss() -> Tensor:
        with base.update(model, SEED, 0):
            found: Tensor = model(inputs)
        return found

    return spec, model, loss


def compare(name: str, fidelity: str, rounds: int) -> Iterator[harness.Row]:
    pixels = experiment_spec("ln2016/fig4", "none", fidelity, []).config["data"]["declares"]["features"]
    inputs = torch.from_numpy(stream(SEED, "bench").random((BATCH, pixels)) < 0.13).float()
    work: dict[str, Callable[[], object]] = {}
    for arm in ARMS:
        spec, model, loss = sides(arm, fidelity, inputs)
        port = Port(model, normed=arm == "ln")
        with base.update(model, SEED, 0):
            noise = model.normal("latent", inputs.new_empty(BATCH, model.glimpses, model.latent_size))
        ours, theirs = loss().item(), port(inputs, noise).item()
        if abs(ours - theirs) > 1e-4 * abs(theirs):
            raise SystemExit(f"{name}, {arm}: the two compute different losses, {ours} and {theirs}.")

        def ported(port: Port = port, noise: Tensor = noise) -> Tensor:
            found: Tensor = port(inputs, noise)
            return found

        def by_aten(step: Callable[[], object]) -> Callable[[], object]:
            def run() -> None:
                with backends.using("aten"):
                    step()

            return run

        work[arm] = stepping(loss, model, spec)
        work[f"{arm}, port"] = stepping(ported, port, spec)
        again, other, its_loss = sides(arm, fidelity, inputs)
        work[f"{arm}, ATen"] = by_aten(stepping(its_loss, other, again))
    took = interleave(work, rounds, warmup=1)
    yield harness.row(f"{name}: ln / none", took["ln"], took["none"], 1, LN_GOAL)
    for arm in ARMS:
        yield harness.row(f"{name}: {arm} / port", took[arm], took[f"{arm}, port"], 1, PORT_GOAL)
        yield harness.row(f"{name}: {arm} without kernel / port", took[f"{arm}, ATen"], took[f"{arm}, port"], 1)


def rows(rounds: int) -> Iterator[harness.Row]:
    yield from compare("64 glimpses", "paper", rounds)
    yield from compare("10 glimpses", "reduced", rounds)


if __name__ == "__main__":
    harness.main(__doc__, "generative", "An update of DRAW: with LN / without, and against a plain port", 15, rows)
