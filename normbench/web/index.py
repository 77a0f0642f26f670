"""The runs below a results folder, own and published, without their curves until these are asked for.

    index = Index(Path("results"))
    index.refresh()
    heads = index.heads()                   # one RunRecord per id, records=()
    runs = index.load([heads[0].id])        # the same with their curves

Only what changed is read again, and a curve that grows from where it ended. Nothing is written below the results.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.errors import NormbenchError
from normbench.launch import queue
from normbench.runs import curve_file, pack, store
from normbench.runs.columns import Columns
from normbench.runs.damaged import Damaged
from normbench.runs.find import is_longer
from normbench.runs.lookup import Lookup
from normbench.runs.pack import Published
from normbench.runs.record import BESIDE, RunRecord
from normbench.runs.stamps import Stamp, settled, stamp
from normbench.runs.yaml_text import Configurations
from normbench.web.remembered import ALWAYS, Remembered

MOST_RECORDS = 500_000  # records of curves in memory, of about 70 bytes each
HEAD = [one.name for one in fields(RunRecord) if one.name not in ("records", "environment", "config", *BESIDE)]
ASKED_SECONDS = 10.0  # between two questions to a batch system
FILES = ("status.json", "config.yaml", "curve.jsonl")


@dataclass
class _Own:
    """A run directory as last seen."""

    stored: store.Stored
    folder: Stamp | None = None
    stamps: tuple[Stamp | None, ...] = ()  # of FILES
    sure: bool = False  # any later change shows in the stamps
    content: dict[str, Any] | Damaged = field(default_factory=lambda: Damaged("it was not read"))
    head: RunRecord | None = None
    damage: tuple[Stamp | None, str] | None = None  # what showed when the curve of this stamp was read

    @property
    def id(self) -> str:
        return self.stored.id or str(self.stored.path)  # a folder that cannot be listed is no run

    @property
    def status(self) -> str:
        return "" if self.head is None else self.head.status


@dataclass
class _Curve:
    """A curve in memory, as of a stamp; of one that grows, where it ended."""

    stamp: Stamp | None
    records: Columns
    environment: dict[str, Any]
    end: int = 0  # bytes of whole lines
    last: bytes = b""  # the last of these lines


def _exact(value: Any) -> bytes:
    """As JSON; ValueError or TypeError where that does not give it back."""
    text = json.dumps(value)
    if json.loads(text) != value:
        raise ValueError("JSON does not give it back")
    return text.encode()


def _still(damaged: Stamp | None, now: Stamp | None, finished: bool) -> bool:
    """Whether what was damaged then is so now: the same file; one on its way may have grown."""
    if finished or damaged is None or now is None:
        return damaged == now
    return damaged[0] == now[0] and now[2] >= damaged[2]


class Index:
    """All runs below one results folder; its methods may be called from several threads."""

    def __init__(self, results: Path) -> None:
        self.results, self.root = results, results / "runs"
        self._remembered = Remembered(results)
        self._configurations = Configurations()
        self._cached_runs: dict[str, tuple[str, bytes]] | None = (
            None  # of runs, until they were looked at for the first time
        )
        self._shared: dict[str, Any] = {}  # configurations without their seed, by what they are remembered by
        self._names: dict[tuple[int, ...], tuple[str, Any]] = {}  # the other way, by the identities of their parts
        self._parts: dict[str, Any] = {}  # equal parts of published configurations are one object
        self._lock = threading.RLock()
        self._directories = Lookup(self.root)
        self._own: dict[str, _Own] = {}
        self._waiting: dict[str, Mapping[str, Any]] = {}  # queued runs, by id
        self._asked = -math.inf
        self._queue_notes: list[str] = []
        self._packs: dict[Path, tuple[Stamp | None, list[Published], str]] = {}  # with what is wrong with it
        self._sources: dict[str, _Own | Published] = {}
        self._heads: list[RunRecord] = []
        self._notes: list[str] = []
        self._curves: OrderedDict[str, _Curve] = OrderedDict()
        self._changed: dict[str, int] = {}  # id -> the turn of its last change
        self.token = 0  # what `changed_since` takes: now

    def heads(self) -> list[RunRecord]:
        """Every run without its records; its status may also be running, interrupted, failed or damaged."""
        return self._heads

    def notes(self) -> list[str]:
        """A line per pack that cannot be read, and per damaged copy of a run that is whole elsewhere."""
        return self._notes

    def changed_since(self, token: int) -> tuple[int, list[str]]:
        """The token of now, and the ids of the runs that came, went, or have another state or more records."""
        with self._lock:
            return self.token, [run for run, turn in self._changed.items() if turn > token]

    def source(self, run: str) -> Path | None:
        """The run's directory, or the pack it is in; None where there is no such run."""
        found = self._sources.get(run)
        return found.stored.path if isinstance(found, _Own) else found.path if found else None

    # --- what there is ------------------------------------------------------------------------------------------------

    def refresh(self, quick: bool = False) -> bool:
        """Look what changed; True where something did. `quick` asks finished runs for a new time of their folder only.

        What is added or replaced shows in that; what was overwritten in place does not.
        """
        with self._lock:
            if first := self._cached_runs is None:
                self._recall()
            changed = self._look_for_packs() | self._look_at_queue()
            found = {str(run.path): run for run in self._directories.refresh().everything()}
            for key in self._own.keys() - found.keys():
                changed.add(self._own.pop(key).id)
            for key, stored in found.items():
                own = self._own.get(key) or self._own.setdefault(key, _Own(stored))
                if self._look_at(own, quick):
                    changed.add(own.id)
            if first:
                self._cached_runs = {}
            self._tell(changed)
            return bool(changed)

    def _look_at_queue(self) -> set[str]:
        """The runs that came into a batch system's queue or left it; their heads are made anew."""
        if time.monotonic() - self._asked < ASKED_SECONDS:
            return set()
        self._asked = time.monotonic()
        before = self._waiting.keys()
        self._waiting, self._queue_notes = queue.queued(self.results)
        changed = set(before ^ self._waiting.keys())
        for own in self._own.values():
            if own.id in changed and own.head:
                own.head = self._head(own)
        return changed

    def _state(self, own: _Own) -> str:
        return queue.state(own.stored.state, own.id, self._waiting)

    def _tell(self, changed: Iterable[str]) -> None:
        """Choose and mark anew after these ids changed; keep what was read."""
        if changed := set(changed):
            self._choose()
            self.token += 1
            self._changed |= dict.fromkeys(changed, self.token)
        self._remembered.save()

    def _look_at(self, own: _Own, quick: bool) -> bool:
        """Read the changed files of a run directory again; whether its head or curve changed."""
        path = own.stored.path
        folder = stamp(path)
        if quick and own.sure and own.status in store.FINISHED and folder == own.folder and settled(folder):
            return False
        now = tuple(stamp(f"{path}/{name}") for name in FILES)
        before, was = own.stamps, own.head
        if not own.sure or (folder, now) != (own.folder, before):
            own.sure = all(found is None or settled(found) for found in (folder, *now))
            own.folder, own.stamps = folder, now
            if own.stored.id:  # else a folder that cannot be listed
                own.stored, own.content = self._recalled(own) or self._read(own)
            if own.damage and not _still(own.damage[0], now[-1], own.stored.status.get("status") in store.FINISHED):
                own.damage = None
            own.head = self._head(own)
        elif self._state(own) != own.status and not own.damage:  # killed, or going on: nothing but its lock tells
            own.head = self._head(own)
        return own.head != was or now[-1] != before[-1]

    # Of a run whose two files are as they were, what they say is remembered, in one row: to read and parse both takes
    # ten times as long. Its configuration is a row that all runs have which differ from it in their seed alone.

    def _recall(self) -> None:
        self._cached_runs = self._remembered.of_kind("run")
        for name, (_, content) in self._remembered.of_kind("config").items():
            self._shared[name] = json.loads(content)

    def _recalled(self, own: _Own) -> tuple[store.Stored, dict[str, Any]] | None:
        """What is remembered of a run in this state; None where that is nothing."""
        status_now, config_now, _ = own.stamps
        at, content = (self._cached_runs or {}).get(str(own.stored.path), ("", b""))
        if status_now is None or config_now is None or at != repr((status_now, config_now)):
            return None
        status, labels, seed, name = json.loads(content)
        if name not in self._shared:
            return None
        stored = replace(own.stored, status=status, reason="")
        return stored, {**labels, "config": {**self._shared[name], "seed": seed}}

    def _read(self, own: _Own) -> tuple[store.Stored, dict[str, Any] | Damaged]:
        """What the two files of a run say, or what is wrong with them."""
        path = own.stored.path
        try:
            stored = replace(own.stored, status=store.status_of(own.stored), reason="")
        except Damaged as damage:
            stored = replace(own.stored, status={}, reason=str(damage))
        try:
            content = store.read_config(path, load=self._configurations.load)
            labels = store.labels_of(content)
        except Damaged as damage:
            return stored, damage
        status_now, config_now, _ = own.stamps
        if not stored.reason:
            config = dict(content["config"])
            with contextlib.suppress(KeyError, TypeError, ValueError):  # what JSON does not give back
                row = [dict(stored.status), labels, config.pop("seed"), self._config_name(config)]
                self._remembered.put("run", str(path), status_now, _exact(row), config_now)
        return stored, content

    def _config_name(self, config: dict[str, Any]) -> str:
        """By what this configuration is remembered; ValueError where JSON does not give it back."""
        parts = tuple(map(id, config.values()))
        if parts not in self._names:
            text = _exact(config)
            name = hashlib.sha256(text).hexdigest()[:16]
            self._remembered.put("config", name, ALWAYS, text)
            self._names[parts] = name, config  # which keeps the parts, and so what they are identified by
        return self._names[parts][0]

    def _head(self, own: _Own) -> RunRecord:
        """A run as its status and configuration tell; under the labels of its status, or its name, where these fail."""
        stored, state = own.stored, self._state(own)
        named: dict[str, Any] = {"experiment": stored.experiment, "arm": stored.arm}
        try:
            if isinstance(own.content, Damaged):
                raise own.content
            labels, config = store.labels_of(own.content), own.content["config"]
        except Damaged as damage:
            if state in store.FINISHED:
                stored, state = replace(stored, reason=str(damage)), "damaged"
            labels = {**named, "fidelity": "", "control": "", "axes": {}, **stored.status}
            try:
                labels, config = store.labels_of(labels), {}
            except Damaged:
                labels, config = named, {}
        reason = stored.reason
        if own.damage and not reason:
            state, reason = "damaged", own.damage[1]
        status = {**stored.status, "status": state, "reason": reason or stored.status.get("reason", "")}
        return store.bare(stored if stored.id else replace(stored, id=own.id), status, labels, config)

    def _look_for_packs(self) -> set[str]:
        """Read the packs that changed; the ids of their runs, before and after."""
        changed: set[str] = set()
        found = pack.paths(self.results)
        for path in [path for path in self._packs if path not in found]:
            changed |= {run.id for run in self._packs.pop(path)[1]} or {str(path)}
        for path in found:
            now, before = stamp(path), self._packs.get(path)
            if before and before[0] == now:
                continue
            try:
                runs, damage = self._pack(path, now), ""
            except NormbenchError as error:
                runs, damage = [], str(error)
            self._packs[path] = (now if settled(now) else None, runs, damage)
            if not before or before[1:] != (runs, damage):
                changed |= {run.id for run in [*runs, *(before[1] if before else ())]} or {str(path)}
        return changed

    def _pack(self, path: Path, now: Stamp | None) -> list[Published]:
        """The runs of a pack, from memory where it is the same."""
        content = self._remembered.get("pack", str(path), now) if now else None
        if content is None:
            lines = []
            for run in pack.load(path, keep=False).runs:
                config = {key: json.dumps(value) for key, value in run.config.items()}
                lines.append(({name: getattr(run, name) for name in HEAD}, config, len(run.records)))
                content = json.dumps([run.records, run.environment]).encode()
                self._remembered.put("records", f"{path} {run.id}", now, content)
            content = json.dumps(lines).encode()
            self._remembered.put("pack", str(path), now, content)
        return [
            Published(RunRecord(**head, config={key: self._part(text) for key, text in config.items()}), count, path)
            for head, config, count in json.loads(content)
        ]

    def _part(self, text: str) -> Any:
        if text not in self._parts:
            self._parts[text] = json.loads(text)
        return self._parts[text]

    def _choose(self) -> None:
        """One run per id: finished before unfinished, then the longest; a damaged one hides no other."""
        published = [run for _, runs, _ in self._packs.values() for run in runs]
        chosen: dict[str, _Own | Published] = {run.id: run for run in pack.one_each(published)}
        steps = {run.id: run.head.steps for run in chosen.values() if run.head}
        self._notes = [*self._queue_notes, *(damage for _, _, damage in self._packs.values() if damage)]
        for _, own in sorted(self._own.items()):
            other = chosen.get(own.id)
            first = other is None or self._goes_before(own, other, steps)
            left = other if first else own
            if first:
                chosen[own.id] = own
            if isinstance(left, _Own) and left.head and left.status == "damaged":
                self._notes.append(f"{left.stored.path} is damaged: {left.head.reason}. It is left out.")
        for stored in queue.not_begun(self._waiting, chosen, self.root):
            own = _Own(stored, stamps=(None,) * len(FILES), content=dict(self._waiting[stored.id]))
            own.head = self._head(own)
            chosen[stored.id] = own
        self._sources = chosen
        heads = [run.head for run in chosen.values() if run.head]
        self._heads = sorted(heads, key=lambda run: (run.experiment, run.control, run.arm, run.seed, run.id))

    @staticmethod
    def _goes_before(own: _Own, other: _Own | Published, steps: dict[str, int]) -> bool:
        finished = own.status in store.FINISHED
        if isinstance(other, Published):
            return finished and is_longer(own.stored, steps)
        if other.status in store.FINISHED:
            return finished and own.stored.status["steps"] >= other.stored.status["steps"]
        return own.status != "damaged" or other.status == "damaged"

    # --- curves -------------------------------------------------------------------------------------------------------

    def load(self, ids: Iterable[str]) -> dict[str, RunRecord]:
        """These runs with their curves; one whose curve is damaged is so from now on. Unknown ids are left out."""
        loaded: dict[str, RunRecord] = {}
        for run in dict.fromkeys(ids):
            with self._lock:  # one by one: others need not wait for all
                while run in self._sources:
                    source = self._sources[run]
                    try:
                        loaded[run] = self._raw(source) if isinstance(source, _Own) else self._out_of_pack(source)
                        break
                    except Damaged as damage:
                        assert isinstance(source, _Own) and source.head
                        if not self._look_at(source, False):  # else it changed since it was last looked at
                            source.damage = (source.stamps[-1], str(damage))
                            source.head = replace(source.head, status="damaged", reason=str(damage))
                        self._tell([run])
        with self._lock:
            self._remembered.save()
            count = sum(len(curve.records) for curve in self._curves.values())
            while count > MOST_RECORDS:
                count -= len(self._curves.popitem(last=False)[1].records)
        return loaded

    def _raw(self, own: _Own) -> RunRecord:
        head, path = own.head, own.stored.path
        assert head is not None
        finished = head.status in store.FINISHED
        if head.status == "damaged" or (own.stamps[-1] is None and not finished):
            return head
        curve = self._whole(path, own) if finished else self._growing(path, own)
        run = replace(head, records=curve.records, environment=curve.environment)
        return run.cut(run.steps) if finished else run

    def _cached_curve(self, key: str, now: Stamp | None) -> _Curve | None:
        """A curve that is in memory, of that stamp."""
        if key in self._curves and self._curves[key].stamp == now:
            self._curves.move_to_end(key)
            return self._curves[key]
        return None

    def _whole(self, path: Path, own: _Own) -> _Curve:
        """The curve of a finished run; its hash is checked whenever it is read."""
        key, now = str(path), stamp(path / "curve.jsonl")
        curve = self._cached_curve(key, now)
        if curve is None or curve.end:
            checked = self._remembered.get("whole", key, now) or b""
            records = curve_file.checked(path / "curve.jsonl", own.stored.status, checked.decode())
            curve = _Curve(now if settled(now) else None, Columns(records), store.read_environment(path))
            if not checked:
                self._remembered.put("whole", key, now, str(own.stored.status["curve_sha256"]).encode())
            self._curves[key] = curve
        return curve

    def _growing(self, path: Path, own: _Own) -> _Curve:
        """The curve of a run on its way, read on from where it ended; one that was cut or replaced, from its start."""
        key, now = str(path), stamp(path / "curve.jsonl")
        curve = self._cached_curve(key, now)
        if curve is not None and settled(now):
            return curve
        curve = self._curves.get(key)
        content, fits = b"", False
        try:
            with reading.opened(path / "curve.jsonl", curve_file.LARGEST) as file:
                if curve is not None and curve.end and curve.stamp and now and curve.stamp[0] == now[0]:
                    file.seek(curve.end - len(curve.last))
                    fits = file.read(len(curve.last)) == curve.last
                if not fits:
                    file.seek(0)
                    curve = _Curve(now, Columns(), {})
                content = file.read()
        except OSError as error:
            raise Damaged(f"curve.jsonl cannot be read: {error.strerror}") from None
        assert curve is not None
        content = content[: content.rfind(b"\n") + 1]
        if content:
            fresh = curve_file.parse(content, "curve.jsonl", len(curve.records))
            curve = replace(curve, records=curve.records.followed_by(fresh), end=curve.end + len(content))
            curve.last = content[content.rfind(b"\n", 0, -1) + 1 :]
        curve.stamp = now
        self._curves[key] = curve
        self._curves.move_to_end(key)
        return curve

    def _out_of_pack(self, run: Published) -> RunRecord:
        key, now = f"{run.path} {run.id}", stamp(run.path)
        curve = self._cached_curve(key, now)
        if curve is None:
            content = self._remembered.get("records", key, now) if now else None
            if content is not None:
                records, environment = json.loads(content)
            else:
                records, environment = self._again(run)
            curve = self._curves[key] = _Curve(now, Columns(records), environment)
        return replace(run.head, records=curve.records, environment=curve.environment)

    @staticmethod
    def _again(run: Published) -> tuple[Sequence[Any], Any]:
        """Out of the pack itself; nothing where that has gone since."""
        try:
            runs = pack.load(run.path).runs
        except NormbenchError:
            runs = ()
        return next(((found.records, found.environment) for found in runs if found.id == run.id), ((), {}))
