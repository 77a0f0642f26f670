"""DRAW: pictures painted glimpse by glimpse (Gregor et al. 2015), as LN 2016 trains it (6.4, Fig. 4)."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.core.streams import stream
from normbench.data import Dataset
from normbench.errors import BadInput
from normbench.models.base import Model, Sites
from normbench.norms.layers import NormedLinear
from normbench.rnn import attention
from normbench.rnn.cells import LSTMCell
from normbench.rnn.layers import LSTM

ENLARGED, GAP = 4, 1  # a pixel's side and the space between pictures, in pixels of the file and of a picture
MOST = 16  # pictures in a row of the file
PAPER, FRAME = (255, 255, 255), (213, 94, 0)
SCALED_BY = 1000  # pictures painted to find the scale of the cells at the first glimpse


class Frame(NamedTuple):
    """A rectangle in a picture's own pixels, counted from 0 at the middle of the first."""

    top: float
    left: float
    bottom: float
    right: float


class Glimpse(NamedTuple):
    """What a glimpse leaves: the canvas (B, side²), mean and log σ of q(z), (B, z) each, c of encoder and decoder."""

    canvas: Tensor
    mean: Tensor
    log_sigma: Tensor
    cells: tuple[Tensor, Tensor]


class Draw(Model):
    """A variational autoencoder whose encoder and decoder are LSTMs over T glimpses (Gregor et al. 2015, eq. 3-8).

        r_t      = read(x, x̂_t; a^r_t),  a^r_t = W_r h^dec_{t-1} + b_r,  x̂_t = x - σ(c_{t-1})
        h^enc_t  = LSTM([r_t, h^dec_{t-1}]);  (μ_t, log σ_t) = W_q h^enc_t + b_q;  z_t = μ_t + σ_t ε_t
        h^dec_t  = LSTM(z_t);  c_t = c_{t-1} + write(w_t; a^w_t),  w_t = W_w h^dec_t + b_w,  a^w_t = W_a h^dec_t + b_a
        bound    = Σ_pixels -log p(x | σ(c_T)) + Σ_t Σ_k [½ (σ_tk² + μ_tk²) - log σ_tk - ½]   in nats

    `rnn/attention.py` has read and write. All states and c_0 begin at zero. The LSTMs have no peepholes (LN 2016, eq.
    29-31; Gregor et al. do not say). log σ_t is kept within ± `attention.BOUND`, as the windows' logarithms.
    Sites: `encoder.*` and `decoder.*` of input, hidden, cell (LN 2016 normalizes the cell alone); `window.read` (W_r),
    `latent` (W_q), `window.write` (W_a), `patch` (W_w), on their weights.
    `cell_scale`: `first_glimpse`, h = σ(o) tanh(λ s) in both LSTMs, s their cell states, λ the inverse of the standard
    deviation of s at the first glimpse of an empty picture: the scale at which LN of the cell would begin, without LN.
    Metrics: `bound` and `kl`, its second sum. Of K samples of an example: -log mean exp(-bound), the bound of Burda et
    al. 2016, which for K = 1 is the bound.
    Shapes: inputs (B, side²), values in [0, 1].
    `bias`: of the LSTMs, see `Cell`.
    Not the same as: ericjang/draw, which subtracts ½ once for all of z_t; with `model.init=torch model.bias=double` the
    LN authors' Torch module, whose LN begins with shifts of U(-1/√H, 1/√H).
    """

    loss = "bound"

    def __init__(
        self,
        side: int,
        glimpses: int,
        hidden_size: int,
        latent_size: int,
        read_size: int,
        write_size: int,
        cell_scale: str,
        bias: str,
        sites: Sites,
    ) -> None:
        super().__init__()
        for name, size in (("read_size", read_size), ("write_size", write_size)):
            if not 1 <= size <= side:
                raise BadInput(f"model.{name}={size} must be from 1 to the picture's {side} pixels a side.")
        self.side, self.glimpses, self.latent_size = side, glimpses, latent_size
        self.read_size, self.write_size = read_size, write_size
        self.scaled = cell_scale == "first_glimpse"
        features = 2 * read_size**2 + hidden_size
        self.encoder = LSTM(features, hidden_size, sites, "encoder", bias=bias, scaled=self.scaled)
        self.decoder = LSTM(latent_size, hidden_size, sites, "decoder", bias=bias, scaled=self.scaled)

        def linear(site: str) -> NormedLinear:
            return NormedLinear(hidden_size, *sites(site), nn.Identity())

        self.window = nn.ModuleDict({name: linear(f"window.{name}") for name in ("read", "write")})
        self.latent, self.patch = linear("latent"), linear("patch")

    def paint(self, image: Tensor, noise: Tensor) -> Iterator[Glimpse]:
        """The glimpses of image (B, side²) with noise ε (B, T, z)."""
        encoder, decoder = (lstm.steps(len(image), count=self.glimpses) for lstm in (self.encoder, self.decoder))
        read_window, latent, written = self._window("read").once(), self.latent.once(), self._writing()
        read, write = (steps.cell.initial(len(image)) for steps in (encoder, decoder))
        canvas = torch.zeros_like(image)
        for epsilon in noise.unbind(1):
            glimpse = attention.read(image, canvas, read_window(write[0]), self.read_size)
            read = encoder(torch.cat([glimpse, write[0]], 1), read)
            mean, log_sigma = latent(read[0]).chunk(2, 1)
            log_sigma = log_sigma.clamp(-attention.BOUND, attention.BOUND)
            write = decoder(mean + log_sigma.exp() * epsilon, write)
            canvas, _ = written(canvas, write[0])
            yield Glimpse(canvas, mean, log_sigma, (read[1], write[1]))

    def _window(self, name: str) -> NormedLinear:
        layer = self.window[name]
        assert isinstance(layer, NormedLinear)
        return layer

    def _writing(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """(canvas, h of the decoder) -> the next canvas, and the window."""
        window, patch = self._window("write").once(), self.patch.once()

        def write(canvas: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            given = window(h)
            return attention.write(canvas, patch(h), given, self.write_size), given

        return write

    def bound(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The bound and its KL part, (B,) each."""
        noise = self.normal("latent", inputs.new_empty(len(inputs), self.glimpses, self.latent_size))
        means, logs, canvas = [], [], inputs
        for glimpse in self.paint(inputs, noise):
            canvas = glimpse.canvas  # the last alone is held against the picture
            means.append(glimpse.mean)
            logs.append(glimpse.log_sigma)
        mean, log_sigma = torch.stack(means, 1), torch.stack(logs, 1)
        kl = (0.5 * ((2 * log_sigma).exp() + mean.square()) - log_sigma - 0.5).sum((1, 2))
        nll = F.binary_cross_entropy_with_logits(canvas, inputs, reduction="none").sum(1)
        return nll + kl, kl

    def forward(self, inputs: Tensor) -> Tensor:
        bound, kl = self.bound(inputs)
        self.tally = {"kl": kl.detach().sum()}
        return bound.mean()

    def evaluate(self, inputs: Tensor) -> dict[str, Tensor]:
        bound, kl = self.bound(inputs)
        return {"bound": bound, "kl": kl}

    def over_samples(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        bound = values["bound"]
        return {**super().over_samples(values), "bound": math.log(len(bound)) - torch.logsumexp(-bound, 0)}

    def rescale(self, inputs: Tensor) -> None:
        """The fixed scales, from the weights alone: of an empty picture, with noise that is the same for all runs."""
        if not self.scaled:
            return
        image = inputs.new_zeros(SCALED_BY, self.side**2)
        noise = stream(0, "first glimpse").standard_normal((SCALED_BY, 1, self.latent_size))
        for place, layer in enumerate((self.encoder, self.decoder)):  # the decoder's follows from the encoder's
            cell = layer.cells[0]
            assert isinstance(cell, LSTMCell)
            first = next(self.paint(image, torch.from_numpy(noise).to(image)))
            cell.scale.copy_(1 / first.cells[place].std())

    @torch.no_grad()
    def dream(self, seed: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Canvas (count, side²) and window after each glimpse of pictures that are painted from noise alone."""
        like = self.latent.linear.weight
        noise = torch.from_numpy(stream(seed, "samples").standard_normal((count, self.glimpses, self.latent_size)))
        decoder, written = self.decoder.steps(count, count=self.glimpses), self._writing()
        state = decoder.cell.initial(count)
        canvas = like.new_zeros(count, self.side**2)
        for epsilon in noise.to(like).unbind(1):
            state = decoder(epsilon, state)
            canvas, given = written(canvas, state[0])
            yield canvas, given

    def sample(self, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        """`drawn.png`, pictures painted from noise alone, and `painting.png`, the first of them glimpse by glimpse."""
        glimpses = list(self.dream(seed, count))
        last, _ = glimpses[-1]
        stages = [self._picture(canvas[0]) for canvas, _ in glimpses]
        frames = [self._frame(given[0]) for _, given in glimpses]
        return {
            "drawn.png": png([self._picture(canvas) for canvas in last]),
            "painting.png": png(stages, frames),
        }

    def _picture(self, canvas: Tensor) -> np.ndarray:
        return canvas.sigmoid().view(self.side, self.side).cpu().numpy()

    def _frame(self, given: Tensor) -> Frame:
        """From the centre of the first filters to that of the last."""
        means = attention.means(given[None], self.write_size, self.side)[0]
        return Frame(*means[:, 0].tolist(), *means[:, -1].tolist())


def build(config: Mapping[str, Any], sites: Sites) -> Draw:
    model, data = config["model"], config["data"]
    features = data["declares"].get("features", 0)
    side = math.isqrt(features)
    if not side or side**2 != features:
        raise BadInput(
            f"model=draw paints square pictures: data={data['name']} has {features or 'no'} values a picture."
        )
    return Draw(
        side,
        model["glimpses"],
        model["hidden_size"],
        model["latent_size"],
        model["read_size"],
        model["write_size"],
        model["cell_scale"],
        model["bias"],
        sites,
    )


def png(pictures: Sequence[np.ndarray], frames: Sequence[Frame] = ()) -> bytes:
    """A PNG file of grey pictures (height, width) of values from 0 (black) to 1, each perhaps with a frame.

    They stand in rows as nearly square as `MOST` a row allows. What of a frame lies outside is not seen. NaN is black.
    """
    from PIL import Image, ImageDraw

    height, width = pictures[0].shape
    columns = min(MOST, math.ceil(math.sqrt(len(pictures) * 2)))
    rows = math.ceil(len(pictures) / columns)
    sheet = Image.new(
        "RGB", ((columns * (width + GAP) - GAP) * ENLARGED, (rows * (height + GAP) - GAP) * ENLARGED), PAPER
    )
    for place, picture in enumerate(pictures):
        row, column = divmod(place, columns)
        grey = Image.fromarray(np.clip(np.round(np.nan_to_num(picture) * 255), 0, 255).astype(np.uint8)).convert("RGB")
        tile = grey.resize((width * ENLARGED, height * ENLARGED), Image.Resampling.NEAREST)
        if frames:
            limit = 2 * max(height, width)  # far outside is outside
            edges = [min(limit, max(-limit, edge)) for edge in frames[place]]  # so that NaN is outside as well
            top, left, bottom, right = (round((edge + 0.5) * ENLARGED) for edge in edges)
            ImageDraw.Draw(tile).rectangle((left, top, right, bottom), outline=FRAME)
        sheet.paste(tile, (column * (width + GAP) * ENLARGED, row * (height + GAP) * ENLARGED))
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()
