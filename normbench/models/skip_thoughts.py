"""Skip-thought vectors: a sentence tells the ones around it (Kiros et al. 2015), as LN 2016 trains them (6.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.data import Dataset, triples
from normbench.data.words import END
from normbench.models import softmax
from normbench.models.base import Model, PerPlace, Sites, check_known
from normbench.rnn.embedding import Embedding
from normbench.rnn.layers import GRU

AT_ONCE = 256  # sentences that are encoded together, all of one length
HELD_OUT = 10_000  # sentences among which the nearest are looked for
AROUND = ("next", "previous")


class SkipThoughts(Model):
    """One embedding, a GRU that reads a sentence, two that write the one behind it and the one before.

        v           last state of the encoder, after the sentence's END: its vector
        h_0         = v, of either decoder;  h_t = GRU(e(y_{t-1}), h_{t-1}), with zeros for e(y_0)
        p(y_t)      = softmax(W h_t + b), over all words; W and b are both decoders'

    `conditioned`: the decoders read [e(y_{t-1}), v] at every step (Kiros et al. 2015, eq. 5-7); LN's do not, by which
    it explains its baseline (6.3).
    Sites: `encoder.*`, `decoder.next.*` and `decoder.previous.*` of input.gates, input.candidate, hidden.gates,
    hidden.candidate (LN 2016, eq. 26-28; biases inside the input's normalizers, the update gate is the share of the old
    state, as the authors' code).
    Loss: the sum over a batch, its words and both decoders of -log(p + 1e-8). Metrics of a triple: `nll`, the same as a
    mean over the words of both; `next_nll`, `previous_nll`.
    Shapes: sentence, next, previous (B, T) with masks, an END behind each. In a batch of sentences of one length
    nothing of the encoder is padded.
    Vectors of `encode` are of unit length, as the code's evaluations take them.
    """

    loss = "loss"
    evaluated_at_once = 128
    beside_outputs = ("sentence", "sentence_mask", "next", "next_mask", "previous", "previous_mask")

    def __init__(self, words: int, word_size: int, hidden_size: int, conditioned: bool, sites: Sites) -> None:
        super().__init__()
        self.conditioned = conditioned
        self.embedding = Embedding(words, word_size)
        self.encoder = GRU(word_size, hidden_size, sites, "encoder", bias="inside", update="old")
        inputs = word_size + (hidden_size if conditioned else 0)
        self.decoder = nn.ModuleDict(
            {n: GRU(inputs, hidden_size, sites, f"decoder.{n}", bias="inside", update="old") for n in AROUND}
        )
        self.output = nn.Linear(hidden_size, words)

    def read(self, sentence: Tensor, mask: Tensor) -> Tensor:
        """Vectors (B, H) of sentences."""
        outputs, _ = self.encoder(self.embedding(sentence.long()), None if bool(mask.all()) else mask)
        return outputs[:, -1]

    def tell(self, name: str, vectors: Tensor, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """States of a decoder before each word (places, H), and these words (places,), without padding."""
        words = words.long()
        x = F.pad(self.embedding(words[:, :-1]), (0, 0, 1, 0))
        if self.conditioned:
            x = torch.cat([x, vectors[:, None].expand(-1, x.shape[1], -1)], 2)
        outputs, _ = self.decoder[name](x, mask, vectors[None])
        return outputs[mask], words[mask]

    def forward(
        self,
        sentence: Tensor,
        sentence_mask: Tensor,
        next: Tensor,
        next_mask: Tensor,
        previous: Tensor,
        previous_mask: Tensor,
    ) -> Tensor:
        around = {"next": next, "next_mask": next_mask, "previous": previous, "previous_mask": previous_mask}
        written = self._decode(sentence, sentence_mask, **around)
        h, words = (torch.cat(parts) for parts in zip(*written, strict=True))
        return softmax.total(h, self.output.weight, self.output.bias, words)

    def evaluate(self, sentence: Tensor, sentence_mask: Tensor, **around: Tensor) -> dict[str, PerPlace]:
        metrics = {}
        for name, (h, words) in zip(AROUND, self._decode(sentence, sentence_mask, **around), strict=True):
            mask = around[f"{name}_mask"]
            nll = h.new_zeros(mask.shape)
            nll[mask] = softmax.nll(h, self.output.weight, self.output.bias, words)
            metrics[f"{name}_nll"] = PerPlace(nll.sum(1), mask.sum(1))
        of_both = [torch.stack(parts).sum(0) for parts in zip(*metrics.values(), strict=True)]
        return {"nll": PerPlace(*of_both), **metrics}

    def _decode(self, sentence: Tensor, sentence_mask: Tensor, **around: Tensor) -> list[tuple[Tensor, Tensor]]:
        vectors = self.read(sentence, sentence_mask)
        return [self.tell(name, vectors, around[name], around[f"{name}_mask"]) for name in AROUND]

    @torch.no_grad()
    def encode(self, sentences: list[str], eos: bool, data: Dataset) -> np.ndarray:
        numbers = triples.numbered(data.words)
        ends = [END] if eos else []
        return self._encode_numbers([[*triples.encoded(sentence, numbers), *ends] for sentence in sentences])

    def _encode_numbers(self, sentences: Sequence[Sequence[int]]) -> np.ndarray:
        """Of sentences as numbers, those of one length at a time; zeros for one without a word."""
        lengths = np.array(list(map(len, sentences)))
        vectors = np.zeros((len(sentences), self.encoder.hidden_size), np.float32)
        for length in np.unique(lengths[lengths > 0]):
            places = np.flatnonzero(lengths == length)
            for rows in np.split(places, range(AT_ONCE, len(places), AT_ONCE)):
                words = torch.tensor([list(sentences[row]) for row in rows], device=self.output.weight.device)
                vectors[rows] = F.normalize(self.read(words, words >= 0)).cpu().numpy()
        return vectors

    @torch.no_grad()
    def nearest(self, text: str, count: int, data: Dataset) -> list[str]:
        """`0.873  he went home .`: cosine and words of the nearest sentences of the held-out books, nearest first."""
        sentence = triples.encoded(text, triples.numbered(data.words))
        check_known(text, sentence, data)
        candidates = triples.different(data.splits["test"], HELD_OUT)
        cosines = self._encode_numbers(candidates) @ self._encode_numbers([[*sentence, END]])[0]
        nearest = np.argsort(-cosines, kind="stable")[:count]
        return [f"{cosines[row]:.3f}  {' '.join(data.words[n] for n in candidates[row][:-1])}" for row in nearest]


def build(config: Mapping[str, Any], sites: Sites) -> SkipThoughts:
    model, data = config["model"], config["data"]
    return SkipThoughts(data["words"], model["word_size"], model["hidden_size"], model["conditioned"], sites)
