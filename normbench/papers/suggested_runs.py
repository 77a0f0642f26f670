"""The runs that would decide an open claim: the command that trains them, and their cost; `describe` says so.

Missing planned runs come first. Where all are there, the number of fresh seeds that would show effects as large as the
observed ones, on either side: those have to be planned in the claim before they are run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from normbench.papers import rules
from normbench.papers.artifact import Plan
from normbench.papers.claims import Claim, Part, place_of
from normbench.papers.decide import Suggestion, Verdict
from normbench.papers.parts import PartResult
from normbench.papers.rules_file import ALPHA, POWER
from normbench.runs.run import Run
from normbench.stats.statistics import seeds_needed, signs_needed, t_quantile, within

MOST = 1000  # seeds that are within reach

NOTHING = Suggestion(runs=None, hours=None, seeds=None, under=(), command="", kind="")
Place = tuple[tuple[str, Any], ...]  # arm and axes


def suggested_runs(claim: Claim, judged: Verdict, runs: Sequence[Run], plan: Plan) -> Suggestion | None:
    """None where nothing is open, else by `kind`: planned runs are `missing`; fresh `seeds` have to be planned; or why
    no seeds help: a `control` is not planned, `single runs` spread, there is `no mean`, an effect is `out of reach`.
    """
    fidelity = plan.fidelity
    if fidelity == "smoke" or fidelity in claim.not_decidable or not claim.parts or claim.kind == "exact":
        return None
    word, robust = judged.word, judged.robustness
    if fidelity != "paper" and judged.reason == rules.NOT_DECIDABLE:  # as a size is there
        return None
    if word in rules.DECIDED and robust in ("", rules.NOTHING_OPEN, rules.AGREE, rules.DEPEND):
        return None
    until = None  # the seeds of the next look, or of this one where it decides
    if claim.looks:
        number = max(judged.look, 1) if word in rules.DECIDED else min(judged.look + 1, len(claim.looks.at))
        until = claim.looks.at[number - 1]
    if first := _lacking(claim, [""], runs, plan, until):
        return _missing(claim, first, runs, plan, until)
    if word not in rules.DECIDED:
        return suggested_seeds(claim, judged.parts, runs, rules.HOLDS, judged.alpha)
    if controls := _lacking(claim, claim.controls, runs, plan, until):
        return _missing(claim, controls, runs, plan, until)
    undecided = [control for control in judged.controls if control.word == rules.UNDECIDED]
    if not undecided and claim.unvaried:
        return replace(NOTHING, kind="control", under=claim.unvaried)
    parts = [part for control in undecided for part in control.parts]
    return suggested_seeds(claim, parts, runs, word, judged.alpha, [control.name for control in undecided])


def _lacking(
    claim: Claim, controls: Sequence[str], runs: Sequence[Run], plan: Plan, until: int | None
) -> set[tuple[Place, str, int]]:
    """Place, control and seed of the claim's planned runs under these settings that are not among `runs`; of the first
    `until` seeds."""
    lacking = set()
    for control in controls:
        group = [run for run in runs if run.control == control]
        for part in claim.parts:
            planned = plan.seeds(part, control, claim.alone(plan.fidelity, control))[:until]
            for place in _places(part):
                trained = {run.seed for run in group if run.matches(dict(place))}
                lacking |= {(place, control, seed) for seed in planned if seed not in trained}
    return lacking


def _places(part: Part) -> list[Place]:
    return [tuple(sorted(place_of(cell).items())) for _, cell in part.contrast]


def _missing(
    claim: Claim, lacking: set[tuple[Place, str, int]], runs: Sequence[Run], plan: Plan, until: int | None
) -> Suggestion:
    words = [f"{plan.artifact.command} --only {claim.id}"]
    words += ["--controls"] if any(control for _, control, _ in lacking) else []
    words += [f"--fidelity {plan.fidelity}"] if plan.fidelity != "paper" else []
    seeds = [seed for _, _, seed in lacking]
    words += [f"--seeds {min(seeds)}-{max(seeds)}"] if until else []
    hours = _hours([place for place, _, _ in lacking], runs)
    return replace(NOTHING, kind="missing", runs=len(lacking), hours=hours, seeds=until, command=" ".join(words))


def suggested_seeds(
    claim: Claim,
    parts: Sequence[PartResult],
    runs: Sequence[Run],
    word: str,
    alpha: float = ALPHA,
    under: Sequence[str] = (),
) -> Suggestion | None:
    """How many seeds would show what was seen, if it is what it looks like; `under`: the controls that are open."""
    open_parts = [part for part in parts if part.word != word and (part.effect is not None or part.sign_test)]
    if open_parts and all(part.kind == "size" for part in open_parts):
        return replace(NOTHING, kind="single runs")
    if any(part.effect is None and part.n and part.test == "t" for part in parts):
        return replace(NOTHING, kind="no mean", seeds=rules.fewest_pairs(ALPHA / max(1, len(claim.parts))))
    needed = [_seeds(part, alpha) for part in open_parts if part.kind != "size"]
    if not needed:
        return None
    if None in needed:
        return replace(NOTHING, kind="out of reach", under=tuple(under))
    most = max(n for n in needed if n is not None)
    places = [*dict.fromkeys(place for part in claim.parts for place in _places(part))]
    times = most * max(1, len(under))
    hours = _hours(places, runs, times)
    return replace(NOTHING, kind="seeds", seeds=most, runs=len(places) * times, hours=hours, under=tuple(under))


def _seeds(part: PartResult, alpha: float) -> int | None:
    """Of one part; None where more than MOST would be needed."""
    if part.test == "sign":
        counts = part.sign_test or {}
        share = max(counts["above"], counts["below"]) / part.n  # ties are on no side, as where it decides
        return signs_needed(share, alpha, limit=MOST) if share > 1 / 2 else None
    margin, small, sd = part.within or part.delta, part.tost, part.sd
    if not sd or part.prediction is None or part.effect is None:  # up to rounding all seeds alike
        return None
    if within(small, margin):  # small already, on seeds that had been seen
        return part.n
    alone = _of_seeds(part) if part.examples else sd
    fixed = max(0.0, sd**2 - alone**2) / part.n  # by the choice of the test examples
    if part.kind in ("equivalence", "no_worse"):
        worse = -part.effect if part.better == "higher" else part.effect
        room = (margin or 0.0) - (worse if part.kind == "no_worse" else abs(worse))
        return seeds_needed(room, alone, 1 - 2 * alpha, POWER, fixed=fixed) if room > 0 else None
    return seeds_needed(part.effect, alone, 1 - alpha, POWER, fixed=fixed)


def _of_seeds(part: PartResult) -> float:
    """The spread of single seeds, which the prediction interval is made of."""
    low, high = part.prediction or (0.0, 0.0)
    return (high - low) / 2 / t_quantile(part.n - 1, part.level or 1 - ALPHA) / math.sqrt(1 + 1 / part.n)


def _hours(places: Sequence[Place], runs: Sequence[Run], times: int = 1) -> float | None:
    """By the median of timed runs of the same arm and axes, else of the axes, else of all, in two digits; None without
    any."""
    timed, seconds = [run for run in runs if run.seconds], 0.0
    for place in places:
        axes = {key: value for key, value in place if key != "arm"}
        like = [run for run in timed if run.matches(axes)]
        same = [run for run in like if run.matches(dict(place))]
        if not (chosen := same or like or timed):
            return None
        seconds += times * statistics.median(run.seconds or 0.0 for run in chosen)
    return float(f"{seconds / 3600:.2g}")
