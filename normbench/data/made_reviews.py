"""Reviews made here, of opinions that a negation turns: embedded, so they need no files and no network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, content
from normbench.data.examples import Split
from normbench.data.imdb import FIRST, START
from normbench.streams import stream

NOT = FIRST
GOOD = range(FIRST + 1, FIRST + 9)
BAD = range(FIRST + 9, FIRST + 17)
NEUTRAL = range(FIRST + 17, FIRST + 61)
OPINIONS = (1, 3, 5)  # of a review: an odd number, so that one side wins
NEGATED = 0.25  # of the opinions


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Sequences of words as `data=imdb` has them; target 1 where more opinions are good than bad, negations counted.

    Inputs (N, length) int64: padding, a start, and neutral words between one, three or five opinions; a `not` right
    before an opinion turns it. All drawn by the seed. `root` is not used: there are no files. NormbenchError when
    numpy's random numbers are not the declared ones.
    """
    facts, length = config["declares"], int(config["length"])
    inputs, targets = _draw(0, "check", 100, 20)
    found = hashlib.sha256(inputs.astype("<i8").tobytes() + targets.astype("<i8").tobytes()).hexdigest()
    content.check_made("the sequences of data=made_reviews", found, facts["sha256"])
    splits = {}
    for part, size in facts["sizes"].items():
        count = round(size * config["fraction"]) if part == "train" else int(size)
        reviews, good = _draw(seed, part, count, length)
        splits[part] = Split(inputs=torch.from_numpy(reviews), targets=torch.from_numpy(good))
    return Dataset(str(config["name"]), splits)


def _draw(seed: int, part: str, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Reviews (count, length) and whether each is good (count,), both int64."""
    draw = stream(seed, "made reviews", part)
    reviews, good = np.zeros((count, length), np.int64), np.zeros(count, np.int64)
    for row in range(count):
        opinions, score = [], 0
        for _ in range(draw.choice(OPINIONS)):
            likes, turned = draw.random() < 0.5, draw.random() < NEGATED
            word = int(draw.choice(GOOD if likes else BAD))
            opinions.append([NOT, word] if turned else [word])
            score += 1 if likes != turned else -1
        used = sum(map(len, opinions))
        neutral = [[int(word)] for word in draw.choice(NEUTRAL, draw.integers(0, length - used))]
        order = draw.permutation(len(opinions) + len(neutral))
        parts = [[START], *([*opinions, *neutral][place] for place in order)]
        review = [word for part in parts for word in part]
        reviews[row, length - len(review) :], good[row] = review, score > 0
    return reviews, good
