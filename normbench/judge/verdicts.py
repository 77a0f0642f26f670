"""Verdicts on claims about logged runs, with Holm's correction over the claims of a file (Holm 1979)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from normbench.errors import BadInput
from normbench.files.stored import LOGGED
from normbench.judge.evidence import Logged, observe
from normbench.papers import describe, rules
from normbench.papers.claims import Artifact, Claim, Part
from normbench.papers.decide import PAPER, Suggestion, Verdict, decide
from normbench.papers.parts import Observed
from normbench.papers.rules_file import ALPHA
from normbench.papers.suggested_runs import suggested_seeds
from normbench.runs.run import Run


def judge(claims: Artifact, runs: Sequence[Run]) -> list[Verdict]:
    """A verdict for each claim.

    Of k claims that runs can decide the first is decided by tests at 5 %/k, of the other k − 1 the next at 5 %/(k − 1),
    and so on. Runs that all have one control that no claim names are judged as if they had none. Raises NormbenchError
    as `observe`, and where all have one of several controls.
    """
    settings = sorted({run.control for run in runs})
    if len(settings) == 1 and settings[0] not in claims.settings:
        runs = [replace(run, control="") for run in runs]
    elif len(settings) > 1 and "" not in settings:
        raise BadInput(f"all runs have a control, {' or '.join(settings)}: choose one, --runs 'NAME control=...'.")
    claimed = [_Evidence(claim, claims, runs) for claim in claims.claims]
    verdicts = [evidence.verdict(ALPHA) for evidence in claimed]
    # With looks all claims share the level from the first look on, those at no planned look, too.
    testable = [place for place, verdict in enumerate(verdicts) if verdict.spent or claimed[place].claim.looks]
    decided: list[int] = []
    while True:
        alpha = ALPHA / max(1, len(testable) - len(decided))
        for place, evidence in enumerate(claimed):
            if place not in decided:
                verdicts[place] = evidence.verdict(alpha)
        newly = [place for place in testable if place not in decided and verdicts[place].word in rules.DECIDED]
        if not newly:
            return verdicts
        decided += newly


class _Evidence:
    """What the runs show of a claim."""

    def __init__(self, claim: Claim, claims: Artifact, runs: Sequence[Run]) -> None:
        self.claim, self.names, self.runs = claim, claims.names, runs

        def parts(of: Sequence[Part], control: str) -> list[Logged]:
            group = [run for run in runs if run.control == control]
            alone = claim.alone(PAPER, control)
            least = claim.looks.at[0] if claim.looks else claims.seeds if alone is None else len(alone)
            return [observe(part, group, claims.length, least, alone, claim.looks) for part in of]

        self.setting, self.reported = parts(claim.parts, ""), parts(claim.reported, "")
        self.controls = {name: parts(claim.parts, name) for name in claim.controls}
        cells = [cell for part in claim.parts for _, cell in part.contrast]
        compared = [run for run in runs if any(map(run.matches, cells))]
        self.left_out = Counter(run.control for run in compared if run.control not in ("", *claim.controls))

    def verdict(self, alpha: float) -> Verdict:
        setting, reported = _observed(self.setting), _observed(self.reported)
        controls = {name: _observed(parts) for name, parts in self.controls.items()}
        reached = min((part.look for part in setting), default=1)
        verdict = decide(self.claim, LOGGED, setting, controls, reported, reached, self.names, alpha, small=ALPHA)
        parts = []
        for logged, part in zip(self.setting, verdict.parts, strict=True):
            quantity = part.quantity
            if logged.step is not None:
                quantity = f"{quantity.removeprefix('final ')} at step {logged.step:g}"
            unpaired = tuple(map(len, logged.observed.groups)) or None
            parts.append(replace(part, logged=True, unpaired=unpaired, quantity=quantity))
        worse = any(_lost(logged, 1) > _lost(logged, -1) for logged in self.setting)
        if worse and verdict.word not in rules.DECIDED and verdict.reason != rules.NOT_RUN:
            words = rules.verdict(rules.UNDECIDED, rules.DIVERGED, rules.AS_LOGGED, "")
            verdict = replace(verdict, word=rules.UNDECIDED, reason=rules.DIVERGED, verdict=words)
        if verdict.word == rules.UNDECIDED and not self.claim.looks:  # else the next look is named
            verdict = replace(verdict, suggestion=self._suggestion(verdict))
        compared = [text for logged in self.setting for text in logged.compared]
        for name, of_control in self.controls.items():
            texts = [text for logged in of_control for text in logged.compared]
            compared += [f"under {name}, {text}" for text in texts if text not in compared]
        compared += [f"{n} runs of the control {name} are left out" for name, n in self.left_out.items()]
        verdict = replace(verdict, parts=tuple(parts), diverged=worse, compared="; ".join(dict.fromkeys(compared)))
        return replace(verdict, answer=describe.evidence(verdict))

    def _suggestion(self, verdict: Verdict) -> Suggestion | None:
        """The seeds that would decide a claim about a number; None where something else than their number is amiss."""
        against_number = any(part.than is not None for part in self.claim.parts)
        if not against_number or any(part.why not in ("", "few seeds", "no mean") for part in verdict.parts):
            return None
        return suggested_seeds(self.claim, verdict.parts, self.runs, rules.HOLDS, verdict.alpha)


def _observed(parts: Sequence[Logged]) -> list[Observed]:
    return [logged.observed for logged in parts]


def _lost(logged: Logged, sign: int) -> int:
    """How many of the runs on one side of the comparison diverged."""
    contrast = logged.observed.part.contrast
    return sum(lost for lost, (weight, _) in zip(logged.lost, contrast, strict=False) if weight * sign > 0)
