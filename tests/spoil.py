"""What can have become of a run directory, and the reason that is then told."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from normbench.runs import directory
from normbench.runs.run import FINISHED


def change(path: Path, **changes: Any) -> None:
    """Other words in a run.json."""
    content = json.loads((path / directory.NAME).read_text())
    if changes.get("status") in FINISHED:
        content.setdefault("files", directory.hashes(path))
    directory.write_json(path, content | changes)


def become(path: Path, make: Callable[[Path], object]) -> None:
    """Something else in the place of a run directory."""
    for inside in sorted(path.rglob("*"), reverse=True):
        inside.unlink()
    path.rmdir()
    make(path)


def forbid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be listed, also where the tests are root."""
    folder.mkdir()
    real = os.listdir

    def listdir(path: Any) -> Any:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _terabyte(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


PLACED: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a folder": lambda path: path.mkdir(),
    "a link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "a link to memory": lambda path: path.symlink_to("/proc/self/mem"),
    "a link to the terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a terabyte": _terabyte,
}


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: (path / "run.json").write_text(text)


def _curve(old: str, new: str) -> Callable[[Path], object]:
    return lambda p: (p / "curve.jsonl").write_text((p / "curve.jsonl").read_text().replace(old, new, 1))


# What is seen from run.json alone, so already when listing.
LISTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no run.json": (lambda p: (p / "run.json").unlink(), "run.json is missing"),
    "torn": (_text('{"schema": 1, "sta'), "run.json cannot be read"),
    "binary": (lambda p: (p / "run.json").write_bytes(bytes(range(256))), "run.json cannot be read"),
    "deep": (_text("[" * 10**6), "run.json cannot be read"),
    "huge number": (_text("9" * 10**5), "run.json cannot be read"),
    "list": (_text("[1]"), "has schema None"),
    "older schema": (lambda p: change(p, schema=4), "has schema 4, this version reads 5"),
    "newer schema": (lambda p: change(p, schema=6), "has schema 6, this version reads 5: update normbench"),
    "unknown status": (lambda p: change(p, status="finished"), "has no known status"),
    "no hash": (lambda p: change(p, curve_sha256=None), "has no known curve_sha256"),
    "file instead of a folder": (lambda p: become(p, lambda q: q.write_text("x")), "Not a directory"),
    "dangling link": (lambda p: become(p, lambda q: q.symlink_to("nowhere")), "it is a dangling link"),
}
# What shows when the run's curve is wanted.
READ: dict[str, tuple[Callable[[Path], object], str]] = {
    "no curve": (lambda p: (p / "curve.jsonl").unlink(), "curve.jsonl cannot be read: No such file"),
    "empty curve": (lambda p: (p / "curve.jsonl").write_text(""), "does not have the hash"),
    "a changed number": (_curve("0.5", "0.4"), "does not have the hash"),
    "cut": (lambda p: os.truncate(p / "curve.jsonl", 99), "does not have the hash"),
}
