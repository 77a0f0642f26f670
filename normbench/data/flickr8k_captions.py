"""Flickr8k captions without the images: three captions of an image stand for it, the other two describe it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normbench.data import Dataset, captions, check, content, files
from normbench.data.examples import Split
from normbench.errors import NormbenchError
from normbench.streams import stream

SPLITS = {"train": "train", "valid": "dev", "test": "test"}
LEAST = 5  # times that a word of the TF-IDF vectors occurs
DEVIATIONS = (
    "Flickr8k: an image is the TF-IDF vector of three of its captions, drawn by the seed, and is described by the "
    "other two; there are no pictures",
)


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Examples are images: `image` (N, features) float32, a TF-IDF vector of length 1, and `captions`, ragged int64.

    TF-IDF as scikit-learn's `TfidfVectorizer` by default, over the words that occur at least `LEAST` times in the
    captions of the training images, whose document is all five. The captions that are left are sequences of word
    numbers, 0 at the end of each; a number for every word of the training and validation captions (order-embedding's
    code), 1 for any other. Validation and test have `told` (N, captions, features) beside it, their TF-IDF vectors.
    Errors: a missing or damaged file, columns or words that do not fit what the set declares.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    check(config, root)
    name, declares, rows = str(config["name"]), config["declares"], _rows(config, root)
    texts = [caption for part in ("train", "valid") for image in rows[part] for caption in image]
    numbers, kept = captions.ranks(texts, int(config["words"]), name), int(declares["captions"])
    counts = Counter(word for image in rows["train"] for caption in image for word in caption)
    frequent = sorted(word for word, count in counts.items() if count >= LEAST)
    if len(frequent) != declares["features"]:
        raise NormbenchError(
            f"data={name} declares {declares['features']} features, but {len(frequent)} words occur {LEAST} times in "
            "its training captions."
        )
    tfidf = TfidfVectorizer(analyzer=lambda words: words, vocabulary=frequent)
    tfidf.fit([word for caption in image for word in caption] for image in rows["train"])
    splits = {}
    for part, images in rows.items():
        draw = stream(seed, "captions", part)
        drawn = [[image[place] for place in draw.permutation(len(image))] for image in images]
        told = [image[:kept] for image in drawn]
        shown = tfidf.transform([word for caption in image[kept:] for word in caption] for image in drawn)
        tensors: dict[str, Any] = {"image": _dense(shown), "captions": captions.encode(told, numbers)}
        if part != "train":
            by_caption = _dense(tfidf.transform(caption for image in told for caption in image))
            tensors["told"] = by_caption.view(len(images), kept, -1)
        splits[part] = Split(**tensors)
    copy = {"sha256": content.checksum(declares["files"]), "deviations": list(DEVIATIONS)}
    return Dataset(name, splits, copy=copy, words=captions.known(numbers))


def _dense(rows: Any) -> Tensor:
    return torch.from_numpy(rows.toarray().astype(np.float32))


def _rows(config: Mapping[str, Any], root: Path) -> dict[str, list[list[list[str]]]]:
    """The words of each image's captions, by part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (name,) = files.declared(config)
    try:
        table = pq.read_table(root / name, columns=["split", "captions"]).to_pydict()
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise NormbenchError(
            f"{files.shown(root / name)} has the declared checksum, but not the columns split, captions: {error}"
        ) from error
    found: dict[str, list[list[list[str]]]] = {}
    for part, split in SPLITS.items():
        images = [given for of, given in zip(table["split"], table["captions"], strict=True) if of == split]
        found[part] = [[captions.split(caption) for caption in image] for image in images]
        if len(images) != config["declares"]["sizes"][split]:
            raise NormbenchError(
                f"{files.shown(root / name)} has {len(images)} images of the split {split} instead of "
                f"{config['declares']['sizes'][split]}."
            )
    return found
