"""MNIST with every pixel black or white, drawn once by its grey value (Salakhutdinov and Murray 2008)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, check, files
from normbench.data.examples import Split


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """`inputs` (N, 784) float32 of 0 and 1, in the files' order, whatever the seed; there are no labels.

    The files' order is not MNIST's. Test rows come sorted by digit: some of them are to be taken with a stride.
    Errors: a missing or damaged file.
    """
    check(config, root)
    (path,) = files.paths(config, root)
    facts = config["declares"]
    splits = {}
    with np.load(path, allow_pickle=False) as arrays:
        for part in facts["sizes"]:
            bits = np.unpackbits(arrays[part], axis=1, count=int(facts["features"]))
            splits[part] = Split(inputs=torch.from_numpy(bits.astype(np.float32)))
    return Dataset(str(config["name"]), splits)
