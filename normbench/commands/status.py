"""`normbench status`: from status files and tails of curves."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from normbench.commands import format
from normbench.commands.options import ConfigDir, Json, Results
from normbench.commands.terminal import console as terminal_console
from normbench.commands.terminal import say, say_json, show_rows
from normbench.compare import configuration
from normbench.config import plan
from normbench.errors import NormbenchError
from normbench.files import reading
from normbench.papers import artifact as artifacts
from normbench.runs import imported, pack
from normbench.runs import own as own_folder
from normbench.runs.run import FINISHED, Run
from normbench.runs.table import Runs

EPILOG = """examples:
  normbench status
  normbench status --json | python -m json.tool

--json prints, shortened:
  {"runs": [{"id": "3a228e1c3403", "experiment": "adhoc", "arm": "mnist_mlp-none", "seed": 1, "status": "done",
             "step": 12, "steps": 12, "reason": "", "path": "results/runs/adhoc/mnist_mlp-none.s1.3a228e1c3403",
             "label": "model=mnist_mlp norm=none"}]}
a run that is training has "seconds_left" too.
"""
TAIL = 4096  # bytes: more than the records of one evaluation
MOST_RUNS = 40


def command(results: Results, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Print the counts of each experiment and configuration, then each unfinished run."""
    stored = Runs(results).raw
    runs = [{**entry(run), "label": label} for run, label in zip(stored, labels(stored), strict=True)]
    if as_json:
        return say_json({"runs": runs})
    console = terminal_console()
    if not runs:
        some = shlex.join(
            ["normbench", "reproduce", "ln2016/fig6", "--fidelity", "smoke", *format.repeated(results, None)]
        )
        say(console, f"no runs below {results / 'runs'} yet. Try: {some}")
    else:
        _summary(runs, console)
        _unfinished([r for r in runs if r["status"] not in FINISHED], console)
    if hint := format.where_published(results):
        say(console, hint)
    for path in pack.published(results):
        whose = "own" if own_folder(results) in path.parents else "published"
        say(console, f"{whose}: {_describe_published(path, path.parent.relative_to(path.parents[3]), config_dir)}")
    for name in imported.names(results):
        say(console, f"imported: {_describe_imported(imported.place(results, name), name)}")


def _describe_imported(path: Path, name: str) -> str:
    try:
        heads = pack.read(path).runs
    except NormbenchError as error:
        return f"{name}: {error}"
    arms = format.plural(len({run.arm for run in heads}), "arm")
    diverged = sum(run.status == "diverged" for run in heads)
    return f"{name} · {format.plural(len(heads), 'run')} of {arms}{f', {diverged} diverged' if diverged else ''}"


def _describe_published(path: Path, place: Path, config_dir: Path | None) -> str:
    """How many of the runs planned at the paper's setting an artifact's pack has, and which others."""
    name, fidelity = place.parent.as_posix(), place.name
    try:
        runs = pack.read(path).runs
        artifact = artifacts.read(artifacts.select([name], config_dir)[0], config_dir)
        cells = plan.planned_seeds(artifact.experiment, fidelity, artifact.seeds, artifact.config_dir)
    except NormbenchError as error:
        return f"{place}: {error}"
    planned = {(*sorted(cell.items()), seed) for cell, seeds in cells if not cell["control"] for seed in seeds}
    here = {(*sorted({**run.axes, "arm": run.arm, "control": run.control}.items()), run.seed): run for run in runs}
    count, total = len(planned & here.keys()), len(planned)
    controls = sum(bool(here[place].control) for place in here.keys() - planned)
    others = len(runs) - count - controls
    unplanned = [f"{number} {of}" for number, of in ((controls, "of controls"), (others, "not planned")) if number]
    also = f", beside them {' and '.join(unplanned)}" if unplanned else ""
    missing = f", {total - count} missing: {artifact.command} --fidelity {fidelity}" if count < total else ""
    return f"{name} · {fidelity} · {count} of {total} runs{also}{missing}"


def entry(run: Run) -> dict[str, Any]:
    """The fields of a run in `status --json`; `seconds_left` only of a running one."""
    step, left = run.step, None
    if run.status in ("running", "interrupted"):
        step = max(step, last_step(run.path / "curve.jsonl"))
        if run.status == "running":
            left = _seconds_left(run.path, step, run.steps)
    return {
        "id": "" if run.id == str(run.path) else run.id,  # a folder that cannot be listed has none
        "experiment": run.experiment,
        "arm": run.arm,
        "seed": run.seed,
        "status": run.status,
        "step": step,
        "steps": run.steps or None,  # of one that never began
        "reason": run.reason,
        "path": str(run.path),
        **({"seconds_left": left} if left is not None else {}),
    }


def labels(runs: Sequence[Run]) -> list[str]:
    """A label per run: arm, axes and control of an experiment, else what differs between the runs of its model."""
    texts: list[str] = []
    own: dict[int, Any] = {}
    for place, run in enumerate(runs):
        axes = (f"{key}={value}" for key, value in run.axes.items())
        texts.append(" ".join(word for word in (run.arm, *axes, run.control) if word))
        if run.experiment == plan.ADHOC and run.config:  # else it is damaged
            own[place] = run.config
    values = dict(zip(own, configuration.flats(list(own.values())), strict=True))
    for model in {flat.get("model") for flat in values.values()}:
        alike = {place: flat for place, flat in values.items() if flat.get("model") == model}
        once = {id(flat): flat for flat in alike.values()}  # equal configurations share one object
        keys = dict.fromkeys(["model", configuration.ARM_GROUP, *configuration.differing(once.values())])
        among = configuration.numbers(once.values())
        words = {name: configuration.label(flat, keys, among) for name, flat in once.items()}
        for place, flat in alike.items():
            texts[place] = words[id(flat)]
    return texts


def last_step(curve: Path) -> int:
    """The step of the last complete record, from the file's tail."""
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
    """The time left at the pace of the last evaluations; None before the first one after an update."""
    spent: list[tuple[int, float]] = []
    for text in _tail(path / "timing.jsonl"):
        try:
            record = json.loads(text)
            seconds = float(record["train_seconds"] + record["evaluate_seconds"])
            if spent and int(record["step"]) <= spent[-1][0]:
                spent.clear()  # the run restarted or resumed
            spent.append((int(record["step"]), seconds))
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
        if not run["id"]:  # an unreadable folder
            continue
        counts.setdefault((run["experiment"], run["label"]), Counter())[run["status"]] += 1
    rows = [
        (experiment, label, ", ".join(f"{count} {state}" for state, count in sorted(states.items())))
        for (experiment, label), states in sorted(counts.items())
    ]
    if rows:
        show_rows(console, ("experiment", "configuration", "runs"), rows)


def _unfinished(runs: list[dict[str, Any]], console: Console) -> None:
    for run in runs[:MOST_RUNS]:
        share = f" {100 * run['step'] / run['steps']:.0f} %" if run["steps"] else ""
        left = f", about {format.duration(run['seconds_left'])} left" if "seconds_left" in run else ""
        reason = f": {run['reason']}" if run["reason"] else ""
        name = f"{run['id']} {run['label']} s{run['seed']}" if run["id"] else run["path"]
        say(console, f"  {name} {run['status']}{share}{left}{reason}")
    if len(runs) > MOST_RUNS:
        say(console, f"  … and {len(runs) - MOST_RUNS} more (normbench status --json)")
