"""What can have become of a run directory, and the reason that is then told."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from normbench.runs import run_file


def change(path: Path, **changes: Any) -> None:
    """Other words in a run.json that has its hash."""
    content = json.loads((path / run_file.NAME).read_text())
    if changes.get("status") in run_file.FINISHED:
        content.setdefault("files", run_file.hashes(path))
    run_file.write(path, content | changes)


def become(path: Path, make: Callable[[Path], object]) -> None:
    """Something else in the place of a run directory."""
    for inside in sorted(path.rglob("*"), reverse=True):
        inside.unlink()
    path.rmdir()
    make(path)


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def forbid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be listed, also where the tests are root."""
    folder.mkdir()
    real = os.listdir

    def listdir(path: Any) -> Any:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)


def become_pipe(path: Path) -> None:
    """Whoever opens it waits for a writer that never comes."""
    path.unlink()
    os.mkfifo(path)


def become_large(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


def digit(path: Path, part: str) -> None:
    """Another number in a part of run.json, without its hash."""
    content = json.loads((path / run_file.NAME).read_text())
    content[part]["changed"] = 1
    (path / run_file.NAME).write_text(json.dumps(content))


# What is seen from run.json alone, so already when listing.
LISTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no run.json": (lambda p: (p / "run.json").unlink(), "run.json is missing"),
    "torn": (lambda p: (p / "run.json").write_text('{"schema": 1, "sta'), "run.json is not JSON"),
    "binary": (lambda p: (p / "run.json").write_bytes(bytes(range(256))), "run.json cannot be read"),
    "zeroed": (lambda p: (p / "run.json").write_bytes(bytes(500)), "run.json is not JSON"),
    "deep": (lambda p: (p / "run.json").write_text("[" * 10**6), "run.json is not JSON"),
    "huge number": (lambda p: (p / "run.json").write_text("9" * 10**5), "run.json is not"),
    "list": (lambda p: (p / "run.json").write_text("[1]"), "is not a JSON object"),
    "older schema": (lambda p: change(p, schema=3), "has schema 3, this version reads 4"),
    "newer schema": (lambda p: change(p, schema=5), "has schema 5, this version reads 4: update normbench"),
    "schema as text": (lambda p: change(p, schema="1"), "has schema '1'"),
    "unknown status": (lambda p: change(p, status="finished"), "has no known status: 'finished'"),
    "status of a wrong type": (lambda p: change(p, status=["done"]), "has no known status"),
    "epochs as text": (lambda p: change(p, epochs="2"), "says epochs='2'"),
    "no hash": (lambda p: change(p, curve_sha256=None), "says curve_sha256=None"),
    "another configuration": (lambda p: digit(p, "config"), "was changed: config does not have its hash"),
    "another environment": (lambda p: digit(p, "environment"), "was changed: environment does not have its hash"),
    "axes as a list": (lambda p: change(p, axes=[1]), "says axes=[1]"),
    "an interpolation": (lambda p: change(p, config={"seed": "${oc.env:HOME}"}), "an interpolation"),
    "folder": (lambda p: become_folder(p / "run.json"), "cannot be read"),
    "pipe": (lambda p: become_pipe(p / "run.json"), "cannot be read: it is no regular file"),
    "endless": (lambda p: become_large(p / "run.json"), "cannot be read: it is larger than 8 MiB"),
    "seconds beyond all": (lambda p: change(p, seconds=10**400), "run.json is not JSON"),
    "seconds that are no number": (
        lambda p: change(p, seconds=math.nan),
        "run.json is not JSON",
    ),
    "link": (lambda p: ((p / "run.json").unlink(), (p / "run.json").symlink_to("x")), "it is a link"),
    "file instead of a folder": (lambda p: become(p, lambda q: q.write_text("x")), "it is not a directory"),
    "dangling link": (lambda p: become(p, lambda q: q.symlink_to("nowhere")), "it is a dangling link"),
}
# What shows when the run's curve is wanted.
READ: dict[str, tuple[Callable[[Path], object], str]] = {
    "no curve": (lambda p: (p / "curve.jsonl").unlink(), "curve.jsonl cannot be read: No such file"),
    "empty curve": (lambda p: (p / "curve.jsonl").write_text(""), "does not have the hash"),
    "a changed number": (
        lambda p: (p / "curve.jsonl").write_text((p / "curve.jsonl").read_text().replace("0.5", "0.4")),
        "not have the hash",
    ),
    "a torn last line": (
        lambda p: (p / "curve.jsonl").write_bytes((p / "curve.jsonl").read_bytes()[:-5]),
        "does not have the hash",
    ),
    "a corrupt middle line": (
        lambda p: (p / "curve.jsonl").write_text(
            (p / "curve.jsonl").read_text().replace('{"epoch": 1', '{"epoch": 1x')
        ),
        "curve.jsonl line 2 of 5 is not JSON",
    ),
    "a line that is no record": (
        lambda p: (p / "curve.jsonl").write_text((p / "curve.jsonl").read_text().replace('{"epoch": 1', '{"epok": 1')),
        "curve.jsonl line 2 of 5 is not a record",
    ),
    "deep nonsense": (
        lambda p: (p / "curve.jsonl").write_text("[" * 10**5 + "\n"),
        "curve.jsonl line 1 of 1 is not JSON",
    ),
    "binary curve": (lambda p: (p / "curve.jsonl").write_bytes(b"\xff\xfe\n"), "curve.jsonl line 1 of 1 is not JSON"),
    "folder as curve": (lambda p: become_folder(p / "curve.jsonl"), "cannot be read: Is a directory"),
    "pipe as curve": (lambda p: become_pipe(p / "curve.jsonl"), "cannot be read: it is no regular file"),
    "endless curve": (lambda p: become_large(p / "curve.jsonl"), "cannot be read: it is larger than 1024 MiB"),
    "a number beyond all": (
        lambda p: (p / "curve.jsonl").write_text((p / "curve.jsonl").read_text().replace("0.5", "1" + 400 * "0")),
        "curve.jsonl line 1 of 5 is not",
    ),
    "a step beyond all": (
        lambda p: (p / "curve.jsonl").write_text(
            (p / "curve.jsonl").read_text().replace('"step": 0', '"step": 1' + 400 * "0")
        ),
        "curve.jsonl line 1 of 5 is not",
    ),
}
