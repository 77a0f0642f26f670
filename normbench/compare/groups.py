"""Which runs may be averaged (a cell) and which cells may be compared (a task)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from normbench.compare import configuration
from normbench.config.plan import ADHOC
from normbench.runs.run import FINISHED, NO_MONITOR, Run

FIDELITY = "fidelity"
Budget = tuple[int, str]


@dataclass(frozen=True)
class Cell:
    """Runs of one configuration that differ in their seed alone, by seed; `values` is that configuration, flat.

    Its fidelity is among the values: reduced runs are not averaged with those at the paper's fidelity.
    `among`: the numbers of all cells of its task, by key. `repeated_seeds`: the seeds with several finished runs, made
    by different code, of which one counts. `left_out`: the seeds of its runs that a reader leaves out.
    """

    key: str
    values: Mapping[str, Any]
    runs: tuple[Run, ...]
    among: Mapping[str, set[float]]
    repeated_seeds: tuple[int, ...] = ()
    left_out: frozenset[int] = frozenset()

    @property
    def norm(self) -> str:
        """Its normalizer."""
        return str(self.values.get(configuration.ARM_GROUP, ""))

    def format_value(self, key: str) -> str:
        """Its value with as many digits as distinguish it from those of the other cells."""
        return configuration.short(self.values.get(key), self.among.get(key, ()))

    def label(self, keys: Iterable[str]) -> str:
        """Its values of these keys: `optim.lr=0.001`."""
        return configuration.label(self.values, keys, self.among)

    def with_runs(self, loaded: Mapping[str, Run]) -> Cell:
        """The cell with its runs replaced by those loaded."""
        return replace(self, runs=tuple(loaded.get(run.id, run) for run in self.runs))

    @cached_property
    def arm_names(self) -> dict[str, set[str]]:
        """The names of its arm, by experiment."""
        names: dict[str, set[str]] = {}
        for run in self.runs:
            for experiment, arm in ((run.experiment, run.arm), *run.elsewhere):
                names.setdefault(experiment, set()).add(arm)
        return names

    @property
    def done(self) -> list[Run]:
        return [run for run in self.runs if run.status == "done"]

    @cached_property
    def paces(self) -> list[float]:
        """Seconds an update of each run that is done."""
        return [run.seconds / run.steps for run in self.done if run.seconds and run.steps]

    @property
    def diverged(self) -> list[Run]:
        return [run for run in self.runs if run.status == "diverged"]

    @property
    def unfinished(self) -> list[Run]:
        return [run for run in self.runs if run.status not in FINISHED]

    @property
    def under_way(self) -> list[Run]:
        return [run for run in self.runs if run.status == "running"]


@dataclass(frozen=True)
class Task:
    """Cells of one model on the same data for the same budget: they may be compared.

    `fitting`: which of further runs fit the filter behind them.
    """

    key: str
    model: str
    data: str
    budget: Budget
    cells: tuple[Cell, ...]
    data_options: str = ""  # the options of its data that other tasks have otherwise
    other_lengths: tuple[str, ...] = ()  # of further runs of its experiments, which another program made
    fitting: Callable[[Sequence[Run]], Sequence[Run]] = lambda further: further

    @property
    def title(self) -> str:
        """`mnist_mlp on digits, 10 epochs`."""
        fidelities = sorted({str(cell.values[FIDELITY]) for cell in self.cells} - {ADHOC})
        where = "" if all(run.logged for run in self.runs) else f" on {self.data or 'no data'}"
        words = [f"{self.model}{where}", self.data_options, _length(self.budget), "/".join(fidelities)]
        return ", ".join(word for word in words if word)

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    @property
    def experiments(self) -> list[str]:
        """Those that its runs are of, `ln2016/fig6`, that of the most first."""
        counts = Counter(name for run in self.runs for name in {run.experiment, *(name for name, _ in run.elsewhere)})
        return sorted(counts.keys() - {ADHOC}, key=lambda name: (-counts[name], name))

    @cached_property
    def monitored(self) -> Mapping[str, str]:
        """The metric that chooses the best of a run: split, metric, goal; empty where its runs differ in it."""
        monitors = {tuple(run.monitor[key] for key in ("split", "metric", "goal")) for run in self.runs}
        monitors -= {tuple(NO_MONITOR.values())} if len(monitors) == 1 else set()
        return dict(zip(("split", "metric", "goal"), monitors.pop(), strict=True)) if len(monitors) == 1 else {}

    @property
    def has_best(self) -> bool:
        """Whether any run says which metric chooses its best evaluation."""
        return any(run.monitor["metric"] for run in self.runs)

    @cached_property
    def differing(self) -> dict[str, list[Any]]:
        """The keys of the configuration that differ between its cells."""
        return configuration.differing(cell.values for cell in self.cells)

    @cached_property
    def arm_keys(self) -> tuple[str, ...]:
        """The keys that name an arm by default: the normalizer, its options, fidelity; else all that differ."""
        keys = [key for key in self.differing if key.partition(".")[0] in (configuration.ARM_GROUP, FIDELITY)]
        if keys == [FIDELITY]:  # one normalizer at two fidelities: its name is part of the arm's
            keys = [configuration.ARM_GROUP, FIDELITY]
        return tuple(keys or self.differing)

    def arms(self, by: Sequence[str]) -> dict[str, str]:
        """The name of each cell's arm, by the cell's key: the values of these keys, or its name in its experiment.

        The latter where all its runs are of experiments and no other cell with the same facets has the same name. If
        experiments have different names for a cell, the experiment with most of these cells decides.
        """
        names = {cell.key: self.arm_name(cell, by) for cell in self.cells}
        if tuple(by) != self.arm_keys:
            return names
        sizes = Counter(experiment for cell in self.cells for experiment in cell.arm_names)
        filed: dict[str, str] = {}
        for cell in self.cells:
            largest = min(cell.arm_names, key=lambda experiment: (-sizes[experiment], experiment), default=ADHOC)
            if ADHOC not in cell.arm_names and len(arm_names := cell.arm_names.get(largest, ())) == 1:
                filed[cell.key] = next(iter(arm_names))
        facets = [key for key in self.differing if key not in by]
        places = {(cell.label(facets), filed[cell.key]) for cell in self.cells if cell.key in filed}
        taken = {name for key, name in names.items() if key not in filed}
        return names | {k: name for k, name in filed.items() if len(places) == len(filed) and name not in taken}

    def arm_name(self, cell: Cell, by: Sequence[str]) -> str:
        """For a group its choice alone; for an option that differs among the cells of this choice, key and value."""
        words = [] if by else [cell.norm]  # the only cell of its task
        for key in by:
            group, dot, _ = key.partition(".")
            alike = [c for c in self.cells if not dot or c.values.get(group) == cell.values.get(group)]
            if key not in cell.values or (dot and len({configuration.text(c.values.get(key)) for c in alike}) == 1):
                continue
            value = cell.format_value(key)
            words.append(value if key in configuration.GROUPS else f"{key}={value}")
        return " ".join(words) or "all"

    def among(self, every: Sequence[Task], fitting: Callable[[Sequence[Run]], Sequence[Run]]) -> Task:
        """The task with the seeds of its runs in `every` task that a reader leaves out."""
        seeds = {cell.key: {run.seed for run in cell.runs} for task in every for cell in task.cells}
        cells = (
            replace(cell, left_out=frozenset(seeds.get(cell.key, set()) - {run.seed for run in cell.runs}))
            for cell in self.cells
        )
        return replace(self, cells=tuple(cells), fitting=fitting)

    def with_runs(self, loaded: Mapping[str, Run]) -> Task:
        """The task with its runs replaced by those loaded, which have their records."""
        return replace(self, cells=tuple(cell.with_runs(loaded) for cell in self.cells))


def tasks(runs: Sequence[Run]) -> list[Task]:
    """The runs by task and cell, the task with the most runs first; probes, which train nothing, last.

    Runs need no records for it; damaged ones are in none.
    """
    groups: dict[tuple[str, ...], dict[str, list[Run]]] = {}
    values: dict[str, Mapping[str, Any]] = {}
    data: dict[tuple[str, ...], Mapping[str, Any]] = {}
    same: dict[tuple[int, str, Budget], list[Run]] = {}  # runs that differ only in their seed
    runs = [run for run in runs if run.status != "damaged"]
    lengths = _logged_lengths(runs)
    flats = configuration.flats([run.config for run in runs])
    for run, config in zip(runs, flats, strict=True):
        budget = _budget(run)
        if run.logged and run.status == "diverged":  # it ends where it diverged, not where it was to end
            budget = max(lengths[run.experiment])
        # a battery's smoke runs are like others of the same configuration
        fidelity = ADHOC if (run.experiment, run.fidelity) == (ADHOC, "smoke") else run.fidelity
        key = id(config), fidelity, budget
        if key not in same:
            flat = {**config, FIDELITY: fidelity}
            data_options = {key: value for key, value in flat.items() if key.partition(".")[0] == "data"}
            place = (str(flat.get("model", "")), configuration.fingerprint(data_options), *map(str, budget))
            cell = configuration.fingerprint([place, flat])
            values[cell], data[place] = flat, data_options
            same[key] = groups.setdefault(place, {}).setdefault(cell, [])
        same[key].append(run)
    all_tasks = []
    for place, members in groups.items():
        model, _, count, unit = place
        name = data[place].get("data", "")
        alike = [data[other] for other in groups if other[0] == model and data[other].get("data", "") == name]
        options = configuration.label(data[place], configuration.differing(alike), configuration.numbers(alike))
        among = configuration.numbers(values[cell] for cell in members)
        cells = tuple(
            Cell(_short(cell), values[cell], _by_seed(group), among, _repeated_seeds(group))
            for cell, group in members.items()
        )
        others = {n for c in cells for run in c.runs for n in lengths.get(run.experiment, ())} - {(int(count), unit)}
        task = _short(configuration.fingerprint(place)), model, str(name), (int(count), unit), cells
        all_tasks.append(Task(*task, options, tuple(map(_length, sorted(others)))))
    return sorted(all_tasks, key=lambda task: (configuration.is_probe(task.model), -len(task.runs)))


def _budget(run: Run) -> Budget:
    return (run.epochs, "epochs") if run.epochs else (run.steps, "updates")


def _length(budget: Budget) -> str:
    """`10 epochs`."""
    count, unit = budget
    return f"{count} {unit if count != 1 else unit.removesuffix('s')}"


def _logged_lengths(runs: Sequence[Run]) -> dict[str, set[Budget]]:
    """The lengths of runs that another program made, by experiment: of those that did not diverge, if any."""
    lengths: dict[str, set[Budget]] = {}
    logged = [run for run in runs if run.logged]
    for run in (run for run in logged if run.status != "diverged"):
        lengths.setdefault(run.experiment, set()).add(_budget(run))
    for run in (run for run in logged if run.experiment not in lengths):
        lengths[run.experiment] = {max(_budget(other) for other in logged if other.experiment == run.experiment)}
    return lengths


def _by_seed(runs: Sequence[Run]) -> tuple[Run, ...]:
    """One run per seed, preferably a finished one."""
    ranked = sorted(runs, key=lambda run: (run.seed, run.status not in FINISHED, run.id))
    chosen = {run.seed: run for run in reversed(ranked)}
    return tuple(chosen[seed] for seed in sorted(chosen))


def _repeated_seeds(runs: Sequence[Run]) -> tuple[int, ...]:
    """Seeds with several finished runs of one configuration: their ids differ because the code did."""
    counts = Counter(run.seed for run in runs if run.status in FINISHED)
    return tuple(sorted(seed for seed, count in counts.items() if count > 1))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
