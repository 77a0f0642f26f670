"""MNIST, binarized MNIST and CIFAR-10: readers, and what makes their files from the official ones.

`moments` and `standardized` are how networks read images: every value standardized over the training images.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.core.streams import stream
from normbench.data import Dataset, files, hub
from normbench.data.examples import Split
from normbench.errors import BadInput

Config = Mapping[str, Any]
CHUNK = 1000  # images at once: what lies between bytes and floats stays small


@dataclass(frozen=True)
class Moments:
    """Mean and deviation of each of the values of an image, (height, width, channels) each, float64.

    As scikit-learn's StandardScaler: the variance is biased, and a value that never varies is divided by 1.
    """

    mean: np.ndarray
    deviation: np.ndarray


def moments(images: np.ndarray) -> Moments:
    """Of images (N, height, width, channels) uint8; sums of whole numbers, so their order does not matter."""
    total, squares = (np.zeros(images.shape[1:], np.int64) for _ in range(2))
    for start in range(0, len(images), CHUNK):
        part = images[start : start + CHUNK].astype(np.uint32)
        total += part.sum(0, dtype=np.int64)
        squares += (part * part).sum(0, dtype=np.int64)
    n = len(images)
    # n squares - total^2 before the division: two large means that nearly agree would lose digits
    variance = (n * squares - total * total) / (n * n)
    deviation = np.sqrt(variance)
    return Moments(total / n, np.where(deviation > 0, deviation, 1.0))


def standardized(images: np.ndarray, targets: np.ndarray, rows: np.ndarray, by: Moments) -> Split:
    """(x - mean) / deviation of the chosen rows as float32, in the order of `rows`."""
    # Once for all rather than per batch: as fast at batch 25, and at batch 1 it takes half the time.
    inputs = torch.empty((len(rows), *images.shape[1:]))
    mean, scale = by.mean.astype(np.float32), (1 / by.deviation).astype(np.float32)
    out = inputs.numpy()
    for start in range(0, len(rows), CHUNK):
        part = out[start : start + CHUNK]
        np.subtract(images[rows[start : start + CHUNK]], mean, out=part)
        part *= scale
    chosen = torch.from_numpy(targets[rows].astype(np.int64))
    return Split(inputs=inputs, targets=chosen, index=torch.from_numpy(rows))


def random_parts(config: Config, count: int, tests: int, seed: int) -> dict[str, np.ndarray]:
    """Rows of `train`, `valid` and `test`, of `count` training rows and `tests` test rows, as the seed draws them.

    Of the training rows in an order that the seed draws, the first `held_out` are for validation and the rest for
    training; both use a `fraction` of theirs, its first ones, so that a smaller fraction is part of a larger one. The
    test rows are all used, in an order that the seed draws as well.
    """
    held, fraction = int(config["held_out"]), float(config["fraction"])
    rows = stream(seed, "subset").permutation(count)
    valid, train = (part[: round(len(part) * fraction)] for part in (rows[:held], rows[held:]))
    if not len(valid) or not len(train):
        raise BadInput(
            f"data.held_out={held} and data.fraction={fraction:g} are out of range: of {count} training rows, some "
            "must stay to train on and some to validate with."
        )
    return {"train": train, "valid": valid, "test": stream(seed, "test order").permutation(tests)}


# --- MNIST ------------------------------------------------------------------------------------------------------------


def mnist(config: Config, root: Path, seed: int = 0) -> Dataset:
    """MNIST, or another set of images in its format; inputs are grey values / 255.

    The first `valid` training images are the validation part, the rest the training part, in the files' order,
    whatever the seed. NormbenchError for files that are not as declared.
    """
    paths = files.paths(config, root)
    train, test = part(config, "train", *paths[:2]), part(config, "test", *paths[2:])
    valid = int(config["valid"])
    # Slices of one tensor: the parts cannot overlap, and nothing is copied.
    rows = {"train": slice(valid, None), "valid": slice(valid)}
    splits = {name: Split(**{key: train[key][part] for key in train.tensors}) for name, part in rows.items()}
    return Dataset(str(config["name"]), {**splits, "test": test})


def part(config: Config, name: str, *paths: Path) -> Split:
    """The part `train` or `test` of MNIST, from its files of images and of labels."""
    images, labels = map(idx, paths)
    facts = config["declares"]
    rows, pixels, classes = int(facts["sizes"][name]), int(facts["features"]), int(facts["classes"])
    sizes = (images.shape[:1], labels.shape, math.prod(images.shape[1:]))
    if sizes != ((rows,), (rows,), pixels) or labels.max() >= classes:
        raise BadInput(
            f"The {name} images in {files.as_text(paths[0])} are of {images.shape}, the labels in {paths[1].name} of "
            f"{labels.shape} up to {labels.max(initial=0)}, instead of {rows} images of {pixels} grey values in "
            f"{classes} classes."
        )
    inputs = torch.from_numpy(images.reshape(rows, pixels).astype(np.float32)).div_(255)
    return Split(inputs=inputs, targets=torch.from_numpy(labels.astype(np.int64)))


def idx(path: Path) -> np.ndarray:
    """The array in a file of MNIST's format: 0, 8 (for bytes), axes, lengths, values; whole numbers big-endian.

    NormbenchError for another file: of a user's own set, whose declared sum says nothing of the format.
    """
    body = files.unpacked(path)
    try:
        axes = np.frombuffer(body, ">u4", body[3], 4).tolist()
        return np.frombuffer(body, np.uint8, offset=4 + 4 * body[3]).reshape(axes)
    except (LookupError, ValueError) as error:
        raise BadInput(f"{files.as_text(path)} is no whole file of MNIST's format: {error}.") from error


def binarized_mnist(config: Config, root: Path, seed: int = 0) -> Dataset:
    """MNIST with every pixel black or white, drawn once by its grey value (Salakhutdinov and Murray 2008).

    `inputs` (N, 784) float32 of 0 and 1, in the files' order, whatever the seed; there are no labels. The files' order
    is not MNIST's. Test rows come sorted by digit: some of them are to be taken with a stride.
    """
    paths, width = files.paths(config, root), int(config["declares"]["features"])
    if paths[0].suffix == ".npz":
        with np.load(paths[0], allow_pickle=False) as arrays:
            bits = {part: np.unpackbits(arrays[part], axis=1, count=width) for part in config["declares"]["sizes"]}
    else:  # text of 0 and 1, a blank or the line end after each: read as bytes, not as numbers
        rows = {path.stem.rpartition("_")[2]: np.frombuffer(path.read_bytes(), np.uint8) for path in paths}
        bits = {part: digits.reshape(-1, 2 * width)[:, ::2] - ord("0") for part, digits in rows.items()}
    splits = {part: Split(inputs=torch.from_numpy(values.astype(np.float32))) for part, values in bits.items()}
    return Dataset(str(config["name"]), splits)


# --- CIFAR-10 ---------------------------------------------------------------------------------------------------------


def cifar10(config: Config, root: Path, seed: int = 0) -> Dataset:
    """CIFAR-10, 32 x 32 colour images of ten classes, from the parquet files below `root` or at `source`.

    Parts as `random_parts`. Every value is standardized by the mean and deviation of all training images. `copy` says
    whether images are approximate. NormbenchError for files that hold something else.
    """
    paths, batches = hub.parts(config, root), config["declares"]["batches"]
    arrays, notes = files.cached(config, [*paths["train"], *paths["test"]], batches, lambda: _decode(config, paths))
    copy = _copy(config, arrays)
    pixels, labels, test_labels = (arrays[name] for name in ("train_images", "train_labels", "test_labels"))
    rows = random_parts(config, len(labels), len(test_labels), seed)
    by = moments(pixels)
    splits = {part: standardized(pixels, labels, rows[part], by) for part in ("train", "valid")}
    splits["test"] = standardized(arrays["test_images"], test_labels, rows["test"], by)
    return Dataset(str(config["name"]), splits, (*notes, *copy["deviations"]), copy)


def _copy(config: Config, arrays: files.Arrays) -> dict[str, Any]:
    """Identifies the copy by its images, however they are packed: checksum, and deviations from the official set."""
    official = config["declares"]["batches"]
    approximate = {part: int((~arrays[f"{part}_exact"]).sum()) for part in hub.PARTS}
    total = sum(len(arrays[f"{part}_labels"]) for part in hub.PARTS)
    sums = dict(zip(official, arrays["sums"].tolist(), strict=True))
    deviations = []
    if sums != official and any(approximate.values()):
        counts = ", ".join(f"{count} {part}" for part, count in approximate.items())
        deviations.append(f"CIFAR-10: {sum(approximate.values())} of the {total} images are approximate ({counts})")
    elif sums != official:
        deviations.append("CIFAR-10: the images are not those of the official archive, or in another order")
    return {"sha256": files.checksum(sums), "deviations": deviations}


def _decode(config: Config, paths: Mapping[str, Sequence[Path]]) -> files.Arrays:
    """Images (N, 32, 32, 3) uint8, labels (N,) uint8 and `exact` (N,) of both parts; the sums of the official files.

    These sums are of records as in the official files, so that a copy of the same images in the same order has the
    published ones, however it is packed.
    """
    from PIL import Image

    facts = config["declares"]
    official = facts["batches"]
    arrays: files.Arrays = {}
    sums: dict[str, str] = {}
    for part in hub.PARTS:
        table = hub.columns(paths[part], "img", "label")
        count = len(table["label"])
        pixels = np.empty((count, *facts["shape"]), np.uint8)
        for place, row in enumerate(table["img"]):
            pixels[place] = Image.open(io.BytesIO(row["bytes"])).convert("RGB")
        labels = np.array(table["label"], np.uint8)
        exact = np.array(table.get("exact", [True] * count), bool)  # the hub's set has no approximate images
        names = [name for name in official if name.startswith("test") == (part == "test")]
        rows = np.array_split(np.arange(count), len(names))
        made = [_record_sum(labels[order], pixels[order]) for order in rows]
        published = [official[name] for name in names]
        if made != published and sorted(made) == sorted(published):
            # The hub has the official files one after another, but not by their numbers.
            order = np.concatenate([rows[made.index(wanted)] for wanted in published])
            pixels, labels, exact, made = pixels[order], labels[order], exact[order], published
        arrays |= {f"{part}_images": pixels, f"{part}_labels": labels, f"{part}_exact": exact}
        sums |= dict(zip(names, made, strict=True))
    if config.get("source") and files.checksum(sums) not in (files.checksum(official), facts["copy"]):
        raise hub.refusal(config, f"has other images than data={config['name']} declares")
    arrays["sums"] = np.array([sums[name] for name in official])
    return arrays


def _record_sum(labels: np.ndarray, pixels: np.ndarray) -> str:
    records = np.concatenate([labels[:, None], pixels.transpose(0, 3, 1, 2).reshape(len(labels), -1)], 1)
    return hashlib.sha256(records.tobytes()).hexdigest()
