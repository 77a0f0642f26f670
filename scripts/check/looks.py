"""How often a word is false where looks were planned: python scripts/check/looks.py [--times 20000]

At null, over all looks at the same growing runs: paired t tests, Welch's of two groups, exact sign tests; `no_worse` of
an arm that is worse by the margin; a file of three claims. A test at a look is at the level of `normbench.stats.looks`,
as in `normbench judge --looks`. And what planned looks are there for: a look after every seed, each at 5 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from normbench.runs.files import atomic_write
from normbench.stats.looks import FOR_T, SPENDINGS, level_at

LOOKS = ((5, 10), (5, 10, 20), (6, 8, 10, 12), (8, 16))
LEVEL, MOST = 0.05, 0.053
EVERY_SEED = range(5, 21)


def paired(rng: np.random.Generator, times: int, looks: Sequence[int]) -> Any:
    """p by look and repetition, of pairs of equal seeds."""
    effects = rng.standard_normal((times, looks[-1]))
    return np.array([stats.ttest_1samp(effects[:, :n], 0, axis=1).pvalue for n in looks])


def groups(rng: np.random.Generator, times: int, looks: Sequence[int]) -> Any:
    """Of two groups that share no seed."""
    first, second = rng.standard_normal((2, times, looks[-1]))
    return np.array([
        stats.ttest_ind(first[:, :n], second[:, :n], axis=1, equal_var=False).pvalue for n in looks
    ])  # fmt: skip


def signs(rng: np.random.Generator, times: int, looks: Sequence[int]) -> Any:
    """Of the exact sign test of pairs with heavy tails."""
    above = rng.standard_cauchy((times, looks[-1])) > 0
    fewer = [np.minimum(above[:, :n].sum(1), n - above[:, :n].sum(1)) for n in looks]
    return np.array([np.minimum(1, 2 * stats.binom.cdf(k, n, 0.5)) for k, n in zip(fewer, looks, strict=True)])


def margin(rng: np.random.Generator, times: int, looks: Sequence[int]) -> Any:
    """Of pairs at the margin: by the one-sided test, which has the level of a two-sided one."""
    effects = rng.standard_normal((times, looks[-1]))
    return np.array([stats.ttest_1samp(effects[:, :n], 0, axis=1, alternative="less").pvalue for n in looks])


def three(rng: np.random.Generator, times: int, looks: Sequence[int]) -> Any:
    """The smallest of three claims, times 3: Holm's first step."""
    return 3 * np.minimum.reduce([paired(rng, times, looks) for _ in range(3)])


CASES: dict[str, tuple[Callable[..., Any], int]] = {  # how p comes about, of how many claims
    "paired t": (paired, 1),
    "Welch's t, two groups": (groups, 1),
    "exact sign test": (signs, 1),
    "`no_worse`, worse by the margin, holds": (margin, 1),
    "three claims, any false word": (three, 3),
}


def share(p: Any, looks: tuple[int, ...], spending: str, claims: int) -> float:
    """Of the repetitions in which a test rejects at one of the looks."""
    levels = np.array([claims * level_at(n, looks, LEVEL / claims, spending) for n in looks])
    return float((p <= levels[:, None]).any(axis=0).mean())


PAGE = """# False words at planned looks

No arm is better, unless the line says so. The share of {times} repetitions in which a claim has a false word at any of
the looks (`looks: [5, 10, 20]` in claims, `normbench judge --looks 5,10,20`). Above {most:.1f} % the script fails.

| test | looks at n = | spending | share |
| - | - | - | - |
{lines}
After every seed from {first} to {last}, each time at 5 %: {every:.1f} %. That is what looks outside of a plan do.
(17.8 % of the 2000 repetitions of [judge_null](judge_null.md).)

The level of each look for one claim, in %. {spent:g} % of the 5 % are spent: t tests of few seeds reject a little more
often than Gaussian ones of known spread, which the levels are exact for (Lan and DeMets 1983). A test at a look
compares its p with them, an interval has 100 % less them; the exact sign test, of few possible p, spends less.

| looks at n = | spending | levels |
| - | - | - |
{levels}
Command: `python scripts/check/looks.py --times {times} --output results/check/looks.md`
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=20_000)
    parser.add_argument("--output", type=Path, help="a page of the shares")
    given = parser.parse_args()
    lines, too_many = [], []
    for what, (p_of, claims) in CASES.items():
        for looks in LOOKS:
            p = p_of(np.random.default_rng([*looks, *what.encode()]), given.times, looks)
            for spending in SPENDINGS:
                false = share(p, looks, spending, claims)
                lines.append(f"| {what} | {', '.join(map(str, looks))} | {spending} | {100 * false:.2f} % |\n")
                if false > MOST:
                    too_many.append(lines[-1])
                print(lines[-1], end="", flush=True)
    every = float((paired(np.random.default_rng(1), given.times, EVERY_SEED) <= LEVEL).any(axis=0).mean())
    print(f"after every seed: {every:.2%}")
    levels = [
        f"| {', '.join(map(str, looks))} | {spending} | "
        f"{', '.join(f'{100 * level_at(n, looks, LEVEL, spending):.2g}' for n in looks)} |\n"
        for looks in LOOKS
        for spending in SPENDINGS
    ]
    if given.output:
        text = PAGE.format(
            times=given.times, most=100 * MOST, lines="".join(lines), levels="".join(levels), every=100 * every,
            first=EVERY_SEED[0], last=EVERY_SEED[-1], spent=100 * FOR_T,
        )  # fmt: skip
        atomic_write(given.output, text.encode())
    if too_many:
        raise SystemExit(f"more than {MOST:.1%} are false: {''.join(too_many)}")


if __name__ == "__main__":
    main()
