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
from pathlib import Path

import torch
from torch import Tensor

from normbench import scratch

SOURCE = Path(__file__).with_name("step.c")
INCLUDED = tuple(Path(__file__).with_name(name) for name in ("attention.c", "blend.c", "window.c"))
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


class Unavailable(Exception):
    """The kernel cannot be built or loaded here; the message has the reason."""


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
