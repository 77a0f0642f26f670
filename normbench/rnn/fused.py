"""Whole sequences as one autograd function: the recurrence's forward and backward pass written out.

A step is a matrix product and one call of the backend for everything element-wise; what is not recurrent, the product
with all inputs and the sums for the weights' gradients, is one product over all steps. The equations are those of
`cells`; tests hold the three together.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from normbench.errors import BadInput
from normbench.norms.derivatives import differentiable
from normbench.rnn import plan as plans
from normbench.rnn.cells import Cell, SequenceWeights, State
from normbench.rnn.matmul import Projection, empty
from normbench.rnn.plan import Backend, Plan, Recurrence, Vectors, learn, prepare_moments, vectors


class Sequence(torch.autograd.Function):
    """(x, weights, h_0, c_0, gains and shifts) -> outputs (T, B, H), the last h and c.

    Of a backward pass with `create_graph` the cell's own parameters have the gradients, in the place of the gains and
    shifts that were made of them: it differentiates the cell's definition.
    """

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        plan: Plan,
        backend: type[Backend],
        keep: bool,
        mask: Tensor | None,
        drops: tuple[Tensor | None, Tensor | None],
        moments: list[Tensor],
        x: Tensor,
        weight_ih: Tensor,
        inside: Tensor | None,
        weight_hh: Tensor,
        h0: Tensor,
        c0: Tensor,
        *learned: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        pairs = zip((weight_ih, weight_hh), drops, strict=True)
        inputs, projection = (Projection(weight, drop, backend.packs()) for weight, drop in pairs)
        gains_and_shifts = learned[: len(Vectors._fields)]
        h = _states(h0, len(x))
        c = _states(c0, len(x)) if keep else c0.clone().expand(len(h), *c0.shape)
        v = Vectors(*(part.contiguous() for part in gains_and_shifts))
        whole = Recurrence(plan, v, x.new_empty(0), h, c, mask, moments, keep=keep)
        if not keep and inside is None and backend.infer(whole, x, inputs, projection):
            return h[1:].data, h[-1].clone(), c[-1].clone()
        at_once = len(x) if keep else inputs.at_once(x)
        products: Tensor | None = None
        for first in range(0, len(x), at_once):
            rows, states = slice(first, first + at_once), slice(first, first + at_once + 1)
            z = products = input_projection(inputs, x[rows], inside, products)
            part, of_part = None if mask is None else mask[rows], [m[rows] for m in moments]
            run = backend(whole._replace(z=z, h=h[states], c=c[states], mask=part, moments=of_part))
            run.prepare(slice(0, len(z)))
            if run.forward_all(projection):
                continue
            for t, (state, u) in enumerate(zip(h[states][:-1].unbind(0), run.u.unbind(0), strict=True)):
                run.forward(t, projection.step(state, u))
        if keep:
            saved = (*gains_and_shifts, *moments, *run.saved())
            ctx.cell, ctx.plan, ctx.backend, ctx.drops, ctx.spent = cell, plan, backend, drops, False
            ctx.parameters = learned[len(gains_and_shifts) :]
            ctx.save_for_backward(x, weight_ih, inside, weight_hh, h0, c0, mask, z, h, c, *saved)
        # copies: the caller may change them in place
        return h[1:].clone() if keep else h[1:].data, h[-1].clone(), c[-1].clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dh: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_ih, inside, weight_hh, h0, c0, mask, z, h, c, *rest = ctx.saved_tensors
        if torch.is_grad_enabled():
            given = (x, weight_ih, weight_hh, h0, c0, *ctx.parameters)
            gradients = by_definition(ctx.cell, ctx.plan, ctx.drops, mask, given, (dy, dh, dc))
            x, weight_ih, weight_hh, h0, c0, *parameters = gradients
            vectors = [None] * len(Vectors._fields)
            return *[None] * 7, x, weight_ih, None, weight_hh, h0, c0, *vectors, *parameters
        v, moments, saved = Vectors(*(part.contiguous() for part in rest[:7])), rest[7:11], rest[11:]
        pairs = zip((weight_ih, weight_hh), ctx.drops, strict=True)
        inputs, projection = (Projection(weight, drop, ctx.backend.packs()) for weight, drop in pairs)
        run = ctx.backend(Recurrence(ctx.plan, v, z, h, c, mask, moments, saved))
        if ctx.spent and run.overwrites:  # a first pass has left gradients where z and u were
            run.restore(input_projection(inputs, x, inside), projection.all(h[:-1]))
        ctx.spent = True
        run.begin(dy.contiguous(), dc.clone(), torch.zeros_like(dh))
        dh = dh.clone()
        if not run.backward_all(projection, dh):
            for t in reversed(range(len(z))):
                run.backward(t, dh)
                dh = projection.to_input(run.du[t])
        gradients = run.finish()
        needs = ctx.needs_input_grad
        return (
            *[None] * 7,
            inputs.to_input(gradients.z) if needs[7] else None,
            inputs.to_weight(gradients.z, x) if needs[8] else None,
            gradients.z.sum((0, 1)) if needs[9] else None,
            projection.to_weight(gradients.u, h[:-1]) if needs[10] else None,
            dh + run.carry,
            run.dc,
            *gradients.vectors,
            *map(gradients.parameters.get, ctx.parameters),
        )


def by_definition(
    cell: Cell,
    plan: Plan,
    drops: tuple[Tensor | None, Tensor | None],
    mask: Tensor | None,
    given: tuple[Tensor, ...],
    gradients: tuple[Tensor, ...],
) -> list[Tensor | None]:
    """The gradients of x, both weights, h_0, c_0 and the cell's parameters, under autograd.

    gradients: of the outputs, the last h and c. The cell's definition computes them; running averages do not change.
    """
    if plans.plan(cell) != plan:
        raise BadInput(f"{cell.place}: its mode or an option changed between a forward pass and create_graph.")
    names, buffers = [name for name, _ in cell.named_parameters()], dict(cell.named_buffers())

    def outputs(
        x: Tensor, weight_ih: Tensor, weight_hh: Tensor, h0: Tensor, c0: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        tensors = dict(zip(names, parameters, strict=True)) | {name: buffer.clone() for name, buffer in buffers.items()}
        weights, state = SequenceWeights(weight_ih, weight_hh, *drops), (h0, c0)[: cell.states]
        y, end = functional_call(cell, tensors, (x, mask, state, weights))
        return y, *end

    return differentiable(outputs, given, gradients[: 1 + cell.states])


def input_projection(inputs: Projection, x: Tensor, inside: Tensor | None, out: Tensor | None = None) -> Tensor:
    z = inputs.all(x, out)
    return z if inside is None else z.add_(inside)


def _states(first: Tensor, steps: int) -> Tensor:
    states = empty(first, steps + 1, *first.shape)
    states[0] = first
    return states


def sequence(
    cell: Cell,
    plan: Plan,
    backend: type[Backend],
    x: Tensor,
    mask: Tensor | None,
    state: State,
    weights: SequenceWeights,
) -> tuple[Tensor, State]:
    """Outputs (T, B, H) and last state of a cell that has a plan; arguments as `loop.unroll`."""
    h0 = state[0]
    c0 = state[1] if len(state) > 1 else h0.new_empty(*h0.shape[:-1], 0)
    gains_and_shifts, moments = vectors(cell), prepare_moments(cell, plan, len(x))
    learned = (x, weights.weight_ih, cell.biases()[0], weights.weight_hh, h0, c0, *gains_and_shifts)
    of_elements = [parameter for element in plan.elements.values() for parameter in element.parameters]
    keep = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (*learned, *of_elements))
    apply = Sequence.apply if keep else functools.partial(Sequence.forward, None)
    y, h, c = apply(
        cell,
        plan,
        backend,
        keep,
        None if mask is None else mask.contiguous(),
        (weights.input_drop, weights.state_drop),
        moments,
        *learned,
        *(cell.parameters() if keep else ()),
    )
    if plan.over_rows:
        learn(cell, plan, moments, x.new_ones(x.shape[:2]) if mask is None else mask)
    return y, (h, c)[: cell.states]
