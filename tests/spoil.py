"""What can have become of a run directory, and the reason that is then told."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from normbench.runs import files, seals, store


def status(path: Path, **changes: Any) -> None:
    """Other words in a status that fits its seal."""
    found = json.loads((path / "status.json").read_text())
    if changes.get("status") in store.FINISHED:
        found.setdefault("files", seals.of_run(path))
    files.write_json(path / "status.json", seals.sealed(found | changes))


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


# What is seen from the status file alone, so already when listing.
LISTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no status": (lambda p: (p / "status.json").unlink(), "status.json is missing"),
    "empty status": (lambda p: (p / "status.json").write_text(""), "status.json is not JSON"),
    "torn status": (lambda p: (p / "status.json").write_text('{"schema": 1, "sta'), "status.json is not JSON"),
    "binary status": (lambda p: (p / "status.json").write_bytes(bytes(range(256))), "status.json cannot be read"),
    "zeroed status": (lambda p: (p / "status.json").write_bytes(bytes(500)), "status.json is not JSON"),
    "huge status": (lambda p: (p / "status.json").write_text("[" * 10**6), "status.json is not JSON"),
    "huge number": (lambda p: (p / "status.json").write_text("9" * 10**5), "status.json is not"),
    "list as status": (lambda p: (p / "status.json").write_text("[1]"), "is not a JSON object"),
    "null status": (lambda p: (p / "status.json").write_text("null"), "is not a JSON object"),
    "older schema": (lambda p: status(p, schema=2), "has schema 2, this version reads 3"),
    "newer schema": (lambda p: status(p, schema=4), "has schema 4, this version reads 3: update normbench"),
    "schema as text": (lambda p: status(p, schema="1"), "has schema 1"),
    "unknown status": (lambda p: status(p, status="finished"), "has no known status: 'finished'"),
    "status of a wrong type": (lambda p: status(p, status=["done"]), "has no known status"),
    "epochs as text": (lambda p: status(p, epochs="2"), "says epochs='2'"),
    "no hash": (lambda p: status(p, curve_sha256=None), "says curve_sha256=None"),
    "no epochs": (lambda p: status(p, epochs=None), "says epochs=None"),
    "folder as status": (lambda p: become_folder(p / "status.json"), "cannot be read"),
    "pipe as status": (lambda p: become_pipe(p / "status.json"), "cannot be read: it is no regular file"),
    "endless status": (lambda p: become_large(p / "status.json"), "cannot be read: it is larger than 8 MiB"),
    "seconds beyond all": (lambda p: status(p, seconds=10**400), "a number in it is too large"),
    "steps beyond all": (lambda p: status(p, steps=10**400), "a number in it is too large"),
    "seconds that are no number": (
        lambda p: status(p, seconds=math.nan),
        "status.json is not JSON: it has the number NaN",
    ),
    "dangling status": (lambda p: ((p / "status.json").unlink(), (p / "status.json").symlink_to("x")), "it is a link"),
    "looping status": (
        lambda p: ((p / "status.json").unlink(), (p / "status.json").symlink_to("status.json")),
        "cannot be read",
    ),
    "file instead of a folder": (lambda p: become(p, lambda q: q.write_text("x")), "it is not a directory"),
    "dangling link": (lambda p: become(p, lambda q: q.symlink_to("nowhere")), "it is a dangling link"),
    "looping link": (lambda p: become(p, lambda q: q.symlink_to(q.name)), "it is a dangling link"),
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
        "curve.jsonl line 1 of 5 is not a record",
    ),
    "a step beyond all": (
        lambda p: (p / "curve.jsonl").write_text(
            (p / "curve.jsonl").read_text().replace('"step": 0', '"step": 1' + 400 * "0")
        ),
        "curve.jsonl line 1 of 5 is not a record",
    ),
    "pipe as environment": (
        lambda p: become_pipe(p / "environment.json"),
        "environment.json cannot be read: it is no regular file",
    ),
    "no environment": (lambda p: (p / "environment.json").unlink(), "environment.json cannot be read"),
    "binary environment": (
        lambda p: (p / "environment.json").write_bytes(b"\xff\xfe"),
        "environment.json cannot be read",
    ),
    "list as environment": (lambda p: (p / "environment.json").write_text("[]"), "is not a JSON object"),
}
