"""W x with what the time loop needs of it: fast products, dropout masks, gradients asked for one by one."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

SMALL = 4e6  # operations below which a call's overhead counts for more than its speed


@functools.cache
def onednn() -> bool:
    """Whether oneDNN's products are the faster ones: MKL keeps to AVX2 on processors that are not Intel's.

    96 against 215 GFLOP/s on one core of an AMD EPYC with AVX-512.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    return torch.backends.mkl.is_available() and "AVX512" in torch.backends.cpu.get_cpu_capability() and not _intel()


def _intel() -> bool:
    try:
        with open("/proc/cpuinfo") as file:
            return "GenuineIntel" in file.read(4096)
    except OSError:
        return True


def matmul(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a (n, k) times b (k, m); perhaps into `out`, but it is the result that counts."""
    if a.dtype == torch.float32 and 2 * a.numel() * b.shape[1] >= SMALL and onednn():
        result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)


class Product:
    """W x for rows x (..., B, features), each gate's x under its own dropout mask where there are some.

    drop (gates or 1, B, features) or None; the weight's rows are the gates, one after the other.
    """

    def __init__(self, weight: Tensor, drop: Tensor | None) -> None:
        self.weight, self.drop = weight, drop
        self.parts = [weight] if drop is None or len(drop) == 1 else list(weight.chunk(len(drop)))

    def _masked(self, x: Tensor) -> list[Tensor]:
        return [x] if self.drop is None else [x * mask for mask in self.drop]

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """(..., B, rows of W)."""
        parts = [
            matmul(rows.flatten(0, -2), weight.t(), out if len(self.parts) == 1 else None)
            for rows, weight in zip(self._masked(x), self.parts, strict=True)
        ]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).view(*x.shape[:-1], -1)

    def to_input(self, d: Tensor) -> Tensor:
        """The gradient of x from that of the product."""
        parts = [
            matmul(rows.flatten(0, -2), weight).view(*d.shape[:-1], -1)
            for rows, weight in zip(d.chunk(len(self.parts), -1), self.parts, strict=True)
        ]
        if self.drop is not None:
            parts = [part * mask for part, mask in zip(parts, self.drop, strict=True)]
        return functools.reduce(torch.add, parts)

    def to_weight(self, d: Tensor, x: Tensor) -> Tensor:
        """The gradient of W, summed over all rows."""
        pairs = zip(d.chunk(len(self.parts), -1), self._masked(x), strict=True)
        return torch.cat([matmul(part.flatten(0, -2).t(), rows.flatten(0, -2)) for part, rows in pairs])
