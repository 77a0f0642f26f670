"""Made-up images with captions: things that an image shows, and what is said of them. Embedded: it needs no files."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, captions, content
from normbench.data.examples import Ragged, Split
from normbench.data.words import END
from normbench.streams import stream

THINGS = 24  # a word each
FILLERS = 12  # words that say nothing
IN_IMAGE = (3, 5)  # things in an image
IN_CAPTION = (2, 3)  # of them in a caption
NOISE = 0.3


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Examples are images: `image` (N, features) float32 of length 1, and `captions`, ragged int64, END behind each.

    An image shows three to five of 24 things; its features are the sum of their directions with noise, those below zero
    cut off. A caption names two or three of them in any order, with fillers. All drawn by the seed. `root` is not used.
    NormbenchError when numpy's random numbers are not the declared ones.
    """
    declares = config["declares"]
    features, per_image = int(declares["features"]), int(declares["captions"])
    check = _draw(0, "check", 50, features, per_image)
    found = hashlib.sha256(check[0].astype("<f4").round(3).tobytes() + check[1].values.numpy().tobytes()).hexdigest()
    content.check_made(f"the captions of data={config['name']}", found, declares["sha256"])
    splits = {}
    for part, size in declares["sizes"].items():
        images, sentences = _draw(seed, part, int(size), features, per_image)
        splits[part] = Split(image=captions.unit_rows(images, f"data={config['name']}"), captions=sentences)
    words = [*(f"thing{i}" for i in range(THINGS)), *(f"filler{i}" for i in range(FILLERS))]
    numbers = {word: captions.FIRST + place for place, word in enumerate(words)}
    return Dataset(str(config["name"]), splits, words=captions.words_by_number(numbers))


def _draw(seed: int, part: str, count: int, features: int, per_image: int) -> tuple[np.ndarray, Ragged]:
    directions = stream(seed, "made captions").standard_normal((THINGS, features))
    draw = stream(seed, "made captions", part)
    images, sentences = np.zeros((count, features)), []
    for row in range(count):
        things = draw.choice(THINGS, draw.integers(IN_IMAGE[0], IN_IMAGE[1] + 1), replace=False)
        noise = NOISE * draw.standard_normal(features)
        images[row] = np.maximum(directions[things].sum(0) / len(things) ** 0.5 + noise, 0)
        for _ in range(per_image):
            named = draw.choice(things, draw.integers(IN_CAPTION[0], IN_CAPTION[1] + 1), replace=False)
            fillers = THINGS + draw.integers(0, FILLERS, draw.integers(1, 5))
            words = draw.permutation(np.concatenate([named, fillers])) + captions.FIRST
            sentences.append([*words.tolist(), END])
    sequences = (itertools.chain(*sentences[i : i + per_image]) for i in range(0, len(sentences), per_image))
    return images, Ragged.of(torch.tensor(list(sequence)) for sequence in sequences)
