"""The element-wise part of a step in torch's own operations: what `step.c` does where there is no compiler."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from normbench.rnn.plan import LAYER, NONE, Gradients, Plan, Vectors
from normbench.rnn.product import Product, empty, products_of_one_step


def norm(x: Tensor, kind: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) rstd over the last axis, and both moments; 0 and 1 without a normalizer."""
    if kind == NONE:
        return x, x.new_zeros(()), x.new_ones(())
    if kind == LAYER:
        y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], None, None, eps)
        return y, mean, rstd
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd, x.new_zeros(()), rstd


def unnorm(dy: Tensor, x: Tensor, kind: int, mean: Tensor, rstd: Tensor) -> Tensor:
    """The gradient of x from that of (x - mean) rstd."""
    if kind == NONE:
        return dy
    if kind == LAYER:
        found: Tensor = torch.ops.aten.native_layer_norm_backward(
            dy, x, x.shape[-1:], mean, rstd, None, None, [True, False, False]
        )[0]
        return found
    normed = x * rstd
    return rstd * (dy - normed * (dy * normed).mean(-1, keepdim=True))


class Run:
    """One sequence, forward or backward: step t of all arrays (T, B, ...); see `fused.Sequence`."""

    overwrites = False

    def __init__(
        self,
        plan: Plan,
        vectors: Vectors,
        z: Tensor,
        h: Tensor,
        c: Tensor,
        mask: Tensor | None,
        saved: Sequence[Tensor] = (),
        keep: bool = True,
    ) -> None:
        self.plan, self.v, self.z, self.h, self.c, self.mask = plan, vectors, z, h, c, mask
        width = z.shape[-1]
        self.blocks = [slice(0, 2 * plan.hidden), slice(2 * plan.hidden, width)] if plan.gru else [slice(0, width)]
        if saved:
            self.u, self.gates = saved
        else:
            self.u = empty(z, *z.shape) if keep else products_of_one_step(z)
            self.gates = empty(z, *z.shape)

    def saved(self) -> list[Tensor]:
        return [self.u, self.gates]

    def restore(self, z: Tensor, u: Tensor) -> None:
        """Nothing: gradients have places of their own."""

    def _normed(self, x: Tensor, hidden: bool) -> Tensor:
        parts = []
        for index, block in enumerate(self.blocks):
            at = 2 * index + hidden
            parts.append(norm(x[..., block], self.plan.kinds[at], self.plan.eps[at])[0])
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def _term(self, x: Tensor, hidden: bool) -> Tensor:
        """N(x) times its gain, without the shift."""
        if all(kind == NONE for kind in self.plan.kinds[hidden : 2 * len(self.blocks) : 2]):
            return x
        return self._normed(x, hidden) * (self.v.gain_h if hidden else self.v.gain_x)

    def prepare(self, rows: slice) -> None:
        """The input's term of these steps."""
        torch.add(self._term(self.z[rows], False), self.v.shift, out=self.gates[rows])

    def forward(self, t: int, u: Tensor) -> None:
        """h[t + 1] and c[t + 1] from u, the product with h[t]."""
        if u.data_ptr() != self.u[t].data_ptr():
            self.u[t].copy_(u)
        (self._gru if self.plan.gru else self._lstm)(t, self._term(u, True))
        if self.mask is not None:
            old = ~self.mask[t, :, None]
            for states in (self.h, self.c)[: 1 if self.plan.gru else 2]:
                torch.where(old, states[t], states[t + 1], out=states[t + 1])

    def forward_all(self, product: Product) -> bool:
        return False

    def backward_all(self, product: Product, dh: Tensor) -> bool:
        return False

    def _lstm(self, t: int, hidden: Tensor) -> None:
        n, gates = self.plan.hidden, self.gates[t]
        gates += hidden
        f, i, o = gates[:, : 3 * n].sigmoid_().chunk(3, -1)
        c = torch.mul(f, self.c[t], out=self.c[t + 1]).addcmul_(i, gates[:, 3 * n :].tanh_())
        if self.mask is not None:
            c = torch.where(self.mask[t, :, None], c, self.c[t])
        torch.mul(o, self._seen(c), out=self.h[t + 1])

    def _seen(self, c: Tensor) -> Tensor:
        if self.plan.kinds[2] == NONE:
            return c.tanh()
        y, _, _ = norm(c, self.plan.kinds[2], self.plan.eps[2])
        return (y * self.v.gain_c).add_(self.v.shift_c).tanh_()

    def _gru(self, t: int, hidden: Tensor) -> None:
        n, gates = self.plan.hidden, self.gates[t]
        gates[:, : 2 * n].add_(hidden[:, : 2 * n]).sigmoid_()
        share, r, new = gates.chunk(3, -1)
        new.addcmul_(r, hidden[:, 2 * n :] + self.v.shift_h).tanh_()
        old = share if self.plan.update_old else 1 - share
        torch.lerp(new, self.h[t], old, out=self.h[t + 1])

    def begin(self, dout: Tensor, dc: Tensor, carry: Tensor) -> None:
        """Before the first backward step: gradients of all outputs, of the last c, and of h past the products."""
        self.dout, self.dc, self.carry = dout, dc, carry
        self.d, self.du = torch.zeros_like(self.z), torch.zeros_like(self.z)
        self.dhidden = torch.zeros_like(self.z) if self.plan.gru else self.d  # of N(u) gain, of N(z) gain it is d
        self.dseen = torch.zeros_like(self.c[1:])

    def backward(self, t: int, dh: Tensor) -> None:
        """du[t], d[t]; dc and carry go on to step t - 1."""
        dh = (dh + self.dout[t]).add_(self.carry)
        valid = None if self.mask is None else self.mask[t, :, None]
        whole = dh
        if valid is not None:
            dh = dh * valid
        if self.plan.gru:
            self.carry = self._gru_back(t, dh)
        else:
            self._lstm_back(t, dh, valid)
            self.carry = torch.zeros_like(dh)
        if valid is not None:  # rows that keep their state pass its gradient on whole
            self.carry = torch.where(valid, self.carry, whole)
        d = self.dhidden[t]
        for index, block in enumerate(self.blocks):
            at = 2 * index + 1
            if (kind := self.plan.kinds[at]) == NONE:
                self.du[t, :, block] = d[:, block]
                continue
            x = self.u[t, :, block]
            _, mean, rstd = norm(x, kind, self.plan.eps[at])
            self.du[t, :, block] = unnorm(d[:, block] * self.v.gain_h[block], x, kind, mean, rstd)

    def _lstm_back(self, t: int, dh: Tensor, valid: Tensor | None) -> None:
        f, i, o, g = self.gates[t].chunk(4, -1)
        d = self.d[t]
        df, di, do, dg = d.chunk(4, -1)
        c = self.c[t + 1]
        squashed = self._seen(c)
        torch.mul(dh * squashed, o - o * o, out=do)
        dseen = torch.mul(dh * o, 1 - squashed * squashed, out=self.dseen[t])
        if (kind := self.plan.kinds[2]) != NONE:
            _, mean, rstd = norm(c, kind, self.plan.eps[2])
            dseen = unnorm(dseen * self.v.gain_c, c, kind, mean, rstd)
        dc = self.dc + dseen
        if valid is not None:
            passed, dc = self.dc.masked_fill(valid, 0), dc * valid
        torch.mul(dc * self.c[t], f - f * f, out=df)
        torch.mul(dc * g, i - i * i, out=di)
        torch.mul(dc * i, 1 - g * g, out=dg)
        self.dc = dc * f if valid is None else dc * f + passed

    def _gru_back(self, t: int, dh: Tensor) -> Tensor:
        n = self.plan.hidden
        share, r, new = self.gates[t].chunk(3, -1)
        hidden = self._term(self.u[t], True)[:, 2 * n :] + self.v.shift_h
        part = 1 - share if self.plan.update_old else share
        dz, dr, dn = self.d[t].chunk(3, -1)
        torch.mul(dh * part, 1 - new * new, out=dn)
        torch.mul(dn * hidden, r - r * r, out=dr)
        torch.mul(dh * (new - self.h[t]), share - share * share, out=dz)
        if self.plan.update_old:
            dz.neg_()
        self.dhidden[t] = self.d[t]
        torch.mul(dn, r, out=self.dhidden[t, :, 2 * n :])
        return dh * (1 - part)

    def dz(self, t: int) -> Tensor:
        """The gradient of z[t], after its backward step."""
        return self._dz(self.d[t], self.z[t])

    def _dz(self, d: Tensor, z: Tensor) -> Tensor:
        parts = []
        for index, block in enumerate(self.blocks):
            if (kind := self.plan.kinds[2 * index]) == NONE:
                parts.append(d[..., block])
                continue
            x = z[..., block]
            _, mean, rstd = norm(x, kind, self.plan.eps[2 * index])
            parts.append(unnorm(d[..., block] * self.v.gain_x[block], x, kind, mean, rstd))
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def finish(self) -> Gradients:
        """Gradients of z and u, and of the vectors, summed over steps and rows."""
        over, n = (0, 1), self.plan.hidden
        dgain_x = (self.d * self._normed(self.z, False)).sum(over)
        dgain_h = (self.dhidden * self._normed(self.u, True)).sum(over)
        if self.plan.gru:
            empty = self.v.gain_c
            of_vectors = Vectors(dgain_x, dgain_h, self.d.sum(over), self.dhidden[..., 2 * n :].sum(over), empty, empty)
        else:
            seen = norm(self.c[1:], self.plan.kinds[2], self.plan.eps[2])[0]
            of_vectors = Vectors(
                dgain_x,
                dgain_h,
                self.d.sum(over),
                self.v.shift_h,
                (self.dseen * seen).sum(over),
                self.dseen.sum(over),
            )
        return Gradients(self._dz(self.d, self.z), self.du, of_vectors)
