"""Whether what a user's `load` gives is what its YAML declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from normbench.config.updates import train_size
from normbench.data import Dataset
from normbench.data.examples import Split
from normbench.errors import NormbenchError, kind


def check(found: Any, config: Mapping[str, Any]) -> None:
    """NormbenchError where what was loaded is no data set, or has other tensors than its YAML declares."""
    declares = config["data"]["declares"]
    place = f"{declares['file']}: load gives"
    if not isinstance(found, Dataset):
        raise NormbenchError(f"{place} {kind(found)}, not a normbench.extend.Dataset.")
    for name, split in found.splits.items():
        if not isinstance(split, Split):
            raise NormbenchError(f"{place} {kind(split)} as {name}, not a normbench.extend.Split.")
    if "train" not in found.splits:
        raise NormbenchError(f"{place} the splits {', '.join(found.splits)}. One must be called train.")
    examples, declared = len(found.splits["train"]), train_size(config)
    if examples != declared:
        raise NormbenchError(
            f"{place} {examples} training examples, declares.train_size is {declared}. Correct one of them: the number "
            "of updates follows from it."
        )
    shape = declares.get("shape") or ([declares["features"]] if "features" in declares else [])
    for name, split in found.splits.items():
        for key, tensor in split.tensors.items():
            if isinstance(tensor, Tensor) and tensor.dtype == torch.float64:
                raise NormbenchError(f"{place} {name} {key} in float64, models compute in float32: give {key}.float().")
        inputs = split.tensors.get("inputs")
        fixed = bool(shape) and all(isinstance(size, int) for size in shape)  # otherwise of any length
        if fixed and isinstance(inputs, Tensor) and [*inputs.shape[1:]] != shape:
            key = "shape" if "shape" in declares else "features"
            raise NormbenchError(
                f"{place} {name} inputs of shape {tuple(inputs.shape)}, declares.{key} is {declares[key]}."
            )
