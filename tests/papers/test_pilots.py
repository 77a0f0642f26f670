"""scripts/pilots.py: the numbers of seeds that pilot runs ask for, against trials with so many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scripted
from judged import LN, Plan, arms, artifact, direction

from normbench.papers import rules
from normbench.papers.claims import Part
from normbench.papers.parts import Observed
from normbench.runs.run import Run

pilots = scripted.load("pilots")
EQUAL = {"kind": "equivalence", "expect": None, "within": 1.0}
NO_WORSE = EQUAL | {"kind": "no_worse"}


def share(compared: Part, mean: float, n: int, word: str) -> float:
    """Of 1000 trials of n seeds with a standard deviation of 1."""
    drawn = np.random.default_rng(n).normal(mean, 1.0, (1000, n))
    observed = [Observed(part=compared, complete=True, pairs=tuple((x, x) for x in row)) for row in drawn.tolist()]
    return float(np.mean([rules.part_word(of_trial) == word for of_trial in observed]))


@pytest.mark.parametrize(
    ("compared", "mean", "place", "word"),
    [
        (direction(expect="positive"), 1.0, 0, rules.HOLDS),  # an effect as large as the smallest one, which is 1
        (direction(expect="positive"), 1.5, 1, rules.HOLDS),
        (direction(**EQUAL), 0.0, 0, rules.HOLDS),
        (direction(**EQUAL), 2.0, 1, rules.FAILS),
        (direction(**NO_WORSE), 0.0, 0, rules.HOLDS),
        (direction(**NO_WORSE), 2.0, 1, rules.FAILS),
    ],
)
def test_with_so_many_seeds_four_trials_of_five_decide(compared: Part, mean: float, place: int, word: str) -> None:
    unit = (np.array(range(5)) - 2) / np.std(range(5), ddof=1)  # of standard deviation 1
    seen = Observed(part=compared, pairs=tuple((mean + x, mean + x) for x in unit.tolist()))
    n = pilots.needed(seen, 1.0)[place]
    assert share(compared, mean, n, word) > 0.77 and share(compared, mean, n - 2, word) < 0.8


def test_what_lies_within_the_margin_is_beyond_it_at_no_number_of_seeds() -> None:
    seen = Observed(part=direction(**NO_WORSE), pairs=((-3.0, -3.0), (-2.0, -2.0), (-4.0, -4.0)))
    assert pilots.needed(seen, 1.0)[1] is None


class Stored:
    """Runs in a folder without outcomes of examples."""

    results = Path("/nowhere")

    def __init__(self, runs: Sequence[Run]) -> None:
        self.heads = runs

    def load(self, ids: Sequence[str]) -> dict[str, Run]:
        return {run.id: run for run in self.heads if run.id in ids}


def rows(claims: Any, runs: Sequence[Run]) -> list[list[str]]:
    plan = Plan(own=8, delta=0.5)
    has = SimpleNamespace(artifact=claims, has=lambda run: True, smallest_effect=plan.smallest_effect)
    return list(pilots.rows(has, Stored(runs)))


def test_pilots_alone_count_and_stand_in_for_an_arm_without_any() -> None:
    other = direction(name="another arm", contrast=((1, LN), (-1, {"arm": "rms"})))
    signs = direction(name="signs", test="sign")
    claims = artifact(direction(), other, signs)
    first, second = rows(claims, [*arms(-2.0, control="pilot"), *arms(5.0)])
    assert first[:3] == ["C1", "p", "5"] and float(first[3]) == pytest.approx(-2, abs=0.1)
    assert second[1] == "another arm (ln - bn)" and second[2:] == first[2:]
    assert not rows(claims, arms(5.0)), "there is no pilot"


def test_an_arm_with_pilots_keeps_its_place() -> None:
    swapped = pilots.among(direction(contrast=((1, {"arm": "rms"}), (-1, LN))), ["ln", "bn"])
    assert swapped.contrast == ((1, {"arm": "bn"}), (-1, LN))
