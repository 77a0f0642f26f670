"""LeNet-5 as modified in BLN 2022, section 4.1, Fig. 3: tanh, and a norm after each layer but the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.errors import BadInput
from normbench.models.base import Classifier, Sites
from normbench.norms.base import fixed_factor
from normbench.norms.layers import NormedConv, NormedLinear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": F.relu}
FILTERS, HIDDEN = (6, 16), (120, 84)
KERNEL, POOL = 5, 2
SITES = ("conv.0", "conv.1", "dense.0", "dense.1")
FLAT = FILTERS[-1] * 6 * 6  # of images of 32 x 32: padded to 32, pooled to 16, 12, pooled to 6


def _pool(h: Tensor) -> Tensor:
    return F.avg_pool2d(h, POOL)


class LeNet5(Classifier):
    """Softmax classifier: twice convolution, tanh, average pooling 2 x 2; then dense layers of 120, 84 and the classes.

    Sites: `conv.0`, `conv.1` (after non-linearity and pooling), `dense.0`, `dense.1` (after the non-linearity), as
    BLN's code; `summed.conv.0`, ... (the summed inputs of the same layers, before the non-linearity).
    `scale`: a fixed factor on what each site gives, shift included (of layers without a normalizer as well). `start`:
    `unit` or `inverse_root_d`, on the first batch each layer's weights are multiplied by what brings the root mean
    square of its inputs from the layer below to 1, or to that layer's 1/sqrt(d): summed inputs then begin at the size
    that normalization of the layer below would give them, with nothing normalized.
    The first convolution is padded ("same"), the second is not. Biases stay, whatever is normalized.
    Shapes: inputs (B, 32, 32, 3), targets (B,) int64. Inside (B, channels, height, width), channels last in memory.
    """

    def __init__(self, classes: int, activation: str, scale: str, start: str, sites: Sites) -> None:
        super().__init__()
        act = ACTIVATIONS[activation]
        if start != "as_drawn" and any(sites(name)[1] or sites(f"summed.{name}")[1] for name in SITES):
            raise BadInput(f"model.start={start} is a control without normalization: leave it, or norm=none.")
        self.start = start
        self.factors = [fixed_factor(scale, sites(name)[0]) for name in SITES]
        self.conv = nn.ModuleList(
            NormedConv(inputs, *sites(name), act, sites(f"summed.{name}"), kernel=KERNEL, same=same, pool=_pool)
            for name, inputs, same in (("conv.0", 3, True), ("conv.1", FILTERS[0], False))
        )
        self.dense = nn.ModuleList(
            NormedLinear(inputs, *sites(name), act, sites(f"summed.{name}"))
            for name, inputs in (("dense.0", FLAT), ("dense.1", HIDDEN[0]))
        )
        self.logits = nn.Linear(HIDDEN[1], classes)

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes)."""
        *_, logits = self.layers(inputs)
        return logits

    def layers(self, inputs: Tensor) -> Iterator[Tensor]:
        """What each layer hands on, the logits last; made as it is asked for."""
        h = inputs.permute(0, 3, 1, 2)
        for layer, factor in zip([*self.conv, *self.dense], self.factors, strict=True):
            if layer is self.dense[0]:
                h = h.permute(0, 2, 3, 1).flatten(1)
            h = layer(h)
            h = h if factor == 1 else factor * h
            yield h
        yield self.logits(h)

    def rescale(self, inputs: Tensor, **others: Tensor) -> None:
        if self.start == "as_drawn":
            return
        above = [*(layer.linear for layer in [*self.conv, *self.dense][1:]), self.logits]
        for layer, h in zip(above, self.layers(inputs), strict=False):  # whose weights are read after this
            root = h.square().mean().sqrt()
            layer.weight.mul_((1.0 if self.start == "unit" else h.shape[1] ** -0.5) / root)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        logits = self.predict(inputs)
        self.tally = {
            "error": (logits.detach().argmax(-1) != targets).sum()
        }  # the paper's training accuracy is running
        return F.cross_entropy(logits, targets)


def build(config: Mapping[str, Any], sites: Sites) -> LeNet5:
    chosen = config["model"]
    classes = config["data"]["declares"]["classes"]
    return LeNet5(classes, chosen["activation"], chosen["scale"], chosen["start"], sites)
