"""The recurrences of `step.c` as a `Backend`."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from normbench.norms import kernel
from normbench.norms.fused import BATCH
from normbench.rnn.matmul import Projection, empty, fastest, one_step_for_all
from normbench.rnn.plan import Backend, Gradients, Recurrence, Vectors

ARRAYS = ("z", "u", "h", "c", "stats", "mask")
GRADIENTS = ("dz", "du", "dc", "carry", *(f"d{name}" for name in Vectors._fields))
PRODUCT = ("packed", "dh")
SCRATCH, BENT, GROUP = 8, 9, 8  # of step.c
IN_CACHE = 1 << 19  # bytes of W x of some steps, which are read again at once
CACHED = 1 << 22  # bytes of W_h up to which the kernel's own products are as fast as those of several threads


class Job(ctypes.Structure):
    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("batch", "hidden", "update_old")],
        ("kind", ctypes.c_int64 * 4),
        ("apart", ctypes.c_int64),
        ("eps", ctypes.c_double * 4),
        ("clip", ctypes.c_double),
        *[(name, ctypes.c_void_p) for name in (*ARRAYS, *Vectors._fields, "dout", *GRADIENTS, "scratch", *PRODUCT)],
        ("moments", ctypes.c_void_p * 4),
        *[(name, ctypes.c_void_p) for name in ("seen", "sums", "curved", "x", "packed_x", "gathered")],
        *[(name, ctypes.c_int64) for name in ("inputs", "down", "right", "some")],
    )


class Run(Backend):
    """The `Backend` for the CPU; the gradients of z and u take the place of z and u."""

    overwrites = True

    def __init__(self, recurrence: Recurrence) -> None:
        plan, vectors, z, h, c, mask, moments, saved, keep = recurrence
        self.plan, self.z, self.vectors, self.moments = plan, z, vectors, moments
        steps, batch, width = z.shape
        self.job = Job(batch=batch, hidden=plan.hidden, update_old=plan.update_old, kind=plan.kinds, eps=plan.eps)
        self.job.clip, self.job.apart = plan.clip / max(batch, 1), c.stride(0)
        if saved:
            self.u, self.stats = saved
        else:
            self.u = empty(z, *z.shape) if keep else one_step_for_all(z)
            self.stats = z.new_empty(steps, batch, 8 if plan.gru else 6)
        self._point(**{"u" if keep else "scratch": self.u})
        self.step_bytes = batch * width * z.element_size() if keep else 0
        self._point(z=z, h=h, c=c, stats=self.stats, **vectors._asdict())
        if mask is not None:
            self._point(mask=mask)
        self.rows = batch if plan.over_rows else 1  # of scratch
        self.curved = z.new_empty((batch if plan.over_rows else GROUP) * BENT * plan.hidden)
        self._point(curved=self.curved)
        if plan.over_rows:
            self.job.moments[:] = [of_norm.data_ptr() for of_norm in moments]
            self.seen = torch.empty_like(c[0])  # c as normalized over rows
            self._point(seen=self.seen)
        suffix, _ = kernel.REALS[z.dtype]
        library, cell = kernel.load(), "gru" if plan.gru else "lstm"
        self._forward, self._backward, self._forward_all, self._backward_all = (
            getattr(library, f"{cell}_{name}_{suffix}") for name in kernel.FUNCTIONS
        )
        self.address, self.u_address = ctypes.addressof(self.job), self.u.data_ptr() if keep else -1

    def _point(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            setattr(self.job, name, tensor.data_ptr())

    @staticmethod
    def packs() -> bool:
        return fastest()

    def saved(self) -> list[Tensor]:
        return [self.u, self.stats]

    def restore(self, z: Tensor, u: Tensor) -> None:
        self.z.data.copy_(z)
        self.u.data.copy_(u)
        if self.plan.over_rows:
            parts = [*self.z.data.split(self.plan.blocks, -1), *self.u.data.split(self.plan.blocks, -1)]
            for at, part in zip((0, 2, 1, 3) if self.plan.gru else (0, 1), parts, strict=True):
                if self.plan.kinds[at] >= BATCH:  # as the forward pass had left them
                    mean, root, _ = self.moments[at].unbind(1)
                    part.sub_(mean[:, None]).mul_(root[:, None])

    def forward(self, t: int, u: Tensor) -> None:
        at = u.data_ptr()
        self._forward(self.address, t, None if at == self.u_address + t * self.step_bytes else at)

    def forward_all(self, projection: Projection) -> bool:
        """All steps in one call, if the kernel's own products are the better ones."""
        if not _makes_products(projection):
            return False
        self._point(packed=projection.ahead[0].values)
        self._forward_all(self.address, len(self.z), None)
        return True

    @classmethod
    def infer(cls, recurrence: Recurrence, x: Tensor, inputs: Projection, projection: Projection) -> bool:
        """As `forward_all`, with the products of x (T, B, features) too: some steps at a time, whose z stays cached."""
        if recurrence.plan.over_rows or inputs.drop is not None or x.stride(2) != 1 or not _makes_products(projection):
            return False
        step = x.shape[1] * len(inputs.weight)
        some = min(len(x), max(1, IN_CACHE // (step * x.element_size())))
        run = cls(recurrence._replace(z=x.new_empty(some, x.shape[1], len(inputs.weight))))
        gathered = x.new_empty(some, *x.shape[1:])
        run._point(packed=projection.ahead[0].values, packed_x=inputs.ahead[0].values, x=x, gathered=gathered)
        run.job.inputs, run.job.down, run.job.right, run.job.some = x.shape[2], x.stride(0), x.stride(1), some
        run._forward_all(run.address, len(x), None)
        return True

    def backward_all(self, projection: Projection, dh: Tensor) -> bool:
        """The same of the backward steps; dh is overwritten by what reaches h_0 through the products."""
        if not _makes_products(projection):
            return False
        self.dh = dh
        self._point(packed=projection.back[0].values, dh=dh)
        self._backward_all(self.address, len(self.z), None)
        return True

    def begin(self, dout: Tensor, dc: Tensor, carry: Tensor, every: bool = True) -> None:
        self.dout, self.dc, self.carry, self.du = dout, dc, carry, self.u
        self.sums = Vectors(*(torch.zeros_like(v) for v in self.vectors))
        self.scratch = self.z.new_empty(self.rows * SCRATCH * self.job.hidden)
        if self.plan.over_rows:
            self.column_sums = self.z.new_empty(2 * self.z.shape[-1])
            self._point(sums=self.column_sums)
        self._point(dout=dout, dc=dc, carry=carry, dz=self.z, du=self.u, scratch=self.scratch)
        self._point(**{f"d{name}": tensor for name, tensor in self.sums._asdict().items()})

    def backward(self, t: int, dh: Tensor) -> None:
        self._backward(self.address, t, dh.data_ptr())

    def dz(self, t: int) -> Tensor:
        """The gradient of z[t], after its backward step."""
        return self.z[t]

    def finish(self) -> Gradients:
        return Gradients(self.z, self.u, self.sums)


def _makes_products(projection: Projection) -> bool:
    """Whether the kernel makes the products with W_h too: it has one thread, and fetches large weights ahead."""
    cached = projection.weight.numel() * projection.weight.element_size() <= CACHED
    return projection.drop is None and (projection.packs or cached or torch.get_num_threads() == 1)
