"""A checkpoint's two slots: a damaged one leaves the other. Tensors in safetensors, progress in JSON; no pickle.

The JSON file is written last: it has the hash of the tensors and makes them valid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.runs import files

SLOTS = ("a", "b")
HEAD = {"serial": int, "sha256": str, "progress": dict, "progress_sha256": str}
LARGEST, LARGEST_HEAD = 1 << 37, 1 << 20  # bytes of the tensors and of the JSON file


def write(folder: Path, progress: Mapping[str, Any], tensors: bytes) -> None:
    """Write the older slot."""
    folder.mkdir(exist_ok=True)
    slot = min(SLOTS, key=lambda name: serial(folder / f"{name}.json"))
    files.atomic_write(folder / f"{slot}.safetensors", tensors)
    head = {
        "serial": 1 + max(serial(folder / f"{name}.json") for name in SLOTS),
        "sha256": hashlib.sha256(tensors).hexdigest(),
        "progress": dict(progress),
        "progress_sha256": _sha256(progress),
    }
    files.write_json(folder / f"{slot}.json", head)


def read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Progress and tensors of the slot with the head at `path`. OSError, ValueError if it is damaged."""
    head = _head(path)
    tensors = reading.read(path.with_suffix(".safetensors"), LARGEST)
    if hashlib.sha256(tensors).hexdigest() != head["sha256"]:
        raise ValueError("its hash differs")
    if _sha256(head["progress"]) != head["progress_sha256"]:
        raise ValueError("the hash of its progress differs")
    return head["progress"], tensors


def serial(path: Path) -> int:
    """The number of a slot's head, 0 for one that cannot be read."""
    try:
        return int(_head(path)["serial"])
    except (OSError, ValueError):
        return 0


def _head(path: Path) -> dict[str, Any]:
    """Its floats need not be finite: a lowest value may be infinity."""
    try:
        head = json.loads(reading.read(path, LARGEST_HEAD))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(head, dict) or {key: type(value) for key, value in head.items()} != HEAD:
        raise ValueError(f"it does not have {', '.join(HEAD)}")
    return head


def _sha256(progress: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(progress), sort_keys=True).encode()).hexdigest()


def clear(folder: Path) -> None:
    """Remove all slots: heads first, so that no head remains without its tensors."""
    for suffix in ("json", "safetensors"):
        for slot in SLOTS:
            (folder / f"{slot}.{suffix}").unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
