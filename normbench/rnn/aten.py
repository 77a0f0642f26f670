"""The element-wise part of a step in torch's operations, for every device; `step.c` is the same for the CPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normbench.norms.fused import BATCH, ERF, FIXED, LAYER, LAYER_OUT, NONE, RMS_MIN, TANH, VALID
from normbench.rnn.cells import plus
from normbench.rnn.matmul import Projection, empty, matmul, one_step_for_all
from normbench.rnn.plan import Backend, Element, Gradients, Recurrence, Vectors

aten = torch.ops.aten
Moments = tuple[Tensor, Tensor]
ALL = -1  # in the place of a step: all of them
AT_ONCE = 1 << 17  # numbers of an element-wise normalizer's input


def norm(x: Tensor, kind: int, eps: float, gain: Tensor, shift: Tensor | None) -> tuple[Tensor, Moments]:
    """gain (x - mean) rstd + shift over the last axis, and both moments; without a normalizer x + shift."""
    if kind == LAYER:
        y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], gain, shift, eps)
        return y, (mean, rstd)
    if kind == NONE:
        return plus(x, shift), (gain, gain)
    if kind == LAYER_OUT:
        mean = x.mean(-1, keepdim=True)
        x = x - mean
        rstd = 1 / (x.square().mean(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny).sqrt() + eps)
    elif kind == RMS_MIN:
        rstd = mean = 1 / x.square().mean(-1, keepdim=True).sqrt().clamp(min=eps)
    else:
        rstd = mean = (x.square().mean(-1, keepdim=True) + eps).rsqrt()  # a mean that RMS has no use for
    return plus(x * rstd * gain, shift), (mean, rstd)


def unnorm(dy: Tensor, x: Tensor, kind: int, eps: float, moments: Moments, gain: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and of gain, this one summed over rows."""
    if kind == LAYER:
        dx, dgain, _ = aten.native_layer_norm_backward(dy, x, x.shape[-1:], *moments, gain, None, [True, True, False])
        return dx, dgain
    if kind == NONE:
        return dy, torch.zeros_like(gain)
    mean, rstd = moments
    normed, d = (x - mean if kind == LAYER_OUT else x) * rstd, dy * gain
    dot = (d * normed).mean(-1, keepdim=True)
    if kind == LAYER_OUT:  # r = 1 / (s + eps), dr / ds = -r^2: the factor (s + eps) / s
        share = 1 - eps * rstd
        dot = torch.where(share > 0, dot / share, 0)
        d = d - d.mean(-1, keepdim=True)
    if kind == RMS_MIN:
        dot = torch.where(rstd < 1 / eps, dot, 0)
    return rstd * (d - normed * dot), (dy * normed).flatten(0, -2).sum(0)


class Columns:
    """Normalization over the rows of x (B, F) at one site of the plan; `given`: the moments of its steps exist."""

    def __init__(
        self, kind: int, eps: float, moments: Tensor, mask: Tensor | None, batch: int, given: bool = False
    ) -> None:
        self.given = given or kind == FIXED
        self.kind, self.eps = BATCH if kind == VALID and mask is None else kind, eps
        self.mean, self.root, self.variance = (part.unbind(0) for part in moments.split(1, 1))
        ones = moments.new_ones(len(moments), batch)
        valid = ones if self.kind != VALID or mask is None else mask.to(moments)
        self.counted = valid[:, :, None].unbind(0)
        count = valid.sum(1).clamp(min=1)[:, None, None]
        self.count = count.unbind(0)
        self.share = (valid[:, None] / count).unbind(0)  # a product with it is the mean over the rows that count
        self.any = valid.any(1)[:, None, None].unbind(0)

    def norm(self, t: int, x: Tensor, gain: Tensor, shift: Tensor | None) -> Tensor:
        if self.given:
            centred = x - self.mean[t]
        else:
            centred = x - torch.mm(self.share[t], x, out=self.mean[t])
            variance = torch.mm(self.share[t], centred.square(), out=self.variance[t])
            torch.rsqrt(variance + self.eps, out=self.root[t])
            if self.kind == VALID:
                self.root[t].mul_(self.any[t])
        y = centred.mul_(self.root[t] * gain)
        return y if shift is None else y.add_(shift)

    def unnorm(self, t: int, dy: Tensor, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of x and of gain, this one summed over rows."""
        normed = (x - self.mean[t]).mul_(self.root[t])
        product = dy * normed
        if self.kind == FIXED:
            return dy * (self.root[t] * gain), product.sum(0)
        dot = torch.mm(self.share[t], product)
        dx = torch.sub(dy, normed.mul_(dot).add_(torch.mm(self.share[t], dy)), out=product)
        dx.mul_(self.root[t] * gain)
        return dx.mul_(self.counted[t]) if self.kind == VALID else dx, (dot * self.count[t])[0]


class Elements:
    """The backward pass of an element-wise normalizer, for x (T, B, features): some steps at once, as the cache holds.

    Their slopes are known before the first of them comes back; the parameters' gradients are made after the last.
    """

    def __init__(self, element: Element, x: Tensor) -> None:
        self.element, self.x, self.at_once = element, x, max(1, AT_ONCE // max(1, x[0].numel()))
        self.first, self.learned = -1, dict[Tensor, Tensor]()

    def back(self, t: int, dy: Tensor) -> Tensor:
        """The gradient of x[t]."""
        if self.first != (first := t // self.at_once * self.at_once):
            self.leave()
            self.first = first
            self.given, self.y = self._again(slice(first, first + self.at_once))
            (self.slope,) = self._gradients(self.y, [self.given], torch.ones_like(self.y))
            self.dy = torch.zeros_like(self.y)
        self.dy[t - first] = dy
        return dy * self.slope[t - first]

    def back_all(self, dy: Tensor) -> Tensor:
        dx = torch.empty_like(dy)
        for first in range(0, len(dy), self.at_once):
            steps = slice(first, first + self.at_once)
            given, y = self._again(steps)
            dx[steps], *gradients = self._gradients(y, [given, *self.element.parameters], dy[steps])
            self._learn(gradients)
        return dx

    def leave(self) -> None:
        """Add up what the steps since the last call say of the parameters."""
        if self.first >= 0:
            self._learn(self._gradients(self.y, self.element.parameters, self.dy))
        self.first = -1

    def _again(self, steps: slice) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            given = self.x[steps].detach().requires_grad_()
            return given, self.element.apply(given.flatten(0, 1)).view(given.shape)

    @staticmethod
    def _gradients(y: Tensor, inputs: Sequence[Tensor], dy: Tensor) -> list[Tensor]:
        """Of a constant zeros."""
        if not (y.requires_grad and inputs):
            return [torch.zeros_like(x) for x in inputs]
        gradients = torch.autograd.grad(y, inputs, dy, True, allow_unused=True)
        return [torch.zeros_like(x) if d is None else d for x, d in zip(inputs, gradients, strict=True)]

    def _learn(self, gradients: Sequence[Tensor]) -> None:
        for parameter, d in zip(self.element.parameters, gradients, strict=True):
            self.learned[parameter] = self.learned[parameter] + d if parameter in self.learned else d


class Run(Backend):
    """The `Backend` for every device: step t of all arrays (T, B, ...)."""

    def __init__(self, recurrence: Recurrence) -> None:
        self.plan, self.v, self.z, self.h, self.c, self.mask, moments, saved, keep = recurrence
        plan, z, c = self.plan, self.z, self.c
        ends = [0, *itertools.accumulate(plan.blocks)]
        self.blocks = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.columns = {
            at: Columns(kind, plan.eps[at], moments[at], self.mask, z.shape[1], bool(saved))
            for at, kind in enumerate(plan.kinds)
            if kind >= BATCH
        }
        self.done = len(z) if saved else 0  # steps forward
        # by index of plan.kinds and by step: moments, and of the input by the first row of what was prepared at once
        self.moments: dict[tuple[int, int], Moments] = {}
        if saved:
            self.u, self.gates, self.squashed, self.keys, *parts = saved
            pairs = zip(parts[::2], parts[1::2], strict=True)
            self.moments = dict(zip(map(tuple, self.keys.tolist()), pairs, strict=True))
        else:
            self.u = empty(z, *z.shape) if keep else one_step_for_all(z)
            self.gates, self.squashed = empty(z, *z.shape), empty(c, *c[1:].shape)

    def saved(self) -> list[Tensor]:
        flat = [moment for pair in self.moments.values() for moment in pair]
        return [self.u, self.gates, self.squashed, torch.tensor(list(self.moments)), *flat]

    def _norm(self, at: int, t: int, x: Tensor, gain: Tensor, shift: Tensor | None) -> Tensor:
        if at in self.columns:
            return self.columns[at].norm(t, x, gain, shift)
        if at in self.plan.elements:
            return plus(self.plan.elements[at].apply(x.flatten(0, -2)).view(x.shape), shift)
        if self.plan.kinds[at] in (TANH, ERF):
            inside = self._inside(at, x)
            y = (inside.tanh_() if self.plan.kinds[at] == TANH else inside.erf_()).mul_(gain)
            return y if shift is None else y.add_(shift)
        y, self.moments[at, t] = norm(x, self.plan.kinds[at], self.plan.eps[at], gain, shift)
        return y

    def _unnorm(self, at: int, t: int, dy: Tensor, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        if at in self.columns:
            return self.columns[at].unnorm(t, dy, x, gain)
        if at in self.elements:
            element = self.elements[at]
            if dy.dim() == 2:
                return element.back(t, dy), torch.zeros_like(gain)
            is_all_steps = len(dy) == len(self.z)
            return element.back_all(dy) if is_all_steps else element.back(t, dy[0])[None], torch.zeros_like(gain)
        if self.plan.kinds[at] in (TANH, ERF):
            return self._uncurve(at, dy, x, gain)
        return unnorm(dy, x, self.plan.kinds[at], self.plan.eps[at], self.moments[at, t], gain)

    def _inside(self, at: int, x: Tensor) -> Tensor:
        return torch.addcmul(self.v.inside[2 * at + 1], self.v.inside[2 * at], x)

    def _uncurve(self, at: int, dy: Tensor, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        """As `unnorm`; in few places, for all steps at once are large."""
        inside = self._inside(at, x)
        if self.plan.kinds[at] == TANH:
            slope = (y := inside.tanh_()).square().neg_().add_(1)
        else:
            slope = inside.square().neg_().exp_().mul_(2 / math.sqrt(math.pi))
            y = inside.erf_()
        dgain, d = y.mul_(dy).flatten(0, -2).sum(0), slope.mul_(dy).mul_(gain)
        self.sums.inside[2 * at : 2 * at + 2] += torch.stack([torch.mul(d, x, out=y).sum(), d.sum()])
        return d.mul_(self.v.inside[2 * at]), dgain

    def prepare(self, rows: slice) -> None:
        """The input's term of these steps."""
        for index, block in enumerate(self.blocks):
            x, gain, shift = self.z[rows][..., block], self.v.gain_x[block], self.v.shift[block]
            if 2 * index not in self.columns:
                self.gates[rows][..., block] = self._norm(2 * index, rows.start, x, gain, shift)
                continue
            for t in range(rows.start, rows.stop):
                self.gates[t][..., block] = self._norm(2 * index, t, self.z[t][..., block], gain, shift)

    def forward(self, t: int, u: Tensor) -> None:
        """h[t + 1] and c[t + 1] from u, the product with h[t]."""
        self.done = t + 1
        if u.data_ptr() != self.u[t].data_ptr():
            self.u[t].copy_(u)
        if self.plan.gru:
            self._gru(t, u)
        else:
            self._lstm(t, self._norm(1, t, u, self.v.gain_h, None))
        if self.mask is not None:
            torch.where(self.mask[t, :, None], self.h[t + 1], self.h[t], out=self.h[t + 1])

    def forward_all(self, projection: Projection) -> bool:
        """All steps of an LSTM without a mask, with or without layer normalization of u and c: a few calls for each."""
        if not self._usual(projection):
            return False
        n, (_, hidden, cell, _), (_, eps_u, eps_c, _) = self.plan.hidden, self.plan.kinds, self.plan.eps
        f, i, o, g = (part.unbind(0) for part in self.gates.chunk(4, -1))
        sigmoids, gates = self.gates[..., : 3 * n].unbind(0), self.gates.unbind(0)
        us, hs, cs, squashed = (part.unbind(0) for part in (self.u, self.h, self.c, self.squashed))
        moments: dict[int, list[list[Tensor]]] = {1: [], 2: []}
        (weight,) = projection.transposed
        for t, u in enumerate(us):
            normed_u = matmul(hs[t], weight, u)
            if normed_u is not u:
                u.copy_(normed_u)
            if hidden == LAYER:
                normed_u, *moments_u = torch.native_layer_norm(u, [4 * n], self.v.gain_h, None, eps_u)
                moments[1].append(moments_u)
            gates[t].add_(normed_u)
            sigmoids[t].sigmoid_()
            normed_c = torch.mul(f[t], cs[t], out=cs[t + 1]).addcmul_(i[t], g[t].tanh_())
            if cell == LAYER:
                normed_c, *moments_c = torch.native_layer_norm(normed_c, [n], self.v.gain_c, self.v.shift_c, eps_c)
                moments[2].append(moments_c)
            else:
                normed_c = normed_c + self.v.shift_c
            torch.mul(o[t], torch.tanh(normed_c, out=squashed[t]), out=hs[t + 1])
        for at, of_steps in moments.items():
            if of_steps:
                mean, rstd = map(torch.stack, zip(*of_steps, strict=True))
                self.moments[at, ALL] = mean, rstd
        return True

    def _usual(self, projection: Projection) -> bool:
        plan = self.plan
        plain = self.mask is None and projection.drop is None and not (plan.gru or plan.scaled or plan.elements)
        return plain and math.isinf(plan.clip) and all(kind in (NONE, LAYER) for kind in plan.kinds[1:3])

    def _lstm(self, t: int, hidden: Tensor) -> None:
        n, gates, c = self.plan.hidden, self.gates[t], self.c[t + 1]
        gates += hidden
        f, i, o = gates[:, : 3 * n].sigmoid_().chunk(3, -1)
        new = torch.mul(f, self.c[t], out=c if self.mask is None else torch.empty_like(c))
        new.addcmul_(i, gates[:, 3 * n :].tanh_())
        if self.mask is not None:
            torch.where(self.mask[t, :, None], new, self.c[t], out=c)
        normed_c = self._norm(2, t, c, self.v.gain_c, self.v.shift_c)
        normed_c = normed_c * self.v.gain_c if self.plan.scaled else normed_c
        torch.mul(o, torch.tanh(normed_c, out=self.squashed[t]), out=self.h[t + 1])

    def _candidate(self, t: int, u: Tensor) -> Tensor:
        return self._norm(3, t, u[:, self.blocks[1]], self.v.gain_h[self.blocks[1]], self.v.shift_h)

    def _gru(self, t: int, u: Tensor) -> None:
        n, gates = self.plan.hidden, self.gates[t]
        both = self._norm(1, t, u[:, self.blocks[0]], self.v.gain_h[self.blocks[0]], None)
        share, r = gates[:, : 2 * n].add_(both).sigmoid_().chunk(2, -1)
        new = gates[:, 2 * n :].addcmul_(r, self._candidate(t, u)).tanh_()
        torch.lerp(new, self.h[t], share if self.plan.update_old else 1 - share, out=self.h[t + 1])

    def begin(self, dout: Tensor, dc: Tensor, carry: Tensor, every: bool = True) -> None:
        self.dout, self.dc, self.carry = dout, dc, carry
        self.d, self.du = (empty(self.z, *self.z.shape) for _ in range(2))
        if not every:
            self.d.zero_()
            self.du.zero_()
        self.elements = {
            at: Elements(element, self._steps(at)[: self.done]) for at, element in self.plan.elements.items()
        }
        self.dz_all: Tensor | None = None
        self.sums = Vectors(*(torch.zeros_like(v) for v in self.v))

    def backward_all(self, projection: Projection, dh: Tensor) -> bool:
        """What does not depend on later steps is made for all of them at once, before and after."""
        if not self._usual(projection):
            return False
        n, kinds, v, of_u, of_c = self.plan.hidden, self.plan.kinds, self.v, [4 * self.plan.hidden], [self.plan.hidden]
        f, i, o, g = self.gates.chunk(4, -1)
        aten.sigmoid_backward.grad_input(self.c[:-1], f, grad_input=self.d[..., :n])
        aten.sigmoid_backward.grad_input(g, i, grad_input=self.d[..., n : 2 * n])
        aten.sigmoid_backward.grad_input(self.squashed, o, grad_input=self.d[..., 2 * n : 3 * n])
        aten.tanh_backward.grad_input(i, g, grad_input=self.d[..., 3 * n :])
        dseen = aten.tanh_backward(o, self.squashed)
        d, of_f, us, cs, dseens, douts = (part.unbind(0) for part in (self.d, f, self.u, self.c, dseen, self.dout))
        of_two = self.d[..., : 2 * n].unflatten(-1, (2, n)).unbind(0)
        of_o, of_g = self.d[..., 2 * n : 3 * n].unbind(0), self.d[..., 3 * n :].unbind(0)
        moments = {at: tuple(part.unbind(0) for part in self.moments[at, ALL]) for at in (1, 2) if kinds[at] == LAYER}
        backward, alone = aten.native_layer_norm_backward, [True, False, False]
        dus, dc, reaching = [], self.dc, dh + self.carry
        for t in reversed(range(len(d))):
            reaching.add_(douts[t])
            dcell = dseens[t].mul_(reaching)
            if 2 in moments:
                mean, rstd = moments[2][0][t], moments[2][1][t]
                dcell, _, _ = backward(dcell, cs[t + 1], of_c, mean, rstd, v.gain_c, None, alone)
            dc.add_(dcell)
            of_two[t].mul_(dc[:, None])
            of_g[t].mul_(dc)
            of_o[t].mul_(reaching)
            dc.mul_(of_f[t])
            du = d[t]
            if 1 in moments:
                du, _, _ = backward(du, us[t], of_u, moments[1][0][t], moments[1][1][t], v.gain_h, None, alone)
            dus.append(du)
            reaching = matmul(du, projection.weight)
        torch.stack(dus[::-1], out=self.du)
        if 1 in moments:
            gains = backward(self.d, self.u, of_u, *self.moments[1, ALL], v.gain_h, None, [False, True, False])
            self.sums.gain_h.add_(gains[1])
        if 2 in moments:
            gains = backward(dseen, self.c[1:], of_c, *self.moments[2, ALL], v.gain_c, None, [False, True, False])
            self.sums.gain_c.add_(gains[1])
        self.sums.shift_c.add_(dseen.sum((0, 1)))
        self.carry = dh.new_zeros(())
        dh.copy_(reaching)
        return True

    def _steps(self, at: int) -> Tensor:
        """What is normalized at that place of plan.kinds, (T, B, features)."""
        if not self.plan.gru and at == 2:
            return self.c[1:]
        return (self.u if at % 2 else self.z)[..., self.blocks[at // 2]]

    def backward(self, t: int, dh: Tensor) -> None:
        """du[t], d[t]; dc and carry go on to step t - 1."""
        dh_of_all = dh = (dh + self.dout[t]).add_(self.carry)
        valid = None if self.mask is None else self.mask[t, :, None]
        if valid is not None:
            dh = dh * valid
        direct = self._gru_back(t, dh) if self.plan.gru else self._lstm_back(t, dh, valid)
        # rows that keep their state pass its gradient on whole
        self.carry = direct if valid is None else torch.where(valid, direct, dh_of_all)

    def _lstm_back(self, t: int, dh: Tensor, valid: Tensor | None) -> Tensor:
        n, gates, d, squashed = self.plan.hidden, self.gates[t], self.d[t], self.squashed[t]
        f, i, o, g = gates.chunk(4, -1)
        df, di, do, dg = d.chunk(4, -1)
        torch.mul(dh, squashed, out=do)
        dseen = aten.tanh_backward(dh * o, squashed)
        behind = dseen * self.v.gain_c if self.plan.scaled else dseen
        dcell, dgain = self._unnorm(2, t, behind, self.c[t + 1], self.v.gain_c)
        self.sums.gain_c.add_(dgain)
        self.sums.shift_c.add_(dseen.sum(0))
        dc = self.dc + dcell
        if valid is not None:
            # rows that keep their c may still have counted in its statistics
            passed, dc = (dc if 2 in self.columns else self.dc).masked_fill(valid, 0), dc * valid
        torch.mul(dc, self.c[t], out=df)
        torch.mul(dc, g, out=di)
        torch.mul(dc, i, out=dg)
        aten.sigmoid_backward.grad_input(d[:, : 3 * n], gates[:, : 3 * n], grad_input=d[:, : 3 * n])
        aten.tanh_backward.grad_input(dg, g, grad_input=dg)
        if math.isfinite(self.plan.clip):
            d.clamp_(-(bound := self.plan.clip / len(d)), bound)
        self.dc = dc * f if valid is None else dc * f + passed
        self.du[t], dgain = self._unnorm(1, t, d, self.u[t], self.v.gain_h)
        self.sums.gain_h.add_(dgain)
        return dh.new_zeros(())

    def _gru_back(self, t: int, dh: Tensor) -> Tensor:
        n, (both, candidate), gates, d, u = self.plan.hidden, self.blocks, self.gates[t], self.d[t], self.u[t]
        share, r, new = gates.chunk(3, -1)
        part = 1 - share if self.plan.update_old else share
        dz, dr, dn = d.chunk(3, -1)
        aten.tanh_backward.grad_input(dh * part, new, grad_input=dn)
        torch.mul(dn, self._candidate(t, u), out=dr)
        torch.mul(dh, self.h[t] - new if self.plan.update_old else new - self.h[t], out=dz)
        aten.sigmoid_backward.grad_input(d[:, : 2 * n], gates[:, : 2 * n], grad_input=d[:, : 2 * n])
        dhidden = dn * r
        self.sums.shift_h.add_(dhidden.sum(0))
        for at, block, dy in ((1, both, d[:, both]), (3, candidate, dhidden)):
            self.du[t][:, block], dgain = self._unnorm(at, t, dy, u[:, block], self.v.gain_h[block])
            self.sums.gain_h[block].add_(dgain)
        return dh * (1 - part)

    def dz(self, t: int) -> Tensor:
        """The gradient of z[t], after its backward step, where steps were prepared one by one."""
        if self.dz_all is None:
            self.dz_all = torch.zeros_like(self.z)
        self.dz_all[t] = self._dz(slice(t, t + 1))[0]
        return self.dz_all[t]

    def _dz(self, rows: slice) -> Tensor:
        parts = []
        for index, block in enumerate(self.blocks):
            d, x, gain = self.d[rows][..., block], self.z[rows][..., block], self.v.gain_x[block]
            if 2 * index not in self.columns:
                dx, dgain = self._unnorm(2 * index, rows.start, d, x, gain)
            else:
                pairs = [self._unnorm(2 * index, rows.start + k, d[k], x[k], gain) for k in range(len(x))]
                dxs, dgains = zip(*pairs, strict=True)
                dx, dgain = torch.stack(dxs), torch.stack(dgains).sum(0)
            self.sums.gain_x[block].add_(dgain)
            parts.append(dx)
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def finish(self) -> Gradients:
        """Gradients of z and u, and of the vectors, summed over steps and rows."""
        dz = self._dz(slice(0, len(self.z))) if self.dz_all is None else self.dz_all
        learned: dict[Tensor, Tensor] = {}
        for element in self.elements.values():
            element.leave()
            learned |= element.learned
        return Gradients(dz, self.du, self.sums._replace(shift=self.d.sum((0, 1))), learned)
