"""CIFAR-10: 32 x 32 colour images of ten classes, from the hub's parquet files, kept decoded in the cache."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, array_cache, check, content, files, images, random_split
from normbench.data.array_cache import Arrays
from normbench.errors import NormbenchError

PARTS = ("train", "test")


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """CIFAR-10 from the parquet files below `root`; NormbenchError when one is missing or damaged.

    Parts as `random_split.parts`. Every value is standardized by the mean and deviation of all training images, or with
    `scaler=train` of those trained on. `copy` tells a copy with approximate images from the official set.
    """
    check(config, root)
    # The files' sums in the name keep two copies apart.
    sums = [files.digest(root / name, "sha256") for name in files.declared(config)]
    target = files.cache("cifar10") / f"{content.checksum([sums, config['declares']['sources']['batches']])[:32]}.npz"
    arrays, notes = array_cache.arrays(
        target, lambda: _decoded(config, root), "CIFAR-10 is decoded anew for every process."
    )
    copy = _copy(config, arrays)
    pixels, labels, test_labels = (arrays[name] for name in ("train_images", "train_labels", "test_labels"))
    rows = random_split.parts(config, len(labels), len(test_labels), seed, "images")
    by = images.moments(pixels if config["scaler"] == "all" else pixels[rows["train"]])
    splits = {
        "train": images.standardized(pixels, labels, rows["train"], by),
        "valid": images.standardized(pixels, labels, rows["valid"], by),
        "test": images.standardized(arrays["test_images"], test_labels, rows["test"], by),
    }
    notes = (*notes, *copy["deviations"])
    return Dataset(str(config["name"]), splits, notes, copy)


def _copy(config: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Which copy this is, by its images and not by how they are packed: its sum, and where it is not the official."""
    official = config["declares"]["sources"]["batches"]
    approximate = {part: int((~arrays[f"{part}_exact"]).sum()) for part in PARTS}
    total = sum(len(arrays[f"{part}_labels"]) for part in PARTS)
    found = dict(zip(official, arrays["sums"].tolist(), strict=True))
    deviations = []
    if found != official and any(approximate.values()):
        counts = ", ".join(f"{count} {part}" for part, count in approximate.items())
        deviations.append(f"CIFAR-10: {sum(approximate.values())} of the {total} images are approximate ({counts})")
    elif found != official:
        deviations.append("CIFAR-10: the images are not those of the official archive, or in another order")
    return {"sha256": content.checksum(found), "deviations": deviations}


def _decoded(config: Mapping[str, Any], root: Path) -> Arrays:
    """Images (N, 32, 32, 3) uint8, labels (N,) uint8 and `exact` (N,) of both parts; the sums of the official files.

    These sums are of records as in the official files, a byte of label and the red, green and blue values, so that a
    copy of the same images in the same order has the published ones, however it is packed.
    """
    facts = config["declares"]
    shape = tuple(facts["shape"])
    arrays: Arrays = {}
    sums: dict[str, str] = {}
    for part in PARTS:
        paths = [root / name for name in files.declared(config) if Path(name).name.startswith(part)]
        rows = list(_rows(paths))
        found, wanted = len(rows), facts["sizes"][part]
        classes = sorted({label for _, label, _ in rows})
        if found != wanted or classes != list(range(facts["classes"])):
            raise NormbenchError(
                f"CIFAR-10's {part} files hold {found} images of classes {classes} instead of {wanted} of "
                f"{facts['classes']} classes."
            )
        pixels = np.empty((len(rows), *shape), np.uint8)
        for place, (body, _, _) in enumerate(rows):
            pixels[place] = _image(body, shape, f"CIFAR-10's {part} image {place}")
        arrays[f"{part}_images"] = pixels
        arrays[f"{part}_labels"] = labels = np.array([label for _, label, _ in rows], np.uint8)
        arrays[f"{part}_exact"] = np.array([exact for _, _, exact in rows], bool)
        names = [name for name in facts["sources"]["batches"] if name.startswith("test") == (part == "test")]
        records = np.concatenate([labels[:, None], pixels.transpose(0, 3, 1, 2).reshape(len(rows), -1)], 1)
        for name, batch in zip(names, np.array_split(records, len(names)), strict=True):
            sums[name] = hashlib.sha256(batch.tobytes()).hexdigest()
    arrays["sums"] = np.array([sums[name] for name in facts["sources"]["batches"]])
    return arrays


def _rows(paths: list[Path]) -> Iterator[tuple[bytes, int, bool]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            table = pq.read_table(path, columns=["img", "label", "exact"])
            rows = zip(table["img"].to_pylist(), table["label"].to_pylist(), table["exact"].to_pylist(), strict=True)
            yield from ((bytes(image["bytes"]), int(label), bool(exact)) for image, label, exact in rows)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise NormbenchError(
                f"{files.shown(path)} has the declared checksum, but not the columns img, label, exact: {error}"
            ) from error


def _image(body: bytes, shape: tuple[int, ...], name: str) -> np.ndarray:
    from PIL import Image

    try:
        pixels = np.asarray(Image.open(io.BytesIO(body)).convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for a broken or unknown image
        raise NormbenchError(f"{name} cannot be decoded: {error}") from error
    if pixels.shape != shape:
        raise NormbenchError(f"{name} is of {pixels.shape} instead of {shape}.")
    return pixels
