"""`normbench battery`: tests a normalizer: contract, Table 1, every experiment."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from normbench import runs
from normbench.battery import contract, cost, trials
from normbench.battery.adopt import Adopted, adopt
from normbench.commands import format, training
from normbench.commands.progress import Bars
from normbench.commands.terminal import Table, say, show_rows
from normbench.compare import metrics
from normbench.config import compose
from normbench.config.resolve import ResolvedRun
from normbench.draw.tables import grid
from normbench.errors import NormbenchError
from normbench.launch import pace
from normbench.launch.base import Launcher
from normbench.launch.run_missing import ensure_runs, missing
from normbench.papers import describe
from normbench.papers.ln2016 import table1
from normbench.runs import files
from normbench.runs.find import Found, find, in_packs
from normbench.web import battery_page


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    norm: str
    results: Path
    fidelity: str = "smoke"
    seeds: int = 5
    jobs: int = 0
    only: Sequence[str] = ()
    config_dir: Path | None = None
    dry_run: bool = False


def run(request: Request, console: Console) -> int:
    """Exit code: 0 done, 2 a promise is broken, 4 a run failed, 130 interrupted."""
    launcher = training.launcher(request.jobs)
    if request.dry_run:  # leaves no files
        with tempfile.TemporaryDirectory() as folder:
            return _run(request, launcher, Path(folder), console)
    return _run(request, launcher, request.results, console)


def _run(request: Request, launcher: Launcher, results: Path, console: Console) -> int:
    adopted = adopt(request.norm, request.config_dir, runs.own(results))
    planned, notes = trials.trials(
        adopted.name, request.fidelity, request.seeds, request.only, adopted.config_dir
    )  # before the slow contract, so that a mistyped --only fails at once
    probes = trials.table1(adopted.name, adopted.config_dir)
    if request.dry_run:
        for note in notes:
            say(console, f"  {note}")
        return _outlook(planned, probes, request, launcher.processes, console)
    promises = _contract(adopted, console)

    specs = _specs(planned, probes)
    for note in notes:
        say(console, f"  {note}")

    def announce(found: Found, missing: Sequence[ResolvedRun]) -> None:
        total = len(specs)
        say(console, f"{format.plural(total, 'run')} · {total - len(missing)} done, {len(missing)} to run")
        for line in training.describe_found(found, missing):
            say(console, f"  {line}")

    ensured = ensure_runs(
        specs, launcher, request.results, announce, lambda runs: Bars(runs, console), wait_for_busy=True
    )
    if ensured.interrupted:
        say(console, "interrupted; the same command goes on.")
        return 130
    found = ensured.found
    reasons = {run: o.reason for run, o in ensured.outcomes.items() if o.status in ("failed", "refused")}
    outcomes = [_outcome(adopted.name, trial, found, reasons) for trial in planned]
    rows = _table1(probes, found)
    _show_table1(rows, console)
    for outcome in outcomes:
        _show_trial(adopted.name, outcome, console)
    failures = [*training.describe_failures(ensured.outcomes, found)]
    for fault in failures:
        say(console, f"\n  failed: {fault}")
    facts = compose.declaration("norm", adopted.name, adopted.config_dir)
    summary = battery_page.BatteryPage(
        name=adopted.name,
        title=str(facts["title"]),
        source=str(facts["source"]),
        file=Path(str(facts.get("file", ""))).name,
        derived=adopted.derived,
        fidelity=request.fidelity,
        command=_repeat_command(request),
        promises=promises,
        table1=rows,
        outcomes=outcomes,
        notes=[*notes, *(f"Table 1, {norm}: {spec}" for norm, spec in probes.items() if isinstance(spec, str))],
    )
    numbers, page = write(summary, results / "battery" / adopted.name)
    say(console, f"\n  numbers   {numbers}")
    say(console, f"  page      {page}")
    if adopted.config_dir:
        where = shlex.quote(str(adopted.config_dir))
        say(console, f"  train     normbench train --config-dir {where} norm={adopted.name} ...")
    return 4 if failures or any(outcome.failed for outcome in outcomes) else 0


def _specs(planned: Sequence[trials.Trial], probes: Mapping[str, ResolvedRun | str]) -> list[ResolvedRun]:
    """All runs of a battery, without duplicates."""
    every = [spec for trial in planned for own in trial.specs.values() for spec in own]
    every += [spec for spec in probes.values() if isinstance(spec, ResolvedRun)]
    return list({(spec.id, spec.steps): spec for spec in every}.values())


def _outlook(
    planned: Sequence[trials.Trial],
    probes: Mapping[str, ResolvedRun | str],
    request: Request,
    processes: int,
    console: Console,
) -> int:
    """Print the runs of each trial and normalizer, how long they take, and the normalizers that cannot take part."""
    specs = _specs(planned, probes)
    found = find(specs, request.results)
    lacking = {(spec.id, spec.steps) for spec in missing(specs, found)}
    rows = []
    for trial in planned:
        of = f"{trial.experiment}{' · ' + trial.where if trial.where else ''}"
        rows += [_counted(of, norm, own, lacking) for norm, own in trial.specs.items()]
        rows += [(of, norm, reason, "") for norm, reason in trial.refused.items()]
    for norm, probe in probes.items():
        if isinstance(probe, ResolvedRun):
            rows.append(_counted(trials.TABLE1, norm, [probe], lacking))
        else:
            rows.append((trials.TABLE1, norm, probe, ""))
    show_rows(console, ("experiment", "normalizer", "runs", "of updates"), rows)
    left: dict[tuple[str, int], tuple[pace.Place, int]] = {}
    for trial in planned:
        place = pace.Place(trial.experiment, request.fidelity, trial.axes, request.config_dir)
        every = [(spec.id, spec.steps) for own in trial.specs.values() for spec in own]
        left |= {(run, steps): (place, steps) for run, steps in every if (run, steps) in lacking}
    needed = pace.seconds(left.values(), (run.head for run in in_packs(request.results)[0]))
    jobs = max(1, min(processes, len(lacking)))
    how_long = f", about {format.duration(needed / jobs)} on {format.plural(jobs, 'process')}" if needed else ""
    say(console, f"{format.plural(len(specs), 'run')} · {len(specs) - len(lacking)} done, {len(lacking)} to run"
        f"{how_long}; --dry-run: nothing is run")  # fmt: skip
    return 0


def _counted(
    of: str, norm: str, own: Sequence[ResolvedRun], lacking: Set[tuple[str, int]]
) -> tuple[str, str, str, str]:
    left = sum((spec.id, spec.steps) in lacking for spec in own)
    return of, norm, f"{len(own) - left} done, {left} to run" if left else f"{len(own)} done", str(own[0].steps)


def write(summary: battery_page.BatteryPage, place: Path) -> tuple[Path, Path]:
    """Write battery.json and the page; returns their paths."""
    page = battery_page.write(summary, place / "page")
    with files.alone(place):
        files.atomic_write(place / "battery.json", _as_json(summary))
    return place / "battery.json", page


def _contract(adopted: Adopted, console: Console) -> list[tuple[str, int]]:
    """The promises with their number of layouts; NormbenchError with the names of broken promises."""
    if adopted.remark:
        say(console, adopted.remark)
    subject = adopted.subject()
    passed, failures = [], []
    findings = list(contract.examine(subject))
    for check, layouts, broken in contract.summary(findings):
        if not broken:
            passed.append((check.title, layouts))
            continue
        failures.append(check.name)
        say(console, f"  broken  {check.name}: {check.title}")
        for finding in broken[:2]:
            say(console, f"          {' × '.join(finding.axes)}: {finding.broken}")
    if (cause := contract.first_to_mend(findings)) and len(failures) > 1:
        say(console, f"  note    mend {cause} first: the other lines compare passes, and may only follow from it")
    if failures:
        raise NormbenchError(
            f"{adopted.name} breaks {len(failures)} of {len(passed) + len(failures)} promises: {', '.join(failures)}. "
            "Nothing was trained."
        )
    say(console, f"{adopted.name} keeps all {len(passed)} promises of the contract on {passed[0][1]} layouts")
    return passed


def _outcome(name: str, trial: trials.Trial, found: Found, reasons: Mapping[str, str]) -> battery_page.Outcome:
    runs = {norm: [run for run in map(found.of, own) if run] for norm, own in trial.specs.items()}
    failed = {
        norm: "; ".join(dict.fromkeys(reasons.get(s.id, found.state(s)) for s in own if not found.of(s)))
        for norm, own in trial.specs.items()
        if not all(map(found.of, own))
    }
    effects = trials.effects(name, runs) if name in runs else []
    able = {norm: own[0] for norm, own in trial.specs.items() if norm not in failed}
    # none first: the others are compared with it
    able = {norm: able[norm] for norm in sorted(able, key=lambda norm: norm != "none")}
    costs = cost.costs(able) if "none" in able else {}
    return battery_page.Outcome(trial, runs, effects, {norm: asdict(c) for norm, c in costs.items()}, failed)


def _table1(probes: Mapping[str, ResolvedRun | str], found: Found) -> tuple[list[str], list[list[str]]]:
    rows = []
    for norm, spec in probes.items():
        if isinstance(spec, str):
            rows.append([norm, *(["cannot take part"] * len(table1.COLUMNS))])
            continue
        run = found.of(spec)
        if run is None:
            rows.append([norm, *([found.state(spec)] * len(table1.COLUMNS))])
            continue
        record = run.records[-1]
        values = [float(record[key]) if key in record else None for key in table1.COLUMNS]
        rows.append([norm, *(table1.format_deviation(value) for value in values)])
    return ["", *table1.COLUMNS.values()], rows


def _show_table1(rows: tuple[list[str], list[list[str]]], console: Console) -> None:
    """A line per normalizer; the deviations are on the page."""
    say(console, "\nLN Table 1: invariant to")
    for norm, *words in rows[1]:
        invariances = [name for name, word in zip(rows[0][1:], words, strict=False) if word.startswith("yes")]
        answered = any(word.startswith("no") for word in words)
        say(console, f"  {norm}: {', '.join(invariances) or ('nothing' if answered else words[0])}")


def _show_trial(name: str, outcome: battery_page.Outcome, console: Console) -> None:
    """Print last values, cost and effects of one trial."""
    trial = outcome.trial
    say(console, f"\n{trial.title}{' · ' + trial.where if trial.where else ''}")
    for norm, reason in (*trial.refused.items(), *outcome.failed.items()):
        say(console, f"  {norm}: {reason}")
    for norm, words in trial.changed.items():
        say(console, f"  {norm} with {words}, which a time loop asks of it")
    every = [run for own in outcome.runs.values() for run in own]
    tested = [where for where in trials.quantities(every) if where[0] == "test"]  # the page has the others
    entries = battery_page.entries(outcome.runs, tested)
    if not entries:
        return
    header, rows = grid(entries, "")
    table = Table(*header, "ms per step", "× none")
    for row in rows:
        own = outcome.costs.get(row[0])
        table.add_row(*map(escape, row), *([f"{own['ms']:.3g}", f"{own['ratio']:.2f}"] if own else ["", ""]))
    console.print(table)
    for effect in outcome.effects:
        if effect.quantity not in {metrics.format_metric(where[0], where[2]) for where in tested}:
            continue
        part = {"effect": effect.estimate.mean, "interval": effect.estimate.interval, "unit": effect.unit}
        text = describe.effect({**part, "sign_test": None, "test": "t", "level": None})
        say(console, f"  {effect.quantity}, {name} against {effect.against}: {text}, n = {effect.estimate.n}")


def _repeat_command(request: Request) -> str:
    words = ["normbench", "battery", "--norm", request.norm]
    if request.config_dir:
        words += ["--config-dir", str(request.config_dir)]
    if request.fidelity != "smoke":
        words += ["--fidelity", request.fidelity]
    if request.seeds != 5:
        words += ["--seeds", str(request.seeds)]
    for name in request.only:
        words += ["--only", name]
    return shlex.join(words)


def _as_json(summary: battery_page.BatteryPage) -> bytes:
    """The numbers of the page as JSON."""
    content: dict[str, Any] = {
        "schema": 1,
        "norm": summary.name,
        "fidelity": summary.fidelity,
        "command": summary.command,
        "promises": [title for title, _ in summary.promises],
        "table1": {row[0]: dict(zip(summary.table1[0][1:], row[1:], strict=False)) for row in summary.table1[1]},
        "trials": [
            {
                "experiment": o.trial.experiment,
                "axes": dict(o.trial.axes),
                "refused": o.trial.refused,
                "changed": o.trial.changed,
                "failed": dict(o.failed),
                "runs": {norm: [run.id for run in own] for norm, own in o.runs.items()},
                "effects": [
                    {"quantity": e.quantity, "against": e.against, "unit": e.unit, "effect": e.estimate.mean,
                     "interval": e.estimate.interval, "n": e.estimate.n, "lost": e.lost}
                    for e in o.effects
                ],
                "cost": {norm: dict(c) for norm, c in o.costs.items()},
            }
            for o in summary.outcomes
        ],
    }  # fmt: skip
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
