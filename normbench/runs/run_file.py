"""run.json: what a run is, where it was trained and how it stands, in one file.

    {"schema": 4, "id": ..., "experiment", "arm", "fidelity", "control", "axes", "seed", "epochs", "steps",
     "status": ..., "step", "reason", "seconds", "began", "curve_sha256", "files": {NAME: SHA-256},
     "config": {...}, "environment": {...}}

The holder of the run's lock alone writes it, whole. A finished run has the hashes of its curve and of all other files
that it left. Hashes find damage, not forgery: a deliberate change can come with a new hash. Files of older versions
have hashes of themselves and of their parts as well, which are ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from normbench import reading
from normbench.runs import files
from normbench.runs.damaged import Damaged, why
from normbench.stored import LABELS

NAME = "run.json"
SCHEMA = 4
STATES = ("running", "done", "diverged", "failed", "interrupted")
FINISHED = ("done", "diverged")
KINDS: dict[str, Any] = {  # what others rely on
    **dict.fromkeys(("id", *LABELS, "reason", "began", "curve_sha256"), str),
    **dict.fromkeys(("axes", "config", "environment", "files"), dict),
    **dict.fromkeys(("seed", "epochs", "steps", "step"), int),
    "seconds": (int, float),
}
NEEDED = KINDS.keys() - {"reason", "began", "step", "seconds"}  # of a finished run
LEFT = ("timing.jsonl",)  # files beside the curve, and folders of files, that a run leaves
FOLDERS = ("weights", "outcomes", "samples")


def read(folder: Path) -> dict[str, Any]:
    """What a run directory's run.json says, checked, or that the run never began. Raises Damaged with the reason."""
    try:
        content = orjson.loads(Path(folder, NAME).read_bytes())
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise Damaged("it is a dangling link") from None
        if os.path.exists(f"{folder}/curve.jsonl"):
            raise Damaged(f"{NAME} is missing") from None
        return {"schema": SCHEMA, "status": "interrupted", "step": 0, "reason": "killed before it began"}
    except (OSError, ValueError) as error:
        raise Damaged(f"{NAME} cannot be read: {why(error)}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else None
        newer = ": update normbench" if isinstance(schema, int) and schema > SCHEMA else ""
        raise Damaged(f"{NAME} has schema {schema!r:.40}, this version reads {SCHEMA}{newer}")
    check(content)
    return content


def check(content: Mapping[str, Any]) -> None:
    """Raises Damaged where a field has not the form that others rely on."""
    wrong = {key for key in KINDS.keys() & content.keys() if not isinstance(content[key], KINDS[key])}
    wrong |= {"status"} if content.get("status") not in STATES else set()
    wrong |= NEEDED - content.keys() if content.get("status") in FINISHED else set()
    if wrong:
        raise Damaged(f"{NAME} has no known {', '.join(sorted(wrong))}")


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """run.json anew. The caller holds the run's lock."""
    text = json.dumps({"schema": SCHEMA, **content}, indent=1)  # options in their own order
    files.atomic_write(folder / NAME, (text + "\n").encode())


def carried(content: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says whatever the run's status: all but the status and the hashes."""
    keys = ("id", *LABELS, "axes", "seed", "epochs", "steps", "began", "config", "environment")
    return {key: content[key] for key in keys if key in content}


def labels(content: Mapping[str, Any]) -> dict[str, Any]:
    """How the run is filed."""
    return {**{key: content.get(key, "") for key in LABELS}, "axes": content.get("axes", {})}


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that a run left, but for its curve, by its name below the directory."""
    return {name: reading.sha256(folder / name) for name in _names(folder)}


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
            if reading.sha256(folder / name) != recorded[name]:
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
