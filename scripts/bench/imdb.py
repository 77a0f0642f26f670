"""A training step of BLN's RNN against a loop over its steps: python scripts/bench/imdb.py [--rounds N] [--output DIR]

A step is forward and backward of the whole network on 80 words a review (LSTM layers of 128 and 64 on embeddings of
512), with dropout on inputs and state. The loop is what one writes in PyTorch for want of a fast layer with recurrent
dropout: with masks per gate four `F.linear` on masked inputs and four on masked states at each word, with shared masks
an `nn.LSTMCell` on masked inputs and states; `nn.Embedding`. Same weights, same masks; that both compute the same is
checked on loss and gradients. The update of the weights, nearly all of them the embedding's, is the same for both: a
row of its own has it as a share of our step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import harness
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.battery.cost import interleave
from normbench.config.plan import train_specs
from normbench.core.streams import stream
from normbench.models import base
from normbench.models.imdb_rnn import ImdbRNN
from normbench.rnn.cells import SequenceWeights
from normbench.train import optim

SEED, GOAL = 1, 1 / 1.5
TORCH_ORDER = (1, 0, 3, 2)  # our rows f, i, o, g in the order i, f, g, o


class Loop(nn.Module):
    """The same network, word by word; it takes the masks that ours has drawn."""

    def __init__(self, ours: ImdbRNN, per_gate: bool) -> None:
        super().__init__()
        words, features = ours.embedding.weight.shape
        self.embedding = nn.Embedding(words, features)
        self.cells = nn.ModuleList()
        for layer in ours.lstm:
            self.cells.append(nn.LSTMCell(layer.input_size, layer.hidden_size))
        self.dense, self.logit = nn.Linear(*ours.dense.linear.weight.shape[::-1]), nn.Linear(ours.logit.in_features, 1)
        self.per_gate, self.weights = per_gate, list[SequenceWeights]()
        self.copy(ours)

    @torch.no_grad()
    def copy(self, ours: ImdbRNN) -> None:
        self.embedding.load_state_dict(ours.embedding.state_dict())
        self.dense.load_state_dict(ours.dense.linear.state_dict())
        self.logit.load_state_dict(ours.logit.state_dict())
        for cell, layer in zip(self.cells, ours.lstm, strict=True):
            (our_cell,) = layer.cells
            rows = in_torch_order(layer.hidden_size)
            cell.weight_ih.copy_(our_cell.weight_ih[rows])
            cell.weight_hh.copy_(our_cell.weight_hh[rows])
            cell.bias_ih.zero_()[layer.hidden_size : 2 * layer.hidden_size] = our_cell.forget_bias
            cell.bias_hh.zero_()

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        h = self.embedding(inputs)
        for cell, weights in zip(self.cells, self.weights, strict=True):
            state = (h.new_zeros(len(h), cell.hidden_size),) * 2
            step, outputs = self.gatewise if self.per_gate else self.shared, []
            for x in h.unbind(1):
                state = step(cell, weights, x, state)
                outputs.append(state[0])
            h = torch.stack(outputs, 1)
        logits = self.logit(torch.tanh(self.dense(h[:, -1]))).squeeze(-1)
        return F.binary_cross_entropy_with_logits(logits, targets.float())

    def shared(
        self, cell: nn.LSTMCell, weights: SequenceWeights, x: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        h, c = state
        new: tuple[Tensor, Tensor] = cell(x * weights.input_drop[0], (h * weights.state_drop[0], c))  # type: ignore[index]  # drawn here
        return new

    def gatewise(
        self, cell: nn.LSTMCell, weights: SequenceWeights, x: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        h, c = state
        parts = zip(cell.weight_ih.chunk(4), cell.weight_hh.chunk(4), cell.bias_ih.chunk(4), TORCH_ORDER, strict=True)
        i, f, g, o = (
            F.linear(x * weights.input_drop[k], w, b) + F.linear(h * weights.state_drop[k], u)  # type: ignore[index]  # drawn here
            for w, u, b, k in parts
        )
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


def in_torch_order(hidden: int) -> Tensor:
    return torch.cat([torch.arange(hidden) + gate * hidden for gate in TORCH_ORDER])


def refuse_difference(ours: ImdbRNN, loop: Loop, losses: tuple[Tensor, Tensor]) -> None:
    """Loss and gradients of one update by both."""
    rows = in_torch_order(ours.lstm[0].hidden_size)
    pairs = [
        losses,
        (ours.embedding.weight.grad, loop.embedding.weight.grad),
        (ours.lstm[0].cells[0].weight_hh.grad[rows], loop.cells[0].weight_hh.grad),
        (ours.dense.linear.weight.grad, loop.dense.weight.grad),
    ]
    for first, second in pairs:
        if (first - second).abs().max() > 1e-4 * second.abs().max():
            raise SystemExit("our step and the loop compute different things")


def compare(batch: int, per_gate: bool, rounds: int, *words: str) -> Iterator[harness.Row]:
    choice = str(per_gate).lower()
    (spec,) = train_specs(
        ["model=imdb_rnn", f"train.batch_size={batch}", f"model.per_gate={choice}", *words], multirun=False
    )
    ours = base.build(spec.config, spec.sites).train()
    assert isinstance(ours, ImdbRNN)
    draw = stream(SEED, "bench")
    inputs = torch.from_numpy(draw.integers(0, spec.config["data"]["words"], (batch, spec.config["data"]["length"])))
    targets = torch.from_numpy(draw.integers(0, 2, batch))
    loop = Loop(ours, per_gate)
    masks = stream(SEED, "dropout", 0)

    def our_step() -> Tensor:
        with base.update(ours, SEED, 0):
            loss = ours(inputs, targets)
        loss.backward()
        return loss.detach()

    def their_step() -> Tensor:
        loss: Tensor = loop(inputs, targets)
        loss.backward()
        return loss.detach()

    def cleared(step: Callable[[], Tensor], model: nn.Module) -> Callable[[], object]:
        def call() -> None:
            step()
            model.zero_grad()

        return call

    for layer in ours.lstm:
        (cell,) = layer.cells
        loop.weights.append(cell.sequence_weights(batch, masks))
    refuse_difference(ours, loop, (our_step(), their_step()))
    # what is updated has gradients of its own, which the steps beside it do not touch
    updated = base.build(spec.config, spec.sites)
    for to, of in zip(updated.parameters(), ours.parameters(), strict=True):
        to.grad = of.grad
    optimizer = optim.build(spec.config["optim"], updated)
    ours.zero_grad()
    sides = {"ours": cleared(our_step, ours), "loop": cleared(their_step, loop), "update": optimizer.step}
    took = interleave(sides, rounds, warmup=2)
    name = f"batch {batch}, masks {'per gate' if per_gate else 'shared'}"
    other = "four products a step" if per_gate else "nn.LSTMCell"
    yield harness.row(f"{name}: ours / loop of {other}", took["ours"], took["loop"], 1, GOAL)
    if per_gate:
        yield harness.row(f"batch {batch}: update of the weights / our step", took["update"], took["ours"], 1)


def rows(rounds: int) -> Iterator[harness.Row]:
    for batch in (25, 1):
        for per_gate in (True, False):
            yield from compare(batch, per_gate, rounds)


if __name__ == "__main__":
    title = "Training step of BLN's RNN on IMDB, with recurrent dropout: ours / a loop over the words"
    harness.main(__doc__, "imdb", title, 15, rows)
