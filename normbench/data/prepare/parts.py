"""Shared by the `prepare` modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Wrong(Exception):
    """Why a source cannot be turned into the final layout, to be read after a colon."""


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]], schema: Any, row_group: int = 5000) -> None:
    """The columns as a zstd-packed parquet file; `schema` is a pyarrow schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns), schema=schema), path, row_group_size=row_group, compression="zstd")
