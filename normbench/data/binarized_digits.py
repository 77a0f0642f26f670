"""scikit-learn's digits, every pixel black or white, drawn once by its grey value: embedded, no files, no network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, content
from normbench.data.digits import BOUNDS, embedded
from normbench.data.examples import Split
from normbench.streams import stream

WHITE = 16  # the largest grey value


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """`inputs` (N, 64) float32 of 0 and 1, the same for every seed; parts as data=digits. NormbenchError when they are
    not the declared ones. `root` is not used: there are no files.
    """
    facts = config["declares"]
    grey, _ = embedded()
    # whole numbers throughout: the same bits on every machine
    bits = (stream(0, "binarized digits").integers(0, WHITE, grey.shape) < grey).astype(np.uint8)
    found = hashlib.sha256(bits.tobytes()).hexdigest()
    source = "scikit-learn's digits or numpy's random numbers"
    content.check_made("the binarized digits", found, facts["sha256"], source, "scikit-learn and numpy")
    inputs = torch.from_numpy(bits.astype(np.float32))
    return Dataset(str(config["name"]), {part: Split(inputs=inputs[rows]) for part, rows in BOUNDS.items()})
