"""`normbench judge`: claims about logged curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from normbench.commands import terminal
from normbench.commands.judging import Judging, print_verdicts
from normbench.commands.options import argument, flag, option
from normbench.core import keys
from normbench.errors import BadInput, did_you_mean
from normbench.files.reading import place
from normbench.judge.ci import Judged
from normbench.papers import describe
from normbench.papers.claims import EQUAL, Artifact, Looks, built, load
from normbench.papers.decide import Verdict
from normbench.papers.rules import NOT_RUN
from normbench.runs import files
from normbench.runs.run import Run

EPILOG = """examples:
  normbench import logs/ --as mine --yes                         curves of TensorBoard, W&B, CSV, ...
  normbench judge --runs mine --compare rms ln --metric loss --better lower     is rms better than ln?
  normbench judge --runs mine --target 3.28 --metric loss --better lower        is the mean of an arm below 3.28?
  normbench judge claims.yaml --runs mine --init                 write a claims file about these runs, to be edited
  normbench judge claims.yaml                                    judge it
  normbench judge --runs mine --compare rms ln --looks 5,10,20   with five seeds, then ten, then twenty
  normbench judge --runs mine --runs env=easy --compare rms ln   some of the runs
  normbench judge --runs ln2016/fig1/proxy --compare ln none     published runs; of one's own: filters as of compare
  normbench judge claims.yaml --form latex > claims.tex          a table for a paper (booktabs)
  normbench judge claims.yaml --fail-on fails,diverged,untested,incomplete      for CI: docs/ci.md

A claim holds or fails "as logged": how the runs were made is not looked at.
All runs of both arms count, at the steps that all have: by pairs where the arms have the same seeds, else by Welch's
interval. Undecided is everything below 5 seeds, with more than twice as many runs on one side, or with a curve that was
cut far below the others. The claims of a file share Holm's adjustment: at most 5 % of files have a false word, if you
look once. Judge after every seed from 5 to 20, and 19 % have one. To look earlier and add seeds, plan the looks before
the first run: --looks 5,10,20 shares the 5 % among them, at other numbers of seeds nothing is decided, and intervals
have the level of their look. Stop at the first word. Looks outside of the plan cannot be seen by the program.
--target compares the mean of one arm with a number, by Student's t over its seeds, 2.5 % a side as in all claims; a run
that diverged never reaches it. `than` in a file of claims says the same, and that a time is below a number: by the sign
test, from 6 seeds, where a run that never reaches the level is later than any number. --init with --target writes both.

--json prints, shortened:
  {"title": "--compare",
   "claims": [{"id": "C1", "statement": "ln is better than none in final test nll", "word": "holds",
               "reason": "", "basis": "as logged", "robustness": "", "verdict": "holds · as logged",
               "answer": "ln is 0.5 nats better than none in final test nll",
               "effect": -0.5, "unit": "absolute", "interval": [-0.6, -0.4], "level": 0.95, "n": 5, "than": null,
               "look": 1, "looks": [5], "diverged": false, "compared": "pairs of equal seeds", "suggestion": "",
               "runs": ["cd74010e3cec", "1c1f1a126d41"]}],
   "notes": []}
"""
KEYS = (  # of a claim in --json
    "id", "statement", "word", "reason", "basis", "robustness", "verdict", "answer", "effect", "unit",
    "interval", "level", "n", "than", "look", "looks", "diverged", "compared", "suggestion", "runs",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Judge(Judging):
    """The options of the command."""

    claims: Annotated[
        Path | None,
        argument("a file of claims (examples/own_claims/papers; --init writes one)", "CLAIMS.yaml", parser=place),
    ] = None
    runs: Annotated[
        list[str] | None,
        option(
            "an imported name or a pack; KEY=VALUE after it chooses among its runs, as in compare (repeatable)",
            "NAME|PATH",
            show_default=False,
        ),
    ] = None
    compare: Annotated[
        tuple[str, str] | None, option("without a file: is arm A better than arm B at the end?", "A B")
    ] = None
    target: Annotated[
        float | None, option("without a file: is an arm better than this number at the end?", "NUMBER")
    ] = None
    arm: Annotated[str | None, option("with --target: the arm", "ARM", show_default="the only one")] = None
    metric: Annotated[
        str | None,
        option("with --compare, --target, --init: the metric", "METRIC", show_default="the one that is monitored"),
    ] = None
    split: Annotated[
        str | None,
        option("with --compare, --target, --init: the split", "SPLIT", show_default="the one that is monitored"),
    ] = None
    better: Annotated[
        Literal["lower", "higher"] | None,
        option("with --compare, --target, --init: which is better", show_default="by the map"),
    ] = None
    length: Annotated[
        Literal["equal", "common"] | None,
        option(
            "with --compare, --target, --init: common compares up to the last step that all runs have",
            show_default="equal",
        ),
    ] = None
    looks: Annotated[
        str | None,
        option(
            "with --compare, --target, --init: judge at these numbers of seeds alone, planned before the first run",
            "N,N,...",
        ),
    ] = None
    spending: Annotated[
        Literal["obrien-fleming", "pocock"] | None,
        option("with --looks: how they share the 5 %; pocock gives early looks more", show_default="obrien-fleming"),
    ] = None
    init: Annotated[bool, flag("--init", "write CLAIMS.yaml about the runs")] = False

    @property
    def asked(self) -> str:
        if self.target is not None and not self.claims:
            return f"{self.arm or 'runs'} against {self.target:.12g}"
        return str(self.claims or " against ".join(self.compare or ["no claims"]))

    def judge(self, judged: list[Judged]) -> int:
        """Judge the claims of a file, or one between two arms."""
        from normbench.judge import sources, verdicts

        self._check_options()
        artifact = load(self.claims) if self.claims and not self.init else None
        if artifact and artifact.experiment:
            raise BadInput(
                f"{self.claims}: these claims have the experiment {artifact.experiment}: normbench reproduce. Without "
                "`experiment` they are judged on logged runs."
            )
        words = self.runs or (artifact.runs if artifact else ())
        if not words:
            raise BadInput("which runs? --runs NAME, or `runs` in the file of claims. (normbench import --list)")
        runs, notes = sources.load(words, self.results)
        if artifact is None:
            content = self._claim(runs, words)
            if self.init:
                return 0
            artifact = built(content, Path("--compare" if self.target is None else "--target"))
        claims = verdicts.judge(artifact, runs)
        absent = _absent(artifact, runs)
        not_run = [
            f"{claim.id}: {claim.answer}."
            for claim in claims
            if NOT_RUN in (claim.reason, *(control.reason for control in claim.controls))
        ]
        judged.append(Judged(self.asked, claims, absent=absent, not_run=not_run))
        notes += absent
        for note in notes:
            self.say(f"  note: {note}")
        print_verdicts(claims, self.console)
        if self.as_json:
            terminal.say_json({"title": artifact.title, "claims": [*map(_as_json, claims)], "notes": notes})
        return 0

    def _check_options(self) -> None:
        """NormbenchError for options that do not go together."""
        if self.init and self.claims is None:
            raise BadInput("--init needs the name of the file that it writes: normbench judge CLAIMS.yaml --init")
        if self.init and self.claims and self.claims.exists():
            raise BadInput(f"{self.claims} is there already. --init writes a new file.")
        given = [self.compare, self.target, *([] if self.init else [self.claims])]
        if (count := sum(each is not None for each in given)) > 1 or (not count and not self.init):
            raise BadInput("judge needs a file of claims, --compare A B or --target NUMBER, one of them.")
        if self.spending and self.looks is None:
            raise BadInput("--spending is of --looks.")
        for name in ("metric", "split", "better", "length", "looks") if self.claims and not self.init else ():
            if getattr(self, name) is not None:
                raise BadInput(f"--{name} is of --compare, --target and --init; a file of claims says it itself.")
        if self.target is None and self.arm is not None:
            raise BadInput("--arm is of --target NUMBER; --compare names two arms, a file of claims its own.")
        if self.target is not None and not math.isfinite(self.target):
            raise BadInput(f"--target {self.target} is no number that runs could reach: give a finite one.")
        if self.target is not None and self.metric is None:
            raise BadInput(f"--target {self.target:.12g} of which metric? --metric METRIC")

    def _claim(self, runs: Sequence[Run], words: Sequence[str]) -> dict[str, Any]:
        """A claim about one arm or two as a file has it; with --init the file is written."""
        from normbench.judge import template

        arms = sorted({run.arm for run in runs})
        if self.compare is None and self.target is None and len(arms) < 2:
            raise BadInput(
                f"a claim compares two arms, and {' '.join(words)} has {' '.join(arms)} alone; or one with a number: "
                "--target NUMBER."
            )
        chosen = (self.arm,) if self.target is not None else self.compare or (arms[1], arms[0])
        of_runs = self.metric, self.split, self.better, self.length or EQUAL
        content = template.better(runs, chosen, *of_runs, self.target)
        if self.looks is not None:
            numbers = map(str.strip, self.looks.split(","))
            at = [int(number[:99]) if number.isdecimal() else number for number in numbers]
            keys.load(Looks, {"at": at}, "--looks", "(--looks 5,10,20)")
            content["looks"] = {"at": at, "spending": self.spending} if self.spending else at
        if self.init and self.claims:
            files.atomic_write(self.claims, template.commented(runs, words, content).encode())
            self.say(f"{self.claims}: edit it, then normbench judge {self.claims}")
        return content


command = Judge


def _as_json(claim: Verdict) -> dict[str, Any]:
    part = describe.deciding(claim)
    described = {"suggestion": describe.suggestion(claim), "than": part and part.than}
    return {key: described[key] if key in described else getattr(claim, key) for key in KEYS}


def _absent(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """What the claims' cells name and no run has, with the nearest that one has."""
    notes = []
    cells = [cell for claim in artifact.claims for part in (*claim.parts, *claim.reported) for _, cell in part.contrast]
    for key, value in dict.fromkeys((key, value) for cell in cells for key, value in cell.items() if key != "variant"):
        values = {run.arm if key == "arm" else run.axes.get(key) for run in runs} - {None}
        if value not in values:
            names = sorted(map(str, values))
            hint = did_you_mean(str(value), names) or (f" There are {', '.join(names)}." if names else "")
            notes.append(f"no run has {key} {value!r}.{hint}")
    return notes
