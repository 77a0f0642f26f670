"""BLN Fig. 6, trained anew: NORMBENCH_DATA=... python scripts/check/imdb.py [--epochs N] [--seed N] [--output DIR]

The RNN on 20 % of IMDB, written from BLN 4.2 and its authors' code, not from normbench: an embedding of 20 000 words
in 512, LSTMs of 128 (all outputs) and 64 (the last), a dense layer of 32, a normalizer after each; dropout of 0.2 on
inputs and states of both LSTMs, a mask per sequence and gate; tf.keras' Adam 3e-3, 4 000 reviews in the same order in
every epoch, batches of 25. Evaluated on 1 000 others: of these there are published numbers at every epoch.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import published
import pyarrow.parquet
import torch
import torch.nn.functional as F
from formulas import BatchLayerNorm, BatchNorm, KerasAdam, LayerNorm
from torch import Tensor, nn

BATCH, WORDS, LENGTH, LETTERS = 25, 20000, 80, ("TTFF", "TTTT")
SIZES = ((512, 128), (128, 64))
CELLS = [(arm, {"train.batch_size": BATCH}) for arm in ("none", "bn", "ln", "bln", "ln-scaled", "bn-pos-scaled")]


@cache
def load(root: Path) -> tuple[Tensor, Tensor]:
    """Word numbers (25 000, 80) of the training reviews as `keras.datasets.imdb` has them, and labels."""
    table = pyarrow.parquet.read_table(root / "imdb" / "plain_text" / "train-00000-of-00001.parquet")
    blanks = re.compile(r"""[!"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n ]+""")  # of keras' Tokenizer
    reviews = [[word for word in blanks.split(text.lower()) if word] for text in table["text"].to_pylist()]
    counts = Counter(word for review in reviews for word in review)
    number = {word: rank + 4 for rank, (word, _) in enumerate(counts.most_common(WORDS - 4))}
    words = torch.zeros(len(reviews), LENGTH, dtype=torch.long)
    for row, review in zip(words, reviews, strict=True):
        last = [1, *(number.get(word, 2) for word in review)][-LENGTH:]  # 1: start, 2: a rare word
        row[LENGTH - len(last) :] = torch.tensor(last)
    return words, torch.tensor(table["label"].to_pylist())


def norm(arm: str, d: int, steps: int = 0) -> nn.Module:
    if arm == "bln":
        return BatchLayerNorm(d, BATCH)
    scale = d**-0.5 if arm.endswith("scaled") else 1.0
    if arm.startswith("bn"):  # tf.keras: momentum 0.99; of sequences and vectors it averages the biased variance
        per_step = steps if arm == "bn-pos-scaled" else 0
        return BatchNorm(d, 1e-3, 0.01, steps=per_step, scale=scale, unbiased_running=False)
    return LayerNorm(d, 1e-3, scale) if arm.startswith("ln") else nn.Identity()


def glorot(*shape: int) -> nn.Parameter:
    bound = (6 / sum(shape)) ** 0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


class LSTM(nn.Module):
    """(B, T, inputs) -> all outputs (B, T, units); gates f, i, o, g."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.of_input, self.of_state = glorot(inputs, 4 * units), glorot(units, 4 * units)
        self.bias = nn.Parameter(torch.cat([torch.ones(units), torch.zeros(3 * units)]))

    def forward(self, x: Tensor) -> Tensor:
        masks = []
        for weight in (self.of_input, self.of_state):
            mask = (torch.rand(4, len(x), 1, len(weight)) >= 0.2) / 0.8
            masks.append(mask if self.training else torch.ones(4, 1, 1, 1))
        from_input = torch.stack([(x * m) @ w for m, w in zip(masks[0], self.of_input.chunk(4, 1), strict=True)])
        from_input = from_input + self.bias.view(4, 1, 1, -1)
        h = c = x.new_zeros(len(x), len(self.of_state))
        of_state, mask, outputs = torch.stack(self.of_state.chunk(4, 1)), masks[1][:, :, 0], []
        for t in range(x.shape[1]):
            f, i, o, g = from_input[:, :, t] + (h * mask) @ of_state
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, 1)


class Network(nn.Module):
    def __init__(self, arm: str) -> None:
        super().__init__()
        self.embedding = glorot(WORDS, 512)
        self.lstms = nn.ModuleList(LSTM(*size) for size in SIZES)
        self.dense, self.dense_bias = nn.Parameter(torch.empty(64, 32)), nn.Parameter(torch.zeros(32))
        self.logit, self.logit_bias = nn.Parameter(torch.empty(32, 1)), nn.Parameter(torch.zeros(1))
        self.norms = nn.ModuleList([norm(arm, 128, LENGTH), norm(arm, 64), norm(arm, 32)])
        for weight in (self.dense, self.logit):
            nn.init.orthogonal_(weight)

    def forward(self, words: Tensor) -> Tensor:
        h = self.norms[0](self.lstms[0](F.embedding(words, self.embedding)))
        h = self.norms[1](self.lstms[1](h)[:, -1])
        h = self.norms[2](torch.tanh(h @ self.dense + self.dense_bias))
        return (h @ self.logit + self.logit_bias).squeeze(-1)


def metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums; the authors count a review as positive where the logit, not the probability, is above 0.5."""
    nll = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum").item()
    wrong = {name: ((logits > x) != (labels > 0)).sum().item() for name, x in (("error", 0), ("error_published", 0.5))}
    return {"nll": nll, **wrong}


def record(epoch: int, split: str, mode: str, sums: Mapping[str, float], count: int) -> dict[str, object]:
    return {"epoch": epoch, "split": split, "mode": mode, **{name: total / count for name, total in sums.items()}}


@torch.no_grad()
def valid(network: Network, words: Tensor, labels: Tensor, epoch: int) -> dict[str, object]:
    network.eval()
    logits = network(words)
    network.train()
    return record(epoch, "valid", "eval", metrics(logits, labels), len(labels))


def train(arm: str, axes: Mapping[str, int], epochs: int, root: Path) -> Iterator[published.Record]:
    words, labels = load(root)
    order = torch.randperm(len(labels))
    held, used = order[:1000], order[1000:5000]
    network = Network(arm)
    blns = [module for module in network.modules() if isinstance(module, BatchLayerNorm)]
    optimizer = KerasAdam(network.parameters(), 3e-3)
    yield valid(network, words[held], labels[held], 0)
    for epoch in range(1, epochs + 1):
        for bln in blns:
            bln.begin_epoch()
        sums: Counter[str] = Counter()
        for rows in used.split(BATCH):
            logits = network(words[rows])
            F.binary_cross_entropy_with_logits(logits, labels[rows].float()).backward()
            optimizer.step()
            sums.update(metrics(logits.detach(), labels[rows]))
        for bln in blns:
            bln.end_epoch()
        yield record(epoch, "train", "running", sums, len(used))
        yield valid(network, words[held], labels[held], epoch)
        for letters in LETTERS if blns else ():
            for bln in blns:
                bln.letters = letters
            variant = {"variant": {"configuration": letters}}
            yield valid(network, words[held], labels[held], epoch) | variant
        for bln in blns:
            bln.letters = "FFFF"


if __name__ == "__main__":
    title = "BLN Fig. 6 by an implementation of its own"
    sys.exit(published.main(__doc__, "imdb", title, "bln2022/fig6", CELLS, 3, train))
