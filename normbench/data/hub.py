"""The one place that imports Hugging Face's `datasets`: parquet files as its tables, and sets from a user's hub cache.

Imported late, since that takes seconds. It caches its tables below normbench's cache, by the files' checksums. It asks
the network only if the environment has HF_HUB_OFFLINE=0.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from normbench import scratch
from normbench.data import content, files
from normbench.errors import NormbenchError

PARTS = ("train", "test")  # of a set, unless it declares others
MOST_SHOWN = 20  # of the values that were found in the place of classes
NAME = re.compile(r"[\w.-]+/[\w.-]+")  # OWNER/NAME; without an owner it could be one of `datasets`' own readers


def parts(config: Mapping[str, Any], root: Path) -> dict[str, list[Path]]:
    """The files of each part: the declared ones below `root`, or those at `data.source`.

    Declared ones may be missing; NormbenchError where the source is not here.
    """
    source, wanted = str(config.get("source", "")), config["declares"].get("parts", PARTS)
    if not source:
        declared = {
            part: [name for name in files.declared(config) if Path(name).name.startswith(part)] for part in wanted
        }
        return {part: [files.find(root, name) for name in names] for part, names in declared.items()}
    folder = Path(source).expanduser()
    if folder.is_dir():
        if found := _laid_out(folder, wanted):
            return found
        layout = f"parquet files whose names begin with {' and '.join(wanted)}"
        raise NormbenchError(f"data.source={source} has no {layout}. {_otherwise(config)}")
    if not NAME.fullmatch(source):
        raise NormbenchError(
            f"data.source={source} is neither a folder nor a name of the hub (OWNER/NAME). {_otherwise(config)}"
        )
    from huggingface_hub import constants, snapshot_download

    if not online():
        # First the hub's own files, as `hf download` brings them, without `datasets`; then those of `load_dataset`.
        try:
            if found := _laid_out(Path(snapshot_download(source, repo_type="dataset", local_files_only=True)), wanted):
                return found
        except (OSError, ValueError):
            pass  # not there, or only other revisions
    try:
        sets = _datasets().load_dataset(source)
        return {part: [Path(file["filename"]) for file in sets[part].cache_files] for part in wanted}
    except Exception as error:  # not there, the network, a disk, a set of another form: of many types
        reason = f"cannot be had from the hub: {_line(error)}."
        if not online():
            reason = (
                f"is not in the hub's cache ({files.as_text(Path(constants.HF_HOME))}), and the network is not asked. "
                f"Bring it with: hf download --repo-type dataset {source}, or set HF_HUB_OFFLINE=0."
            )
        raise NormbenchError(f"data.source={source} {reason} {_otherwise(config)}") from error


def read(paths: Sequence[Path], names: Sequence[str], more: Sequence[str] = ()) -> Any:
    """The rows of parquet or Arrow files as a `datasets.Dataset` with the columns `names`, and `more` where there.

    NormbenchError where a file cannot be read or lacks a column.
    """
    had = [_columns(path) for path in paths]
    for path, columns in zip(paths, had, strict=True):
        if lacking := [name for name in names if name not in columns]:
            raise NormbenchError(
                f"{files.as_text(path)} lacks {', '.join(lacking)} of the columns {', '.join(names)}; it has "
                f"{', '.join(columns)}. Bring the set anew, or point NORMBENCH_DATA or data.source at another copy."
            )
    library = _datasets()
    sums = content.checksum([files.digest(path, "sha256") for path in paths])
    with _cache(sums[:32]) as (folder, in_memory):
        try:
            table = library.load_dataset(
                paths[0].suffix[1:],
                data_files=[glob.escape(str(path.absolute())) for path in paths],
                split="train",
                cache_dir=str(folder),
                keep_in_memory=in_memory,
            )
        except Exception as error:  # its own, pyarrow's, the disk's: of many kinds
            listing = " and ".join(files.as_text(path) for path in paths)
            # It may be the cache that is full and not the file that is damaged: datasets has no class for that.
            room = f" (it unpacks them in {folder}: is there room? XDG_CACHE_HOME moves that)"
            raise NormbenchError(
                f"{listing} cannot be read by datasets: {_line(error)}{room if isinstance(error, OSError) else ''}."
            ) from error
    further = [name for name in more if name not in names and all(name in columns for columns in had)]
    return table.select_columns([*names, *further])


def columns(paths: Path | Sequence[Path], names: Sequence[str]) -> dict[str, list[Any]]:
    """The columns of parquet files as lists, rows in the order of the files; NormbenchError as `read`."""
    found = read([paths] if isinstance(paths, Path) else paths, names).to_dict()
    return {name: found[name] for name in names}


def texts(paths: Sequence[Path], name: str) -> list[str]:
    """A column of texts, rows in the order of the files; NormbenchError as `read`, and for a row that is none."""
    found = columns(paths, (name,))[name]
    if (row := next((row for row, text in enumerate(found) if not isinstance(text, str)), None)) is not None:
        listing = " and ".join(files.as_text(path) for path in paths)
        raise NormbenchError(f"{listing}: {name} of row {row} is no text but {str(found[row])[:50]}.")
    return found


def classes(labels: Sequence[Any]) -> list[Any]:
    """The different values of a column in order; of many the first ones and ..."""
    found = sorted({repr(value): value for value in labels}.values(), key=str)
    return found if len(found) <= MOST_SHOWN else [*found[:MOST_SHOWN], ...]


def images(table: Any, name: str, what: str) -> Iterator[Any]:
    """A column's images in turn, as Pillow's in RGB; `what` is an image in the error line: CIFAR-10's test image."""
    library = _datasets()
    form = table.features[name]
    packed = table.data.table.column(name).combine_chunks()
    # Before `datasets` opens what a path without bytes names, be it a file or an address.
    if not isinstance(form, library.Image | dict) or "bytes" not in [field.name for field in packed.type]:
        raise NormbenchError(f"{what}s are no images: the column {name} is {_line(form)}.")
    if any(empty := packed.field("bytes").is_null().to_pylist()):
        raise NormbenchError(f"{what} {empty.index(True)} has no bytes.")
    place = 0
    try:
        for row in table.select_columns(name).cast_column(name, library.Image(mode="RGB")):
            yield row[name]
            place += 1
    except Exception as error:  # Pillow's for a broken, unknown or immense image, of many kinds
        raise NormbenchError(f"{what} {place} cannot be decoded: {_line(error)}") from error


def online() -> bool:
    """Whether the network may be asked: only where HF_HUB_OFFLINE says so."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("0", "OFF", "NO", "FALSE")


def refusal(config: Mapping[str, Any], rows: str, found: str, wanted: str) -> NormbenchError:
    """The error of `rows` (train reviews) that are not those declared, with the checksums of both contents."""
    if config.get("source"):
        return NormbenchError(
            f"data.source={config['source']} has other {rows} than data={config['name']} declares (sha256 of the "
            f"content {found[:8]}… instead of {wanted[:8]}…). {_otherwise(config)}"
        )
    return NormbenchError(
        f"{files.title(config)}'s {rows} are not the declared ones (sha256 of the content {found[:8]}… instead of "
        f"{wanted[:8]}…). Delete {files.as_text(files.cache('datasets'))} and run the command again."
    )


def _datasets() -> Any:
    """The package `datasets`, configured to be quiet, to send no telemetry, and to stay offline unless `online`."""
    from huggingface_hub import constants, utils

    # Set here as well as read from the environment by that package, because another module may have imported it first.
    constants.HF_HUB_OFFLINE = not online()
    constants.HF_HUB_DISABLE_TELEMETRY = True
    utils.disable_progress_bars()
    utils.logging.set_verbosity(utils.logging.CRITICAL)  # what is wrong is raised as well
    import datasets

    datasets.config.HF_HUB_OFFLINE = not online()
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    return datasets


@contextmanager
def _cache(name: str) -> Iterator[tuple[Path, bool]]:
    """A folder for `datasets`' files; if the cache is not writable a temporary one, and True: read into memory."""
    folder = files.cache("datasets") / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    if usable:
        yield folder, False
        return
    with scratch.folder("normbench-datasets-") as passing:
        yield passing, True


def _laid_out(folder: Path, parts: Sequence[str]) -> dict[str, list[Path]]:
    """The parquet files of these parts in or below a folder, in the order of their numbers; {} where one has none."""
    found = {part: sorted(folder.rglob(f"{part}*.parquet"), key=files.by_number) for part in parts}
    return found if all(found.values()) else {}


def _columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            return list(pq.read_schema(path).names)
        with pa.memory_map(str(path)) as file:
            return list(pa.ipc.open_stream(file).schema.names)
    except (pa.ArrowException, OSError) as error:
        raise NormbenchError(f"{files.as_text(path)} is no {path.suffix[1:]} file: {_line(error)}.") from error


def _otherwise(config: Mapping[str, Any]) -> str:
    if "bring" in config["declares"]:
        return f"Or leave data.source out, and bring it to NORMBENCH_DATA: {config['declares']['bring']}."
    return f"Or leave data.source out and run: normbench data get {config['name']}"


def _line(error: object) -> str:
    """The reason in one line: of an exception, of what caused it."""
    while isinstance(error, BaseException) and error.__cause__:
        error = error.__cause__
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
