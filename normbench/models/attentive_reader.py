"""Attentive reader: which entity fills the blank of a question about a document (Hermann et al. 2015; LN 2016, 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.core.streams import stream
from normbench.data import Dataset
from normbench.data.cloze import ENTITY
from normbench.models import softmax
from normbench.models.base import Model, Sites
from normbench.norms.layers import NormedLinear
from normbench.rnn.embedding import Embedding
from normbench.rnn.layers import LSTM

BIASES = {"document": True, "question": False, "context": False, "query": True, "mean": False}  # of the dense maps


class AttentiveReader(Model):
    """One embedding, an LSTM over the document, another over the question, attention; as the code that LN 2016 took.

        d_t, q        states of the document's LSTM at every step, last state of the question's
        s_t         = (A d_t) · (A q)
        α           = softmax over t of  w · tanh(W_d d_t + b_d + W_q q + s_t),  s_t added to every unit
        r           = Σ_t α_t d_t
        g           = tanh(W_r r + W_g q + b_g + W_m mean_t d_t)
        p           = softmax(W_o g + b_o), over all words, not the entities alone

    Sites: `lstm.document.*` and `lstm.question.*` of input, hidden, cell; `dense.document` (W_d d_t, of all steps),
    `dense.question` (W_q q), `dense.context` (W_r r), `dense.query` (W_g q), `dense.mean` (W_m mean d). Neither s_t nor
    the logits are normalized. W_q, W_r, W_m have no bias.
    `dropout`, of embeddings and of g: updates multiply by masks of 0 and 1, all other passes by the share that is kept.
    An update gives the entities other numbers, by one permutation of all of them for the whole batch; no other pass.
    Padding copies an LSTM's state and has no part in α and the mean; statistics of normalizers have it unless they use
    the mask. The code pads to one step more than the longest, which such statistics alone would see: not done here.
    Loss: mean of -log(p(answer) + 1e-8). Metrics: that, and `error`: the most probable of all words is not the answer.
    Shapes: document (B, T), question (B, S) int64 with masks; answer (B,) int64, the number of an entity.
    """

    evaluated_at_once = 256  # a thousand documents, and as many probabilities of all words, would take gigabytes
    beside_outputs = ("document", "document_mask", "question", "question_mask", "answer")

    def __init__(self, words: int, entities: int, hidden_size: int, dropout: float, sites: Sites) -> None:
        super().__init__()
        self.words, self.entities, self.dropout = words, entities, dropout
        self.embedding = Embedding(words, hidden_size)
        self.document = LSTM(hidden_size, hidden_size, sites, "lstm.document", bias="both", learn_h0=True)
        self.question = LSTM(hidden_size, hidden_size, sites, "lstm.question", bias="both", learn_h0=True)
        self.similarity = nn.Linear(hidden_size, hidden_size, bias=False)
        self.dense = nn.ModuleDict(
            {
                name: NormedLinear(hidden_size, *sites(f"dense.{name}"), nn.Identity(), bias=bias)
                for name, bias in BIASES.items()
            }
        )
        self.attention = nn.Linear(hidden_size, 1, bias=False)
        self.output = nn.Linear(hidden_size, words)

    def predict(self, document: Tensor, document_mask: Tensor, question: Tensor, question_mask: Tensor) -> Tensor:
        """Logits (B, words)."""
        draw = self.draws("dropout")
        d, q = self.read(document, document_mask, question, question_mask, draw)
        valid = document_mask.unsqueeze(-1)
        alpha = self.attend(d, q, document_mask).unsqueeze(-1)
        context = (alpha * d * valid).sum(1)
        mean = (d * valid).sum(1) / valid.sum(1)
        g = torch.tanh(self.dense["context"](context) + self.dense["query"](q) + self.dense["mean"](mean))
        return self.output(self._dropped(g, draw))

    def attend(self, d: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        """α (B, T) of states d (B, T, H) and q (B, H); 0 at padding."""
        s = (self.similarity(d) * self.similarity(q).unsqueeze(1)).sum(-1, keepdim=True)
        hidden = torch.tanh(self.dense["document"](d, mask) + self.dense["question"](q).unsqueeze(1) + s)
        return self.attention(hidden).squeeze(-1).masked_fill(~mask, -torch.inf).softmax(1)

    @torch.no_grad()
    def sample(self, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        """Validation questions, each with the weight that every word of its document gets, as a page of HTML; {} where
        the data have no such part, or no words for their numbers.
        """
        if "valid" not in data.splits or not data.words:
            return {}
        split = data.splits["valid"]
        rows = stream(seed, "questions").choice(len(split), min(count, len(split)), replace=False)
        device = self.attention.weight.device
        batch = {name: t.to(device) for name, t in split.batch(torch.from_numpy(rows)).tensors.items()}
        document, mask, question_mask = batch["document"], batch["document_mask"], batch["question_mask"]
        d, q = self.read(document, mask, batch["question"], question_mask)
        weights = self.attend(d, q, mask)
        guesses = self.predict(document, mask, batch["question"], question_mask).argmax(-1)
        return {
            f"question-{i + 1}.html": _page(
                [data.words[n] for n in document[i][mask[i]]],
                weights[i][mask[i]].tolist(),
                [data.words[n] for n in batch["question"][i][question_mask[i]]],
                data.words[int(batch["answer"][i])],
                data.words[int(guesses[i])],
            )
            for i in range(len(rows))
        }

    def read(
        self,
        document: Tensor,
        document_mask: Tensor,
        question: Tensor,
        question_mask: Tensor,
        draw: np.random.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """States of the document at every step, (B, T, H), and the last of the question, (B, H)."""
        d, _ = self.document(self._dropped(self.embedding(document), draw), document_mask)
        outputs, _ = self.question(self._dropped(self.embedding(question), draw), question_mask)
        return d, outputs[:, -1]

    def _dropped(self, x: Tensor, draw: np.random.Generator | None) -> Tensor:
        if draw is None:
            return x * (1 - self.dropout)
        return x * torch.from_numpy(draw.random(tuple(x.shape), dtype=np.float32) >= self.dropout).to(x)

    def _rename_entities(self, *numbers: Tensor) -> list[Tensor]:
        """With the entities permuted, in an update."""
        if (draw := self.draws("entities")) is None:
            return list(numbers)
        names = np.arange(self.words)
        names[ENTITY : ENTITY + self.entities] = ENTITY + draw.permutation(self.entities)
        table = torch.from_numpy(names).to(numbers[0].device)
        return [table[each] for each in numbers]

    def forward(
        self, document: Tensor, document_mask: Tensor, question: Tensor, question_mask: Tensor, answer: Tensor
    ) -> Tensor:
        document, question, answer = self._rename_entities(document, question, answer)
        logits = self.predict(document, document_mask, question, question_mask)
        self.tally = {"error": (logits.detach().argmax(-1) != answer).sum()}
        return _nll(logits, answer).mean()

    def evaluate(
        self, document: Tensor, document_mask: Tensor, question: Tensor, question_mask: Tensor, answer: Tensor
    ) -> dict[str, Tensor]:
        logits = self.predict(document, document_mask, question, question_mask)
        return {"nll": _nll(logits, answer), "error": (logits.argmax(-1) != answer).float()}


def _nll(logits: Tensor, answer: Tensor) -> Tensor:
    """-log(p(answer) + 1e-8), (B,)."""
    return softmax.floored(-F.cross_entropy(logits, answer, reduction="none"))


def _page(document: list[str], weights: list[float], question: list[str], answer: str, guess: str) -> bytes:
    """The document, words the darker the more weight they have; the question; what was answered."""
    marked = '<span style="background: rgba(31, 119, 180, {:.3f})" title="{:.3f}">{}</span>'
    words = "\n".join(
        marked.format(weight / max(weights), weight, escape(word))
        for word, weight in zip(document, weights, strict=True)
    )
    right = "right" if guess == answer else f"wrong, it is {escape(answer)}"
    return (
        '<!doctype html><meta charset="utf-8"><title>Attention over a document</title>'
        f"<p>{words}</p><p>{escape(' '.join(question))}</p><p>answered {escape(guess)}: {right}</p>\n"
    ).encode()


def build(config: Mapping[str, Any], sites: Sites) -> AttentiveReader:
    model, data = config["model"], config["data"]
    return AttentiveReader(data["words"], data["entities"], model["hidden_size"], model["dropout"], sites)
