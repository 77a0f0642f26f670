"""MSCOCO captions in Karpathy's split, with image features that were extracted beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench import reading
from normbench.data import Dataset, captions, check, content, files
from normbench.data.examples import Split
from normbench.errors import NormbenchError

SPLITS = {"train": "train", "restval": "train", "val": "valid", "test": "test"}
JSON, FEATURES = "coco/dataset_coco.json", "coco/features.npy"


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Examples are images: `image` (N, 4096) float32 of length 1, and `captions`, ragged int64, 0 at the end of each.

    The first five captions of each image, their words as the split has them (`tokens`); a number for every word of the
    training and validation captions, 1 for any other (order-embedding's code). Validation is the first fold. `seed` is
    not used: the parts are fixed.
    Errors: a missing or damaged file, images without captions, other numbers of images than declared, features of
    another length or with NaN.
    """
    check(config, root)
    declares, name = config["declares"], str(config["name"])
    entries, features = images(root, int(declares["captions"])), _features(root, int(declares["features"]))
    if len(features) != len(entries):
        raise NormbenchError(
            f"{files.as_text(root / FEATURES)} has {len(features)} rows, {files.as_text(root / JSON)} {len(entries)} "
            "images: a row each, in its order. Extract the features anew."
        )
    rows: dict[str, list[int]] = {part: [] for part in ("train", "valid", "test")}
    for row, entry in enumerate(entries):
        rows[entry["split"]].append(row)
    for part, wanted in (declares["sizes"] | {"valid": int(config["fold"])}).items():
        # Of the validation images, of which the split has five folds, the others are left out.
        if len(rows[part]) < wanted or (part != "valid" and len(rows[part]) > wanted):
            raise NormbenchError(
                f"{files.as_text(root / JSON)} has {len(rows[part])} images for {part} instead of {wanted}: it is not "
                "Karpathy's split. Bring it anew."
            )
    rows["valid"] = rows["valid"][: int(config["fold"])]
    texts = {part: [entries[row]["captions"] for row in chosen] for part, chosen in rows.items()}
    vocabulary = (caption for part in ("train", "valid") for image in texts[part] for caption in image)
    numbers = captions.ranks(vocabulary, int(config["words"]), name)
    splits = {
        part: Split(
            image=captions.unit_rows(np.asarray(features[chosen]), files.as_text(root / FEATURES)),
            captions=captions.encode(texts[part], numbers),
            index=torch.tensor(chosen),
        )
        for part, chosen in rows.items()
    }
    sums = [files.digest(files.find(root, file), "sha256") for file in (JSON, FEATURES)]
    return Dataset(
        name, splits, copy={"sha256": content.checksum(sums), "deviations": []}, words=captions.words_by_number(numbers)
    )


def extract(
    config: Mapping[str, Any],
    root: Path,
    pictures: Path,
    weights: Path,
    device: str,
    progress: Callable[[int, int], None] = lambda done, all: None,
) -> Path:
    """Write the features of the split's images, which lie below `pictures`, by `weights` of VGG-19; returns their file.

    An interrupted call goes on. Errors: those of `images` and of `vgg.extract`; another process that does the same.
    """
    from normbench.data import vgg  # late: torchvision

    names = [entry["file"] for entry in images(root, int(config["declares"]["captions"]))]
    target = root / FEATURES
    with files.filling(target.parent, wait=0):
        vgg.extract(names, pictures, weights, target, torch.device(device), lambda done: progress(done, len(names)))
    return target


def images(root: Path, count: int) -> list[dict[str, Any]]:
    """Every image of the split in its order: `file`, part (`split`) and the words of its first `count` captions."""
    path = files.find(root, JSON)
    try:
        given = json.loads(content.text(path))["images"]
        found = [
            {
                "file": str(Path(image.get("filepath", ""), image["filename"])),
                "split": SPLITS[image["split"]],
                "captions": [list(map(str, sentence["tokens"])) for sentence in image["sentences"][:count]],
            }
            for image in given
        ]
    except FileNotFoundError:
        raise NormbenchError(f"{files.as_text(path)} is missing: Karpathy's split, which only you can bring.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NormbenchError(
            f"{files.as_text(path)} is not Karpathy's dataset_coco.json ({type(error).__name__}: {error}). Bring it "
            "anew."
        ) from None
    for image in found:
        if len(image["captions"]) < count:
            raise NormbenchError(
                f"{files.as_text(path)}: {image['file']} has {len(image['captions'])} captions instead of {count}."
            )
    return found


def _features(root: Path, length: int) -> np.ndarray:
    """Read as they are asked for: (images, length)."""
    path = files.find(root, FEATURES)
    try:
        found = np.lib.format.open_memmap(path, "r")
    except reading.NO_ARCHIVE as error:
        raise NormbenchError(f"{files.as_text(path)} is not a readable .npy file ({error}). Extract it anew.") from None
    if found.ndim != 2 or found.shape[1] != length or not np.issubdtype(found.dtype, np.floating):
        raise NormbenchError(
            f"{files.as_text(path)} has {found.dtype} of shape {found.shape}, not {length} floats an image. Extract it "
            "anew."
        )
    return found
