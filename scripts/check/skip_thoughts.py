"""LN Fig. 3, trained anew: NORMBENCH_DATA=... python scripts/check/skip_thoughts.py [--updates N] [--seed N]
[--output DIR]

Skip-thoughts of 95 novels, written from LN 6.3 and from the code of Kiros et al. and of the LN authors, not from
normbench: words in 128, a GRU of 256 that reads a sentence, two that begin with its last state and write the sentences
around it, one softmax over 10 000 words for both; the summed -log(p + 1e-8); all gradients clipped at 5; their Adam
2e-4; 64 sentences of one length, lengths in turn. Triples and words are chosen as normbench's pages say: those of at
most 29 words, 295 000 spread evenly; the paper's code drops longer ones after it has made the batches. The downstream
tasks are not compared.

The two updates from equal weights are on batches of 16, and the metrics after these of 128 triples.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import equal
import numpy as np
import published
import pyarrow.parquet
import torch
from formulas import GRU, KirosAdam, clip, uniform
from torch import Tensor, nn

ARMS = ("none", "ln")
BATCH, WORDS, WORD, UNITS, LONGEST, MOST, EVERY = 64, 10000, 128, 256, 29, 5.0, 375
COUNTS = {"train": 295000, "valid": 1000, "test": 1000}
AROUND = {"next": 1, "previous": -1}
LETTERS = r"[^\W\d_]+"
Sentences = list[np.ndarray]  # of a part, each with 0 at its end
Batch = Mapping[str, tuple[Tensor, Tensor]]  # the three sentences: words (B, T) and which of them are there


def split(text: str) -> list[str]:
    """As the Penn Treebank, in small letters: do n't, it 's, well-known, o'clock, 3.5; one " for all double quotes.

    As normbench's novels have it, 't is no ending: to ' t, do-don ' t.
    """
    text = re.sub(r"''|``", ' " ', text.lower())
    text = re.sub(rf"(?<!\w)(?<!\w['-])({LETTERS})(n't)\b", r"\1 \2 ", text)
    text = re.sub(r"'(s|m|d|re|ve|ll)\b", r" '\1 ", text)
    endings = r"(?<!\S)(?:n't|'(?:s|m|d|re|ve|ll))(?!\S)"
    return re.findall(rf"{endings}|{LETTERS}(?:(?:-|'(?!t\b)){LETTERS})*|\d+(?:[.,]\d+)*|--+|\.\.+|\S", text)


@cache
def load(root: Path) -> tuple[dict[str, tuple[Sentences, np.ndarray]], dict[str, int]]:
    """Sentences of each part, and which are the middle of its triples; numbers of words, the most frequent first."""
    table = pyarrow.parquet.read_table(root / "books" / "sentences.parquet")
    rows = zip(table["book"].to_pylist(), table["text"].to_pylist(), strict=True)
    books = {
        book: [words for _, text in group if (words := split(text))]
        for book, group in itertools.groupby(rows, lambda row: row[0])
    }
    order = sorted(books, key=lambda book: hashlib.sha256(book.encode()).hexdigest())
    held = len(order) * 2 // 19
    parts = {"valid": sorted(order[:held]), "test": sorted(order[held : 2 * held]), "train": sorted(order[2 * held :])}
    counts: Counter[str] = Counter()
    for book, sentences in books.items():
        for sentence in sentences:
            if book in parts["train"]:
                counts.update(sentence)
            else:
                counts.update(dict.fromkeys(sentence, 0))  # of equally frequent words the first to be read comes first
    numbers = {word: rank for rank, (word, count) in enumerate(counts.most_common(WORDS - 2), 2) if count}
    by_part = {}
    for part, titles in parts.items():
        sentences, middle = [], []
        for book in titles:
            first, lengths = len(sentences), [len(sentence) for sentence in books[book]]
            sentences += [np.array([*(numbers.get(word, 1) for word in s), 0], np.int32) for s in books[book]]
            middle += [first + k for k in range(1, len(lengths) - 1) if max(lengths[k - 1 : k + 2]) <= LONGEST]
        spread = np.arange(COUNTS[part]) * len(middle) // COUNTS[part]
        by_part[part] = sentences, np.array(middle)[spread]
    return by_part, numbers


def padded(rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    words = torch.zeros(mask.shape, dtype=torch.long)
    words[mask] = torch.from_numpy(np.concatenate(rows).astype(np.int64))
    return words, mask


def batch(sentences: Sentences, middle: np.ndarray) -> dict[str, tuple[Tensor, Tensor]]:
    return {name: padded([sentences[at + off] for at in middle]) for name, off in {"sentence": 0, **AROUND}.items()}


class Network(nn.Module):
    def __init__(self, arm: str) -> None:
        super().__init__()
        self.embedding, self.encoder = uniform(WORDS, WORD), GRU(WORD, UNITS, arm == "ln")
        self.decoders = nn.ModuleDict({name: GRU(WORD, UNITS, arm == "ln") for name in AROUND})
        self.output, self.output_bias = uniform(UNITS, WORDS), nn.Parameter(torch.zeros(WORDS))

    def forward(self, batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
        """-log(p + 1e-8) of all words of either neighbour, summed, and how many they are."""
        words, mask = batch["sentence"]
        vector, nlls = self.encoder(self.embedding[words], mask, self.output.new_zeros(len(words), UNITS))[:, -1], {}
        for name, decoder in self.decoders.items():
            words, mask = batch[name]
            before = torch.cat([self.output.new_zeros(len(words), 1, WORD), self.embedding[words[:, :-1]]], 1)
            logits = decoder(before, mask, vector)[mask] @ self.output + self.output_bias
            p = logits.softmax(1).gather(1, words[mask][:, None])
            nlls[name] = -(p + 1e-8).log().sum(), mask.sum()
        return nlls


def total(nlls: Mapping[str, tuple[Tensor, Tensor]]) -> Tensor:
    return sum((nll for nll, _ in nlls.values()), torch.zeros(()))


@torch.no_grad()
def test(network: Network, sentences: Sentences, middle: np.ndarray) -> dict[str, float]:
    """nll per word of both neighbours, and of either."""
    sums: Counter[str] = Counter()
    for rows in np.array_split(middle, -(-len(middle) // 64)):
        for name, (nll, count) in network(batch(sentences, rows)).items():
            for key in (f"{name}_nll", "nll"):
                sums.update({key: nll.item(), f"{key} words": int(count)})
    return {key: sums[key] / sums[f"{key} words"] for key in ("nll", "next_nll", "previous_nll")}


def epoch(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of batches: of each length in turn one, until it has none left."""
    groups = []
    for length in np.random.permutation(np.unique(lengths)):
        rows = np.random.permutation(np.flatnonzero(lengths == length))
        groups.append([rows[first : first + BATCH] for first in range(0, len(rows), BATCH)])
    for turn in itertools.zip_longest(*groups):
        yield from (rows for rows in turn if rows is not None)


def update(network: Network, optimizer: KirosAdam, loss: Tensor) -> bool:
    """Whether the gradients were clipped."""
    loss.backward()
    clipped = clip([p.grad for p in network.parameters() if p.grad is not None], MOST)
    optimizer.step()
    return clipped


def train(arm: str, axes: Mapping[str, int], updates: int, root: Path) -> Iterator[published.Record]:
    parts, _ = load(root)
    sentences, middle = parts["train"]
    lengths = np.array([len(sentences[at]) for at in middle])
    np.random.seed(torch.randint(2**31, ()).item())
    network = Network(arm)
    optimizer = KirosAdam(network.parameters(), 2e-4)
    batches = itertools.chain.from_iterable(epoch(lengths) for _ in itertools.count())
    losses, clipped = [], []
    for done in range(updates + 1):
        if done % EVERY == 0:
            if done:
                means = {"loss": float(np.mean(losses)), "clipped": float(np.mean(clipped))}
                yield {"epoch": done, "split": "train", "mode": "running", **means}
                losses, clipped = [], []
            for part in ("valid", "test"):
                yield {"epoch": done, "split": part, "mode": "eval", **test(network, *parts[part])}
        if done < updates:
            loss = total(network(batch(sentences, middle[next(batches)])))
            losses.append(loss.item())
            clipped.append(update(network, optimizer, loss))


def ours(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """normbench's parameter as ours are: a matrix transposed, a GRU's blocks z, r, n as [r; z] and n."""
    layer, _, last = name.rpartition(".")
    if layer == "embedding":
        return {"embedding": array}
    if layer == "output":
        return {"output": array.T} if last == "weight" else {"output_bias": array}
    gru = layer.partition(".cells")[0].replace("decoder.", "decoders.")
    return {f"{gru}.{key}": value for key, value in equal.of_gru(name, array).items()}


def compared(arm: str) -> Iterator[equal.Equal]:
    parts, numbers = load(Path(os.environ["NORMBENCH_DATA"]))
    sentences, middle = parts["train"]
    lengths = np.array([len(sentences[at]) for at in middle])
    batches = [batch(sentences, middle[lengths == length][:16]) for length in (8, 15)]
    tested, of_tested = parts["valid"]
    given = {}
    for number, tensors in ((0, batches[0]), (1, batches[1]), ("evaluated", batch(tested, of_tested[:128]))):
        for name, (words, mask) in tensors.items():
            given |= {f"{number}.{name}": words.numpy(), f"{number}.{name}_mask": mask.numpy()}
    of = equal.of_normbench("updates", "ln2016/fig3", "proxy", arm, given=given)
    if arm == ARMS[0]:
        same = sum(numbers.get(word) == at for at, word in enumerate(of["words"].tolist()) if at > 1)
        yield equal.one("data", None, "words with the same number", same, WORDS - 2)
        for name, (words, _) in batch(tested, of_tested).items():
            yield equal.one("data", None, f"validation triples, {name}", words, of[f"data.{name}"])
    network = Network(arm).double()
    optimizer = KirosAdam(network.parameters(), 2e-4)
    yield from equal.updates(
        arm, network, lambda k: total(network(batches[k])), lambda loss: update(network, optimizer, loss),
        lambda: test(network, tested, of_tested[:128]), ours, of,
    )  # fmt: skip


if __name__ == "__main__":
    title = "LN Fig. 3 by an implementation of its own"
    cells: list[published.Cell] = [(arm, {}) for arm in ARMS]
    sys.exit(
        published.main(
            __doc__, "skip_thoughts", title, "ln2016/fig3", cells, 375, train, fidelity="proxy", unit="update",
            equals=lambda: (each for arm in ARMS for each in compared(arm)),
        )
    )  # fmt: skip
