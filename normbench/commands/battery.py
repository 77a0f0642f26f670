"""`normbench battery`: tests a normalizer: contract, Table 1, every experiment."""

from __future__ import annotations

import json
import shlex
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.text import Text

from normbench import runs
from normbench.battery import answer, trials
from normbench.battery.answer import Comparison, Outcome
from normbench.battery.trials import Trial
from normbench.commands import format, options, terminal, training
from normbench.commands.options import ConfigDir, DryRun, Fidelity, Jobs, option, repeatable
from normbench.commands.progress import bars
from normbench.commands.terminal import say, show_rows
from normbench.config import compose
from normbench.config.spec import Spec
from normbench.core import user_code
from normbench.errors import BadInput
from normbench.launch import pace
from normbench.launch.run_missing import ensure_runs, missing
from normbench.papers.rules_file import FEWEST
from normbench.runs import files
from normbench.runs.table import Runs
from normbench.web import battery_page

if TYPE_CHECKING:  # imports torch
    from normbench.battery.adopt import Adopted
    from normbench.battery.contract import Finding
EPILOG = """examples:
  normbench battery --norm my_norm.py                   a file with one nn.Module
  normbench battery --norm examples/own_normalizer/norm/centre.yaml
  normbench battery --norm rms --dry-run                how long each experiment takes
  normbench battery --norm rms --only ln2016/fig6       a normalizer that is shipped
  normbench battery --norm rms --budget 2h              the most informative experiments of two hours

--budget chooses whole experiments, because each gives one answer: the quickest first, and each in one setting before
any in a second setting. The same command with a larger budget continues.

In each experiment the normalizer is better or worse than layer, batch and none where the difference of the test metric
(paired by seed) is significant after Holm's correction for all experiments, else undecided. With fewer than five seeds,
or where neither side is better than before training, the word is *not yet*, without a number.

--json prints, shortened:
  {"norm": "centre", "runs": 10, "missing": [], "failures": [], "page": "results/battery/centre/page/index.html",
   "numbers": {"schema": 2, "norm": "centre", "fidelity": "smoke", "command": "normbench battery --norm centre",
               "promises": ["gradients are those of finite differences"], "measured": {}, "table1": {},
               "answer": {}, "trials": [
                 {"experiment": "ln2016/online", "axes": {}, "refused": {}, "changed": {}, "failed": {}, "runs": {},
                  "comparisons": [{"quantity": "train NLL", "against": "layer", "word": "not yet",
                                   "why": "2 of 5 seeds", "unit": "log ratio", "better": "lower",
                                   "effect": null, "interval": null, "p": null, "n": 2, "lost": 0, "needed": null}],
                  "cost": {}}]}}
  {"norm": "centre", "runs": 10, "missing": ["66a495804d15"],
   "outlook": [{"experiment": "ln2016/online", "axes": {}, "runs": 6, "missing": 6, "seconds": 15.0, "taken": true,
                "refused": {}}]}        with --dry-run
"numbers" is battery.json: "answer" has for each opponent {"better": 1, "worse": 0, "undecided": 3, "not_yet": 2}.
"""
COLOURS = {"better": "green", "worse": "red", "undecided": "", "not yet": "dim"}


@dataclass(frozen=True, kw_only=True)
class Battery(options.Answering):
    """The options of the command."""

    config_dir: ConfigDir = None
    norm: Annotated[str, option("a .py or .yaml file, or a name", "FILE|NAME")]
    fidelity: Fidelity = "smoke"
    seeds: Annotated[int, option("seeds per normalizer", "N", min=1)] = 5
    jobs: Jobs = 0
    only: Annotated[list[str], repeatable("only this experiment", "EXPERIMENT")]
    budget: Annotated[
        float | None,
        option(
            "train only the most informative experiments that fit into 90s, 30m, 2h",
            "TIME",
            parser=partial(format.seconds, name="--budget"),
        ),
    ] = None
    dry_run: DryRun = False

    def run(self) -> int:
        """Exit code: 0 done, 2 a promise is broken, 4 a run failed, 130 interrupted."""
        from normbench.battery.adopt import adopt, is_file  # imports torch

        launcher = training.launcher(self.jobs)
        # a dry run leaves no files
        with tempfile.TemporaryDirectory() if self.dry_run else nullcontext(self.results) as folder:
            config_dir = self.config_dir if is_file(self.norm) else runs.choices(self.results, self.config_dir)
            adopted = adopt(self.norm, config_dir, runs.own(Path(folder)))
            # before the slow contract, so that a mistyped --only fails at once
            planned, notes = trials.trials(adopted.name, self.fidelity, self.seeds, self.only, adopted.config_dir)
            probes = trials.table1(adopted.name, adopted.config_dir)
            stored = Runs(self.results)
            seconds = self._seconds(planned, stored, launcher.processes)
            taken = planned if self.budget is None else trials.within_budget(planned, seconds, self.budget)
            notes += [f"{trial.name}: left out by --budget" for trial in planned if trial not in taken]
            promises = [] if self.dry_run else self._contract(adopted)
        stored.refresh()  # the contract takes a while
        for note in notes:
            self.say(f"  {note}")
        specs = _specs(taken, probes)
        lacking = missing(specs, stored)
        counts = f"{format.plural(len(specs), 'run')} · {len(specs) - len(lacking)} done, {len(lacking)} to run"
        if self.dry_run:
            rows = self._outlook(planned, taken, stored, seconds)
            needed = sum(row["seconds"] or 0.0 for row in rows if row["taken"])
            how_long = f", about {format.duration(needed)} on" if needed else " on"
            processes = format.plural(min(launcher.processes, len(lacking)), "process")
            self.say(f"{counts}{how_long} {processes}; --dry-run: nothing is run")
            if self.as_json:
                ids = [spec.id for spec in lacking]
                terminal.say_json({"norm": adopted.name, "runs": len(specs), "missing": ids, "outlook": rows})
            return 0
        self.say(counts)
        for line in training.describe_stored(stored, specs, lacking):
            self.say(f"  {line}")
        ensured = ensure_runs(specs, launcher, stored, lambda runs: bars(runs, self.console), wait_for_busy=True)
        if ensured.interrupted:
            self.say("interrupted; the same command goes on.")
            return 130
        reasons = {run: o.reason for run, o in ensured.outcomes.items() if o.status in ("failed", "refused")}
        outcomes = [_outcome(adopted.name, trial, stored, reasons if trial in taken else None) for trial in planned]
        facts = compose.declaration("norm", adopted.name, adopted.config_dir)
        summary = battery_page.BatteryPage(
            name=adopted.name,
            title=str(facts["title"]),
            source=str(facts["source"]),
            file=Path(str(facts.get("file", ""))).name,
            derived=adopted.derived,
            measured=adopted.measured,
            fidelity=self.fidelity,
            command=self._repeat_command(),
            promises=promises,
            table1=_table1(probes, stored),
            outcomes=answer.decide(outcomes),
            notes=[*notes, *(f"Table 1, {norm}: {spec}" for norm, spec in probes.items() if isinstance(spec, str))],
        )
        _show_outcomes(summary.outcomes, self.console)
        failures = [*training.describe_failures(ensured.outcomes, stored)]
        for fault in failures:
            self.say(f"  failed: {fault}")
        for line in training.describe_launched(ensured.outcomes, stored):
            self.say(f"  {line}")
        numbers, page = write(summary, self.results / "battery" / adopted.name)
        self.say(f"\n  numbers   {numbers}")
        self.say(f"  page      {page}")
        if adopted.config_dir:
            given = format.repeated(self.results, adopted.config_dir)
            self.say(f"  train     {shlex.join(['normbench', 'train', f'norm={adopted.name}', *given])} ...")
        self.say("")
        for line in answer.headlines(summary.outcomes):
            self.say(f"{adopted.name} {line}")
        if self.as_json:
            reply = {"norm": adopted.name, "runs": len(specs), "missing": [], "failures": failures, "page": str(page)}
            terminal.say_json(reply | {"numbers": _as_json(summary)})
        return 4 if failures or any(outcome.failed for outcome in outcomes) else 0

    def _seconds(self, planned: Sequence[Trial], stored: Runs, processes: int) -> dict[str, float | None]:
        """For each trial how long its missing runs take on so many processes; None if that is unknown.

        Per update the median over its own runs that are done; without any, as `pace` has it.
        """
        timed = [*stored.published.values()]
        seconds: dict[str, float | None] = {}
        for trial in planned:
            specs = _specs([trial])
            lacking = missing(specs, stored)
            done = [run.seconds / run.steps for run in stored.find(specs) if run.seconds and run.steps]
            if done:
                needed: float | None = statistics.median(done) * sum(spec.steps for spec in lacking)
            else:
                own = trial.experiment, self.fidelity
                to_come = [
                    (pace.Place(*own, spec.config["model"]["name"], trial.axes, self.config_dir), spec.steps)
                    for spec in lacking
                ]
                needed = pace.seconds(to_come, timed)
            seconds[trial.name] = None if needed is None else needed / processes
        return seconds

    def _outlook(
        self, planned: Sequence[Trial], taken: Sequence[Trial], stored: Runs, seconds: Mapping[str, float | None]
    ) -> list[dict[str, Any]]:
        """Print how long each experiment takes; the same as data."""
        from normbench.rnn.loop import notes

        rows, lines = [], []
        for trial in planned:
            runs, lacking, needed = _specs([trial]), missing(_specs([trial]), stored), seconds[trial.name]
            row = {"experiment": trial.experiment, "axes": dict(trial.axes), "runs": len(runs), "missing": len(lacking)}
            rows.append(row | {"seconds": needed, "taken": trial in taken, "refused": trial.refused})
            time = "" if needed is None else format.duration(needed) if lacking else "0 s"
            counts = f"{len(runs) - len(lacking)} done, {len(lacking)} to run"
            lines.append((trial.name, counts, time if trial in taken else f"{time}, left out"))
        show_rows(self.console, ("experiment", "runs", "time"), lines)
        for line in _takes_no_part(planned):
            self.say(line)
        for note in dict.fromkeys(note for spec in _specs(planned) for note in notes(spec.config, spec.sites)):
            self.say(f"  {note}")
        if self.seeds < FEWEST:
            self.say(f"--seeds {self.seeds} gives no answer: that needs {FEWEST} seeds of each normalizer")
        return rows

    def _contract(self, adopted: Adopted) -> list[tuple[str, int]]:
        """The promises with their number of layouts; NormbenchError with the names of broken promises."""
        from normbench.battery import contract

        if adopted.remark:
            self.say(adopted.remark)
        passed, failures = [], []
        findings = user_code.apart(self.norm, _findings, adopted)
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
            raise BadInput(f"{adopted.name} breaks {of}: {', '.join(failures)}. Nothing was trained.")
        self.say(f"{adopted.name} keeps all {len(passed)} promises of the contract on {passed[0][1]} layouts")
        return passed

    def _repeat_command(self) -> str:
        words = ["normbench", "battery", "--norm", self.norm]
        words += format.repeated(self.results, self.config_dir)
        words += ["--fidelity", self.fidelity] if self.fidelity != "smoke" else []
        words += ["--seeds", str(self.seeds)] if self.seeds != 5 else []
        words += [] if self.budget is None else ["--budget", f"{self.budget:g}s"]
        return shlex.join([*words, *(word for name in self.only for word in ("--only", name))])


command = Battery


def _findings(adopted: Adopted) -> list[Finding]:
    from normbench.battery import contract

    return list(contract.examine(adopted.subject()))


def _specs(planned: Sequence[Trial], probes: Mapping[str, Spec | str] | None = None) -> list[Spec]:
    """All runs of these trials and probes, without duplicates."""
    every = [spec for trial in planned for own in trial.specs.values() for spec in own]
    every += [spec for spec in (probes or {}).values() if isinstance(spec, Spec)]
    return list({(spec.id, spec.steps): spec for spec in every}.values())


def write(summary: battery_page.BatteryPage, place: Path) -> tuple[Path, Path]:
    """Write battery.json and the page; returns their paths."""
    page = battery_page.write(summary, place / "page")
    with files.alone(place):
        text = json.dumps(_as_json(summary), indent=1, ensure_ascii=False)
        files.atomic_write(place / "battery.json", f"{text}\n".encode())
    return place / "battery.json", page


def _outcome(name: str, trial: Trial, stored: Runs, reasons: Mapping[str, str] | None = None) -> Outcome:
    """The runs and comparisons of a trial; with `reasons` of failed runs also what failed, and costs."""
    from normbench.battery import cost

    runs = {norm: stored.find(specs) for norm, specs in trial.specs.items()}
    comparisons = answer.comparisons(name, trial, runs)
    if reasons is None:
        return answer.Outcome(trial, runs, comparisons, {}, {})
    failed = {
        norm: "; ".join(dict.fromkeys(reasons.get(s.id, stored.state(s)) for s in specs if not stored.of(s)))
        for norm, specs in trial.specs.items()
        if not all(map(stored.of, specs))
    }
    # none first: the others are compared with it
    able = sorted(trial.specs.keys() - failed.keys(), key=lambda norm: (norm != "none", norm))
    costs = cost.costs({norm: trial.specs[norm][0] for norm in able}) if "none" in able else {}
    return answer.Outcome(trial, runs, comparisons, costs, failed)


def _table1(probes: Mapping[str, Spec | str], stored: Runs) -> tuple[list[str], list[list[str]]]:
    from normbench.papers.ln2016 import table1

    rows = []
    for norm, spec in probes.items():
        if isinstance(spec, str):
            rows.append([norm, *(["cannot take part"] * len(table1.COLUMNS))])
            continue
        run = stored.of(spec)
        if run is None:
            rows.append([norm, *([stored.state(spec)] * len(table1.COLUMNS))])
            continue
        record = run.records[-1]
        values = [float(record[key]) if key in record else None for key in table1.COLUMNS]
        rows.append([norm, *(table1.format_deviation(value) for value in values)])
    return ["", *table1.COLUMNS.values()], rows


def _show_outcomes(outcomes: Sequence[Outcome], console: Console) -> None:
    """A row for each experiment; then who takes no part or failed in which."""
    opponents = battery_page.opponents(outcomes)
    rows = []
    for outcome in outcomes:
        by_opponent = {c.against: _coloured(c) for c in outcome.chief}
        words = [by_opponent.get(other, "") for other in opponents]
        ratio = f"{outcome.cost.ratio:.2f}" if outcome.cost else ""
        rows.append([outcome.trial.name, battery_page.format_quantity(outcome), *words, ratio])
    if outcomes:
        say(console, "")
        show_rows(console, ["experiment", "", *(f"against {other}" for other in opponents), "× none"], rows)
    for line in _takes_no_part([outcome.trial for outcome in outcomes]):
        say(console, line)
    for outcome in outcomes:
        for norm, reason in outcome.failed.items():
            say(console, f"  {outcome.trial.name}: {norm}: {reason}")
        for norm, words_changed in outcome.trial.changed.items():
            say(
                console, f"  {outcome.trial.name}: {norm} with {words_changed}, the options that a recurrent site needs"
            )


def _takes_no_part(planned: Sequence[Trial]) -> list[str]:
    """A line for each reason why a normalizer takes no part, with the experiments."""
    places: dict[tuple[str, str], list[str]] = {}
    for trial in planned:
        for refusal in trial.refused.items():
            places.setdefault(refusal, []).append(trial.name)
    return [f"  {norm} takes no part in {'; '.join(names)}: {reason}" for (norm, reason), names in places.items()]


def _coloured(c: Comparison) -> Text:
    text = " ".join(filter(None, (battery_page.format_effect(c), c.why and f"({c.why})")))
    return Text.assemble((c.word, COLOURS[c.word]), " ", text)


def _as_json(summary: battery_page.BatteryPage) -> dict[str, Any]:
    """The numbers of the page as JSON; the help has its form."""
    return {
        "schema": 2,
        "norm": summary.name,
        "fidelity": summary.fidelity,
        "command": summary.command,
        "promises": [title for title, _ in summary.promises],
        "measured": dict(summary.measured),
        "table1": {row[0]: dict(zip(summary.table1[0][1:], row[1:], strict=False)) for row in summary.table1[1]},
        "answer": {
            other: {word.replace(" ", "_"): count for word, count in found.items()}
            for other, found in answer.counts(summary.outcomes).items()
        },
        "trials": [
            {
                "experiment": o.trial.experiment,
                "axes": dict(o.trial.axes),
                "refused": o.trial.refused,
                "changed": o.trial.changed,
                "failed": dict(o.failed),
                "runs": {norm: [run.id for run in own] for norm, own in o.runs.items()},
                "comparisons": [_comparison_as_json(c) for c in o.chief],
                "cost": {norm: asdict(c) for norm, c in o.costs.items()},
            }
            for o in summary.outcomes
        ],
    }


def _comparison_as_json(c: Comparison) -> dict[str, Any]:
    """A comparison without its numbers as long as its word is `not yet`."""
    d = c.difference
    return {
        "quantity": c.quantity, "against": c.against, "word": c.word, "why": c.why, "unit": c.unit,
        "better": "higher" if d.rising else "lower", "effect": d.mean if c.has_number else None,
        "interval": d.interval if c.has_number else None, "p": d.holm, "n": d.n, "lost": sum(d.lost),
        "needed": c.needed,
    }  # fmt: skip
