"""An LSTM that classifies a sequence after its last step (Cooijmans et al. 2016, 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.data.examples import Split
from normbench.models.base import Classifier, Noise, Sites, evaluating
from normbench.norms.modes import inference
from normbench.rnn.layers import LSTM

SEEN, IMAGES = "valid", 1000  # the split whose first images `after` looks at
STEPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700)


class PixelLSTM(Classifier):
    """Softmax of a linear map of the last output h_T of one LSTM layer (Cooijmans et al. 2016, eq. 6-8).

    h_0 and c_0 are learned vectors, zeros at first. To h_0 is added Gaussian noise of standard deviation `noise` for
    each example, in updates, in evaluations and where statistics are gathered for these: without it nothing varies over
    a batch, or over units, as long as the pixels are black, and normalizers divide by the root of eps.

    Sites: `lstm.input`, `lstm.hidden`, `lstm.cell`. Shapes: inputs (B, T, features), targets (B,) int64.
    """

    evaluated_at_once = 250  # of 784 steps each, whose four gates take 300 MB then

    def __init__(
        self, features: int, hidden_size: int, forget_bias: float, noise: float, classes: int, sites: Sites
    ) -> None:
        super().__init__()
        self.lstm = LSTM(features, hidden_size, sites, "lstm", forget_bias=forget_bias)
        self.h0, self.c0 = (nn.Parameter(torch.zeros(hidden_size)) for _ in range(2))
        self.deviation = noise
        self.logits = nn.Linear(hidden_size, classes)

    def outputs(self, inputs: Tensor) -> Tensor:
        """h_1, ..., h_T (B, T, H)."""
        h0, c0 = (start.expand(len(inputs), -1) for start in (self.h0, self.c0))
        if self.deviation:
            h0 = h0 + self.deviation * self.normal("initial state", h0)
        outputs, _ = self.lstm(inputs, state=(h0[None], c0[None]))
        return outputs

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes)."""
        return self.logits(self.outputs(inputs)[:, -1])

    def after(self, splits: Mapping[str, Split], seed: int) -> Iterator[dict[str, Any]]:
        """How far the statistics of W_h h_t, t = 1, 2, ..., are from those of the last step (Fig. 5, appendix A).

        Over the first thousand validation images: `log_variance` is the mean over units of |log(var_t / var_T)|,
        `mean_shift` that of |mean_t - mean_T| / std_T, with biased variances; infinite where nothing varies. In
        evaluation mode.
        """
        images, parts = splits[SEEN].first(IMAGES), []
        with torch.no_grad():
            with inference(self):
                for start in range(0, len(images), self.evaluated_at_once):
                    index = slice(start, min(start + self.evaluated_at_once, len(images)))
                    with evaluating(self, Noise(seed, SEEN, images.numbers(index))):
                        parts.append(self.outputs(images.batch(index).tensors["inputs"]))
            outputs = torch.cat(parts)
            last = self._moments(outputs[:, -1])
            for t in (*(t for t in STEPS if t < outputs.shape[1]), outputs.shape[1]):
                mean, variance = self._moments(outputs[:, t - 1])
                yield {
                    "split": f"{SEEN} step {t}",
                    "log_variance": (variance / last[1]).log().abs().mean().item(),
                    "mean_shift": ((mean - last[0]).abs() / last[1].sqrt()).mean().item(),
                }

    def _moments(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and biased variance over the examples of W_h h, of each row of W_h."""
        variance, mean = torch.var_mean(F.linear(h, self.get_parameter("lstm.cells.0.weight_hh")), 0, correction=0)
        return mean, variance


def build(config: Mapping[str, Any], sites: Sites) -> PixelLSTM:
    model, data = config["model"], config["data"]["declares"]
    return PixelLSTM(
        data["features"], model["hidden_size"], model["forget_bias"], model["noise"], data["classes"], sites
    )
