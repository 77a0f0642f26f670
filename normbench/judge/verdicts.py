"""Verdicts on claims about logged runs, with Holm's correction over the claims of a file (Holm 1979)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from normbench.errors import BadInput
from normbench.files.stored import LOGGED
from normbench.judge.evidence import Logged, Unpaired, observe
from normbench.papers import describe, rules
from normbench.papers.claims import Artifact, Claim, Part
from normbench.papers.decide import Verdict, decide
from normbench.papers.observed import Observed
from normbench.papers.rules_file import ALPHA
from normbench.runs.run import Run

PAPER = "paper"  # under which a file without an experiment has the seeds of a claim


def judge(claims: Artifact, runs: Sequence[Run]) -> list[Verdict]:
    """A verdict for each claim.

    Of k claims that runs can decide the first is decided by tests at 5 %/k, of the other k − 1 the next at 5 %/(k − 1),
    and so on. Runs that all have one control are judged as if they had none. Raises NormbenchError as `observe`, and
    where all have one of several controls.
    """
    settings = sorted({run.control for run in runs})
    if len(settings) == 1:
        runs = [replace(run, control="") for run in runs]
    elif settings and "" not in settings:
        raise BadInput(f"all runs have a control, {' or '.join(settings)}: choose one, --runs 'NAME control=...'.")
    seen = [_Seen(claim, claims, runs) for claim in claims.claims]
    found = [one.verdict(ALPHA) for one in seen]
    testable = [place for place, claim in enumerate(found) if claim.spent]
    decided: list[int] = []
    while True:
        alpha = ALPHA / max(1, len(testable) - len(decided))
        found = [found[place] if place in decided else one.verdict(alpha) for place, one in enumerate(seen)]
        new = [place for place in testable if place not in decided and found[place].word in rules.DECIDED]
        if not new:
            return found
        decided += new


class _Seen:
    """What the runs show of a claim."""

    def __init__(self, claim: Claim, claims: Artifact, runs: Sequence[Run]) -> None:
        why = claim.not_decidable.get(PAPER, "")
        self.claim, self.names = replace(claim, not_decidable={LOGGED: why} if why else {}), claims.names

        def parts(of: Sequence[Part], control: str) -> list[Logged]:
            group = [run for run in runs if run.control == control]
            alone = claim.alone(PAPER, control)
            least = claims.seeds if alone is None else len(alone)
            return [observe(part, group, claims.length, least, alone) for part in of]

        self.setting, self.reported = parts(claim.parts, ""), parts(claim.reported, "")
        self.controls = {name: parts(claim.parts, name) for name in claim.controls}
        cells = [cell for part in claim.parts for _, cell in part.contrast]
        compared = [run for run in runs if any(map(run.matches, cells))]
        self.left_out = Counter(run.control for run in compared if run.control not in ("", *claim.controls))

    def verdict(self, alpha: float) -> Verdict:
        setting, reported = _with_parts(self.setting), _with_parts(self.reported)
        controls = {name: _with_parts(seen) for name, seen in self.controls.items()}
        verdict = decide(self.claim, LOGGED, setting, controls, reported, names=self.names, alpha=alpha, small=ALPHA)
        parts = []
        for seen, part in zip(self.setting, verdict.parts, strict=True):
            unpaired = tuple(len(cell["values"]) for cell in seen.cells) if isinstance(seen, Unpaired) else None
            quantity = part.quantity
            if seen.step is not None:
                quantity = f"{quantity.removeprefix('final ')} at step {seen.step:g}"
            parts.append(replace(part, logged=True, unpaired=unpaired, quantity=quantity))
        worse = any(_lost(seen, 1) > _lost(seen, -1) for seen in self.setting)
        if worse and verdict.word not in rules.DECIDED and verdict.reason != rules.NOT_RUN:
            words = rules.verdict(rules.UNDECIDED, rules.DIVERGED, rules.AS_LOGGED, "")
            verdict = replace(verdict, word=rules.UNDECIDED, reason=rules.DIVERGED, verdict=words)
        compared = dict.fromkeys(text for seen in self.setting for text in seen.compared)
        compared |= {f"{n} runs of the control {name} are left out": None for name, n in self.left_out.items()}
        verdict = replace(verdict, parts=tuple(parts), diverged=worse, compared="; ".join(compared))
        return replace(verdict, answer=describe.evidence(verdict))


def _with_parts(seen: Sequence[Logged]) -> list[tuple[Part, Observed]]:
    return [(one.part, one) for one in seen]


def _lost(seen: Logged, sign: int) -> int:
    """How many of the runs on one side of the comparison diverged."""
    return sum(lost for lost, (weight, _) in zip(seen.lost, seen.part.contrast, strict=False) if weight * sign > 0)
