"""CIFAR-10: 32 x 32 colour images of ten classes, from the hub's parquet files; the decoded images are cached."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, array_cache, check, content, files, hub, images, random_split
from normbench.data.array_cache import Arrays
from normbench.errors import NormbenchError


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """CIFAR-10 from the parquet files below `root` or at `source`; NormbenchError when one is missing or damaged.

    Parts as `random_split.parts`. Every value is standardized by the mean and deviation of all training images. `copy`
    says whether images are approximate.
    """
    check(config, root)
    paths = hub.parts(config, root)
    # The name has the files' checksums: each copy has a cache file of its own.
    sums: list[Any] = [files.digest(path, "sha256") for part in hub.PARTS for path in paths[part]]
    target = files.cache("cifar10") / f"{content.checksum([sums, config['declares']['sources']['batches']])[:32]}.npz"
    arrays, notes = array_cache.arrays(
        target, lambda: _decode(config, paths), "CIFAR-10 is decoded anew for every process."
    )
    copy = _copy(config, arrays)
    pixels, labels, test_labels = (arrays[name] for name in ("train_images", "train_labels", "test_labels"))
    rows = random_split.parts(config, len(labels), len(test_labels), seed, "images")
    by = images.moments(pixels)
    splits = {
        "train": images.standardized(pixels, labels, rows["train"], by),
        "valid": images.standardized(pixels, labels, rows["valid"], by),
        "test": images.standardized(arrays["test_images"], test_labels, rows["test"], by),
    }
    notes = (*notes, *copy["deviations"])
    return Dataset(str(config["name"]), splits, notes, copy)


def _copy(config: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Identifies the copy by its images, however they are packed: checksum, and deviations from the official set."""
    official = config["declares"]["sources"]["batches"]
    approximate = {part: int((~arrays[f"{part}_exact"]).sum()) for part in hub.PARTS}
    total = sum(len(arrays[f"{part}_labels"]) for part in hub.PARTS)
    found = dict(zip(official, arrays["sums"].tolist(), strict=True))
    deviations = []
    if found != official and any(approximate.values()):
        counts = ", ".join(f"{count} {part}" for part, count in approximate.items())
        deviations.append(f"CIFAR-10: {sum(approximate.values())} of the {total} images are approximate ({counts})")
    elif found != official:
        deviations.append("CIFAR-10: the images are not those of the official archive, or in another order")
    return {"sha256": content.checksum(found), "deviations": deviations}


def _decode(config: Mapping[str, Any], paths: Mapping[str, Sequence[Path]]) -> Arrays:
    """Images (N, 32, 32, 3) uint8, labels (N,) uint8 and `exact` (N,) of both parts; the sums of the official files.

    These sums are of records as in the official files, a byte of label and the red, green and blue values, so that a
    copy of the same images in the same order has the published ones, however it is packed.
    """
    facts, source = config["declares"], bool(config.get("source"))
    official, shape = facts["sources"]["batches"], tuple(facts["shape"])
    arrays: Arrays = {}
    sums: dict[str, str] = {}
    for part in hub.PARTS:
        # The hub's set has no approximate images, and so no column `exact`.
        names = ("img", "label") if source else ("img", "label", "exact")
        table = hub.read(paths[part], names, more=("exact",))
        labels_found = table.select_columns([name for name in table.column_names if name != "img"]).to_dict()
        found, wanted = len(table), facts["sizes"][part]
        classes = hub.classes(labels_found["label"])
        if found != wanted or classes != list(range(facts["classes"])):
            raise NormbenchError(
                f"CIFAR-10's {part} files hold {found} images of classes {classes} instead of {wanted} of "
                f"{facts['classes']} classes."
            )
        pixels = np.empty((found, *shape), np.uint8)
        for place, image in enumerate(hub.images(table, "img", f"CIFAR-10's {part} image")):
            if (size := (image.height, image.width, len(image.getbands()))) != shape:
                raise NormbenchError(f"CIFAR-10's {part} image {place} is of {size} instead of {shape}.")
            pixels[place] = image
        labels = np.array(labels_found["label"], np.uint8)
        exact = np.array(labels_found.get("exact", [True] * found), bool)
        batches = [name for name in official if name.startswith("test") == (part == "test")]
        rows = np.array_split(np.arange(found), len(batches))
        made = [_record_sum(labels[order], pixels[order]) for order in rows]
        published = [official[name] for name in batches]
        if source and made != published and sorted(made) == sorted(published):
            # The hub has the official files one after another, but not by their numbers.
            order = np.concatenate([rows[made.index(wanted)] for wanted in published])
            pixels, labels, exact, made = pixels[order], labels[order], exact[order], published
        arrays |= {f"{part}_images": pixels, f"{part}_labels": labels, f"{part}_exact": exact}
        sums |= dict(zip(batches, made, strict=True))
    found_sum, official_sum = content.checksum(sums), content.checksum(official)
    if source and found_sum not in (official_sum, facts["copy"]):
        raise hub.refusal(config, "images", found_sum, official_sum)
    arrays["sums"] = np.array([sums[name] for name in official])
    return arrays


def _record_sum(labels: np.ndarray, pixels: np.ndarray) -> str:
    records = np.concatenate([labels[:, None], pixels.transpose(0, 3, 1, 2).reshape(len(labels), -1)], 1)
    return hashlib.sha256(records.tobytes()).hexdigest()
