"""One step at a time by a backend, for models with feedback; the weights' gradients are computed once, at the end.

`Begin` gives a token to every step, so that autograd reaches `Begin.backward` last. Each step's backward pass stores
the gradients of its products; one product over all steps then gives each weight's gradient. In a backward pass with
`create_graph` the token carries the gradients of all parameters, which the cell's definition computes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from normbench.errors import BadInput
from normbench.rnn.cells import Cell, SequenceWeights, State
from normbench.rnn.fused import by_definition
from normbench.rnn.matmul import Projection, empty
from normbench.rnn.plan import Backend, Plan, Recurrence, Vectors, vectors

CHUNK = 64  # steps that share their arrays; the length of the sequence may be unknown


class Chunk:
    """Arrays of some steps, the backend's run over them, and the steps whose backward pass is done."""

    def __init__(self, steps: Steps, x: Tensor, h: Tensor, c: Tensor, capacity: int) -> None:
        batch, like = len(x), steps.weights[0]  # their type, for the kernel reads memory by address
        self.x, self.z = (empty(like, capacity, batch, size) for size in (x.shape[1], len(like)))
        self.h, self.c = (empty(like, capacity + 1, batch, part.shape[1]) for part in (h, c))
        self.mask = torch.ones(capacity, batch, dtype=torch.bool, device=like.device)
        detached = Vectors(*(v.detach().contiguous() for v in steps.vectors))
        self.run: Backend = steps.backend(Recurrence(steps.plan, detached, self.z, self.h, self.c, self.mask))
        self.back: list[int] = []


class Steps:
    """`loop.Steps` for a cell with a plan."""

    def __init__(
        self, cell: Cell, plan: Plan, backend: type[Backend], weights: SequenceWeights, count: int | None = None
    ) -> None:
        self.chunk = CHUNK if count is None else min(CHUNK, count)
        self.plan, self.backend, self.vectors = plan, backend, vectors(cell)
        self.weights = (weights.weight_ih.detach(), weights.weight_hh.detach())
        inside = cell.biases()[0]
        self.inside = None if inside is None else inside.detach()
        self.inputs = Projection(self.weights[0], weights.input_drop, backend.packs())
        self.states = Projection(self.weights[1], weights.state_drop, backend.packs())
        self.chunks: list[Chunk] = []
        self.t = 0
        self.cell, self.drops = cell, (weights.input_drop, weights.state_drop)
        self.learned = (weights.weight_ih, weights.weight_hh, *cell.parameters())
        self.token: Tensor = Begin.apply(
            self, weights.weight_ih, weights.weight_hh, inside, *self.vectors, *self.learned[2:]
        )

    def __call__(self, x: Tensor, state: State, mask: Tensor | None) -> State:
        h = state[0]
        c = state[1] if len(state) > 1 else h.new_empty(len(h), 0)
        # without gradients there is no backward pass: all steps share one row
        capacity = self.chunk if torch.is_grad_enabled() else 1
        row = self.t % capacity
        if row == 0 and (capacity > 1 or not self.chunks or len(self.chunks[-1].mask) > 1):
            self.chunks.append(Chunk(self, x, h, c, capacity))
        self.t += 1
        new: State = Step.apply(self, self.chunks[-1], row, mask, self.token, x, h, c)
        return new[: len(state)]


class Begin(torch.autograd.Function):
    """Weights, gains and shifts, and the parameters that these were made of -> the token of their steps."""

    @staticmethod
    def forward(ctx: Any, steps: Steps, *learned: Tensor | None) -> Tensor:
        ctx.steps = steps
        ctx.set_materialize_grads(False)
        return steps.weights[0].new_zeros(()).expand(sum(part.numel() for part in steps.learned))

    @staticmethod
    def backward(ctx: Any, token: Tensor | None) -> tuple[Tensor | None, ...]:
        steps, needs, of_chunks = ctx.steps, ctx.needs_input_grad, []
        if token is not None:
            parts = token.split([part.numel() for part in steps.learned])
            of_ih, of_hh, *rest = (part.view_as(of) for part, of in zip(parts, steps.learned, strict=True))
            return None, of_ih, of_hh, *[None] * (1 + len(Vectors._fields)), *rest
        for chunk in steps.chunks:
            if not chunk.back:
                continue
            last = max(chunk.back) + 1
            gradients = chunk.run.finish()
            for t in set(range(last)) - set(chunk.back):  # steps that the loss does not depend on
                gradients.z[t].zero_()
                gradients.u[t].zero_()
            z, u = gradients.z[:last], gradients.u[:last]
            of_chunks.append(
                (
                    steps.inputs.to_weight(z, chunk.x[:last]) if needs[1] else None,
                    steps.states.to_weight(u, chunk.h[:last]) if needs[2] else None,
                    z.sum((0, 1)) if needs[3] else None,
                    *gradients.vectors,
                    *map(gradients.parameters.get, steps.learned[2:]),
                )
            )
        steps.chunks.clear()
        sums = (
            None if parts[0] is None else functools.reduce(torch.add, parts) for parts in zip(*of_chunks, strict=True)
        )
        return None, *sums


class Step(torch.autograd.Function):
    """(token, x_t, h, c) -> the next h and c."""

    @staticmethod
    def forward(
        ctx: Any, steps: Steps, chunk: Chunk, t: int, mask: Tensor | None, _: Tensor, x: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.steps, ctx.chunk, ctx.t, ctx.mask = steps, chunk, t, mask
        ctx.save_for_backward(x, h, c)
        if mask is not None:
            chunk.mask[t] = mask
        chunk.x[t], chunk.h[t], chunk.c[t] = x, h, c
        z = steps.inputs.step(x, chunk.z[t])
        if steps.inside is not None:
            z = z + steps.inside
        if z.data_ptr() != chunk.z[t].data_ptr():
            chunk.z[t] = z
        chunk.run.prepare(slice(t, t + 1))
        chunk.run.forward(t, steps.states.step(chunk.h[t], chunk.run.u[t]))
        return chunk.h[t + 1].clone(), chunk.c[t + 1].clone()

    @staticmethod
    def backward(ctx: Any, dh: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        steps, chunk, t = ctx.steps, ctx.chunk, ctx.t
        if torch.is_grad_enabled():
            (x, h, c), (weight_ih, weight_hh, *parameters) = ctx.saved_tensors, steps.learned
            mask = None if ctx.mask is None else ctx.mask[None]
            given = (x[None], weight_ih, weight_hh, h, c, *parameters)
            ends = (torch.zeros_like(h)[None], dh, dc)
            dx, of_ih, of_hh, of_h, of_c, *rest = by_definition(steps.cell, steps.plan, steps.drops, mask, given, ends)
            learned = zip((of_ih, of_hh, *rest), steps.learned, strict=True)
            token = torch.cat([(torch.zeros_like(of) if d is None else d).flatten() for d, of in learned])
            return *[None] * 4, token, None if dx is None else dx[0], of_h, of_c
        if t in chunk.back:
            raise BadInput(
                "a second backward pass over steps with feedback: the first one has released their values. "
                "NORMBENCH_RNN=loop keeps it."
            )
        if not chunk.back:
            chunk.run.begin(*map(torch.zeros_like, (chunk.h[1:], chunk.c[0], chunk.h[0])), every=False)
        chunk.back.append(t)
        run, needs = chunk.run, ctx.needs_input_grad
        run.dc.copy_(dc)
        run.carry.zero_()
        run.backward(t, dh.contiguous())
        dz = run.dz(t)  # in any case: the weight's gradient needs it
        return (
            *[None] * 5,
            steps.inputs.to_input(dz) if needs[5] else None,
            steps.states.to_input(run.du[t]) + run.carry if needs[6] else None,
            run.dc.clone(),
        )
