"""Updates of the language models by normalizer, and the order loss: python scripts/bench/language.py [--rounds N]

An update is forward, backward and the optimizer's step, on word numbers drawn in the lengths of the real sets (captions
of Flickr8k; documents of the novels' and of CNN's questions), at the sizes of the `proxy` and of the papers. LN, and BN
with statistics per step, against no normalization (LN 2016, 6.3: "no significant difference"). The order loss of a
batch of the paper's size against the same by broadcasting, forward and backward; its own seconds are in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import harness
import numpy as np
import torch
from torch import Tensor

from normbench.battery.cost import interleave
from normbench.config.identity import RunSpec
from normbench.config.plan import experiment_spec
from normbench.data import captions
from normbench.data.captions import FIRST
from normbench.data.examples import Batch, Ragged, Split
from normbench.models import base, retrieval
from normbench.streams import stream
from normbench.train import optim

SEED = 1
LN_GOAL, BN_GOAL = 1.10, 1.3
LOSS_GOAL = 30 / 461  # ms, of what broadcasting took where the goal was set


def captioned(spec: RunSpec) -> Batch:
    """Images of the set's size with captions of 11 words on average, as many as it has."""
    draw, declares = stream(SEED, "bench"), spec.config["data"]["declares"]
    size, words = spec.config["train"]["batch_size"], spec.config["data"]["words"]
    lengths = np.clip(draw.normal(10.8, 4, (size, declares["captions"])), 3, 25).astype(int)
    ragged = captions.joined([draw.integers(FIRST, words, n) for n in image] for image in lengths)
    image = torch.from_numpy(draw.random((size, declares["features"]), dtype=np.float32))
    return Split(image=image, captions=ragged).batch(slice(None))


def asked(spec: RunSpec, length: int) -> Batch:
    """Documents of up to so many words, questions of up to 25."""
    draw, data = stream(SEED, "bench"), spec.config["data"]
    size = spec.config["train"]["batch_size"]

    def text(longest: int) -> Ragged:
        lengths = draw.integers(longest * 2 // 3, longest + 1, size)
        return Ragged.of(torch.from_numpy(draw.integers(FIRST, data["words"], n)) for n in lengths)

    answer = torch.from_numpy(draw.integers(3, 3 + data["entities"], size))
    return Split(document=text(length), question=text(25), answer=answer).batch(slice(None))


def update(spec: RunSpec, batch: Batch) -> Callable[[], object]:
    model = base.build(spec.config, spec.sites()).train()
    optimizer = optim.build(spec.config["optim"], model)

    def step() -> None:
        with base.update(model, SEED, 0):
            loss = model(**batch.tensors)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def compare(
    name: str, experiment: str, fidelity: str, arms: dict[str, float], batch: Callable[[RunSpec], Batch], rounds: int
) -> Iterator[harness.Row]:
    specs = {arm: experiment_spec(experiment, arm, fidelity, [f"seed={SEED}"]) for arm in ("none", *arms)}
    given = batch(specs["none"])
    took = interleave({arm: update(spec, given) for arm, spec in specs.items()}, rounds, warmup=2)
    for arm, goal in arms.items():
        yield harness.row(f"{name}: {arm} / none", took[arm], took["none"], 1, goal)


def order_loss(rounds: int) -> harness.Row:
    draw = stream(SEED, "bench")
    s, v = (torch.from_numpy(draw.random((128, 1024), dtype=np.float32)).requires_grad_() for _ in range(2))

    def by_broadcasting(a: Tensor, b: Tensor) -> Tensor:
        return (a[:, None] - b).clamp_min(0).square().sum(-1)

    def both_ways(errors: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(retrieval.contrastive(errors(s, v), 0.05), (s, v))

    sides = {"ours": both_ways(retrieval.order_violation), "broadcast": both_ways(by_broadcasting)}
    took = interleave(sides, rounds, warmup=2)
    return harness.row(
        "order loss, 128 x 128 x 1024: ours / broadcasting", took["ours"], took["broadcast"], 1, LOSS_GOAL
    )


def rows(rounds: int) -> Iterator[harness.Row]:
    yield order_loss(rounds)
    yield from compare("order embeddings", "ln2016/fig1", "proxy", {"ln": LN_GOAL}, captioned, rounds)
    reader = {"ln": LN_GOAL, "bn-lstm": BN_GOAL, "bn-everywhere": BN_GOAL}
    for name, fidelity, length in (("reader, proxy", "proxy", 75), ("reader, CNN", "paper", 120)):
        yield from compare(name, "ln2016/fig2", fidelity, reader, lambda spec, n=length: asked(spec, n), rounds)


if __name__ == "__main__":
    harness.main(__doc__, "language", "An update of the language models: with a normalizer / without", 15, rows)
