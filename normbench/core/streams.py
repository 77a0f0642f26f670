"""Random streams keyed by their purpose, so that arms share their draws and resuming needs no generator state."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator of `(seed, purpose...)`, e.g. `stream(3, "order", epoch)`: Philox under a 128-bit keyed hash.

    numpy's Philox rather than torch's generator: torch keeps only 32 bits of a CPU seed, and its draws may change
    with its version.
    """
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))
