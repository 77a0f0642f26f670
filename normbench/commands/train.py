"""`normbench train`: one run, or a sweep with -m."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from rich.console import Console

from normbench import runs, scratch, user_code
from normbench.commands import format
from normbench.commands.terminal import Table, cell, say
from normbench.commands.training import (
    describe_failures,
    describe_found,
    describe_submitted,
    describe_unmirrored,
    watching,
)
from normbench.compare import configuration, metrics
from normbench.config import compose, grammar, plan
from normbench.config.resolve import ResolvedRun
from normbench.draw.tables import number
from normbench.errors import NormbenchError
from normbench.launch import base
from normbench.launch.run_missing import ensure_runs
from normbench.runs.find import Found, find
from normbench.runs.store import FINISHED
from normbench.stats.series import exploded, final


def run(words: Sequence[str], multirun: bool, results: Path, config_dir: Path | None, console: Console) -> int:
    """Exit code: 0 done, 3 diverged, 4 failed, 5 busy elsewhere, 130 interrupted; of a sweep the most serious.

    A sweep waits at its end for runs that another process writes; a single run reports that process at once.
    """
    specs = plan.train_specs(words, multirun, config_dir)
    launcher = base.load(plan.command_options("launcher", words, config_dir))
    logger = plan.command_options("logger", words, config_dir)

    def announce(found: Found, missing: Sequence[ResolvedRun]) -> None:
        done = sum(found.state(spec) in FINISHED for spec in specs)
        say(console, f"{format.plural(len(specs), 'run')} · {done} done, {len(missing)} to run")
        mirror = describe_unmirrored(logger, found.runs, format.repeated(results, config_dir), results)
        for line in (*describe_found(found, missing), *mirror):
            say(console, f"  {line}")

    watch = watching(console, logger, results, launcher)
    ensured = ensure_runs(specs, launcher, results, announce, watch, wait_for_busy=multirun)
    found, outcomes = ensured.found, ensured.outcomes
    states = {spec.id: found.state(spec) for spec in specs}
    for run, ended in outcomes.items():
        if ended.status == "refused" or (ended.status in base.LEFT and states[run] != "running"):
            states[run] = ended.status
    if set(states.values()) != {"refused"}:
        _table(specs, found, states, console)
    for line in _remarks(specs, found, outcomes):
        say(console, line)
    if ensured.interrupted:  # an incomplete sweep is not compared
        say(console, "interrupted; the same command goes on.")
        return 130
    if multirun:
        from normbench.commands import compare  # late: a single run is not compared

        compare.after_sweep(found.runs, console, results, config_dir)
    codes = [{"failed": 4, "refused": o.code or 4, "busy": 5}.get(o.status, 0) for o in outcomes.values()]
    codes += [{"diverged": 3, "damaged": 4}.get(found.state(spec), 0) for spec in specs]
    return next((code for code in (4, 2, 5, 3) if code in codes), 0)


@contextmanager
def named(
    words: Sequence[str], multirun: bool, results: Path, config_dir: Path | None, console: Console, keeps: bool
) -> Iterator[tuple[Sequence[str], Path | None]]:
    """Register the normalizers of files (`norm=my_norm.py`): the words with their names, and the folder of choices.

    keeps: store the choices below the results, once the words are valid; else in a temporary folder.
    """
    overrides = grammar.parse(words)
    if not any(map(user_code.is_normalizer_file, grammar.chosen(overrides, "norm"))):
        yield words, config_dir
        return
    from normbench.battery.adopt import in_words, keep  # imports torch

    conf = runs.own(results)
    with scratch.folder("normbench-own-") as tried:
        words, adopted = in_words(words, config_dir, tried)
        try:
            plan.train_specs(words, multirun, tried)
            if not keeps:
                yield words, tried
                return
        except NormbenchError as error:
            raise NormbenchError(str(error).replace(str(tried), str(conf)), error.code) from None
        normalizers = [keep(one, conf) for one in adopted]
        for one in normalizers:
            if one.remark:
                say(console, one.remark)
            say(console, f"{one.name}: from now on norm={one.name} with --config-dir {shlex.quote(str(conf))}")
    yield words, conf


def show_configurations(words: Sequence[str], multirun: bool, config_dir: Path | None) -> int:
    """Print the configurations of the runs as YAML documents."""
    command = {group: plan.command_options(group, words, config_dir) for group in grammar.COMMAND_GROUPS}
    specs = plan.train_specs(words, multirun, config_dir)
    print(yaml.safe_dump_all([compose.stored_form(s.config) | command for s in specs], sort_keys=False), end="")
    return 0


def list_runs(words: Sequence[str], results: Path, config_dir: Path | None, console: Console) -> int:
    """Print a line per run of a sweep: id, label, length and state."""
    for group in grammar.COMMAND_GROUPS:
        plan.command_options(group, words, config_dir)
    specs = plan.train_specs(words, True, config_dir)
    found = find(specs, results)
    for spec, label in zip(specs, configuration.labels(specs), strict=True):
        say(console, f"  {spec.id}  {label} · {format.plural(spec.steps, 'update')} ({found.state(spec)})")
    done = sum(found.state(spec) in FINISHED for spec in specs)
    say(console, f"{format.plural(len(specs), 'run')} · {done} done; --dry-run: nothing is run")
    return 0


def _remarks(specs: Sequence[ResolvedRun], found: Found, outcomes: Mapping[str, base.Outcome]) -> Iterator[str]:
    """The path of a single run, and a line for each that failed or ended far worse than it began."""
    if len(specs) == 1 and specs[0].id in found.stored:
        yield f"  {found.stored[specs[0].id].path}"
    for fault in describe_failures(outcomes, found, "busy"):
        yield f"normbench: {fault}"
    yield from describe_submitted(outcomes)
    for spec in specs:
        if found.state(spec) == "damaged":
            stored = found.stored[spec.id]
            yield f"normbench: {stored.path} is damaged: {stored.reason}. Delete it to train this run again."
        elif (run := found.of(spec)) and run.status == "diverged":
            yield f"normbench: run {spec.id} diverged: {run.reason}. It counts as diverged in figures and verdicts."
        elif run and (ends := exploded(run)):
            metric = metrics.format_metric(run.monitor["split"], run.monitor["metric"])
            yield f"normbench: run {spec.id}: {metric} was {ends[0]:.3g} before training and is {ends[1]:.3g} now."


def _table(specs: Sequence[ResolvedRun], found: Found, states: Mapping[str, str], console: Console) -> None:
    """Print a row per started run: its differing options and its main metrics at the end, in evaluation mode."""
    logged = metrics.logged(found.runs)
    monitored = {(run.monitor["split"], run.monitor["metric"]) for run in found.runs}
    columns = [
        (split, metric)
        for split in ("train", "valid", "test")
        for metric in logged.get(split, ())
        if (split, metric.name) in monitored
        or (split != "valid" and (metric.loss or metric == metrics.chief(logged[split])))
    ]
    settings_of_runs = [configuration.flat(spec.config) for spec in specs]
    among = configuration.numbers(settings_of_runs)
    keys = list(configuration.differing(settings_of_runs)) or ["model", configuration.ARM_GROUP]
    names = [f"{split} {metric.title}{metric.unit and f', {metric.unit}'}" for split, metric in columns]
    grid = Table("run", *map(cell, keys), "seed", "status", *names, whole=["run"])
    for spec, values in zip(specs, settings_of_runs, strict=True):
        if states[spec.id] == "missing":
            continue
        run = found.of(spec)
        ends = [final(run, split, "eval", metric.name) if run else None for split, metric in columns]
        texts = [
            "" if end is None else number(metric.factor * end, metric.factor * abs(end) / 100)
            for (_, metric), end in zip(columns, ends, strict=True)
        ]
        settings = [cell(configuration.short(values[key], among.get(key, ()))) if key in values else "" for key in keys]
        grid.add_row(spec.id, *settings, str(spec.seed), states[spec.id], *texts)
    console.print(grid)
    if lacking := [*states.values()].count("missing"):
        say(console, f"{format.plural(lacking, 'run')} missing")
