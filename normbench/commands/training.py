"""Shared by the commands that train: the launcher, progress and messages about runs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from normbench.commands import format
from normbench.commands.progress import bars
from normbench.commands.terminal import say
from normbench.config import plan
from normbench.config.compose import Config
from normbench.config.spec import Spec
from normbench.core import extras
from normbench.errors import BadInput
from normbench.export import wandb_run
from normbench.launch import base
from normbench.launch.pool import Pool
from normbench.runs import pack
from normbench.runs.run import Run
from normbench.runs.table import Runs

FEW = 8  # runs that a printed command names one by one
MANY = "launcher=pool"  # the default of commands of many runs


def launcher(jobs: int, words: Sequence[str] = (), config_dir: Path | None = None) -> base.Launcher:
    """The launcher for --jobs (0: one per core) and `launcher...` among the words, which take precedence."""
    overrides = [MANY, *([f"launcher.jobs={jobs}"] if jobs else []), *words]
    return base.load(plan.command_options("launcher", overrides, config_dir))


def describe_stored(stored: Runs, specs: Sequence[Spec], missing: Sequence[Spec]) -> Iterator[str]:
    """How many runs are shown without being trained, and where they are from; which stored ones are trained anew."""
    counts: Counter[str] = Counter()
    for spec in specs:
        if run := stored.of(spec):
            facts = ["published" if run.path.name == pack.NAME else "trained before"]
            if run.cut_from:
                facts.append(f"the first {run.steps} of {run.cut_from} updates")
            if (device := run.config.get("device", "cpu")) != spec.config["device"]:
                facts.append(f"on device={device}, not {spec.config['device']}")
            counts[", ".join(facts)] += 1
    for which, runs in counts.items():
        yield f"{format.plural(runs, 'run')} found ({which}); not trained again"
    if again := stored.retrained(missing):
        those = "1 stored run has" if len(again) == 1 else f"{len(again)} stored runs have"
        yield (
            f"note: {those} too few updates or other evaluations ({again[0].id}): trained anew, the old directory is "
            "kept as NAME.old-1"
        )


def describe_launched(outcomes: Mapping[str, base.Outcome], stored: Runs) -> Iterator[str]:
    """How many runs a launcher left to others, and how many the CPU trained without the kernel a compiler builds."""
    for reason, runs in Counter(o.reason for o in outcomes.values() if o.status == "planned").items():
        yield f"{format.plural(runs, 'run')} {reason}"
    environments = [copy.environment for run in outcomes if (copy := stored.copy(run))]
    slow = [e for e in environments if e.get("device") == "cpu" and e.get("recurrent", "").startswith("ATen")]
    if slow:
        yield f"note: {extras.WITHOUT_COMPILER} ({format.plural(len(slow), 'run')}; normbench doctor says why)"


def describe_failures(outcomes: Mapping[str, base.Outcome], stored: Runs) -> Iterator[str]:
    """Why runs failed, were refused or left to another process: each reason once, with a log."""
    reasons = set()
    for run, outcome in outcomes.items():
        if outcome.status in ("failed", "refused", "busy") and outcome.reason not in reasons:
            reasons.add(outcome.reason)
            copy = stored.copy(run) if outcome.status == "failed" else None
            log = copy.log if copy else None
            yield outcome.reason + (f" (more in {log})" if log else "")


def replay(runs: Sequence[Run | Spec], logger: Config, results: Path) -> str:
    """The command that logs these runs to `logger` once they are finished."""
    which = [run.id for run in runs]
    if len(which) > FEW:
        which = [f"experiment={','.join(dict.fromkeys(run.experiment for run in runs))}"]
    options = [f"--{key}={logger[key]}" for key in ("mode", "project", "entity") if logger[key]]
    return shlex.join(["normbench", "export", "wandb", *which, *options, *format.repeated(results, None)])


def watched(
    console: Console, logger: Config, results: Path, launcher: base.Launcher
) -> tuple[base.Launcher, base.Watch]:
    """The launcher, which logs to `logger`, and progress on the terminal, as a context for a number of runs.

    NormbenchError if there is a logger but other processes train the runs.
    """
    if logger["name"] == "none":
        return launcher, lambda runs: bars(runs, console)
    if not isinstance(launcher, Pool):
        raise BadInput(
            f"logger={logger['name']} logs what this command trains, and this launcher leaves that to others. Leave it "
            "out; once the runs have ended: normbench export wandb"
        )
    extras.require("wandb")  # without it a run of the pool would go on, with a note at its end
    started: list[Spec] = []
    warnings: list[str] = []

    def arguments(spec: Spec) -> dict[str, Any] | None:
        started.append(spec)
        if warnings:  # the next run would wait for W&B again
            return None
        run = Run(
            spec.id, seed=spec.seed, status="running", epochs=spec.epochs, config=spec.stored_config(), **spec.labels()
        )
        return wandb_run.arguments(run, logger, results)

    @contextmanager
    def watch(runs: int) -> Iterator[base.Listener]:
        with bars(runs, console) as show:

            def listen(spec: Spec, event: dict[str, Any]) -> None:
                if event["event"] == "warning":
                    warnings.append(event["text"])
                else:
                    show(spec, event)

            yield listen
        if warnings:
            again = replay(started, logger, results)
            say(console, f"  note: W&B: {warnings[0].rstrip('.')}. The runs are whole; log them with: {again}")
        elif logger["mode"] == "offline":
            say(console, f"  {wandb_run.files(results)}")

    return replace(launcher, wandb=arguments), watch
