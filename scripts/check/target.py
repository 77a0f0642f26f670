"""How often an arm against a number gets a false word: python scripts/check/target.py --output results/check/target.md

The truth is the number itself: the mean of the runs, by Student's t, or the median of their times, by the sign test. So
each word is false, and the level is 2.5 % a side. Losses are normal, or exponential: with a long tail of bad runs.
Times are lognormal; runs are logged until they reach their level, or up to the number: half of them never reach it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from normbench.papers import rules
from normbench.papers.claims import Part, built
from normbench.papers.endpoints import Outcome, bounds_of
from normbench.papers.parts import Observed
from normbench.runs.files import atomic_write

SEEDS = (5, 8, 10)
NUMBER = 3.0
FINAL: dict[str, Any] = {"endpoint": {"kind": "final", "split": "valid", "metric": "loss", "better": "lower"}}
TIME: dict[str, Any] = {
    "endpoint": FINAL["endpoint"] | {"kind": "time_to_level", "level": 1.0, "clock": "step"}, "test": "sign",
}  # fmt: skip


def part_of(keys: dict[str, Any]) -> Part:
    part = {"id": "p", "contrast": [[1, {"arm": "a"}]], "than": NUMBER, "scale": "linear", "unit": "nats", **keys}
    entry = {"id": "C1", "kind": "direction", "statement": "s", "parts": [part | {"expect": "negative"}]}
    return built({"claims": [entry]}, Path("target.yaml")).claims[0].parts[0]


def _exact(value: float) -> Outcome:
    return Outcome(value)


def _censored(value: float) -> Outcome:
    return Outcome(value) if value < NUMBER else Outcome(None, after=NUMBER)


CASES: dict[str, tuple[Part, Callable[[np.random.Generator, Any], Any], Callable[[float], Outcome]]] = {
    # what: the part, the runs' numbers, what is logged of each
    "mean, normal losses": (part_of(FINAL), lambda rng, size: NUMBER + 0.01 * rng.normal(size=size), _exact),
    "mean, exponential losses": (
        part_of(FINAL), lambda rng, size: NUMBER + 0.01 * (rng.exponential(size=size) - 1), _exact,
    ),
    "median time, all reach the level": (part_of(TIME), lambda rng, size: NUMBER * rng.lognormal(size=size), _exact),
    "median time, half never reach the level": (
        part_of(TIME), lambda rng, size: NUMBER * rng.lognormal(size=size), _censored,
    ),
}  # fmt: skip

PAGE = """# False words of an arm against a number

The number is the truth, so each word is false: of {times:,} simulated arms a line. The level is 2.5 % a side.

| what is compared | seeds | below the number | above it |
| - | - | - | - |
{lines}
Where losses have a long tail of bad runs, few seeds show it, and their mean is called below the number too often; more
seeds help slowly. The median (`test: sign`) keeps the level whatever the losses are; of 5 seeds it has no word.

Command: `python scripts/check/target.py --times {times} --output results/check/target.md`
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=20_000)
    parser.add_argument("--output", type=Path, help="a page of the shares")
    given = parser.parse_args()
    lines = []
    for what, (part, draw, outcome_of) in CASES.items():
        for n in SEEDS:
            rng = np.random.default_rng([n, *what.encode()])
            words: Counter[str] = Counter()
            for values in draw(rng, (given.times, n)).tolist():
                pairs = tuple(bounds_of(part, [outcome_of(value), Outcome(NUMBER)]) for value in values)
                words[rules.part_word(Observed(part=part, pairs=pairs, complete=True))] += 1
            below, above = (
                f"{words[word] / given.times:.1%}".replace("%", " %") for word in (rules.HOLDS, rules.FAILS)
            )
            lines.append(f"| {what} | {n} | {below} | {above} |\n")
            print(lines[-1], end="", flush=True)
    if given.output:
        atomic_write(given.output, PAGE.format(lines="".join(lines), times=given.times).encode())


if __name__ == "__main__":
    main()
