"""The power of a plan before its runs: the words of its claims, simulated from the existing seeds, and its cost.

The effects of further seeds are drawn from Student's predictive distribution given the pilot seeds: normal, with the
pilot's mean and covariance over the parts and their uncertainty. The rules judge them like runs. The choice of the test
examples is not simulated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from normbench.papers import rules
from normbench.papers.artifact import Plan
from normbench.papers.claims import Claim
from normbench.papers.parts import Observed, gather
from normbench.papers.suggested_runs import core_hours, lacking
from normbench.runs.record import RunRecord
from normbench.streams import stream

REPETITIONS = 400
FEWEST_PILOTS = 3


@dataclass(frozen=True)
class Outlook:
    """Of one claim: the planned n of its parts, missing runs, and shares of simulated words at the paper's setting.

    `words` are those from the pilot's mean, None without enough pilot seeds; `none` the share that is negligible where
    there is no effect at all, None where no part has a smallest effect.
    """

    claim: str
    planned: tuple[int, ...]
    runs: int
    hours: float | None
    pilots: int
    words: Mapping[str, float] | None = None
    none: float | None = None


def outlook(
    claims: Sequence[Claim], runs: Sequence[RunRecord], plan: Plan, fidelity: str, controls: bool = False
) -> list[Outlook]:
    """One for every statistical claim that lacks runs; `runs` are all that are there, the pilots among them."""
    statistical = [c for c in claims if c.kind != "exact" and c.parts and fidelity not in c.not_decidable]
    return [found for claim in statistical if (found := _outlook(claim, runs, plan, fidelity, controls)).runs]


def _outlook(claim: Claim, runs: Sequence[RunRecord], plan: Plan, fidelity: str, controls: bool) -> Outlook:
    planned = tuple(len(plan.seeds(part, "", claim.alone(fidelity))) for part in claim.parts)
    left = lacking(claim, ["", *claim.controls] if controls else [""], runs, plan, fidelity)
    if not left:  # its verdict is there
        return Outlook(claim.id, planned, 0, None, 0)
    pilots = [gather(part, [run for run in runs if not run.control]) for part in claim.parts]
    shared = sorted(set.intersection(*(set(seen.seeds) for seen in pilots)))
    costs = Outlook(claim.id, planned, len(left), core_hours(left, runs), len(shared))
    if len(shared) < FEWEST_PILOTS or any(not seen.whole and (seen.gap or seen.part.test != "sign") for seen in pilots):
        return costs
    table = np.array([[_number(seen, seed) for seen in pilots] for seed in shared])
    alpha = rules.ALPHA / (2 if claim.added else 1)
    deltas = [
        plan.smallest_effect(part) if seen.whole else None for part, seen in zip(claim.parts, pilots, strict=True)
    ]
    words = simulate(claim, table, planned, deltas, alpha)
    none = simulate(claim, table - table.mean(axis=0), planned, deltas, alpha, certain=True)
    small = any(delta is not None for delta in deltas) and not claim.added
    return replace(costs, words=words, none=none.get(rules.NEGLIGIBLE, 0.0) if small else None)


def _number(seen: Observed, seed: int) -> float:
    """A pilot's effect; where a run has no number, its sign, which is all that a sign test uses."""
    place = seen.seeds.index(seed)
    low, high = seen.effects[place]
    return low if seen.whole else (1 + place) * (float(low > 0) - float(high < 0))  # equal sizes would decide nothing


def simulate(
    claim: Claim,
    pilot: np.ndarray,
    planned: Sequence[int],
    deltas: Sequence[float | None],
    alpha: float = rules.ALPHA,
    certain: bool = False,
    repetitions: int = REPETITIONS,
) -> dict[str, float]:
    """Shares of the claim's words; `pilot` is seeds × parts.

    `certain`: the pilot's mean and spread are the truth, of a sign test's part a median of 0.
    """
    draw = stream(0, "power", claim.id)
    seeds = len(pilot)
    mean = pilot.mean(axis=0)
    directions = (pilot - mean) / math.sqrt(seeds - 1)  # g @ directions has the pilot's covariance, singular or not
    signed = [place for place, part in enumerate(claim.parts) if part.test == "sign"]
    signs = {place: np.array([(pilot[:, place] > 0).sum(), (pilot[:, place] <= 0).sum()]) for place in signed}
    counts: Counter[str] = Counter()
    for _ in range(repetitions):
        scale = 1.0 if certain else math.sqrt((seeds - 1) / draw.chisquare(seeds - 1))
        spread = scale * directions
        centre = mean if certain else mean + draw.standard_normal(seeds) @ spread / math.sqrt(seeds)
        effects_of_parts = centre + draw.standard_normal((max(planned), seeds)) @ spread
        for place in signed:  # by sign alone, as the test: a normal tail is not that of such effects
            above = 0.5 if certain else draw.beta(*(signs[place] + 0.5))
            sizes = draw.choice(np.abs(pilot[:, place]), len(effects_of_parts))
            effects_of_parts[:, place] = np.where(draw.random(len(effects_of_parts)) < above, sizes, -sizes)
        judged = []
        for place, (part, n, delta) in enumerate(zip(claim.parts, planned, deltas, strict=True)):
            effects = tuple((effect, effect) for effect in effects_of_parts[:n, place].tolist())
            judged.append((part, Observed(part, complete=n >= rules.FEWEST, delta=delta, effects=effects)))
        counts[rules.claim_word(judged, alpha)] += 1
    return {word: count / repetitions for word, count in counts.items()}
