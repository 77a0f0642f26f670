"""MNIST with every pixel black or white, drawn once by its grey value (Salakhutdinov and Murray 2008)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench import reading
from normbench.data import Dataset, check, files
from normbench.data.examples import Split
from normbench.errors import NormbenchError


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """`inputs` (N, 784) float32 of 0 and 1, in the files' order, whatever the seed; there are no labels.

    The files' order is not MNIST's. Test rows come sorted by digit: some of them are to be taken with a stride.
    Errors: a missing or damaged file, arrays that are not the declared ones.
    """
    check(config, root)
    (path,) = files.paths(config, root)
    facts = config["declares"]
    pixels, splits = int(facts["features"]), {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for part, rows in facts["sizes"].items():
                packed = arrays[part]
                wanted = (rows, -(-pixels // 8))
                if packed.shape != wanted or packed.dtype != np.uint8:
                    raise NormbenchError(
                        f"{files.as_text(path)}: {part} is {packed.dtype} {packed.shape} instead of uint8 "
                        f"{wanted}. Run: normbench data get {config['name']}"
                    )
                bits = np.unpackbits(packed, axis=1, count=pixels)
                splits[part] = Split(inputs=torch.from_numpy(bits.astype(np.float32)))
    except reading.NO_ARCHIVE as error:
        raise NormbenchError(f"{files.as_text(path)} cannot be read: {error}.") from error
    return Dataset(str(config["name"]), splits)
