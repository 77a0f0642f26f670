"""All runs below a results folder, raw and published: one row a run, read anew where a file has another time.

runs = Runs(Path("results"))
runs.refresh()
runs.heads                     # one RunRecord per id, records=()
runs.load([runs.heads[0].id])  # the same with their curves
"""

from __future__ import annotations

import contextlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import curve_file, own, pack, run_file, store
from normbench.runs.curve import Curve
from normbench.runs.damaged import Damaged, left_out
from normbench.runs.record import EVALUATED, PLACE, RunRecord
from normbench.runs.stamps import Stamp, stamp
from normbench.stored import LOGGED

SOURCES = {"smoke": "smoke", LOGGED: "imported"}  # by fidelity, wherever they lie
MOST = 1_000_000  # records of curves in memory, 30 MB
TAIL = 4 << 10  # bytes of a curve that mostly have the last evaluation


@dataclass
class _Raw:
    """A run directory as last seen."""

    stored: store.Stored
    head: RunRecord  # damaged, once its curve turned out to be
    state: str
    stamps: tuple[Stamp | None, Stamp | None]  # of run.json and of the curve


class Runs:
    """The runs below one results folder, without their curves until these are asked for."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.heads: list[RunRecord] = []  # their status may also be running, interrupted, failed or damaged
        self.notes: list[str] = []  # of packs that cannot be read, damaged copies of runs that are whole elsewhere
        self.token = 0  # what `changed_since` takes: now
        self._changed: dict[str, int] = {}  # by id the turn of its last change
        self._raw: dict[str, _Raw] = {}  # by path
        self._packs: dict[Path, tuple[Stamp | None, list[pack.Packed], str]] = {}  # and what is wrong with it
        self._published: dict[str, pack.Packed] = {}  # the runs of all packs by id
        self._chosen: dict[str, _Raw | pack.Packed] = {}  # by id
        self._curves: OrderedDict[str, tuple[Stamp | None, Curve]] = OrderedDict()
        self._ends: dict[str, tuple[Hashable, dict[str, float]]] = {}  # by id, of a curve of this stamp

    def refresh(self) -> bool:
        """Look what changed; True where something did."""
        changed = self._look_at_packs()
        found = {str(run.path): run for run in store.directories(self.results / "runs")}
        for path in self._raw.keys() - found.keys():
            changed.add(self._raw.pop(path).head.id)
        for path, stored in found.items():
            if self._look_at(path, stored):
                changed.add(self._raw[path].head.id)
        if changed:
            self._choose(changed)
        return bool(changed)

    def mark(self, changed: Iterable[str]) -> None:
        """These runs changed now."""
        self.token += 1
        self._changed |= dict.fromkeys(changed, self.token)

    def changed_since(self, token: int) -> tuple[int, list[str]]:
        """The token of now, and the ids of the runs that came, went, or have another state or more records."""
        return self.token, [run for run, turn in self._changed.items() if turn > token]

    def load(self, ids: Iterable[str]) -> dict[str, RunRecord]:
        """These runs with their curves; one whose curve is damaged is so from now on. Unknown ids are left out."""
        loaded = {}
        for run_id in dict.fromkeys(ids):
            while (chosen := self._chosen.get(run_id)) and run_id not in loaded:
                try:
                    loaded[run_id] = self._with_curve(chosen)
                except (Damaged, NormbenchError) as damage:
                    if isinstance(chosen, pack.Packed):  # it has changed, or gone
                        loaded[run_id] = chosen.head
                    elif not self._look_at(str(chosen.head.path), chosen.stored):  # else it has changed meanwhile
                        chosen.head = replace(chosen.head, status="damaged", reason=str(damage))
                    self._choose({run_id})
        held = sum(len(curve) for _, curve in self._curves.values())
        while len(self._curves) > 1 and held > MOST:
            held -= len(self._curves.popitem(last=False)[1][1])
        return loaded

    def ends(self, read: bool = True) -> dict[str, dict[str, float]]:
        """By id the last evaluation of each run, `valid.nll` and so on, from the end of its curve alone.

        read: else of the runs whose end was read before.
        """
        for run_id, chosen in self._chosen.items():
            of = chosen.head.path, chosen.stamps[1] if isinstance(chosen, _Raw) else None
            if read and (run_id not in self._ends or self._ends[run_id][0] != of):
                self._ends[run_id] = of, _end(chosen)
        return {run_id: self._ends[run_id][1] for run_id in self._chosen if run_id in self._ends}

    def _look_at(self, path: str, stored: store.Stored) -> bool:
        """Read a run directory again if it changed; whether it did."""
        old, now = self._raw.get(path), (stamp(f"{path}/{run_file.NAME}"), stamp(f"{path}/curve.jsonl"))
        if old and old.stamps == now:
            ended = old.stored.reason or old.stored.content["status"] in store.FINISHED
            if ended or old.stored.state == old.state:  # of the others the lock tells
                return False
        read = store.read(replace(stored, reason="") if stored.id else stored)
        self._raw[path] = _Raw(read, store.head(read), read.state, now)
        return True

    def _with_curve(self, chosen: _Raw | pack.Packed) -> RunRecord:
        """Raises Damaged, NormbenchError."""
        head, now = chosen.head, chosen.stamps[1] if isinstance(chosen, _Raw) else None
        if head.status == "damaged" or (isinstance(chosen, _Raw) and now is None and head.status not in store.FINISHED):
            return head
        key = f"{head.path} {head.id}"
        if key not in self._curves or self._curves[key][0] != now:
            if isinstance(chosen, _Raw):
                curve = curve_file.checked(head.path / "curve.jsonl", chosen.stored.content)
            else:
                curve = chosen.whole().records
            self._curves[key] = now, curve
        self._curves.move_to_end(key)
        run = replace(head, records=self._curves[key][1])
        return run.cut(run.steps) if run.status in store.FINISHED else run

    def _look_at_packs(self) -> set[str]:
        """Read the packs that changed; the ids of their runs, before and after."""
        changed: set[str] = set()
        paths = pack.paths(self.results)
        for path in [path for path in self._packs if path not in paths]:
            changed |= {run.id for run in self._packs.pop(path)[1]} or {str(path)}
        for path in paths:
            now, old = stamp(path), self._packs.get(path, (None, [], ""))
            if now is not None and old[0] == now:
                continue
            try:
                self._packs[path] = now, pack.heads(path), ""
            except NormbenchError as error:
                self._packs[path] = now, [], str(error)
            changed |= {run.id for run in (*old[1], *self._packs[path][1])} or {str(path)}
        if changed:
            self._published = self._of_packs()
        return changed

    def _of_packs(self) -> dict[str, pack.Packed]:
        """One run per id of all packs, with its source."""
        packed = [run for _, runs, _ in self._packs.values() for run in runs]
        published = {run.id for run in packed if own(self.results) not in run.head.path.parents}
        found = {}
        for run in pack.one_each(packed):
            source = "published" if run.id in published else "own"
            head = replace(run.head, source=SOURCES.get(run.head.fidelity, source))
            found[run.id] = replace(run, head=head)
        return found

    def _choose(self, changed: Iterable[str]) -> None:
        """One run per id: finished before unfinished, then the longest; a damaged one hides no other."""
        self.mark(changed)
        self.notes = [damage for _, _, damage in self._packs.values() if damage]
        self._chosen = {**self._published}
        for _, raw in sorted(self._raw.items()):
            other = self._chosen.get(raw.head.id)
            if other is None or _goes_before(raw, other):
                if isinstance(other, pack.Packed):
                    raw.head = replace(raw.head, source=other.head.source)
                self._chosen[raw.head.id] = raw
            left = other if self._chosen[raw.head.id] is raw else raw
            if isinstance(left, _Raw) and left.head.status == "damaged":
                self.notes.append(left_out(left.head))
        self.heads = sorted(
            (chosen.head for chosen in self._chosen.values()),
            key=lambda run: (run.experiment, run.control, run.arm, run.seed, run.id),
        )


def _goes_before(raw: _Raw, other: _Raw | pack.Packed) -> bool:
    finished = raw.head.status in store.FINISHED
    if isinstance(other, pack.Packed):
        return finished and raw.head.steps > other.head.steps
    if other.head.status in store.FINISHED:
        return finished and raw.head.steps >= other.head.steps
    return raw.head.status != "damaged" or other.head.status == "damaged"


def _end(chosen: _Raw | pack.Packed) -> dict[str, float]:
    """The last evaluation; nothing of a curve that cannot be read, which whoever loads it is told."""
    path, found = chosen.head.path / "curve.jsonl", dict[str, float]()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, NormbenchError):
        if isinstance(chosen, pack.Packed):
            return _last(chosen.whole().records)
        for most in (TAIL, sys.maxsize):
            content = reading.tail(path, most)
            whole = content if len(content) < most else content.partition(b"\n")[2]
            found = _last(Curve(map(orjson.loads, whole[: whole.rfind(b"\n") + 1].splitlines())))
            if found or len(content) < most:
                break
    return found


def _last(curve: Curve) -> dict[str, float]:
    """The last number of each metric of each split, where the run was evaluated as it is by default."""
    return {
        f"{block.split}.{key}": float(values[-1])
        for block in curve.blocks
        if block.mode in EVALUATED and not block.variant and "order" not in block.columns
        for key, values in block.columns.items()
        if key not in PLACE
    }


Choose = Callable[[Sequence[RunRecord]], Sequence[RunRecord]]


def finished(results: Path, choose: Choose = lambda heads: heads) -> tuple[list[RunRecord], list[str]]:
    """All finished runs with their curves, one per id (the longest); lines about those that cannot be read.

    choose: which of them, by their heads; of the others no curve is read.
    """
    runs = Runs(results)
    runs.refresh()
    damaged = [head for head in runs.heads if head.status == "damaged"]
    notes = [*runs.notes, *map(left_out, damaged)]
    found = []
    for run in runs.load(head.id for head in choose([h for h in runs.heads if h.status in store.FINISHED])).values():
        if run.status == "damaged":
            notes.append(left_out(run))
        else:
            found.append(run)
    return found, notes
