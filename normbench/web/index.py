"""The table of runs as the dashboard shows it: with queued runs, and open to several threads.

index = Index(Path("results"))
index.refresh()
index.heads                     # one Run per id, records=()
index.load([index.heads[0].id])  # the same with their curves
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from normbench.launch import queue
from normbench.runs.run import Run
from normbench.runs.table import Runs

QUEUE_SECONDS = 10.0  # between two questions to a batch system


class Index(Runs):
    """All runs below one results folder; their status may also be queued. Nothing is written there."""

    def __init__(self, results: Path) -> None:
        self.took = 0.0  # s of the last look
        self._looked = self._asked = -math.inf  # when the runs were looked at, and the batch system was asked
        self._lock = threading.RLock()
        self._queue: tuple[dict[str, Mapping[str, Any]], list[str]] = {}, []  # queued runs by id, and notes
        super().__init__(results)

    def refresh(self, within: float = 0.0) -> bool:
        """Look what changed, unless the last look is less than `within` seconds ago; True where something did."""
        with self._lock:
            start = time.monotonic()
            if start - self._looked < within:
                return False
            before, changed = self._queue, super().refresh()
            if start - self._asked >= QUEUE_SECONDS:
                self._asked, self._queue = start, queue.queued(self.results)
                if self._queue != before:
                    self._choose(before[0].keys() ^ self._queue[0].keys())
                    changed = True
            self._looked = time.monotonic()
            self.took = self._looked - start
            return changed

    def load(self, ids: Iterable[str]) -> dict[str, Run]:
        """These runs with their curves, as far as they have any; one whose curve is damaged is so from now on."""
        with self._lock:
            ids = dict.fromkeys(ids)
            loaded = super().load(ids)
            shown = {head.id: head for head in self.heads if head.id in ids}
            queued = {run: head.status for run, head in shown.items() if head.status == queue.WAITING}
            return shown | {id_: replace(run, status=queued.get(id_, run.status)) for id_, run in loaded.items()}

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

    def _choose(self, changed: Iterable[str]) -> None:
        super()._choose(changed)
        waiting, notes = self._queue
        if not (waiting or notes):
            return
        begun = [replace(head, status=queue.state(head.status, head.id, waiting)) for head in self.heads]
        missing = queue.not_begun(waiting, self._chosen, self.results / "runs")
        self.heads = [*begun, *missing]
        self._notes = [*notes, *self._notes]
