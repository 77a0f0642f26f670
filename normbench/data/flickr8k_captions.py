"""Flickr8k captions without the images: three captions of an image stand for it, the other two describe it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normbench.data import Dataset, array_cache, captions, check, content, files, hub
from normbench.data.array_cache import Arrays
from normbench.data.examples import Split
from normbench.data.words import UNKNOWN
from normbench.streams import stream

SPLITS = {"train": "train", "valid": "dev", "test": "test"}
CAPTIONS = 5  # of an image
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
    code), 1 for any other. Validation and test have `caption_features` (N, captions, features) beside it, their
    TF-IDF vectors.
    Errors: a missing or damaged file, columns or words that do not fit what the set declares.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    check(config, root)
    name, declares, count = str(config["name"]), config["declares"], int(config["declares"]["captions"])
    found, most = files.digest(files.paths(config, root)[0], "sha256"), int(config["words"])
    target = files.cache(name) / f"{content.checksum([found, int(declares['maths']), most])[:32]}.npz"
    arrays, notes = array_cache.arrays(target, lambda: _numbered(config, root, most), "The captions are read anew.")
    words, texts = arrays["words"].tolist(), {part: _captions(arrays, part) for part in SPLITS}
    counts = np.bincount(arrays["train_values"], minlength=len(words))
    frequent = sorted((n for n in range(captions.FIRST, len(words)) if counts[n] >= LEAST), key=words.__getitem__)
    tfidf = TfidfVectorizer(
        analyzer=np.concatenate, lowercase=False, vocabulary={n: column for column, n in enumerate(frequent)}
    )
    tfidf.fit(texts["train"])
    splits = {}
    for part, images in texts.items():
        draw = stream(seed, "captions", part)
        shuffled = [[image[place] for place in draw.permutation(len(image))] for image in images]
        sentences = [image[:count] for image in shuffled]
        tensors: dict[str, Any] = {
            "image": _dense(tfidf.transform([image[count:] for image in shuffled])),
            "captions": captions.joined(sentences),
        }
        if part != "train":
            by_caption = _dense(tfidf.transform([[caption] for image in sentences for caption in image]))
            tensors["caption_features"] = by_caption.view(len(images), count, -1)
        splits[part] = Split(**tensors)
    copy = {"sha256": content.checksum(declares["files"]), "deviations": list(DEVIATIONS)}
    return Dataset(name, splits, notes, copy, words)


def _dense(rows: Any) -> Tensor:
    return torch.from_numpy(rows.toarray().astype(np.float32))


def _captions(arrays: Arrays, part: str) -> list[list[np.ndarray]]:
    """The word numbers of each image's captions."""
    sentences = np.split(arrays[f"{part}_values"], arrays[f"{part}_lengths"].cumsum()[:-1])
    return [sentences[row : row + CAPTIONS] for row in range(0, len(sentences), CAPTIONS)]


def _numbered(config: Mapping[str, Any], root: Path, most: int) -> Arrays:
    """All captions as word numbers, by part, and the words."""
    (path,) = files.paths(config, root)
    table = hub.columns(path, ("split", "captions"))
    texts: dict[str, list[list[str]]] = {}
    for part, split in SPLITS.items():
        images = [given for of, given in zip(table["split"], table["captions"], strict=True) if of == split]
        texts[part] = [captions.split(caption) for image in images for caption in image]
    numbers = captions.ranks([*texts["train"], *texts["valid"]], most, str(config["name"]))
    arrays: Arrays = {"words": np.array(captions.words_by_number(numbers))}
    for part, sentences in texts.items():
        arrays[f"{part}_values"] = np.array([numbers.get(w, UNKNOWN) for c in sentences for w in c], np.int32)
        arrays[f"{part}_lengths"] = np.array([len(caption) for caption in sentences], np.int32)
    return arrays
