"""IMDB reviews: from a text file a review to one parquet file a part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench.data import archive
from normbench.data.prepare.parts import Wrong, write_parquet

ARCHIVE = "aclImdb_v1.tar.gz"
MEMBER = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")
# The archive unpacks to 100 000 reviews in 0.5 GB, with word counts.
LIMITS = archive.Limits(total=1_000_000_000, count=200_000)


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `imdb/plain_text/{train,test}-00000-of-00001.parquet` below `out`: columns text and label (1 positive).

    All negative reviews come first, each class by the number of its file.
    """
    import pyarrow as pa

    reviews: dict[str, dict[tuple[int, int], str]] = {part: {} for part in declares["sizes"]}
    for name, body in archive.members(sources / ARCHIVE, lambda name: bool(MEMBER.fullmatch(name)), LIMITS):
        match = MEMBER.fullmatch(name)
        assert match is not None  # `wanted` let it through
        part, sentiment, number, _ = match.groups()
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            raise Wrong(f"{name} is not UTF-8") from None
        key = (int(sentiment == "pos"), int(number))
        if key in reviews[part]:
            raise Wrong(f"{ARCHIVE} holds two reviews of the number of {name}")
        reviews[part][key] = text
    for part, rows in declares["sizes"].items():
        if len(reviews[part]) != rows:
            raise Wrong(f"{ARCHIVE} holds {len(reviews[part])} {part} reviews instead of {rows}")
        keys = sorted(reviews[part])
        columns: dict[str, list[Any]] = {
            "text": [reviews[part][key] for key in keys],
            "label": [label for label, _ in keys],
        }
        schema = pa.schema([("text", pa.string()), ("label", pa.int64())])
        write_parquet(out / "imdb" / "plain_text" / f"{part}-00000-of-00001.parquet", columns, schema)
