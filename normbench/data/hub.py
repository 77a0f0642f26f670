"""Rows of parquet files, and sets from a user's hub cache, which asks the network only if HF_HUB_OFFLINE=0 is set.

Everything is imported late: huggingface_hub and `datasets` take seconds.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from normbench.data import files
from normbench.errors import BadInput, NormbenchError

PARTS = ("train", "test")  # of a set, unless it declares others
MOST_SHOWN = 20  # of the values that were found in the place of classes
NAME = re.compile(r"[\w.-]+/[\w.-]+")  # OWNER/NAME; without an owner it could be one of `datasets`' own readers


def parts(config: Mapping[str, Any], root: Path) -> dict[str, list[Path]]:
    """The files of each part: the declared ones below `root`, or those at `data.source`.

    Declared ones may be missing; NormbenchError where the source is not here.
    """
    source, wanted = str(config.get("source", "")), config["declares"].get("parts", PARTS)
    if not source:
        paths = files.paths(config, root)
        return {part: [path for path in paths if path.name.startswith(part)] for part in wanted}
    folder = Path(source).expanduser()
    try:
        if folder.is_dir() or not NAME.fullmatch(source):
            files_of = {part: sorted(folder.rglob(f"{part}*.parquet"), key=files.by_number) for part in wanted}
        else:
            files_of = _of_the_hub(source, wanted)
    except Exception as error:  # not there, the network, a disk, a set of another form: of many types
        raise BadInput(f"data.source={source} cannot be loaded: {_line(error)}. {_otherwise(config)}") from error
    if not all(files_of.values()):
        raise BadInput(
            f"data.source={source} is not a folder that has parquet files whose names begin with "
            f"{' and '.join(wanted)}, nor OWNER/NAME of a set on the hub. {_otherwise(config)}"
        )
    return files_of


def _of_the_hub(name: str, wanted: Sequence[str]) -> dict[str, list[Path]]:
    """What `load_dataset` makes of the set, or has made of it for its user."""
    import datasets
    from huggingface_hub import constants

    # Set here, because another module may have imported the packages before, with another environment.
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = not online()
    constants.HF_HUB_DISABLE_TELEMETRY, datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = True, False
    datasets.disable_progress_bars()
    sets = datasets.load_dataset(name)
    return {part: [Path(file["filename"]) for file in sets[part].cache_files] for part in wanted}


def columns(paths: Sequence[Path], *names: str) -> dict[str, list[Any]]:
    """Columns of parquet or Arrow files as lists, rows in the order of the files; those named `NAME?` where there.

    NormbenchError where a file cannot be read or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists: dict[str, list[Any]] = {name.removesuffix("?"): [] for name in names}
    for path in paths:
        try:
            table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_stream(str(path)).read_all()
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{files.as_text(path)} cannot be read: {_line(error)}.") from error
        for name, rows in list(lists.items()):
            if name in table.column_names:
                rows += table[name].to_pylist()
            elif name not in names:
                del lists[name]
            else:
                raise BadInput(
                    f"{files.as_text(path)} lacks the column {name}; it has {', '.join(table.column_names)}. Bring the "
                    "set anew, or point NORMBENCH_DATA or data.source at another copy."
                )
    return lists


def check_labels(place: str, what: str, labels: Sequence[Any], count: int, number: int) -> None:
    """NormbenchError unless a column has so many labels, of the classes 0 to `number` - 1."""
    given, wanted = sorted(set(map(repr, labels))), sorted(map(repr, range(number)))
    if len(labels) != count or given != wanted:
        classes, expected = ", ".join(given[:MOST_SHOWN]), ", ".join(wanted)
        raise BadInput(
            f"{place} hold {len(labels)} {what} of classes {classes} instead of {count} of classes {expected}."
        )


def images(rows: Sequence[Any], what: str) -> Iterator[Any]:
    """The images of a column in the hub's layout, `{bytes, path}`, as Pillow's in RGB; a path is never opened."""
    from PIL import Image

    for place, row in enumerate(rows):
        try:
            yield Image.open(io.BytesIO(row["bytes"])).convert("RGB")
        except Exception as error:  # Pillow's for a broken, unknown or immense image, of many kinds; no bytes
            raise BadInput(f"{what} {place} cannot be decoded: {_line(error)}.") from error


def online() -> bool:
    """Whether the network may be asked: only where HF_HUB_OFFLINE says so."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("0", "OFF", "NO", "FALSE")


def refusal(config: Mapping[str, Any], rows: str, found: str, wanted: str) -> NormbenchError:
    """The error of `rows` (train reviews) that are not those declared, with the checksums of both contents."""
    where = f"data.source={config['source']}" if config.get("source") else files.title(config)
    return BadInput(
        f"{where} has other {rows} than data={config['name']} declares (sha256 of the content {found[:8]}… instead of "
        f"{wanted[:8]}…). {_otherwise(config)}"
    )


def _otherwise(config: Mapping[str, Any]) -> str:
    if bring := config["declares"].get("bring"):
        return f"Or leave data.source out, and bring it to NORMBENCH_DATA: {bring}."
    return f"Or leave data.source out and run: normbench data get {config['name']}"


def _line(error: BaseException) -> str:
    """The reason in one line: of an exception, of what caused it."""
    while error.__cause__:
        error = error.__cause__
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
