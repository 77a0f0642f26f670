"""Binarized MNIST: from text of 0 and 1 to packed bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data.prepare.parts import Wrong

PIXELS = 784


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `binarized_mnist/binarized_mnist.npz` below `out`: keys train, valid, test, `np.packbits` of each row."""
    parts = {part: np.packbits(_bits(sources / f"binarized_mnist_{part}.amat"), axis=1) for part in declares["sizes"]}
    for part, rows in declares["sizes"].items():
        if len(parts[part]) != rows:
            raise Wrong(f"binarized_mnist_{part}.amat has {len(parts[part])} rows instead of {rows}")
    path = out / "binarized_mnist" / "binarized_mnist.npz"
    path.parent.mkdir(parents=True)
    np.savez_compressed(path, train=parts["train"], valid=parts["valid"], test=parts["test"])


def _bits(path: Path) -> np.ndarray:
    # Each row is 784 digits with a blank after each, the last blank being the line end: read as bytes, not as numbers.
    raw = np.frombuffer(path.read_bytes(), np.uint8)
    if len(raw) % (2 * PIXELS):
        raise Wrong(f"{path.name} does not consist of rows of {PIXELS} digits")
    rows = raw.reshape(-1, 2 * PIXELS)
    bits, blanks = rows[:, ::2] - ord("0"), rows[:, 1::2]
    if (bits > 1).any() or (blanks[:, :-1] != ord(" ")).any() or (blanks[:, -1] != ord("\n")).any():
        raise Wrong(f"{path.name} holds something else than 0, 1 and blanks")
    return bits
