"""Finds the logs below the given paths, and gives each to its reader."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.errors import NormbenchError
from normbench.imports import ours, tables, tensorboard, wandb_file
from normbench.imports.log import LARGEST, Log
from normbench.runs import exported

# Of a file's name: the reader, the sources that it may be, and whether the folder names the run
KINDS: tuple[tuple[str, Callable[..., Any], tuple[str, ...], bool], ...] = (
    (r".*tfevents.*", tensorboard.read, ("tensorboard",), True),
    (r".*\.wandb", wandb_file.read, ("wandb",), True),
    (r"trainer_state\.json", tables.read_trainer_state, ("huggingface",), True),
    (r"metrics\.csv", tables.read_csv, ("lightning", "csv", "keras", "export"), True),
    (r".*\.[ct]sv(\.gz)?", tables.read_csv, ("csv", "keras", "lightning", "export"), False),
    (r".*\.parquet", tables.read_parquet, ("parquet", "neptune", "export"), False),
    (r"runs\.jsonl\.gz", ours.read_pack, ("pack",), True),
    (r".*\.(jsonl|ndjson)(\.gz)?", tables.read_lines, ("jsonl",), False),
)
SUFFIXES = re.compile(r"\.([ct]sv|parquet|jsonl|ndjson|log)(\.gz)?$")
NOT_RUN = re.compile(r"(^|/)(checkpoint-\d+|\d{9,}\.\d+)$")  # of Hugging Face, of hparams


def find(paths: Sequence[Path], source: str | None) -> list[Log]:
    """All logs of one source, in the order of their paths; the same file under two names is read once."""
    found: dict[str, Path] = {}
    for path in sorted((path for given in paths for path in _files(given)), key=Path.is_symlink):  # links last
        found.setdefault(os.path.realpath(path), path)
    logs_alone = [path for path in sorted(found.values()) if not exported.is_beside(path)]
    chosen = [(path, *kind) for path in logs_alone if (kind := _kind(path, source))]
    if not chosen:
        wanted = f" of source {source}" if source else ""
        raise NormbenchError(f"{paths[0]} has no log{wanted}. (normbench import --help)")
    base = Path(os.path.commonpath([os.path.abspath(p if p.is_dir() else p.parent) for p in paths]))
    logs = [log for path, read, kind, by_folder in chosen for log in _read(path, base, read, source or kind, by_folder)]
    kinds = Counter(log.source for log in logs)
    if len(kinds) > 1:
        counted = ", ".join(f"{kind} ({number})" for kind, number in kinds.most_common())
        raise NormbenchError(f"{paths[0]} has logs of several sources: {counted}. Name one with source: in the map.")
    return [*_longest_states(logs)] if "huggingface" in kinds else logs


def _files(given: Path) -> Iterator[Path]:
    if not given.exists():
        raise NormbenchError(f"{given} does not exist.")
    if not given.is_dir():
        yield given
        return
    for folder, folders, names in os.walk(given, followlinks=False):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))


def _kind(path: Path, source: str | None) -> tuple[Callable[..., Any], str | None, bool] | None:
    """The reader, the source where the name alone tells it, and whether the folder names the run."""
    for pattern, read, sources, by_folder in KINDS:
        named = re.fullmatch(pattern, path.name) and source in (None, *sources)
        if named and (read != ours.read_pack or is_pack(path)):
            return read, sources[0] if by_folder else None, by_folder
    return None


def is_pack(path: Path) -> bool:
    """Whether a file is one of our packs, by its first line."""
    try:
        with gzip.open(path) as file:
            return b"header_sha256" in file.readline(1 << 20)
    except (OSError, EOFError):
        return False


def _read(path: Path, base: Path, read: Callable[..., Any], source: str | None, by_folder: bool) -> list[Log]:
    content = reading.read(path, LARGEST)
    where = Path(os.path.relpath(path, base))
    name = where.parent.as_posix() if by_folder else SUFFIXES.sub("", where.as_posix())
    name = NOT_RUN.sub("", name)
    name = base.name if name in ("", ".") else name
    digest = hashlib.sha256(content).hexdigest()
    file = {"path": where.as_posix(), "sha256": digest, "bytes": len(content)}
    found = read(content, path, {"file": file, "path": name}, source)
    return found if isinstance(found, list) else [found]


def _longest_states(logs: Sequence[Log]) -> Iterator[Log]:
    """Of each run the longest trainer_state.json: those of its checkpoints are beginnings of it."""
    runs: dict[str, list[Log]] = defaultdict(list)
    for log in logs:
        runs[log.path].append(log)
    for path, own in runs.items():
        whole = max(own, key=lambda log: log.tables[0].num_rows)
        rows: list[Any] = whole.tables[0].to_pylist()
        for log in own:
            for row, of_whole in zip(log.tables[0].to_pylist(), rows, strict=False):
                if repr(row) != repr({name: of_whole.get(name) for name in row}):
                    raise NormbenchError(
                        f"{log.file['path']} is no beginning of {whole.file['path']}: two runs lie in {path}. Import "
                        "one, or move them apart."
                    )
        yield whole
