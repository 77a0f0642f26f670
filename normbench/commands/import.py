"""`normbench import`: curves that other programs logged become runs like our own."""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from normbench.commands import format, terminal
from normbench.commands.options import Json, Results, argument, flag, option
from normbench.commands.terminal import say
from normbench.compare.metrics import Metric, guessed
from normbench.draw.text import format_seeds
from normbench.errors import BadInput, NormbenchError
from normbench.files.reading import place
from normbench.runs import imported, pack
from normbench.runs.run import Run

EPILOG = """examples:
  normbench import logs/ --as mine                      TensorBoard, W&B (.wandb), Lightning, ...: shows what it guesses
  normbench import logs/ --as mine --yes                uses it, and writes the map beside the runs
  normbench import mlruns --as mine --yes               MLflow's files, or mlflow.db
  normbench import ~/.cache/huggingface/trackio/PROJECT.db --as mine --yes
  normbench import logs/ more/ --as mine --yes          all there is as this name: an import replaces an earlier one
  normbench import runs.csv --as mine --yes             one table of all runs: norm,seed,step,train_loss,val_loss
  normbench import runs.csv --as mine --map map.yaml    a map says what is run, arm, seed, step, split and metric
  normbench import --list                               what was imported
  normbench compare imported/mine --metric loss --split valid

sources: CSV, Parquet, JSON lines, TensorBoard's event files, W&B's .wandb files, charts and histories,
Hugging Face's trainer_state.json, Lightning's metrics.csv, Keras' CSVLogger; stores of Trackio (PROJECT.db) and of
MLflow (mlruns, mlflow.db), also while they are written.
examples/imports has maps, lightning.yaml all keys of one.

--json prints, shortened:
  {"imported": [{"name": "mine", "runs": 4, "arms": ["bn", "ln"]}], "notes": ["4 runs of 4 files"], "guessed": {}}
"guessed" has the keys of the map that were guessed.
"""
COUNTED = {  # in `counted`: what is said of it
    "repeated": "repeated steps, of which the last counts",
    "rewound": "points that a resumed run logged again",
    "gaps": "gaps between steps",
    "unordered": "points that were written late: sorted by their steps, of which none comes twice",
    "blank": "rows without the value",
    "nonfinite": "values that are not finite",
    "cut": "values after the end of the shortest curve, left out",
}

ARMS = 5  # that are named


def command(
    results: Results,
    paths: Annotated[list[Path] | None, argument("files, or folders that have them", "PATH", parser=place)] = None,
    name: Annotated[str | None, option("what the runs are imported as", "NAME", "--as")] = None,
    map_file: Annotated[Path | None, option("what is what in the logs (YAML)", "FILE", "--map", parser=place)] = None,
    yes: Annotated[bool, flag("--yes", "use what can be guessed safely")] = False,
    listed: Annotated[bool, flag("--list", "list what was imported")] = False,
    remove: Annotated[str | None, option("delete what was imported as NAME", "NAME")] = None,
    as_json: Json = False,
) -> None:
    """Read logs, show what was found, and write it into RESULTS/imported/NAME, in place of what was there."""
    console = terminal.console(stderr=as_json)
    notes: list[str] = []
    guessed: dict[str, Any] = {}
    if listed or remove is not None:
        if paths or name is not None:
            raise BadInput(f"--{'list' if listed else 'remove'} takes no path and no --as.")
        if remove is not None:
            imported.remove(results, remove)
            say(console, f"imported/{remove} is deleted.")
    else:
        notes, guessed = _import(results, paths or [], name, map_file, yes, console)
    entries = _there(results) if listed or as_json else []
    if listed:
        lines = [
            f"{entry['name']}: {format.plural(entry['runs'], 'run')}, arms {', '.join(entry['arms'])}"
            for entry in entries
        ]
        say(console, "\n".join(lines) or f"nothing was imported into {results}.")
    if as_json:
        terminal.say_json({"imported": entries, "notes": notes, "guessed": guessed})


def _import(
    results: Path, paths: list[Path], name: str | None, map_file: Path | None, yes: bool, console: Console
) -> tuple[list[str], dict[str, Any]]:
    """What was found and what was guessed, in lines and as keys of a map."""
    from normbench import imports

    if not paths or name is None:
        raise BadInput("import needs PATH and --as NAME, such as: normbench import logs/ --as mine")
    path = imported.place(results, name)
    as_yaml = imports.guess.as_yaml
    try:
        read = imports.read(paths, name, imports.read_map(map_file) if map_file else None)
    except imports.guess.OpenMap as error:
        change = "take the # from an answer" if "\n##" in error.draft else "change it"
        say(console, f"guessed so far; save it, {change}, and use it with --map FILE:\n{error.draft}")
        raise
    notes = [*_found(read), *read.notes]
    say(console, "\n".join(notes))
    if read.guessed:
        say(console, f"guessed:\n{as_yaml(read.guessed)}")
        if not yes and not _agreed(console):
            raise BadInput("nothing was imported. --yes uses the guess; or put it into a map, --map FILE.")
    replaced = _replaced(path, name, read.runs)
    imported.write(results, name, read.runs, as_yaml(imports.runs.written(read.map)).encode())
    if replaced:
        say(console, replaced)
    words = shlex.join(["normbench", "compare", f"imported/{name}", *format.repeated(results, None)])
    say(console, f"{format.plural(len(read.runs), 'run')} in {path.parent}: {words}")
    return notes, read.guessed


def _replaced(path: Path, name: str, runs: Sequence[Run]) -> str:
    """How many runs of this name an import replaces, and which of them it does not have; "" where there are none."""
    if not path.exists():
        return ""
    try:
        earlier = pack.read(path).runs
    except NormbenchError:
        return f"replaced an earlier import as {name} that could not be read"
    again = {pack.place(run)[:-1] for run in runs}
    gone = [run for run in earlier if pack.place(run)[:-1] not in again]
    seeds: dict[str, set[int]] = defaultdict(set)
    for run in gone:
        seeds[run.arm].add(run.seed)
    line = f"replaced {format.plural(len(earlier), 'run')} of an earlier import as {name}"
    if gone:
        arms = [f"{arm} {format_seeds(sorted(seeds[arm]))}" for arm in sorted(seeds)]
        more = f" and {len(arms) - ARMS} arms" if len(arms) > ARMS else ""
        line += f"; {len(gone)} of them are gone: {', '.join(arms[:ARMS])}{more}"
    return line


def _there(results: Path) -> list[dict[str, Any]]:
    """All that is imported."""
    packs = {name: pack.read(imported.place(results, name)).runs for name in imported.names(results)}
    return [
        {"name": name, "runs": len(runs), "arms": sorted({run.arm for run in runs})} for name, runs in packs.items()
    ]


def _found(read: Any) -> list[str]:
    """How many runs of which arms; three points of the first one; what was counted."""
    arms = Counter(run.arm for run in read.runs)
    counts = ", ".join(f"{arm or repr(arm)} ({count})" for arm, count in arms.items())
    lines = [f"{format.plural(len(read.runs), 'run')}: {counts}"]
    first = read.runs[0]
    for record in [*first.records][:3]:
        shown = "  ".join(f"{key} {value}" for key, value in record.items() if key != "mode")
        lines.append(f"  {first.arm} seed {first.seed}: {shown}")
    blocks = [dict.fromkeys((b.split, [*b.columns][-1]) for b in run.records.blocks) for run in read.runs]
    series = Counter(place for pairs in blocks for place in pairs)
    lines += [
        f"  {format.plural(len(read.runs) - n, 'run')} without {metric} of {s}"
        for (s, metric), n in series.items()
        if n < len(read.runs)
    ]
    facts = first.config["import"]["metrics"]
    undeclared = [guessed(Metric(name, rising=None)) for name in facts if not facts[name].get("goal")]
    if by_name := [f"{metric.name} ({metric.better})" for metric in undeclared if metric.guessed]:
        lines.append(f"  which way is better, by the name alone: {', '.join(by_name)}; judge asks for --better")
    if undirected := [metric.name for metric in undeclared if not metric.guessed]:
        lines.append(
            f"  which way {', '.join(undirected)} is better is not declared (goal: min or max in a map): no winner"
        )
    counted: Counter[str] = sum((Counter(run.config["import"]["counted"]) for run in read.runs), Counter())
    lines += [f"  {counted[key]} {what}" for key, what in COUNTED.items() if counted[key]]
    ends = {run.steps for run in read.runs if run.status == "done"}
    if late := _late(read):
        lines.append(f"  begins differ: {late}")
    if len(ends) > 1:
        lines.append(f"  ends differ, from {min(ends)} to {max(ends)}: length: common in a map cuts all")
    if diverged := [run for run in read.runs if run.status == "diverged"]:
        run = diverged[0]
        lines.append(f"  {len(diverged)} diverged, such as {run.arm} seed {run.seed}: {run.reason}")
    return lines


def _late(read: Any) -> str:
    """Which run begins latest and which first, where a series does not begin alike in all runs."""
    firsts: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)  # by series, a run for each first step
    for run in read.runs:
        for block in run.records.blocks:
            firsts[block.split, [*block.columns][-1]].setdefault(block.columns["step"][0], run)
    for (split, metric), runs in firsts.items():
        if len(runs) > 1:
            first, late = min(runs), max(runs)
            where = [f"at {step} in {runs[step].arm} seed {runs[step].seed}" for step in (late, first)]
            return f"{split} {metric} {' and '.join(where)}: is a part of a log lost?"
    return ""


def _agreed(console: Console) -> bool:
    answers = console.is_terminal and sys.stdin.isatty()
    return answers and console.input("Import so? [y/N] ").strip().lower() in ("y", "yes")
