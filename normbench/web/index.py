"""The table of runs as the dashboard shows it: open to several threads.

index = Index(Path("results"))
index.refresh()
index.heads                     # one Run per id, records=()
index.load([index.heads[0].id])  # the same with their curves
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from normbench.runs.run import Run
from normbench.runs.table import Runs


class Index(Runs):
    """All runs below one results folder. Nothing is written there."""

    def __init__(self, results: Path) -> None:
        self.took = 0.0  # s of the last look
        self._looked = -math.inf  # when the runs were looked at
        self._lock = threading.RLock()
        super().__init__(results)

    def refresh(self, within: float = 0.0) -> bool:
        """Look what changed, unless the last look is less than `within` seconds ago; True where something did."""
        with self._lock:
            start = time.monotonic()
            if start - self._looked < within:
                return False
            changed = super().refresh()
            self._looked = time.monotonic()
            self.took = self._looked - start
            return changed

    def load(self, ids: Iterable[str]) -> dict[str, Run]:
        """These runs with their curves, as far as they have any; one whose curve is damaged is so from now on."""
        with self._lock:
            return super().load(ids)

    def ends(self, read: bool = True) -> dict[str, dict[str, float]]:
        """By id the last evaluation of each run."""
        with self._lock:
            return super().ends(read)

    def mark(self, changed: Iterable[str]) -> None:
        """These runs changed now."""
        with self._lock:
            super().mark(changed)

    def changed_since(self, token: int) -> tuple[int, list[str]]:
        """The token of now, and the ids of the runs that came, went, or have another state or more records."""
        with self._lock:
            return super().changed_since(token)
