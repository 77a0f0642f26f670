"""What a map leaves out, where one answer alone is possible; else a line that says what to write."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from normbench.errors import NormbenchError
from normbench.imports.log import Log
from normbench.imports.map_keys import Labels, Map
from normbench.imports.parts import Part, parts
from normbench.imports.runs import by_run, entries, whole
from normbench.imports.words import CLOCKS, FOLDER, SEED, bare, is_clock, seed_of, split_of

NAMED = {"tensorboard": "tag", "wandb": "key", "huggingface": "key", "neptune": "attribute"}
IDS = ("wandb", "neptune")  # that have ids of runs
SETTINGS = {"tensorboard": "hparam", "neptune": "attribute"}  # what sources call a setting
OF_TRAIN = ("huggingface", "keras")  # where a name without a word of a split is measured in training
ARMS = (r"([^/]+?)(?:[-_]?seed[-_= ]?\d+|_s\d+)(?:$|/)", r"(?:^|/)(?:[-_]?seed[-_= ]?\d+)/([^/]+)", r"^([^/]+)")
MANY = 100  # series that nobody has chosen


def completed(map: Map, logs: Sequence[Log]) -> tuple[Map, dict[str, Any]]:
    """The whole map, and what of it was guessed. NormbenchError where two answers are possible."""
    source = logs[0].source
    guessed: dict[str, Any] = {} if map.source else {"source": source}
    if map.run is None and not map.columns:
        guessed["run"] = _run(source, logs)
    map = _with(map, guessed)
    found = parts(logs, map)
    if map.series is None:
        guessed["series"] = _series(found, source)
        map = _with(map, guessed)
    if map.x is None and any(entry.x is None for entry in map.series) and (x := _clocks(found, map, source)):
        guessed["x"] = x
    if labels := _labels(found, map):
        guessed["labels"] = {**(map.labels.model_dump(exclude_none=True) if map.labels else {}), **labels}
    return _with(map, guessed), guessed


def _with(map: Map, more: Mapping[str, Any]) -> Map:
    return Map.model_validate({**map.model_dump(exclude_none=True), **more})


def _run(source: str, logs: Sequence[Log]) -> Any:
    """The tool's id, or the path; of a folder for each split what is before it."""
    if source in IDS:
        return "run_id"
    split = any(split_of(log.path.rpartition("/")[2]) for log in logs if "/" in log.path)
    return {"path": FOLDER} if source == "tensorboard" and split else "path"


def _series(found: Sequence[Part], source: str) -> list[dict[str, Any]]:
    """The names with the word of one split, in their name or in the folder."""
    where: dict[str, set[str]] = defaultdict(set)
    clocks = {clock for part in found for clock in part.log.clocks.values()}
    for part in found:
        folder = split_of(part.log.path.rpartition("/")[2]) if source == "tensorboard" else ""
        for name in part.names:
            if name and name not in clocks and not is_clock(name) and _is_number(part, name):
                where[name].add(split_of(name) or folder or ("train" if source in OF_TRAIN else ""))
    if len(where) > MANY:
        prefixes = Counter(name.partition("/")[0] if "/" in name else name.partition("_")[0] for name in where)
        common = ", ".join(f"{prefix}* ({count})" for prefix, count in prefixes.most_common(5))
        raise NormbenchError(f"there are {len(where)} series, of {common}. Choose some under series: in the map.")
    key = NAMED.get(source, "column")
    series: list[dict[str, Any]] = []
    for name, splits in where.items():
        if split_of(name) or splits == {"train"}:
            series.append({key: name, "split": split_of(name) or "train", "metric": bare(name)})
        elif splits and "" not in splits:
            renames = {word: split_of(word) for word in sorted(_folders(found)) if word != split_of(word)}
            series.append({key: name, "split": {"path": "([^/]+)$", **renames}, "metric": name})
    if not series:
        names = ", ".join([*where][:8]) or "none"
        raise NormbenchError(
            f"no series names its split: {names}. Write them into a map, such as series: [{{{key}: "
            f"{next(iter(where), 'loss')}, split: train, metric: loss}}]"
        )
    return series


def _folders(found: Sequence[Part]) -> set[str]:
    return {last for part in found if split_of(last := part.log.path.rpartition("/")[2])}


def _is_number(part: Part, name: str) -> bool:
    import pyarrow.types as types

    kind = part.table.schema.field(part.values or name).type
    return any(is_kind(kind) for is_kind in (types.is_floating, types.is_integer, types.is_decimal, types.is_null))


def _clocks(found: Sequence[Part], map: Map, source: str) -> dict[str, Any]:
    """The only clock; {} where the tool itself names one for each series. Time, or a count of log calls, is none."""
    if source == "tensorboard":
        return {"step": {"event": "step"}}
    named = [(part, entry, name) for part in found for entry, name in entries(part, map) if entry.x is None]
    named = [one for one in named if one[2] not in one[0].log.clocks]
    if not named:
        return {}
    own = {clock for part in found for clock in part.log.clocks.values()}
    chart = any(name.endswith("__MIN") for part in found for name in part.table.column_names)
    columns = {name for part, *_ in named for name in part.table.column_names}
    have = {name: CLOCKS[name.lower()] for name in sorted(columns - own) if name.lower() in CLOCKS}
    if len(have) == 1 and not chart:
        ((name, clock),) = have.items()
        return {clock: {"key" if NAMED.get(source) == "key" else "column": name}}
    could = sorted({*have, *(columns & {"_step"})})
    form = "x: {step: {column: NAME}}" if NAMED.get(source) != "key" else "x: {step: {key: NAME}}"
    raise NormbenchError(
        f"{found[0].log.file['path']}: which column is the clock? "
        f"{'It could be ' + ' or '.join(could) if could else 'None is called step or epoch'}. Write {form}, epoch "
        "instead of step for epochs, or both, into the map."
    )


# --- labels ----------------------------------------------------------------------------------------------------------


def _labels(found: Sequence[Part], map: Map) -> dict[str, Any]:
    """The seed that all runs name, and the arm where it is all that differs."""
    labels, given = map.labels or Labels(), {name for part in found for name in part.groups}
    runs, _ = by_run(found, map)
    if not runs:
        return {}  # which the reader of runs refuses
    guessed: dict[str, Any] = {}
    if labels.seed is None and "seed" not in given:
        guessed["seed"] = _seed(runs)
    if labels.arm is None and "arm" not in given:
        guessed["arm"] = _arm(runs, labels)
    return guessed


def _facts(own: Sequence[Part]) -> dict[tuple[str, str], str]:
    """The configuration and hyperparameters of a run."""
    found: dict[tuple[str, str], str] = {}
    for part in own:
        kind = SETTINGS.get(part.log.source, "config")
        found |= {(kind, key): str(one) for key, one in part.config.items()}
    return found


def _seed(runs: Mapping[str, Sequence[Part]]) -> dict[str, str]:
    """By path, configuration or column; where a run has several they agree."""
    by_path = {key: seed_of(own[0].log.path) for key, own in runs.items()}
    facts = {key: _facts(own) for key, own in runs.items()}
    shared = set.intersection(*({*own} for own in facts.values()))
    places = sorted(place for place in shared if place[1].rpartition(".")[2].rpartition("/")[2].lower() == "seed")
    for key in runs:
        seeds = {whole(facts[key][place], key) for place in places} | ({int(by_path[key])} if by_path[key] else set())
        if len(seeds) > 1:
            raise NormbenchError(f"run {key} has seeds {' and '.join(map(str, sorted(seeds)))}: name one, labels.seed.")
    if places:
        return {places[0][0]: places[0][1]}
    if all(by_path.values()) and len({own[0].log.path for own in runs.values()}) >= len(runs):
        return {"path": r"(?:seed[-_= ]?|_s(?=\d+(?:$|/)))(\d+)"}
    if all("seed" in part.table.column_names for own in runs.values() for part in own):
        return {"column": "seed"}
    lacking = [key for key, seed in by_path.items() if not seed]
    raise NormbenchError(
        f"{len(lacking)} of {len(runs)} runs name no seed, such as {(lacking or [*runs])[0]}. Write labels: "
        "{seed: ...} into the map: {path: 'REGEX(\\d+)'}, {config: KEY}, count (numbers them), none (no two share one)."
    )


def _arm(runs: Mapping[str, Sequence[Part]], labels: Labels) -> dict[str, str]:
    """The part of the path, or the one setting, that differs; what differs in the same way is the same."""
    used = {label.place for label in (labels.control, *(labels.axes or {}).values()) if label}
    facts = {key: _facts(own) for key, own in runs.items()}
    values: dict[tuple[str, str], tuple[str, ...]] = {}
    for place in sorted({place for own in facts.values() for place in own} - used):
        if place[1].rpartition(".")[2].rpartition("/")[2].lower() != "seed":
            values[place] = tuple(own.get(place, "") for own in facts.values())
    names = _rest_of_paths(runs)
    candidates: dict[tuple[int, ...], list[tuple[str, str]]] = defaultdict(list)  # by how they divide the runs
    of_tool = next(iter(runs.values()))[0].log.source in IDS  # whose folders are named by time and id
    for place, own in [*([] if of_tool else [(("path", ""), names)]), *values.items()]:
        if len({*own}) > 1 and (place[0] == "path" or len({*own}) < max(len(runs), 3)):
            candidates[tuple(map(own.index, own))].append(place)
    pattern = _pattern(runs, names)
    places = [place for own in candidates.values() for place in own]
    if not places:
        return {"value": names[0] or "imported"}
    if len(candidates) == 1 and places[0][0] == "path" and pattern:
        return {"path": pattern}
    if len(places) == 1 and places[0][0] != "path":
        return dict(places)
    could = " or ".join(" ".join(place).strip() for place in places[:8])
    raise NormbenchError(f"runs differ in {could}: which is the arm? Write labels: {{arm: ...}} into the map.")


def _rest_of_paths(runs: Mapping[str, Sequence[Part]]) -> tuple[str, ...]:
    """What paths name beside the seed and what all of them have."""
    paths = [SEED.sub("", own[0].log.path) for own in runs.values()]
    split = [path.strip("/").split("/") for path in paths]
    if len({*map(len, split)}) != 1:
        return tuple(paths)
    differ = [place for place, words in enumerate(zip(*split, strict=True)) if len({*words}) > 1]
    return tuple("/".join(words[place] for place in differ or [-1]) for words in split)


def _pattern(runs: Mapping[str, Sequence[Part]], names: Sequence[str]) -> str:
    """A regular expression that finds these names in the paths; "" where simple ones do not."""
    for pattern in ARMS:
        found = [re.search(pattern, own[0].log.path) for own in runs.values()]
        if tuple(one[1] if one else "" for one in found) == tuple(names):
            return pattern
    return ""
