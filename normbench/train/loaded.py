"""Whether what a user's `load` gives has the shapes that its YAML declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from normbench.config.updates import train_size
from normbench.data import Dataset
from normbench.errors import BadInput


def check(data: Dataset, config: Mapping[str, Any]) -> None:
    """NormbenchError for another number of training examples, or inputs of another shape, than the YAML declares."""
    declares = config["data"]["declares"]
    place = f"{declares['file']}: load gives"
    examples, declared = len(data.splits["train"]), train_size(config)
    if examples != declared:
        raise BadInput(
            f"{place} {examples} training examples, declares.train_size is {declared}. Correct one of them: the number "
            "of updates follows from it."
        )
    key = "shape" if declares.get("shape") else "features"
    shape = declares.get("shape") or ([declares["features"]] if "features" in declares else [])
    if not shape or not all(isinstance(size, int) for size in shape):  # of any length
        return
    for name, split in data.splits.items():
        inputs = split.tensors.get("inputs")
        if isinstance(inputs, Tensor) and [*inputs.shape[1:]] != shape:
            raise BadInput(f"{place} {name} inputs of shape {tuple(inputs.shape)}, declares.{key} is {declares[key]}.")
