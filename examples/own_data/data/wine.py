"""178 wines, each by 13 measurements; the classes are their cultivars."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_wine

from normbench.extend import Dataset, Split, stream


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """What normbench calls: `root` is the data folder, `seed` the run's, for a set that has no fixed parts."""
    rows, classes = load_wine(return_X_y=True)
    order = stream(seed, "wine").permutation(len(rows))
    valid, test = config["valid"], config["test"]
    parts = {"test": order[:test], "valid": order[test : test + valid], "train": order[test + valid :]}
    mean, deviation = rows[parts["train"]].mean(0), rows[parts["train"]].std(0)
    inputs = torch.from_numpy((rows - mean) / deviation).float()
    targets = torch.from_numpy(classes).long()
    return Dataset("wine", {name: Split(inputs=inputs[i], targets=targets[i]) for name, i in parts.items()})
