"""`step.c` and its includes: built by the system's C compiler at first use, cached, and called by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import itertools
import math
import os
import platform
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import forward_ad

from normbench.core import extras
from normbench.errors import BadInput, unknown
from normbench.files import scratch

SOURCE = Path(__file__).parent.parent / "rnn" / "step.c"
INCLUDED = tuple(SOURCE.with_name(name) for name in ("attention.c", "blend.c", "window.c"))
COMMON = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fPIC", "-shared")
# the first that the compiler accepts is taken: this processor's instructions, in whole registers
FLAGS = (
    (*COMMON, "-march=native", "-mprefer-vector-width=512"),
    (*COMMON, "-march=native"),
    (*COMMON, "-mcpu=native"),
    COMMON,
)
REALS = {torch.float32: ("float", ctypes.c_float), torch.float64: ("double", ctypes.c_double)}
FUNCTIONS = ("forward", "backward", "forward_all", "backward_all")
PIECES = {  # functions besides the recurrences: how many sizes, numbers and arrays each takes
    **{"read_forward": (3, 1, 5), "read_backward": (3, 1, 8), "write_forward": (3, 1, 5), "write_backward": (3, 1, 6)},
    **{"window_forward": (4, 2, 7), "window_backward": (4, 2, 9), "pack": (4, 0, 2), "product": (3, 0, 3)},
    **{"blend_forward": (3, 4, 9), "blend_backward": (3, 2, 11)},
}

PATIENCE = 120  # s for the compiler
# matrices (rows, columns) from 1 to 12 MB, of which products with FEW rows are timed
MATRICES, FEW = ((256, 1024), (400, 1600), (1024, 1024), (1024, 3072)), 16
TIMES, GAIN = 9, 1.03
NEVER = 2**63 - 1


class Unavailable(Exception):
    """The kernel cannot be built or loaded here; the message has the reason."""


def call(name: str, *arguments: int | float | Tensor) -> None:
    """One of `PIECES`, for reals as the first array's: sizes, numbers, then arrays, scratch among them."""
    first = next(given for given in arguments if isinstance(given, Tensor))
    suffix, _ = REALS[first.dtype]
    getattr(load(), f"{name}_{suffix}")(*(a.data_ptr() if isinstance(a, Tensor) else a for a in arguments))


def load() -> ctypes.CDLL:
    """The library. Errors: Unavailable, with the reason in one line.

    Two processes may build at once: each writes a file of its own and puts it in place whole. A file that cannot be
    loaded is built anew; a cache that cannot be written, or that others can write to, is not used.
    """
    library = _load(os.environ.get("CC", ""), os.environ.get("XDG_CACHE_HOME", ""))
    if isinstance(library, str):
        raise Unavailable(library)
    return library


@functools.cache
def _load(compiler: str, cache: str) -> ctypes.CDLL | str:
    """Once for each compiler and cache: the library, or why there is none."""
    try:
        return _load_or_build()
    except Unavailable as reason:
        return str(reason)
    except OSError as error:
        return f"no place to build it: {error}"


def _load_or_build() -> ctypes.CDLL:
    try:
        folder = _folder()
        library = folder / f"step-{_key()}.so"
        if library.exists():
            with contextlib.suppress(Unavailable):  # not loadable here: build it again
                return _tuned(_open(library), library)
        with scratch.folder("build-", folder) as aside:
            built = _build(aside)
            with open(built, "rb") as file:
                os.fsync(file.fileno())  # loading a torn one, as a power cut leaves it, may kill the process
            os.replace(built, library)
        return _tuned(_open(library), library)
    except OSError:
        with scratch.folder("normbench-kernel-") as aside:  # of mode 0700
            return _tuned(_open(built := _build(aside)), built)  # once mapped, its file may go


def _folder() -> Path:
    """The cache's folder, created if need be. OSError if another user could write to it: a library is code."""
    folder = cache()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "another user can write to it", str(folder))
    return folder


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
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{' '.join(words())} cannot be run: {error}") from None
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


def _tuned(library: ctypes.CDLL, path: Path) -> ctypes.CDLL:
    """With what was measured on this machine, once: a file beside the library keeps it. No result depends on it."""
    kept = path.with_suffix(".fetched")
    fetched = ctypes.c_int64.in_dll(library, "step_fetched")
    try:
        fetched.value = int(kept.read_text())
    except (OSError, ValueError):
        sizes = [4 * rows * columns for rows, columns in MATRICES]
        gains = [_gain(library, fetched, *shape) for shape in MATRICES]
        fetched.value = threshold(sizes, gains)
        with contextlib.suppress(OSError):  # measured again by the next process
            kept.write_text(str(fetched.value))
    return library


def threshold(sizes: Sequence[int], gains: Sequence[float]) -> int:
    """The largest size that gains nothing by rows that are fetched ahead; NEVER where no larger one was measured.

    >>> threshold([1, 2, 4], [1.2, 1.0, 1.1])
    2
    """
    without = [size for size, gain in zip(sizes, gains, strict=True) if gain < GAIN]
    return NEVER if sizes[-1] in without else max(without, default=0)


def _gain(library: ctypes.CDLL, fetched: ctypes.c_int64, rows: int, columns: int) -> float:
    """How many times as fast a product with few rows is when the matrix' rows are fetched ahead."""
    a, packed, out = (  # whatever torch's default type and device are
        torch.zeros(shape, dtype=torch.float32, device="cpu")
        for shape in ((FEW, rows), (rows, columns), (FEW, columns))
    )
    arrays = [tensor.data_ptr() for tensor in (a, packed, out)]
    least = {NEVER: math.inf, 0: math.inf}
    for _ in range(TIMES):
        for fetched.value in least:
            start = time.perf_counter()
            library.product_float(FEW, rows, columns, *arrays)
            least[fetched.value] = min(least[fetched.value], time.perf_counter() - start)
    return least[NEVER] / least[0]


# --- when it computes ------------------------------------------------------------------------------------------------


NAMES = ("c", "aten", "loop")
_chosen: str = ""
_reported: set[str] = set()


def chosen(device: torch.device | str = "cpu") -> str:
    """What computes on this device: `c`, the kernel; `aten`, torch's operations; `loop`, a reference.

    NORMBENCH_RNN selects one. The default is c on the CPU, and aten on other devices and without a compiler, which is
    reported once on stderr; where `torch_needed` says so it is loop. Errors: c is selected and not available.
    """
    name = _chosen or os.environ.get("NORMBENCH_RNN", "")
    if name and name not in NAMES:
        raise unknown(f"NORMBENCH_RNN={name} is not possible.", name, NAMES)
    if name == "loop" or torch_needed(torch.device(device).type):
        return "loop"
    on_cpu = torch.device(device).type == "cpu"
    if name == "aten" or not (name or on_cpu):
        return "aten"
    if not on_cpu:
        raise BadInput(f"NORMBENCH_RNN=c: the C kernel computes on the CPU, not on {device}. Take aten or loop.")
    try:
        load()
        return "c"
    except Unavailable as reason:
        if name == "c":
            raise BadInput(f"NORMBENCH_RNN=c: {reason}. Install a C compiler, or take aten.") from None
        if str(reason) not in _reported:
            _reported.add(str(reason))
            print(f"normbench: {extras.WITHOUT_COMPILER}: {reason}", file=sys.stderr)
        return "aten"


def torch_needed(device: str) -> bool:
    """Whether torch's operations have to be visible: to torch.func, forward derivatives, traces, modes, autocast."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0  # export, fake tensors, counters of operations
        or (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))
    )


def by_kernel(like: Tensor, *others: Tensor) -> bool:
    """Whether the kernel computes with these tensors."""
    alike = all((other.dtype, other.device) == (like.dtype, like.device) for other in others)
    return alike and chosen(like.device) == "c" and like.dtype in REALS


@contextmanager
def using(name: str) -> Iterator[None]:
    """What computes inside the block."""
    global _chosen
    before, _chosen = _chosen, name
    try:
        yield
    finally:
        _chosen = before
