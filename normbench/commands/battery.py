"""`normbench battery`: tests a normalizer: contract, Table 1, every experiment."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from normbench import runs
from normbench.commands import format, options, terminal, training
from normbench.commands.options import DryRun, Fidelity, Jobs, option
from normbench.commands.progress import Bars
from normbench.commands.terminal import Table, cell, say, show_rows
from normbench.compare import metrics
from normbench.config import compose
from normbench.config.resolve import ResolvedRun
from normbench.draw.tables import grid
from normbench.errors import NormbenchError
from normbench.launch import pace
from normbench.launch.run_missing import ensure_runs, missing
from normbench.runs import files
from normbench.runs.find import Found, find, in_packs

if TYPE_CHECKING:  # these import torch
    from normbench.battery import trials
    from normbench.battery.adopt import Adopted
    from normbench.web import battery_page

EPILOG = """examples:
  normbench battery --norm my_norm.py                   a file with one class marked @normalizer("my_norm")
  normbench battery --norm examples/own_normalizer/norm/centre.yaml
  normbench battery --norm rms --dry-run                list what would be trained and how long it takes
  normbench battery --norm rms --only ln2016/fig6       a normalizer that is shipped
"""


@dataclass(frozen=True, kw_only=True)
class Battery(options.Answering):
    """The options of the command."""

    norm: Annotated[str, option("a .py or .yaml file, or a name", "FILE|NAME")]
    fidelity: Fidelity = "smoke"
    seeds: Annotated[int, option("seeds per normalizer", "N", min=1)] = 5
    jobs: Jobs = 0
    only: Annotated[list[str], option("only this experiment (repeatable)", "EXPERIMENT", default_factory=list)]
    dry_run: DryRun = False

    def run(self) -> int:
        """Exit code: 0 done, 2 a promise is broken, 4 a run failed, 130 interrupted."""
        from normbench.battery import trials
        from normbench.battery.adopt import adopt
        from normbench.web import battery_page

        launcher = training.launcher(self.jobs)
        # a dry run leaves no files
        with tempfile.TemporaryDirectory() if self.dry_run else nullcontext(self.results) as folder:
            place = Path(folder)
            adopted = adopt(self.norm, self.config_dir, runs.own(place))
            # before the slow contract, so that a mistyped --only fails at once
            planned, notes = trials.trials(adopted.name, self.fidelity, self.seeds, self.only, adopted.config_dir)
            probes = trials.table1(adopted.name, adopted.config_dir)
            specs = _specs(planned, probes)
            promises = [] if self.dry_run else self._contract(adopted)
            for note in notes:
                self.say(f"  {note}")
            if self.dry_run:
                lacking = self._outlook(planned, probes, launcher.processes)
                if self.as_json:
                    terminal.say_json({"norm": adopted.name, "runs": len(specs), "missing": lacking})
                return 0

        def announce(found: Found, missing: Sequence[ResolvedRun]) -> None:
            total = len(specs)
            self.say(f"{format.plural(total, 'run')} · {total - len(missing)} done, {len(missing)} to run")
            for line in training.describe_found(found, missing):
                self.say(f"  {line}")

        def watch(runs: int) -> Bars:
            return Bars(runs, self.console)

        ensured = ensure_runs(specs, launcher, self.results, announce, watch, wait_for_busy=True)
        if ensured.interrupted:
            self.say("interrupted; the same command goes on.")
            return 130
        found = ensured.found
        reasons = {run: o.reason for run, o in ensured.outcomes.items() if o.status in ("failed", "refused")}
        outcomes = [_outcome(adopted.name, trial, found, reasons) for trial in planned]
        rows = _table1(probes, found)
        _show_table1(rows, self.console)
        for outcome in outcomes:
            _show_trial(adopted.name, outcome, self.console)
        failures = [*training.describe_failures(ensured.outcomes, found)]
        for fault in failures:
            self.say(f"\n  failed: {fault}")
        facts = compose.declaration("norm", adopted.name, adopted.config_dir)
        summary = battery_page.BatteryPage(
            name=adopted.name,
            title=str(facts["title"]),
            source=str(facts["source"]),
            file=Path(str(facts.get("file", ""))).name,
            derived=adopted.derived,
            fidelity=self.fidelity,
            command=self._repeat_command(),
            promises=promises,
            table1=rows,
            outcomes=outcomes,
            notes=[*notes, *(f"Table 1, {norm}: {spec}" for norm, spec in probes.items() if isinstance(spec, str))],
        )
        numbers, page = write(summary, self.results / "battery" / adopted.name)
        self.say(f"\n  numbers   {numbers}")
        self.say(f"  page      {page}")
        if adopted.config_dir:
            where = shlex.quote(str(adopted.config_dir))
            self.say(f"  train     normbench train --config-dir {where} norm={adopted.name} ...")
        if self.as_json:
            answer = {"norm": adopted.name, "runs": len(specs), "missing": [], "failures": failures, "page": str(page)}
            terminal.say_json(answer | {"numbers": _as_json(summary)})
        return 4 if failures or any(outcome.failed for outcome in outcomes) else 0

    def _outlook(
        self, planned: Sequence[trials.Trial], probes: Mapping[str, ResolvedRun | str], processes: int
    ) -> list[str]:
        """Print the runs of each trial and normalizer, how long they take, and the normalizers that cannot take part.

        Returns the ids of the missing runs.
        """
        from normbench.battery import trials
        from normbench.rnn.loop import notes

        specs = _specs(planned, probes)
        found = find(specs, self.results)
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
        show_rows(self.console, ("experiment", "normalizer", "runs", "of updates"), rows)
        left: dict[tuple[str, int], tuple[pace.Place, int]] = {}
        for trial in planned:
            place = pace.Place(trial.experiment, self.fidelity, trial.axes, self.config_dir)
            every = [(spec.id, spec.steps) for own in trial.specs.values() for spec in own]
            left |= {(run, steps): (place, steps) for run, steps in every if (run, steps) in lacking}
        needed = pace.seconds(left.values(), (run.head for run in in_packs(self.results)[0]))
        jobs = max(1, min(processes, len(lacking)))
        how_long = f", about {format.duration(needed / jobs)} on {format.plural(jobs, 'process')}" if needed else ""
        for note in dict.fromkeys(note for spec in specs for note in notes(spec.config, spec.sites)):
            self.say(f"  {note}")
        counts = f"{len(specs) - len(lacking)} done, {len(lacking)} to run"
        self.say(f"{format.plural(len(specs), 'run')} · {counts}{how_long}; --dry-run: nothing is run")
        return [run for run, _ in lacking]

    def _contract(self, adopted: Adopted) -> list[tuple[str, int]]:
        """The promises with their number of layouts; NormbenchError with the names of broken promises."""
        from normbench.battery import contract

        if adopted.remark:
            self.say(adopted.remark)
        subject = adopted.subject()
        passed, failures = [], []
        findings = list(contract.examine(subject))
        for check, layouts, broken in contract.summary(findings):
            if not broken:
                passed.append((check.title, layouts))
                continue
            failures.append(check.name)
            self.say(f"  broken  {check.name}: {check.title}")
            for finding in broken[:2]:
                self.say(f"          {' × '.join(finding.axes)}: {finding.broken}")
        if (cause := contract.first_to_mend(findings)) and len(failures) > 1:
            self.say(f"  note    mend {cause} first: the other lines compare passes, and may only follow from it")
        if failures:
            of = f"{len(failures)} of {len(passed) + len(failures)} promises"
            raise NormbenchError(f"{adopted.name} breaks {of}: {', '.join(failures)}. Nothing was trained.")
        self.say(f"{adopted.name} keeps all {len(passed)} promises of the contract on {passed[0][1]} layouts")
        return passed

    def _repeat_command(self) -> str:
        words = ["normbench", "battery", "--norm", self.norm]
        words += ["--config-dir", str(self.config_dir)] if self.config_dir else []
        words += ["--fidelity", self.fidelity] if self.fidelity != "smoke" else []
        words += ["--seeds", str(self.seeds)] if self.seeds != 5 else []
        return shlex.join([*words, *(word for name in self.only for word in ("--only", name))])


command = Battery


def _specs(planned: Sequence[trials.Trial], probes: Mapping[str, ResolvedRun | str]) -> list[ResolvedRun]:
    """All runs of a battery, without duplicates."""
    every = [spec for trial in planned for own in trial.specs.values() for spec in own]
    every += [spec for spec in probes.values() if isinstance(spec, ResolvedRun)]
    return list({(spec.id, spec.steps): spec for spec in every}.values())


def _counted(
    of: str, norm: str, own: Sequence[ResolvedRun], lacking: Set[tuple[str, int]]
) -> tuple[str, str, str, str]:
    left = sum((spec.id, spec.steps) in lacking for spec in own)
    return of, norm, f"{len(own) - left} done, {left} to run" if left else f"{len(own)} done", str(own[0].steps)


def write(summary: battery_page.BatteryPage, place: Path) -> tuple[Path, Path]:
    """Write battery.json and the page; returns their paths."""
    from normbench.web import battery_page

    page = battery_page.write(summary, place / "page")
    with files.alone(place):
        text = json.dumps(_as_json(summary), indent=1, ensure_ascii=False)
        files.atomic_write(place / "battery.json", f"{text}\n".encode())
    return place / "battery.json", page


def _outcome(name: str, trial: trials.Trial, found: Found, reasons: Mapping[str, str]) -> battery_page.Outcome:
    from normbench.battery import cost, trials
    from normbench.web import battery_page

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
    from normbench.papers.ln2016 import table1

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
    from normbench.battery import trials
    from normbench.papers import describe
    from normbench.web import battery_page

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
        table.add_row(*map(cell, row), *([f"{own['ms']:.3g}", f"{own['ratio']:.2f}"] if own else ["", ""]))
    console.print(table)
    for effect in outcome.effects:
        if effect.quantity not in {metrics.format_metric(where[0], where[2]) for where in tested}:
            continue
        text = describe.effect(battery_page.part_of(effect))
        say(console, f"  {effect.quantity}, {name} against {effect.against}: {text}, n = {effect.estimate.n}")


def _as_json(summary: battery_page.BatteryPage) -> dict[str, Any]:
    """The numbers of the page as JSON."""
    return {
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
