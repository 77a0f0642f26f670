"""`normbench reproduce`: plan, train what is missing, draw, judge, report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from normbench import runs
from normbench.commands import format, paper, terminal, training
from normbench.commands.judging import Judging, print_verdicts
from normbench.commands.options import ConfigDir, Device, Fidelity, Jobs, argument, flag, option, repeatable
from normbench.commands.terminal import show_rows
from normbench.config import plan
from normbench.config.grammar import COMMAND_GROUPS
from normbench.config.spec import Spec
from normbench.draw import tables
from normbench.draw.text import format_seeds
from normbench.errors import BadInput, NormbenchError
from normbench.judge.ci import Judged
from normbench.launch import pace
from normbench.launch.base import Launcher, Watch
from normbench.launch.run_missing import ensure_runs, missing
from normbench.papers import artifact as artifacts
from normbench.papers import shipped_results
from normbench.papers.claims import Artifact
from normbench.runs.directory import left_out
from normbench.runs.run import Run
from normbench.runs.table import Runs

if TYPE_CHECKING:
    from normbench.papers.decide import Verdict
    from normbench.papers.publish import Publication
    from normbench.papers.verdicts import Verdicts

EPILOG = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke      half a minute, on embedded data; below results/own
  normbench reproduce ln2016/fig6 --only ln --only bn-all --only train.batch_size=128
  normbench reproduce bln2022/fig6 --only BLN-18b --controls        only the runs that one claim compares
  normbench reproduce ln2016/fig6 --only LN-F4 --control lr-high    one of its controls alone
  normbench reproduce ln2016 --max-time 2h              the same command continues later
  normbench reproduce ln2016/fig6 --controls            also the settings that the paper does not give
  normbench reproduce ln2016/fig6 --max-time 0 --from DIR           judge a colleague's runs here
  normbench reproduce ln2016 --max-time 0 --fail-on fails --markdown verdicts.md      for CI: docs/ci.md
  normbench reproduce ln2016/fig6 --max-time 0 --form latex > claims.tex      a table of its claims for a paper
  normbench reproduce ln2016/fig6 --max-time 0 --figure fig6.pdf --width 6.75in --font-size 8pt
  normbench reproduce --config-dir examples/own_claims mine/rms     claims of your own on your own experiment
  normbench reproduce ln2016/fig6 logger=wandb          log to W&B files below results/wandb

--json prints, shortened:
  {"artifacts": [{"id": "ln2016/fig6", "fidelity": "paper", "runs": 70, "error": "", "done": 70, "missing": [],
    "failures": [], "decided": 9, "decided_before": 9,
    "claims": [{"id": "LN-F4", "word": "holds", "verdict": "holds · controls not run", "n": 5,
                "controls": [{"name": "lr-high", "word": "untested", "n": 0, "command": "normbench reproduce ..."}]}],
    "files": {"table": "results/ln2016/fig6/paper/table.md", "verdicts": "results/ln2016/fig6/paper/verdicts.json"}}],
   "report": "results/report/index.html"}
"files" has "figure" where there is one; of an artifact that is left out, "error" says why.
"""


@dataclass(frozen=True, kw_only=True)
class Reproduce(Judging):
    """The options of the command."""

    config_dir: ConfigDir = None
    words: Annotated[
        list[str], argument("an artifact (ln2016/fig6), a paper (ln2016), or all; logger=wandb may follow", "artifact")
    ]
    fidelity: Fidelity = "paper"
    seeds: Annotated[
        Any,
        option("seeds per arm, or seeds A to B", "N|A-B", parser=format.seeds, show_default="as the artifact plans"),
    ] = None
    jobs: Jobs = 0
    device: Device = "cpu"
    only: Annotated[list[str], repeatable("only this arm, axis value or claim", "WHAT")]
    controls: Annotated[bool, flag("--controls", "also run the controls of the experiment")] = False
    control: Annotated[list[str], repeatable("only this control, without the paper's setting", "NAME")]
    max_time: Annotated[
        float | None, option("stop after 90s, 30m, 2h; 0 trains nothing", "TIME", parser=format.seconds)
    ] = None
    dry_run: Annotated[bool, flag("--dry-run", "show what would run")] = False
    others: Annotated[
        list[Path],
        repeatable("take runs from this results folder too", "DIR", "--from", parser=format.existing_results),
    ]
    figure: paper.Figure = None
    width: paper.Width = None
    font_size: paper.FontSize = None

    @property
    def asked(self) -> str:
        return " ".join(self.words)

    def judge(self, judged: list[Judged]) -> int:
        """Exit code: 0 done (divergence is a result), 4 a run failed, 130 interrupted."""
        names = [word for word in self.words if "=" not in word]
        words = [word for word in self.words if "=" in word]
        self._check(names, words)
        # typos fail before anything starts
        launcher = training.launcher(self.jobs, words, self.config_dir)
        logger = plan.command_options("logger", words, self.config_dir)
        launcher, watch = training.watched(self.console, logger, self.results, launcher)
        plans = [artifacts.Plan(artifact, self.fidelity) for artifact in self._chosen(names)]
        if self.figure and (self.dry_run or len(plans) > 1):
            raise BadInput("--figure is of one artifact, and not of --dry-run. (normbench list artifacts)")
        specs = [self.planned_specs(planned) for planned in plans]
        self._bring_shipped(plans)
        published = [self._published_specs(*pair) for pair in zip(plans, specs, strict=True)]
        # one table for all artifacts: each would read all packs again
        stored = Runs(self.results, {spec.id for spec in itertools.chain(*published)}, self.others)
        damaged = [*map(left_out, stored.damaged)]
        for line in [f"{line} Delete it to train it again." for line in damaged]:
            self.say(f"  note: {line}")
        for line in [line for line in stored.notes if line not in damaged]:
            self.say(f"  note: {line}")
        answers: list[dict[str, Any]] = []
        codes, started = [0], time.monotonic()
        for planned, planned_specs, published_specs in zip(plans, specs, published, strict=True):
            name = planned.artifact.id
            left = None if self.max_time is None else max(0.0, self.max_time - (time.monotonic() - started))  # of all
            try:
                stored.refresh()
                code, answer = self._artifact(
                    planned, planned_specs, published_specs, stored, launcher, watch, left, judged
                )
            except NormbenchError as error:  # such as missing data, which the others may not need
                if len(plans) == 1 or error.code != 2:  # a full disk would stop them too
                    raise
                self.say(f"  {name} is left out: {error}")
                code, answer = error.code, {"error": str(error)}
                judged.append(Judged(name, failed=True))
            answers.append({"id": name, "fidelity": self.fidelity, "runs": len(planned_specs), "error": ""} | answer)
            codes.append(code)
            if code == 130:
                break
        if claims := sum(len(answer.get("claims", ())) for answer in answers):
            now, before = (sum(answer.get(key, 0) for answer in answers) for key in ("decided", "decided_before"))
            self.say(f"  decided   {now} of {format.plural(claims, 'claim')}, {before} before this command")
        is_shown = not self.dry_run and self.results.is_dir()  # no folder is made if nothing was run
        index = self._report([planned.artifact.id for planned in plans]) if is_shown else None
        if self.as_json:
            terminal.say_json({"artifacts": answers, "report": index})
        return max(codes)

    def _check(self, names: Sequence[str], words: Sequence[str]) -> None:
        if not names:
            raise BadInput("reproduce needs an artifact, a paper or all. (normbench list artifacts)")
        if self.control and self.controls:
            raise BadInput("--controls runs all controls, --control one alone. Give one of the two.")
        paper.check(self.figure, self.width, self.font_size)
        for word in words:
            if word.split("=")[0].split(".")[0] not in COMMAND_GROUPS:
                raise BadInput(
                    f"'{word}': an artifact's runs are as it says; only launcher=... and logger=... can be set here. "
                    "For a question of your own: normbench train experiment=NAME arm=ARM key=value"
                )

    def _bring_shipped(self, plans: Sequence[artifacts.Plan]) -> None:
        """Copy the published results of the papers to where none are."""
        is_shipped = any(planned.artifact.config_dir is None for planned in plans) and self.fidelity != "smoke"
        if is_shipped and not self.dry_run and self.results == runs.root("results"):
            for paper in shipped_results.bring(self.results):
                self.say(f"  note: the published results of {paper} are now in {self.results / paper}")

    def _chosen(self, names: Sequence[str]) -> list[Artifact]:
        """The named artifacts, without those of a paper or of `all` that lack the fidelity."""
        chosen = [artifacts.load(name, self.config_dir) for name in artifacts.select(names, self.config_dir)]
        fidelities = {a.id: plan.experiment(a.experiment, self.config_dir).fidelities for a in chosen}
        lacking = [a.id for a in chosen if self.fidelity not in fidelities[a.id]]
        if len(lacking) == len(chosen) or {*names} & {*lacking}:
            return chosen  # the plan of the first that lacks it refuses
        for name in lacking:
            self.say(f"{name} has no fidelity {self.fidelity}: left out")
        return [artifact for artifact in chosen if artifact.id not in lacking]

    def planned_specs(self, planned: artifacts.Plan) -> list[Spec]:
        return self._on_device(planned.specs(self.seeds, self.only, self.control or self.controls))

    def _published_specs(self, planned: artifacts.Plan, specs: Sequence[Spec]) -> list[Spec]:
        """What is published where it is at hand: all of the artifact's runs, so that `--only` chooses no evidence."""
        if not (self.only or self.control):
            return [*specs]
        whole = self._on_device(planned.specs(self.seeds, [], False))
        return [*{spec.id: spec for spec in (*whole, *specs)}.values()]

    def _on_device(self, specs: Sequence[Spec]) -> list[Spec]:
        return [replace(spec, config={**spec.config, "device": self.device}) for spec in specs]

    def _artifact(
        self,
        planned: artifacts.Plan,
        specs: list[Spec],
        published_specs: list[Spec],
        stored: Runs,
        launcher: Launcher,
        watch: Watch,
        left: float | None,
        judged: list[Judged],
    ) -> tuple[int, dict[str, Any]]:
        """Exit code as `judge`, and the answer; adds the claims to `judged`. left: seconds."""
        from normbench.papers import tally

        self._show_plan(planned, specs, stored, launcher.processes)
        left = 0 if self.dry_run else left
        ensured = ensure_runs(specs, launcher, stored, watch, left)
        finished = stored.find(specs)
        answer = {"done": len(finished), "missing": [spec.id for spec in ensured.missing]}
        if self.dry_run:
            for spec in ensured.missing:
                axes = " ".join(f"{key}={value}" for key, value in spec.axes.items())
                self.say(f"  {spec.id}  {spec.arm} {axes} seed={spec.seed} {spec.control} ({stored.state(spec)})")
            return 0, answer
        failures = [*training.describe_failures(ensured.outcomes, stored)]
        for failure in failures if not ensured.interrupted else ():
            self.say(f"  failed: {failure}")
        for line in training.describe_launched(ensured.outcomes, stored):
            self.say(f"  {line}")
        # the pack keeps runs that this plan did not ask for; they are judged with the rest
        published, files = self._publish(planned, stored.find(published_specs))
        claims = published.verdicts.claims
        judged.append(Judged(planned.artifact.id, claims))
        answer |= {
            "failures": failures,
            "claims": [_as_json(claim, published.verdicts) for claim in claims],
            "files": files,
            "decided": tally.decided(claims),
            "decided_before": tally.decided(published.before.claims if published.before else ()),
        }
        if ensured.interrupted:
            self.say(f"interrupted; {len(finished)} of {len(specs)} done. The same command goes on.")
            return 130, answer
        return 4 if failures else 0, answer

    def _show_plan(self, planned: artifacts.Plan, specs: Sequence[Spec], stored: Runs, processes: int) -> None:
        """Print what is planned, what is stored of it, and how long the rest takes."""
        artifact, finished = planned.artifact, stored.find(specs)
        to_train = missing(specs, stored)
        data = specs[0].config["data"]["declares"]["title"]
        stamp = sum(len(artifact.deviations.get(fidelity, ())) for fidelity in {"paper", self.fidelity})
        self.say(f"\n{artifact.title} · {self.fidelity}")
        self.say(f"  data: {data} · choices and deviations: {stamp}, listed with the verdicts")
        counts = f"{format.plural(len(specs), 'run')} · {len(finished)} done"
        if to_train:
            jobs = min(processes, len(to_train))
            seconds = pace.seconds(to_train, finished, artifact.config_dir)
            about = "" if seconds is None else f"about {format.duration(seconds / jobs)} "
            self.say(f"  {counts}, {len(to_train)} to run · {about}on {format.plural(jobs, 'process')}\n")
        else:
            self.say(f"  {counts}\n")
        notes = [*training.describe_stored(stored, specs, to_train)]
        planned_seeds = {seed for _, seeds in planned.cells for seed in seeds}
        further = sorted({spec.seed for spec in specs} - planned_seeds)
        if further and self.fidelity == "paper":
            notes.append(f"note: no claim counts {format_seeds(further)}, which nobody planned")
        if to_train and self.max_time == 0:
            notes += ["--max-time 0: nothing is started", format.where_published(self.results)]
        for note in filter(None, notes):
            self.say(f"  {note}")

    def _publish(self, planned: artifacts.Plan, runs: Sequence[Run]) -> tuple[Publication, dict[str, str]]:
        """Publish and print the results; with the files."""
        from normbench.papers import publish

        place = publish.folder(self.results, planned.artifact, self.fidelity)
        if runs or place.exists():
            published = publish.publish(planned, runs, self.results, self.others)
            show_rows(self.console, *tables.headline(published.drawn.entries))  # table.md has all quantities
            self.say("")
        else:
            published = publish.Publication(publish.judge(planned, [], None))
        if self.fidelity == publish.SMOKE:
            self.say("  smoke     embedded data, little training: nothing here speaks for or against a paper's claim\n")
        else:
            print_verdicts(published.verdicts.claims, self.console)
        for note in published.notes:
            self.say(f"  note: {note}")
        named = {"figure": "figure.svg", "table": "table.md", "verdicts": "verdicts.json"}
        files = {name: str(place / file) for name, file in named.items() if (place / file).exists()}
        for name, file in files.items():
            self.say(f"  {name:<9} {file}")
        if self.figure:
            caption = paper.write(self.figure, published.drawn.panels, self.width, self.font_size)
            self.say(f"  {self.figure}: {caption}")
        return published, files

    def _report(self, only: Sequence[str]) -> str | None:
        """Update the static site; if it cannot be written, print a note."""
        from normbench.web import report

        try:
            written = report.build(self.results, config_dir=self.config_dir, only=only)
        except NormbenchError as error:
            self.say(f"  note: {error}")
            return None
        self.say("".join(f"  note: {note}\n" for note in written.notes) + f"  report    {written.index}")
        return str(written.index)


def _as_json(claim: Verdict, verdicts: Verdicts) -> dict[str, Any]:
    controls = [
        {"name": c.name, "word": c.word, "n": c.n, "command": verdicts.control_commands(claim)[c.name]}
        for c in claim.controls
    ]
    return {"id": claim.id, "word": claim.word, "verdict": claim.verdict, "n": claim.n, "controls": controls}


command = Reproduce
