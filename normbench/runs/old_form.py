"""Run directories of earlier versions, with config.yaml, environment.json and status.json in the place of run.json.

Whoever meets one converts it, under its lock; one that a process of an earlier version writes is read as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Mapping
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
    config = _config(folder, hashes.pop(CONFIG, ""))
    environment = _environment(folder, hashes.pop(ENVIRONMENT, ""))
    labels = {key: value for key, value in config.items() if key != "id"}
    content = {**labels, **status, "schema": run_file.SCHEMA, "environment": environment, "files": hashes}
    run_file.check(content)
    return content


def _status(folder: Path) -> dict[str, Any]:
    if not (folder / STATUS).exists():
        if (folder / "curve.jsonl").exists():
            raise Damaged(f"{STATUS} is missing")
        return {"status": "interrupted", "step": 0, "reason": "killed before it began"}
    try:
        status = reading.parse(_text(folder, STATUS))
    except ValueError as error:
        raise Damaged(f"{STATUS} is not JSON: {error}") from None
    if not isinstance(status, dict) or status.get("schema") != SCHEMA:
        raise Damaged(f"{STATUS} does not have schema {SCHEMA}")
    if not files.is_sealed(status):
        raise Damaged(f"{STATUS} was changed: it does not have its hash")
    return {key: value for key, value in status.items() if key != files.SEAL}


def _config(folder: Path, sha256: str) -> Mapping[str, Any]:
    if not (folder / CONFIG).exists() and not sha256:  # it failed before it began
        return {}
    text = _text(folder, CONFIG, sha256)
    try:
        content = reading.load_yaml(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise Damaged(f"{CONFIG} cannot be read: {why(error)}") from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise Damaged(f"{CONFIG} has no configuration")
    return content


def _environment(folder: Path, sha256: str) -> Any:
    if not (folder / ENVIRONMENT).exists() and not sha256:
        return {}
    try:
        return reading.parse(_text(folder, ENVIRONMENT, sha256))
    except ValueError as error:
        raise Damaged(f"{ENVIRONMENT} is not JSON: {error}") from None


def _text(folder: Path, name: str, sha256: str = "") -> str:
    try:
        content = reading.read(folder / name, run_file.LARGEST)
        if sha256 and hashlib.sha256(content).hexdigest() != sha256:
            raise Damaged(f"{name} does not have the hash that {STATUS} recorded")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Damaged(f"{name} cannot be read: {why(error)}") from None
