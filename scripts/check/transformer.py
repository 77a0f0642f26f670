"""The Transformers beside plain PyTorch: python scripts/check/transformer.py

Twenty updates of `model=char_lm` and `model=vit` in their smallest forms (`tests/smallest.py`), all placements, without
normalization, with LN and with RMSNorm, in float64, from equal weights and on equal batches. The other side is written
from the papers and from nanoGPT, not from normbench: nn.LayerNorm, nn.RMSNorm, attention by its formula, patches by a
convolution, AdamW with decay of matrices alone, clipping, warm-up and cosine by their formula. No loss may differ by
more than 1e-10 of its size. Then the numbers of parameters at GPT-2's sizes. Ends with code 1 where something differs.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from smallest import batches, built, small

from normbench.config.spec import Spec
from normbench.models import base as models
from normbench.norms.scalars import logging_to
from normbench.train import optim
from normbench.train.clipping import Clipping

UPDATES, BOUND = 20, 1e-10
MODELS, PLACEMENTS, NORMS = ("char_lm", "vit"), ("pre", "post", "peri"), ("none", "layer", "rms")
WARM, TOTAL, SLOW, END = 5, 20, 50, 1.0  # updates of warm-up, and in all; the first and last rates are smaller by these
SCHEDULE = (
    "train.epochs=0",
    f"train.steps={TOTAL}",
    f"schedule.total_steps={TOTAL}",
    f"schedule.pct_start={WARM / TOTAL}",
)
SCHEDULE += (f"schedule.div_factor={SLOW}", f"schedule.final_div_factor={END}")
# (layers, width, heads, characters, length) of GPT-2, whose head is tied and has no biases, and its parameters: of
# openai-community/gpt2 and gpt2-medium
GPT2 = {(12, 768, 12, 50257, 1024): 124_439_808, (24, 1024, 16, 50257, 1024): 354_823_168}
OPTIONS = ("layers", "width", "heads")


def norm(kind: str, size: int) -> nn.Module:
    if kind == "none":
        return nn.Identity()
    return nn.LayerNorm(size, 1e-5) if kind == "layer" else nn.RMSNorm(size, 1e-8)


class Block(nn.Module):
    def __init__(self, d: int, heads: int, placement: str, kind: str, causal: bool) -> None:
        super().__init__()
        self.heads, self.placement, self.causal = heads, placement, causal
        self.query, self.key, self.value, self.mixed = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.first, self.second = norm(kind, d), norm(kind, d)
        if placement == "peri":
            self.first_out, self.second_out = norm(kind, d), norm(kind, d)

    def attend(self, x: Tensor) -> Tensor:
        count, steps, d = x.shape
        q, k, v = (
            part(x).view(count, steps, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads)
        if self.causal:
            scores = scores.masked_fill(torch.ones(steps, steps).triu(1).bool(), -math.inf)
        return self.mixed((scores.softmax(-1) @ v).transpose(1, 2).reshape(count, steps, d))

    def forward(self, x: Tensor) -> Tensor:
        if self.placement == "pre":
            x = x + self.attend(self.first(x))
            return x + self.down(F.gelu(self.up(self.second(x))))
        if self.placement == "post":
            x = self.first(x + self.attend(x))
            return self.second(x + self.down(F.gelu(self.up(x))))
        x = x + self.first_out(self.attend(self.first(x)))
        return x + self.second_out(self.down(F.gelu(self.up(self.second(x)))))


class Plain(nn.Module):
    def __init__(self, config: dict[str, Any], kind: str, causal: bool, length: int, outputs: int) -> None:
        super().__init__()
        d, self.causal = config["width"], causal
        self.place, self.head = nn.Embedding(length, d), nn.Linear(d, outputs)
        self.factor = nn.Parameter(torch.tensor(math.sqrt(d))) if config.get("embedding_scale") == "learned" else 1.0
        blocks = (Block(d, config["heads"], config["placement"], kind, causal) for _ in range(config["layers"]))
        self.blocks = nn.Sequential(*blocks, nn.Identity() if config["placement"] == "post" else norm(kind, d))

    def stream(self, embedded: Tensor) -> Tensor:
        return self.blocks(self.factor * embedded + self.place.weight)


class Language(Plain):
    def __init__(self, config: dict[str, Any], data: dict[str, Any], kind: str) -> None:
        super().__init__(config, kind, True, data["length"], data["characters"])
        self.embedded = nn.Embedding(data["characters"], config["width"])

    def forward(self, text: Tensor) -> Tensor:
        logits = self.head(self.stream(self.embedded(text[:, :-1].long())))
        return -logits.log_softmax(-1).gather(2, text[:, 1:, None].long()).mean()


class Vision(Plain):
    def __init__(self, config: dict[str, Any], data: dict[str, Any], kind: str) -> None:
        (height, _, channels), side = data["declares"]["shape"], config["patch"]
        super().__init__(config, kind, False, (height // side) ** 2, data["declares"]["classes"])
        self.embedded = nn.Conv2d(channels, config["width"], side, stride=side)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        patches = self.embedded(inputs.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        logits = self.head(self.stream(patches).mean(1))
        return -logits.log_softmax(-1).gather(1, targets[:, None]).mean()


NAMES = {  # ours, and normbench's
    "place": "positions", "head": "logits", "embedded": "embedding", "factor": "scale",
    "query": "attention.query", "key": "attention.key", "value": "attention.value", "mixed": "attention.output",
    "up": "mlp.hidden", "down": "mlp.output", "first": "norms.attention", "second": "norms.mlp",
    "first_out": "norms.attention_out", "second_out": "norms.mlp_out",
}  # fmt: skip


def begin_alike(plain: Plain, network: models.Model, layers: int) -> None:
    """Give ours normbench's weights; each of normbench's must have its place in ours."""
    theirs = {name: parameter.detach() for name, parameter in network.named_parameters()}
    for name, parameter in plain.named_parameters():
        words = name.replace(f"blocks.{layers}.", "norms.final.").replace("blocks.", "block.").split(".")
        wanted = ".".join(NAMES.get(word, word) for word in words)
        if "norms." in wanted:
            wanted = wanted.replace("weight", "gain")
        weight = theirs.pop(wanted if wanted in theirs else wanted.replace("embedding", "patches"))
        if parameter.dim() == 4:  # normbench's patches have their channels last
            weight = weight.view(len(weight), *parameter.shape[2:], -1).permute(0, 3, 1, 2)
        parameter.data.copy_(weight)
    assert not theirs, sorted(theirs)


def rate(update: int, largest: float) -> float:
    """Warm-up from a fiftieth and back to it, both half a cosine."""
    low, peak = largest / SLOW, WARM - 1
    share = update / peak if update <= peak else (TOTAL - 1 - update) / (TOTAL - 1 - peak)
    return low + (largest - low) * (1 - math.cos(math.pi * share)) / 2


def ours(plain: Plain, given: list[dict[str, Tensor]], lr: float, decay: float) -> list[float]:
    matrices = [p for p in plain.parameters() if p.dim() > 1]
    others = [p for p in plain.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    optimizer, losses = torch.optim.AdamW(groups, betas=(0.9, 0.95)), []
    for number, batch in enumerate(given):
        for group in optimizer.param_groups:
            group["lr"] = rate(number, lr)
        loss = plain(**batch)
        optimizer.zero_grad()
        loss.backward()
        length = sum(p.grad.square().sum() for p in plain.parameters()).sqrt()
        for parameter in plain.parameters():  # clip_grad_norm_ of torch adds 1e-6 to the norm
            parameter.grad /= length.clamp(min=1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def theirs(spec: Spec, network: models.Model, given: list[dict[str, Tensor]]) -> list[float]:
    optimizer = optim.build(spec.config["optim"], network)
    clip, losses = Clipping(spec.config, network, optimizer), []
    for number, batch in enumerate(given):
        with models.update(network, 1, number), logging_to({}, ()):
            loss = network(**batch)
        loss.backward()
        clip(number)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def compare(model: str, placement: str, kind: str) -> float:
    """The largest relative difference of a loss."""
    words = (f"norm={kind}", f"model.placement={placement}", "train.batch_size=20", *SCHEDULE)
    spec = small(model, *words)
    config, kinds = spec.config, {"char_lm": Language, "vit": Vision}
    network, plain = built(spec).double(), kinds[model](config["model"], config["data"], kind).double()
    begin_alike(plain, network, config["model"]["layers"])
    given = [
        {name: t.double() if t.is_floating_point() else t for name, t in batch.items()}
        for batch in batches(spec, UPDATES)
    ]
    pairs = zip(
        ours(plain, given, config["optim"]["lr"], config["optim"]["weight_decay"]),
        theirs(spec, network, given),
        strict=True,
    )
    return max(abs(a - b) / abs(b) for a, b in pairs)


def parameters(layers: int, width: int, heads: int, characters: int, length: int) -> int:
    """Of our language model at these sizes, without the biases of its head; on no device."""
    words = [f"model.{name}={value}" for name, value in zip(OPTIONS, (layers, width, heads), strict=True)]
    spec = small(
        "char_lm", "norm=layer", "model.placement=pre", "model.head=tied", "model.embedding_scale=none", *words
    )
    sizes = {"characters": characters, "length": length}
    with torch.device("meta"):
        network = models.unlearned({**spec.config, "data": {**spec.config["data"], **sizes}}, spec.sites)
    return sum(parameter.numel() for parameter in network.parameters()) - characters


def main() -> int:
    failed = 0
    for model, placement, kind in itertools.product(MODELS, PLACEMENTS, NORMS):
        difference = compare(model, placement, kind)
        failed += not difference <= BOUND
        print(
            f"{model:8} {placement:5} {kind:6} {UPDATES} updates: losses differ by {difference:.1e} at most", flush=True
        )
    for sizes, wanted in GPT2.items():
        count = parameters(*sizes)
        failed += count != wanted
        print(f"GPT-2 of {sizes[0]} layers: {count} parameters, {wanted} in the published one")
    print("DIFFERENT" if failed else f"equal (bound {BOUND:g})")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
