"""scikit-learn's digits as colour images of CIFAR-10's size: embedded, so they need no files and no network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, content, images
from normbench.data.digits import BOUNDS, embedded
from normbench.errors import NormbenchError
from normbench.streams import stream

SIDE, ENLARGED = 32, 3
PICTURES = 4  # of each digit
INK, PAPER, NOISE = (96, 256), (0, 160), 40


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """The pictures; standardized by the training pictures. NormbenchError when they are not the declared ones.

    Pictures of one digit are all in the same part. Training and validation use a `fraction` of their pictures, which
    the seed chooses. `root` is not used: there are no files.
    """
    facts = config["declares"]
    pictures, labels = made()
    found = hashlib.sha256(pictures.tobytes() + labels.tobytes()).hexdigest()
    source = "scikit-learn's digits or numpy's random numbers"
    content.check_made("the coloured digits", found, facts["sha256"], source, "scikit-learn and numpy")
    rows = np.arange(len(labels)).reshape(-1, PICTURES)
    by = images.moments(pictures[rows[BOUNDS["train"]].ravel()])
    splits = {}
    for part in ("train", "valid", "test"):
        chosen = rows[BOUNDS[part]].ravel()
        if part != "test":
            count = round(len(chosen) * config["fraction"])
            chosen = stream(seed, "subset", part).permutation(chosen)[:count]
            if not count:
                raise NormbenchError(f"data.fraction={config['fraction']} leaves no {part} images.")
        splits[part] = images.standardized(pictures, labels, chosen, by)
    return Dataset(str(config["name"]), splits)


def made() -> tuple[np.ndarray, np.ndarray]:
    """Pictures (7188, 32, 32, 3) uint8, four of each digit in turn, and labels (7188,) uint8.

    A digit of 24 x 24 at a random place, its colour and the background's drawn independently of its class: the digit is
    the brighter one as a rule, by much or little, but not in every channel; uniform noise on every value.
    """
    digits, labels = embedded()
    draw = stream(0, "coloured digits")
    count = len(digits) * PICTURES
    shape = digits.reshape(-1, 8, 8).astype(np.int32).repeat(ENLARGED, 1).repeat(ENLARGED, 2).repeat(PICTURES, 0)
    place = draw.integers(0, SIDE - shape.shape[1] + 1, (count, 2))
    colour = draw.integers(*INK, (count, 1, 1, 3)).astype(np.int32)
    background = draw.integers(*PAPER, (count, 1, 1, 3)).astype(np.int32)
    ink = np.zeros((count, SIDE, SIDE, 1), np.int32)
    for canvas, digit, (y, x) in zip(ink, shape, place, strict=True):
        canvas[y : y + len(digit), x : x + len(digit), 0] = digit
    # whole numbers throughout: the same bytes on every machine
    pictures = background + ink * (colour - background) // 16
    pictures += draw.integers(-NOISE, NOISE + 1, pictures.shape, dtype=np.int32)
    return pictures.clip(0, 255).astype(np.uint8), labels.astype(np.uint8).repeat(PICTURES)
