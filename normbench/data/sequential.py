"""Images as sequences of their pixels, one after another: sequential MNIST, and its embedded stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normbench.core.streams import stream
from normbench.data import Dataset, files, images, made_of, smoke
from normbench.data.examples import Split
from normbench.errors import BadInput

Config = Mapping[str, Any]


def sequential_mnist(config: Config, root: Path, seed: int = 0) -> Dataset:
    """MNIST pixel by pixel (Le et al. 2015): `inputs` (N, T, 1), grey values / 255 row by row; `targets` (N,).

    `pool: 2` averages blocks of 2 x 2 pixels: T = 196. The last of the training images, as many as `sizes.valid`, are
    the validation part, as in the code of Cooijmans et al. 2016.
    """
    mnist = made_of(config)
    paths = files.paths(mnist, root)
    train, test = images.part(mnist, "train", *paths[:2]), images.part(mnist, "test", *paths[2:])
    first = len(train) - int(config["declares"]["sizes"]["valid"])
    rows = {"train": slice(first), "valid": slice(first, None)}
    parts = {name: Split(**{key: train[key][part] for key in train.tensors}) for name, part in rows.items()}
    return _sequences(config, {**parts, "test": test}, int(config["pool"]), seed)


def sequential_digits(config: Config, root: Path, seed: int = 0) -> Dataset:
    """scikit-learn's 8 x 8 digits pixel by pixel: `inputs` (N, 64, 1), grey values / 16; parts as `digits`' own."""
    sizes = config["declares"]["sizes"]
    parts = smoke.digits({**config, "valid": sizes["valid"], "test": sizes["test"]}, root).splits
    return _sequences(config, parts, 1, seed)


def _sequences(config: Config, parts: Mapping[str, Split], pool: int, seed: int) -> Dataset:
    pixels = {name: _pixels(part["inputs"], pool) for name, part in parts.items()}
    order = _order(config, pixels["train"].shape[1], seed)
    splits = {name: Split(inputs=pixels[name][:, order], targets=part["targets"]) for name, part in parts.items()}
    return Dataset(str(config["name"]), splits)


def _pixels(rows: Tensor, pool: int) -> Tensor:
    """(N, side^2) row by row as (N, (side / pool)^2, 1), each the mean of pool x pool pixels."""
    side = round(rows.shape[1] ** 0.5)
    blocks = rows.view(len(rows), side // pool, pool, side // pool, pool)
    return blocks.mean((2, 4)).view(len(rows), -1, 1)


def _order(config: Config, pixels: int, seed: int) -> Tensor:
    """The number of the pixel at each step, the same for all images; `permute` and `replacement` by the seed.

    With replacement a pixel is missing with probability (1 - 1/T)^T, about 1/e, and others come several times: the
    "permutation" of the code of Cooijmans et al. 2016.
    """
    permute, replacement = config["permute"], config["replacement"]
    if replacement and not permute:
        raise BadInput("data.replacement=true draws the order of the pixels: it needs data.permute=true.")
    draw = stream(seed, "pixel order")
    order = draw.integers(0, pixels, pixels) if replacement else draw.permutation(pixels)
    return torch.from_numpy(order if permute else np.arange(pixels))
