"""How often `normbench judge` is wrong where there is no difference: python scripts/check/judge_null.py [--times 2000]

Simulated logs, with 5 and with 10 seeds for each arm: loss curves whose ends spread by a standard deviation of 1
between seeds, half of the variance shared by the runs of a seed. Of one claim, and of a file of ten about ten pairs of
arms, how often a word is false; of `no_worse` with a margin, how often it holds where the first arm is worse by the
margin, and where both are alike. The same with arms that share no seed, with one arm that was logged half as often, and
for one who looks again and again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from normbench.judge.verdicts import judge
from normbench.papers import claim_file
from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.files import atomic_write
from normbench.runs.record import RunRecord

STEPS = [*range(0, 101, 10)]
MARGIN = 2.0  # in standard deviations between seeds


def run(rng: np.random.Generator, arm: str, seed: int, shared: float, worse: float, every: int) -> RunRecord:
    """A curve that falls from 10 by 8, then is the end of this run; each point has noise of its own."""
    end = worse + shared + rng.normal(0, np.sqrt(0.5))
    noise = rng.normal(0, 0.1, len(STEPS))
    loss = [8 * 2.0 ** (-step / 10) + 10 + end + float(extra) for step, extra in zip(STEPS, noise, strict=True)]
    columns = {"step": STEPS[::every], "loss": loss[::every]}
    curve = Curve.of_columns([{"split": "valid", "mode": "logged", "columns": columns}])
    return imported.record(
        "null", f"{arm}-{seed}", arm, seed, curve, STEPS[-1], metrics={"loss": {"goal": "min"}},
        about={"clocks": ["step"]},
    )  # fmt: skip


def runs(rng: np.random.Generator, n: int, pairs: int, worse: float = 0.0, alone: bool = False, every: int = 1) -> Any:
    """`pairs` pairs of arms, a0 against b0, ...; alone: the seeds of the b are others."""
    found = []
    for pair in range(pairs):
        for seed in range(n):
            shared = [rng.normal(0, np.sqrt(0.5)) for _ in range(2)]
            found.append(run(rng, f"a{pair}", seed, shared[0], worse, every))
            found.append(run(rng, f"b{pair}", seed + n * alone, shared[alone], 0.0, 1))
    return found


def claims(pairs: int, kind: str = "direction", endpoint: str = "final") -> Any:
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
    return claim_file.built({"claims": entries}, Path("null.yaml"))


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...], float | None]] = {
    # what: of the runs, of the claims, the words that are counted, the most that there may be
    "one claim, supported": ({"pairs": 1}, {"pairs": 1}, ("holds",), 0.035),
    "one claim, refuted": ({"pairs": 1}, {"pairs": 1}, ("opposite",), 0.035),
    "one claim, no seed shared, either": ({"pairs": 1, "alone": True}, {"pairs": 1}, ("holds", "opposite"), 0.07),
    "area, one arm logged half as often, either": (
        {"pairs": 1, "every": 2}, {"pairs": 1, "endpoint": "area"}, ("holds", "opposite"), 0.07,
    ),
    "a file of ten claims, any word": ({"pairs": 10}, {"pairs": 10}, ("holds", "opposite"), 0.05),
    "no_worse, worse by the margin, holds": (
        {"pairs": 1, "worse": MARGIN}, {"pairs": 1, "kind": "no_worse"}, ("holds",), 0.05,
    ),
    "no_worse, both alike, holds": ({"pairs": 1}, {"pairs": 1, "kind": "no_worse"}, ("holds",), None),
}  # fmt: skip


LOOKS = {"one claim, two looks, either": (5, 10), "one claim, a look after each seed, either": range(5, 21)}


def _decided(asked: Any, found: list[RunRecord], words: tuple[str, ...]) -> bool:
    return any(claim["setting"] in words for claim in judge(asked, found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--output", type=Path, help="a page of the shares")
    given = parser.parse_args()
    rows = []
    for what, (of_runs, of_claims, words, most) in CASES.items():
        for n in (5, 10):
            rng = np.random.default_rng([n, *what.encode()])
            asked = claims(**of_claims)
            hits = sum(_decided(asked, runs(rng, n, **of_runs), words) for _ in range(given.times))
            # two standard errors of the simulation above what there may be
            limit = None if most is None else most + 2 * np.sqrt(most * (1 - most) / given.times)
            rows.append({"what": what, "seeds": n, "share": hits / given.times, "most": most})
            over = "  TOO MANY" if limit is not None and hits / given.times > limit else ""
            print(f"{what}, {n} seeds: {hits / given.times:.2%}{over}", flush=True)
    for what, looks in LOOKS.items():
        rng, asked, hits = np.random.default_rng([*what.encode()]), claims(1), 0
        for _ in range(given.times):
            found = runs(rng, looks[-1], 1)
            seen = ([one for one in found if one.seed < n] for n in looks)
            hits += any(_decided(asked, those, ("holds", "opposite")) for those in seen)
        rows.append({"what": what, "seeds": f"{looks[0]} to {looks[-1]}", "share": hits / given.times, "most": None})
        print(f"{what}: {hits / given.times:.2%}", flush=True)
    if given.output:
        head = "| what | seeds | share | at most |\n| - | - | - | - |\n"
        lines = [
            f"| {row['what']} | {row['seeds']} | {100 * row['share']:.1f} % | "
            f"{'' if row['most'] is None else format(100 * row['most'], '.3g') + ' %'} |\n"
            for row in rows
        ]
        command = f"\nCommand: `python scripts/check/judge_null.py --times {given.times}`\n"
        text = "# Words of `normbench judge` on simulated logs\n\n" + head + "".join(lines) + command
        atomic_write(given.output, text.encode())


if __name__ == "__main__":
    main()
