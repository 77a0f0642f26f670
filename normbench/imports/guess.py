"""What a map leaves out, where one answer alone is possible; else questions, and a draft that has all the rest."""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import yaml

from normbench.core import keys
from normbench.errors import BadInput, NormbenchError
from normbench.imports.log import Log, Question, refuse
from normbench.imports.map_keys import Label, Labels, Long, Map, text
from normbench.imports.parts import Part, as_numbers, check_long, first_other, parts
from normbench.imports.runs import by_run, entries, seed, written
from normbench.imports.words import CLOCKS, FOLDER, SEED, SPLITS, bare, is_clock, is_setting, listed, seed_of, split_of

NAMED = {"tensorboard": "tag", "wandb": "key", "huggingface": "key", "trackio": "key", "mlflow": "key"}
TABLES = ("csv", "parquet", "jsonl", "keras")
STORES = ("trackio", "mlflow")  # which have ids, configurations and a step of every value
OF_TRAIN = ("huggingface", "keras")  # where a name without a word of a split is measured in training
GLOBAL_STEP = ("huggingface", "lightning")  # whose `step` counts updates, with `epoch` beside it
ARMS = (r"([^/]+?)(?:[-_]?seed[-_= ]?\d+|[-_]s\d+)(?:$|/)", r"(?:^|/)(?:[-_]?seed[-_= ]?\d+)/([^/]+)", r"^([^/]+)")
COLUMN_OF_RUN = r"^(?P<arm>.+?)[-_ ]?(?:seed|s)?[-_ ]?(?P<seed>\d+)$"
STEP_NOTE = "the clock is _step, W&B's count of the calls of log: a step is no update"
NUMBERED = r"""  seed: {path: '(\d+)$'}
  arm: {path: '^(.+?)[-_/ ]?\d+$'}
"""
NO_ARM = re.compile(r"version_\d+|logs?|tb|tensorboard|lightning_logs|metrics|history|results?|training_log|progress|")
RUNS = ("seed", "run", "run_id", "trial")  # columns that name a run, if they are numbers, too
OF_ROWS = ("metric", "variable", "measure", "tag", "key")  # columns of the long form, a row for each metric
MANY = 100  # series that nobody has chosen
SHOWN = 8  # names in a line


Facts = Mapping[tuple[str, str], str]  # by kind of place and name: a setting


class OpenMap(BadInput):
    """An import that needs an answer. `draft`: what was guessed, as a map to be edited."""

    def __init__(self, error: NormbenchError, draft: str) -> None:
        super().__init__(str(error))
        self.draft = draft


@dataclass
class Guess:
    """The map, which keys of it were guessed, what is said of them, and what stays open."""

    map: Map
    keys: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def add(self, key: str, value: Any) -> None:
        self.keys[key] = value
        self.map = keys.read(Map, {**written(self.map), key: value})

    def ask(self, answer: Callable[[], Any]) -> Any:
        """The answer, or None where it is a question."""
        try:
            return answer()
        except Question as question:
            self.questions.append(question)
            return None


def completed(map: Map, logs: Sequence[Log]) -> Guess:
    """The whole map. OpenMap where two answers are possible."""
    source, guess = logs[0].source, Guess(map)
    table = logs[0].tables[0] if source in TABLES and len(logs) == 1 else None  # which may have several runs
    folders = _split_folders(source, logs)
    if not map.source:
        guess.add("source", source)
    if table is not None and map.long:
        check_long(logs[0], table, map.long)
    if table is not None and not (map.columns or map.long or map.run or map.series) and _has_a_column_a_run(table):
        guess.add("columns", COLUMN_OF_RUN)
    if map.run is None and not guess.map.columns:
        if table is not None and not (map.long or map.series) and (long := _long_form(table)):
            guess.add("long", long)
        guess.add("run", _run(logs, folders, table, guess.map.long))
    all_parts = parts(logs, guess.map)
    if not map.series and (series := guess.ask(lambda: _series(all_parts, folders, guess))):
        guess.add("series", series)
    with_series = guess.map
    if not with_series.series:  # the rest is guessed as if all series of the question were taken
        if not (series := guess.questions[0].series):
            raise OpenMap(guess.questions[0], draft(guess))
        with_series = keys.read(Map, {**written(guess.map), "series": series})
    needs_clock = map.x is None and any(entry.x is None for entry in with_series.series)
    if needs_clock and (x := guess.ask(lambda: _clocks(all_parts, with_series, guess))):
        guess.add("x", x)
    if labels := _labels(all_parts, with_series, folders, guess):
        guess.add("labels", {**(written(map.labels) or {}), **labels})
        guess.keys["labels"] = labels
    if guess.questions:
        raise OpenMap(guess.questions[0], draft(guess))
    return guess


def draft(guess: Guess) -> str:
    """The map as YAML; each question is a comment (##), with answers below it (#)."""
    content = written(guess.map)
    labels = content.pop("labels", None)
    of_labels = [question for question in guess.questions if question.answer.startswith(" ")]
    lines = [as_yaml(content), *(_commented(question) for question in guess.questions if question not in of_labels)]
    if labels:
        lines.append(as_yaml({"labels": labels}))
    elif of_labels:
        lines.append("#labels:\n")
    return "".join([*lines, *map(_commented, of_labels)])


def as_yaml(keys: Mapping[str, Any]) -> str:
    """Keys of a map as its file has them."""
    return yaml.safe_dump(keys, sort_keys=False, allow_unicode=True, width=120) if keys else ""


def _commented(question: Question) -> str:
    lines = textwrap.wrap(str(question), 100, initial_indent="## open: ", subsequent_indent="##   ")
    return "".join(f"{line}\n" for line in [*lines, *(f"#{line}" for line in question.answer.splitlines())])


# --- runs and series -------------------------------------------------------------------------------------------------


def _split_folders(source: str, logs: Sequence[Log]) -> list[str]:
    """The last words of paths that name a split: as Keras, and as `add_scalars` of torch, which makes a folder a curve.

    None where a tag names another split than its folder: `train` is what YOLO calls a run.
    """
    split_folders = set()
    for log in logs if source == "tensorboard" else ():
        last = log.path.rpartition("/")[2]
        tags = {name for table in log.tables for name in table.column_names} - {"step"}
        is_split = last.lower() in SPLITS
        is_curve = split_of(last) and any(last.startswith(f"{tag.replace('/', '_')}_") for tag in tags)
        if is_split and {split_of(tag) for tag in tags} - {"", split_of(last)}:
            return []
        if is_split or (is_curve and len(tags) == 1):
            split_folders.add(last)
    return sorted(split_folders)


def _run(logs: Sequence[Log], folders: Sequence[str], table: Any, long: Long | None) -> Any:
    """The tool's id, columns of the one table, or the path; of a folder for each split what is before it."""
    if logs[0].source in ("wandb", *STORES):
        return "run_id"
    if not folders:
        return "path" if table is None else _run_columns(table, long) or "path"
    if alone := [log for log in logs if log.path in folders]:
        raise refuse(
            alone[0].file["path"],
            f"{alone[0].path} is the folder of a split. Import the folder that its run lies in, or say what a run is.",
        )
    if all(folder.lower() in SPLITS for folder in folders):
        return {"path": FOLDER}
    return {"path": rf"^(.+?)(?:/(?:{'|'.join(map(re.escape, folders))}))?$"}


def _long_form(table: Any) -> dict[str, str]:
    """The columns of names and values of a table with a row for each metric, or for each split of one metric."""
    for name in (name for name in table.column_names if _is_text(table, name)):
        series = [other for other in table.column_names if not _names_a_run(table, other) and not is_clock(other)]
        if name.lower() in OF_ROWS and "value" in series:
            return {"name": name, "value": "value"}
        if all(map(split_of, _texts(table, name))) and len(series) == 1 and not split_of(series[0]):
            return {"name": name, "value": series[0]}
    return {}


def _run_columns(table: Any, long: Long | None) -> list[str]:
    """The columns that tell the runs of one table apart: with them, and without none of them, each step comes once.

    None where two choices divide the rows differently, or where a row is of a metric or of a split that is not known.
    """
    of_row = [long.name] if long else []
    texts = [name for name in table.column_names if _is_text(table, name) and name not in of_row]
    if any(name.lower() in OF_ROWS or all(map(split_of, _texts(table, name))) for name in texts):
        return []
    clocks = [*(name for name in table.column_names if name.lower() in CLOCKS), *of_row]
    named = [name for name in table.column_names if _names_a_run(table, name) and name not in of_row]
    named = [name for name in named if not clocks or _count(table, [name]) < table.num_rows]
    if _is_once(table, clocks) or not _is_once(table, [*named, *clocks]):
        return []
    kept, otherwise = _fewest(table, named, clocks), _fewest(table, named[::-1], clocks)
    counts = {_count(table, columns) for columns in (kept, otherwise, {*kept, *otherwise})}
    return kept if len(counts) == 1 else []


def _names_a_run(table: Any, name: str) -> bool:
    last = re.split(r"[./]", name.lower())[-1]
    return last in RUNS or is_setting(name) or _is_text(table, name)


def _has_a_column_a_run(table: Any) -> bool:
    """Whether all columns of a table but its clock are ARM_SEED, and two arms or more have the same seeds."""
    names = [name for name in table.column_names if not is_clock(name)]
    matches = [match for name in names if (match := re.search(COLUMN_OF_RUN, name)) and not split_of(name)]
    seeds: dict[str, set[str]] = defaultdict(set)
    for match in matches:
        seeds[match["arm"]].add(match["seed"])
    alike = len({frozenset(of_arm) for of_arm in seeds.values()}) == 1
    return len(matches) == len(names) and len(seeds) > 1 and alike and len(matches) > len(seeds)


def _fewest(table: Any, names: Sequence[str], clocks: Sequence[str]) -> list[str]:
    kept = [*names]
    for name in names:
        rest = [other for other in kept if other != name]
        if _is_once(table, [*rest, *clocks]):
            kept = rest
    return kept


def _is_once(table: Any, columns: Sequence[str]) -> bool:
    """Whether no value of a series has the same columns as another one; a blank is none."""
    series = [table.filter(table.column(name).is_valid()) for name in table.column_names if split_of(name)]
    return all(_count(rows, columns) == rows.num_rows for rows in series or [table])


def _count(table: Any, columns: Collection[str]) -> int:
    """How many different rows these columns have."""
    return int(table.group_by([*columns]).aggregate([]).num_rows) if columns else min(table.num_rows, 1)


def _is_text(table: Any, name: str) -> bool:
    _, numbers, others = as_numbers(table.column(name))
    return bool(others.any() and not numbers.any() and not is_clock(name))


def _texts(table: Any, name: str) -> list[str]:
    return [str(value) for value in table.column(name).unique().to_pylist() if value is not None]


def _series(parts: Sequence[Part], folders: Sequence[str], guess: Guess) -> list[dict[str, Any]]:
    """The names with the word of one split, in their name or in the folder; a note of each other one."""
    source = parts[0].log.source
    splits_by_name, no_numbers = _splits(parts, folders, _names_of_labels(guess.map))
    if len(splits_by_name) > MANY:
        prefixes = Counter(name.partition("/")[0] if "/" in name else name.partition("_")[0] for name in splits_by_name)
        common = ", ".join(f"{prefix}* ({count})" for prefix, count in prefixes.most_common(5))
        raise Question(
            f"there are {len(splits_by_name)} series, of {common}. Choose some under series: in the map.",
            as_yaml({"series": _of_train(source, [*splits_by_name][:SHOWN])}),
        )
    settings = [name for name in splits_by_name if is_setting(name)]
    unsplit = [name for name, splits in splits_by_name.items() if "" in splits and name not in settings]
    lines = [f"not taken: {name} ({why})" for name, why in no_numbers.items()]
    lines += [f"not taken, for no split is in the name: {listed(unsplit, SHOWN)}"] if unsplit else []
    lines += [f"not taken, for it is how the training goes: {listed(settings, SHOWN)}"] if settings else []
    taken = {name: splits for name, splits in splits_by_name.items() if name not in {*settings, *unsplit}}
    if not taken:
        raise _no_series(parts, unsplit, lines)
    guess.notes += lines
    series: list[dict[str, Any]] = []
    renames = {word: split_of(word) for word in folders if word != split_of(word)}
    key = NAMED.get(source, "column")
    for name, splits in taken.items():
        if split_of(name) or splits == {"train"}:
            metric = guess.map.long.value if guess.map.long and name.lower() in SPLITS else bare(name)
            series.append({key: name, "split": split_of(name) or "train", "metric": metric})
        else:
            series.append({key: name, "split": {"path": "([^/]+)$", **renames}, "metric": name})
    return series


def _splits(
    parts: Sequence[Part], folders: Sequence[str], labels: Collection[str]
) -> tuple[dict[str, set[str]], dict[str, str]]:
    """By name of a series the splits that name and folders have, "" for none; by name of others the first place that
    has no number. A column without a split and without any number is a label.
    """
    splits: dict[str, set[str]] = defaultdict(set)
    others: dict[str, str] = {}
    clocks = {clock for part in parts for clock in part.log.clocks.values()}
    for part in parts:
        last = part.log.path.rpartition("/")[2]
        of_rest = split_of(last) if last in folders else "train" if part.log.source in OF_TRAIN else ""
        for name in part.names:
            if not name or name in clocks or name in labels or is_clock(name) or name in others:
                continue
            split = split_of(name) or of_rest
            column = part.table.column(part.values or name)
            _, numbers, other = as_numbers(column)
            if str(column.type) == "bool":
                others[name] = "true or false"
            elif not other.any():
                splits[name].add(split)
            elif split or numbers.any():
                others[name] = f"{first_other(part.log, part.values or name)} of {part.log.file['path']}"
    return {name: splits[name] for name in splits if name not in others}, others


def _no_series(parts: Sequence[Part], unsplit: Sequence[str], lines: Sequence[str]) -> Question:
    """Why no series can be taken: of the first columns, or of all."""
    source = parts[0].log.source
    if not unsplit:
        columns = listed([name for name in parts[0].names if name], SHOWN)
        why = "; ".join(lines[:3]) or f"it has {columns} alone" if columns else "it has none"
        return Question(f"{parts[0].log.file['path']}: no series can be taken: {why}.")
    if parts[0].groups:
        problem = f"{listed(unsplit, SHOWN)} are runs: of which split and metric?"
        example = "{column: '*', split: valid, metric: loss}"
        series = [{"column": "*", "split": "valid", "metric": "loss"}]
    else:
        problem = f"no series names its split: {listed(unsplit, SHOWN)}."
        example = f"{{{NAMED.get(source, 'column')}: {unsplit[0]}, split: train, metric: {unsplit[0]}}}"
        series = _of_train(source, unsplit)
    message = f"{problem} Write them into a map, such as series: [{example}]"
    return Question(message, as_yaml({"series": series}), series)


def _of_train(source: str, names: Sequence[str]) -> list[dict[str, str]]:
    return [{NAMED.get(source, "column"): name, "split": "train", "metric": name} for name in names]


def _names_of_labels(map: Map) -> set[str]:
    """The columns that a map has in another role than that of a series."""
    labels = map.labels or Labels()
    given = [labels.arm, labels.seed, labels.control, *(labels.axes or {}).values()]
    columns = {label.column for label in given if isinstance(label, Label) and label.column}
    clocks = [clock for clock in (map.x.step, map.x.epoch) if clock] if map.x else []
    return {*columns, *(clock.name for clock in clocks), *(map.run if isinstance(map.run, tuple) else [])}


def _clocks(parts: Sequence[Part], map: Map, guess: Guess) -> dict[str, Any]:
    """The clocks that a tool always has, or the only one; none where a run is one row, or where the tool names one for
    each series. Time is none.
    """
    source = parts[0].log.source
    if source == "tensorboard":
        return {"step": {"event": "step"}}
    if source in STORES:
        return {"step": {"key": "step"}}
    named = [(part, name) for part in parts for entry, name in entries(part, map) if entry.x is None]
    named = [(part, name) for part, name in named if name not in part.log.clocks]
    if not named:
        return {}
    key = "key" if NAMED.get(source) == "key" else "column"
    tool_clocks = {clock for part in parts for clock in part.log.clocks.values()}
    chart = any(name.endswith("__MIN") for part in parts for name in part.table.column_names)
    tables = [part.table for part, _ in named]
    columns = {name for table in tables for name in table.column_names}
    clock_columns = {name: CLOCKS[name.lower()] for name in sorted(columns - tool_clocks) if name.lower() in CLOCKS}
    if source in GLOBAL_STEP and "step" in clock_columns:
        both = "epoch" in clock_columns and all(_has_epochs(table) for table in tables)
        return {clock: {key: clock} for clock in (("step", "epoch") if both else ("step",))}
    if len(clock_columns) == 1 and not chart:
        ((name, clock),) = clock_columns.items()
        if "_step" in columns and any(_repeats(part.table, series, name) for part, series in named):
            guess.notes.append(f"{name} has several values of a series: {STEP_NOTE}")
            both = clock == "epoch" and all(_has_epochs(table, "_step", name) for table in tables)
            return {"step": {key: "_step"}, **({"epoch": {key: name}} if both else {})}
        return {clock: {key: name}}
    if not clock_columns and not tool_clocks and "_step" in columns and not chart:
        guess.notes.append(STEP_NOTE)
        return {"step": {key: "_step"}}
    candidates = sorted({*clock_columns, *(columns & {"_step"})})
    rows: Counter[tuple[str, str]] = Counter()
    for part, name in named:
        rows[part.key, name] += part.table.num_rows
    if not candidates and not map.columns and max(rows.values()) == 1:
        guess.notes.append("no column is a clock, and each run has one row: its values are final ones, at step 1")
        return {}
    table = "" if map.run == "run_id" or isinstance(map.run, tuple) else " If each row is a run: run: [COLUMNS]."
    hint = f"It could be {' or '.join(candidates)}." if candidates else f"None is called step or epoch.{table}"
    raise Question(
        f"{parts[0].log.file['path']}: which column is the clock? {hint} Write x: {{step: {{{key}: NAME}}}}, "
        "epoch instead of step for epochs, or both, into the map.",
        "\n".join(f"x: {{{clock_columns.get(name, 'step')}: {{{key}: {name}}}}}" for name in candidates or ["NAME"]),
    )


def _has_epochs(table: Any, step: str = "step", epoch: str = "epoch") -> bool:
    """Whether an epoch stands beside each step."""
    if not {step, epoch} <= {*table.column_names}:
        return False
    (_, steps, _), (_, epochs, _) = (as_numbers(table.column(name)) for name in (step, epoch))
    return bool((epochs | ~steps).all())


def _repeats(table: Any, series: str, clock: str) -> bool:
    """Whether a series has several values at one place of a clock."""
    if not {series, clock} <= {*table.column_names}:
        return False
    (_, values, _), (places, valid, _) = (as_numbers(table.column(name)) for name in (series, clock))
    logged = places[values & valid]
    return len({*logged.tolist()}) < len(logged)


# --- labels ----------------------------------------------------------------------------------------------------------


def _labels(all_parts: Sequence[Part], map: Map, folders: Sequence[str], guess: Guess) -> dict[str, Any]:
    """The seed that all runs name, and the arm where it is all that differs."""
    labels, given = map.labels or Labels(), {name for part in all_parts for name in part.groups}
    runs, _ = by_run(all_parts, map)
    if not runs:
        return {}  # which the reader of runs refuses
    paths = {key: _run_path(parts[0].log.path, folders) for key, parts in runs.items()}
    facts = {key: _facts(parts, map) for key, parts in runs.items()}
    guessed: dict[str, Any] = {}
    if labels.seed is None and "seed" not in given:
        guessed["seed"] = guess.ask(lambda: _seed(runs, paths, facts))
    is_numbered = any(question.answer == NUMBERED for question in guess.questions)  # whose answer has both
    if labels.arm is None and "arm" not in given and not is_numbered:
        guessed["arm"] = guess.ask(lambda: _arm(runs, paths, facts, labels))
    return {key: label for key, label in guessed.items() if label}


def _run_path(path: str, folders: Sequence[str]) -> str:
    before, _, last = path.rpartition("/")
    return before if last in folders else path


def _facts(parts: Sequence[Part], map: Map) -> dict[tuple[str, str], str]:
    """Configuration and hyperparameters of a run; of a table with several runs its columns with one value."""
    facts: dict[tuple[str, str], str] = {}
    run_columns = map.run if isinstance(map.run, tuple) else ()
    for part in parts:
        for name in part.table.column_names if run_columns else ():
            if (name in run_columns or _is_text(part.table, name)) and len(part.table.column(name).unique()) == 1:
                facts["column", name] = text(part.table.column(name)[0].as_py())
        kind = "hparam" if part.log.source == "tensorboard" else "config"
        facts |= {(kind, key): str(value) for key, value in part.log.config.items()}
    return facts


def _seed(runs: Mapping[str, Sequence[Part]], paths: Mapping[str, str], facts: Mapping[str, Facts]) -> Any:
    """By path, configuration or column; where a run has several they agree. A run alone needs none."""
    by_path = {key: seed_of(path) for key, path in paths.items()}
    shared = set.intersection(*map(set, facts.values()))
    places = sorted(place for place in shared if place[1].rpartition(".")[2].rpartition("/")[2].lower() == "seed")
    for key in runs:
        seeds = {seed(facts[key][place], key) for place in places} | ({int(by_path[key])} if by_path[key] else set())
        if len(seeds) > 1:
            several = " and ".join(map(str, sorted(seeds)))
            raise Question(f"run {key} has seeds {several}: name one, labels.seed.", "  seed: {config: KEY}")
    if places:
        return {places[0][0]: places[0][1]}
    if all(by_path.values()) and len({*paths.values()}) >= len(runs):
        return {"path": r"(?:seed[-_= ]?|[-_]s(?=\d+(?:$|/)))(\d+)"}
    if all("seed" in part.table.column_names for parts in runs.values() for part in parts):
        return {"column": "seed"}
    if len(runs) == 1:
        return "none"  # no other run is its pair
    lacking = [key for key, seed in by_path.items() if not seed]
    example = (lacking or [*runs])[0]
    if all(re.search(r"\D\d+$", path) for path in paths.values()):
        raise Question(f"runs differ in the number at their ends, such as {example}: is it the seed?", NUMBERED)
    raise Question(
        f"{len(lacking)} of {len(runs)} runs name no seed, such as {example}. Write labels: {{seed: ...}} into the "
        "map: {path: 'REGEX(\\d+)'}, {column: NAME}, {config: KEY}, count (numbers them), none (no two share one).",
        "  seed: none",
    )


def _arm(
    runs: Mapping[str, Sequence[Part]], paths: Mapping[str, str], facts: Mapping[str, Facts], labels: Labels
) -> dict[str, str]:
    """The part of the path, or the one setting, that differs; what differs in the same way is the same."""
    used = {label.place for label in (labels.control, *(labels.axes or {}).values()) if label}
    values: dict[tuple[str, str], tuple[str, ...]] = {}
    for place in sorted({*chain(*facts.values())} - used):
        if place[1].rpartition(".")[2].rpartition("/")[2].lower() != "seed":
            values[place] = tuple(settings.get(place, "") for settings in facts.values())
    names = _rest_of_paths([*paths.values()])
    candidates: dict[tuple[int, ...], list[tuple[str, str]]] = defaultdict(list)  # by how they divide the runs
    source = next(iter(runs.values()))[0].log.source
    if source not in ("wandb", *STORES):  # W&B's folders are named by time and id
        values = {("path", ""): names, **values}
    for place, of_runs in values.items():
        if len({*of_runs}) > 1 and (place[0] == "path" or len({*of_runs}) < max(len(runs), 3)):
            candidates[tuple(map(of_runs.index, of_runs))].append(place)
    if source in STORES and (not candidates or len({*names}) < len(runs)):  # else a name of each run tells no arms
        division = tuple(map(names.index, names))
        if len({*names}) > 1 and division not in candidates:
            candidates[division].append(("path", ""))
    pattern = _pattern(runs, names)
    places = [*chain(*candidates.values())]
    if not places:
        return {"value": "imported" if source == "wandb" else names[0] or "imported"}
    if len(candidates) == 1 and places[0][0] == "path" and pattern:
        return {"path": pattern}
    if places[0][0] != "path" and len({values.get(place) for place in places}) == 1:
        return dict(places[:1])
    settings = [kind for kind, _ in places if kind != "path"]
    could = " or ".join(" ".join(place).strip() for place in places[:8])
    answers = [f"{kind}: {name}" if name else "path: 'REGEX'" for kind, name in places]
    raise Question(
        f"runs differ in {could}: which is the arm? Write labels: {{arm: ...}} into the map"
        f"{', and the others as axes: {NAME: {' + settings[0] + ': KEY}}' if settings else ''}.",
        "\n".join(f"  arm: {{{answer}}}" for answer in answers[:SHOWN]),
    )


def _rest_of_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """What paths name beside the seed and what all of them have; where nothing differs, what the seed is of."""
    split = [[SEED.sub("", word) for word in path.strip("/").split("/")] for path in paths]
    if len({*map(len, split)}) != 1:
        return tuple("/".join(filter(None, words)) for words in split)
    differ = [place for place, words in enumerate(zip(*split, strict=True)) if len({*words}) > 1]
    if differ:
        return tuple("/".join(words[place] for place in differ) for words in split)
    return tuple(_name_of(path) for path in paths)


def _name_of(path: str) -> str:
    """The word with the seed, or that before it, or behind it; of a path without a seed the last word that says more
    than that a log is there.
    """
    words = path.strip("/").split("/")
    bare_words = [SEED.sub("", word) for word in words]
    place = max((place for place, word in enumerate(words) if SEED.search(word)), default=len(words) - 1)
    names = [*bare_words[place::-1], *bare_words[place + 1 :]]
    return next((name for name in names if not NO_ARM.fullmatch(name)), "")


def _pattern(runs: Mapping[str, Sequence[Part]], names: Sequence[str]) -> str:
    """A regular expression that finds these names in the paths; "" where simple ones do not."""
    paths = [(part.log.path, name) for parts, name in zip(runs.values(), names, strict=True) for part in parts]
    fitting = (pattern for pattern in ARMS if all([*re.findall(pattern, path), ""][0] == name for path, name in paths))
    return next(fitting, "")
