"""Rows of parquet files, and of sets of the hub that a user has, as `datasets` keeps them.

The network is asked for these only where HF_HUB_OFFLINE=0 is in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normbench.data import files
from normbench.errors import BadInput, NormbenchError

PARTS = ("train", "test")  # of a set, unless it declares others


def parts(config: Mapping[str, Any], root: Path) -> dict[str, list[Path]]:
    """The files of each part: the declared ones below `root`, which may be missing, or what is kept of `data.source`.

    That is what `datasets.load_dataset` takes: OWNER/NAME of a set on the hub, or a folder of parquet files.
    """
    source, names = str(config.get("source", "")), config["declares"].get("parts", PARTS)
    if not source:
        paths = files.paths(config, root)
        return {part: [path for path in paths if path.name.startswith(part)] for part in names}
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import datasets  # late: it takes seconds

    datasets.disable_progress_bars()
    try:
        sets = datasets.load_dataset(source)
        return {part: [Path(file["filename"]) for file in sets[part].cache_files] for part in names}
    except Exception as error:  # not there, the network, a disk, a set of another form: of many types
        raise refusal(config, f"cannot be loaded: {error}") from error


def columns(paths: Sequence[Path], *names: str) -> dict[str, list[Any]]:
    """All columns of parquet or Arrow files as lists, `names` among them, rows in the order of the files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_stream(str(path)).read_all() for path in paths
    ]
    lists: dict[str, list[Any]] = pa.concat_tables(tables).to_pydict()
    if lacking := set(names) - set(lists):
        raise BadInput(f"{files.as_text(paths[0])} lacks the column {', '.join(lacking)}; it has {', '.join(lists)}.")
    return lists


def refusal(config: Mapping[str, Any], why: str) -> NormbenchError:
    """The error of a `data.source` that cannot be used, and what can."""
    place = f"data.source={config['source']}" if config.get("source") else files.title(config)
    remedy = config["declares"].get("bring") or f"normbench data get {config['name']}"
    return BadInput(f"{place} {why}. Or leave data.source out, and bring the set to NORMBENCH_DATA: {remedy}.")
