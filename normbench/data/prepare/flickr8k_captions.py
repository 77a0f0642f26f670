"""Flickr8k's captions: one row an image with its split and its five captions, in the order of the token file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench.data.prepare.parts import write_parquet

CAPTIONS = 5


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `flickr8k_captions/captions.parquet` below `out`; an image in none of the lists has the split ""."""
    import pyarrow as pa

    captions: dict[str, dict[int, str]] = {}
    for line in _lines(sources / "Flickr8k.token.txt"):
        key, _, caption = line.partition("\t")
        image, _, place = key.partition("#")
        # One line of the official file has the broken name 2258277193_586949ec62.jpg.1.
        captions.setdefault(image.removesuffix(".1"), {})[int(place)] = caption
    splits = {
        image: split
        for split in ("train", "dev", "test")
        for image in _lines(sources / f"Flickr_8k.{split}Images.txt")
        if image
    }
    rows: dict[str, list[Any]] = {
        "image": list(captions),
        "split": [splits.get(image, "") for image in captions],
        "captions": [[found[place] for place in range(CAPTIONS)] for found in captions.values()],
    }
    schema = pa.schema([("image", pa.string()), ("split", pa.string()), ("captions", pa.list_(pa.string()))])
    write_parquet(out / "flickr8k_captions" / "captions.parquet", rows, schema)


def _lines(path: Path) -> list[str]:
    return [line.rstrip("\r") for line in path.read_bytes().decode("utf-8").split("\n") if line]
