"""IMDB reviews: from a text file a review to one parquet file a part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench.data import archive
from normbench.data.prepare.parts import write_parquet

ARCHIVE = "aclImdb_v1.tar.gz"
MEMBER = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `imdb/plain_text/{train,test}-00000-of-00001.parquet` below `out`: columns text and label (1 positive).

    All negative reviews come first, each class by the number of its file.
    """
    import pyarrow as pa

    reviews: dict[str, dict[tuple[int, int], str]] = {part: {} for part in declares["sizes"]}
    for name, body in archive.members(sources / ARCHIVE, MEMBER.fullmatch):
        match = MEMBER.fullmatch(name)
        assert match is not None  # `wanted` let it through
        part, sentiment, number, _ = match.groups()
        reviews[part][int(sentiment == "pos"), int(number)] = body.decode("utf-8")
    for part, texts in reviews.items():
        keys = sorted(texts)
        columns: dict[str, list[Any]] = {
            "text": [texts[key] for key in keys],
            "label": [label for label, _ in keys],
        }
        schema = pa.schema([("text", pa.string()), ("label", pa.int64())])
        write_parquet(out / "imdb" / "plain_text" / f"{part}-00000-of-00001.parquet", columns, schema)
