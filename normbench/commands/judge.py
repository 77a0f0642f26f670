"""`normbench judge`: claims about logged curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from normbench.ci import Judged
from normbench.commands import terminal, verdict_table
from normbench.commands.judging import Judging
from normbench.commands.options import argument, flag, option
from normbench.errors import NormbenchError, did_you_mean
from normbench.reading import place

if TYPE_CHECKING:
    from normbench.papers.claims import Artifact
    from normbench.runs.record import RunRecord

EPILOG = """examples:
  normbench import logs/ --as mine --yes                         curves of TensorBoard, W&B, CSV, ...
  normbench judge --runs mine --compare rms ln --metric loss --better lower     is rms better than ln?
  normbench judge claims.yaml --runs mine --init                 write a claims file about these runs, to be edited
  normbench judge claims.yaml                                    judge it
  normbench judge claims.yaml --runs 'ln2016/fig6 fidelity=paper'
  normbench judge claims.yaml --fail-on opposite,diverged,not-run --junit verdicts.xml          for CI: docs/ci.md

A claim is supported or refuted, as logged: nothing is reproduced, because nobody knows here how these runs were made.
Arms are compared at the steps that all runs have, by pairs of equal seeds, or by Welch's interval over all runs where
seeds are not shared. The claims of a file share Holm's adjustment: at most 5 % of files have a false word, if you look
once. Below 5 seeds everything is undecided.
"""
KEYS = (  # of a claim in --json
    "id", "statement", "setting", "verdict", "answer", "effect", "unit", "interval", "level", "n", "diverged",
    "pairing", "runs",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Judge(Judging):
    """The options of the command."""

    claims: Annotated[
        Path | None, argument("a file of claims (docs/keys.md; --init writes one)", "CLAIMS.yaml", parser=place)
    ] = None
    runs: Annotated[
        list[str] | None,
        option("an imported name, a pack, or filters as of compare (repeatable)", "NAME|PATH", show_default=False),
    ] = None
    compare: Annotated[
        tuple[str, str] | None, option("without a file: is arm A better than arm B at the end?", "A B")
    ] = None
    metric: Annotated[
        str | None, option("with --compare, --init: the metric", "METRIC", show_default="the one that is monitored")
    ] = None
    split: Annotated[
        str | None, option("with --compare, --init: the split", "SPLIT", show_default="the one that is monitored")
    ] = None
    better: Annotated[
        Literal["lower", "higher"] | None, option("with --compare, --init: which is better", show_default="by the map")
    ] = None
    init: Annotated[bool, flag("--init", "write CLAIMS.yaml about the runs")] = False

    @property
    def asked(self) -> str:
        return str(self.claims or " against ".join(self.compare or ["no claims"]))

    def judge(self, judged: list[Judged]) -> int:
        """Judge the claims of a file, or one between two arms."""
        from normbench.judge import sources, template, verdicts
        from normbench.papers import claim_file

        claims, runs, compare = self.claims, self.runs, self.compare
        if self.init and claims is None:
            raise NormbenchError(
                "--init needs the name of the file that it writes: normbench judge CLAIMS.yaml --init ..."
            )
        if (claims is None) == (compare is None) and not self.init:
            raise NormbenchError("judge needs a file of claims, or --compare A B.")
        given = {"metric": self.metric, "split": self.split, "better": self.better}
        for name, value in given.items() if claims and not self.init else ():
            if value is not None:
                raise NormbenchError(f"--{name} is of --compare and --init; a file of claims says it itself.")
        if self.init and claims and claims.exists():
            raise NormbenchError(f"{claims} is there already. --init writes a new file.")
        asked = claim_file.load(claims) if claims and not self.init else None
        if asked and asked.experiment:
            raise NormbenchError(
                f"{claims}: these claims have the experiment {asked.experiment}: normbench reproduce. Without "
                "`experiment` they are judged on logged runs."
            )
        words = runs or (asked.runs if asked else ())
        if not words:
            raise NormbenchError("which runs? --runs NAME, or `runs` in the file of claims. (normbench import --list)")
        found, notes = sources.load(words, self.results)
        if asked is None:
            arms = sorted({run.arm for run in found})
            if compare is None and len(arms) < 2:
                raise NormbenchError(f"a claim compares two arms; {' '.join(words)} has {' '.join(arms)} alone.")
            content = template.better(found, compare or (arms[1], arms[0]), *given.values())
            if self.init and claims:
                claims.write_text(template.commented(found, words, content), encoding="utf-8")
                self.say(f"{claims}: edit it, then normbench judge {claims}")
                return 0
            asked = claim_file.built(content, Path("--compare"))
        verdict = verdicts.judge(asked, found)
        judged.append(Judged(self.asked, asked.title, verdict))
        notes += _absent(asked, found)
        for note in notes:
            self.say(f"  note: {note}")
        answers = ["; ".join(filter(None, [claim["answer"], claim["pairing"]])) for claim in verdict]
        verdict_table.show_verdicts(verdict, answers, self.console)
        if self.as_json:
            claims_said = [{key: claim[key] for key in KEYS} for claim in verdict]
            terminal.say_json({"title": asked.title, "claims": claims_said, "notes": notes})
        return 0


command = Judge


def _absent(asked: Artifact, found: Sequence[RunRecord]) -> list[str]:
    """The arms of the claims that no run has, with the nearest that one has."""
    cells = [cell for claim in asked.claims for part in (*claim.parts, *claim.reported) for _, cell in part.contrast]
    arms = {run.arm for run in found}
    absent = sorted({cell["arm"] for cell in cells if "arm" in cell} - arms)
    return [f"no run has the arm {arm}.{did_you_mean(arm, arms)}" for arm in absent]
