"""How often `normbench judge` is wrong where there is no difference: python scripts/check/judge_null.py [--times 2000]

Simulated logs, with 5 and with 10 seeds for each arm: loss curves whose ends spread by a standard deviation of 1
between seeds, half of the variance shared by the runs of a seed. Of one claim, and of a file of ten about ten pairs of
arms, how often a word is false; of `no_worse` with a margin, how often it holds where the first arm is worse by the
margin, and where both are alike. The same with arms that share no seed, with arms of unequal numbers of runs, with
losses that are skewed, with one arm that was logged half as often, with a run that was cut, and for one who looks again
and again. Then what is refused, and how often a word would be false without the rule: by the same test of the numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from normbench.judge.verdicts import judge
from normbench.papers.claims import built
from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.files import atomic_write
from normbench.runs.run import Run
from normbench.stats.statistics import t_interval, welch

STEPS = [*range(0, 101, 10)]
MARGIN = 2.0  # in standard deviations between seeds


def run(
    rng: np.random.Generator, arm: str, seed: int, shared: float, worse: float, every: int, skewed: bool, cut: bool
) -> Run:
    """A curve that falls from 10 by 8, then is the end of this run; each point has noise of its own. skewed: ends are
    lognormal; cut: it ends at 90 %."""
    end = worse + shared + rng.normal(0, np.sqrt(0.5))
    end = float(np.exp(end)) if skewed else end
    noise = rng.normal(0, 0.1, len(STEPS))
    loss = [8 * 2.0 ** (-step / 10) + 10 + end + float(extra) for step, extra in zip(STEPS, noise, strict=True)]
    chosen = slice(0, -1 if cut else None, every)
    columns = {"step": STEPS[chosen], "loss": loss[chosen]}
    curve = Curve.of_columns([{"split": "valid", "mode": "logged", "columns": columns}])
    return imported.record(
        "null", f"{arm}-{seed}", arm, seed, curve, columns["step"][-1], metrics={"loss": {"goal": "min"}},
        about={"clocks": ["step"]},
    )  # fmt: skip


def runs(
    rng: np.random.Generator, n: int, pairs: int, worse: float = 0.0, alone: bool = False, every: int = 1,
    more: float = 1, skewed: bool = False, cut: bool = False,
) -> Any:  # fmt: skip
    """`pairs` pairs of arms, a0 against b0, ...; alone: the seeds of the b are others; more: times as many runs of b;
    cut: the first run of a ends early."""
    runs_of_both = []
    for pair in range(pairs):
        for seed in range(int(n * more)):
            shared = [rng.normal(0, np.sqrt(0.5)) for _ in range(2)]
            if seed < n:
                runs_of_both.append(run(rng, f"a{pair}", seed, shared[0], worse, every, skewed, cut and not seed))
            runs_of_both.append(run(rng, f"b{pair}", seed + n * alone, shared[alone], 0.0, 1, skewed, False))
    return runs_of_both


def claims(pairs: int, kind: str = "direction", endpoint: str = "final", length: str = "equal") -> Any:
    """A file of claims, one for each pair of arms."""
    wanted: dict[str, Any] = {"expect": "negative"} if kind == "direction" else {"within": MARGIN}
    parts = [
        {
            "id": f"pair {pair}", "endpoint": {"kind": endpoint, "split": "valid", "metric": "loss"},
            "contrast": [[1, {"arm": f"a{pair}"}], [-1, {"arm": f"b{pair}"}]], "scale": "linear", "unit": "nats",
        } | wanted
        for pair in range(pairs)
    ]  # fmt: skip
    entries = [{"id": part["id"], "kind": kind, "statement": part["id"], "parts": [part]} for part in parts]
    return built({"claims": entries, "length": length}, Path("null.yaml"))


PAGE = """# Words of `normbench judge` on simulated logs

No arm is better, unless the line says so. A share above that of the last column is a fault of the test on such data.

| what | seeds | share | at most |
| - | - | - | - |
{lines}
How often a test alone is wrong, by which is chosen what gets no word: more than twice as many runs on one side, the
best on the split that chose it, a curve that ends early. 2.5 % is the level of one side.

| what | runs | share |
| - | - | - |
{without}
Command: `python scripts/check/judge_null.py --times {times}`
"""
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...], float | None]] = {
    # what: of the runs, of the claims, the words that are counted, the most that there may be
    "one claim, holds": ({"pairs": 1}, {"pairs": 1}, ("holds",), 0.035),
    "one claim, fails": ({"pairs": 1}, {"pairs": 1}, ("fails",), 0.035),
    "one claim, no seed shared, either": ({"pairs": 1, "alone": True}, {"pairs": 1}, ("holds", "fails"), 0.07),
    "one claim, 1.4 times as many runs of one arm, either": (
        {"pairs": 1, "more": 1.4}, {"pairs": 1}, ("holds", "fails"), 0.07,
    ),
    "one claim, twice as many runs of one arm, either": (
        {"pairs": 1, "more": 2}, {"pairs": 1}, ("holds", "fails"), 0.07,
    ),
    "one claim, skewed, pairs, either": ({"pairs": 1, "skewed": True}, {"pairs": 1}, ("holds", "fails"), 0.07),
    "one claim, skewed, no seed shared, either": (
        {"pairs": 1, "skewed": True, "alone": True}, {"pairs": 1}, ("holds", "fails"), 0.07,
    ),
    "one claim, skewed, twice as many runs of the other arm, holds": (
        {"pairs": 1, "skewed": True, "more": 2, "alone": True}, {"pairs": 1}, ("holds",), None,
    ),
    "one claim, skewed, 2.2 times as many runs of the other arm, holds": (
        {"pairs": 1, "skewed": True, "more": 2.2, "alone": True}, {"pairs": 1}, ("holds",), 0.0,
    ),
    "one claim, one run cut at 90 %, either": (
        {"pairs": 1, "cut": True}, {"pairs": 1, "length": "common"}, ("holds", "fails"), 0.07,
    ),
    "area, one arm logged half as often, either": (
        {"pairs": 1, "every": 2}, {"pairs": 1, "endpoint": "area"}, ("holds", "fails"), 0.07,
    ),
    "a file of ten claims, any word": ({"pairs": 10}, {"pairs": 10}, ("holds", "fails"), 0.05),
    "no_worse, worse by the margin, holds": (
        {"pairs": 1, "worse": MARGIN}, {"pairs": 1, "kind": "no_worse"}, ("holds",), 0.05,
    ),
    "no_worse, both alike, holds": ({"pairs": 1}, {"pairs": 1, "kind": "no_worse"}, ("holds",), None),
}  # fmt: skip


def _welch(rng: np.random.Generator, draw: Callable[[np.random.Generator, int], Any], n: int, m: int) -> bool:
    """Whether the arm with n runs would be better."""
    interval = welch(draw(rng, n).tolist(), draw(rng, m).tolist()).interval
    return interval is not None and interval[1] < 0


def _lognormal(rng: np.random.Generator, n: int) -> Any:
    return rng.lognormal(0, 1, n)


def _exponential(rng: np.random.Generator, n: int) -> Any:
    return rng.exponential(1, n)


def _stuck(rng: np.random.Generator, n: int) -> Any:
    """Every tenth run ends far above the others."""
    return rng.normal(0, 1, n) + 10 * (rng.random(n) < 0.1)


def _best(rng: np.random.Generator, n: int, m: int) -> bool:
    """Whether the first arm would be better at each run's best of 50 evaluations, whose noise is 0.5 against 0.1."""
    firsts, seconds = (
        rng.normal(0, 0.2, n) + rng.normal(0, noise, (50, count)).min(0) for noise, count in ((0.5, n), (0.1, m))
    )
    interval = t_interval((firsts - seconds).tolist()).interval
    return interval is not None and interval[1] < 0


def _cut(rng: np.random.Generator, n: int, m: int) -> bool:
    """Whether the first arm would be better at the step where one run was cut, where it is ahead by a standard
    deviation of a pair; at the end both are alike."""
    interval = t_interval((rng.normal(0, 1, n) - 2**0.5 - rng.normal(0, 1, m)).tolist()).interval
    return interval is not None and interval[1] < 0


REFUSED: dict[str, tuple[Callable[..., bool], tuple[tuple[int, int], ...]]] = {
    # what: whether the first arm would be better, the numbers of runs
    "Welch, lognormal losses, the smaller arm better": (
        partial(_welch, draw=_lognormal), ((5, 5), (5, 10), (5, 20), (5, 40), (10, 20), (10, 40)),
    ),
    "Welch, exponential losses, the smaller arm better": (
        partial(_welch, draw=_exponential), ((5, 5), (5, 10), (5, 20), (5, 40), (10, 20), (10, 40)),
    ),
    "Welch, every tenth run stuck, the smaller arm better": (
        partial(_welch, draw=_stuck), ((5, 5), (5, 10), (5, 20), (5, 40), (10, 20), (10, 40)),
    ),
    "the best chosen on the split that is compared, noisier evaluations better": (_best, ((5, 5), (10, 10))),
    "curves that cross, read at an early step, the one ahead there better": (_cut, ((5, 5), (10, 10))),
}  # fmt: skip
LOOKS = {"one claim, two looks, either": (5, 10), "one claim, a look after each seed, either": range(5, 21)}


def _decided(judged: Any, runs: list[Run], words: tuple[str, ...]) -> bool:
    return any(claim.word in words for claim in judge(judged, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--output", type=Path, help="a page of the shares")
    given = parser.parse_args()
    rows = []
    for what, (of_runs, of_claims, words, most) in CASES.items():
        for n in (5, 10):
            rng = np.random.default_rng([n, *what.encode()])
            judged = claims(**of_claims)
            hits = sum(_decided(judged, runs(rng, n, **of_runs), words) for _ in range(given.times))
            # two standard errors of the simulation above what there may be
            limit = None if most is None else most + 2 * np.sqrt(most * (1 - most) / given.times)
            rows.append({"what": what, "seeds": n, "share": hits / given.times, "most": most})
            over = "  TOO MANY" if limit is not None and hits / given.times > limit else ""
            print(f"{what}, {n} seeds: {hits / given.times:.2%}{over}", flush=True)
    for what, looks in LOOKS.items():
        rng, judged, hits = np.random.default_rng([*what.encode()]), claims(1), 0
        for _ in range(given.times):
            all_runs = runs(rng, looks[-1], 1)
            first_runs = ([run for run in all_runs if run.seed < n] for n in looks)
            hits += any(_decided(judged, runs_until, ("holds", "fails")) for runs_until in first_runs)
        rows.append({"what": what, "seeds": f"{looks[0]} to {looks[-1]}", "share": hits / given.times, "most": None})
        print(f"{what}: {hits / given.times:.2%}", flush=True)
    refused = []
    for what, (is_better, sizes) in REFUSED.items():
        for n, m in sizes:
            rng = np.random.default_rng([n, m, *what.encode()])
            share = sum(is_better(rng, n=n, m=m) for _ in range(10 * given.times)) / (10 * given.times)
            refused.append({"what": what, "seeds": f"{n} and {m}", "share": share})
            print(f"{what}, {n} and {m}: {share:.2%}", flush=True)
    if given.output:
        lines = [
            f"| {row['what']} | {row['seeds']} | {100 * row['share']:.1f} % | "
            f"{'' if row['most'] is None else format(100 * row['most'], '.3g') + ' %'} |\n"
            for row in rows
        ]
        without = [f"| {row['what']} | {row['seeds']} | {100 * row['share']:.1f} % |\n" for row in refused]
        text = PAGE.format(lines="".join(lines), without="".join(without), times=given.times)
        atomic_write(given.output, text.encode())


if __name__ == "__main__":
    main()
