"""Binarized MNIST: from text of 0 and 1 to packed bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

PIXELS = 784


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `binarized_mnist/binarized_mnist.npz` below `out`: keys train, valid, test, `np.packbits` of each row."""
    parts = {}
    for part in declares["sizes"]:
        # Each row is 784 digits, a blank or the line end after each: read as bytes, not as numbers.
        raw = np.frombuffer((sources / f"binarized_mnist_{part}.amat").read_bytes(), np.uint8)
        parts[part] = np.packbits(raw.reshape(-1, 2 * PIXELS)[:, ::2] - ord("0"), axis=1)
    path = out / "binarized_mnist" / "binarized_mnist.npz"
    path.parent.mkdir(parents=True)
    np.savez_compressed(path, **parts)  # type: ignore[arg-type]  # its stub takes the names for allow_pickle's
