"""Updates with denormal numbers flushed against kept: python scripts/bench/denormals.py [--rounds N] [--output DIR]

Both sides are `normbench.train.loop.train` as `normbench train` runs it; the reference keeps denormal numbers, as torch
does of itself. They come with training: of an input that is seldom other than 0, a word that is rare or a unit that is
dead, Adam's mean of the gradient decays to the smallest of them and stays there. So both go on from one run that kept
them for the updates that its case says; a round is ROUND further ones of either. That both come to the same sum
of losses, to the last bit, is checked. Real data: NORMBENCH_DATA with mnist and imdb.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness

from normbench.config.plan import train_specs
from normbench.runs.directory import RunDirectory
from normbench.train import checkpoint, loop
from normbench.train.environment import flushed
from normbench.train.train_one import ensure_run

ROUND = 125
SIDES: dict[str, Callable[[], Any]] = {"flushed": flushed, "kept": contextlib.nullcontext}
CASES = {  # what is trained, and for how many updates before
    "784-1000-1000-10 on MNIST, batch 4, layer": ("ln2016/fig6", 4, 13_750),  # one epoch
    "RNN on 20 % of IMDB, batch 1, layer": ("bln2022/fig6", 1, 3_000),
    "RNN on 20 % of IMDB, batch 25, layer": ("bln2022/fig6", 25, 1_250),
}


def trained(side: str, case: str, updates: int, run: RunDirectory) -> float:
    """Seconds from the first to the last of so many further updates of a run."""
    experiment, batch_size, _ = CASES[case]
    words = [f"experiment={experiment}", "arm=ln", f"train.batch_size={batch_size}", "train.steps=1000000"]
    words += ["eval.unit=updates", "eval.every=1000000", "eval.strides={train: 100, valid: 100, test: 0}"]
    (spec,) = train_specs(words, multirun=False)
    moments: list[float] = []

    def stopping() -> bool:
        moments.append(time.perf_counter())
        return len(moments) == updates

    of_itself, loop.environment.flushed = loop.environment.flushed, SIDES[side]
    try:
        ensure_run(spec, run, stopping=stopping)
    finally:
        loop.environment.flushed = of_itself
    return moments[-1] - moments[0]


def compare(case: str, rounds: int, folder: Path) -> harness.Row:
    before = CASES[case][2]
    runs = {side: RunDirectory(folder / side) for side in SIDES}
    trained("kept", case, before, runs["kept"])
    shutil.copytree(runs["kept"].path, runs["flushed"].path)
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, run in runs.items():
            took[side].append(trained(side, case, ROUND, run))
    sums = {saved[0]["loss_sum"] for run in runs.values() if (saved := checkpoint.read(run.path))}
    if len(sums) > 1:
        raise SystemExit(f"{case}: the two sides come to different losses: {sums}")
    return harness.row(f"{case}, after {before} updates", took["flushed"], took["kept"], ROUND - 1)


def rows(rounds: int) -> Iterator[harness.Row]:
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            yield compare(case, rounds, Path(scratch))


if __name__ == "__main__":
    harness.main(__doc__, "denormals", "A training step: denormal numbers flushed / kept", 9, rows)
