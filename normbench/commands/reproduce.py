"""`normbench reproduce`: plan, train what is missing, draw, judge, report."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from normbench import runs
from normbench.commands import format, terminal, training
from normbench.commands.judging import Judging, print_verdicts
from normbench.commands.options import ConfigDir, Device, Fidelity, Jobs, argument, flag, option
from normbench.commands.terminal import say, show_rows
from normbench.config import FIDELITIES, plan
from normbench.config.grammar import COMMAND_GROUPS
from normbench.config.spec import Spec
from normbench.draw import tables
from normbench.errors import BadInput, NormbenchError
from normbench.judge.ci import Judged
from normbench.launch import pace
from normbench.launch.base import Launcher, Watch
from normbench.launch.run_missing import check_data, ensure_runs, missing
from normbench.papers import artifact as artifacts
from normbench.papers import shipped_results
from normbench.papers.claims import Artifact, Claim, place_of
from normbench.papers.verdicts import Verdicts
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
    """A results folder that is there."""
    folder = runs.root(text)
    if not folder.is_dir():
        raise BadInput(f"--from {text}: there is no such folder.")
    return folder


def seeds_of(text: str) -> int | range:
    """`5` or `6-10`."""
    first, dash, last = text.partition("-")
    if first.isdecimal() and (last.isdecimal() if dash else True):
        asked = range(int(first), int(last) + 1) if dash else int(first)
        if asked and (isinstance(asked, int) or asked[0] > 0):
            return asked
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
        Any,
        option(
            "seeds per arm, or seeds A to B", "N|A-B", parser=seeds_of, show_default="those that the artifact plans"
        ),
    ] = None
    jobs: Jobs = 0
    device: Device = "cpu"
    only: Annotated[
        list[str],
        option("only this arm, axis value or claim (repeatable)", "WHAT", default_factory=list, show_default=False),
    ]
    controls: Annotated[bool, flag("--controls", "also run the controls of the experiment")] = False
    max_time: Annotated[
        float | None, option("stop after 90s, 30m, 2h; 0 trains nothing", "TIME", parser=format.seconds)
    ] = None
    retry_failed: Annotated[bool, flag("--retry-failed", "train failed runs again")] = False
    dry_run: Annotated[bool, flag("--dry-run", "show what would run")] = False
    others: Annotated[
        list[Path],
        option(
            "take runs from this results folder too (repeatable)",
            "DIR",
            "--from",
            default_factory=list,
            show_default=False,
            parser=existing_results,
        ),
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
        chosen = self._chosen(names)
        shipped = any(artifact.config_dir is None for artifact in chosen) and self.fidelity != "smoke"
        if shipped and not self.dry_run and self.results == runs.root("results"):
            for paper in shipped_results.bring(self.results):
                self.say(f"  note: the published results of {paper} are now in {self.results / paper}")
        plans = [artifacts.Plan(artifact, self.fidelity) for artifact in chosen]
        asked = [self.asked_specs(planned) for planned in plans]  # checked before the first run starts
        answers: list[dict[str, Any]] = []
        code, started = 0, time.monotonic()
        for planned, specs in zip(plans, asked, strict=True):
            artifact = planned.artifact
            answers.append({"id": artifact.id, "fidelity": self.fidelity, "runs": len(specs), "error": ""})
            left = None if self.max_time is None else max(0.0, self.max_time - (time.monotonic() - started))  # of all
            try:
                ended, answer = self._artifact(planned, specs, launcher, watch, left, judged)
            except NormbenchError as error:  # such as missing data, which the others may not need
                if len(plans) == 1 or error.code != 2:  # a full disk would stop them too
                    raise
                self.say(f"  {artifact.id} is left out: {error}")
                ended, answer = error.code, {"error": str(error)}
                judged.append(Judged(artifact.id, failed=True))
            answers[-1] |= answer
            code = max(code, ended)
            if code == 130:
                break
        if claims := [claim for answer in answers for claim in answer.get("claims", ())]:
            now, before = (sum(answer.get(key, 0) for answer in answers) for key in ("decided", "decided_before"))
            self.say(f"  decided   {now} of {format.plural(len(claims), 'claim')}, {before} before this command")
        index = None
        if not self.dry_run and self.results.is_dir():  # no folder is made if nothing was run
            index = self._report([artifact.id for artifact in chosen])
        if self.as_json:
            terminal.say_json({"artifacts": answers, "report": index})
        return code

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
        """`--only` takes claims besides arms and values: the runs that they compare, of the seeds that decide them."""
        artifact = planned.artifact
        named = self.seeds is not None  # given seeds are not limited to planned ones
        specs = plan.artifact_specs(
            artifact.experiment,
            self.fidelity,
            self.seeds if named else artifact.seeds,
            self.only,
            self.controls,
            artifact.config_dir,
            limited=not named,
            groups={claim.id: _runs_of(claim, planned, named) for claim in artifact.claims},
        )
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
        self._header(planned, specs, launcher.processes, stored, missing(specs, stored, self.retry_failed))
        left = 0 if self.dry_run else left
        ensured = ensure_runs(specs, launcher, stored, watch, self.retry_failed, left, wait_for_busy=True)
        finished = stored.find(specs)
        answer = {"done": len(finished), "missing": [spec.id for spec in ensured.missing]}
        if self.dry_run:
            self._list_missing(ensured.missing, stored)
            return 0, answer
        failures = list(training.describe_failures(ensured.outcomes, stored))
        for failure in failures if not ensured.interrupted else ():
            self.say(f"  failed: {failure}")
        for line in training.describe_submitted(ensured.outcomes):
            self.say(f"  {line}")
        for line in training.describe_uncompiled(ensured.outcomes, stored):
            self.say(f"  {line}")
        # the pack keeps runs that this plan did not ask for; they are judged with the rest
        published, files = self._results(planned, finished)
        verdicts, before = published.verdicts.claims, published.before
        judged.append(Judged(planned.artifact.id, verdicts))
        claims = [{"id": claim.id, "word": claim.word, "verdict": claim.verdict, "n": claim.n} for claim in verdicts]
        answer |= {"failures": failures, "claims": claims, "files": files}
        answer |= {
            "decided": describe.decided(verdicts),
            "decided_before": describe.decided(before.claims if before else ()),
        }
        if ensured.interrupted:
            to_come = missing(specs, stored, self.retry_failed)
            resumable = sum(stored.state(spec) == "interrupted" for spec in to_come)
            done = f"{len(specs) - len(to_come)} of {len(specs)} done, {resumable} resumable"
            self.say(f"interrupted; {done}. The same command goes on.")
            return 130, answer
        return 4 if failures else 0, answer

    def _header(self, planned: artifacts.Plan, specs: Sequence[Spec], jobs: int, stored: Runs, missing: Any) -> None:
        """Print the plan, what is stored of it, and how long the rest takes with so many jobs."""
        artifact = planned.artifact
        node = specs[0].config["data"]
        stamp = sum(len(artifact.deviations.get(fidelity, ())) for fidelity in {"paper", self.fidelity})
        axes = {key: {spec.axes[key] for spec in specs} for key in specs[0].axes}
        counted = [(len({spec.arm for spec in specs}), "arm")]
        counted += [(len(values), plan.axis_text(key)) for key, values in axes.items()]
        counted.append((len({spec.seed for spec in specs}), "seed"))
        if self.controls:
            counted.append((len({spec.control for spec in specs}), "setting"))
        factors = " × ".join(format.plural(*factor) for factor in counted)
        sign = "=" if math.prod(n for n, _ in counted) == len(specs) else "of"  # limits leave some out
        self.say(f"\n{artifact.title} · {self.fidelity}")
        self.say(f"  data: {node['declares']['title']} · choices and deviations: {stamp}, listed with the verdicts")
        finished = stored.find(specs)
        counts = f"{len(finished)} done, {len(missing)} to run" if missing else f"{len(finished)} done"
        if (failed := sum(stored.state(spec) == "failed" for spec in specs)) and not self.retry_failed:
            counts += f", {failed} failed (--retry-failed tries again)"
        if missing:
            jobs = min(jobs, len(missing))
            to_come = [
                (pace.Place(s.experiment, s.fidelity, s.config["model"]["name"], s.axes, artifact.config_dir), s.steps)
                for s in missing
            ]
            needed = pace.seconds(to_come, finished)
            counts += f" ·{f' about {format.duration(needed / jobs)}' if needed is not None else ''} on "
            counts += format.plural(jobs, "process")
        self.say(f"  {len(specs)} runs {sign} {factors} · {counts}\n")
        for damaged in stored.damaged:
            self.say(f"  damaged: {damaged.path}: {damaged.reason}. It is left alone; delete it to train it again.")
        told = {*map(left_out, stored.damaged)}
        notes = (f"note: {note}" for note in stored.notes if note not in told)
        for note in (*notes, *training.describe_stored(stored, specs, missing)):
            self.say(f"  {note}")
        for line in self._hints(planned, specs, finished, missing):
            self.say(f"  {line}\n")

    def _hints(
        self,
        planned: artifacts.Plan,
        specs: Sequence[Spec],
        finished: Sequence[Run],
        missing: Sequence[Spec],
    ) -> Iterator[str]:
        """Why the command cannot answer, and where an answer is."""
        from normbench.papers import publish

        if missing and self.max_time == 0:
            yield "--max-time 0: nothing is started"
            if hint := format.where_published(self.results):
                yield f"note: {hint}"
        if missing and self.dry_run:
            try:
                check_data(missing)
            except NormbenchError as error:
                yield f"missing data: {error}"
        if self.seeds is not None and self.fidelity == "paper":
            counted = {seed for _, seeds in planned.cells for seed in seeds}
            if further := sorted({spec.seed for spec in specs} - counted):
                text = ", ".join(map(str, further)) if len(further) < 4 else f"{further[0]} to {further[-1]}"
                yield f"note: no claim counts seeds beyond those planned: {text} will decide nothing"
        artifact = planned.artifact
        places = {name: publish.folder(self.results, artifact, name) for name in FIDELITIES}
        there = [name for name, place in places.items() if (place / "verdicts.json").exists()]
        if there and not finished:
            yield f"published at {there[0]}: {artifacts.again(artifact.id, there[0], artifact.config_dir)}"

    def _list_missing(self, missing: Sequence[Spec], stored: Runs) -> None:
        for spec in missing:
            axes = " ".join(f"{key}={value}" for key, value in spec.axes.items())
            state = stored.state(spec)
            self.say(f"  {spec.id}  {spec.arm} {axes} seed={spec.seed} {spec.control} ({state})")

    def _results(self, planned: artifacts.Plan, runs: Sequence[Run]) -> tuple[Publication, dict[str, str]]:
        """Publish and print the results; with the files."""
        from normbench.papers import publish

        place = publish.folder(self.results, planned.artifact, self.fidelity)
        if runs or place.exists():
            published = publish.publish(planned, runs, self.results, self.others)
            show_table(published.drawn.entries, self.console)
        else:
            published = publish.Publication(publish.judge(planned, [], None))
        show_verdicts(published.verdicts, self.console)
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


def _runs_of(claim: Claim, planned: artifacts.Plan, any_seed: bool) -> list[dict[str, Any]]:
    """The cells of the runs that a claim compares; if none can decide it, of those that it reports."""
    places = []
    for control, part in product(("", *claim.controls), claim.parts or claim.reported):
        seeds = {} if any_seed else {"seed": planned.seeds(part, control, claim.alone(planned.fidelity, control))}
        places += [{**place_of(cell), **seeds, "control": control} for _, cell in part.contrast]
    return places


def show_table(entries: Sequence[tables.Entry], console: Console) -> None:
    """Print the first quantity; table.md has all of them."""
    header, rows = tables.headline(entries)
    show_rows(console, header, rows)
    console.print()


def show_verdicts(judged: Verdicts, console: Console) -> None:
    from normbench.papers import describe, publish

    if judged.fidelity == publish.SMOKE:
        say(console, "  smoke     embedded data, little training: nothing here speaks for or against a paper's claim\n")
        return
    print_verdicts(judged.claims, [*map(describe.in_full, judged.claims)], console)
