"""LN Fig. 1, trained anew: NORMBENCH_DATA=... python scripts/check/order_embeddings.py [--updates N] [--seed N]
[--output DIR]

Order embeddings of Flickr8k's captions, written from LN 6.1 and from the code of Vendrov et al. and of the LN authors,
not from normbench: words in 300, a GRU of 1024, its last state and a linear map of the image divided by their lengths,
absolute values of both; the summed hinge loss with margin 0.05 over the wrong pairs of 128; each tensor's gradient
clipped at 2, the GRU's W, U, b, Wx, Ux, bx by themselves; their Adam 1e-3. An image is the TF-IDF vector of three of
its captions, drawn anew by every run; the other two describe it. Ranked among 1 000 images.

The two updates from equal weights are on batches of 32, and the metrics after these of 200 images in folds of 100.
"""

from __future__ import annotations

import os
import string
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
BATCH, WORD, UNITS, MARGIN, MOST, EVERY, FOLD = 128, 300, 1024, 0.05, 2.0, 25, 1000
Caption = list[str]
Images = tuple[Tensor, list[list[Caption]]]  # vectors, and two captions of each


@cache
def load(root: Path) -> tuple[dict[str, list[list[Caption]]], dict[str, int], dict[str, tuple[int, float]]]:
    """The five captions of each image by part; numbers of words; column and idf of those that make vectors."""
    table = pyarrow.parquet.read_table(root / "flickr8k_captions" / "captions.parquet")
    parts: dict[str, list[list[Caption]]] = {"train": [], "dev": [], "test": [], "": []}
    drop = str.maketrans("", "", string.punctuation)
    for part, captions in zip(table["split"].to_pylist(), table["captions"].to_pylist(), strict=True):
        parts[part].append([caption.lower().translate(drop).split() for caption in captions])
    trained = [[word for caption in image for word in caption] for image in parts["train"]]
    counts = Counter(word for image in trained for word in image)
    all_counts = counts + Counter(word for image in parts["dev"] for caption in image for word in caption)
    numbers = {word: number for number, word in enumerate(sorted(all_counts), 2)}  # 0 ends a caption, 1: unknown
    images = Counter(word for image in trained for word in set(image))
    frequent = sorted(word for word, count in counts.items() if count >= 5)
    idf = {word: np.log((1 + len(trained)) / (1 + images[word])) + 1 for word in frequent}
    return parts, numbers, {word: (column, idf[word]) for column, word in enumerate(frequent)}


def tfidf(captions: Sequence[Caption], columns: Mapping[str, tuple[int, float]]) -> np.ndarray:
    weights = np.zeros(len(columns))
    for caption in captions:
        for word in caption:
            if word in columns:
                column, idf = columns[word]
                weights[column] += idf
    return weights / (np.linalg.norm(weights) or 1)


def draw(captions: Sequence[Sequence[Caption]], columns: Mapping[str, tuple[int, float]]) -> Images:
    texts, vectors = [], []
    for image in captions:
        places = torch.randperm(5).tolist()
        texts.append([image[place] for place in places[:2]])
        vectors.append(tfidf([image[place] for place in places[2:]], columns))
    return torch.from_numpy(np.array(vectors, np.float32)), texts


def padded(captions: Sequence[Caption], numbers: Mapping[str, int]) -> tuple[Tensor, Tensor]:
    """Words (B, T), an end behind each caption, and which of them are there."""
    rows = [[*(numbers.get(word, 1) for word in caption), 0] for caption in captions]
    words = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    mask = torch.zeros_like(words, dtype=torch.bool)
    for at, row in enumerate(rows):
        words[at, : len(row)], mask[at, : len(row)] = torch.tensor(row), True
    return words, mask


class Network(nn.Module):
    def __init__(self, arm: str, words: int, features: int) -> None:
        super().__init__()
        self.embedding, self.gru = uniform(words, WORD), GRU(WORD, UNITS, arm == "ln")
        bound = (6 / (features + UNITS)) ** 0.5
        self.image = nn.Parameter(torch.empty(features, UNITS).uniform_(-bound, bound))
        self.image_bias = nn.Parameter(torch.zeros(UNITS))

    def captions(self, words: Tensor, mask: Tensor) -> Tensor:
        h = self.gru(self.embedding[words], mask, self.image.new_zeros(len(words), UNITS))[:, -1]
        return (h / h.square().sum(1, keepdim=True).sqrt()).abs()

    def images(self, vectors: Tensor) -> Tensor:
        u = vectors @ self.image + self.image_bias
        return (u / u.square().sum(1, keepdim=True).sqrt()).abs()

    def forward(self, vectors: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        """The loss of a batch."""
        errors = violation(self.captions(words, mask), self.images(vectors))
        true, wrong = errors.diag(), 1 - torch.eye(len(errors))
        of_image, of_caption = (MARGIN - errors + true[None]).relu(), (MARGIN - errors + true[:, None]).relu()
        return (wrong * of_image).sum() + (wrong * of_caption).sum()


def violation(s: Tensor, v: Tensor) -> Tensor:
    """sum max(0, s - v)^2 of each caption (rows) against each image."""
    return (s[:, None] - v[None]).relu().square().sum(2)


@torch.no_grad()
def test(
    network: Network, vectors: Tensor, captions: Sequence[Sequence[Caption]], numbers: Mapping[str, int], fold: int
) -> dict[str, float]:
    """Means over the folds; the captions of one length are read at once."""
    texts = [caption for image in captions for caption in image]
    read = network.image.new_empty(len(texts), UNITS)
    lengths = np.array([len(caption) for caption in texts])
    for length in np.unique(lengths):
        for places in np.array_split(rows := np.flatnonzero(lengths == length), -(-len(rows) // 128)):
            read[places] = network.captions(*padded([texts[place] for place in places], numbers))
    v, folds = network.images(vectors), []
    for first in range(0, len(v), fold):
        of_fold = read[2 * first : 2 * (first + fold)].split(16)
        errors = torch.cat([violation(rows, v[first : first + fold]) for rows in of_fold]).numpy()
        order = np.argsort(errors, axis=1, kind="stable")
        by_caption = np.array([np.flatnonzero(row == at // 2)[0] for at, row in enumerate(order)])
        order = np.argsort(errors.T, axis=1, kind="stable")
        by_image = np.array([np.flatnonzero(row // 2 == at)[0] for at, row in enumerate(order)])
        metrics = {}
        for name, ranks in (("image", by_caption), ("caption", by_image)):
            metrics |= {f"{name}_r{k}": (ranks < k).mean() for k in (1, 5, 10)}
            metrics |= {f"{name}_median": np.floor(np.median(ranks)) + 1, f"{name}_rank": ranks.mean() + 1}
        metrics["image_rsum"] = metrics["image_r1"] + metrics["image_r5"] + metrics["image_r10"]
        folds.append(metrics)
    return {name: float(np.mean([metrics[name] for metrics in folds])) for name in folds[0]}


def update(network: Network, optimizer: KirosAdam, loss: Tensor) -> bool:
    """Whether any gradient was clipped."""
    loss.backward()
    clipped = [clip([p.grad], MOST) for p in network.parameters() if p.grad is not None]
    optimizer.step()
    return any(clipped)


def train(arm: str, axes: Mapping[str, int], updates: int, root: Path) -> Iterator[published.Record]:
    parts, numbers, columns = load(root)
    splits = {
        part: draw(parts[name], columns) for part, name in (("train", "train"), ("valid", "dev"), ("test", "test"))
    }
    vectors, texts = splits.pop("train")
    network = Network(arm, len(numbers) + 2, len(columns))
    optimizer = KirosAdam(network.parameters(), 1e-3)
    losses, clipped, batches = [], [], iter(())
    for done in range(updates + 1):
        if done % EVERY == 0:
            if done:
                means = {"loss": float(np.mean(losses)), "clipped": float(np.mean(clipped))}
                yield {"epoch": done, "split": "train", "mode": "running", **means}
                losses, clipped = [], []
            for part, (of_part, captions) in splits.items():
                yield {"epoch": done, "split": part, "mode": "eval", **test(network, of_part, captions, numbers, FOLD)}
        if done == updates:
            break
        rows = next(batches, None)
        if rows is None:
            whole = len(texts) // BATCH * BATCH
            batches = iter(torch.randperm(len(texts))[:whole].split(BATCH))
            rows = next(batches)
        chosen = [texts[row][int(torch.randint(2, ()))] for row in rows]
        loss = network(vectors[rows], *padded(chosen, numbers))
        losses.append(loss.item())
        clipped.append(update(network, optimizer, loss))


def ours(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """normbench's parameter as ours are: a matrix transposed, a GRU's blocks z, r, n as [r; z] and n."""
    layer, _, last = name.rpartition(".")
    if name == "embedding.weight":
        return {"embedding": array}
    if layer == "image":
        return {"image": array.T} if last == "weight" else {"image_bias": array}
    return {f"gru.{key}": value for key, value in equal.of_gru(name, array).items()}


def compared(arm: str) -> Iterator[equal.Equal]:
    torch.manual_seed(1)
    parts, numbers, columns = load(Path(os.environ["NORMBENCH_DATA"]))
    vectors, texts = draw(parts["train"][:64], columns)
    tested, of_tested = draw(parts["dev"][:200], columns)
    batches, tensors = [], {}
    for number, rows in enumerate(torch.arange(64).split(32)):
        words, mask = padded([texts[row][0] for row in rows], numbers)
        batches.append((vectors[rows].double(), words, mask))
        tensors |= {f"{number}.image": vectors[rows], f"{number}.captions": words, f"{number}.captions_mask": mask}
    words, mask = padded([[*first, "", *second] for first, second in of_tested], numbers | {"": 0})
    tensors |= {"evaluated.image": tested, "evaluated.captions": words, "evaluated.captions_mask": mask}
    given = {name: tensor.numpy() for name, tensor in tensors.items()}
    of = equal.of_normbench("updates", "ln2016/fig1", "proxy", arm, "data.fold=100", given=given)
    if arm == ARMS[0]:
        yield from of_data(parts["dev"], columns, numbers, of)
    network = Network(arm, len(numbers) + 2, len(columns)).double()
    optimizer = KirosAdam(network.parameters(), 1e-3)
    yield from equal.updates(
        arm, network, lambda k: network(*batches[k]), lambda loss: update(network, optimizer, loss),
        lambda: test(network, tested.double(), of_tested, numbers, 100), ours, of,
    )  # fmt: skip


def of_data(
    images: Sequence[Sequence[Caption]],
    columns: Mapping[str, tuple[int, float]],
    numbers: Mapping[str, int],
    of: Mapping[str, np.ndarray],
) -> Iterator[equal.Equal]:
    """normbench's validation part: its words, and each image's vector from those captions that it is not told by."""
    words = of["words"].tolist()
    yield equal.one("data", None, "words that have numbers", len(set(words[2:]) & numbers.keys()), len(words) - 2)
    vectors = []
    for image, row, mask in zip(images, of["data.captions"], of["data.captions_mask"], strict=True):
        texts = " ".join(words[n] if n else "." for n in row[mask]).split(".")
        left = [" ".join(caption) for caption in image]
        for caption in texts[:-1]:
            left.remove(caption.strip())
        vectors.append(tfidf([caption.split() for caption in left], columns))
    yield equal.one("data", None, "images' vectors", np.array(vectors, np.float32), of["data.image"])


if __name__ == "__main__":
    title = "LN Fig. 1 by an implementation of its own"
    cells: list[published.Cell] = [(arm, {}) for arm in ARMS]
    sys.exit(
        published.main(
            __doc__, "order_embeddings", title, "ln2016/fig1", cells, 75, train, fidelity="proxy", unit="update",
            equals=lambda: (each for arm in ARMS for each in compared(arm)),
        )
    )  # fmt: skip
