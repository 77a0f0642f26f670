"""All runs below a results folder, in directories and in packs: one a run, read anew where a file has another time.

runs = Runs(Path("results"))
runs.heads                     # one Run per id; its curve is read by `load`
runs.load([runs.heads[0].id])  # the same with their curves
runs.of(spec)                  # the finished run that serves a run to be
runs.refresh()                 # look again
"""

from __future__ import annotations

import contextlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from normbench.errors import BadInput, Failed, NormbenchError
from normbench.files import reading
from normbench.files.reading import Stamp, stamp
from normbench.files.stored import LOGGED
from normbench.runs import directory, own, pack
from normbench.runs.curve import Curve
from normbench.runs.directory import Damaged, left_out
from normbench.runs.run import EVALUATED, FINISHED, NO_CURVE, PLACE, Run, begun_by

SOURCES = {"smoke": "smoke", LOGGED: "imported"}  # by fidelity, wherever they lie
SETTLED = (*FINISHED, "failed", "damaged")  # of the others the lock tells whether they go on
MOST = 1_000_000  # records of curves in memory, 30 MB
TAIL = 4 << 10  # bytes of a curve that mostly have the last evaluation


class Spec(directory.Spec, Protocol):
    """A run to be, as it is looked for."""

    @property
    def steps(self) -> int: ...
    @property
    def control(self) -> str: ...
    @property
    def fidelity(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    def labels(self) -> dict[str, Any]: ...
    def is_of(self, stored: Mapping[str, Any]) -> bool:
        """Whether a stored configuration gives this id."""
        ...

    def accepts(self, stored: Mapping[str, Any]) -> bool:
        """Whether a run of a stored configuration, of the same id, has every evaluation that is asked for."""
        ...

    def can_continue(self, stored: Mapping[str, Any]) -> bool:
        """The same of an unfinished one, whatever its length."""
        ...


def is_long_enough(run: Run, spec: Spec) -> bool:
    """Whether a run is finished, has at least the updates of `spec`, and the evaluations that it asks for."""
    if run.status not in FINISHED or (run.steps < spec.steps and run.status != "diverged"):
        return False
    return spec.accepts(run.config)


def can_become(run: Run, spec: Spec) -> bool:
    """Whether an unfinished run can be continued to the end of `spec`, whatever its own length."""
    if run.status in FINISHED:
        return False
    begun = run.config and directory.has_checkpoint(run.path)  # else it starts from the first update
    return not begun or spec.can_continue(run.config)


class Runs:
    """The runs below one results folder, without their curves until these are asked for.

    ids: of these alone. start: of those whose ids begin so. others: further results folders, whose runs serve, too,
    where their configurations give their ids in this version; nothing is written there.
    """

    def __init__(
        self, results: Path, ids: Set[str] | None = None, others: Sequence[Path] = (), start: str = ""
    ) -> None:
        self.results, self.ids, self.start = results, ids, start
        self.others = [Runs(folder, ids) for folder in others]
        self.heads: list[Run] = []  # their status may also be running, interrupted, failed or damaged
        self.token = 0  # what `changed_since` takes: now
        self.published: dict[str, Run] = {}  # the runs of all packs by id, and beside them their curves
        self._later: dict[str, Curve] = {}
        self._changed: dict[str, int] = {}  # by id the turn of its last change
        self._raw: dict[Path, tuple[Run, tuple[Stamp | None, Stamp | None]]] = {}  # with the times of its files
        self._packs: dict[Path, tuple[Stamp | None, Sequence[Run], str]] = {}  # and what is wrong with it
        self._chosen: dict[str, Run] = {}  # by id
        self._curves: OrderedDict[str, tuple[Stamp | None, Curve]] = OrderedDict()
        self._ends: dict[str, tuple[Hashable, dict[str, float]]] = {}  # by id, of a curve of this stamp
        self._notes: list[str] = []
        self._by_id: dict[str, list[Run]] = {}  # the directories of each run
        self._serving: dict[tuple[Hashable, ...], Run | None] = {}  # what `of` answered
        self.refresh()

    @property
    def raw(self) -> list[Run]:
        """The runs of all directories, copies and damaged ones among them, by path."""
        return [run for _, (run, _) in sorted(self._raw.items())]

    @property
    def packs(self) -> list[tuple[Path, int, str]]:
        """Each pack, the number of its runs, and what is wrong with it."""
        return [(path, len(runs), damage) for path, (_, runs, damage) in self._packs.items()]

    @property
    def notes(self) -> list[str]:
        """Lines about packs that cannot be read, and damaged copies of runs that are whole elsewhere."""
        further = (line for runs in self.others for line in (*runs.notes, *map(left_out, runs.damaged)))
        return [*dict.fromkeys((*self._notes, *further))]

    @property
    def damaged(self) -> list[Run]:
        return [run for run in self.raw if run.status == "damaged"]

    def refresh(self) -> bool:
        """Look what changed; True where something did."""
        changed = self._look_at_packs()
        paths = directory.listed(self.results / "runs", self._is_wanted)
        for path in self._raw.keys() - {*paths}:
            changed.add(self._raw.pop(path)[0].id)
        for path in paths:
            if self._look_at(path):
                changed.add(self._raw[path][0].id)
        if changed:
            self._choose(changed)
        for folder in self.others:
            if folder.refresh():
                self._serving.clear()
        return bool(changed)

    def _is_wanted(self, run_id: str) -> bool:
        return run_id.startswith(self.start) and (self.ids is None or run_id in self.ids)

    def mark(self, changed: Iterable[str]) -> None:
        """These runs changed now."""
        self.token += 1
        self._changed |= dict.fromkeys(changed, self.token)

    def changed_since(self, token: int) -> tuple[int, list[str]]:
        """The token of now, and the ids of the runs that came, went, or have another state or more records."""
        return self.token, [run for run, turn in self._changed.items() if turn > token]

    # --- runs to be ---

    def of(self, spec: Spec) -> Run | None:
        """The finished run that serves: of its id, with its evaluations, cut to its length, under its labels."""
        key = spec.id, spec.steps, spec.experiment, spec.arm, spec.control, spec.fidelity
        if key not in self._serving:
            self._serving[key] = self._served(spec)
        return self._serving[key]

    def find(self, specs: Iterable[Spec]) -> list[Run]:
        """The finished runs that serve these."""
        return [run for run in map(self.of, specs) if run]

    def state(self, spec: Spec) -> str:
        """done, diverged, running, interrupted, failed, damaged or missing."""
        if run := self.of(spec):
            return run.status
        copy = self.copy(spec.id)
        # one that is finished otherwise than asked for is as good as missing
        return "missing" if copy is None or copy.status in FINISHED else copy.status

    def copy(self, run_id: str) -> Run | None:
        """The directory of a run; of several one that is finished, and no damaged one where another is whole."""
        return next(iter(self._copies(run_id)), None)

    def retrained(self, specs: Iterable[Spec]) -> list[Spec]:
        """Those whose stored run does not serve and cannot be continued: trained anew, the old directory is kept."""
        return [spec for spec in specs if not self.of(spec) and self._is_in_the_way(spec)]

    def _is_in_the_way(self, spec: Spec) -> bool:
        copy = self.copy(spec.id)
        return copy is not None and copy.status not in ("damaged", "running") and not can_become(copy, spec)

    def _served(self, spec: Spec) -> Run | None:
        """A published run first, then one of a directory, then those of other folders."""
        published = self.published.get(spec.id)
        for run in ([published] if published else []) + self._copies(spec.id):
            if is_long_enough(run, spec) and (cut := self._cut(run, spec)):
                return cut
        for folder in self.others:
            if other := folder.of(spec):
                if spec.is_of(other.config):
                    return other
                self._note(f"{folder.results}: run {spec.id} has another id in this version: left out")
        return None

    def _note(self, line: str) -> None:
        if line not in self._notes:
            self._notes.append(line)

    def _cut(self, run: Run, spec: Spec) -> Run | None:
        """A run as `spec` files it, with its length; None where it was not evaluated there, or is damaged."""
        of_pack = run.path.name == pack.NAME
        if of_pack and run.status == "done" and run.steps == spec.steps:
            # its curve is read when it is used: the pack has its hash
            return replace(run, records=self._later[run.id], **spec.labels())
        try:
            loaded = replace(run, records=self._later[run.id].read()) if of_pack else directory.with_curve(run)
        except NormbenchError as error:
            self._note(str(error))
            return None
        except Damaged as damage:
            self._spoil(run, str(damage))
            return None
        if not loaded.serves(spec.steps):
            return None
        length = {} if of_pack else {key: spec.config["train"][key] for key in ("epochs", "steps")}
        config = {**run.config, "train": {**run.config["train"], **length}} if length else run.config
        return replace(loaded.cut(spec.steps), **spec.labels(), config=config)

    def _copies(self, run_id: str) -> list[Run]:
        """The directories of a run, the one to take first."""
        return sorted(reversed(self._by_id.get(run_id, [])), key=_rank)

    # --- all runs ---

    def load(self, ids: Iterable[str]) -> dict[str, Run]:
        """These runs with their curves; one whose curve is damaged is so from now on. Unknown ids are left out."""
        loaded = {}
        for run_id in dict.fromkeys(ids):
            while (run := self._chosen.get(run_id)) and run_id not in loaded:
                try:
                    loaded[run_id] = self._with_curve(run)
                except NormbenchError as error:  # of a pack
                    self._spoil(run, str(error).removeprefix(f"{run.path} is damaged ").rstrip("."))
                except Damaged as damage:
                    if not self._look_at(run.path):  # else it has changed meanwhile
                        self._spoil(run, str(damage))
                    self._choose({run_id})
        held = sum(len(curve) for _, curve in self._curves.values())
        while len(self._curves) > 1 and held > MOST:
            held -= len(self._curves.popitem(last=False)[1][1])
        return loaded

    def finished(self, choose: Choose = lambda heads: heads) -> tuple[list[Run], list[str]]:
        """All finished runs with their curves, one per id (the longest); lines about those that cannot be read.

        choose: which of them, by their heads; of the others no curve is read.
        """
        heads = choose([head for head in self.heads if head.status in FINISHED])
        loaded = self.load(head.id for head in heads).values()  # which finds more damage
        damaged = (left_out(head) for head in self.heads if head.status == "damaged")
        return [run for run in loaded if run.status != "damaged"], [*self.notes, *damaged]

    def ends(self, read: bool = True) -> dict[str, dict[str, float]]:
        """By id the last evaluation of each run, `valid.nll` and so on, from the end of its curve alone.

        read: else of the runs whose end was read before.
        """
        for run_id, run in self._chosen.items():
            key = run.path, self._time(run)
            if read and (run_id not in self._ends or self._ends[run_id][0] != key):
                self._ends[run_id] = key, _end(run, self._later.get(run_id, NO_CURVE))
        return {run_id: self._ends[run_id][1] for run_id in self._chosen if run_id in self._ends}

    def _look_at(self, path: Path) -> bool:
        """Read a run directory again if it changed; whether it did."""
        old, now = self._raw.get(path), (stamp(f"{path}/{directory.NAME}"), stamp(f"{path}/curve.jsonl"))
        if old and old[1] == now and (old[0].status in SETTLED or old[0].status == directory.read(path).status):
            return False
        run = directory.read(path)
        if not run.config and path.parent != self.results:  # it never began: its folder says of which experiment
            run = replace(run, experiment=path.parent.relative_to(self.results / "runs").as_posix())
        self._raw[path] = run, now
        return True

    def _time(self, run: Run) -> Stamp | None:
        """Of the curve of a directory, or of the pack."""
        return self._raw[run.path][1][1] if run.path in self._raw else self._packs[run.path][0]

    def _spoil(self, run: Run, reason: str) -> None:
        """From now on the run in this directory, or of this pack, is damaged."""
        damaged = replace(run, status="damaged", reason=reason, records=NO_CURVE)
        if run.path in self._raw:
            self._raw[run.path] = damaged, self._raw[run.path][1]
        else:
            self.published[run.id] = damaged
        self._choose({run.id})

    def _with_curve(self, run: Run) -> Run:
        """Raises Damaged, NormbenchError."""
        time = self._time(run)
        if run.status == "damaged" or (run.path in self._raw and time is None and run.status not in FINISHED):
            return run
        key = f"{run.path} {run.id}"
        if key not in self._curves or self._curves[key][0] != time:
            curve = directory.curve(run) if run.path in self._raw else self._later[run.id].read()
            self._curves[key] = time, curve
        self._curves.move_to_end(key)
        loaded = replace(run, records=self._curves[key][1])
        return loaded.cut(loaded.steps) if loaded.status in FINISHED else loaded

    def _look_at_packs(self) -> set[str]:
        """Read the packs that changed; the ids of their runs, before and after."""
        changed: set[str] = set()
        paths = pack.paths(self.results)
        for path in [path for path in self._packs if path not in paths]:
            changed |= {run.id for run in self._packs.pop(path)[1]} or {str(path)}
        for path in paths:
            now, old = stamp(path), self._packs.get(path, (None, (), ""))
            if now is not None and old[0] == now:
                continue
            try:
                self._packs[path] = now, pack.read(path, self._is_wanted).runs, ""
            except NormbenchError as error:
                self._packs[path] = now, (), str(error)
            changed |= {run.id for run in (*old[1], *self._packs[path][1])} or {str(path)}
        if changed:
            self.published = self._of_packs()
        return changed

    def _of_packs(self) -> dict[str, Run]:
        """One run per id of all packs, with its source."""
        packed = [run for _, runs, _ in self._packs.values() for run in runs]
        published = {run.id for run in packed if own(self.results) not in run.path.parents}
        runs = {}
        self._later = {}
        for run in pack.one_each(packed):
            source = "published" if run.id in published else "own"
            self._later[run.id] = run.records
            runs[run.id] = replace(run, source=SOURCES.get(run.fidelity, source), records=NO_CURVE)
        return runs

    def _choose(self, changed: Iterable[str]) -> None:
        """One run per id: finished before unfinished, then the longest; a damaged one hides no other."""
        self.mark(changed)
        self._serving.clear()
        self._notes = [damage for _, _, damage in self._packs.values() if damage]
        self._chosen, self._by_id = {**self.published}, {}
        for run in self.raw:
            self._by_id.setdefault(run.id, []).append(run)
            other = self._chosen.get(run.id)
            left = run
            if other is None or _goes_before(run, other):
                is_packed = other is not None and other.path not in self._raw
                self._chosen[run.id] = replace(run, source=other.source) if other and is_packed else run
                left = other or run
            if left.status == "damaged" and self._chosen[run.id].path != left.path:
                self._notes.append(left_out(left))
        self.heads = sorted(
            self._chosen.values(), key=lambda run: (run.experiment, run.control, run.arm, run.seed, run.id)
        )


def named(name: str, results: Path) -> Run:
    """The one run called so, by its path or the start of its id: the longest finished one, else what is there.

    NormbenchError for none and for several, and for a damaged one.
    """
    start = Path(name).name[-12:] if "/" in name else name
    runs = Runs(results, start=start)
    run_id = begun_by(start, [head.id for head in runs.heads])
    if not run_id and runs.notes:
        raise Failed(runs.notes[0])  # it may be in there
    if not run_id:
        raise BadInput(f"no run {name or repr(name)} below {results}. (normbench status FILTER lists ids)")
    run = runs.load([run_id])[run_id]
    if run.status in FINISHED and not run.records:
        run = replace(run, status="damaged", reason="it has no records")
    if run.status == "damaged":
        way_out = "" if run.path.name == pack.NAME else " Delete it to train this run again."
        raise Failed(f"{run.path}: {run.reason}.{way_out}")
    return run


def ours(name: str, results: Path) -> Run:
    """As `named`; NormbenchError for a run of another program, of which there is a log alone."""
    run = named(name, results)
    if run.logged:
        raise BadInput(f"run {run.id} was made by another program: there is its log alone ({run.experiment}).")
    return run


Choose = Callable[[Sequence[Run]], Sequence[Run]]


def raw(places: Sequence[Path], wanted: Callable[[str], bool] = lambda run_id: True) -> dict[str, Run]:
    """By id the whole runs in the directories of these results folders; of several the finished one, the first."""
    paths = [path for place in places for path in directory.listed(place / "runs", wanted)]
    runs: dict[str, Run] = {}
    for run in map(directory.read, paths):
        if run.status != "damaged" and (run.id not in runs or runs[run.id].status not in FINISHED):
            runs[run.id] = run
    return runs


def _rank(run: Run) -> tuple[bool, bool]:
    return run.status == "damaged", run.status not in FINISHED


def _goes_before(run: Run, other: Run) -> bool:
    """Whether the run of a directory is taken in the place of another of its id."""
    finished = run.status in FINISHED
    if other.path.name == pack.NAME:
        return finished and (run.steps > other.steps or other.status == "damaged")
    if other.status in FINISHED:
        return finished and run.steps >= other.steps
    return run.status != "damaged" or other.status == "damaged"


def _end(run: Run, packed: Curve) -> dict[str, float]:
    """The last evaluation; nothing of a curve that cannot be read, which whoever loads it is told."""
    path, end = run.path / "curve.jsonl", dict[str, float]()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, NormbenchError):
        if run.path.name == pack.NAME:
            return _last(packed.read())
        for most in (TAIL, sys.maxsize):
            content = reading.tail(path, most)
            lines = content if len(content) < most else content.partition(b"\n")[2]
            end = _last(Curve(map(orjson.loads, lines[: lines.rfind(b"\n") + 1].splitlines())))
            if end or len(content) < most:
                break
    return end


def _last(curve: Curve) -> dict[str, float]:
    """The last number of each metric of each split, where the run was evaluated as it is by default."""
    return {
        f"{block.split}.{key}": float(values[-1])
        for block in curve.blocks
        if block.mode in EVALUATED and not block.variant and "order" not in block.columns
        for key, values in block.columns.items()
        if key not in PLACE
    }
