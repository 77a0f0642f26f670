"""Which intervals over several tasks cover: python scripts/check/tasks.py --output results/check/tasks.md

Simulated runs of an arm and of others in 2 to 12 tasks, 5 and 10 seeds each. In a task the arm is better by an effect,
in standard deviations between its seeds; the effects are the same in all tasks or come from a population. What has to
be covered: the probability that a run of the arm beats one of another arm, averaged over the simulated tasks or over
the population. All intervals are at 95 %. What covers less than 93 % somewhere is not offered by normbench.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from normbench.runs.files import atomic_write
from normbench.stats import tasks

Array = np.ndarray[Any, Any]
Ends = tuple[Array, Array]
TASKS, SEEDS, LEAST, RESAMPLES = (2, 4, 6, 8, 12), (5, 10), 0.93, 400
Z = 1.959964
EFFECTS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {  # by task and other arm
    "no effect": lambda rng, shape: np.zeros(shape),
    "1 in all tasks": lambda rng, shape: np.full(shape, 1.0),
    "2 in all tasks": lambda rng, shape: np.full(shape, 2.0),
    "normal, 0.5 ± 0.5": lambda rng, shape: rng.normal(0.5, 0.5, shape),
    "normal, 1 ± 3": lambda rng, shape: rng.normal(1, 3, shape),
    "4 in 85 % of tasks, −4 in the others": lambda rng, shape: np.where(rng.random(shape) < 0.85, 4.0, -4.0),
}
RUNS = {  # the spread of the others' runs, the correlation of runs with one seed, how often a run of the arm diverges
    "alike": (1.0, 0.0, 0.0),
    "correlated by seed": (1.0, 0.8, 0.0),
    "of unequal spread": (3.0, 0.0, 0.0),
    "a fifth diverged": (1.0, 0.0, 0.2),
}
PAIRS = [*itertools.combinations(range(4), 2)]
THESE, LIKE_THESE = "these tasks", "tasks like these"
OFFERED = {THESE: "Wilson, tasks × seeds", LIKE_THESE: "Gaffke"}


def simulated(
    rng: np.random.Generator, effects: Array, n: int, spread: float, correlation: float, diverged: float
) -> tuple[Array, Array]:
    """Runs of the arm (times, tasks, 1, seeds) and of the others (times, tasks, others, seeds); lower is better."""
    times, count, others = effects.shape
    seed = rng.normal(size=(times, count, 1, n)) * math.sqrt(correlation)
    first = rng.normal(size=(times, count, 1, n)) * math.sqrt(1 - correlation) + seed
    second = spread * (rng.normal(size=(times, count, others, n)) * math.sqrt(1 - correlation) + seed)
    return np.where(rng.random(first.shape) < diverged, np.inf, first), second + effects[..., None]


def truth(effects: Array, spread: float, diverged: float) -> Array:
    """The probability that a run of the arm is better, in each task, averaged over the others."""
    return np.mean((1 - diverged) * stats.norm.cdf(effects / math.hypot(1, spread)), axis=-1)


def intervals(rng: np.random.Generator, first: Array, second: Array) -> Iterator[tuple[str, str, Ends]]:
    """Of shares against one other arm: what it is an interval of, its name, the ends."""
    _, count, _, n = first.shape
    # (times, tasks, n, n); no two are equal
    better = (first[..., :, None] < second[..., None, :]).mean(2, dtype=np.float32)
    shares = better.mean((2, 3))
    mean = shares.mean(1)
    of_runs = [rng.multinomial(n, [1 / n] * n, (count, RESAMPLES)).astype(np.float32) / n for _ in range(2)]
    resampled = np.einsum("rtbj,tbj->rtb", of_runs[0] @ better, of_runs[1])
    of_tasks = rng.multinomial(count, [1 / count] * count, RESAMPLES) / count
    low, high = np.quantile(resampled.mean(1), [0.025, 0.975], axis=1)
    yield THESE, "bootstrap of seeds (rliable)", (low, high)
    yield LIKE_THESE, "bootstrap of seeds (rliable)", (low, high)
    low, high = np.quantile(np.einsum("rtb,bt->rb", resampled, of_tasks), [0.025, 0.975], axis=1)
    yield LIKE_THESE, "bootstrap of tasks and seeds", (low, high)
    spread = np.sqrt((better.mean(3).var(2, ddof=1) + better.mean(2).var(2, ddof=1)).sum(1) / n) / count
    yield THESE, "normal, spread as DeLong", (mean - Z * spread, mean + Z * spread)
    half = stats.t.ppf(0.975, count - 1) * shares.std(1, ddof=1) / math.sqrt(count)
    yield LIKE_THESE, "t over tasks", (mean - half, mean + half)


def differences(first: Array, second: Array) -> Iterator[tuple[str, str, Ends]]:
    """Of the mean difference over tasks, in a unit that is fixed in advance."""
    _, count, _, n = first.shape
    gaps = (second.mean(3) - first.mean(3))[..., 0]
    variances = (first.var(3, ddof=1) + second.var(3, ddof=1))[..., 0] / n
    total = variances.sum(1)
    half = stats.t.ppf(0.975, total**2 / (variances**2 / (n - 1)).sum(1)) * np.sqrt(total) / count
    yield THESE, "mean difference: t over seeds", (gaps.mean(1) - half, gaps.mean(1) + half)
    half = stats.t.ppf(0.975, count - 1) * gaps.std(1, ddof=1) / math.sqrt(count)
    yield LIKE_THESE, "mean difference: t over tasks", (gaps.mean(1) - half, gaps.mean(1) + half)


def offered(first: Array, second: Array, truth: Mapping[str, Array | float]) -> Iterator[tuple[str, float, float]]:
    """Of what normbench has for each question: how often it covers, and half of its mean width."""
    n = first.shape[3]
    shares = (first[..., :, None] < second[..., None, :]).mean((2, 3, 4))
    ends = np.array([tasks.these_tasks(of_tasks, n) for of_tasks in shares.tolist()]).T
    yield THESE, covered((ends[0], ends[1]), truth[THESE]), float(np.mean(ends[1] - ends[0])) / 2
    # whether the true mean is between the ends, which takes less time than the ends do
    mean = float(truth[LIKE_THESE])
    chances = (
        [tasks.below([0.0, *s], mean), tasks.below([0.0, *(1 - x for x in s)], 1 - mean)] for s in shares.tolist()
    )
    hits = np.array([min(both) >= 0.025 for both in chances])
    ends = np.array([tasks.like_these(of_tasks) for of_tasks in shares[:50].tolist()]).T
    yield LIKE_THESE, float(np.mean(hits)), float(np.mean(ends[1] - ends[0])) / 2


def covered(ends: Ends, value: Array | float) -> float:
    return float(np.mean((ends[0] <= value + 1e-9) & (value <= ends[1] + 1e-9)))


def coverage(times: int) -> Iterator[dict[str, Any]]:
    """A row for each interval and simulation."""
    for (effect, draw), (form, (spread, correlation, diverged)) in itertools.product(EFFECTS.items(), RUNS.items()):
        for others, count, n in itertools.product((1, 3), TASKS, SEEDS):
            rng = np.random.default_rng([others, count, n, *effect.encode(), *form.encode()])
            population = draw(np.random.default_rng(1), (200_000, others))
            effects = draw(rng, (times, count, others))
            first, second = simulated(rng, effects, n, spread, correlation, diverged)
            of_all = {
                THESE: truth(effects, spread, diverged).mean(1),
                LIKE_THESE: float(truth(population, spread, diverged).mean()),
            }
            row = {"effect": effect, "form": form, "tasks": count, "seeds": n, "others": others}
            for question, share, half in offered(first, second, of_all):
                yield row | {"question": question, "name": OFFERED[question], "covers": share, "half": half}
            if others > 1:
                continue
            for question, name, interval in intervals(rng, first, second):
                yield row | {"question": question, "name": name, "covers": covered(interval, of_all[question])}
            if diverged:  # has no difference
                continue
            of_all = {THESE: effects.mean((1, 2)), LIKE_THESE: float(population.mean())}
            for question, name, interval in differences(first, second):
                yield row | {"question": question, "name": name, "covers": covered(interval, of_all[question])}


def _has_word(first: list[list[float]], second: list[list[float]], level: float) -> bool:
    shares = list(map(tasks.improvement, first, second))
    low, high = tasks.these_tasks(shares, len(first[0]), level)
    return not low <= 0.5 <= high


def false_words(times: int) -> Iterator[dict[str, Any]]:
    """How often any pair of four arms has a word where none is better."""
    level = 1 - 0.05 / len(PAIRS)
    for form, (spread, correlation, _) in itertools.islice(RUNS.items(), 3):
        for count, n in itertools.product(TASKS, SEEDS):
            rng = np.random.default_rng([count, n, *form.encode()])
            hits = 0
            for _ in range(times):
                seed = rng.normal(size=(count, 1, n)) * math.sqrt(correlation)
                runs = rng.normal(size=(count, 4, n)) * math.sqrt(1 - correlation) + seed
                runs[:, 2:] *= spread
                hits += any(_has_word(runs[:, a].tolist(), runs[:, b].tolist(), level) for a, b in PAIRS)
            yield {"form": form, "tasks": count, "seeds": n, "share": hits / times}


PAGE = """# Intervals over several tasks, on simulated runs

How often a 95 % interval of the probability of improvement, P(X > Y) averaged over tasks, has the true value in it: the
lowest share over all effects and kinds of runs below, by number of tasks × seeds. Two questions are asked of the same
runs. *These tasks*: what would many more seeds of these tasks say? *Tasks like these*: what would many more tasks say,
of which these are a random sample? What covers less than {least} % anywhere is not offered; in bold is what
`normbench compare --over` and `normbench battery` show.

{lowest}
Where all pairs of runs are won, as they often are with an effect of 4, a bootstrap has no width and misses a true
probability of 99.8 %. For tasks like these that matters: four wins in four tasks do not exclude a population of tasks
with one loss in six. The mean difference is in standard deviations between seeds, which are known here and nowhere
else. It covers in these tasks, but a diverged run has no difference, so it is not offered either.

## By effect

The lowest share over all numbers of tasks and seeds, and all kinds of runs:
{forms}.
Effects are in standard deviations between the seeds of a task; *normal, 1 ± 3* has mean and standard deviation of the
population of effects.

{by_effect}
## How wide the offered ones are

Half of the mean width, in percentage points, for runs that are alike; of an average rank among k arms it is k − 1 times
as wide, in ranks. The first number is of one other arm, the second of three.

{widths}
## False words

An arm is ahead of another over these tasks if Wilson's interval at 1 − 5 % / number of pairs lies above one half. How
often any of the six pairs of four arms has a word where none is better: at most 5 %.

{words}
{times} simulations each. Command: `python scripts/check/tasks.py --times {times} --output results/check/tasks.md`
"""


def table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["-"] * len(header), *rows]) + "\n"


def page(rows: list[dict[str, Any]], words: list[dict[str, Any]], times: int) -> str:
    names = list(dict.fromkeys((row["question"], row["name"], row["others"]) for row in rows))
    names.sort(key=lambda name: (name[0] != THESE, name[1] not in OFFERED.values(), name[1], name[2]))
    sizes = list(itertools.product(TASKS, SEEDS))

    def label(question: str, name: str, others: int) -> list[str]:
        text = f"{name}{', average rank of 4' if others > 1 else ''}"
        return [question, f"**{text}**" if name in OFFERED.values() else text]

    def lowest(of: tuple[str, str, int], where: Mapping[str, Any]) -> str:
        wanted = dict(zip(("question", "name", "others"), of, strict=True)) | dict(where)
        covers = [row["covers"] for row in rows if wanted.items() <= row.items()]
        return f"{100 * min(covers):.1f} %"

    by_size = [[*label(*of), *(lowest(of, {"tasks": t, "seeds": n}) for t, n in sizes)] for of in names]
    by_effect = [[*label(*of), *(lowest(of, {"effect": effect}) for effect in EFFECTS)] for of in names]
    widths = []
    for question, effect in itertools.product(OFFERED, EFFECTS):
        cells = []
        for t, n in sizes:
            wanted = {"question": question, "effect": effect, "form": "alike", "tasks": t, "seeds": n}
            halves = [100 * row["half"] for row in rows if "half" in row and wanted.items() <= row.items()]
            cells.append(" / ".join(f"{half:.0f}" for half in halves))
        widths.append([question, effect, *cells])
    columns = [f"{t} × {n}" for t, n in sizes]
    shares = {(word["form"], word["tasks"], word["seeds"]): word["share"] for word in words}
    forms = list(dict.fromkeys(word["form"] for word in words))
    return PAGE.format(
        least=f"{100 * LEAST:g}", times=times, forms=", ".join(RUNS),
        lowest=table(["question", "interval", *columns], by_size),
        by_effect=table(["question", "interval", *EFFECTS], by_effect),
        widths=table(["question", "effect", *columns], widths),
        words=table(["runs", *columns], [[f, *(f"{100 * shares[f, t, n]:.1f} %" for t, n in sizes)] for f in forms]),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--output", type=Path, help="a page of the shares")
    given = parser.parse_args()
    rows, words = list(coverage(given.times)), list(false_words(given.times))
    for row in rows:
        if row["name"] in OFFERED.values() and row["covers"] < LEAST:
            print(f"TOO FEW: {row}")
    for word in words:
        if word["share"] > 0.05 + 2 * math.sqrt(0.05 * 0.95 / given.times):
            print(f"TOO MANY: {word}")
    text = page(rows, words, given.times)
    print(text)
    if given.output:
        atomic_write(given.output, text.encode())


if __name__ == "__main__":
    main()
