"""Sentiment of a review: embedding, two LSTM layers and a dense one, with a norm after each (BLN 2022, 4.2, Fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.models.base import Model, Sites
from normbench.norms.base import build as build_norm
from normbench.norms.layers import NormedLinear
from normbench.rnn.embedding import Embedding
from normbench.rnn.layers import LSTM

PUBLISHED = 0.5  # tf.keras' BinaryAccuracy has this threshold for probabilities; the authors hand it logits


class ImdbRNN(Model):
    """Logit s of a positive review: N(LSTM) over all words, N(last output of an LSTM), N(tanh(W h + b)), W' h + b'.

    Sites: `lstm.0` (outputs of all steps), `lstm.1` (the last output), `dense` (after the non-linearity). Nothing is
    normalized inside the recurrence, and padding is read as a word, without a mask.
    `dropout`, `recurrent_dropout`: of x_t and h_{t-1} of both LSTM layers, one mask per sequence for all its steps;
    `per_gate`: one for each gate (Keras with `implementation=1`). Updates alone drop: all other passes, in training
    mode as well, do not. An initial forget bias of 1 stands beside the learned one.
    Loss: binary cross-entropy. Metrics: `error` (s > 0), `error_published` (s > 0.5, so p > 0.62, as the authors').
    Shapes: inputs (B, T) int64 below `words`, targets (B,) int64, 1 positive.
    """

    def __init__(
        self,
        words: int,
        embedding_size: int,
        hidden_sizes: tuple[int, int],
        dense_size: int,
        sites: Sites,
        **dropped: Any,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(words, embedding_size)
        inputs = (embedding_size, hidden_sizes[0])
        self.lstm = nn.ModuleList(
            LSTM(i, h, path=f"lstm.{place}", forget_bias=1.0, **dropped)
            for place, (i, h) in enumerate(zip(inputs, hidden_sizes, strict=True))
        )
        chosen = {name: sites(f"lstm.{name}") for name in ("0", "1")}
        self.norms = nn.ModuleDict({name: build_norm(s, c) for name, (s, c) in chosen.items() if c is not None})
        self.dense = NormedLinear(hidden_sizes[1], *sites("dense"), torch.tanh)
        self.logit = nn.Linear(dense_size, 1)

    def prepare(self, inputs: Tensor, **others: Tensor) -> dict[str, Tensor]:
        """Outputs of the first LSTM layer, (B, T, hidden): most of a pass; of IMDB's test reviews 1 GB."""
        return {"inputs": self._first(inputs, None)}

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B,), from words or from what `prepare` makes of them."""
        rng = self.draws("dropout")
        h = inputs if inputs.is_floating_point() else self._first(inputs, rng)
        h, _ = self.lstm[1](self._normalized("0", h), rng=rng, drop=rng is not None)
        return self.logit(self.dense(self._normalized("1", h[:, -1]))).squeeze(-1)

    def _first(self, inputs: Tensor, rng: np.random.Generator | None) -> Tensor:
        h: Tensor = self.lstm[0](self.embedding(inputs), rng=rng, drop=rng is not None)[0]
        return h

    def _normalized(self, name: str, h: Tensor) -> Tensor:
        return self.norms[name](h) if name in self.norms else h

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        logits = self.predict(inputs)
        self.tally = {name: wrong.sum() for name, wrong in _errors(logits.detach(), targets).items()}
        return F.binary_cross_entropy_with_logits(logits, targets.to(logits))

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        logits = self.predict(inputs)
        nll = F.binary_cross_entropy_with_logits(logits, targets.to(logits), reduction="none")
        return {"nll": nll} | {name: wrong.float() for name, wrong in _errors(logits, targets).items()}


def _errors(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    positive = targets > 0
    return {"error": (logits > 0) != positive, "error_published": (logits > PUBLISHED) != positive}


def build(config: Mapping[str, Any], sites: Sites) -> ImdbRNN:
    chosen = config["model"]
    return ImdbRNN(
        config["data"]["words"],
        chosen["embedding_size"],
        (chosen["hidden_size"], chosen["last_hidden_size"]),
        chosen["dense_size"],
        sites,
        input_dropout=chosen["dropout"],
        state_dropout=chosen["recurrent_dropout"],
        per_gate=chosen["per_gate"],
    )
