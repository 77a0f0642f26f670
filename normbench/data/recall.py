"""A recall task, made here: which symbol stood where the marker was, or where the later of two markers was?

Embedded, so it needs no files and no network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, content
from normbench.data.examples import Split
from normbench.errors import NormbenchError
from normbench.streams import stream

TIMES = (2, 4)  # test sequences that are so many times as long as the trained ones, as parts of their own


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Sequences of symbols, one of them marked: that symbol is the target. Parts train, valid, test, `test 2x`, ...

    Inputs (N, T, symbols + 1): a symbol in one-hot form and the marker's bit; targets (N,). All drawn by the seed.
    Where `asked` is `later`, two are marked, and the later one is the target. `root` is not used: there are no files.
    NormbenchError when numpy's random numbers are not the declared ones.
    """
    facts = config["declares"]
    symbols, length, sizes = int(facts["classes"]), int(config["length"]), facts["sizes"]
    if config["asked"] == "later" and length < 2:
        raise NormbenchError(f"data.length={length} has no two places to mark: data.asked=later takes 2 or more.")
    check = _draw(0, "check", 100, 10, symbols)
    found = hashlib.sha256(check[0].astype("<i8").tobytes() + check[1].astype("<i8").tobytes()).hexdigest()
    content.check_made("the sequences of data=recall", found, facts["sha256"])
    parts = [(part, int(sizes[part]), length) for part in ("train", "valid", "test")]
    parts[0] = ("train", round(sizes["train"] * config["fraction"]), length)
    parts += [(f"test {times}x", int(sizes["test"]), times * length) for times in TIMES]
    splits = {}
    for part, count, steps in parts:
        sequences, places = _draw(seed, part, count, steps, symbols)
        marked = [places]
        if config["asked"] == "later":  # a second place, never the first one
            further = stream(seed, "recall", part, "second").integers(1, steps, count)
            marked.append((places + further) % steps)
        splits[part] = _split(sequences, np.stack(marked), symbols)
    return Dataset(str(config["name"]), splits)


def _draw(seed: int, part: str, count: int, steps: int, symbols: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols (count, steps) and the marked place of each sequence (count,)."""
    draw = stream(seed, "recall", part)
    return draw.integers(0, symbols, (count, steps)), draw.integers(0, steps, count)


def _split(sequences: np.ndarray, marked: np.ndarray, symbols: int) -> Split:
    """`marked` places (marks, count); the symbol at the last of them is asked for."""
    rows = np.arange(len(sequences))
    inputs = np.zeros((*sequences.shape, symbols + 1), dtype=np.float32)
    np.put_along_axis(inputs, sequences[..., None], 1.0, -1)
    inputs[rows, marked, symbols] = 1.0
    return Split(inputs=torch.from_numpy(inputs), targets=torch.from_numpy(sequences[rows, marked.max(axis=0)]))
