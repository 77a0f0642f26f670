"""scikit-learn's 8 x 8 digits, 1797 images with grey values 0 to 16: embedded, so they need no files and no network."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, content
from normbench.data.examples import Split
from normbench.errors import NormbenchError

# the parts as data=digits has them by default, for the sets that are made of these
BOUNDS = {"valid": slice(0, 197), "train": slice(197, 1397), "test": slice(1397, 1797)}


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """The digits; inputs are grey values / 16. NormbenchError when scikit-learn's copy differs from the declared one.

    The first `valid` images are the validation part, the last `test` the test part, the rest the training part.
    `root` is not used: there are no files; nor is `seed`.
    """
    facts = config["declares"]
    images, labels = embedded()
    # A fixed byte order and type, so that the sum is the same on every machine.
    found = hashlib.sha256(images.astype("<f8").tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    content.check_made("the digits", found, facts["sha256"], "scikit-learn's images", "scikit-learn")
    inputs = torch.from_numpy((images / 16).astype(np.float32))
    targets = torch.from_numpy(labels.astype(np.int64))
    valid, test, rows = int(config["valid"]), int(config["test"]), len(targets)
    if valid < 1 or test < 1 or valid + test >= rows:
        raise NormbenchError(
            f"data.valid={valid} and data.test={test} are out of range: of {rows} images, some must stay to train on."
        )
    bounds = {"train": slice(valid, rows - test), "valid": slice(0, valid), "test": slice(rows - test, rows)}
    splits = {part: Split(inputs=inputs[rows], targets=targets[rows]) for part, rows in bounds.items()}
    return Dataset(str(config["name"]), splits)


def embedded() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 64) float64 and labels (1797,) int64 as scikit-learn's `load_digits(return_X_y=True)` gives them.

    Read from its file: the import of scikit-learn takes longer than many a run.
    """
    found = importlib.util.find_spec("sklearn")
    assert found is not None and found.origin is not None
    rows = np.loadtxt(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(np.int64)
