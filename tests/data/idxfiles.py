"""Small idx files with MNIST's names, and the configuration that declares them."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import files

SIDE, TRAIN, TEST = 4, 60, 20


def idx(array: np.ndarray) -> bytes:
    """An idx file: type and dimensions, lengths, bytes."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def contents() -> dict[str, bytes]:
    """The four gzip files: random images, labels 0 to 9 in turn."""
    random = np.random.default_rng(7)
    made = {}
    for part, rows in (("train", TRAIN), ("t10k", TEST)):
        made[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(idx(random.integers(0, 256, (rows, SIDE, SIDE))), mtime=0)
        made[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx(np.arange(rows) % 10), mtime=0)
    return made


def declare(made: dict[str, bytes]) -> dict[str, Any]:
    """The `data` node of a set that consists of these files."""
    bodies = [contents()[name] for name in made]
    sums = {f"MNIST/raw/{name}": hashlib.md5(body).hexdigest() for name, body in made.items()}
    return {
        "name": "mnist",
        "valid": 10,
        "declares": {
            "classes": 10,
            "features": SIDE * SIDE,
            "sizes": {"train": TRAIN, "test": TEST},
            "megabytes": 11,
            "files": sums,
            "sha256": files.checksum([hashlib.sha256(gzip.decompress(body)).hexdigest() for body in bodies]),
            "fetch": {"from": ["http://127.0.0.1:1/"], "files": sums},
        },
    }


def write(root: Path, made: dict[str, bytes]) -> Path:
    """Lay the files into a data folder; returns the folder of the files."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, body in made.items():
        (raw / name).write_bytes(body)
    return raw
