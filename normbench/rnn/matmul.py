"""W x for the time loop: fast products, dropout masks, and each gradient by itself."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from normbench.norms import kernel

SMALL = 4e6  # operations below which a call's overhead counts for more than its speed
ROWS, SUMMED = 1024, 4096  # of a product over all steps, made or summed at once: more fall out of the cache
HUGE = 1 << 22  # bytes above which memory is asked for in large pages
MADV_HUGEPAGE = 14
VECTOR = 16  # numbers of the kernel's widest vector


@functools.cache
def onednn() -> bool:
    """Whether oneDNN's products are the faster ones on the CPU: MKL keeps to AVX2 on processors that are not Intel's.

    96 against 215 GFLOP/s on one core of an AMD EPYC with AVX-512.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    return torch.backends.mkl.is_available() and "AVX512" in torch.backends.cpu.get_cpu_capability() and not _intel()


def fastest() -> bool:
    """Whether the kernel's own products are the fastest ones: 113 GFLOP/s on one core of an AMD EPYC with AVX-512, with
    oneDNN 100 and with MKL 90. On an Intel Xeon with AVX-512 they are not: 99, with oneDNN 101 and with MKL 111 (1024
    rows, 400 to 1600). They have one thread, and have not been measured on processors other than x86.
    """
    wide = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    return wide and torch.get_num_threads() == 1 and not _intel()


@functools.cache
def _intel() -> bool:
    try:
        with open("/proc/cpuinfo") as file:
            return "GenuineIntel" in file.read(4096)
    except OSError:
        return True


def empty(like: Tensor, *shape: int) -> Tensor:
    """`torch.empty` as `like`; on the CPU a large one in pages of 2 MB: fresh small ones cost more than the writing."""
    made = like.new_empty(shape)
    size = made.numel() * made.element_size()
    if size >= HUGE and made.is_cpu and (advise := _madvise()) is not None:
        first = -(-made.data_ptr() // 4096) * 4096
        advise(first, size - (first - made.data_ptr()), MADV_HUGEPAGE)
    return made


def one_step_for_all(like: Tensor) -> Tensor:
    """As (T, B, features), but all steps share the same memory: for passes without a backward pass."""
    return like.new_empty(1, *like.shape[1:]).expand(like.shape)


@functools.cache
def _madvise() -> Callable[[int, int, int], object] | None:
    if not sys.platform.startswith("linux"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise


class Packed:
    """b (k, m) in the order in which the kernel's product reads it."""

    def __init__(self, b: Tensor) -> None:
        self.shape = b.shape
        self.values = b.new_empty(b.shape[0] * -(-b.shape[1] // VECTOR) * VECTOR)
        kernel.call("pack", *b.stride(), *b.shape, b, self.values)

    def matmul(self, a: Tensor, out: Tensor | None = None) -> Tensor:
        """a (n, k) times b. Errors: RuntimeError, as torch's, for what does not fit: the kernel goes by addresses."""
        depth, columns = self.shape
        if (a.shape[1], a.dtype, a.device) != (depth, self.values.dtype, self.values.device):
            raise RuntimeError(f"{a.dtype} {tuple(a.shape)} on {a.device} cannot be multiplied by {self.shape}")
        out = empty(a, len(a), columns) if out is None else out
        kernel.call("product", len(a), depth, columns, a.contiguous(), self.values, out)
        return out


def matmul(a: Tensor, b: Tensor | Packed, out: Tensor | None = None) -> Tensor:
    """a (n, k) times b (k, m); perhaps into `out`, but it is the result that counts."""
    if isinstance(b, Packed):
        return b.matmul(a, out)
    if a.dtype == torch.float32 and 2 * a.numel() * b.shape[1] >= SMALL and onednn() and a.is_cpu:
        if not (b.is_contiguous() or b.t().is_contiguous()):
            b = b.contiguous()  # for other strides oneDNN has only its reference: a thousand times as long
        result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)


def tall_matmul(a: Tensor, b: Tensor | Packed, out: Tensor | None = None) -> Tensor:
    """a (n, k) times b (k, m) for a great n; perhaps into `out`."""
    if isinstance(b, Packed) or len(a) * b.shape[1] * a.element_size() <= 2 * HUGE or not a.is_cpu:
        return matmul(a, b, out)
    out = empty(a, len(a), b.shape[1])
    for rows, into in zip(a.split(ROWS), out.split(ROWS), strict=True):
        product = matmul(rows, b, into)
        if product is not into:
            into.copy_(product)
    return out


class Projection:
    """W x for rows x (..., B, features), each gate's x under its own dropout mask where there are some.

    drop (gates or 1, B, features) or None; the weight's rows are the gates, one after the other. packs: the products
    are the kernel's.
    """

    def __init__(self, weight: Tensor, drop: Tensor | None, packs: bool = False) -> None:
        self.weight, self.drop, self.packs = weight, drop, packs
        self.parts = [weight] if drop is None or len(drop) == 1 else list(weight.chunk(len(drop)))

    @functools.cached_property
    def transposed(self) -> list[Tensor]:
        """For steps: few rows make the product bound by reading W, and this is the order in which it is read."""
        return [part.t().contiguous() for part in self.parts]

    @functools.cached_property
    def ahead(self) -> Sequence[Packed]:
        return [Packed(part.t()) for part in self.parts]

    @functools.cached_property
    def back(self) -> Sequence[Packed]:
        return [Packed(part) for part in self.parts]

    def at_once(self, x: Tensor) -> int:
        """How many steps of x (T, B, features) to take together, where W x is of no use after its step.

        As many as `tall_matmul` has in one product, for the same bits; all of them where whole steps do not fill it.
        """
        size = x.shape[1] * len(self.weight) * x.element_size()
        fitting = x.is_cpu and len(x) * size > 2 * HUGE and ROWS % x.shape[1] == 0
        return ROWS // x.shape[1] if fitting else len(x)

    def _masked(self, x: Tensor) -> list[Tensor]:
        return [x] if self.drop is None else [x * mask for mask in self.drop]

    def all(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """W x of all steps (T, B, features): (T, B, rows of W); perhaps into the first of `out`."""
        ahead: Sequence[Tensor | Packed] = self.ahead if self.packs else [part.t() for part in self.parts]
        into = None if out is None or len(self.parts) > 1 else out[: len(x)].flatten(0, 1)
        parts = [tall_matmul(rows.flatten(0, 1), part, into) for rows, part in zip(self._masked(x), ahead, strict=True)]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).view(*x.shape[:2], -1)

    def step(self, x: Tensor, out: Tensor) -> Tensor:
        """W x of one step (B, features); perhaps into `out`, but it is the result that counts."""
        ahead: Sequence[Tensor | Packed] = self.ahead if self.packs else self.transposed
        if self.drop is None:
            return matmul(x, ahead[0], out)
        pairs = zip(self._masked(x), ahead, strict=True)
        parts = [matmul(rows, part) for rows, part in pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def to_input(self, d: Tensor) -> Tensor:
        """The gradient of x from that of the product, of one step or of all."""
        back: Sequence[Tensor | Packed] = self.back if self.packs else self.parts
        if self.drop is None:
            return matmul(d, back[0]) if d.dim() == 2 else tall_matmul(d.flatten(0, 1), back[0]).view(*d.shape[:2], -1)
        if d.dim() == 2 and 2 * d.numel() * self.weight.shape[1] < SMALL and len(self.parts) > 1:
            by_gate = d.view(len(d), len(self.parts), -1).transpose(0, 1)
            weights = self.weight.view(len(self.parts), -1, self.weight.shape[1])
            return torch.bmm(by_gate, weights).mul_(self.drop).sum(0)
        total: Tensor | None = None
        for rows, weight, mask in zip(d.chunk(len(self.parts), -1), back, self.drop, strict=True):
            part = tall_matmul(rows.flatten(0, -2).contiguous(), weight).view(*d.shape[:-1], -1)
            total = part.mul_(mask) if total is None else total.addcmul_(part, mask)
        assert total is not None
        return total

    def to_weight(self, d: Tensor, x: Tensor) -> Tensor:
        """The gradient of W, summed over all rows (T, B, ...) of both."""
        pairs = zip(d.chunk(len(self.parts), -1), self._masked(x), strict=True)
        parts = [_summed(part.flatten(0, 1), rows.flatten(0, 1)) for part, rows in pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _summed(d: Tensor, x: Tensor) -> Tensor:
    """d^T x."""
    at_once = SUMMED if d.is_cpu else len(d)
    parts = [matmul(rows.t(), part) for part, rows in zip(d.split(at_once), x.split(at_once), strict=True)]
    return functools.reduce(torch.Tensor.add_, parts).t()
