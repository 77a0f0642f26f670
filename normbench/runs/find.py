"""Which planned runs exist: in the raw store, or in a published pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from normbench.config.identity import ResolvedRun, satisfies
from normbench.errors import NormbenchError
from normbench.runs import lookup, own, pack, store
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord
from normbench.runs.yaml_text import Configurations


@dataclass
class Found:
    """Finished runs by id and length, under the labels of their specs; the raw store's directories of these ids, the
    damaged ones.

    Beside them the folders that cannot be listed: what is looked for may be in there.
    """

    specs: Sequence[ResolvedRun] = ()  # what was looked for
    records: dict[tuple[str, int], RunRecord] = field(default_factory=dict)
    stored: dict[str, store.Stored] = field(default_factory=dict)
    damaged: list[store.Stored] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    published: set[tuple[str, int]] = field(default_factory=set)  # those of the records that a pack has

    @property
    def runs(self) -> list[RunRecord]:
        return [*self.records.values()]

    def of(self, spec: ResolvedRun) -> RunRecord | None:
        """The finished run that the spec asks for, cut to its length."""
        return self.records.get((spec.id, spec.steps))

    def state(self, spec: ResolvedRun) -> str:
        """done, diverged, running, interrupted, failed, damaged or missing."""
        if run := self.of(spec):
            return run.status
        state = self.stored[spec.id].state if spec.id in self.stored else "missing"
        return "missing" if state in store.FINISHED else state  # finished, but otherwise than asked for

    def retrained(self, specs: Sequence[ResolvedRun]) -> list[ResolvedRun]:
        """Those whose stored run does not serve and cannot be continued: trained anew, the old directory is kept."""
        return [
            spec
            for spec in specs
            if self.of(spec) is None
            and (stored := self.stored.get(spec.id))
            and not stored.reason
            and stored.state != "running"
            and not store.can_become(stored.path, spec)
        ]


def find(specs: Sequence[ResolvedRun], results: Path) -> Found:
    """Look `specs` up by id below `results`: packs first, then the raw store."""
    found = Found(specs)
    packed, found.notes = in_packs(results)
    published = {run.id: run for run in packed}
    raw = lookup.below(results / "runs")
    for stored in (*raw.unlisted(), *raw.stored(spec.id for spec in specs)):
        if stored.reason:
            found.damaged.append(stored)
        if stored.id:
            found.stored[stored.id] = stored
    for spec in specs:
        run_id = spec.id
        run = published.get(run_id)
        if (run is None or not _from_pack(found, spec, run)) and run_id in found.stored:
            _from_store(found, spec)
    return found


def in_packs(results: Path) -> tuple[list[pack.Packed], list[str]]:
    """All published runs below `results`, one per id; lines about packs that cannot be read."""
    packed: list[pack.Packed] = []
    notes = []
    for path in pack.paths(results):
        try:
            packed += pack.heads(path)
        except NormbenchError as error:  # of some artifact; whoever publishes that one is stopped by it
            notes.append(str(error))
    return pack.one_each(packed), notes


def _from_pack(found: Found, spec: ResolvedRun, packed: pack.Packed) -> bool:
    """Whether a published run is the one that the spec asks for, which is then found."""
    if not satisfies(packed.head.config, spec):
        return False
    try:
        run = packed.whole()
    except NormbenchError as error:
        found.notes += [] if str(error) in found.notes else [str(error)]
        return False
    if not run.serves(spec.steps):
        return False
    found.records[spec.id, spec.steps] = relabel(run, spec)
    found.published.add((spec.id, spec.steps))
    return True


def everything(results: Path) -> tuple[list[RunRecord], list[str]]:
    """All finished runs below `results`, published and raw, one per id (the longest); lines about those unreadable."""
    packed, notes = in_packs(results)
    released = {run.id for run in packed if own(results) not in run.path.parents}
    known = {run.id: run.head.steps for run in packed}
    configurations = Configurations()
    raw: list[RunRecord] = []
    for stored in lookup.scan(results / "runs"):
        try:
            if stored.state in store.FINISHED and not is_longer(stored, known):
                continue  # its curve need not be read
            run = store.as_filed(stored, configurations.load)
        except Damaged as damage:
            notes.append(f"{stored.path} is damaged: {damage}. It is left out.")
            continue
        if run is not None:
            raw.append(run)
    published = []
    for one in packed:
        try:
            published.append(one.whole())
        except NormbenchError as error:
            notes += [] if str(error) in notes else [str(error)]
    runs = [
        replace(run, source="smoke" if run.fidelity == "smoke" else "published" if run.id in released else "own")
        for run in pack.merge(published, raw)
    ]
    return sorted(runs, key=lambda run: (run.experiment, run.control, run.arm, run.seed, run.id)), notes


def is_longer(stored: store.Stored, known: Mapping[str, int]) -> bool:
    """Whether a finished run of the raw store goes before the published ones; `known`: their lengths in updates."""
    return bool(stored.status["steps"] > known.get(stored.id, -1))


def _from_store(found: Found, spec: ResolvedRun) -> None:
    stored = found.stored[spec.id]
    if stored.reason:
        return
    try:
        record = store.record(stored, spec)
    except Damaged as damage:
        found.stored[spec.id] = replace(stored, reason=str(damage))
        found.damaged.append(found.stored[spec.id])
        return
    if record is not None:
        found.records[spec.id, spec.steps] = record


def relabel(run: RunRecord, spec: ResolvedRun) -> RunRecord:
    """The same run as another experiment files it, cut to that one's length."""
    return replace(run.cut(spec.steps), **spec.labels())
