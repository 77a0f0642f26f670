"""Updates with denormal numbers flushed against kept: python scripts/bench/denormals.py [--rounds N] [--output DIR]

Both sides are `normbench.train.loop.train` as `normbench train` runs it; the reference keeps denormal numbers, as torch
does of itself. They come with training: of an input that is seldom other than 0, a word that is rare or a unit that is
dead, Adam's mean of the gradient decays to the smallest of them and stays there. So both sides first train WARM updates
alike; after that a round is ROUND further ones of either, the shorter run gone on with. That both come to the same
curve, to the byte, is checked. Real data: NORMBENCH_DATA with mnist and imdb.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import harness

from normbench.config.plan import train_specs
from normbench.runs.writing import RunDirectory
from normbench.train import loop
from normbench.train.denormals import flushed
from normbench.train.ensure import ensure_run

WARM, ROUND = 1200, 100  # 0.9 ^ 1000 is denormal
SIDES: dict[str, Callable[[], Any]] = {"flushed": flushed, "kept": contextlib.nullcontext}
CASES = {
    "784-1000-1000-10 on MNIST, batch 4, none": ("experiment=ln2016/fig6", "arm=none", "train.batch_size=4"),
    "784-1000-1000-10 on MNIST, batch 4, layer": ("experiment=ln2016/fig6", "arm=ln", "train.batch_size=4"),
    "RNN on IMDB, batch 25, layer": ("experiment=bln2022/fig6", "arm=ln", "train.batch_size=25"),
    "RNN on IMDB, batch 1, layer": ("experiment=bln2022/fig6", "arm=ln", "train.batch_size=1"),
}


def trained(side: str, words: tuple[str, ...], updates: int, run: RunDirectory) -> float:
    """Seconds of all updates of a run that is trained on to this length; there is one evaluation, at its end."""
    (spec,) = train_specs(
        [*words, f"train.steps={updates}", "eval.every=1000000", "train.keep_checkpoint=true"], multirun=False
    )
    of_itself, loop.flushed = loop.flushed, SIDES[side]
    try:
        ensure_run(spec, run)
    finally:
        loop.flushed = of_itself
    return float(json.loads((run.path / "timing.jsonl").read_text().splitlines()[-1])["train_seconds"])


def compare(case: str, rounds: int, folder: Path) -> harness.Row:
    runs = {side: RunDirectory(folder / side) for side in SIDES}
    totals: dict[str, list[float]] = {side: [] for side in SIDES}
    for n in range(rounds + 1):
        for side, run in runs.items():
            totals[side].append(trained(side, CASES[case], WARM + n * ROUND, run))
    if len({run.curve.read_bytes() for run in runs.values()}) > 1:
        raise SystemExit(f"{case}: the two sides come to different curves")
    took = {side: [after - before for before, after in pairwise(total)] for side, total in totals.items()}
    return harness.row(case, took["flushed"], took["kept"], ROUND)


def rows(rounds: int) -> Iterator[harness.Row]:
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            yield compare(case, rounds, Path(scratch))


if __name__ == "__main__":
    harness.main(__doc__, "denormals", "A training step: denormal numbers flushed / kept", 7, rows)
