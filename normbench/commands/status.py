"""`normbench status`: what is done, running, failed; the time left. Reads status files and the tails of curves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from normbench import reading
from normbench.commands import places
from normbench.commands.terminal import open_table, say, say_json
from normbench.compare import configuration
from normbench.config import plan
from normbench.errors import NormbenchError
from normbench.launch import queue
from normbench.papers import artifact as artifacts
from normbench.runs import pack, store
from normbench.runs.damaged import Damaged

TAIL = 4096  # bytes: more than the records of one evaluation
SHOWN = 40


def run(results: Path, as_json: bool, console: Console) -> int:
    """One line per experiment and configuration with counts, then each run that is not simply done."""
    found = store.scan(results / "runs")
    runs = [{**entry(stored), "label": told} for stored, told in zip(found, labels(found), strict=True)]
    waiting, notes = queue.queued(results)
    for run in runs:
        run["status"] = queue.state(run["status"], run["id"], waiting)
    fresh = queue.not_begun(waiting, (run["id"] for run in runs), results / "runs")
    known = [waiting[stored.id] for stored in fresh]
    runs += [{**entry(stored), "label": told} for stored, told in zip(fresh, labels(fresh, known), strict=True)]
    if as_json:
        say_json({"runs": runs})
        return 0
    if not runs:
        say(console, f"no runs below {results / 'runs'} yet. Try: normbench reproduce ln2016/fig6 --fidelity smoke")
    else:
        _summary(runs, console)
        _unfinished([r for r in runs if r["status"] not in store.FINISHED], console)
    for note in notes:
        say(console, f"note: {note}")
    if hint := places.where_published(results):
        say(console, hint)
    for path in pack.paths(results):
        say(console, _published(path, path.parent.relative_to(results)))
    return 0


def _published(path: Path, place: Path) -> str:
    """How many of the runs that are planned at the paper's setting an artifact's pack has, and what else."""
    name, fidelity = place.parent.as_posix(), place.name
    try:
        runs = pack.read(path)
        artifact = artifacts.load(artifacts.select([name])[0])
        cells = plan.planned_seeds(artifact.experiment, fidelity, artifact.seeds)
    except NormbenchError as error:
        return f"published: {place}: {error}"
    planned = {(*sorted(cell.items()), seed) for cell, seeds in cells if not cell["control"] for seed in seeds}
    here = {(*sorted({**run.axes, "arm": run.arm, "control": run.control}.items()), run.seed): run for run in runs}
    count, total = len(planned & here.keys()), len(planned)
    controls = sum(bool(here[place].control) for place in here.keys() - planned)
    others = len(runs) - count - controls
    beside = [f"{number} {of}" for number, of in ((controls, "of controls"), (others, "not planned")) if number]
    also = f", beside them {' and '.join(beside)}" if beside else ""
    missing = f", {total - count} missing: normbench reproduce {name} --fidelity {fidelity}" if count < total else ""
    return f"published: {name} · {fidelity} · {count} of {total} runs{also}{missing}"


def entry(stored: store.Stored) -> dict[str, Any]:
    """The fields of `status --json`; `seconds_left` for a run that is being written."""
    state = stored.state
    step, steps = stored.status.get("step", 0), stored.status.get("steps")
    left = None
    if state in ("running", "interrupted"):
        step = max(step, last_step(stored.path / "curve.jsonl"))
        if state == "running" and steps:
            left = _seconds_left(stored.path, step, steps)
    return {
        "id": stored.id,
        "experiment": stored.experiment,
        "arm": stored.arm,
        "seed": stored.seed,
        "status": state,
        "step": step,
        "steps": steps,
        "reason": stored.reason or stored.status.get("reason", ""),
        "path": str(stored.path),
        **({"seconds_left": left} if left is not None else {}),
    }


def labels(found: Sequence[store.Stored], known: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """What each run is: arm, axes and control of an experiment; else what differs between the runs of its model.

    known: what is else read from their config.yaml.
    """
    told, own = [], {}
    for place, stored in enumerate(found):
        told.append(stored.arm)
        try:
            content = known[place] if known else store.read_config(stored.path)
            axes = [f"{key}={value}" for key, value in content["axes"].items()]
            if stored.experiment == plan.ADHOC:
                own[place] = configuration.flat(content["config"])
            told[place] = " ".join(word for word in (stored.arm, *axes, content["control"]) if word)
        except (Damaged, KeyError, TypeError, AttributeError):
            continue  # its state says so
    for model in {values.get("model") for values in own.values()}:
        alike = {place: values for place, values in own.items() if values.get("model") == model}
        keys = dict.fromkeys(["model", configuration.ARM_GROUP, *configuration.differing(alike.values())])
        told = [configuration.label(alike[place], keys) if place in alike else name for place, name in enumerate(told)]
    return told


def last_step(curve: Path) -> int:
    """The step of the last whole record, from the file's tail."""
    for text in reversed(_tail(curve)):
        try:
            return int(json.loads(text)["step"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return 0


def _tail(path: Path) -> list[bytes]:
    try:
        return reading.tail(path, TAIL).splitlines()
    except OSError:
        return []


def _seconds_left(path: Path, step: int, steps: int) -> float | None:
    """By the pace of the last evaluations; None before the first one after an update."""
    spent: list[tuple[int, float]] = []
    for text in _tail(path / "timing.jsonl"):
        try:
            record = json.loads(text)
            spent.append((int(record["step"]), record["train_seconds"] + record["evaluate_seconds"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    first = spent.pop(0)[0] if len(spent) > 1 else 0
    if not spent or spent[-1][0] <= first:
        return None
    per_step = sum(seconds for _, seconds in spent) / (spent[-1][0] - first)
    return round(per_step * (steps - step), 1)


def _summary(runs: list[dict[str, Any]], console: Console) -> None:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for run in runs:
        counts.setdefault((run["experiment"], run["label"]), Counter())[run["status"]] += 1
    table = open_table("experiment", "configuration", "runs")
    for (experiment, label), states in sorted(counts.items()):
        text = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        table.add_row(escape(experiment), escape(label), text)
    console.print(table)


def _unfinished(runs: list[dict[str, Any]], console: Console) -> None:
    for run in runs[:SHOWN]:
        share = f" {100 * run['step'] / run['steps']:.0f} %" if run["steps"] else ""
        left = f", about {places.duration(run['seconds_left'])} left" if "seconds_left" in run else ""
        reason = f": {run['reason']}" if run["reason"] else ""
        name = run["id"] or run["path"]
        say(console, f"  {name} {run['label']} s{run['seed']} {run['status']}{share}{left}{reason}")
    if len(runs) > SHOWN:
        say(console, f"  … and {len(runs) - SHOWN} more (normbench status --json)")
