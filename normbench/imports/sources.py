"""Finds the logs below the given paths, and gives each to its reader."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from normbench.errors import BadInput
from normbench.files import reading
from normbench.imports import mlflow_store, sqlite_file, tables, tensorboard, wandb_file
from normbench.imports.log import LARGEST, Log, refuse

# Of a file's name: the reader, the sources that it may be, and whether the folder names the run
KINDS: tuple[tuple[str, Callable[..., Any], tuple[str, ...], bool], ...] = (
    (r".*tfevents.*", tensorboard.read, ("tensorboard",), True),
    (r".*\.wandb", wandb_file.read, ("wandb",), True),
    (r".*\.(db|sqlite3?)", sqlite_file.read, ("trackio", "mlflow"), False),
    (r"meta\.yaml", mlflow_store.read_files, ("mlflow",), True),
    (r"trainer_state\.json", tables.read_trainer_state, ("huggingface",), True),
    (r"metrics\.csv", tables.read_csv, ("lightning", "csv", "keras"), True),
    (r".*\.[ct]sv(\.gz)?", tables.read_csv, ("csv", "keras", "lightning"), False),
    (r".*\.parquet", tables.read_parquet, ("parquet",), False),
    (r".*\.(jsonl|ndjson)(\.gz)?", tables.read_lines, ("jsonl",), False),
)
TRACKIO_PRODUCTS = ("media", "artifacts", "traces")  # folders beside its stores
LONGEST_NAME = 500  # characters of a column or key
SUFFIXES = re.compile(r"\.([ct]sv|parquet|jsonl|ndjson|log|db|sqlite3?)(\.gz)?$")
# What the readers and their libraries raise for a file that is damaged, or means harm.
MALFORMED = (
    OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RuntimeError, struct.error,
    zlib.error,
)  # fmt: skip
NOT_RUN = re.compile(r"(^|/)(checkpoint-\d+|\d{9,}\.\d+)$")  # of Hugging Face, of hparams


def find(paths: Sequence[Path], source: str | None) -> list[Log]:
    """All logs of one source, in the order of their paths; the same file under two names is read once."""
    real_paths: dict[str, Path] = {}
    for path in sorted((path for given in paths for path in _files(given)), key=Path.is_symlink):  # links last
        real_paths.setdefault(os.path.realpath(path), path)
    chosen = [(path, *kind) for path in sorted(real_paths.values()) if (kind := _kind(path, source))]
    for path, *_ in chosen:
        _refuse_link_out(path, paths)
    if not chosen:
        wanted = f" of source {source}" if source else ""
        raise BadInput(f"{paths[0]} has no log{wanted}. (normbench import --help)")
    base = Path(os.path.commonpath([os.path.abspath(p if p.is_dir() else p.parent) for p in paths]))
    logs = []
    for path, read, source_by_name, by_folder in chosen:
        try:
            of_path = _logs(path, base, read, source or source_by_name, by_folder)
        except MALFORMED as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise refuse(path, f"cannot be read: {why:.200}") from None
        if not of_path and path in paths:
            raise refuse(path, "has no run of Trackio or MLflow.")
        logs += of_path
    if not any(log.tables for log in logs):
        notes = "; ".join(log.note for log in logs if log.note)
        raise BadInput(f"{paths[0]} has no log{f': {notes}' if notes else '. (normbench import --help)'}")
    kinds = Counter(log.source for log in logs)
    if len(kinds) > 1:
        counted = ", ".join(f"{kind} ({number})" for kind, number in kinds.most_common())
        raise BadInput(f"{paths[0]} has logs of several sources: {counted}. Name one with source: in the map.")
    return [*_longest_states(logs)] if "huggingface" in kinds else logs


def _files(given: Path) -> Iterator[Path]:
    if not given.exists():
        raise BadInput(f"{given} does not exist.")
    if not given.is_dir():
        yield given
        return
    for folder, folders, names in os.walk(given, followlinks=False):
        folders[:] = sorted(name for name in folders if not _is_product(Path(folder, name), folders, names))
        yield from (Path(folder, name) for name in sorted(names))


def _is_product(folder: Path, beside: Sequence[str], names: Sequence[str]) -> bool:
    """Whether these are files that runs of MLflow or Trackio produced, tables for example, and no logs."""
    of_mlflow = "mlruns" in folder.parts or ("meta.yaml" in names and "tags" in beside)
    of_trackio = any(name.endswith(".db") and f"{name[:-3]}.lock" in names for name in names)
    return (folder.name == "artifacts" and of_mlflow) or (folder.name in TRACKIO_PRODUCTS and of_trackio)


def _refuse_link_out(path: Path, paths: Sequence[Path]) -> None:
    """Somebody else's folder may link to any file of the reader's, of which an error or a pack would then tell."""
    target = os.path.realpath(path)
    inside = any(target.startswith(os.path.join(os.path.realpath(given), "")) for given in paths)
    if path.is_symlink() and path not in paths and not inside:
        raise refuse(path, "is a link to a file outside of the given folders: name that file itself.")


def _kind(path: Path, source: str | None) -> tuple[Callable[..., Any], str | None, bool] | None:
    """The reader, the source where the name alone tells it, and whether the folder names the run."""
    for pattern, read, sources, by_folder in KINDS:
        if re.fullmatch(pattern, path.name) and source in (None, *sources):
            return read, sources[0] if by_folder else None, by_folder
    return None


def _logs(path: Path, base: Path, read: Callable[..., Any], source: str | None, by_folder: bool) -> list[Log]:
    content = reading.read(path, LARGEST)
    where = Path(os.path.relpath(path, base))
    name = NOT_RUN.sub("", where.parent.as_posix() if by_folder else SUFFIXES.sub("", where.as_posix()))
    name = base.name if name in ("", ".") else name
    where.as_posix().encode()  # a name that is no UTF-8 cannot be written into a pack
    file = {"path": where.as_posix(), "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    read_logs = read(content, path, {"file": file, "path": name}, source)
    logs = read_logs if isinstance(read_logs, list) else [read_logs]
    names = [column for log in logs for table in log.tables for column in table.column_names]
    if longest := [column for column in names if len(column) > LONGEST_NAME]:
        raise refuse(path, f"the name {longest[0]:.40}... has {len(longest[0])} characters, more than {LONGEST_NAME}.")
    return logs


def _longest_states(logs: Sequence[Log]) -> Iterator[Log]:
    """Of each run the longest trainer_state.json: those of its checkpoints are beginnings of it."""
    runs: dict[str, list[Log]] = defaultdict(list)
    for log in logs:
        runs[log.path].append(log)
    for path, states in runs.items():
        longest = max(states, key=lambda log: log.tables[0].num_rows)
        for log in states:
            if log is not longest and not _is_beginning(log.tables[0], longest.tables[0]):
                raise BadInput(
                    f"{log.file['path']} is no beginning of {longest.file['path']}: two runs lie in {path}. Import "
                    "one, or move them apart."
                )
        yield longest


def _is_beginning(short: Any, long: Any) -> bool:
    """Whether the rows of a table are the first ones of another, which may have more columns. NaN equals itself."""
    names = short.column_names
    if not {*names} <= {*long.column_names}:
        return False
    return repr(short.to_pylist()) == repr(long.slice(0, short.num_rows).select(names).to_pylist())
