"""A checkpoint, one file: the SHA-256 of all below it, progress as a line of JSON, tensors as safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench.runs import files

NAME = "checkpoint/state"  # in a run's directory


def write(path: Path, progress: Mapping[str, Any], tensors: bytes) -> None:
    line = json.dumps(dict(progress)).encode() + b"\n"
    path.parent.mkdir(exist_ok=True)
    with files.atomic(path) as file:
        file.write(_sha256(line, tensors) + b"\n")
        file.write(line)
        file.write(tensors)


def read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Progress and tensors. OSError, ValueError if it is damaged."""
    with open(path, "rb") as file:
        sha256, line, tensors = file.readline(), file.readline(), file.read()
    if sha256.strip() != _sha256(line, tensors):
        raise ValueError("its hash differs")
    return json.loads(line), tensors


def _sha256(line: bytes, tensors: bytes) -> bytes:
    digest = hashlib.sha256(line)
    digest.update(tensors)
    return digest.hexdigest().encode()
