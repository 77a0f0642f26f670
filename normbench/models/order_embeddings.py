"""Order embeddings of images and captions (Vendrov et al. 2016), as LN 2016 trains them (6.1, Fig. 1, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.data import Dataset, captions
from normbench.data.words import END, UNKNOWN
from normbench.models import retrieval
from normbench.models.base import Model, Sites, check_known
from normbench.rnn.embedding import Embedding
from normbench.rnn.layers import GRU

AT_ONCE = 128  # captions that an evaluation encodes together, of similar lengths


class OrderEmbeddings(Model):
    """Caption s = |h / ‖h‖|, h the GRU's state after the caption's end; image v = |u / ‖u‖|, u = W x + b.

    A caption lies above its image: E(s, v) = Σ max(0, s - v)² is small. Loss: the sum over a batch's wrong pairs, both
    ways, of max(0, `margin` - E(wrong) + E(true)). An update, or a pass for statistics, draws one caption of
    each image.
    Sites: `gru.input.gates`, `gru.input.candidate`, `gru.hidden.gates`, `gru.hidden.candidate` (LN 2016, eq. 26-28;
    biases inside the input's normalizers, the update gate is the share of the old state, as the authors' code).
    Metrics of a whole split, ranked in folds of `fold` images: `image_r1`, `image_r5`, `image_r10` (shares),
    `image_rank`, `image_median` of image retrieval (text to image), the same of `caption` retrieval with the best of
    an image's captions, and `image_rsum`, the sum of the three shares, by which the authors keep weights.
    Shapes: image (B, features); captions (B, T) int64, all of an image one after another, `END` behind each.
    Not the same as: order-embedding's evaluation groups captions of one length; here they are padded to the longest of
    some of similar length, which is the same but for statistics over a batch.
    """

    loss = "loss"

    def __init__(
        self, words: int, features: int, word_size: int, hidden_size: int, margin: float, fold: int, sites: Sites
    ) -> None:
        super().__init__()
        self.margin, self.fold = margin, fold
        self.embedding = Embedding(words, word_size)
        self.gru = GRU(word_size, hidden_size, sites, "gru", bias="inside", update="old")
        self.image = nn.Linear(features, hidden_size)

    def embed(self, words: Tensor, mask: Tensor) -> Tensor:
        """Captions (M, T) in the common space, (M, H)."""
        outputs, _ = self.gru(self.embedding(words), mask)
        return _on_sphere(outputs[:, -1])

    def project(self, image: Tensor) -> Tensor:
        """Images in the common space, (B, H)."""
        return _on_sphere(self.image(image))

    def forward(self, image: Tensor, captions: Tensor, captions_mask: Tensor) -> Tensor:
        starts, lengths = _captions(captions, captions_mask)
        count = starts.shape[1]
        if self.noise is not None:
            chosen = torch.tensor([int(draw.integers(count)) for draw in self.noise.streams("caption")])
        elif (draw := self.draws("caption")) is not None:
            chosen = torch.from_numpy(draw.integers(0, count, len(captions)))
        else:
            chosen = torch.zeros(len(captions), dtype=torch.int64)
        rows = torch.arange(len(captions), device=captions.device)
        chosen = chosen.to(captions.device)
        words, mask = _cut(captions, rows, starts[rows, chosen], lengths[rows, chosen])
        errors = retrieval.order_violation(self.embed(words, mask), self.project(image))
        return retrieval.contrastive(errors, self.margin)

    def collect(self, image: Tensor, captions: Tensor, captions_mask: Tensor) -> dict[str, Tensor]:
        """Images (B, H) and their captions (B, captions, H) in the common space."""
        starts, lengths = _captions(captions, captions_mask)
        rows = torch.arange(len(captions), device=captions.device).repeat_interleave(starts.shape[1])
        order = lengths.flatten().argsort(stable=True)
        embedded = image.new_empty(len(rows), self.image.out_features)
        for part in order.split(AT_ONCE):
            embedded[part] = self.embed(*_cut(captions, rows[part], starts.flatten()[part], lengths.flatten()[part]))
        return {"image": self.project(image), "captions": embedded.view(*starts.shape, -1)}

    def whole(self, split: str, collected: Mapping[str, Tensor]) -> dict[str, float | Tensor]:
        each, medians = retrieval.in_folds(
            collected["image"], collected["captions"], self.fold, retrieval.order_violation
        )
        total = sum(float(each[f"image_r{k}"].mean()) for k in retrieval.AT)
        return {**each, **medians, "image_rsum": total}

    @torch.no_grad()
    def nearest(self, text: str, count: int, data: Dataset) -> list[str]:
        """`0.031  a dog runs | a dog on the grass`: error and captions of the nearest test images, nearest first."""
        numbers = {word: number for number, word in enumerate(data.words)}
        caption = [numbers.get(word, UNKNOWN) for word in captions.split(text)]
        check_known(text, caption, data)
        query, split = torch.tensor([[*caption, END]]), data.splits["test"]
        errors = retrieval.order_violation(self.embed(query, torch.ones_like(query) > 0), self.project(split["image"]))
        nearest = errors[0].argsort(stable=True)[:count]
        texts = (split["captions"].padded(row.view(1))[0][0].tolist() for row in nearest)
        lines = (" ".join(data.words[n] if n != END else "|" for n in of_image) for of_image in texts)
        return [f"{errors[0, row]:.3f}  {line.removesuffix(' |')}" for row, line in zip(nearest, lines, strict=True)]


def _on_sphere(x: Tensor) -> Tensor:
    return (x / torch.linalg.vector_norm(x, dim=1, keepdim=True)).abs()


def _captions(captions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Where each caption of an image begins, and how many places it has with its end: (B, captions) each."""
    ends = ((captions == END) & mask).nonzero()[:, 1].view(len(captions), -1)
    starts = F.pad(ends[:, :-1] + 1, (1, 0))
    return starts, ends - starts + 1


def _cut(captions: Tensor, rows: Tensor, starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """One caption of each of these rows, (M, longest), and the mask of its places."""
    places = torch.arange(int(lengths.max()), device=captions.device)
    mask = places < lengths[:, None]
    at = torch.where(mask, starts[:, None] + places, 0)
    return captions[rows[:, None], at].masked_fill(~mask, END), mask


def build(config: Mapping[str, Any], sites: Sites) -> OrderEmbeddings:
    model, data = config["model"], config["data"]
    return OrderEmbeddings(
        data["words"],
        data["declares"]["features"],
        model["word_size"],
        model["hidden_size"],
        model["margin"],
        data["fold"],
        sites,
    )
