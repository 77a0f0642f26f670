"""Which runs may be averaged (a cell) and which cells may be compared (a task)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from normbench.compare import configuration
from normbench.config.identity import EARLIER
from normbench.config.plan import ADHOC
from normbench.runs.record import RunRecord
from normbench.runs.store import FINISHED

FIDELITY = "fidelity"
Budget = tuple[int, str]


@dataclass(frozen=True)
class Cell:
    """Runs of one configuration that differ in their seed alone, by seed; `values` is that configuration, flat.

    Its fidelity is among the values: what an experiment calls reduced is not averaged with what it calls the paper's.
    `among`: the numbers of all cells of its task, by key. `twice`: the seeds that have several such runs, made by other
    code each, of which one counts.
    """

    key: str
    values: Mapping[str, Any]
    runs: tuple[RunRecord, ...]
    among: Mapping[str, set[float]]
    twice: tuple[int, ...] = ()

    @property
    def norm(self) -> str:
        """Its normalizer."""
        return str(self.values.get(configuration.ARM_GROUP, ""))

    def shown(self, key: str) -> str:
        """Its value as people read it, told from those of the other cells."""
        return configuration.short(self.values.get(key), self.among.get(key, ()))

    def label(self, keys: Iterable[str]) -> str:
        """What these keys say of it."""
        return configuration.label(self.values, keys, self.among)

    def with_runs(self, loaded: Mapping[str, RunRecord]) -> Cell:
        """The same with these in the place of the runs of their ids, cut to its length where they are longer."""
        whole = [(run, loaded.get(run.id, run)) for run in self.runs]
        runs = (
            _cut(w, run.steps) if run.cut_from else w for run, w in whole if not run.cut_from or w.serves(run.steps)
        )
        return replace(self, runs=tuple(runs))

    @cached_property
    def called(self) -> dict[str, set[str]]:
        """What experiments call its runs, by experiment; of one's own runs too."""
        names: dict[str, set[str]] = {}
        for run in self.runs:
            for experiment, arm in ((run.experiment, run.arm), *run.elsewhere):
                names.setdefault(experiment, set()).add(arm)
        return names

    @property
    def done(self) -> list[RunRecord]:
        return [run for run in self.runs if run.status == "done"]

    @property
    def diverged(self) -> list[RunRecord]:
        return [run for run in self.runs if run.status == "diverged"]

    @property
    def unfinished(self) -> list[RunRecord]:
        return [run for run in self.runs if run.status not in FINISHED]


@dataclass(frozen=True)
class Task:
    """Cells of one model on the same data for the same budget: what may be held against each other."""

    key: str
    model: str
    data: str
    budget: Budget
    cells: tuple[Cell, ...]
    said: str = ""  # options of the data by which it differs from other tasks

    @property
    def title(self) -> str:
        """`mnist_mlp on digits, 10 epochs`."""
        fidelities = sorted({str(cell.values[FIDELITY]) for cell in self.cells} - {ADHOC})
        words = [f"{self.model} on {self.data or 'no data'}", self.said, self.length, "/".join(fidelities)]
        return ", ".join(word for word in words if word)

    @property
    def length(self) -> str:
        """`10 epochs`."""
        count, unit = self.budget
        return f"{count} {unit if count != 1 else unit.removesuffix('s')}"

    @property
    def runs(self) -> list[RunRecord]:
        return [run for cell in self.cells for run in cell.runs]

    @cached_property
    def monitored(self) -> Mapping[str, str]:
        """What the best of a run is chosen by: split, metric, goal; nothing where its runs monitor different ones."""
        found = {tuple(run.monitor[key] for key in ("split", "metric", "goal")) for run in self.runs}
        return dict(zip(("split", "metric", "goal"), found.pop(), strict=True)) if len(found) == 1 else {}

    @cached_property
    def differing(self) -> dict[str, list[Any]]:
        """The keys of the configuration that differ between its cells."""
        return configuration.differing(cell.values for cell in self.cells)

    @cached_property
    def arm_keys(self) -> tuple[str, ...]:
        """What tells arms apart, unless asked otherwise: the normalizer, its options, fidelity; else all there is."""
        own = [key for key in self.differing if key.partition(".")[0] in (configuration.ARM_GROUP, FIDELITY)]
        if own == [FIDELITY]:
            own = [configuration.ARM_GROUP, FIDELITY]  # the same from two sources: still told by its name
        return tuple(own or self.differing)

    def arms(self, by: Sequence[str]) -> dict[str, str]:
        """The name of each cell's arm, by the cell's key: what these keys say, or its name in its experiment.

        The latter where all its runs are of experiments and no other cell of the same facets has it too. Of experiments
        that call a cell by different names, the one that has most of these cells names it.
        """
        names = {cell.key: self._named(cell, by) for cell in self.cells}
        if tuple(by) != self.arm_keys:
            return names
        facets = [key for key in self.differing if key not in by]
        filed: dict[tuple[str, str], set[str]] = {}  # the keys of the cells that have this name in one place
        own: dict[str, tuple[str, str]] = {}
        cells_of = Counter(experiment for cell in self.cells for experiment in cell.called)
        for cell in self.cells:
            if not cell.runs or ADHOC in cell.called:
                continue
            arms = set[str]().union(*cell.called.values())
            if len(arms) > 1:
                arms = cell.called[min(cell.called, key=lambda experiment: (-cells_of[experiment], experiment))]
            if len(arms) == 1:
                own[cell.key] = cell.label(facets), next(iter(arms))
                filed.setdefault(own[cell.key], set()).add(cell.key)
        if all(len(keys) == 1 for keys in filed.values()):
            taken = {name for key, name in names.items() if key not in own}
            names |= {key: name for key, (_, name) in own.items() if name not in taken}
        return names

    def _named(self, cell: Cell, by: Sequence[str]) -> str:
        """The choice alone for a group, key and value for an option; options that differ among cells of its choice."""
        words = [] if by else [cell.norm]  # of one that stands alone
        for key in by:
            group, dot, _ = key.partition(".")
            alike = [c for c in self.cells if not dot or c.values.get(group) == cell.values.get(group)]
            if key not in cell.values or (dot and len({configuration.text(c.values.get(key)) for c in alike}) == 1):
                continue
            value = cell.shown(key)
            words.append(value if key in configuration.GROUPS else f"{key}={value}")
        return " ".join(words) or "all"

    def with_runs(self, loaded: Mapping[str, RunRecord]) -> Task:
        """The same with these in the place of the runs of their ids: with their records."""
        return replace(self, cells=tuple(cell.with_runs(loaded) for cell in self.cells))


def tasks(runs: Sequence[RunRecord]) -> list[Task]:
    """The runs by task and cell, the task with the most runs first; probes, which train nothing, last.

    Runs need no records for it.
    """
    groups: dict[tuple[str, ...], dict[str, list[RunRecord]]] = {}
    values: dict[str, Mapping[str, Any]] = {}
    data: dict[tuple[str, ...], Mapping[str, Any]] = {}
    known: dict[tuple[int, str, Budget], list[RunRecord]] = {}  # runs that are told apart by their seeds alone
    flats = configuration.flats([run.config for run in runs])
    for run, plain in zip(runs, flats, strict=True):
        budget = (run.epochs, "epochs") if run.epochs else (run.steps, "updates")
        what = id(plain), run.fidelity, budget
        if what not in known:
            flat = {**plain, FIDELITY: run.fidelity}
            own = {key: value for key, value in flat.items() if key.partition(".")[0] == "data"}
            place = (str(flat.get("model", "")), configuration.fingerprint(own), *map(str, budget))
            cell = configuration.fingerprint([place, flat])
            values[cell], data[place] = flat, own
            known[what] = groups.setdefault(place, {}).setdefault(cell, [])
        known[what].append(run)
    found = []
    for place, members in groups.items():
        model, _, count, unit = place
        name = data[place].get("data", "")
        alike = [data[other] for other in groups if other[0] == model and data[other].get("data", "") == name]
        said = configuration.label(data[place], configuration.differing(alike), configuration.numbers(alike))
        among = configuration.numbers(values[cell] for cell in members)
        cells = tuple(
            Cell(_short(cell), values[cell], _by_seed(group), among, _twice(group)) for cell, group in members.items()
        )
        found.append(Task(_short(configuration.fingerprint(place)), model, str(name), (int(count), unit), cells, said))
    return sorted(found, key=lambda task: (configuration.is_probe(task.model), -len(task.runs)))


def with_longer(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs, and of each length those of longer ones that went through it, of the seeds that have none that short.

    The lengths are those of what differs in its normalizer alone: a comparison keeps what somebody has gone on with.
    Runs need no records for it.
    """
    alike: dict[tuple[str, str, bool], dict[str, dict[int, list[RunRecord]]]] = {}  # by configuration and length
    known: dict[int, tuple[str, str]] = {}  # without its normalizer, and whole
    for run, flat in zip(runs, configuration.flats([run.config for run in runs]), strict=True):
        if configuration.is_probe(str(flat.get("model", ""))):
            continue  # has no shorter one in it
        if id(flat) not in known:
            rest = {key: value for key, value in flat.items() if key.partition(".")[0] != configuration.ARM_GROUP}
            known[id(flat)] = configuration.fingerprint(rest), configuration.fingerprint(flat)
        others, whole = known[id(flat)]
        place = alike.setdefault((others, run.fidelity, bool(run.epochs)), {})
        place.setdefault(whole, {}).setdefault(run.steps, []).append(run)
    found = list(runs)
    for place in alike.values():
        asked = {steps: own[0].epochs for lengths in place.values() for steps, own in lengths.items()}
        for lengths in place.values() if len(asked) > 1 else ():
            for steps, epochs in asked.items():
                found += _shorter(lengths, epochs, steps)
    return found


def _shorter(lengths: Mapping[int, Sequence[RunRecord]], epochs: int, steps: int) -> Iterator[RunRecord]:
    """What was asked for longer, cut to this length, of the seeds that were not asked for it."""
    had = {run.seed for run in lengths.get(steps, ()) if run.status in FINISHED}
    for length in sorted(length for length in lengths if length > steps):
        for run in sorted(lengths[length], key=lambda run: (run.seed, run.id)):
            if run.seed not in had and run.status in FINISHED and _went_through(run, epochs, steps):
                had.add(run.seed)
                yield run.cut(steps)


def _cut(run: RunRecord, steps: int) -> RunRecord:
    """As `RunRecord.cut`, made once."""
    key = "cut", steps
    if key not in run.known:
        run.known[key] = run.cut(steps)
    found: RunRecord = run.known[key]
    return found


def _went_through(run: RunRecord, epochs: int, steps: int) -> bool:
    """Whether a longer run was evaluated at this length as one that ends there: by its curve, or its configuration."""
    asked = {**EARLIER, **run.config.get("eval", {})}
    every = asked["every"]
    if asked["test"] != "each" or type(every) is not int or every < 1:
        return False
    if run.records and run.status != "diverged":
        return run.serves(steps)
    length = steps if asked["unit"] == "updates" else epochs
    return (length > 0 and length % every == 0) or steps in asked["also_after"]


def _by_seed(runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """One run a seed: a finished one before others."""
    ranked = sorted(runs, key=lambda run: (run.seed, run.status not in FINISHED, run.id))
    chosen = {run.seed: run for run in reversed(ranked)}
    return tuple(chosen[seed] for seed in sorted(chosen))


def _twice(runs: Sequence[RunRecord]) -> tuple[int, ...]:
    """Seeds with several finished runs: ids differ where configurations do not, so the code did, such as one's own."""
    counts = Counter(run.seed for run in runs if run.status in FINISHED)
    return tuple(sorted(seed for seed, count in counts.items() if count > 1))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
