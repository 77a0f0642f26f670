"""From parts to runs: series, labels, what is refused, what is counted."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from normbench.draw.text import hidden, visible
from normbench.errors import BadInput, unknown
from normbench.imports import words
from normbench.imports.curves import Points, points_of
from normbench.imports.log import refuse
from normbench.imports.map_keys import CLOCKS, Clock, Clocks, Label, Map, Series, text
from normbench.imports.parts import Part, check_column, found_in
from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.run import Run


class Target(NamedTuple):  # of a series, in a curve
    split: str
    metric: str
    mode: str


@dataclass(frozen=True)
class LoggedRun:
    """A run before it is a record; its curves each with their entry of the map."""

    key: str
    parts: Sequence[Part]
    labels: Mapping[str, Any]  # arm, seed, control and axes
    curves: dict[Target, tuple[Series, Points]]


def runs(name: str, parts: Sequence[Part], map: Map) -> tuple[list[Run], list[str]]:
    """The records, sorted by the key of their run, and the keys of runs without any series of the map."""
    by_key, empty = by_run(parts, map)
    used = [entry for part in parts for entry, _ in entries(part, map)]
    for entry in map.series:
        if entry not in used:
            names = sorted({name for part in parts for name in part.names})
            raise unknown(f"no run has the series '{entry.name}' of the map.", entry.name, names)
    seeds = _seeds(by_key, map)
    logged = [_logged_run(key, by_key[key], seeds[key], map) for key in sorted(by_key)]
    if map.length:
        _cut_to_one_length(logged, map.length)
    records = [_record(name, run, map) for run in logged]
    _refuse_twins(records)
    return records, empty


def by_run(parts: Sequence[Part], map: Map) -> tuple[dict[str, list[Part]], list[str]]:
    """The parts of each run that has a series of the map, and the keys of the others."""
    by_key: dict[str, list[Part]] = defaultdict(list)
    for part in parts:
        by_key[part.key].append(part)
    with_series = {part.key for part in parts if any(True for _ in entries(part, map))}
    empty = [key for key in by_key if key not in with_series]
    return {key: by_key[key] for key in by_key if key in with_series}, empty


def _logged_run(key: str, parts: Sequence[Part], seed: int, map: Map) -> LoggedRun:
    axes = (map.labels and map.labels.axes) or {}
    labels = {
        "arm": _label("arm", parts, map),
        "seed": seed,
        "control": _label("control", parts, map),
        "axes": {axis: _number(value(label, parts, axis)) for axis, label in axes.items()},
    }
    return LoggedRun(key, parts, labels, _curves(key, parts, map))


def _curves(key: str, parts: Sequence[Part], map: Map) -> dict[Target, tuple[Series, Points]]:
    """Every series that the map names and the run has. NormbenchError for two of one split and metric."""
    columns: dict[Target, tuple[Series, str, list[Part]]] = {}
    for part in parts:
        for entry, name in entries(part, map):
            metric = entry.metric or part.groups.get("metric") or words.bare(name)
            split = value(entry.split, [part], "split") if isinstance(entry.split, Label) else entry.split
            target = Target(split, checked(metric, "metric", key), entry.mode or "logged")
            _, first_name, of_target = columns.setdefault(target, (entry, name, []))
            if first_name != name and not part.groups:
                raise refuse(f"run {key}", f"{first_name} and {name} are both {metric} of {split}. Map one of them.")
            of_target.append(part)
    curves = {}
    for target, (entry, name, of_target) in sorted(columns.items(), key=lambda item: item[0]):
        points = points_of(name, of_target, entry.x or _tool_clock(name, of_target) or map.x, map)
        if len(points.value):
            curves[target] = entry, points
    if not curves:
        names = sorted({name for _, name, _ in columns.values()})
        raise refuse(f"run {key}", f"its series have no value: {', '.join(names)}.")
    return curves


def entries(part: Part, map: Map) -> Iterator[tuple[Series, str]]:
    """The columns of a part that are series: those named as such first, then those that fit a glob and are no clock."""
    for name in part.names:
        fitting = [entry for entry in map.series if entry.name == name]
        if not fitting and not words.is_clock(name):
            fitting = [entry for entry in map.series if fnmatchcase(name, entry.name)]
        if fitting:
            yield fitting[0], name


def _tool_clock(name: str, parts: Sequence[Part]) -> Clocks | None:
    """The clock that the tool has for a series: W&B's define_metric."""
    clocks = {part.log.clocks.get(name) for part in parts} - {None}
    return Clocks(step=Clock(key=clocks.pop())) if len(clocks) == 1 else None


# --- labels ----------------------------------------------------------------------------------------------------------


def value(label: Label, parts: Sequence[Part], role: str) -> str:
    """The one text that a label has in all parts of a run. NormbenchError where there is none, or another."""
    texts = {label.rename(value): None for value in _values(label, parts, role)}
    if len(texts) != 1:
        several = " and ".join(sorted(texts)[:3]) or "no value"
        hint = " What makes one run? Write run: [COLUMNS] into the map." if texts and label.column else ""
        raise refuse(f"run {parts[0].key}", f"{role} has {several} by {label.place[0]}: {label.place[1]}.{hint}")
    return checked(next(iter(texts)), role, parts[0].key)


def checked(word: str, role: str, key: str) -> str:
    """A label, which pages and terminals show."""
    if any(map(hidden, word)):
        raise refuse(f"run {visible(key)}", f"{role} {visible(word)} has invisible characters: rename it.")
    return word


def _values(label: Label, parts: Sequence[Part], role: str) -> list[Any]:
    kind, name = label.place
    if kind == "value":
        return [name]
    if kind == "path":
        return [found_in(part.log.path, name, role) for part in parts]
    if kind == "column":
        for part in parts:
            check_column(part.log, part.table, name)
        values = [value for part in parts for value in part.table.column(name).unique().to_pylist()]
        return [value for value in values if value is not None]
    settings = _settings(parts)
    if name not in settings:
        raise unknown(f"run {parts[0].key}: {role}: '{name}' is no {kind}.", name, settings)
    return [settings[name]]


def _settings(parts: Sequence[Part]) -> dict[str, Any]:
    """Configuration and hyperparameters of a run: those of its last file count."""
    return {key: value for part in parts for key, value in part.log.config.items()}


def _label(role: str, parts: Sequence[Part], map: Map) -> str:
    label = getattr(map.labels, role, None)
    if label is not None:
        return value(label, parts, role)
    groups = {part.groups[role] for part in parts if role in part.groups}
    return groups.pop() if len(groups) == 1 else ""


def _seeds(by_key: Mapping[str, Sequence[Part]], map: Map) -> dict[str, int]:
    label = map.labels.seed if map.labels else None
    seeds, counted = dict[str, int](), Counter[Any]()
    for key, parts in sorted(by_key.items()):
        if isinstance(label, str):  # count: within a cell; none: over all runs
            cell = () if label == "none" else (_label("arm", parts, map), _label("control", parts, map))
            counted[cell] += 1
            seeds[key] = counted[cell]
        else:
            seeds[key] = seed(_label("seed", parts, map), key)
    return seeds


def seed(word: str, key: str) -> int:  # 3, 03, 3.0
    try:
        number = float(word)
        if number.is_integer() and abs(number) < 2**53:
            return int(number)
    except ValueError:
        pass
    raise refuse(f"run {key}", f"seed '{word}' is no whole number.")


def _number(word: str) -> Any:
    """The value of an axis: a number where it is one."""
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        if abs(number) < float("inf"):
            return number
    return word


def _refuse_twins(runs: Sequence[Run]) -> None:
    key_of_cell: dict[Any, Any] = {}
    for run in runs:
        cell, key = (run.arm, run.seed, run.control, text(dict(run.axes))), imported.log_of(run)
        if (twin := key_of_cell.setdefault(cell, key)) != key:
            raise BadInput(
                f"{twin} and {key} are both {run.arm or 'the arm without a name'}, seed {run.seed}"
                f"{f', control {run.control}' if run.control else ''}. Tell them apart under labels: in the map, or "
                "import one of them."
            )


# --- records ---------------------------------------------------------------------------------------------------------


def _cut_to_one_length(runs: Sequence[LoggedRun], rule: str) -> None:
    """Curves that end where the shortest one of their split and metric does; diverged ones end where they will."""
    ends: dict[Target, dict[int, str]] = defaultdict(dict)  # each last step with the key of a run
    for run in runs:
        for target, (_, points) in run.curves.items():
            if not points.diverged:
                ends[target][int(points.step[-1])] = run.key
    for target, keys in ends.items():
        if rule == "equal" and len(keys) > 1:
            low, high = min(keys), max(keys)
            raise BadInput(
                f"{target.split} {target.metric} ends at {low} in {keys[low]}, at {high} in {keys[high]}: "
                "length: common cuts all."
            )
    for run in runs:
        for target, (entry, points) in run.curves.items():
            if not points.diverged:
                run.curves[target] = entry, points.until(min(ends[target]))


def _record(name: str, run: LoggedRun, map: Map) -> Run:
    monitor = _monitor(run, map)
    lasts = {target: int(points.step[-1]) for target, (_, points) in run.curves.items()}
    monitored = (monitor["split"], monitor["metric"]) if monitor else None
    watched = [last for target, last in lasts.items() if target[:2] == monitored]
    diverged = [f"{target.split} {target.metric}" for target, (_, points) in run.curves.items() if points.diverged]
    logs = {part.log.file["path"]: part.log for part in run.parts}
    counted = sum((points.counted for _, points in run.curves.values()), Counter())
    counted["lost_bytes"] = sum(log.lost for log in logs.values())
    x = next((entry.x for entry, _ in run.curves.values() if entry.x), map.x)
    return imported.record(
        name,
        run.key,
        **run.labels,
        curve=Curve.of_columns(_block(target, points) for target, (_, points) in run.curves.items()),
        steps=max(watched or lasts.values()),
        diverged=f"{', '.join(diverged)} ends in no finite number" if diverged else "",
        monitor=monitor,
        metrics=_metrics(run),
        about={
            "source": run.parts[0].log.source,
            "files": [dict(log.file) for _, log in sorted(logs.items())],
            "clocks": [clock for clock in CLOCKS if x and getattr(x, clock)] or ["step"],  # the tool's own is one
            "hparams": _settings(run.parts),
            **({"counted_seeds": True} if map.labels and isinstance(map.labels.seed, str) else {}),
            "counted": {key: count for key, count in sorted(counted.items()) if count},
        },
    )


def _metrics(run: LoggedRun) -> dict[str, dict[str, Any]]:
    """What the map declares of each metric, for any of its splits."""
    metrics: dict[str, dict[str, Any]] = {}
    for target, (entry, _) in run.curves.items():
        facts = {key: getattr(entry, key) for key in ("goal", "unit", "log")}
        metrics.setdefault(target.metric, {}).update({key: fact for key, fact in facts.items() if fact is not None})
    return metrics


def written(node: Any) -> Any:
    """A map, or a part of it, as its file has it."""
    if isinstance(node, Label):
        return {node.place[0]: node.place[1], **node.renames}
    if is_dataclass(node):
        node = {key: value for key, value in vars(node).items() if value not in (None, ())}
    if isinstance(node, Mapping):
        return {key: written(value) for key, value in node.items()}
    return [*map(written, node)] if isinstance(node, tuple) else node


def _monitor(run: LoggedRun, map: Map) -> dict[str, str] | None:
    if map.monitor is None:
        return None
    split, metric = map.monitor.split, map.monitor.metric
    entries = {target[:2]: entry for target, (entry, _) in run.curves.items()}
    if (split, metric) not in entries:
        names = [" ".join(pair) for pair in entries]
        raise unknown(f"run {run.key} has no {split} {metric}, which the map monitors.", f"{split} {metric}", names)
    if not (goal := entries[split, metric].goal):
        raise BadInput(f"monitor: the series of {split} {metric} needs a goal, min or max.")
    return {"split": split, "metric": metric, "goal": goal}


def _block(target: Target, points: Points) -> dict[str, Any]:
    columns: dict[str, Any] = {"step": _array(points.step)}
    if points.epoch is not None:
        is_whole = (points.epoch == np.rint(points.epoch)).all()
        columns["epoch"] = _array(points.epoch.astype(np.int64) if is_whole else points.epoch)
    columns[target.metric] = _array(points.value)
    return {"split": target.split, "mode": target.mode, "columns": columns}


def _array(values: np.ndarray) -> Any:
    """Whole numbers or floats; a list where some are not finite."""
    if np.isfinite(values).all():
        return array("q" if values.dtype == np.int64 else "d", values.tobytes())
    names = {np.inf: "Infinity", -np.inf: "-Infinity"}
    return [number if np.isfinite(number) else names.get(number, "NaN") for number in values.tolist()]
