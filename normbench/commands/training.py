"""Shared by the commands that train: the launcher, progress and messages about runs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from normbench.commands import format
from normbench.commands.progress import Bars
from normbench.commands.terminal import say
from normbench.config import plan
from normbench.config.compose import Config
from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.export import mirror, wandb_run
from normbench.launch import base
from normbench.runs.find import Found
from normbench.runs.record import RunRecord
from normbench.runs.store import head

FEW = 8  # runs that a printed command names one by one
MANY = "launcher=pool"  # the default of commands of many runs


def launcher(jobs: int, words: Sequence[str] = (), config_dir: Path | None = None) -> base.Launcher:
    """The launcher for --jobs (0: one per core) and `launcher...` among the words, which take precedence."""
    asked = [MANY, *([f"launcher.jobs={jobs}"] if jobs else []), *words]
    return base.load(plan.command_options("launcher", asked, config_dir))


def describe_unmirrored(
    logger: Config, done: Sequence[RunRecord], given: Sequence[str], results: Path
) -> Iterator[str]:
    """The command that mirrors finished runs, since `logger` mirrors only runs that are trained.

    given: the options that a printed command must repeat.
    """
    if logger["name"] == "none":
        return
    target = _target(logger, results)
    if lacking := [run for run in done if not target.has(run)]:
        which = [run.id for run in lacking]
        if len(which) > FEW:
            parts = [(run.experiment, str(run.config["model"]["name"])) for run in lacking]
            which = [
                f"{key}={','.join(dict.fromkeys(values))}"
                for key, values in zip(("experiment", "model"), zip(*parts, strict=True), strict=True)
            ]
        words = [
            word
            for option, default in (("mode", "offline"), ("project", "normbench"), ("entity", ""))
            if logger[option] != default
            for word in (f"--{option}", logger[option])
        ]
        yield f"already done: {shlex.join(['normbench', 'export', 'wandb', *which, *words, *given])}"
    elif done and target.mode == "offline":
        yield target.files


def _target(logger: Config, results: Path) -> wandb_run.Target:
    return wandb_run.Target(logger["mode"], logger["project"], logger["entity"], results / "wandb")


def describe_submitted(outcomes: Mapping[str, base.Outcome]) -> Iterator[str]:
    """The reasons of a launcher for runs that it only submitted, with their number."""
    for reason, runs in Counter(o.reason for o in outcomes.values() if o.status in base.LEFT).items():
        yield f"{format.plural(runs, 'run')} {reason}"


def describe_found(found: Found, specs: Sequence[ResolvedRun]) -> Iterator[str]:
    """How many runs are shown without being trained, and where they are from; which stored ones are trained anew."""
    counts: Counter[str] = Counter()
    for spec in found.wanted:
        if run := found.of(spec):
            facts = ["published" if (spec.id, spec.steps) in found.published else "trained before"]
            if run.cut_from:
                facts.append(f"the first {run.steps} of {run.cut_from} updates")
            if (device := run.config.get("device", "cpu")) != spec.config["device"]:
                facts.append(f"on device={device}, not {spec.config['device']}")
            counts[", ".join(facts)] += 1
    for which, runs in counts.items():
        yield f"{format.plural(runs, 'run')} found ({which}); not trained again"
    if again := found.retrained(specs):
        those = "1 stored run has" if len(again) == 1 else f"{len(again)} stored runs have"
        yield (
            f"note: {those} too few updates or other evaluations ({again[0].id}): trained anew, the old directory is "
            "kept as NAME.old-1"
        )


def describe_failures(outcomes: Mapping[str, base.Outcome], found: Found, *also: str) -> Iterator[str]:
    """Why runs failed, were refused or ended in a state of `also`: each reason once, with a log."""
    reasons = set()
    for run, outcome in outcomes.items():
        if outcome.status in ("failed", "refused", *also) and outcome.reason not in reasons:
            reasons.add(outcome.reason)
            log = head(found.stored[run]).log if outcome.status == "failed" and run in found.stored else None
            yield outcome.reason + (f" (more in {log})" if log else "")


def watching(console: Console, logger: Config, results: Path, launcher: base.Launcher) -> base.Watch:
    """Progress on the terminal and the mirror of `logger`, as a context for a number of runs.

    NormbenchError if there is a mirror but other processes train the runs.
    """
    if logger["name"] != "none" and not launcher.here:
        raise NormbenchError(
            f"logger={logger['name']} mirrors what this command trains, and this launcher leaves that to others. Leave "
            "it out; once the runs have ended: normbench export wandb"
        )

    @contextmanager
    def watch(runs: int) -> Iterator[base.Listener]:
        with Bars(runs, console) as show, mirror.following(logger, results, show) as follower:
            yield follower.listen
        for note in follower.notes:
            say(console, f"  note: {note}")
        if logger["name"] != "none" and logger["mode"] == "offline" and (results / "wandb" / "wandb").is_dir():
            say(console, f"  {_target(logger, results).files}")

    return watch
