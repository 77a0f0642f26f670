"""Arrays made from a set's files, cached on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from normbench import reading, scratch

Arrays = dict[str, np.ndarray]


def arrays(target: Path, make: Callable[[], Arrays], trouble: str) -> tuple[Arrays, tuple[str, ...]]:
    """The arrays of the file `target`; if there is none, those that `make` returns, which are then written there.

    The second value has a line for the user if writing failed: the reason, and `trouble`, its consequence.
    """
    try:
        # numpy checks the CRC-32 of every array as it reads.
        with np.load(target, allow_pickle=False) as cached:
            return dict(cached), ()
    except reading.NO_ARCHIVE:
        pass  # not there yet, or damaged
    made = make()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A private name, then a rename: processes that do this at once all end with a whole file.
        with scratch.folder(f".{target.name}-", target.parent) as aside:
            with open(aside / target.name, "wb") as out:
                np.savez(out, **made)  # type: ignore[arg-type]  # its stub takes the names for allow_pickle's
            os.replace(aside / target.name, target)
    except OSError as error:
        return made, (f"{target.parent} cannot be used ({error.strerror or error}); {trouble}",)
    return made, ()
