"""From parts to runs: series, labels, what is refused, what is counted."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from normbench.draw.text import hidden, visible
from normbench.errors import BadInput, unknown
from normbench.imports import words
from normbench.imports.curves import Points, points
from normbench.imports.log import refuse
from normbench.imports.map_keys import CLOCKS, Clock, Clocks, Label, Map, Series, text
from normbench.imports.parts import Part, check_column, found_in
from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.run import Run

Place = tuple[str, str, str]  # split, metric and mode


@dataclass(frozen=True)
class Found:
    """A run before it is a record: its curves by split and metric, each with its entry of the map."""

    key: str
    parts: Sequence[Part]
    arm: str
    seed: int
    control: str
    axes: Mapping[str, Any]
    curves: Mapping[Place, tuple[Series, Points]]


def runs(name: str, parts: Sequence[Part], map: Map) -> tuple[list[Run], list[str]]:
    """The records, sorted by the key of their run, and the keys of runs without any series of the map."""
    by_key, empty = by_run(parts, map)
    there = [entry for part in parts for entry, _ in entries(part, map)]
    for entry in map.series:
        if entry not in there:
            names = sorted({name for part in parts for name in part.names})
            raise unknown(f"no run has the series '{entry.name}' of the map.", entry.name, names)
    seeds = _seeds(by_key, map)
    found = [_found(key, by_key[key], seeds[key], map) for key in sorted(by_key)]
    if map.length:
        found = [*_of_one_length(found, map.length)]
    records = [_record(name, run, map) for run in found]
    _refuse_twins(records)
    return records, empty


def by_run(parts: Sequence[Part], map: Map) -> tuple[dict[str, list[Part]], list[str]]:
    """The parts of each run that has a series of the map, and the keys of the others."""
    found: dict[str, list[Part]] = defaultdict(list)
    for part in parts:
        found[part.key].append(part)
    empty = [key for key, own in found.items() if not any(True for part in own for _ in entries(part, map))]
    return {key: own for key, own in found.items() if key not in {*empty}}, empty


def _found(key: str, own: Sequence[Part], seed: int, map: Map) -> Found:
    labels = map.labels
    axes = {} if labels is None or labels.axes is None else labels.axes
    return Found(
        key,
        own,
        _label("arm", own, map),
        seed,
        _label("control", own, map),
        {axis: _number(value(label, own, axis)) for axis, label in axes.items()},
        _curves(key, own, map),
    )


def _curves(key: str, own: Sequence[Part], map: Map) -> dict[Place, tuple[Series, Points]]:
    """Every series that the map names and the run has. NormbenchError for two of one split and metric."""
    chosen: dict[Place, tuple[Series, str, list[Part]]] = {}
    for part in own:
        for entry, name in entries(part, map):
            metric = entry.metric or part.groups.get("metric") or words.bare(name)
            split = value(entry.split, [part], "split") if isinstance(entry.split, Label) else entry.split
            place = split, seen(metric, "metric", key), entry.mode or "logged"
            there = chosen.setdefault(place, (entry, name, []))
            if there[1] != name and not part.groups:
                raise refuse(f"run {key}", f"{there[1]} and {name} are both {metric} of {place[0]}. Map one of them.")
            there[2].append(part)
    found = {
        place: (entry, points(name, parts, entry.x or _own_clock(name, parts) or map.x, map))
        for place, (entry, name, parts) in sorted(chosen.items(), key=lambda one: one[0])
    }
    if not any(len(own.value) for _, own in found.values()):
        raise refuse(
            f"run {key}", f"its series have no value: {', '.join(sorted({one[1] for one in chosen.values()}))}."
        )
    return {place: one for place, one in found.items() if len(one[1].value)}


def entries(part: Part, map: Map) -> Iterator[tuple[Series, str]]:
    """The columns of a part that are series: those named as such first, then those that fit a glob and are no clock."""
    for name in part.names:
        found = [entry for entry in map.series if entry.name == name]
        if not found and not words.is_clock(name):
            found = [entry for entry in map.series if fnmatchcase(name, entry.name)]
        if found:
            yield found[0], name


def _own_clock(name: str, parts: Sequence[Part]) -> Clocks | None:
    """What the tool has as the clock of a series: W&B's define_metric."""
    own = {part.log.clocks.get(name) for part in parts} - {None}
    return Clocks(step=Clock(key=own.pop())) if len(own) == 1 else None


# --- labels ----------------------------------------------------------------------------------------------------------


def value(label: Label, own: Sequence[Part], what: str) -> str:
    """The one text that a label has in all parts of a run. NormbenchError where there is none, or another."""
    found = {label.rename(one): None for one in _values(label, own, what)}
    if len(found) != 1:
        several = " and ".join(sorted(found)[:3]) or "no value"
        raise refuse(f"run {own[0].key}", f"{what} has {several} by {label.place[0]}: {label.place[1]}.")
    return seen(next(iter(found)), what, own[0].key)


def seen(word: str, what: str, key: str) -> str:
    """A label, which pages and terminals show."""
    if any(map(hidden, word)):
        raise refuse(f"run {visible(key)}", f"{what} {visible(word)} has invisible characters: rename it.")
    return word


def _values(label: Label, own: Sequence[Part], what: str) -> list[Any]:
    kind, name = label.place
    if kind == "value":
        return [name]
    if kind == "path":
        return [found_in(part.log.path, name, what) for part in own]
    if kind == "column":
        for part in own:
            check_column(part.log, part.table, name)
        found = [one for part in own for one in part.table.column(name).unique().to_pylist()]
        return [one for one in found if one is not None]
    settings = _settings(own)
    if name not in settings:
        raise unknown(f"run {own[0].key}: {what}: '{name}' is no {kind}.", name, settings)
    return [settings[name]]


def _settings(own: Sequence[Part]) -> dict[str, Any]:
    """The configuration, hyperparameters of a run: those of its last file count."""
    return {key: one for part in own for key, one in part.log.config.items()}


def _label(what: str, own: Sequence[Part], map: Map) -> str:
    label = getattr(map.labels, what, None)
    if label is not None:
        return value(label, own, what)
    groups = {part.groups[what] for part in own if what in part.groups}
    return groups.pop() if len(groups) == 1 else ""


def _seeds(by_key: Mapping[str, Sequence[Part]], map: Map) -> dict[str, int]:
    label = map.labels.seed if map.labels else None
    if isinstance(label, str):  # count, none
        counted: Counter[Any] = Counter()
        found = {}
        for key in sorted(by_key):
            own = by_key[key]
            cell = () if label == "none" else (_label("arm", own, map), _label("control", own, map))
            counted[cell] += 1
            found[key] = counted[cell]
        return found
    return {
        key: whole(_label("seed", own, map) if label is None else value(label, own, "seed"), key)
        for key, own in by_key.items()
    }


def whole(word: str, key: str) -> int:
    """A seed: 3, 03, 3.0."""
    try:
        found = float(word)
        if found.is_integer() and abs(found) < 2**53:
            return int(found)
    except ValueError:
        pass
    raise refuse(f"run {key}", f"seed '{word}' is no whole number.")


def _number(word: str) -> Any:
    """The value of an axis: a number where it is one."""
    for kind in (int, float):
        try:
            found = kind(word)
        except ValueError:
            continue
        if abs(found) < float("inf"):
            return found
    return word


def _refuse_twins(found: Sequence[Run]) -> None:
    there: dict[Any, Any] = {}
    for run in found:
        cell, key = (run.arm, run.seed, run.control, text(dict(run.axes))), imported.log_of(run)
        if (other := there.setdefault(cell, key)) != key:
            raise BadInput(
                f"{other} and {key} are both {run.arm or 'the arm without a name'}, seed {run.seed}"
                f"{f', control {run.control}' if run.control else ''}. Tell them apart under labels: in the map, or "
                "import one of them."
            )


# --- records ---------------------------------------------------------------------------------------------------------


def _of_one_length(found: Sequence[Found], rule: str) -> Iterator[Found]:
    """Curves that end where the shortest one of their split and metric does; diverged ones end where they will."""
    ends: dict[Place, dict[int, str]] = defaultdict(dict)
    for run in found:
        for place, (_, own) in run.curves.items():
            if not own.diverged:
                ends[place][int(own.step[-1])] = run.key
    for place, keys in ends.items():
        if rule == "equal" and len(keys) > 1:
            (low, one), (high, other) = min(keys.items()), max(keys.items())
            raise BadInput(
                f"{' '.join(place[:2])} ends at {low} in {one}, at {high} in {other}: length: common cuts all."
            )
    for run in found:
        curves = {
            place: (entry, own.until(min(ends[place])) if ends[place] else own)
            for place, (entry, own) in run.curves.items()
        }
        yield replace(run, curves=curves)


def _record(name: str, run: Found, map: Map) -> Run:
    monitor = _monitor(run, map)
    lasts = {place: int(own.step[-1]) for place, (_, own) in run.curves.items()}
    watched = [last for place, last in lasts.items() if monitor and place[:2] == (monitor["split"], monitor["metric"])]
    diverged = [" ".join(place[:2]) for place, (_, own) in run.curves.items() if own.diverged]
    logs = {part.log.file["path"]: part.log for part in run.parts}
    counted = sum((own.counted for _, own in run.curves.values()), Counter())
    counted["lost_bytes"] = sum(log.lost for log in logs.values())
    x = next((entry.x for entry, _ in run.curves.values() if entry.x), map.x)
    return imported.record(
        name,
        run.key,
        run.arm,
        run.seed,
        Curve.of_columns(_block(place, own) for place, (_, own) in run.curves.items()),
        max(watched or lasts.values()),
        run.control,
        run.axes,
        f"{', '.join(diverged)} ends in no finite number" if diverged else "",
        monitor,
        _metrics(run),
        about={
            "source": run.parts[0].log.source,
            "files": [dict(log.file) for _, log in sorted(logs.items())],
            "clocks": [clock for clock in CLOCKS if x and getattr(x, clock)] or ["step"],  # the tool's own is one
            "hparams": _settings(run.parts),
            **({"counted_seeds": True} if map.labels and isinstance(map.labels.seed, str) else {}),
            "counted": {key: count for key, count in sorted(counted.items()) if count},
        },
    )


def _metrics(run: Found) -> dict[str, dict[str, Any]]:
    """What the map declares of each metric, for any of its splits."""
    found: dict[str, dict[str, Any]] = {}
    for (_, metric, _), (entry, _) in run.curves.items():
        facts = {key: getattr(entry, key) for key in ("goal", "unit", "log")}
        found.setdefault(metric, {}).update({key: one for key, one in facts.items() if one is not None})
    return found


def written(node: Any) -> Any:
    """A map, or a part of it, as its file has it."""
    if isinstance(node, Label):
        return {node.place[0]: node.place[1], **node.renames}
    if is_dataclass(node):
        node = {field.name: getattr(node, field.name) for field in fields(node)}
        node = {key: value for key, value in node.items() if value not in (None, ())}
    if isinstance(node, Mapping):
        return {key: written(value) for key, value in node.items()}
    return [*map(written, node)] if isinstance(node, tuple) else node


def _monitor(run: Found, map: Map) -> dict[str, str] | None:
    if map.monitor is None:
        return None
    split, metric = map.monitor.split, map.monitor.metric
    entries = {place[:2]: entry for place, (entry, _) in run.curves.items()}
    if (split, metric) not in entries:
        have = [" ".join(one) for one in entries]
        raise unknown(f"run {run.key} has no {split} {metric}, which the map monitors.", f"{split} {metric}", have)
    if not (goal := entries[split, metric].goal):
        raise BadInput(f"monitor: the series of {split} {metric} needs a goal, min or max.")
    return {"split": split, "metric": metric, "goal": goal}


def _block(place: Place, own: Points) -> dict[str, Any]:
    columns: dict[str, Any] = {"step": _array(own.step)}
    if own.epoch is not None:
        whole = (own.epoch == np.rint(own.epoch)).all()
        columns["epoch"] = _array(own.epoch.astype(np.int64) if whole else own.epoch)
    columns[place[1]] = _array(own.value)
    return {"split": place[0], "mode": place[2], "columns": columns}


def _array(values: np.ndarray) -> Any:
    """Whole numbers or floats; a list where some are not finite."""
    if values.dtype == np.int64:
        return array("q", values.tobytes())
    if np.isfinite(values).all():
        return array("d", values.tobytes())
    names = {np.inf: "Infinity", -np.inf: "-Infinity"}
    return [one if np.isfinite(one) else names.get(one, "NaN") for one in values.tolist()]
