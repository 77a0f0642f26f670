"""`normbench status`: how many runs of each configuration are in which state, then a line for each unfinished one."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from normbench.commands import format
from normbench.commands.options import Filters, Json, Results
from normbench.commands.terminal import console, say, say_json, show_rows
from normbench.compare import configuration
from normbench.config import plan
from normbench.files import reading
from normbench.runs.run import FINISHED, Run
from normbench.runs.table import Runs

EPILOG = """examples:
  normbench status
  normbench status model=mnist_mlp norm=layer           these runs one by one, with their ids, for show and weights

filters are those of normbench compare.

--json prints, shortened:
  {"runs": [{"id": "3a228e1c3403", "experiment": "adhoc", "arm": "mnist_mlp-none", "seed": 1, "status": "done",
             "step": 12, "steps": 12, "reason": "", "path": "results/runs/adhoc/mnist_mlp-none.s1.3a228e1c3403",
             "seconds_left": null, "label": "model=mnist_mlp norm=none"}]}
"""
MOST_RUNS = 40


def command(filters: Filters, results: Results, as_json: Json = False) -> None:
    """Print the counts of each experiment and configuration, then each unfinished run; or the runs that fit."""
    stored = Runs(results)
    listed = configuration.select(filters, stored.heads) if filters else stored.raw
    runs = [{**entry(run), "label": text} for run, text in zip(listed, labels(listed), strict=True)]
    if as_json:
        return say_json({"runs": runs})
    printed, counts = console(), defaultdict[tuple[str, str], Counter[str]](Counter)
    if filters:
        cells = [(run["id"], run["experiment"], run["label"], str(run["seed"]), run["status"]) for run in runs]
        return show_rows(printed, ("run", "experiment", "configuration", "seed", "status"), cells)
    for run in runs:
        if run["id"]:  # else it is a folder that cannot be listed
            counts[run["experiment"], run["label"]][run["status"]] += 1
    rows = [(*key, ", ".join(f"{n} {state}" for state, n in sorted(of.items()))) for key, of in sorted(counts.items())]
    if rows:
        show_rows(printed, ("experiment", "configuration", "runs"), rows)
    elif not (runs or stored.packs):
        say(printed, f"no runs below {results / 'runs'} yet. Try: {format.first_command(results)}")
    unfinished = [run for run in runs if run["status"] not in FINISHED]
    for run in unfinished[:MOST_RUNS]:
        share = f" {100 * run['step'] / run['steps']:.0f} %" if run["steps"] else ""
        left = f", about {format.duration(run['seconds_left'])} left" if run["seconds_left"] else ""
        name = f"{run['id']} {run['label']} s{run['seed']}" if run["id"] else run["path"]
        say(printed, f"  {name} {run['status']}{share}{left}{run['reason'] and ': ' + run['reason']}")
    if len(unfinished) > MOST_RUNS:
        say(printed, f"  … and {len(unfinished) - MOST_RUNS} more (normbench status --json)")
    for path, count, damage in stored.packs:
        say(printed, damage or f"{path.parent.relative_to(results)}: {format.plural(count, 'run')} in a pack")


def entry(run: Run) -> dict[str, Any]:
    """The fields of a run in `status --json`."""
    step, left = _progress(run) if run.status in ("running", "interrupted") else (run.step, None)
    fields: dict[str, Any] = {"id": "" if run.id == str(run.path) else run.id}  # a folder that cannot be listed
    fields |= {key: getattr(run, key) for key in ("experiment", "arm", "seed", "status", "reason")}
    fields |= {"step": step, "steps": run.steps or None, "path": str(run.path)}  # None of one that never began
    return fields | {"seconds_left": left if run.status == "running" else None}


def _progress(run: Run) -> tuple[int, float | None]:
    """Its step, and the seconds that are left at the pace of its last evaluation; None before the first one."""
    with suppress(OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        lines = reading.tail(run.path / "timing.jsonl", 4096).split(b"\n")[-3:-1]  # whole ones
        *before, last = map(json.loads, lines)
        seconds = last["train_seconds"] + last["evaluate_seconds"]
        pace = seconds / (last["step"] - (before[0]["step"] if before else 0))
        return max(run.step, last["step"]), round(pace * (run.steps - last["step"]), 1)
    return run.step, None


def labels(runs: Sequence[Run]) -> list[str]:
    """A label per run: arm, axes and control of an experiment, else what differs between the runs of its model."""
    axes = [[f"{key}={value}" for key, value in run.axes.items()] for run in runs]
    texts = [" ".join(filter(None, (run.arm, *of, run.control))) for run, of in zip(runs, axes, strict=True)]
    adhoc = [at for at, run in enumerate(runs) if run.experiment == plan.ADHOC and run.config]  # else it is damaged
    flats = configuration.flats([runs[at].config for at in adhoc])
    for model in {flat.get("model") for flat in flats}:
        labelled = [(at, flat) for at, flat in zip(adhoc, flats, strict=True) if flat.get("model") == model]
        distinct = {id(flat): flat for _, flat in labelled}.values()  # equal configurations share one object
        keys = dict.fromkeys(["model", configuration.ARM_GROUP, *configuration.differing(distinct)])
        among = configuration.numbers(distinct)
        for at, flat in labelled:
            texts[at] = configuration.label(flat, keys, among)
    return texts
