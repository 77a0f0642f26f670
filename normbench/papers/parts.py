"""One part of a claim against the runs: each seed's effect, and the intervals that the rules ask for.

Effects are paired by seed, Σ weight · g(endpoint). Student's t over the seeds, or over seeds and test examples where
the runs stored the outcome of each example. A run that diverged or did not reach a level has no number: it ranks below
every number, or below those up to its last evaluation, and the exact sign test uses these ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from normbench.papers import rules
from normbench.papers.claims import Looks, Part, compared, format_cell
from normbench.papers.endpoints import Outcome, bounds_of, levelled, outcome_of, paired_runs, sides_of
from normbench.papers.rules_file import ALPHA, FEWEST, POWER
from normbench.runs.run import Run
from normbench.stats.effects import Bounds, Effects
from normbench.stats.examples import Spread
from normbench.stats.looks import level_at
from normbench.stats.statistics import Interval, correlation, detectable_effect, sign_test, signed_rank, within


@dataclass(frozen=True, kw_only=True)
class Observed(Effects):
    """What the runs show of one part at one setting, for `rules` and for pages.

    `gap` is "not run" or "not decidable here" where there are no observations; `complete`: all planned seeds are there;
    `looks`: at other numbers of seeds there is no word; `fresh`: the seeds had not been seen when the smallest effect
    was declared; unless this is true, and every seed has a number, nothing is negligible.
    """

    part: Part
    gap: str = ""
    why: str = ""  # of the gap, a key of `describe.WHY`
    about: tuple[str, ...] = ()  # the cells, runs or numbers that `why` speaks of
    complete: bool = False
    looks: Looks | None = None
    fresh: bool = True
    delta: float | None = None
    exact: bool | None = None
    number: float | None = None  # of an exact part
    censored: int = 0
    early: int = 0  # of these the runs that end before the number that they are compared with
    diverged: int = 0
    seeds: tuple[int, ...] = ()
    least: int = 0
    cells: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def effect(self) -> float | None:
        """Mean, or median where the sign test decides; None where a seed without a number leaves it open."""
        if self.number is not None:
            return self.number
        return self.median if self.part.test == "sign" else self.mean

    @property
    def look(self) -> int:
        """Which of the planned looks this is, 0 for none of them; 1 where none are planned."""
        if self.looks is None:
            return 1
        return self.looks.at.index(self.n) + 1 if self.n == self.most and self.n in self.looks.at else 0

    def at_look(self, alpha: float) -> float:
        """The level of its tests at this look, where those at all planned looks have `alpha`; 0 at no planned look."""
        if self.looks is None:
            return alpha
        return level_at(self.n, self.looks.at, alpha, self.looks.spending) if self.look else 0.0

    def interval(self, level: float) -> Interval | None:
        """Two-sided, of the mean effect, or of its median where the sign test decides."""
        return self.median_interval(level) if self.part.test == "sign" else self.mean_interval(level)


def gather(
    part: Part,
    runs: Sequence[Run],
    seeds: Sequence[int] | None = None,
    least: int = FEWEST,
    delta: float | None = None,
    looks: Looks | None = None,
    fresh: bool = True,
    spread: Spread | None = None,
    in_pairs: bool = True,
) -> Observed:
    """One part against the runs of one control setting.

    Only `seeds` count (None: any), and of them those with a run in every cell; `least` of them make it complete. Not
    `in_pairs`: all runs of two cells count, each cell by itself. Raises NormbenchError when a cell has two runs of one
    seed.
    """
    if part.kind == "exact":
        return _gather_exact(part, runs)
    counted = runs if seeds is None else [run for run in runs if run.seed in seeds]
    cells, shared = paired_runs(part, counted)
    runs_by_cell = [[cell[seed] for seed in (shared if in_pairs else sorted(cell))] for cell in cells]
    smallest = min(runs_by_cell, key=len)
    observed = Observed(
        part=part,
        delta=delta,
        looks=looks,
        fresh=fresh,
        seeds=tuple(run.seed for run in smallest),
        least=least,
        runs=tuple(dict.fromkeys(run.id for of_cell in runs_by_cell for run in of_cell)),
    )
    places = [cell for _, cell in part.contrast]
    if empty := [format_cell(place) for place, cell in zip(places, cells, strict=True) if not cell]:
        why = "no runs" if seeds is None or len(counted) == len(runs) else "no planned runs"
        return replace(observed, gap=rules.NOT_RUN, why=why, about=tuple(empty))
    variants = [place.get("variant", part.endpoint.variant) for place in places]
    endpoints = [part.endpoint] * max(map(len, runs_by_cell))
    if in_pairs:  # a relative level is that of the runs of one seed
        for index, row in enumerate(zip(*runs_by_cell, strict=True)):
            endpoint = levelled(part.endpoint, [*zip(places, row, variants, strict=True)])
            if endpoint is None:
                about = f"{shared[index]}", f"{part.endpoint.needed_progress:g}"
                return replace(observed, gap=rules.NOT_DECIDABLE, why="hardly begun", about=about)
            endpoints[index] = endpoint
    outcomes: list[list[Outcome]] = []  # by cell
    lacking = set()
    for of_cell, variant in zip(runs_by_cell, variants, strict=True):
        outcomes.append([])
        for run, endpoint in zip(of_cell, endpoints, strict=False):
            outcome = outcome_of(endpoint, run, variant)
            if outcome is None:
                lacking.add(run.id)
            elif outcome.diverged and part.than is not None:  # what diverged reaches no number, not for a while either
                outcomes[-1].append(replace(outcome, value=None))
            else:
                outcomes[-1].append(outcome)
    if lacking:
        return replace(observed, gap=rules.NOT_DECIDABLE, why="no record", about=tuple(sorted(lacking)))
    every = [*chain.from_iterable(outcomes)]
    censored = sum(outcome.value is None for outcome in every) if part.endpoint.kind == "time_to_level" else 0
    early = [outcome.value is None and not outcome.diverged and outcome.after < (part.than or 0) for outcome in every]
    observed = (
        _with_pairs(observed, outcomes, spread) if in_pairs else replace(observed, groups=_groups(part, outcomes))
    )
    if not observed.look and looks:
        counts = " against ".join(map(str, dict.fromkeys(map(len, observed.bounds))))
        observed = replace(observed, why="no planned look", about=(counts, ", ".join(map(str, looks.at))))
    return replace(
        observed,
        complete=len(smallest) >= max(least, FEWEST) and observed.look > 0,
        delta=None if censored else delta,  # an unobserved time cannot show that the effect is small
        censored=censored,
        early=sum(early),
        diverged=sum(outcome.diverged for outcome in every),
        cells=tuple(
            {"cell": dict(cell), "weight": weight, "values": [*map(str, of_cell)]}
            for (weight, cell), of_cell in zip(part.contrast, outcomes, strict=True)
        ),
    )


def _with_pairs(observed: Observed, outcomes: Sequence[Sequence[Outcome]], spread: Spread | None) -> Observed:
    """The effect of each seed, its two sides, and the spread over test examples where every seed has a number."""
    numbers = [] if observed.part.than is None else [[Outcome(observed.part.than)] * len(outcomes[0])]
    rows = [*zip(*outcomes, *numbers, strict=True)]
    sides = tuple(side for row in rows if (side := sides_of(observed.part, row)) is not None)
    pairs = tuple(bounds_of(observed.part, row) for row in rows)
    return replace(observed, pairs=pairs, sides=sides, spread=spread if len(sides) == len(rows) else None)


def _groups(part: Part, outcomes: Sequence[Sequence[Outcome]]) -> tuple[tuple[Bounds, ...], ...]:
    """The numbers of the cell that counts as it is, then those of the cell that is subtracted from it."""
    groups = []
    for (weight, cell), of_cell in zip(part.contrast, outcomes, strict=True):
        alone = replace(part, contrast=((1, cell),))
        groups.append((weight, tuple(bounds_of(alone, [outcome]) for outcome in of_cell)))
    return tuple(group for _, group in sorted(groups, key=lambda group: -group[0]))


def _gather_exact(part: Part, runs: Sequence[Run]) -> Observed:
    """Computed numbers have no seeds and no interval: every run of the cell has to meet the bound."""
    cell = part.contrast[0][1]
    counted = sorted((run for run in runs if run.matches(cell)), key=lambda run: run.id)
    ids = tuple(run.id for run in counted)
    if not counted:
        return Observed(part=part, gap=rules.NOT_RUN, why="no runs", about=(format_cell(cell),))
    numbers = []
    for run in counted:
        values = [float(record[part.endpoint.key]) for record in run.records if part.endpoint.key in record]
        if len(values) != 1:
            return Observed(part=part, gap=rules.NOT_DECIDABLE, why="no record", about=(run.id,), runs=ids)
        numbers += values
    worst = max(numbers, key=lambda number: _miss(part, number))
    return Observed(part=part, complete=True, exact=_miss(part, worst) <= 0, number=worst, runs=ids)


def _miss(part: Part, number: float) -> float:
    """By how much a computed number misses what is required of it, 0 or less where it does not."""
    misses = [abs(number - part.value)] if part.value is not None else []
    misses += [number - part.at_most] if part.at_most is not None else []
    misses += [part.at_least - number] if part.at_least is not None else []
    return math.inf if math.isnan(number) else max(misses)


@dataclass(frozen=True)
class PartResult:
    """A part of a claim in verdicts.json: one comparison with its effect, or a computed number."""

    id: str
    kind: str
    test: str  # "" of a computed number
    endpoint: str
    unit: str
    sides: tuple[str, ...]  # the names of what is compared, if it is a pair or a single cell
    quantity: str
    place: str
    scale: str
    better: str  # lower or higher, "" where neither is
    clock: str
    word: str
    why: str  # what keeps it from a word, a key of `describe.WHY`
    about: tuple[str, ...]  # what that speaks of
    effect: float | None
    interval: Interval | None
    level: float | None
    n: int  # seeds; runs of a computed number
    planned: int | None  # seeds
    sd: float | None  # of one seed's effect, with that of the test examples if they were kept
    correlation: float | None  # between the two sides, over the seeds
    prediction: Interval | None  # of one more run
    expect: str | None
    required: Mapping[str, float | None] | None  # the bounds of a computed number
    paper: float | None
    within: float | None
    band: float | None
    delta: float | None
    tost: Interval | None  # 90 %
    detectable: float | None  # the effect that so many seeds show with 80 % power
    sign_test: Mapping[str, float] | None
    signed_rank: float | None  # p of Wilcoxon's test, which decides nothing
    censored: int  # runs that did not reach the level
    diverged: int  # runs
    examples: int  # of the test set, where their results were kept
    seeds: tuple[int, ...]
    cells: tuple[Mapping[str, Any], ...]  # each with its weight and the value of each run
    runs: tuple[str, ...]
    logged: bool | None = None  # of logged runs
    unpaired: tuple[int, ...] | None = None  # of logged runs that form no pairs: how many each side has
    than: float | None = None  # the number in the place of a second side


def result(observed: Observed, word: str, alpha: float = ALPHA, names: Mapping[str, str] | None = None) -> PartResult:
    """The entry of a part in verdicts.json: its `word` by tests at `alpha`, over all looks, and the numbers behind it.

    names: what sentences call arms, variants and values of axes.
    """
    part, alpha = observed.part, observed.at_look(alpha)
    above, below = observed.signs
    ahead = max(above, below, (len(observed.pairs) + 1) // 2)  # what is on neither side speaks for none
    why = _why(observed, word, alpha)
    by_order = observed.pairs and (part.test == "sign" or not observed.whole)
    plus, minus = ([side[place] for side in observed.sides] for place in (0, 1))
    statistical = part.kind != "exact"
    return PartResult(
        id=part.id,
        kind=part.kind,
        test=part.test if statistical else "",
        endpoint=str(part.endpoint),
        unit=part.unit,
        **compared(part, names or {}),
        word=rules.split(word)[0],
        why=why,
        about=(str(rules.fewest_pairs(alpha)),) if why == "few seeds" else observed.about,
        effect=observed.effect,
        interval=_finite(observed.interval(1 - alpha)),
        level=1 - alpha if statistical and alpha else None,
        n=len(observed.runs) if not statistical else len(observed.seeds),
        planned=observed.least if statistical else None,
        sd=observed.sd,
        correlation=correlation(plus, minus) if any(minus) else None,
        prediction=_finite(observed.prediction(1 - alpha)),
        expect=part.expect,
        required=None if statistical else {"value": part.value, "at_most": part.at_most, "at_least": part.at_least},
        paper=part.paper,
        within=part.within,
        band=part.band,
        delta=observed.delta,
        tost=_finite(observed.interval(1 - 2 * alpha)) if _margin(observed) else None,
        detectable=None
        if not word or observed.sd is None or 1 - alpha == 1  # what no claim decides is shown without its power
        else detectable_effect(observed.sd, len(observed.seeds), 1 - alpha, POWER),
        sign_test={"above": above, "below": below, "p": sign_test(ahead, len(observed.pairs) - ahead)}
        if by_order
        else None,
        signed_rank=_signed_rank(observed) if observed.numbers and observed.whole and part.kind != "size" else None,
        censored=observed.censored,
        diverged=observed.diverged,
        examples=observed.spread.examples if observed.spread else 0,
        seeds=tuple(observed.seeds),
        cells=tuple(observed.cells),
        runs=observed.runs,
        than=part.than,
    )


def _why(observed: Observed, word: str, alpha: float) -> str:
    """What keeps a part from a word, a key of `describe.WHY`; "" where the width of its interval does."""
    part = observed.part
    if observed.why or part.kind == "exact":
        return observed.why
    if not observed.complete:
        return "incomplete"
    if observed.flat:
        return "alike"
    if part.test == "t" and not observed.whole:
        return "no mean"
    if part.kind == "equivalence" or (part.kind == "direction" and word != rules.HOLDS):
        inside = within(observed.interval(1 - 2 * alpha), _margin(observed))
        if inside and part.kind == "direction" and not (observed.fresh and observed.whole):
            return "censored" if observed.fresh else "seen seeds"
    if word != rules.UNDECIDED or part.test != "sign":
        return ""
    if len(observed.seeds) < rules.fewest_pairs(alpha):
        return "few seeds"
    return "ended early" if observed.early else ""


def _signed_rank(observed: Observed) -> float:
    """Effects that are equal up to rounding share their rank."""
    largest = max(abs(number) for numbers in (observed.numbers, *observed.sides) for number in numbers)
    return signed_rank([round(1e9 * (effect / largest)) for effect in observed.numbers] if largest else [])


def _margin(observed: Observed) -> float | None:
    return observed.delta if observed.part.within is None else observed.part.within


def _finite(interval: Interval | None) -> Interval | None:
    """None where an end is open, as where a level was not reached."""
    return interval if interval and all(map(math.isfinite, interval)) else None
