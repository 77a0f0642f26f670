"""`normbench reproduce`: plan, train what is missing, draw, judge, report."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from normbench import runs
from normbench.commands import format, terminal, training
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
    from normbench.papers.publish import Publication

EPILOG = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke      half a minute, on embedded data; below results/own
  normbench reproduce ln2016/fig6 --only ln --only bn-all --only train.batch_size=128
  normbench reproduce bln2022/fig6 --only BLN-18b --controls        only the runs that one claim compares
  normbench reproduce ln2016 --max-time 2h              the same command continues later
  normbench reproduce ln2016/fig6 --controls            also the settings that the paper does not give
  normbench reproduce ln2016/fig6 --max-time 0 --from DIR           judge a colleague's runs here
  normbench reproduce ln2016 --max-time 0 --fail-on fails --markdown verdicts.md      for CI: docs/ci.md
  normbench reproduce --config-dir examples/own_claims mine/rms     claims of your own on your own experiment
  normbench reproduce ln2016/fig6 logger=wandb          log to W&B files below results/wandb

--json prints, shortened:
  {"artifacts": [{"id": "ln2016/table1", "fidelity": "paper", "runs": 19, "error": "", "done": 19, "missing": [],
                  "failures": [], "claims": [{"id": "LN-T1", "word": "holds", "verdict": "holds · exact",
                  "n": 1}], "decided": 6, "decided_before": 0,
                  "files": {"table": "results/ln2016/table1/paper/table.md",
                            "verdicts": "results/ln2016/table1/paper/verdicts.json"}}],
   "report": "results/report/index.html"}
"files" has "figure" where there is one; of an artifact that is left out, "error" says why.
"""


def existing_results(text: str) -> Path:
    folder = runs.root(text)
    if not folder.is_dir():
        raise BadInput(f"--from {text}: there is no such folder.")
    return folder


def seeds_of(text: str) -> int | range:
    """`5` or `6-10`."""
    if match := re.fullmatch(r"([1-9]\d*)(?:-(\d+))?", text):
        first, last = int(match[1]), int(match[2] or 0)
        if not match[2] or last >= first:
            return range(first, last + 1) if match[2] else first
    raise BadInput(f"--seeds {text} must be a number of seeds (at least 1), or the first and the last, such as 6-10.")


@dataclass(frozen=True, kw_only=True)
class Reproduce(Judging):
    """The options of the command."""

    config_dir: ConfigDir = None
    words: Annotated[
        list[str], argument("an artifact (ln2016/fig6), a paper (ln2016), or all; logger=wandb may follow", "artifact")
    ]
    fidelity: Fidelity = "paper"
    seeds: Annotated[
        Any, option("seeds per arm, or seeds A to B", "N|A-B", parser=seeds_of, show_default="as the artifact plans")
    ] = None
    jobs: Jobs = 0
    device: Device = "cpu"
    only: Annotated[list[str], repeatable("only this arm, axis value or claim", "WHAT")]
    controls: Annotated[bool, flag("--controls", "also run the controls of the experiment")] = False
    max_time: Annotated[
        float | None, option("stop after 90s, 30m, 2h; 0 trains nothing", "TIME", parser=format.seconds)
    ] = None
    retry_failed: Annotated[bool, flag("--retry-failed", "train failed runs again")] = False
    dry_run: Annotated[bool, flag("--dry-run", "show what would run")] = False
    others: Annotated[
        list[Path], repeatable("take runs from this results folder too", "DIR", "--from", parser=existing_results)
    ]

    @property
    def asked(self) -> str:
        return " ".join(self.words)

    def judge(self, judged: list[Judged]) -> int:
        """Exit code: 0 done (divergence is a result), 4 a run failed, 130 interrupted."""
        names = [word for word in self.words if "=" not in word]
        words = [word for word in self.words if "=" in word]
        if not names:
            raise BadInput("reproduce needs an artifact, a paper or all. (normbench list artifacts)")
        for word in words:
            if word.split("=")[0].split(".")[0] not in COMMAND_GROUPS:
                raise BadInput(
                    f"'{word}': an artifact's runs are as it says; only launcher=... and logger=... can be set here. "
                    "For a question of your own: normbench train experiment=NAME arm=ARM key=value"
                )
        # typos fail before anything starts
        launcher = training.launcher(self.jobs, words, self.config_dir)
        logger = plan.command_options("logger", words, self.config_dir)
        launcher, watch = training.watched(self.console, logger, self.results, launcher)
        plans = [artifacts.Plan(artifact, self.fidelity) for artifact in self._chosen(names)]
        specs = [self.asked_specs(planned) for planned in plans]
        shipped = any(planned.artifact.config_dir is None for planned in plans) and self.fidelity != "smoke"
        if shipped and not self.dry_run and self.results == runs.root("results"):
            for paper in shipped_results.bring(self.results):
                self.say(f"  note: the published results of {paper} are now in {self.results / paper}")
        answers: list[dict[str, Any]] = []
        codes, started = [0], time.monotonic()
        for planned, own_specs in zip(plans, specs, strict=True):
            name = planned.artifact.id
            answers.append({"id": name, "fidelity": self.fidelity, "runs": len(own_specs), "error": ""})
            left = None if self.max_time is None else max(0.0, self.max_time - (time.monotonic() - started))  # of all
            try:
                code, answer = self._artifact(planned, own_specs, launcher, watch, left, judged)
            except NormbenchError as error:  # such as missing data, which the others may not need
                if len(plans) == 1 or error.code != 2:  # a full disk would stop them too
                    raise
                self.say(f"  {name} is left out: {error}")
                code, answer = error.code, {"error": str(error)}
                judged.append(Judged(name, failed=True))
            answers[-1] |= answer
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

    def _chosen(self, names: Sequence[str]) -> list[Artifact]:
        """The named artifacts, without those of a paper or of `all` that lack the fidelity."""
        chosen = [artifacts.load(name, self.config_dir) for name in artifacts.select(names, self.config_dir)]
        has = {a.id: self.fidelity in plan.experiment(a.experiment, self.config_dir).fidelities for a in chosen}
        if not any(has.values()) or not all(has.get(name, True) for name in names):
            return chosen
        for artifact in chosen:
            if not has[artifact.id]:
                self.say(f"{artifact.id} has no fidelity {self.fidelity}: left out")
        return [artifact for artifact in chosen if has[artifact.id]]

    def asked_specs(self, planned: artifacts.Plan) -> list[Spec]:
        specs = planned.specs(self.seeds, self.only, self.controls)
        return [replace(spec, config={**spec.config, "device": self.device}) for spec in specs]

    def _artifact(
        self,
        planned: artifacts.Plan,
        specs: list[Spec],
        launcher: Launcher,
        watch: Watch,
        left: float | None,
        judged: list[Judged],
    ) -> tuple[int, dict[str, Any]]:
        """Exit code as `judge`, and the answer; adds the claims to `judged`. left: seconds."""
        from normbench.papers import describe

        stored = Runs(self.results, {spec.id for spec in specs}, self.others)
        self._show_plan(planned, specs, stored, launcher.processes)
        left = 0 if self.dry_run else left
        ensured = ensure_runs(specs, launcher, stored, watch, self.retry_failed, left, wait_for_busy=True)
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
        published, files = self._publish(planned, finished)
        claims = published.verdicts.claims
        judged.append(Judged(planned.artifact.id, claims))
        answer |= {
            "failures": failures,
            "claims": [{key: getattr(claim, key) for key in ("id", "word", "verdict", "n")} for claim in claims],
            "files": files,
            "decided": describe.decided(claims),
            "decided_before": describe.decided(published.before.claims if published.before else ()),
        }
        if ensured.interrupted:
            self.say(f"interrupted; {len(finished)} of {len(specs)} done. The same command goes on.")
            return 130, answer
        return 4 if failures else 0, answer

    def _show_plan(self, planned: artifacts.Plan, specs: Sequence[Spec], stored: Runs, processes: int) -> None:
        """Print what is planned, what is stored of it, and how long the rest takes."""
        artifact, finished = planned.artifact, stored.find(specs)
        to_train = missing(specs, stored, self.retry_failed)
        data = specs[0].config["data"]["declares"]["title"]
        stamp = sum(len(artifact.deviations.get(fidelity, ())) for fidelity in {"paper", self.fidelity})
        self.say(f"\n{artifact.title} · {self.fidelity}")
        self.say(f"  data: {data} · choices and deviations: {stamp}, listed with the verdicts")
        counts = f"{format.plural(len(specs), 'run')} · {len(finished)} done"
        counts += f", {len(to_train)} to run" if to_train else ""
        failed = sum(stored.state(spec) == "failed" for spec in specs)
        if failed and not self.retry_failed:
            counts += f", {failed} failed (--retry-failed tries again)"
        if to_train:
            jobs = min(processes, len(to_train))
            to_come = [
                (pace.Place(s.experiment, s.fidelity, s.config["model"]["name"], s.axes, artifact.config_dir), s.steps)
                for s in to_train
            ]
            seconds = pace.seconds(to_come, finished)
            about = "" if seconds is None else f"about {format.duration(seconds / jobs)} "
            counts += f" · {about}on {format.plural(jobs, 'process')}"
        self.say(f"  {counts}\n")
        damaged = [*map(left_out, stored.damaged)]
        notes = [f"note: {line} Delete it to train it again." for line in damaged]
        notes += [f"note: {note}" for note in stored.notes if note not in damaged]
        notes += training.describe_stored(stored, specs, to_train)
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
        from normbench.papers import describe, publish

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
            claims = published.verdicts.claims
            print_verdicts(claims, [*map(describe.in_full, claims)], self.console)
        for note in published.notes:
            self.say(f"  note: {note}")
        named = {"figure": "figure.svg", "table": "table.md", "verdicts": "verdicts.json"}
        files = {name: str(place / file) for name, file in named.items() if (place / file).exists()}
        for name, file in files.items():
            self.say(f"  {name:<9} {file}")
        return published, files

    def _report(self, only: Sequence[str]) -> str | None:
        """Update the static site; if it cannot be written, print a note."""
        from normbench.web import report

        try:
            written = report.build(self.results, config_dir=self.config_dir, only=only)
        except NormbenchError as error:
            self.say(f"  note: {error}")
            return None
        for note in written.notes:
            self.say(f"  note: {note}")
        self.say(f"  report    {written.index}")
        return str(written.index)


command = Reproduce
