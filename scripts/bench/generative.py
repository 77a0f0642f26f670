"""Updates of DRAW and of handwriting by normalizer, and against straightforward ports:
python scripts/bench/generative.py [--rounds N] [--long]

An update is forward, backward and the optimizer's step: on 128 pictures of 28 x 28, on 8 lines of 100 and of 250
points, at the papers' sizes (of DRAW at those of `reduced` as well). LN against no normalization; both against the
models as their papers' readers write them, with `nn.LSTMCell` and torch's own operations (`ports.py`), which compute
the same loss from the same weights; and without the kernel, where there is no compiler. A point of handwriting that is
written, against 2 ms. `--long`: instead, 20 000 updates of handwriting with LN, 100 units and the first 100 points of
the real lines, all of whose losses have to be finite.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import harness
import torch
from ports import DrawPort, HandwritingPort
from torch import Tensor

from normbench import data as datasets
from normbench.battery.cost import interleave
from normbench.config.plan import experiment_spec
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.data.sampler import Sampler
from normbench.models import base
from normbench.models.draw import Draw
from normbench.models.handwriting import Handwriting
from normbench.norms import kernel
from normbench.train import optim

SEED, BATCH = 1, 128
LN_GOAL, DRAW_GOAL, HANDWRITING_GOAL, POINT_GOAL = 1.10, 0.68, 1 / 4, 2e-3
LONG = 20_000
ARMS = ("none", "ln")
Work = dict[str, Callable[[], object]]


def stepping(loss: Callable[[], Tensor], model: torch.nn.Module, spec: Spec) -> Callable[[], object]:
    optimizer = optim.build(spec.config["optim"], model)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def by(backend: str, step: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        with kernel.using(backend):
            step()

    return run


def sides(artifact: str, arm: str, words: list[str], **inputs: Tensor) -> tuple[Spec, Any, Callable[[], Tensor]]:
    """The arm's model and its loss in update 0; `words` begin with the fidelity."""
    spec = experiment_spec(artifact, arm, words[0], [f"seed={SEED}", *words[1:]])
    model = base.build(spec.config, spec.sites).train()

    def loss() -> Tensor:
        with base.update(model, SEED, 0):
            value: Tensor = model(**inputs)
        return value

    return spec, model, loss


def ratios(name: str, work: Work, rounds: int, goal: float) -> Iterator[harness.Row]:
    took = interleave(work, rounds, warmup=1)
    yield harness.row(f"{name}: ln / none", took["ln"], took["none"], 1, LN_GOAL)
    for arm in ARMS:
        yield harness.row(f"{name}: {arm} / port", took[arm], took[f"{arm}, port"], 1, goal)
        yield harness.row(f"{name}: {arm} without kernel / port", took[f"{arm}, ATen"], took[f"{arm}, port"], 1)


def alike(name: str, ours: float, theirs: float) -> None:
    if abs(ours - theirs) > 1e-4 * abs(theirs):
        raise SystemExit(f"{name}: the two compute different losses, {ours} and {theirs}.")


def draw(name: str, fidelity: str, rounds: int) -> Iterator[harness.Row]:
    pixels = experiment_spec("ln2016/fig4", "none", fidelity, []).config["data"]["declares"]["features"]
    inputs = torch.from_numpy(stream(SEED, "bench").random((BATCH, pixels)) < 0.13).float()
    work: Work = {}
    for arm in ARMS:
        spec, model, loss = sides("ln2016/fig4", arm, [fidelity], inputs=inputs)
        assert isinstance(model, Draw)
        port = DrawPort(model, normed=arm == "ln")
        with base.update(model, SEED, 0):
            noise = model.normal("latent", inputs.new_empty(BATCH, model.glimpses, model.latent_size))
        alike(f"{name}, {arm}", loss().item(), port(inputs, noise).item())
        work[arm] = stepping(loss, model, spec)
        work[f"{arm}, port"] = stepping(lambda port=port, noise=noise: port(inputs, noise), port, spec)
        again, other, its_loss = sides("ln2016/fig4", arm, [fidelity], inputs=inputs)
        work[f"{arm}, ATen"] = by("aten", stepping(its_loss, other, again))
    yield from ratios(f"DRAW, {name}", work, rounds, DRAW_GOAL)


def lines(points: int, symbols: int, batch: int = 8, letters: int = 30) -> dict[str, Tensor]:
    """Made-up ones: what a step costs does not depend on what is written."""
    draws = stream(SEED, "bench")
    strokes = torch.from_numpy(draws.standard_normal((batch, points, 3))).float()
    strokes[..., 2] = (strokes[..., 2] > 1.7).float()
    characters = torch.from_numpy(draws.integers(0, symbols, (batch, letters)))
    masks = {name: torch.ones(t.shape[:2], dtype=torch.bool) for name, t in (("s", strokes), ("c", characters))}
    return {"strokes": strokes, "strokes_mask": masks["s"], "characters": characters, "characters_mask": masks["c"]}


def handwriting(points: int, rounds: int, fidelity: str = "paper") -> Iterator[harness.Row]:
    work: Work = {}
    for arm in ARMS:
        symbols = experiment_spec("ln2016/fig5", arm, fidelity, []).config["data"]["declares"]["symbols"]
        inputs = lines(points, symbols)
        spec, model, loss = sides("ln2016/fig5", arm, [fidelity], **inputs)
        assert isinstance(model, Handwriting)
        port = HandwritingPort(model, normed=arm == "ln")
        given = inputs["strokes"], inputs["characters"]
        alike(f"{points} points, {arm}", loss().item(), port(*given).item())
        work[arm] = stepping(loss, model, spec)
        work[f"{arm}, port"] = stepping(lambda port=port, given=given: port(*given), port, spec)
        again, other, its_loss = sides("ln2016/fig5", arm, [fidelity], **inputs)
        work[f"{arm}, ATen"] = by("aten", stepping(its_loss, other, again))
    yield from ratios(f"handwriting, {points} points", work, rounds, HANDWRITING_GOAL)


def writing(rounds: int, fidelity: str = "paper") -> Iterator[harness.Row]:
    """Seconds a point, against the goal's: a ratio below 1 is faster than that."""
    for arm in ARMS:
        _, model, _ = sides("ln2016/fig5", arm, [fidelity])
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            ((points, _),) = model.eval().written([[i % model.symbols for i in range(30)]], 0.0, SEED)
            took.append((time.perf_counter() - began) / len(points))
        yield harness.row(f"handwriting, a point written: {arm} / 2 ms", took, [POINT_GOAL] * rounds, 1, 1.0)


def rows(rounds: int) -> Iterator[harness.Row]:
    yield from draw("64 glimpses", "paper", rounds)
    yield from draw("10 glimpses", "reduced", rounds)
    yield from handwriting(100, rounds)
    yield from handwriting(250, rounds)
    yield from writing(max(3, rounds // 3))


def reasons(rows: Sequence[harness.Row]) -> Sequence[str]:
    missed = any(row.ratio > 1 for row in rows if "a point written" in row.case)
    return ["2 ms for a point written is a time and no ratio: one row at a time, it is that of the calls."] * missed


def long() -> int:
    """20 000 updates in a row; how the loss of a line went."""
    words = [f"seed={SEED}", "model.hidden_size=100", "data.points=100", f"train.steps={LONG}"]
    spec = experiment_spec("ln2016/fig5", "ln", "paper", words)
    examples = datasets.load(spec.config["data"], seed=SEED).splits["train"]
    model = base.build(spec.config, spec.sites).train()
    optimizer, sampler = optim.build(spec.config["optim"], model), Sampler.of(spec.config["train"], SEED, examples)
    total, began = 0.0, time.perf_counter()
    for step in range(LONG):
        with base.update(model, SEED, step):
            loss = model(**examples.batch(sampler.batch(step)).tensors)
        loss.backward()
        finite = math.isfinite(loss.item()) and all(
            bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None
        )
        if not finite:
            print(f"update {step + 1}: loss {loss.item()}, or a gradient, is not finite")
            return 1
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
        if (step + 1) % 1000 == 0:
            minutes = (time.perf_counter() - began) / 60
            print(f"{step + 1} updates, {minutes:.1f} min: mean loss of a line {total / 1000:.1f} nats", flush=True)
            total = 0.0
    print(f"{LONG} updates of 8 lines: every loss and every gradient is finite")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--long", action="store_true")
    options, others = parser.parse_known_args()
    if options.long:
        raise SystemExit(long())
    sys.argv[1:] = others
    title = "An update of DRAW and of handwriting: with LN / without, and against plain ports"
    harness.main(__doc__, "generative", title, 15, rows, reasons)
