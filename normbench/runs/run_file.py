"""run.json: what a run is, where it was trained and how it stands, in one file with a hash of itself.

    {"schema": 4, "id": ..., "experiment", "arm", "fidelity", "control", "axes", "seed", "epochs", "steps",
     "status": ..., "step", "reason", "seconds", "began", "curve_sha256", "files": {NAME: SHA-256},
     "config": {...}, "config_sha256": ..., "environment": {...}, "environment_sha256": ..., "sha256": ...}

The holder of the run's lock alone writes it, whole. A finished run has the hashes of its curve and of all other files
that it left. Hashes find damage, not forgery: a deliberate change can come with a new hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.runs import files
from normbench.runs.damaged import Damaged, no_json, why
from normbench.runs.record import HIGHEST, check_config
from normbench.stored import LABELS

NAME = "run.json"
SCHEMA = 4
LARGEST = 8 << 20  # bytes
STATES = ("running", "done", "diverged", "failed", "interrupted")
FINISHED = ("done", "diverged")
FIELDS: dict[str, tuple[Any, Any]] = {  # type and default of what others rely on
    "id": (str, ""),
    **dict.fromkeys(LABELS, (str, "")),
    **dict.fromkeys(("axes", "config", "environment", "files"), (dict, {})),
    **dict.fromkeys(("seed", "epochs", "step", "steps"), (int, 0)),
    "seconds": ((int, float), 0.0),
    **dict.fromkeys(("reason", "began", "curve_sha256"), (str, "")),
}
NEEDED = {
    "id",
    *LABELS,
    "axes",
    "config",
    "environment",
    "seed",
    "epochs",
    "steps",
    "files",
    "curve_sha256",
}  # at its end
PARTS = ("config", "environment")  # that have a hash of their own
LEFT = ("timing.jsonl",)  # files beside the curve, and folders of files, that a run leaves
FOLDERS = ("weights", "outcomes", "samples")
_FILE = re.compile(rf"{'|'.join(map(re.escape, LEFT))}|({'|'.join(FOLDERS)})/[^/\0.][^/\0]*")


def read(folder: Path, convert: bool = True) -> dict[str, Any]:
    """What a run directory's run.json says, checked. Raises Damaged with the reason.

    convert: give a directory of an earlier version its run.json.
    """
    try:
        text = reading.read(f"{folder}/{NAME}", LARGEST).decode()
    except OSError as error:
        with contextlib.suppress(OSError):
            if not folder.is_dir():
                raise Damaged("it is not a directory" if folder.exists() else "it is a dangling link") from None
        if not isinstance(error, FileNotFoundError):
            raise Damaged(f"{NAME} cannot be read: {why(error)}") from error
        return _missing(folder, convert)
    except UnicodeDecodeError as error:
        raise Damaged(f"{NAME} cannot be read: {error}") from None
    try:
        content = reading.parse(text)
    except ValueError as error:
        raise Damaged(f"{NAME} is not JSON{no_json(error)}") from None
    if not isinstance(content, dict):
        raise Damaged(f"{NAME} is not a JSON object")
    schema = content.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        newer = ": update normbench" if type(schema) is int and schema > SCHEMA else ""
        raise Damaged(f"{NAME} has schema {schema!r:.40}, this version reads {SCHEMA}{newer}")
    if not files.is_sealed(content):
        changed = [part for part in PARTS if content.get(f"{part}_sha256") != files.seal(content.get(part))]
        raise Damaged(f"{NAME} was changed: {' and '.join(changed) or 'its content'} does not have its hash")
    check(content, text)
    return content


def _missing(folder: Path, convert: bool) -> dict[str, Any]:
    """The content of a directory without run.json: of an earlier version, or of a run that never began."""
    from normbench.runs import old_form

    try:
        if old_form.is_there(folder):
            return old_form.read(folder, convert)
        if (folder / "curve.jsonl").exists():
            raise Damaged(f"{NAME} is missing")
    except Damaged:
        if (folder / NAME).exists():  # another process has converted it meanwhile
            return read(folder, convert)
        raise
    return {"schema": SCHEMA, "status": "interrupted", "step": 0, "reason": "killed before it began"}


def check(content: Mapping[str, Any], text: str = "${") -> None:
    """Raises Damaged where a field has not the form that others rely on. `text`: as of `check_config`."""
    if content.get("status") not in STATES:
        raise Damaged(f"{NAME} has no known status: {content.get('status')!r:.40}")
    finished = content["status"] in FINISHED
    for key, (kind, default) in FIELDS.items():
        value = content.get(key, None if finished and key in NEEDED else default)
        count = isinstance(value, int | float)
        if not isinstance(value, kind) or isinstance(value, bool) or (count and not 0 <= value < HIGHEST):
            raise Damaged(f"{NAME} says {key}={value!r:.40}")
    if not all(isinstance(key, str) for key in content.get("axes", {})):
        raise Damaged(f"{NAME} says axes={content['axes']!r:.40}")
    for name, sha256 in content.get("files", {}).items():
        if not _FILE.fullmatch(name) or not isinstance(sha256, str):
            raise Damaged(f"{NAME} says files={content['files']!r:.40}")
    try:
        check_config(content.get("config", {}), text)
    except TypeError as error:
        raise Damaged(f"{NAME} {error}") from None


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """run.json anew, with its hashes. The caller holds the run's lock."""
    hashes = {f"{part}_sha256": files.seal(content[part]) for part in PARTS if part in content}
    sealed = files.sealed({"schema": SCHEMA, **content, **hashes})
    files.atomic_write(folder / NAME, (json.dumps(sealed, indent=1) + "\n").encode())  # options in their own order


def carried(content: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says whatever the run's status: all but the status, its hashes and its seal."""
    return {
        key: content[key]
        for key in ("id", *LABELS, "axes", "seed", "epochs", "steps", "began", *PARTS)
        if key in content
    }


def labels(content: Mapping[str, Any]) -> dict[str, Any]:
    """How the run is filed."""
    return {**{key: content.get(key, "") for key in LABELS}, "axes": content.get("axes", {})}


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that a run left, but for its curve, by its name below the directory."""
    return {name: _sha256(folder / name) for name in _names(folder)}


def differences(folder: Path, recorded: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each file of a finished run that does not have its recorded hash, and why.

    Samples that were drawn after the run's end have no hash; weights and outcomes without one are damage.
    """
    here = [name for name in _names(folder) if name in recorded or not name.startswith("samples/")]
    for name in sorted({*recorded, *here}):
        if name not in recorded:
            yield name, f"{NAME} has no hash of it"
            continue
        try:
            if _sha256(folder / name) != recorded[name]:
                yield name, f"it does not have the hash that {NAME} recorded"
        except FileNotFoundError:
            yield name, "it is missing"
        except OSError as error:
            yield name, f"it cannot be read: {error.strerror}"


def _names(folder: Path) -> list[str]:
    found = [name for name in LEFT if (folder / name).exists()]
    for inside in FOLDERS:
        if (folder / inside).is_dir():
            names = (entry.name for entry in os.scandir(folder / inside) if entry.is_file())
            found += sorted(f"{inside}/{name}" for name in names if not name.startswith("."))
    return found


def _sha256(path: Path) -> str:
    """OSError for what is no regular file."""
    with reading.opened(path) as file:
        # typeshed asks for `getbuffer`, which in-memory files alone have
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
