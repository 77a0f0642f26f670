"""Finished runs made up in a moment: directories and records as training leaves them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiny

from normbench.config.spec import Spec
from normbench.files import reading
from normbench.runs import directory as directories
from normbench.runs import files, pack
from normbench.runs.run import Run

ENVIRONMENT = {"torch": "2.9", "resumed": []}


def lines(epochs: int, value: float = 0.5) -> list[dict[str, Any]]:
    """A curve: a test record per epoch, and from the first on a running mean."""
    found = []
    for epoch in range(epochs + 1):
        place = {"epoch": epoch, "step": 6 * epoch, "nll": value / (epoch + 1)}
        found.append({**place, "split": "test", "mode": "eval"})
        found += [{**place, "split": "train", "mode": "running"}] if epoch else []
    return found


def record(spec: Spec, epochs: int | None = None, value: float = 0.5, **changes: Any) -> Run:
    epochs = spec.epochs if epochs is None else epochs
    fields: dict[str, Any] = dict(
        id=spec.id,
        seed=spec.seed,
        status="done",
        epochs=epochs,
        records=lines(epochs, value),
        environment=ENVIRONMENT,
        seconds=1.5,
        config=spec.stored_config(),
        **spec.labels(),
    )
    return Run(**(fields | changes))


def directory(root: Path, spec: Spec, status: str = "done", **changes: Any) -> Path:
    """A whole run directory; `changes` go into its run.json."""
    path = directories.place(root, spec)
    path.mkdir(parents=True)
    epochs = changes.get("epochs", spec.epochs)
    (path / "curve.jsonl").write_bytes(b"".join(files.line(r) for r in lines(epochs)))
    content = spec.content() | {"environment": ENVIRONMENT, "status": status, "step": spec.steps, "reason": ""}
    content |= {"curve_sha256": reading.sha256(path / "curve.jsonl"), "files": directories.hashes(path), **changes}
    directories.write_json(path, content)
    return path


def packed(lines: Sequence[str], **more: Any) -> bytes:
    """A pack whose header fits these lines, whatever they are; `more` goes into the header."""
    body = "".join(f"{line}\n" for line in lines).encode()
    header = {"schema": pack.SCHEMA, "runs": len(lines) // 2, "sha256": hashlib.sha256(body).hexdigest(), "began": {}}
    return gzip.compress(json.dumps(header | more).encode() + b"\n" + body)


def specs(count: int, *words: str) -> list[Spec]:
    return [tiny.spec(f"seed={seed}", *words) for seed in range(1, count + 1)]
