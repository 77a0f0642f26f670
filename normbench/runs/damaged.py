"""What cannot be read of a stored run, and why, in one line."""

from __future__ import annotations


class Damaged(Exception):
    """A run directory that cannot be read; the message is the reason, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(reason.split()))


def why(error: Exception) -> str:
    """What is wrong, without the number that the system has for it."""
    return getattr(error, "strerror", "") or str(error)
