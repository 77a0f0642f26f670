"""MNIST: 784 grey values per image, from the four idx files, which torchvision reads."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench import scratch
from normbench.data import Dataset, check, files, vision
from normbench.data.examples import Split
from normbench.errors import NormbenchError


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """MNIST from the gzip files below `root`; inputs are grey values / 255. NormbenchError when one is damaged.

    The first `valid` training images are the validation part, the rest the training part, in the files' order,
    whatever the seed.
    """
    check(config, root)
    parts, notes = _parts(config, root)
    train, valid = parts["train"], int(config["valid"])
    if not 0 < valid < len(train):
        raise NormbenchError(
            f"data.valid={valid} is out of range: of {len(train)} training images, some must stay to train on."
        )
    # Slices of one tensor: the parts cannot overlap, and nothing is copied.
    rows = {"train": slice(valid, None), "valid": slice(valid)}
    splits = {name: Split(**{key: train[key][part] for key in train.tensors}) for name, part in rows.items()}
    splits["test"] = parts["test"]
    return Dataset(str(config["name"]), splits, notes)


def mirrors() -> list[str]:
    """The addresses, as torchvision knows them, below which the files are kept."""
    return list(vision.torchvision().datasets.MNIST.mirrors)


def cache_folder() -> Path:
    """Where unpacked files are kept."""
    return files.cache("mnist")


def _parts(config: Mapping[str, Any], root: Path) -> tuple[dict[str, Split], tuple[str, ...]]:
    """The train and test files as tensors, unpacked in the cache, or without one in a temporary folder and with a note.

    torchvision reads unpacked files only, and itself unpacks beside the source, which may be read-only.
    """
    try:
        return _read(config, root, cache_folder()), ()
    except OSError as error:
        trouble = f"{cache_folder()} cannot be used ({error.strerror or error})"
    try:
        with scratch.folder("normbench-mnist-") as folder:
            return _read(config, root, folder), (f"{trouble}; MNIST is unpacked anew for every process.",)
    except OSError as error:
        raise NormbenchError(
            f"MNIST cannot be unpacked: {trouble}, nor a temporary folder ({error.strerror or error}). "
            f"Set XDG_CACHE_HOME or TMPDIR to a folder with 60 MB of space."
        ) from error


def _read(config: Mapping[str, Any], root: Path, folder: Path) -> dict[str, Split]:
    reader = vision.torchvision().datasets.mnist
    facts = config["declares"]
    # The md5 in the name keeps two versions of a file apart.
    unpacked = {
        Path(name).stem: _unpacked(root / name, folder / f"{Path(name).stem}-{md5}")
        for name, md5 in files.declared(config).items()
    }
    parts = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        try:
            images = reader.read_image_file(str(unpacked[f"{stem}-images-idx3-ubyte"]))
            labels = reader.read_label_file(str(unpacked[f"{stem}-labels-idx1-ubyte"]))
            images = images.flatten(1)
            found = (len(images), len(labels), images.shape[1], int(labels.min()), int(labels.max()))
        except (AssertionError, IndexError, RuntimeError, TypeError, ValueError) as error:
            raise NormbenchError(f"MNIST's {part} files are not idx files: {error}") from error
        rows = int(facts["sizes"][part])
        wanted = (rows, rows, int(facts["features"]), 0, int(facts["classes"]) - 1)
        if found != wanted:
            raise NormbenchError(
                f"MNIST's {part} files hold (images, labels, pixels, lowest label, highest label) = {found} "
                f"instead of {wanted}."
            )
        parts[part] = Split(inputs=images.float().div_(255), targets=labels)
    return parts


def _unpacked(source: Path, target: Path) -> Path:
    """`target`, holding what the gzip file `source` unpacks to; kept when it does already. OSError, NormbenchError."""
    # A gzip file ends with the CRC-32 and the length of its content: enough to notice a damaged cache.
    with source.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        crc, length = (int.from_bytes(file.read(4), "little") for _ in range(2))
    if target.is_file() and target.stat().st_size == length and zlib.crc32(target.read_bytes()) == crc:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # A private name, then a rename: processes that do this at once all end with a whole file.
    try:
        with scratch.folder(f".{target.name}-", target.parent) as aside:
            with gzip.open(source) as packed, open(aside / target.name, "wb") as out:
                shutil.copyfileobj(packed, out, files.CHUNK)
            os.replace(aside / target.name, target)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise NormbenchError(f"{files.shown(source)} has the declared md5, but cannot be unpacked: {error}") from error
    return target
