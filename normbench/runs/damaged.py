"""What cannot be read of a stored run, and why, in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Damaged(Exception):
    """A run directory that cannot be read; the message is the reason, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(reason.split()))


class _Found(Protocol):
    @property
    def path(self) -> Path: ...
    @property
    def reason(self) -> str: ...


def left_out(run: _Found) -> str:
    """The line about a damaged run, of a record or a directory."""
    return f"{run.path} is damaged: {run.reason}. It is left out."


def why(error: Exception) -> str:
    """What is wrong, without the number that the system has for it."""
    return getattr(error, "strerror", "") or str(error)
