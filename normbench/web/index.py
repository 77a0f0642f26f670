"""The runs below a results folder as the dashboard shows them: also queued ones, and what changed since.

    index = Index(Path("results"))
    index.refresh()
    heads = index.heads()                   # one RunRecord per id, records=()
    runs = index.load([heads[0].id])        # the same with their curves

Nothing is written below the results.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from normbench.launch import queue
from normbench.runs import store
from normbench.runs.record import RunRecord
from normbench.runs.table import Runs

QUEUE_SECONDS = 10.0  # between two questions to a batch system


class Index:
    """All runs below one results folder; its methods may be called from several threads."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._runs = Runs(results)
        self._lock = threading.RLock()
        self._waiting: dict[str, Mapping[str, Any]] = {}  # queued runs, by id
        self._asked = -math.inf  # when the batch system was
        self._queue_notes: list[str] = []

    def heads(self) -> Sequence[RunRecord]:
        """Every run without its records; its status may also be running, interrupted, queued, failed or damaged."""
        if not self._waiting:
            return self._runs.heads
        heads = self._runs.heads
        queued = queue.not_begun(self._waiting, (head.id for head in heads), self.results / "runs")
        return [
            *(replace(head, status=queue.state(head.status, head.id, self._waiting)) for head in heads),
            *(store.head(run, queue.WAITING) for run in queued),
        ]

    def notes(self) -> list[str]:
        """A line per pack that cannot be read, and per damaged copy of a run that is whole elsewhere."""
        return [*self._queue_notes, *self._runs.notes]

    @property
    def token(self) -> int:
        """What `changed_since` takes: now."""
        return self._runs.token

    def changed_since(self, token: int) -> tuple[int, list[str]]:
        """The token of now, and the ids of the runs that came, went, or have another state or more records."""
        with self._lock:
            return self._runs.changed_since(token)

    def source(self, run: str) -> Path | None:
        """The run's directory, or the pack it is in; None where there is no such run."""
        return self._runs.source(run)

    def refresh(self) -> bool:
        """Look what changed; True where something did."""
        with self._lock:
            queued = self._look_at_queue()
            return self._runs.refresh() or queued

    def _look_at_queue(self) -> bool:
        """Whether runs came into a batch system's queue or left it."""
        if time.monotonic() - self._asked < QUEUE_SECONDS:
            return False
        self._asked = time.monotonic()
        before = self._waiting.keys()
        self._waiting, self._queue_notes = queue.queued(self.results)
        if changed := before ^ self._waiting.keys():
            self._runs.mark(changed)
        return bool(changed)

    def load(self, ids: Iterable[str]) -> dict[str, RunRecord]:
        """These runs with their curves; one whose curve is damaged is so from now on. Unknown ids are left out."""
        with self._lock:
            ids = list(ids)
            queued = {head.id: head for head in self.heads() if head.status == queue.WAITING and head.id in ids}
            return queued | self._runs.load(ids)
