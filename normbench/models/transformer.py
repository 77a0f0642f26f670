"""A small Transformer: a causal language model of characters, and a classifier of images by their patches."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.data.examples import Split
from normbench.errors import BadInput
from normbench.models.base import Classifier, Model, Sites
from normbench.norms.base import build as build_norm
from normbench.norms.layers import Weighted
from normbench.rnn.embedding import Embedding


class Transformer(Model):
    """Blocks of attention and of an MLP of 4 d units with GELU, each added to the residual stream x (B, T, d).

        pre     x + f(norm(x)),  and norm(x) behind the last block        (Xiong et al. 2020; GPT-2)
        post    norm(x + f(x))                                            (Vaswani et al. 2017)
        peri    x + norm(f(norm(x))),  and norm(x) behind the last block  (Kim et al. 2025)

    The stream begins with what is embedded plus learned positions. Sites: `block.N.attention`, `block.N.mlp`, and the
    outer norms of peri blocks `block.N.attention_out`, `block.N.mlp_out`; `final`, but under post; `block.N.query`,
    `block.N.key`, of each head by itself, where heads count as steps: (B, heads T, d / heads).
    Ten evaluations of a run record of each normalized site, as of the last update: `block.0.mlp.input_std`, the
    deviation of its input, and what `observe` of the normalizer gives: `.alpha` and `.saturated`, or `.beyond_line` and
    `.out_1`, ...
    """

    observed = True
    evaluated_at_once = 64  # of which the activations stay in the cache

    def __init__(self, options: Mapping[str, Any], length: int, causal: bool, sites: Sites) -> None:
        super().__init__()
        width, heads, placement = options["width"], options["heads"], options["placement"]
        if width % heads:
            raise BadInput(f"model.heads={heads} does not divide model.width={width}. Take a number that does.")
        self.positions = nn.Embedding(length, width)
        blocks = (Block(width, heads, placement, causal, f"block.{i}", sites) for i in range(options["layers"]))
        self.block = nn.Sequential(*blocks)
        self.norms = norms(sites, "", () if placement == "post" else ("final",))

    def stream(self, embedded: Tensor) -> Tensor:
        """What the head gets, of embedded characters or patches (B, T, d)."""
        x = self.block(embedded + self.positions(torch.arange(embedded.shape[1], device=embedded.device)))
        return self.norms["final"](x) if "final" in self.norms else x


class CharLM(Transformer, Weighted):
    """Predicts each character of a text from those before it.

    What is embedded is multiplied by `embedding_scale`: 1, sqrt(d), or a learned number from there on. The biases of
    `head_bias=log_frequency` begin at the logarithms of frequencies in the training split, each counted once more.
    Shapes: text (B, T + 1), numbers of characters. Metrics: nats per character, and the share of wrong predictions.
    """

    beside_outputs = ("text",)  # to add branches of several variants to

    def __init__(self, options: Mapping[str, Any], characters: int, length: int, sites: Sites) -> None:
        super().__init__(options, length, True, sites)
        root = 1.0 if options["embedding_scale"] == "none" else math.sqrt(options["width"])
        self.scale = nn.Parameter(torch.tensor(root)) if options["embedding_scale"] == "learned" else root
        self.by_frequency = options["head_bias"] == "log_frequency"
        self.embedding = Embedding(characters, options["width"])
        self.logits = nn.Linear(options["width"], characters)
        if options["head"] == "tied":
            self.logits.weight = self.embedding.weight

    def predict(self, text: Tensor) -> Tensor:
        """Logits (B, T, characters) of the next character, of text (B, T)."""
        return self.logits(self.stream(self.scale * self.embedding(text)))

    def start(self) -> None:
        if isinstance(self.scale, nn.Parameter):
            nn.init.constant_(self.scale, math.sqrt(self.embedding.embedding_dim))

    @torch.no_grad()
    def begin(self, train: Split) -> None:
        if self.by_frequency:
            counts = 1 + torch.bincount(train["text"][:, 1:].flatten(), minlength=len(self.logits.bias))
            self.logits.bias.copy_((counts / counts.sum()).log())

    def forward(self, text: Tensor) -> Tensor:
        logits, targets = self._predicted(text)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def evaluate(self, text: Tensor) -> dict[str, Tensor]:
        logits, targets = self._predicted(text)
        nll = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return {"nll": nll.mean(1), "error": (logits.argmax(-1) != targets).to(nll).mean(1)}

    def _predicted(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the characters that they predict."""
        text = text.long()
        return self.predict(text[:, :-1]), text[:, 1:]


class ViT(Transformer, Classifier):
    """Classifies an image by the mean of what the last block makes of its patches (Beyer et al. 2022).

    Shapes: inputs (B, height, width, channels), in patches of `patch` x `patch`; targets (B,) int64.
    """

    beside_outputs = ("inputs", "targets")

    def __init__(self, options: Mapping[str, Any], shape: Sequence[int], classes: int, sites: Sites) -> None:
        height, width, channels = shape
        self.patch = options["patch"]
        if height % self.patch or width % self.patch:
            raise BadInput(f"model.patch={self.patch} does not divide images of {height} x {width}. Take a divisor.")
        super().__init__(options, (height // self.patch) * (width // self.patch), False, sites)
        self.patches = nn.Linear(channels * self.patch**2, options["width"])
        self.logits = nn.Linear(options["width"], classes)

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes)."""
        rows = inputs.unflatten(1, (-1, self.patch)).unflatten(3, (-1, self.patch))
        patches = rows.transpose(2, 3).flatten(1, 2).flatten(2)
        return self.logits(self.stream(self.patches(patches)).mean(1))


class Block(nn.Module):
    """Attention, then the MLP."""

    def __init__(self, width: int, heads: int, placement: str, causal: bool, path: str, sites: Sites) -> None:
        super().__init__()
        self.placement = placement
        outer = ("attention_out", "mlp_out") if placement == "peri" else ()
        self.norms = norms(sites, f"{path}.", ("attention", "mlp", *outer))
        self.attention = Attention(width, heads, causal, path, sites)
        hidden, output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(OrderedDict(hidden=hidden, gelu=nn.GELU(), output=output))

    def forward(self, x: Tensor) -> Tensor:
        x = self.residual(x, "attention", self.attention)
        return self.residual(x, "mlp", self.mlp)

    def residual(self, x: Tensor, name: str, branch: nn.Module) -> Tensor:
        if self.placement == "post":
            return self.normalized(name, x + branch(x))
        return x + self.normalized(f"{name}_out", branch(self.normalized(name, x)))

    def normalized(self, name: str, x: Tensor) -> Tensor:
        return self.norms[name](x) if name in self.norms else x


class Attention(nn.Module):
    """softmax(q k^T / sqrt(d / heads)) v of each head, (B, T, d) -> (B, T, d); causal: of no later step."""

    def __init__(self, width: int, heads: int, causal: bool, path: str, sites: Sites) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.norms = norms(sites, f"{path}.", ("query", "key"))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(name, getattr(self, name)(x)) for name in ("query", "key", "value"))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def split(self, name: str, x: Tensor) -> Tensor:
        """(B, T, d) -> (B, heads, T, d / heads), normalized."""
        heads = x.unflatten(2, (self.heads, -1)).transpose(1, 2)
        if name not in self.norms:
            return heads
        return self.norms[name](heads.flatten(1, 2)).unflatten(1, (self.heads, -1))


def norms(sites: Sites, prefix: str, names: Iterable[str]) -> nn.ModuleDict:
    """The normalizers of those of these sites that have one, by the last part of the path."""
    chosen = {name: sites(f"{prefix}{name}") for name in names}
    return nn.ModuleDict({name: build_norm(site, choice) for name, (site, choice) in chosen.items() if choice})


def build(config: Mapping[str, Any], sites: Sites) -> Transformer:
    model, data = config["model"], config["data"]
    if model["name"] == "vit":
        return ViT(model, data["declares"]["shape"], data["declares"]["classes"], sites)
    return CharLM(model, data["characters"], data["length"], sites)
