"""`normbench reproduce`: plan, train what is missing, draw, judge, report."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from normbench.commands import format, training
from normbench.commands.terminal import Table, say
from normbench.config import FIDELITIES, plan
from normbench.config.grammar import COMMAND_GROUPS
from normbench.config.resolve import ResolvedRun
from normbench.draw import tables
from normbench.errors import NormbenchError
from normbench.launch import pace
from normbench.launch.base import Launcher, Watch
from normbench.launch.run_missing import check_data, ensure_runs, missing
from normbench.papers import artifact as artifacts
from normbench.papers import describe, power, publish
from normbench.papers.claims import Artifact, Claim, place_of
from normbench.runs import pack
from normbench.runs.find import Found
from normbench.runs.record import RunRecord
from normbench.web import report

COLOURS = {"good": "green", "half-good": "green", "bad": "red", "half-bad": "red", "weak": "yellow"}


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    names: Sequence[str]
    fidelity: str
    results: Path
    seeds: int | Sequence[int] | None = None
    jobs: int = 0
    only: Sequence[str] = ()
    controls: bool = False
    max_time: float | None = None
    retry_failed: bool = False
    dry_run: bool = False
    drop_stale: bool = False
    config_dir: Path | None = None
    others: Sequence[Path] = ()  # results folders of --from
    words: Sequence[str] = ()  # launcher=..., logger=... among the artifacts
    device: str = "cpu"


def run(request: Request, console: Console) -> int:
    """Exit code: 0 done (divergence is a result), 4 a run failed, 130 interrupted."""
    for word in request.words:
        if word.split("=")[0].split(".")[0] not in COMMAND_GROUPS:
            raise NormbenchError(
                f"'{word}': an artifact's runs are as it says; only launcher=... and logger=... can be set here. "
                "For a question of your own: normbench train experiment=NAME arm=ARM key=value"
            )
    # typos fail before anything starts
    launcher = training.launcher(request.jobs, request.words, request.config_dir)
    logger = plan.command_options("logger", request.words, request.config_dir)
    watch = training.watching(console, logger, request.results, launcher)
    chosen = [artifacts.load(name, request.config_dir) for name in artifacts.select(request.names, request.config_dir)]
    lacking = [
        a for a in chosen if request.fidelity not in plan.experiment(a.experiment, request.config_dir)["fidelities"]
    ]
    if len(lacking) < len(chosen) and not {a.id for a in lacking} & set(
        request.names
    ):  # only included by a paper's name or `all`
        for artifact in lacking:
            say(console, f"{artifact.id} has no fidelity {request.fidelity}: left out")
        chosen = [artifact for artifact in chosen if artifact not in lacking]
    plans = [(artifact, _plan(artifact, request)) for artifact in chosen]  # checked before the first run starts
    code = 0
    counts: Counter[str] = Counter()
    started = time.monotonic()
    for artifact, specs in plans:
        if request.max_time is not None:  # of the whole command, not of each artifact
            left = max(0.0, request.max_time - (time.monotonic() - started))
            request, started = replace(request, max_time=left), time.monotonic()
        try:
            code = max(code, _artifact(artifact, specs, request, launcher, watch, console, counts))
        except NormbenchError as error:  # such as missing data, which the others may not need
            if len(plans) == 1 or error.code != 2:  # a full disk would stop them too
                raise
            say(console, f"  {artifact.id} is left out: {error}")
            code = max(code, error.code)
        if code == 130:
            break
    if counts["claims"]:
        share = f"{counts['decided']} of {format.plural(counts['claims'], 'claim')}"
        say(console, f"  decided   {share}, {counts['decided before']} before this command")
    if not request.dry_run and request.results.is_dir():  # no folder is made if nothing was run
        _report(request, [artifact.id for artifact in chosen], console)
    return code


def _report(request: Request, only: Sequence[str], console: Console) -> None:
    """Update the static site; if it cannot be written, print a note."""
    try:
        written = report.build(request.results, config_dir=request.config_dir, only=only)
    except NormbenchError as error:
        say(console, f"  note: {error}")
        return
    for note in written.notes:
        say(console, f"  note: {note}")
    say(console, f"  report    {written.index}")


def _plan(artifact: Artifact, request: Request) -> list[ResolvedRun]:
    """`--only` takes claims besides arms and values: the runs that they compare, of the seeds that decide them."""
    planned = artifacts.Plan(artifact, request.fidelity)
    named = request.seeds is not None  # given seeds are not limited to planned ones
    groups = {claim.id: _runs_of(claim, planned, named) for claim in artifact.claims}
    specs = plan.artifact_specs(
        artifact.experiment,
        request.fidelity,
        artifact.seeds if request.seeds is None else request.seeds,
        request.only,
        request.controls,
        request.config_dir,
        limited=not named,
        groups=groups,
    )
    return [replace(spec, config={**spec.config, "device": request.device}) for spec in specs]


def _runs_of(claim: Claim, planned: artifacts.Plan, any_seed: bool) -> list[dict[str, Any]]:
    """The cells of the runs that a claim compares; if none can decide it, of those that it reports."""
    places = []
    for control, part in product(("", *claim.controls), claim.parts or claim.reported):
        seeds = {} if any_seed else {"seed": planned.seeds(part, control, claim.alone(planned.fidelity, control))}
        places += [{**place_of(cell), **seeds, "control": control} for _, cell in part.contrast]
    return places


def _artifact(
    artifact: Artifact,
    specs: list[ResolvedRun],
    request: Request,
    launcher: Launcher,
    watch: Watch,
    console: Console,
    counts: Counter[str],
) -> int:
    """Exit code as `run`; adds to `counts` the claims, those decided now and those decided before."""
    ensured = ensure_runs(
        specs,
        launcher,
        request.results,
        lambda found, missing: _header(artifact, specs, found, missing, request, launcher.processes, console),
        watch,
        request.retry_failed,
        0 if request.dry_run else request.max_time,
        wait_for_busy=True,
        others=request.others,
    )
    found = ensured.found
    if request.dry_run:
        for spec in ensured.missing:
            axes = " ".join(f"{key}={value}" for key, value in spec.axes.items())
            say(console, f"  {spec.id}  {spec.arm} {axes} seed={spec.seed} {spec.control} ({found.state(spec)})")
        if ensured.missing and request.fidelity != publish.SMOKE:
            _outlook(artifact, found.runs, request, console)
        return 0
    failures = list(training.describe_failures(ensured.outcomes, found))
    for failure in failures if not ensured.interrupted else ():
        say(console, f"  failed: {failure}")
    for line in training.describe_submitted(ensured.outcomes):
        say(console, f"  {line}")
    # the pack keeps runs that this plan did not ask for; they are judged with the rest
    before = publish.last(request.results, artifact, request.fidelity) or {"claims": []}
    judged = _results(artifact, found.runs, request, console)
    counts["claims"] += len(judged["claims"])
    counts["decided"] += describe.decided(judged["claims"])
    counts["decided before"] += describe.decided(before["claims"])
    if ensured.interrupted:
        left = missing(specs, found, request.retry_failed)
        resumable = sum(found.state(spec) == "interrupted" for spec in left)
        say(
            console,
            f"interrupted; {len(specs) - len(left)} of {len(specs)} done, {resumable} resumable. "
            "The same command goes on.",
        )
        return 130
    return 4 if failures else 0


def _header(
    artifact: Artifact,
    specs: Sequence[ResolvedRun],
    found: Found,
    missing: Sequence[ResolvedRun],
    request: Request,
    processes: int,
    console: Console,
) -> None:
    node = specs[0].config["data"]
    own = [] if request.fidelity == "paper" else artifact.deviations.get(request.fidelity, [])
    stamp = len([*artifact.deviations.get("paper", []), *own])
    axes = {key: {spec.axes[key] for spec in specs} for key in specs[0].axes}
    counted = [(len({spec.arm for spec in specs}), "arm")]
    counted += [(len(values), plan.axis_text(key)) for key, values in axes.items()]
    counted.append((len({spec.seed for spec in specs}), "seed"))
    if request.controls:
        counted.append((len({spec.control for spec in specs}), "setting"))
    factors = [format.plural(*factor) for factor in counted]
    all_of_them = math.prod(n for n, _ in counted) == len(specs)  # limits leave some out
    say(console, f"\n{artifact.title} · {request.fidelity}")
    say(console, f"  data: {node['declares']['title']} · choices and deviations: {stamp}, listed with the verdicts")
    estimate = _describe_estimate(missing, found, processes, request.config_dir)
    failed = sum(found.state(s) == "failed" for s in specs)
    counts = f"{len(found.records)} done, {len(missing)} to run" if missing else f"{len(found.records)} done"
    failures = f", {failed} failed (--retry-failed tries again)" if failed and not request.retry_failed else ""
    say(
        console,
        f"  {len(specs)} runs {'=' if all_of_them else 'of'} {' × '.join(factors)} · {counts}{failures}{estimate}\n",
    )
    for damaged in found.damaged:
        say(console, f"  damaged: {damaged.path}: {damaged.reason}. It is left alone; delete it to train it again.")
    for note in found.notes:
        say(console, f"  note: {note}")
    for note in training.describe_found(found, missing):
        say(console, f"  {note}")
    for line in _describe_hints(artifact, specs, found, missing, request):
        say(console, f"  {line}\n")


def _describe_hints(
    artifact: Artifact, specs: Sequence[ResolvedRun], found: Found, missing: Sequence[ResolvedRun], request: Request
) -> Iterator[str]:
    """Why the command cannot answer, and where an answer is."""
    if missing and request.max_time == 0:
        yield "--max-time 0: nothing is started"
        if hint := format.where_published(request.results):
            yield f"note: {hint}"
    if missing and request.dry_run:
        try:
            check_data(missing)
        except NormbenchError as error:
            yield f"missing data: {error}"
    if request.seeds is not None and request.fidelity == "paper":
        planned = {seed for _, seeds in artifacts.Plan(artifact, request.fidelity).cells for seed in seeds}
        if further := sorted({spec.seed for spec in specs} - planned):
            text = ", ".join(map(str, further)) if len(further) < 4 else f"{further[0]} to {further[-1]}"
            yield f"note: no claim counts seeds beyond those planned: {text} will decide nothing"
    folders = {name: publish.folder(request.results, artifact, name) for name in FIDELITIES}
    others = [name for name, place in folders.items() if (place / "verdicts.json").exists()]
    if others and not found.records:
        yield f"published at {others[0]}: {artifacts.again(artifact.id, others[0], artifact.config_dir)}"


def _describe_estimate(missing: Sequence[ResolvedRun], found: Found, processes: int, config_dir: Path | None) -> str:
    if not missing:
        return ""
    jobs = min(processes, len(missing))
    to_come = ((pace.Place(s.experiment, s.fidelity, s.axes, config_dir), s.steps) for s in missing)
    together, needed = format.plural(jobs, "process"), pace.seconds(to_come, found.runs)
    return f" · on {together}" if needed is None else f" · about {format.duration(needed / jobs)} on {together}"


def _outlook(artifact: Artifact, runs: Sequence[RunRecord], request: Request, console: Console) -> None:
    """Print which verdicts the plan can reach, simulated from the existing seeds, and its cost."""
    published = pack.load(publish.folder(request.results, artifact, request.fidelity) / pack.NAME).runs
    merged = pack.merge(published, runs)
    asked = [claim for claim in artifact.claims if claim.id in request.only] or artifact.claims
    planned = artifacts.Plan(artifact, request.fidelity)
    found = power.outlook(asked, merged, planned, request.fidelity, request.controls)
    if not found:
        return
    names = ("claim", "planned n", "missing runs", "core-hours", "simulated verdicts", "negligible if no effect")
    table = Table(*names, whole=("claim",))
    for entry in found:
        unsimulated = "not simulated: a run without a number"
        if entry.pilots < power.FEWEST_PILOTS:
            unsimulated = f"{entry.pilots} seeds to go by: it takes {power.FEWEST_PILOTS}"
        words = ", ".join(f"{word} {100 * share:.0f} %" for word, share in (entry.words or {}).items())
        table.add_row(
            entry.claim,
            "/".join(str(n) for n in dict.fromkeys(entry.planned)),
            str(entry.runs),
            "" if entry.hours is None else f"{entry.hours:.2g}",
            words or unsimulated,
            "" if entry.none is None else f"{100 * entry.none:.0f} %",
        )
    console.print(table)
    console.print()


def _results(artifact: Artifact, runs: Sequence[RunRecord], request: Request, console: Console) -> dict[str, Any]:
    """Publish and print the results; returns the verdicts."""
    place = publish.folder(request.results, artifact, request.fidelity)
    if not runs and not place.exists():
        judged = publish.judge(artifact, [], request.fidelity, None)
        show_verdicts(judged, console)
        return judged
    judged, published, notes = publish.publish(
        artifact, runs, request.fidelity, request.results, request.drop_stale, request.others
    )
    show_table(artifacts.drawing(artifact).table(artifact, published), console)
    show_verdicts(judged, console)
    for note in notes:
        say(console, f"  note: {note}")
    for name, file in (("figure", "figure.svg"), ("table", "table.md"), ("verdicts", "verdicts.json")):
        if (place / file).exists():  # some artifacts have no figure
            say(console, f"  {name:<9} {place / file}")
    return judged


def show_table(entries: Sequence[tables.Entry], console: Console) -> None:
    """Print the first quantity; table.md has all of them."""
    header, rows = tables.headline(entries)
    table = Table(*header, whole=header[:1])
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    console.print()


def show_verdicts(judged: dict[str, Any], console: Console) -> None:
    if judged["fidelity"] == publish.SMOKE:
        say(console, "  smoke     embedded data, little training: nothing here speaks for or against a paper's claim\n")
        return
    table = Table("claim", "statement", "verdict", "answer", whole=("claim",), below=("answer",))
    for claim in judged["claims"]:
        colour = COLOURS.get(describe.news(claim["verdict"]), "")
        verdict = f"[{colour}]{claim['verdict']}[/]" if colour else claim["verdict"]
        table.add_row(claim["id"], escape(claim["statement"]), verdict, escape(describe.in_full(claim)))
    console.print(table)
    console.print()
