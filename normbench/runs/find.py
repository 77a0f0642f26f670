"""Which planned runs exist: in the raw store, or in a published pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.runs import pack, store
from normbench.runs.damaged import Damaged, left_out
from normbench.runs.record import RunRecord
from normbench.runs.store import Wanted

Later = Callable[[], RunRecord]  # reads a published run


@dataclass
class Found:
    """Finished runs by id and length, under the labels of what was wanted; the raw store's directories of these ids,
    the damaged ones.

    Beside them the folders that cannot be listed: what is looked for may be in there.
    """

    wanted: Sequence[Wanted] = ()
    records: dict[tuple[str, int], RunRecord | Later] = field(default_factory=dict)
    stored: dict[str, store.Stored] = field(default_factory=dict)
    damaged: list[store.Stored] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    published: set[tuple[str, int]] = field(default_factory=set)  # those of the records that a pack has

    @property
    def runs(self) -> list[RunRecord]:
        return [self._read(key) for key in self.records]

    def of(self, run: Wanted) -> RunRecord | None:
        """The finished run that is wanted, cut to its length."""
        return self._read(key) if (key := (run.id, run.steps)) in self.records else None

    def has(self, run: Wanted) -> bool:
        return (run.id, run.steps) in self.records

    def _read(self, key: tuple[str, int]) -> RunRecord:
        if not isinstance(record := self.records[key], RunRecord):
            self.records[key] = record = record()
        return record

    def state(self, run: Wanted) -> str:
        """done, diverged, running, interrupted, failed, damaged or missing."""
        if self.has(run):
            record = self.records[run.id, run.steps]
            return record.status if isinstance(record, RunRecord) else "done"
        state = self.stored[run.id].state if run.id in self.stored else "missing"
        return "missing" if state in store.FINISHED else state  # finished, but otherwise than asked for

    def retrained(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """Those whose stored run does not serve and cannot be continued: trained anew, the old directory is kept."""
        return [
            run
            for run in wanted
            if not self.has(run)
            and (stored := self.stored.get(run.id))
            and not stored.reason
            and stored.state != "running"
            and not store.can_become(stored.content, stored.path, run)
        ]


def find(wanted: Sequence[Wanted], results: Path, others: Sequence[Path] = ()) -> Found:
    """Look runs up by id below `results`: packs first, then the raw store.

    others: further results folders, from which runs are taken whose configuration gives their id here; nothing is
    written there.
    """
    found = _find(wanted, results)
    for folder in others:
        there = _find([run for run in wanted if not found.has(run)], folder)
        found.notes += there.notes
        found.notes += map(left_out, there.damaged)
        for run in there.wanted:
            if record := there.of(run):
                if run.is_of(record.config):
                    found.records[run.id, run.steps] = record
                else:
                    found.notes.append(f"{folder}: run {run.id} has another id in this version: left out")
    return found


def _find(wanted: Sequence[Wanted], results: Path) -> Found:
    found = Found(wanted)
    ids = {run.id for run in wanted}
    packed, found.notes = in_packs(results, ids)
    published = {run.id: run for run in packed}
    listed = store.directories(results / "runs", ids)
    found.damaged = [stored for stored in listed if stored.reason]
    for stored in store.by_id(ids, listed):
        found.damaged += [stored] if stored.reason else []
        found.stored[stored.id] = stored
    for run in wanted:
        head = published.get(run.id)
        if (head is None or not _from_pack(found, run, head)) and run.id in found.stored:
            _from_store(found, run)
    return found


def in_packs(results: Path, ids: Set[str] | None = None) -> tuple[list[pack.Packed], list[str]]:
    """The published runs below `results`, or those with these ids, one per id; lines about unreadable packs."""
    packed: list[pack.Packed] = []
    notes = []
    for path in pack.paths(results):
        try:
            packed += pack.heads(path, ids)
        except NormbenchError as error:  # of some artifact, whose publication this stops
            notes.append(str(error))
    return pack.one_each(packed), notes


def _from_pack(found: Found, wanted: Wanted, packed: pack.Packed) -> bool:
    """Whether a published run is the one that is wanted, which is then found."""
    if not wanted.accepts(packed.head.config):
        return False
    key = wanted.id, wanted.steps
    if packed.head.status == "done" and packed.head.steps == wanted.steps:
        found.records[key] = lambda: relabel(packed.whole(), wanted)  # the pack has its hash
        found.published.add(key)
        return True
    try:
        run = packed.whole()
    except NormbenchError as error:
        found.notes += [] if str(error) in found.notes else [str(error)]
        return False
    if not run.serves(wanted.steps):
        return False
    found.records[key] = relabel(run, wanted)
    found.published.add(key)
    return True


def _from_store(found: Found, wanted: Wanted) -> None:
    stored = found.stored[wanted.id]
    if stored.reason or not store.serves(stored.content, wanted):
        return
    try:
        run = store.record(stored)
    except Damaged as damage:
        found.stored[wanted.id] = replace(stored, reason=str(damage))
        found.damaged.append(found.stored[wanted.id])
        return
    if run is not None and run.serves(wanted.steps):
        length = {key: wanted.config["train"][key] for key in ("epochs", "steps")}
        config = {**run.config, "train": {**run.config["train"], **length}}
        found.records[wanted.id, wanted.steps] = replace(relabel(run, wanted), config=config)


def relabel(run: RunRecord, wanted: Wanted) -> RunRecord:
    """The same run as another experiment files it, cut to that one's length."""
    return replace(run.cut(wanted.steps), **wanted.labels())
