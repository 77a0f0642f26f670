"""`step.c` and its includes: built by the system's C compiler at first use, cached, and called by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import itertools
import os
import platform
import shlex
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from normbench import scratch
from normbench.norms.fused import BATCH
from normbench.rnn.matmul import Projection, empty, one_step_for_all
from normbench.rnn.plan import Gradients, Plan, Vectors

SOURCE = Path(__file__).with_name("step.c")
INCLUDED = tuple(Path(__file__).with_name(name) for name in ("attention.c", "window.c"))
COMMON = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fPIC", "-shared")
# the first that the compiler accepts is taken: this processor's instructions, in whole registers
FLAGS = (
    (*COMMON, "-march=native", "-mprefer-vector-width=512"),
    (*COMMON, "-march=native"),
    (*COMMON, "-mcpu=native"),
    COMMON,
)
ARRAYS = ("z", "u", "h", "c", "stats", "mask")
VECTORS = ("gain_x", "gain_h", "shift", "shift_h", "gain_c", "shift_c", "inside")
REALS = {torch.float32: ("float", ctypes.c_float), torch.float64: ("double", ctypes.c_double)}
FUNCTIONS = ("forward", "backward", "forward_all", "backward_all")
PIECES = {  # functions besides the recurrences: how many sizes, numbers and arrays each takes
    **{"read_forward": (3, 1, 5), "read_backward": (3, 1, 8), "write_forward": (3, 1, 5), "write_backward": (3, 1, 6)},
    **{"window_forward": (4, 2, 7), "window_backward": (4, 2, 9)},
}
PRODUCT = ("weight", "transposed", "dh")
GRADIENTS = ("dz", "du", "dc", "carry", *(f"d{name}" for name in VECTORS))

SCRATCH, BENT = 8, 9  # of step.c
PATIENCE = 120  # s for the compiler
CACHED = 1 << 22  # bytes of W_h up to which the kernel's own products are the fastest: it lies in the cache


class Unavailable(Exception):
    """The kernel cannot be built or loaded here; the message has the reason."""


class Job(ctypes.Structure):
    """The Job of step.c."""

    _fields_ = (
        *[(name, ctypes.c_int64) for name in ("batch", "hidden", "update_old")],
        ("kind", ctypes.c_int64 * 4),
        ("eps", ctypes.c_double * 4),
        ("clip", ctypes.c_double),
        *[(name, ctypes.c_void_p) for name in (*ARRAYS, *VECTORS, "dout", *GRADIENTS, "scratch", *PRODUCT)],
        ("moments", ctypes.c_void_p * 4),
        *[(name, ctypes.c_void_p) for name in ("seen", "sums", "curved")],
    )


class Run:
    """The `Backend` for the CPU; the gradients of z and u take the place of z and u."""

    overwrites: ClassVar[bool] = True

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
    ) -> None:
        self.plan, self.z, self.vectors, self.moments = plan, z, vectors, moments
        steps, batch, width = z.shape
        self.job = Job(batch=batch, hidden=plan.hidden, update_old=plan.update_old, kind=plan.kinds, eps=plan.eps)
        self.job.clip = plan.clip / max(batch, 1)
        if keep:
            self.u, self.stats = saved or (empty(z, *z.shape), z.new_empty(steps, batch, 8 if plan.gru else 6))
            self._point(u=self.u)
        else:
            self.u, self.stats = one_step_for_all(z), z.new_empty(steps, batch, 8 if plan.gru else 6)
            self._point(scratch=self.u)
        self.step_bytes = batch * width * z.element_size() if keep else 0
        self._point(z=z, h=h, c=c, stats=self.stats, **vectors._asdict())
        if mask is not None:
            self._point(mask=mask)
        self.rows = batch if plan.over_rows else 1  # of scratch
        self.curved = z.new_empty(self.rows * BENT * plan.hidden)
        self._point(curved=self.curved)
        if plan.over_rows:
            self.job.moments[:] = [found.data_ptr() for found in moments]
            self.seen = torch.empty_like(c[0])  # c as normalized over rows
            self._point(seen=self.seen)
        suffix, _ = REALS[z.dtype]
        library, cell = load(), "gru" if plan.gru else "lstm"
        self._forward, self._backward, self._forward_all, self._backward_all = (
            getattr(library, f"{cell}_{name}_{suffix}") for name in FUNCTIONS
        )
        self.address, self.u_address = ctypes.addressof(self.job), self.u.data_ptr() if keep else -1

    def _point(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            setattr(self.job, name, tensor.data_ptr())

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

    def prepare(self, rows: slice) -> None:
        """Nothing: the input's term is made in the step."""

    def forward(self, t: int, u: Tensor) -> None:
        at = u.data_ptr()
        self._forward(self.address, t, None if at == self.u_address + t * self.step_bytes else at)

    def forward_all(self, projection: Projection) -> bool:
        """All steps in one call, if the kernel's own products are the better ones."""
        if not self._small(projection):
            return False
        (transposed,) = projection.transposed
        self._point(transposed=transposed)
        self._forward_all(self.address, len(self.z), None)
        return True

    def backward_all(self, projection: Projection, dh: Tensor) -> bool:
        """The same of the backward steps; dh is overwritten by what reaches h_0 through the products."""
        if not self._small(projection):
            return False
        self.weight, self.dh = projection.weight.contiguous(), dh
        self._point(weight=self.weight, dh=dh)
        self._backward_all(self.address, len(self.z), None)
        return True

    def _small(self, projection: Projection) -> bool:
        return projection.drop is None and projection.weight.numel() * projection.weight.element_size() <= CACHED

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


def call(name: str, *arguments: int | float | Tensor) -> None:
    """One of `PIECES`, for reals as the first array's: sizes, numbers, then arrays, scratch among them."""
    first = next(given for given in arguments if isinstance(given, Tensor))
    suffix, _ = REALS[first.dtype]
    getattr(load(), f"{name}_{suffix}")(*(a.data_ptr() if isinstance(a, Tensor) else a for a in arguments))


def load() -> ctypes.CDLL:
    """The library. Errors: Unavailable, with the reason in one line.

    Two processes may build at once: each writes a file of its own and puts it in place whole. A damaged file is built
    anew; a cache that cannot be written, or that others can write to, is not used.
    """
    found = _load(os.environ.get("CC", ""), os.environ.get("XDG_CACHE_HOME", ""))
    if isinstance(found, str):
        raise Unavailable(found)
    return found


@functools.cache
def _load(compiler: str, cache: str) -> ctypes.CDLL | str:
    """Once for each compiler and cache: the library, or why there is none."""
    try:
        return _load_or_build()
    except Unavailable as reason:
        return str(reason)


def _load_or_build() -> ctypes.CDLL:
    try:
        folder = _folder()
        library = folder / f"step-{_key()}.so"
        if _whole(library):
            with contextlib.suppress(Unavailable):  # whole, but not loadable here: build it again
                return _open(library)
        with scratch.folder("build-", folder) as aside:
            built = _build(aside)
            built.with_suffix(".sha256").write_text(hashlib.sha256(built.read_bytes()).hexdigest())
            for suffix in (".sha256", ".so"):
                os.replace(built.with_suffix(suffix), library.with_suffix(suffix))
        return _open(library)
    except OSError:
        try:
            with scratch.folder("normbench-kernel-") as aside:  # of mode 0700
                return _open(_build(aside))  # once mapped, its file may go
        except OSError as error:
            raise Unavailable(f"no place to build it: {error}") from None


def _folder() -> Path:
    """The cache's folder, created if need be. OSError if another user could write to it: a library is code."""
    folder = cache()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "another user can write to it", str(folder))
    return folder


def _whole(library: Path) -> bool:
    """Whether the file is there as it was built: loading a torn one may kill the process."""
    try:
        checksum = library.with_suffix(".sha256").read_bytes().strip()
        return hashlib.sha256(library.read_bytes()).hexdigest().encode() == checksum
    except FileNotFoundError:
        return False


def refused() -> str:
    """Why the cache is not used, "" if it is: without it every process builds the library again."""
    try:
        _folder()
    except OSError as error:
        if error.errno == errno.EPERM:
            return f"{error.filename}: {error.strerror}"
    return ""


def cache() -> Path:
    """The folder of the library, of mode 0700: only this user can write to it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "normbench" / "kernel"


def compiler() -> str:
    """The compiler that built the library."""
    name = load().step_compiler
    name.restype = ctypes.c_char_p
    return str(name().decode())


def _key() -> str:
    """Source, flags, compiler, C library and processor: a library serves where all are the same."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2]
    except OSError:
        processor = [platform.processor()]
    text = repr((FLAGS, words(), platform.machine(), platform.libc_ver(), processor))
    sources = b"".join(path.read_bytes() for path in (SOURCE, *INCLUDED))
    return hashlib.sha256(sources + text.encode()).hexdigest()[:16]


def words() -> list[str]:
    """The compiler to call, CC or cc."""
    return shlex.split(os.environ.get("CC") or "cc") or ["cc"]


def _build(folder: Path) -> Path:
    made = folder / "step.so"
    for flags in FLAGS:
        command = [*words(), *flags, str(SOURCE), "-o", str(made), "-lm"]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PATIENCE
            )
        except OSError as error:
            raise Unavailable(f"{' '.join(words())} cannot be run: {error}") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{' '.join(words())} takes more than {PATIENCE} s") from None
        if done.returncode == 0 and made.exists():
            return made
    lines = done.stderr.strip().splitlines() or [f"it ends with code {done.returncode}"]
    reason = next((line for line in lines if "error" in line), lines[0])
    reason = "".join(character if character.isprintable() else "?" for character in reason)
    raise Unavailable(f"{' '.join(words())} cannot build {SOURCE.name}: {reason}")


def _open(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        for suffix, real in REALS.values():
            for cell, name in itertools.product(("lstm", "gru"), FUNCTIONS):
                function = getattr(library, f"{cell}_{name}_{suffix}")
                function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p], None
            for name, (sizes, numbers, arrays) in PIECES.items():
                function = getattr(library, f"{name}_{suffix}")
                function.argtypes = [ctypes.c_int64] * sizes + [real] * numbers + [ctypes.c_void_p] * arrays
                function.restype = None
    except (OSError, AttributeError) as error:
        raise Unavailable(f"{path} cannot be loaded: {error}") from None
    return library
