"""The backend of a recurrence: the C kernel, torch's operations, or none of them (the reference loop)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from normbench.norms import kernel
from normbench.norms.kernel import chosen
from normbench.rnn import aten, native
from normbench.rnn.matmul import Projection, onednn
from normbench.rnn.plan import Gradients, Plan, Vectors


class Backend(Protocol):
    """The element-wise operations of one sequence, forward or backward. The caller makes the matrix products.

    `fused` takes all steps of a sequence, `stepwise` one at a time, from 0 up and back. Forward: `prepare`, then
    `forward_all`, or `forward` for each step. Backward: `begin`, then `backward_all`, or `backward` for each step, and
    `finish`. All tensors are on one device and of the cell's dtype, each step contiguous.

    Args:
        plan, vectors: the cell's.
        z: W_x x of all steps, with the bias inside, (T, B, gates H).
        h, c: the states, (T + 1, B, H), of which the first is given and the others are written; c of a GRU (T + 1, B,
            0), and where no backward pass will come one for all steps.
        mask: (T, B), true where the step is valid, or None.
        saved: for a backward pass, what `saved` of the forward pass gave.
        keep: false where no backward pass will come.
        moments: of a plan with normalizers over rows, as `plan.prepare_moments` made them; a forward pass writes those
            that are not given.
    """

    overwrites: ClassVar[bool]  # gradients of z and u take the place of z and u
    u: Tensor  # the products W_h h, (T, B, gates H)
    du: Tensor  # their gradient, from `begin` on
    dc: Tensor  # the gradient of the c before the step that came back last, (B, H)
    carry: Tensor  # the same of h, as far as it does not go through the product

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
        moments: Sequence[Tensor] = (),
    ) -> None: ...

    @staticmethod
    def packs() -> bool:
        """Whether the caller's products are to be the kernel's."""
        ...

    def saved(self) -> list[Tensor]:
        """The tensors that a backward pass needs besides the arguments of this one."""
        ...

    def restore(self, z: Tensor, u: Tensor) -> None:
        """Put z and u back, where a first backward pass has overwritten them and a second one begins."""
        ...

    def prepare(self, rows: slice) -> None:
        """The input's term of these steps, before the first of them."""
        ...

    def forward(self, t: int, u: Tensor) -> None:
        """h[t + 1] and c[t + 1] from u, the product with h[t], which may lie in u[t] of this run or elsewhere."""
        ...

    def forward_all(self, projection: Projection) -> bool:
        """All steps, products included; false, and nothing done, where these are better made one by one."""
        ...

    @classmethod
    def infer(
        cls,
        plan: Plan,
        vectors: Vectors,
        x: Tensor,
        inputs: Projection,
        projection: Projection,
        h: Tensor,
        c: Tensor,
        mask: Tensor | None,
    ) -> bool:
        """All steps from x (T, B, features) on, for no backward pass; false, and nothing done, where it cannot."""
        ...

    def begin(self, dout: Tensor, dc: Tensor, carry: Tensor, every: bool = True) -> None:
        """Before the first backward step: gradients of all outputs, of the last c, and of the last h past the product.

        every: false where some steps may not come back: they add nothing to the vectors' gradients, and their rows of
            the gradients of z and u mean nothing.
        """
        ...

    def backward(self, t: int, dh: Tensor) -> None:
        """du[t], and dc and carry for step t - 1, from dh, which is what reaches h[t + 1] through the product."""
        ...

    def backward_all(self, projection: Projection, dh: Tensor) -> bool:
        """All steps, as `forward_all`; dh is overwritten by what reaches h[0] through the product."""
        ...

    def dz(self, t: int) -> Tensor:
        """The gradient of z[t], after its backward step, where steps were prepared one by one."""
        ...

    def finish(self) -> Gradients:
        """Gradients of z and u, and of the vectors, summed over steps and rows."""
        ...


BACKENDS: dict[str, type[Backend]] = {"c": native.Run, "aten": aten.Run}


def current(device: torch.device | str = "cpu") -> type[Backend] | None:
    """The backend for tensors on this device, as `kernel.chosen` says; None: the reference loop."""
    return BACKENDS.get(chosen(device))


def describe(device: torch.device | str = "cpu") -> str:
    """The backend and its compiler, on which the last bits of a recurrent model's curve depend."""
    backend = current(device)
    name = "loop" if backend is None else f"C, {kernel.compiler()}" if backend is native.Run else "ATen"
    if torch.device(device).type != "cpu":
        return f"{name}; products by torch on {torch.device(device).type}"
    by_kernel = "the kernel and " if backend is not None and backend.packs() else ""
    return f"{name}; products by {by_kernel}{'oneDNN' if onednn() else 'BLAS'}"
