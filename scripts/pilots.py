"""How many seeds claims need, by their pilot runs: python scripts/pilots.py ARTIFACT [...] [--results DIR]

Of each part that a t test decides: its effect over the runs of the control `pilot` with the standard deviation of one
seed, its margin, and two numbers of seeds for 80 % power. `if alike` shows that there is no difference beyond the
margin where there is none; of a direction, whose margin is its smallest effect of interest, one as large as that.
`as in the pilots` shows an effect as large as theirs, or that it lies beyond the margin. The share of the variance that
test examples have stays at any number of seeds: `-` is out of reach. In the place of an arm without pilot runs stands
one with some (in brackets): how far seeds differ is all that is asked of it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from normbench.papers import artifact as artifacts
from normbench.papers import per_example_effects
from normbench.papers.artifact import Plan
from normbench.papers.claims import Part
from normbench.papers.parts import Observed, gather
from normbench.papers.rules_file import ALPHA, POWER
from normbench.runs import root
from normbench.runs.run import FINISHED
from normbench.runs.table import Runs
from normbench.stats.statistics import seeds_needed

CONTROL = "pilot"


def among(part: Part, arms: Sequence[str]) -> Part:
    """The part with arms that have pilot runs in the place of those that have none."""
    used = [cell["arm"] for _, cell in part.contrast]
    spare = (arm for arm in arms if arm not in used)
    cells = [
        (weight, cell if cell["arm"] in arms else {**cell, "arm": next(spare, "")}) for weight, cell in part.contrast
    ]
    return replace(part, contrast=tuple(cells))


def needed(observed: Observed, margin: float) -> tuple[int | None, int | None]:
    """Seeds for 80 % power: if alike, and as in the pilots."""
    part, mean, alone = observed.part, observed.mean, statistics.stdev(observed.numbers)
    assert mean is not None and observed.sd is not None
    fixed = max(0.0, observed.sd**2 - alone**2) / observed.n  # by the choice of the test examples
    if part.kind == "direction":
        return seeds_needed(margin, alone, 1 - ALPHA, fixed=fixed), seeds_needed(mean, alone, 1 - ALPHA, fixed=fixed)
    power = (1 + POWER) / 2 if part.kind == "equivalence" else POWER  # both of its tests have to show it
    worse = -mean if part.endpoint.better == "higher" else mean
    beyond = (abs(mean) if part.kind == "equivalence" else worse) - margin
    return (
        seeds_needed(margin, alone, 1 - 2 * ALPHA, power, fixed=fixed),
        seeds_needed(beyond, alone, 1 - ALPHA, fixed=fixed) if beyond > 0 else None,
    )


def rows(plan: Plan, results: Runs) -> Iterator[list[str]]:
    """Claim, part, n, mean, standard deviation, margin, and the numbers of seeds."""
    heads = [run for run in results.heads if run.control == CONTROL and run.status in FINISHED and plan.has(run)]
    # as if they were runs of the paper's setting, which claims are about
    runs = [replace(run, control="") for run in results.load([run.id for run in heads]).values()]
    arms = list(dict.fromkeys(run.arm for run in runs))
    for claim in plan.artifact.claims:
        for planned in (part for part in claim.parts if part.kind in ("direction", "no_worse", "equivalence")):
            part = among(planned, arms)
            margin = part.within or plan.smallest_effect(planned)
            examples = per_example_effects.collect(
                replace(plan.artifact, claims=(replace(claim, parts=(part,)),)), runs, [results.results],
                per_example_effects.Contrasts({}),
            )  # fmt: skip
            seeds = gather(part, runs).seeds
            observed = gather(part, runs, spread=examples.spread(part, "", seeds))
            if part.test == "sign" or margin is None or observed.mean is None or observed.n < 2:
                continue
            stand_in = "" if part == planned else f" ({' - '.join(cell['arm'] for _, cell in part.contrast)})"
            counts = ["-" if n is None else str(n) for n in needed(observed, margin)]
            numbers = [f"{number:.3g}" for number in (observed.mean, observed.sd or 0.0, margin)]
            yield [claim.id, planned.id + stand_in, str(observed.n), *numbers, *counts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", nargs="+", metavar="ARTIFACT")
    parser.add_argument("--fidelity", default="proxy")
    parser.add_argument("--results", help="the folder of the runs (default: NORMBENCH_RESULTS, else results)")
    given = parser.parse_args()
    print("| claim | part | n | mean | sd | margin | if alike | as in the pilots |\n" + "| - " * 8 + "|")
    results = Runs(root(given.results))
    for name in artifacts.select(given.artifacts):
        for row in rows(Plan(artifacts.load(name), given.fidelity), results):
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
