"""`normbench train`: one run, or a sweep with -m."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from rich.console import Console

from normbench import runs
from normbench.commands import format, options, terminal
from normbench.commands.options import ConfigDir, argument, flag, option
from normbench.commands.terminal import say, show_rows
from normbench.commands.training import (
    describe_failures,
    describe_launched,
    describe_stored,
    replay,
    watched,
)
from normbench.compare import configuration, metrics
from normbench.config import compose, grammar, plan
from normbench.config.spec import Spec
from normbench.core import user_code
from normbench.draw.tables import one_format
from normbench.errors import NormbenchError
from normbench.files import scratch
from normbench.launch import base
from normbench.launch.run_missing import ensure_runs, missing
from normbench.runs.run import FINISHED
from normbench.runs.table import Runs
from normbench.stats.series import exploded, final

EPILOG = """examples:
  normbench train model=mnist_mlp norm=layer 'norm.sites=[hidden,logits]' optim.lr=3e-4 train.epochs=10
  normbench train model=mnist_mlp 'norm.sites={hidden: {name: layer, eps: 1e-3}, logits: batch}'
  normbench train model=char_lm 'norm.sites={block.*.attention: layer, block.*.mlp: layer, final: my_norm.py}'
  normbench train model=convnet 'norm.sites={conv: group, conv.weight: weight_standardization}'
  normbench train experiment=ln2016/fig6 arm=ln seed=2 train.batch_size=4
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=pool
  normbench train -m model=mnist_mlp data=digits norm=none,layer,my_norm.py 'seed=range(1,6)'   your own file
  normbench train model=mnist_mlp norm=batch --cfg job  print the whole configuration as YAML
  normbench train -m model=mnist_mlp norm=none,layer --dry-run      list the runs with their ids

norm.sites says where normalizers stand: at the model's default sites (null), at those of a list, or at those of a map,
each its own. A site that a list or a map leaves out has none.

--json prints, shortened:
  {"runs": [{"id": "3a228e1c3403", "label": "norm=none", "seed": 1, "status": "done", "steps": 12, "reason": "",
             "path": "results/runs/adhoc/mnist_mlp-none.s1.3a228e1c3403"}]}
  {"configurations": [{}]}        with --cfg job
"""


class Command(options.Command):
    """Its help ends in the groups and their choices in `conf/`."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write(f"\n{choices()}\n")


def choices() -> str:
    lines = ["groups and their choices (GROUP=CHOICE):"]
    for group in grammar.GROUPS:
        names = [name for name in compose.choices(group) if compose.can_be_chosen(group, name)]
        lines += textwrap.wrap(
            ", ".join(names), 118, initial_indent=f"  {group:<10}", subsequent_indent=" " * 12, break_on_hyphens=False
        )
    lines += [
        "  experiment, arm, fidelity, control: a run of an artifact (normbench list artifacts)",
        "",
        f"options (GROUP.OPTION=VALUE) are in {compose.conf_dir()}/GROUP/CHOICE.yaml, those of torch's",
        "optimizers and schedules in torch.yaml there, those of all runs in config.yaml; --cfg job prints them with",
        "their values. Choices of your own: --config-dir.",
    ]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Train(options.Answering):
    """The options of the command."""

    config_dir: ConfigDir = None
    words: Annotated[list[str], argument("Hydra overrides", "key=value", default_factory=list, show_default=False)]
    multirun: Annotated[bool, option("run every combination of comma lists and ranges", None, "-m", "--multirun")] = (
        False
    )
    cfg: Annotated[Literal["job"] | None, option("print the configuration as YAML and run nothing")] = None
    dry_run: Annotated[bool, flag("--dry-run", "the same as --cfg job; with -m, list the runs with their ids")] = False

    def run(self) -> int:
        """Exit code: 0 done, 3 diverged, 4 failed, 5 busy elsewhere, 130 interrupted; of a sweep the most serious.

        Runs that another process writes are left to it.
        """
        with self._named() as (overrides, config_dir):
            specs = plan.train_specs(overrides, self.multirun, config_dir)
            command = {group: plan.command_options(group, overrides, config_dir) for group in grammar.COMMAND_GROUPS}
            outcomes: Mapping[str, base.Outcome] = {}
            if self.cfg or (self.dry_run and not self.multirun):
                configs = [compose.stored_form(spec.config) | command for spec in specs]
                if self.as_json:
                    terminal.say_json({"configurations": configs})
                else:
                    print(yaml.safe_dump_all(configs, sort_keys=False), end="")
                return 0
            if self.dry_run:
                stored, code = Runs(self.results, {spec.id for spec in specs}), 0
                for spec, label in zip(specs, configuration.labels(specs), strict=True):
                    self.say(f"  {spec.id}  {label} · {format.plural(spec.steps, 'update')} ({stored.state(spec)})")
                done = sum(stored.state(spec) in FINISHED for spec in specs)
                for line in _simpler(specs):
                    self.say(f"  {line}")
                self.say(f"{format.plural(len(specs), 'run')} · {done} done; --dry-run: nothing is run")
            else:
                stored, outcomes, code = self._train(specs, command, config_dir)
        if self.as_json:
            terminal.say_json({"runs": [*_as_json(specs, stored, outcomes)]})
        return code

    def _train(
        self, specs: Sequence[Spec], command: Mapping[str, compose.Config], config_dir: Path | None
    ) -> tuple[Runs, Mapping[str, base.Outcome], int]:
        """Train what is missing and print the runs; returns them, how those ended that were started, and the code."""
        logger = command["logger"]
        launcher, watch = watched(self.console, logger, self.results, base.load(command["launcher"]))

        stored = Runs(self.results, {spec.id for spec in specs})
        to_train, done = missing(specs, stored), sum(stored.state(spec) in FINISHED for spec in specs)
        self.say(f"{format.plural(len(specs), 'run')} · {done} done, {len(to_train)} to run")
        for line in describe_stored(stored, specs, to_train):
            self.say(f"  {line}")
        if logger["name"] != "none" and (finished := stored.find(specs)):
            self.say(f"  to log those, too: {replay(finished, logger, self.results)}")
        for line in _simpler(specs):
            self.say(f"  {line}")
        ensured = ensure_runs(specs, launcher, stored, watch)
        outcomes = ensured.outcomes
        states = {run["id"]: run["status"] for run in _as_json(specs, stored, outcomes)}
        if set(states.values()) != {"refused"}:
            _table(specs, stored, states, self.console)
        for line in _remarks(specs, stored, outcomes):
            self.say(line)
        if ensured.interrupted:  # an incomplete sweep is not compared
            self.say("interrupted; the same command goes on.")
            return stored, outcomes, 130
        if self.multirun:
            from normbench.commands import compare  # late: a single run is not compared

            compare.after_sweep(stored.find(specs), self.console, self.results, config_dir)
        codes = [{"failed": 4, "refused": o.code or 4, "busy": 5}.get(o.status, 0) for o in outcomes.values()]
        codes += [{"diverged": 3, "damaged": 4}.get(stored.state(spec), 0) for spec in specs]
        return stored, outcomes, next((code for code in (4, 2, 5, 3) if code in codes), 0)

    @contextmanager
    def _named(self) -> Iterator[tuple[Sequence[str], Path | None]]:
        """Register the normalizers of files (`norm=my_norm.py`): the words with their names, and the folder of choices.

        The choices are stored below the results, once the words are valid; in a temporary folder if nothing is trained.
        """
        overrides = grammar.parse(self.words)
        names = [*grammar.chosen(overrides, "norm"), *grammar.chosen_at_sites(overrides)]
        if not any(map(user_code.is_normalizer_file, names)):
            yield self.words, self.config_dir
            return
        from normbench.battery.adopt import in_words, keep  # imports torch

        conf = runs.own(self.results)
        with scratch.folder("normbench-own-") as tried:
            words, adopted = in_words(self.words, self.config_dir, tried)
            try:
                plan.train_specs(words, self.multirun, tried)
                if self.cfg or self.dry_run:
                    yield words, tried
                    return
            except NormbenchError as error:
                raise type(error)(str(error).replace(str(tried), str(conf))) from None
            for normalizer in [keep(normalizer, conf) for normalizer in adopted]:
                if normalizer.remark:
                    self.say(normalizer.remark)
                again = f"norm={normalizer.name} --config-dir {shlex.quote(str(conf))}"
                self.say(f"{normalizer.name}: saved. Next time: {again}")
        yield words, conf


command = Train


def _as_json(specs: Sequence[Spec], stored: Runs, outcomes: Mapping[str, base.Outcome]) -> Iterator[dict[str, Any]]:
    """The state of each run, and why it is not done."""
    for spec, label in zip(specs, configuration.labels(specs), strict=True):
        state, ended, copy = stored.state(spec), outcomes.get(spec.id), stored.copy(spec.id)
        if ended and (ended.status == "refused" or (ended.status == "planned" and state != "running")):
            state = ended.status
        yield {
            "id": spec.id,
            "label": label,
            "seed": spec.seed,
            "status": state,
            "steps": spec.steps,
            "reason": (ended.reason if ended else "") or (copy.reason if copy else ""),
            "path": str(copy.path) if copy else None,
        }


def _simpler(specs: Sequence[Spec]) -> Iterator[str]:
    """Normalizers that are others in runs of this size, with the number of runs."""
    for sentence, count in Counter(sentence for spec in specs for sentence in spec.simpler).items():
        yield f"note: {sentence} ({format.plural(count, 'run')})"
    for name in dict.fromkeys(spec.config["norm"]["name"] for spec in specs if _stands_nowhere(spec)):
        yield f"note: norm={name} stands nowhere: each site of norm.sites has another, a site that it leaves out none"


def _stands_nowhere(spec: Spec) -> bool:
    norm = spec.config["norm"]
    return norm["name"] not in ("none", *(choice.name for choice in spec.sites.values())) and bool(norm["sites"])


def _remarks(specs: Sequence[Spec], stored: Runs, outcomes: Mapping[str, base.Outcome]) -> Iterator[str]:
    """The path of a single run, and a line for each that failed or ended far worse than it began."""
    if len(specs) == 1 and (copy := stored.copy(specs[0].id)):
        yield f"  {copy.path}"
    for fault in describe_failures(outcomes, stored):
        yield f"normbench: {fault}"
    yield from describe_launched(outcomes, stored)
    for spec in specs:
        if stored.state(spec) == "damaged" and (copy := stored.copy(spec.id)):
            yield f"normbench: {copy.path} is damaged: {copy.reason}. Delete it to train this run again."
        elif (run := stored.of(spec)) and run.status == "diverged":
            yield f"normbench: run {spec.id} diverged: {run.reason}. It counts as diverged in figures and verdicts."
        elif run and (ends := exploded(run)):
            metric = metrics.format_metric(run.monitor["split"], run.monitor["metric"])
            yield f"normbench: run {spec.id}: {metric} was {ends[0]:.3g} before training and is {ends[1]:.3g} now."


def _table(specs: Sequence[Spec], stored: Runs, states: Mapping[str, str], console: Console) -> None:
    """Print a row per started run: its differing options and its main metrics at the end, in evaluation mode."""
    finished = stored.find(specs)
    logged = metrics.logged(finished)
    monitored = {(run.monitor["split"], run.monitor["metric"]) for run in finished}
    columns = [
        (split, metric)
        for split in ("train", "valid", "test")
        for metric in logged.get(split, ())
        if (split, metric.name) in monitored
        or (split != "valid" and (metric.loss or (metric.better and metric == metrics.chief(logged[split]))))
    ]
    settings_of_runs = [configuration.flat(spec.config) for spec in specs]
    among = configuration.numbers(settings_of_runs)
    keys = list(configuration.differing(settings_of_runs)) or ["model", configuration.ARM_GROUP]
    names = [f"{split} {metric.title}{metric.unit and f', {metric.unit}'}" for split, metric in columns]
    rows = [
        (spec, values) for spec, values in zip(specs, settings_of_runs, strict=True) if states[spec.id] != "missing"
    ]
    numbers = []
    for split, metric in columns:
        runs = (stored.of(spec) for spec, _ in rows)
        ends = [final(run, split, "eval", metric.name) if run else None for run in runs]
        form = one_format((metric.factor * end, None) for end in ends if end is not None)
        numbers.append(["" if end is None else form(metric.factor * end) for end in ends])
    lines = []
    for (spec, values), *texts in zip(rows, *numbers, strict=True):
        settings = [configuration.short(values[key], among.get(key, ())) if key in values else "" for key in keys]
        lines.append([spec.id, *settings, str(spec.seed), states[spec.id], *texts])
    show_rows(console, ["run", *keys, "seed", "status", *names], lines)
    if lacking := [*states.values()].count("missing"):
        say(console, f"{format.plural(lacking, 'run')} missing")
