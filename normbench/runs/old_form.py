"""Run directories of earlier versions, with config.yaml, environment.json and status.json in the place of run.json.

The process that finds one converts it, under its lock; one that an earlier version is writing is only read.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files, lock, run_file
from normbench.runs.damaged import Damaged, why

SCHEMA = 3  # of status.json
STATUS, CONFIG, ENVIRONMENT = NAMES = ("status.json", "config.yaml", "environment.json")
_noted = False


def is_there(folder: Path) -> bool:
    """Whether a directory without run.json is of an earlier version."""
    return any((folder / name).exists() for name in (STATUS, CONFIG))


def read(folder: Path, convert: bool = True) -> dict[str, Any]:
    """The content of run.json that the old files give. `convert`: it is written where nobody holds the run.

    Raises Damaged.
    """
    if not convert:
        return _content(folder)
    with contextlib.suppress(OSError, NormbenchError), lock.held(folder):
        convert_held(folder)
        return run_file.read(folder)
    return _content(folder)


def convert_held(folder: Path) -> None:
    """Write run.json in the place of the old files; the caller holds the run's lock. Raises Damaged, OSError."""
    global _noted
    if not (folder / run_file.NAME).exists():
        if not is_there(folder):
            return
        run_file.write(folder, _content(folder))
        if not _noted:
            print("normbench: run directories of an earlier version now have a run.json", file=sys.stderr)
            _noted = True
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)


def _content(folder: Path) -> dict[str, Any]:
    status = _status(folder)
    hashes = status.pop("files", {})
    config = _read(folder, CONFIG, reading.load_yaml, hashes.pop(CONFIG, ""))
    environment = _read(folder, ENVIRONMENT, reading.parse, hashes.pop(ENVIRONMENT, ""))
    labels = {key: value for key, value in config.items() if key != "id"}
    content = {**labels, **status, "schema": run_file.SCHEMA, "environment": environment, "files": hashes}
    run_file.check(content)
    return content


def _status(folder: Path) -> dict[str, Any]:
    if not (folder / STATUS).exists():
        if (folder / "curve.jsonl").exists():
            raise Damaged(f"{STATUS} is missing")
        return {"status": "interrupted", "step": 0, "reason": "killed before it began"}
    status = _read(folder, STATUS, reading.parse)
    if status.get("schema") != SCHEMA or not files.is_sealed(status):
        raise Damaged(f"{STATUS} was changed: it does not have its hash and schema {SCHEMA}")
    return {key: value for key, value in status.items() if key != files.SEAL}


def _read(folder: Path, name: str, parse: Callable[[str], Any], sha256: str = "") -> dict[str, Any]:
    """What a file says; nothing where it is not there and has no recorded hash."""
    if not sha256 and not (folder / name).exists():
        return {}
    try:
        content = reading.read(folder / name, run_file.LARGEST)
        if sha256 and hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError(f"it does not have the hash that {STATUS} recorded")
        return dict(parse(content.decode()))
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise Damaged(f"{name} cannot be read: {why(error)}") from None
