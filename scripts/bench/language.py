"""Updates of the language models by normalizer, and the order loss: python scripts/bench/language.py [--rounds N]

An update is forward, backward and the optimizer's step, on word numbers drawn in the lengths of the real sets (captions
of Flickr8k; documents of the novels' and of CNN's questions), at the sizes of the `proxy` and of the papers. LN, and BN
with statistics per step, against no normalization (LN 2016, 6.3: "no significant difference"). The order loss of a
batch of the paper's size against the same by broadcasting, forward and backward; its own seconds are in the table. The
loss over many words in blocks of rows against the plain one over the same rows. Skip-thoughts' layer with LN, and its
encoding, against `nn.GRU`, at its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import harness
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.battery.cost import interleave
from normbench.config.plan import experiment_spec
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.data import captions
from normbench.data.captions import FIRST
from normbench.data.examples import Batch, Ragged, Split
from normbench.models import base, retrieval, softmax
from normbench.models.skip_thoughts import AROUND, SkipThoughts
from normbench.train import optim

SEED = 1
LN_GOAL, BN_GOAL = 1.10, 1.3
BLOCKS_GOAL, LAYER_GOAL, ENCODING_GOAL = 0.8, 0.7, 1 / 0.8
LOSS_GOAL = 30 / 461  # ms, of what broadcasting took where the goal was set


def captioned(spec: Spec) -> Batch:
    """Images of the set's size with captions of 11 words on average, as many as it has."""
    draw, declares = stream(SEED, "bench"), spec.config["data"]["declares"]
    size, words = spec.config["train"]["batch_size"], spec.config["data"]["words"]
    lengths = np.clip(draw.normal(10.8, 4, (size, declares["captions"])), 3, 25).astype(int)
    ragged = captions.joined([draw.integers(FIRST, words, n) for n in image] for image in lengths)
    image = torch.from_numpy(draw.random((size, declares["features"]), dtype=np.float32))
    return Split(image=image, captions=ragged).batch(slice(None))


def asked(spec: Spec, length: int) -> Batch:
    """Documents of up to so many words, questions of up to 25."""
    draw, data = stream(SEED, "bench"), spec.config["data"]
    size = spec.config["train"]["batch_size"]

    def text(longest: int) -> Ragged:
        lengths = draw.integers(longest * 2 // 3, longest + 1, size)
        return Ragged.of(torch.from_numpy(draw.integers(FIRST, data["words"], n)) for n in lengths)

    answer = torch.from_numpy(draw.integers(3, 3 + data["entities"], size))
    return Split(document=text(length), question=text(25), answer=answer).batch(slice(None))


def around(spec: Spec, length: int) -> Batch:
    """A sentence of so many words with its end, all of one length; those around it of up to 30."""
    draw, words = stream(SEED, "bench"), spec.config["data"]["words"]

    def ragged(lengths: np.ndarray) -> Ragged:
        return Ragged.of(torch.from_numpy(draw.integers(FIRST, words, n)) for n in lengths)

    size = spec.config["train"]["batch_size"]
    sentences = ragged(np.full(size, length))
    return Split(sentence=sentences, **{n: ragged(draw.integers(3, 31, size)) for n in AROUND}).batch(slice(None))


def update(spec: Spec, batch: Batch) -> Callable[[], object]:
    model = base.build(spec.config, spec.sites).train()
    optimizer = optim.build(spec.config["optim"], model)

    def step() -> None:
        with base.update(model, SEED, 0):
            loss = model(**batch.tensors)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def compare(
    name: str,
    experiment: str,
    fidelity: str,
    arms: dict[str, float],
    batch: Callable[[Spec], Batch],
    rounds: int,
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


def softmax_loss(rounds: int, words: int, hidden: int) -> harness.Row:
    """The rows of an update: two decoders, 64 sentences each of 16 words on average."""
    draw = torch.Generator().manual_seed(SEED)
    h, weight = (torch.randn(n, hidden, generator=draw).requires_grad_() for n in (2048, words))
    bias, targets = torch.zeros(words).requires_grad_(), torch.randint(words, (2048,), generator=draw)

    def unblocked() -> Tensor:
        log_p = -F.cross_entropy(F.linear(h, weight, bias), targets, reduction="none")
        return softmax.floored(log_p).sum()

    losses = {"ours": lambda: softmax.total(h, weight, bias, targets), "plain": unblocked}
    sides = {n: lambda loss=loss: torch.autograd.grad(loss(), (h, weight, bias)) for n, loss in losses.items()}
    took = interleave(sides, rounds, warmup=1)
    name = f"softmax over {words} words of {hidden}: in blocks / plain"
    return harness.row(name, took["ours"], took["plain"], 1, BLOCKS_GOAL)


def recurrence(rounds: int, hidden: int, features: int, steps: int = 20, batch: int = 64) -> Iterator[harness.Row]:
    """A layer with LN forward and backward, and the encoding of sentences without gradients, against `nn.GRU`."""
    spec = experiment_spec("ln2016/fig3", "ln", "proxy", [f"model.hidden_size={hidden}", f"model.word_size={features}"])
    model = base.build(spec.config, spec.sites)
    assert isinstance(model, SkipThoughts)
    theirs, x = nn.GRU(features, hidden, batch_first=True), torch.randn(batch, steps, features)

    def trained(layer: nn.Module) -> Callable[[], object]:
        return lambda: torch.autograd.grad(layer(x)[0].sum(), list(layer.parameters()))

    took = interleave({"ours": trained(model.encoder), "torch": trained(theirs)}, rounds, warmup=1)
    yield harness.row(f"GRU of {hidden} with LN / nn.GRU", took["ours"], took["torch"], 1, LAYER_GOAL)
    words = torch.randint(FIRST, spec.config["data"]["words"], (batch, steps))

    def encoded(run: Callable[[], object]) -> Callable[[], object]:
        return torch.no_grad()(run)

    sides = {
        "ours": encoded(lambda: model.read(words, words >= 0)),
        "torch": encoded(lambda: theirs(model.embedding(words))[0][:, -1]),
    }
    took = interleave(sides, rounds, warmup=1)
    yield harness.row(f"encoding by {hidden} with LN / nn.GRU", took["ours"], took["torch"], 1, ENCODING_GOAL)


def rows(rounds: int) -> Iterator[harness.Row]:
    yield order_loss(rounds)
    yield from compare("order embeddings", "ln2016/fig1", "proxy", {"ln": LN_GOAL}, captioned, rounds)
    reader = {"ln": LN_GOAL, "bn-lstm": BN_GOAL, "bn-everywhere": BN_GOAL}
    for name, fidelity, length in (("reader, proxy", "proxy", 75), ("reader, CNN", "paper", 120)):
        yield from compare(name, "ln2016/fig2", fidelity, reader, lambda spec, n=length: asked(spec, n), rounds)
    yield softmax_loss(rounds, words=10000, hidden=256)
    # an update at the paper's sizes takes 15 s
    for fidelity, most in (("proxy", rounds), ("reduced", rounds), ("paper", 3)):
        name, times = f"skip-thoughts, {fidelity}", min(rounds, most)
        yield from compare(name, "ln2016/fig3", fidelity, {"ln": LN_GOAL}, lambda spec: around(spec, 16), times)
    yield from recurrence(rounds, hidden=2400, features=620)


if __name__ == "__main__":
    harness.main(__doc__, "language", "An update of the language models: with a normalizer / without", 15, rows)
