"""MNIST, and other sets of images in its format: the grey values of each, from four idx files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, check, content, files, vision
from normbench.data.examples import Split
from normbench.errors import NormbenchError


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """The images; inputs are grey values / 255. NormbenchError when a file is damaged, or not as declared.

    The first `valid` training images are the validation part, the rest the training part, in the files' order,
    whatever the seed.
    """
    check(config, root)
    paths = files.paths(config, root)
    train, test = _read(config, "train", *paths[:2]), _read(config, "test", *paths[2:])
    valid = int(config["valid"])
    if not 0 < valid < len(train):
        raise NormbenchError(
            f"data.valid={valid} is out of range: of {len(train)} training images, some must stay to train on."
        )
    # Slices of one tensor: the parts cannot overlap, and nothing is copied.
    rows = {"train": slice(valid, None), "valid": slice(valid)}
    splits = {name: Split(**{key: train[key][part] for key in train.tensors}) for name, part in rows.items()}
    return Dataset(str(config["name"]), {**splits, "test": test})


def mirrors() -> list[str]:
    """The addresses, as torchvision knows them, below which the files are kept."""
    return list(vision.torchvision().datasets.MNIST.mirrors)


def _read(config: Mapping[str, Any], part: str, *paths: Path) -> Split:
    """A part, from its files of images and of labels."""
    try:
        images, labels = (
            np.frombuffer(body, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)
            for shape, body in map(content.idx, paths)
        )
    except ValueError as error:  # a file of a user's own set, whose declared sum says nothing of its format
        raise NormbenchError(f"{' or '.join(map(files.as_text, paths))}: {error}.") from error
    facts = config["declares"]
    rows, pixels, classes = int(facts["sizes"][part]), int(facts["features"]), int(facts["classes"])
    sizes = (images.shape[:1], labels.shape, math.prod(images.shape[1:]))
    if sizes != ((rows,), (rows,), pixels) or labels.max() >= classes:
        raise NormbenchError(
            f"The {part} images in {files.as_text(paths[0])} are of {images.shape}, the labels in {paths[1].name} of "
            f"{labels.shape} up to {labels.max(initial=0)}, instead of {rows} images of {pixels} grey values in "
            f"{classes} classes."
        )
    inputs = torch.from_numpy(images.reshape(rows, pixels).astype(np.float32)).div_(255)
    return Split(inputs=inputs, targets=torch.from_numpy(labels.astype(np.int64)))
