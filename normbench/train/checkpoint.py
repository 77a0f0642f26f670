"""Checkpoints in two slots: a torn or damaged one leaves the other. No pickle: safetensors and JSON."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor, nn

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files

SLOTS = ("a", "b")
HEAD = {"serial": int, "sha256": str, "progress": dict, "progress_sha256": str}
LARGEST, LARGEST_HEAD = 1 << 37, 1 << 20  # bytes of the tensors and of the JSON file


def save_slot(folder: Path, progress: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write the older slot: first the tensors, then the JSON file that holds their hash and makes them valid."""
    folder.mkdir(exist_ok=True)
    slot = min(SLOTS, key=lambda name: _serial(folder / f"{name}.json"))
    serial = 1 + max(_serial(folder / f"{name}.json") for name in SLOTS)
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
    files.atomic_write(folder / f"{slot}.safetensors", content)
    head = {
        "serial": serial,
        "sha256": hashlib.sha256(content).hexdigest(),
        "progress": dict(progress),
        "progress_sha256": _sha256(progress),
    }
    files.write_json(folder / f"{slot}.json", head)


def newest(
    folder: Path, take: Callable[[dict[str, Any], dict[str, Tensor]], object] = lambda progress, tensors: None
) -> tuple[dict[str, Any], dict[str, Tensor], list[str]] | None:
    """Progress and tensors of the newest intact slot, with a note for each slot that was skipped.

    `take`: called with them; its ValueError, for contents that do not fit, counts as damage. None without any slot.
    All slots damaged: NormbenchError; nothing is overwritten.
    """
    notes: list[str] = []
    # an unreadable head comes first, to be noted: it may have been the newest
    for slot in sorted(SLOTS, key=lambda name: -(_serial(folder / f"{name}.json") or math.inf)):
        path = folder / f"{slot}.json"
        if not os.path.lexists(path):
            continue
        try:
            head = _head(path)
            content = reading.read(folder / f"{slot}.safetensors", LARGEST)
            if hashlib.sha256(content).hexdigest() != head["sha256"]:
                raise ValueError("its hash differs")
            if _sha256(head["progress"]) != head["progress_sha256"]:
                raise ValueError("the hash of its progress differs")
            progress, tensors = head["progress"], load(content)
            take(progress, tensors)
            return progress, tensors, notes
        except (OSError, ValueError) as error:
            notes.append(f"checkpoint {slot} is damaged ({error})")
    if notes:
        raise NormbenchError(
            f"{folder}: {' and '.join(notes)}. Nothing was overwritten; delete this run's directory to start it anew.",
            code=4,
        )
    return None


def _head(path: Path) -> dict[str, Any]:
    """The JSON of a slot. Its floats need not be finite: a lowest value may be infinity."""
    try:
        head = json.loads(reading.read(path, LARGEST_HEAD))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(head, dict) or {key: type(value) for key, value in head.items()} != HEAD:
        raise ValueError(f"it does not have {', '.join(HEAD)}")
    return head


def _sha256(progress: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(progress), sort_keys=True).encode()).hexdigest()


def _serial(path: Path) -> int:
    try:
        return int(_head(path)["serial"])
    except (OSError, ValueError):
        return 0


def clear(folder: Path) -> None:
    """Remove all slots: heads first, so that no head remains without its tensors."""
    for suffix in ("json", "safetensors"):
        for slot in SLOTS:
            (folder / f"{slot}.{suffix}").unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def save_weights(path: Path, model: nn.Module) -> None:
    """All parameters and buffers of a model, byte-equal for equal values."""
    path.parent.mkdir(exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in sorted(model.state_dict().items())}
    files.atomic_write(path, save(tensors))
