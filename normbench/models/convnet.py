"""A convolutional network for LN 2016, section 6.7, and what its units do near the boundary of the image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.data.examples import Split
from normbench.models.base import Classifier, Sites
from normbench.norms.layers import NormedConv, NormedLinear
from normbench.norms.modes import inference

FACTORS = (1, 1, 2, 2, 4, 4)  # of the width
SIDE, KERNEL, POOL = 32, 3, 2  # the images' side; max pooling 2 x 2 after every second convolution
SEEN = "test"  # the split whose images are looked at once training is done


class ConvNet(Classifier):
    """Softmax classifier: 3 x 3 convolutions of w, w, 2w, 2w, 4w, 4w channels, a dense layer of 4w, the classes.

    ReLU after each but the logits; max pooling 2 x 2 after every second convolution. Padded with zeros
    ("same").
    Sites: `conv.0` to `conv.5`, `dense.0` (summed inputs). Shapes: inputs (B, 32, 32, 3), targets (B,) int64; inside
    (B, height, width, channels).
    """

    evaluated_at_once = 250

    def __init__(self, classes: int, width: int, sites: Sites) -> None:
        super().__init__()
        inputs = [3, *(width * factor for factor in FACTORS)]
        self.conv = nn.ModuleList(  # ReLU as modules, which `after` can look into
            NormedConv(size, *sites(f"conv.{i}"), nn.ReLU(), kernel=KERNEL, same=True)
            for i, size in enumerate(inputs[:-1])
        )
        side = SIDE // POOL ** (len(FACTORS) // 2)
        self.dense = nn.ModuleList([NormedLinear(inputs[-1] * side**2, *sites("dense.0"), F.relu)])
        self.logits = nn.Linear(sites("dense.0")[0].features, classes)

    def predict(self, inputs: Tensor) -> Tensor:
        h = inputs
        for i, layer in enumerate(self.conv):
            h = layer(h)
            if i % 2:
                h = F.max_pool2d(h.permute(0, 3, 1, 2), POOL).permute(0, 2, 3, 1)
        return self.logits(self.dense[0](h.flatten(1)))

    def after(self, splits: Mapping[str, Split], seed: int) -> Iterator[dict[str, Any]]:
        """How often units at the border of each convolution's output are on, and how their inputs are distributed.

        A unit is at the border where its window overlaps the padding: the outermost ring. Per layer, over all test
        images, its channels and the positions of either place: the share of ReLU's outputs above 0, and mean and
        biased variance of ReLU's inputs. `on_difference` is the border's share less the interior's, `variance_ratio`
        the border's variance over the interior's (NaN or infinite where nothing varies). A last record has their mean
        and geometric mean over the layers. A layer whose normalizer replaces its ReLU is left out.
        """
        watched = {
            f"conv.{i}": _Watched() for i, layer in enumerate(self.conv) if isinstance(layer.activation, nn.ReLU)
        }
        with torch.no_grad(), inference(self), ExitStack() as hooks:
            for name, watch in watched.items():
                relu = self.get_submodule(name).get_submodule("activation")
                hooks.callback(relu.register_forward_hook(watch).remove)
            images = splits[SEEN]
            for start in range(0, len(images), self.evaluated_at_once):
                stop = min(start + self.evaluated_at_once, len(images))
                self.predict(images.batch(slice(start, stop)).tensors["inputs"])
        of_layers = []
        for name, watch in watched.items():
            border, interior = (watch.moments(place) for place in (ring(watch.sums), ~ring(watch.sums)))
            difference, ratio = border["on"] - interior["on"], border["variance"] / interior["variance"]
            of_layers.append(torch.stack([difference, ratio]))
            places = {"border": border, "interior": interior}
            numbers = {f"{place}_{name}": value for place, moments in places.items() for name, value in moments.items()}
            numbers |= {"on_difference": difference, "variance_ratio": ratio}
            yield {"split": f"{SEEN} {name}"} | {key: value.item() for key, value in numbers.items()}
        if not of_layers:
            return
        differences, ratios = torch.stack(of_layers, 1)
        means = {"on_difference": differences.mean(), "variance_ratio": ratios.log().mean().exp()}
        yield {"split": f"{SEEN} conv"} | {name: value.item() for name, value in means.items()}


class _Watched:
    """Sums over images and channels of what a non-linearity gets and gives, by position; a forward hook."""

    def __init__(self) -> None:
        self.sums = torch.zeros(3, 1, 1, dtype=torch.float64)  # outputs above 0, inputs, their squares
        self.values = 0  # per position

    def __call__(self, module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        (z,) = inputs
        parts = (output > 0, z, z.square())
        self.sums = self.sums + torch.stack([part.sum((0, 3), dtype=torch.float64) for part in parts]).to(self.sums)
        self.values += z.shape[0] * z.shape[3]

    def moments(self, place: Tensor) -> dict[str, Tensor]:
        """Share of outputs above 0, mean and variance of inputs over the positions of a mask."""
        on, mean, square = self.sums[:, place].sum(1) / (self.values * place.sum())
        variance = square - mean.square()
        variance = torch.where(variance > 1e-12 * square, variance, 0.0)  # of equal numbers rounding alone is left
        return {"on": on, "mean": mean, "variance": variance}


def ring(maps: Tensor) -> Tensor:
    """Mask (height, width) of the outermost positions of maps (..., height, width)."""
    mask = torch.ones(maps.shape[-2:], dtype=torch.bool)
    mask[1:-1, 1:-1] = False
    return mask


def build(config: Mapping[str, Any], sites: Sites) -> ConvNet:
    return ConvNet(config["data"]["declares"]["classes"], config["model"]["width"], sites)
