"""ConvPool-CNN-C (Springenberg et al. 2015) as Salimans and Kingma 2016 train it: for RMSNorm's section 6.4."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.models.base import Classifier, Sites
from normbench.norms.layers import NormedConv, NormedLinear

FACTORS = (1, 1, 1, 2, 2, 2, 2, 2, 2)  # of the width
KERNELS = (3, 3, 3, 3, 3, 3, 3, 1, 1)
SAME = 6  # convolutions that are padded with zeros
POOLED = (2, 5)  # followed by max pooling 2 x 2 and dropout
SLOPE = 0.1  # of leaky ReLU below 0


class ConvPoolCNN(Classifier):
    """Softmax classifier: nine convolutions, the mean of each channel over the image, a linear map to the classes.

    3 x 3 of w, w, w channels, then of 2w, 2w, 2w, then of 2w without padding; 1 x 1 of 2w, 2w; leaky ReLU after each.
    Max pooling 2 x 2 and dropout after the third and the sixth. `noise`: the standard deviation of normal noise in the
    inputs. Updates alone have noise and dropout, whose survivors are divided by their share.
    Sites: `conv.0` to `conv.8`, `logits` (summed inputs). Shapes: inputs (B, 32, 32, 3), targets (B,) int64; inside
    (B, height, width, channels).
    """

    evaluated_at_once = 250

    def __init__(self, classes: int, width: int, noise: float, dropout: float, sites: Sites) -> None:
        super().__init__()
        self.noise_deviation, self.dropout = noise, dropout
        inputs, leaky = [3, *(width * factor for factor in FACTORS)], partial(F.leaky_relu, negative_slope=SLOPE)
        self.conv = nn.ModuleList(
            NormedConv(inputs[i], *sites(f"conv.{i}"), leaky, kernel=kernel, same=i < SAME)
            for i, kernel in enumerate(KERNELS)
        )
        self.logits = NormedLinear(inputs[-1], *sites("logits"), nn.Identity())

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes)."""
        h, draw = inputs, self.draws("noise")
        if draw is not None:
            noise = draw.standard_normal(tuple(inputs.shape), dtype=np.float32)
            h = inputs + self.noise_deviation * torch.from_numpy(noise).to(inputs)
        draw = self.draws("dropout")
        for i, layer in enumerate(self.conv):
            h = layer(h)
            if i in POOLED:
                h = self._dropped(F.max_pool2d(h.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1), draw)
        return self.logits(h.mean((1, 2)))

    def _dropped(self, x: Tensor, draw: np.random.Generator | None) -> Tensor:
        if draw is None:
            return x
        kept = draw.random(tuple(x.shape), dtype=np.float32) >= self.dropout
        return x * torch.from_numpy(kept).to(x) / (1 - self.dropout)


def build(config: Mapping[str, Any], sites: Sites) -> ConvPoolCNN:
    model = config["model"]
    return ConvPoolCNN(config["data"]["declares"]["classes"], model["width"], model["noise"], model["dropout"], sites)
