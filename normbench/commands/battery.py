"""`normbench battery`: tests a normalizer: contract, Table 1, every experiment."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from normbench import runs
from normbench.battery import answer, scorecard, trials
from normbench.battery.budget import Pace, within
from normbench.battery.trials import Trial
from normbench.commands import format, options, terminal, training
from normbench.commands.options import ConfigDir, DryRun, Fidelity, Jobs, option, repeatable
from normbench.commands.progress import bars
from normbench.commands.terminal import show_rows
from normbench.config import compose
from normbench.config.spec import Spec
from normbench.core import user_code
from normbench.errors import BadInput
from normbench.launch.base import Launcher, Outcome
from normbench.launch.run_missing import Ensured, ensure_runs, missing
from normbench.papers.rules_file import FEWEST
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

--budget is the time of the whole: of the same command again only what is left of it. It takes whole experiments,
because each gives one answer: the quickest first, and each in one setting before any in a second setting. How long
they take is learned from the runs that are done. The same command with a larger budget continues.

In each experiment the normalizer is better or worse than layer, batch and none where the difference of the test metric
(paired by seed) is significant after Holm's correction for all experiments, else undecided. With fewer than five seeds,
or where neither side is better than before training, the word is *not yet*, without a number.

Over all experiments in which any normalizer learns and each has five seeds: the average rank of a run among one run of
each, and the probability that it is better than one of layer. The 95 % intervals are of what more seeds would say of
these experiments. A diverged run is worse than all others.

--json prints, shortened, and --dry-run the same without a page:
  {"norm": "centre", "runs": 10, "missing": ["66a495804d15"], "failures": [], "page": "results/battery/centre/page/...",
   "numbers": {"schema": 3, "norm": "centre", "title": "", "source": "", "file": "centre.py", "derived": "",
               "fidelity": "smoke", "command": "", "plan": "5e2f0c", "seconds": 88.1, "promises": {}, "measured": {},
               "table1": {}, "notes": [], "answer": {}, "ranks": {},
               "sentences": ["centre against layer: better in 1 ..."],
               "trials": [
                 {"experiment": "ln2016/online", "axes": {}, "name": "ln2016/online", "title": "", "where": "",
                  "refused": {}, "changed": {}, "failed": {}, "runs": {}, "missing": 6, "seconds": 15.0, "taken": true,
                  "quantity": "test error, lower is better", "cost": {},
                  "comparisons": [{"quantity": "test error", "against": "layer", "word": "not yet",
                                   "why": "2 of 5 seeds", "unit": "points", "better": "lower", "effect": null,
                                   "interval": null, "p": null, "n": 2, "lost": 0, "needed": null, "text": ""}]}]}}
"numbers" is battery.json: "answer" has for each opponent {"better": 1, "worse": 0, "undecided": 3, "not_yet": 2}.
"""
COLOURS = {"better": "green", "worse": "red", "undecided": "", "not yet": "dim"}
TRAINING = 0.8  # of what is left of a budget: the rest measures costs


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

        began, launcher = time.monotonic(), training.launcher(self.jobs)
        # a dry run leaves no files
        with tempfile.TemporaryDirectory() if self.dry_run else nullcontext(self.results) as folder:
            config_dir = self.config_dir if is_file(self.norm) else runs.choices(self.results, self.config_dir)
            adopted = adopt(self.norm, config_dir, runs.own(Path(folder)))
            # before the slow contract, so that a mistyped --only fails at once
            planned, notes = trials.trials(adopted.name, self.fidelity, self.seeds, self.only, adopted.config_dir)
            probes = trials.table1(adopted.name, adopted.config_dir)
            notes += [f"Table 1, {norm}: {spec}" for norm, spec in probes.items() if isinstance(spec, str)]
            promises = {} if self.dry_run else self._contract(adopted)
            facts = compose.declaration("norm", adopted.name, adopted.config_dir)
            stored = Runs(self.results)
            pace = Pace(planned, stored, self.fidelity, adopted.config_dir, launcher.processes)
            times = pace.seconds()
        specs, place = _specs(planned, probes), self.results / "battery" / adopted.name
        plan = hashlib.sha256(" ".join(sorted(spec.id for spec in specs)).encode()).hexdigest()[:12]
        earlier = scorecard.earlier(place, plan)
        spent = earlier.get("seconds", 0.0)
        end = None if self.budget is None else began + self.budget - spent
        to_train = missing(specs, stored)
        self.say(f"{format.plural(len(specs), 'run')} · {len(specs) - len(to_train)} done, {len(to_train)} to run")
        for line in training.describe_stored(stored, specs, to_train):
            self.say(f"  {line}")
        ended, started = Ensured(to_train), time.monotonic()
        if not self.dry_run:
            ended = self._train([s for s in probes.values() if isinstance(s, Spec)], pace, launcher, end)
            times = pace.seconds()
        taken = planned if end is None else within(planned, times, max(0.0, end - time.monotonic()))
        outcomes = answer.decide([scorecard.outcome(adopted.name, trial, stored, ended) for trial in planned])
        outcomes = [*scorecard.with_costs(outcomes, earlier, 0.0 if self.dry_run or ended.interrupted else end)]
        card = scorecard.content(
            outcomes, times, [trial.name for trial in planned if trial not in taken],
            norm=adopted.name, title=str(facts["title"]), source=str(facts["source"]),
            file=Path(str(facts.get("file", ""))).name, derived=adopted.derived, fidelity=self.fidelity,
            command=self._repeat_command(), plan=plan, seconds=spent + time.monotonic() - started, promises=promises,
            measured=dict(adopted.measured), table1=_table1(probes, stored), notes=notes,
        )  # fmt: skip
        self._show(card, planned)
        failures = [*training.describe_failures(ended.outcomes, stored)]
        for line in (*map("failed: {}".format, failures), *training.describe_launched(ended.outcomes, stored)):
            self.say(f"  {line}")
        page = None
        if not self.dry_run:
            page = battery_page.write(card, outcomes, place / "page")
            self.say(f"\n  numbers   {scorecard.write(card, place)}\n  page      {page}")
        if adopted.config_dir and not self.dry_run:
            given = format.repeated(self.results, adopted.config_dir)
            self.say(f"  train     {shlex.join(['normbench', 'train', f'norm={adopted.name}', *given])} ...")
        if ended.interrupted:
            self.say("interrupted; the same command goes on.")
        if self.as_json:
            left = [spec.id for spec in missing(specs, stored)]
            reply = {"norm": adopted.name, "runs": len(specs), "missing": left, "failures": failures}
            terminal.say_json(reply | {"page": page and str(page), "numbers": card})
        if ended.interrupted:
            return 130
        return 4 if failures or any(outcome.failed for outcome in outcomes) else 0

    def _train(self, probes: Sequence[Spec], pace: Pace, launcher: Launcher, end: float | None) -> Ensured:
        """Train all runs; until `end` in portions, each chosen at the pace of those before it."""
        outcomes: dict[str, Outcome] = {}
        portion = [*probes, *(trials.specs_of(pace.planned) if end is None else ())]
        last = None if end is None else end - (1 - TRAINING) * max(0.0, end - time.monotonic())
        while True:
            left = None if last is None else last - time.monotonic()
            if left is not None and left <= 0:
                return Ensured((), outcomes)
            watch = partial(bars, console=self.console)
            ended = ensure_runs(portion, launcher, pace.stored, watch, seconds=left)
            outcomes |= ended.outcomes
            if last is None or ended.interrupted:
                return Ensured((), outcomes, ended.interrupted)
            chosen = pace.portion(outcomes, last - time.monotonic())
            portion = [spec for trial in chosen for spec in pace.lacking(trial, outcomes)]
            if not portion:
                return Ensured((), outcomes)

    def _show(self, card: Mapping[str, Any], planned: Sequence[Trial]) -> None:
        """The scorecard: the answer, a row for each experiment of which something is done, and what is not."""
        from normbench.rnn.loop import notes

        for line in card["sentences"]:
            self.say(line)
        shown = [trial for trial in card["trials"] if self.dry_run or any(trial["runs"].values())]
        columns: dict[str, list[str | Text]] = {
            "experiment": [trial["name"] for trial in shown],
            "": [trial["quantity"] for trial in shown],
        }
        for other in card["answer"]:
            columns[f"against {other}"] = [_against(other, trial["comparisons"]) for trial in shown]
        costs = [trial["cost"].get(card["norm"]) for trial in shown]
        columns["× none"] = [f"{cost['ratio']:.2f}" if cost else "" for cost in costs]
        columns["to run"] = [_to_run(trial) for trial in shown]
        columns = {name: cells for name, cells in columns.items() if any(cells)}
        if shown:
            show_rows(self.console, [*columns], zip(*columns.values(), strict=True))
        for line in _remarks(shown):
            self.say(f"  {line}")
        if left_out := [trial for trial in card["trials"] if trial["missing"] and not trial["taken"]]:
            needed = sum(trial["seconds"] or 0.0 for trial in left_out)
            how_long = f"about {format.duration(needed)} (--dry-run)"
            self.say(f"  beyond --budget: {format.plural(len(left_out), 'experiment')}, {how_long}")
        if self.dry_run:
            remarks = (note for spec in trials.specs_of(planned) for note in notes(spec.config, spec.sites))
            for note in dict.fromkeys((*card["notes"], *remarks)):
                self.say(f"  {note}")
            needed = sum(trial["seconds"] or 0.0 for trial in card["trials"] if trial["taken"])
            self.say(f"about {format.duration(needed)}; --dry-run: nothing is run")
        if self.seeds < FEWEST:
            self.say(f"--seeds {self.seeds} gives no answer: that needs {FEWEST} seeds of each normalizer")

    def _contract(self, adopted: Adopted) -> dict[str, int]:
        """The promises with their number of layouts; NormbenchError with the names of broken promises."""
        from normbench.battery import contract

        if adopted.remark:
            self.say(adopted.remark)
        kept: dict[str, int] = {}
        failures = []
        findings = user_code.apart(self.norm, _findings, adopted)
        for check, layouts, broken in contract.summary(findings):
            if not broken:
                kept[check.title] = layouts
                continue
            failures.append(check.name)
            self.say(f"  broken  {check.name}: {check.title}")
            for finding in broken[:2]:
                self.say(f"          {' × '.join(finding.axes)}: {finding.broken}")
        if (cause := contract.first_to_mend(findings)) and len(failures) > 1:
            self.say(f"  note    mend {cause} first: the other lines compare passes, and may only follow from it")
        if failures:
            of = f"{len(failures)} of {len(kept) + len(failures)} promises"
            raise BadInput(f"{adopted.name} breaks {of}: {', '.join(failures)}. Nothing was trained.")
        layouts = max(kept.values())
        self.say(f"{adopted.name} keeps all {len(kept)} promises of the contract on {layouts} layouts")
        return kept

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


def _specs(planned: Sequence[Trial], probes: Mapping[str, Spec | str]) -> list[Spec]:
    """All runs of the trials and probes, without duplicates."""
    specs = (*trials.specs_of(planned), *(spec for spec in probes.values() if isinstance(spec, Spec)))
    return list({spec.id: spec for spec in specs}.values())


def _table1(probes: Mapping[str, Spec | str], stored: Runs) -> dict[str, dict[str, str]]:
    """By normalizer the text of each column, or why it has none."""
    from normbench.papers.ln2016 import table1

    rows = {}
    for norm, spec in probes.items():
        run = stored.of(spec) if isinstance(spec, Spec) else None
        state = "cannot take part" if isinstance(spec, str) else stored.state(spec)
        record = run.records[-1] if run else {}
        rows[norm] = {
            title: table1.format_deviation(float(record[key]) if key in record else None) if run else state
            for key, title in table1.COLUMNS.items()
        }
    return rows


def _against(other: str, comparisons: Sequence[Mapping[str, Any]]) -> Text:
    """The word in its colour with the difference, or without one the reason."""
    for c in comparisons:
        if c["against"] == other:
            return Text.assemble((c["word"], COLOURS[c["word"]]), " ", c["text"] or (c["why"] and f"({c['why']})"))
    return Text()


def _to_run(trial: Mapping[str, Any]) -> str:
    """`18 runs, 31 s`."""
    words = [f"{trial['missing']} runs"] if trial["missing"] else []
    words += [format.duration(trial["seconds"])] if words and trial["seconds"] is not None else []
    return ", ".join([*words, *([] if trial["taken"] else ["left out"])])


def _remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who takes no part, failed or has other options, and why: each reason once with its experiments."""
    places: dict[str, list[str]] = {}
    for trial in rows:
        lines = [f"{norm} takes no part: {reason}" for norm, reason in trial["refused"].items()]
        lines += [f"{norm} failed: {reason}" for norm, reason in trial["failed"].items()]
        lines += [f"{norm} with {words}, as a recurrent site needs it" for norm, words in trial["changed"].items()]
        for line in lines:
            places.setdefault(line, []).append(trial["name"])
    return [f"{line} ({'; '.join(names)})" for line, names in places.items()]
