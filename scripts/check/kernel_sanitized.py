"""The C kernel under the address and the undefined-behaviour sanitizer: python scripts/check/kernel_sanitized.py

Builds `normbench/rnn/step.c` with them and calls every function through ctypes with arrays of NumPy that end where they
have to, without torch: sizes 0 and 1 among others, NaN, infinities and denormal numbers among the values. What reaches
beyond an array, or means nothing in C, ends the process with the sanitizer's words. A compiler without sanitizers: it
says so, and exits with 0.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).resolve().parents[2] / "normbench" / "rnn" / "step.c"
FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fPIC")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PROCESSORS = (("-march=native",), ())  # the wide vectors of this one, and the narrow ones of any
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
REALS = {"float": np.float32, "double": np.float64}
SIZES = [(3, 2, 5), (0, 2, 3), (2, 0, 3), (2, 2, 0), (1, 1, 1), (2, 7, 33), (2, 1, 64)]  # steps, batch, features
SPECIAL = ("usual", "NaN", "infinity", "denormal", "large")
NUMBER = {"int64_t": ctypes.c_int64, "double": ctypes.c_double}


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or "cc") or ["cc"]


def build(folder: Path, processor: Sequence[str]) -> tuple[Path | None, str]:
    """The library, or why there is none; and the sanitizer's own, which has to be loaded first."""
    made = folder / f"step{len(processor)}.so"
    try:
        done = subprocess.run(
            [*compiler(), *FLAGS, *SANITIZERS, *processor, "-shared", str(SOURCE), "-o", str(made), "-lm"],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        runtime = subprocess.run([*compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["it fails"])[-1]
    if not os.path.isabs(runtime.strip()):
        return None, "there is no libasan.so"
    return made, runtime.strip()


# --- the arrays ------------------------------------------------------------------------------------------------------


def job_type() -> type[ctypes.Structure]:
    """The Job of step.c, as its text declares it: all reals are behind pointers, so one for both serves."""
    text = re.sub(r"/\*.*?\*/", "", SOURCE.read_text(), flags=re.S)
    struct = re.search(r"typedef struct \{([^}]*)\} NAME\(Job\);", text)
    assert struct, f"{SOURCE} has no Job"
    fields: list[tuple[str, Any]] = []
    for declaration in filter(None, map(str.strip, struct[1].split(";"))):
        kind, names = re.sub(r"\bconst\b", "", declaration).strip().split(maxsplit=1)
        for name in map(str.strip, names.split(",")):
            base = ctypes.c_void_p if name.startswith("*") else NUMBER[kind]
            count = re.search(r"\[(\d+)\]", name)
            fields.append((re.sub(r"[*\s]|\[\d+\]", "", name), base * int(count[1]) if count else base))
    return type("Job", (ctypes.Structure,), {"_fields_": fields})


class Arrays:
    """Makes them, each of its exact size, and keeps them while they are used."""

    def __init__(self, real: type, special: str) -> None:
        self.real, self.special, self.arrays = real, special, []
        self.draws = np.random.default_rng(0)

    def __call__(self, *shape: int, positive: bool = False) -> np.ndarray:
        made = np.empty(shape, self.real)
        made[...] = self.draws.uniform(0.5, 1.5, shape) if positive else self.draws.standard_normal(shape)
        flat = made.reshape(-1)
        tiny, most = np.finfo(self.real).smallest_subnormal * 3, np.finfo(self.real).max
        values = {"NaN": [np.nan], "infinity": [np.inf, -np.inf], "denormal": [tiny, -tiny], "large": [most, -most]}
        for place, value in enumerate(values.get(self.special, [])):
            flat[place::3] = value
        self.arrays.append(made)
        return made

    def whole(self, values: Any, kind: type) -> np.ndarray:
        self.arrays.append(made := np.array(values, kind))
        return made


def addresses(arrays: Sequence[np.ndarray]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


# --- the calls -------------------------------------------------------------------------------------------------------


def packed(library: ctypes.CDLL, real: str, make: Arrays, depth: int, columns: int) -> int:
    """The address of a matrix as the kernel's product reads it, in whole vectors."""
    function = getattr(library, f"pack_{real}")
    function.argtypes, function.restype = [ctypes.c_int64] * 4 + [ctypes.c_void_p] * 2, None
    given, made = make(columns, depth), make(depth, -(-columns // 16) * 16)
    function(1, depth, depth, columns, *addresses((given, made)))
    return int(made.ctypes.data)


def recurrences(library: ctypes.CDLL, job: type[ctypes.Structure]) -> Iterator[str]:
    """An LSTM and a GRU, step by step and all at once, by every kind of normalizer, with a mask and without."""
    kinds = [*((kind,) * 4 for kind in range(10)), (1, 7, 2, 0), (8, 0, 9, 3), (6, 5, 7, 4), (0, 1, 5, 6)]
    rows = 7  # the first kind that normalizes over rows
    for cell, real, size, special, kind in itertools.product(("lstm", "gru"), REALS, SIZES, SPECIAL, kinds):
        if special != "usual" and size not in (SIZES[0], SIZES[5]):
            continue
        steps, batch, hidden = size
        gates, statistics = (4, 6) if cell == "lstm" else (3, 8)
        width, make = gates * hidden, Arrays(REALS[real], special)
        over_rows = any(k >= rows for k in kind)
        widths = (width, width, hidden, 0) if cell == "lstm" else (2 * hidden, 2 * hidden, hidden, hidden)
        for masked, at_once in itertools.product((False, True), repeat=2):
            state = hidden if cell == "lstm" else 0
            given = {
                "z": make(steps, batch, width), "u": make(steps, batch, width), "h": make(steps + 1, batch, hidden),
                "c": make(steps + 1, batch, state), "stats": make(steps, batch, statistics),
                **{name: make(width) for name in ("gain_x", "gain_h", "shift")},
                **{name: make(hidden) for name in ("shift_h", "gain_c", "shift_c")},
                **{name: make(width) for name in ("dgain_x", "dgain_h", "dshift")},
                **{name: make(hidden) for name in ("dshift_h", "dgain_c", "dshift_c")},
                "dout": make(steps, batch, hidden), "dc": make(batch, state), "carry": make(batch, hidden),
                "inside": make(8), "dinside": make(8),
                "scratch": make((batch if over_rows else 1) * 8 * hidden), "dh": make(batch, hidden),
                "curved": make((batch if over_rows else 8) * 9 * hidden),
            }  # fmt: skip
            given |= {"dz": given["z"], "du": given["u"]}
            task = job(batch=batch, hidden=hidden, update_old=steps % 2, clip=1.0, apart=batch * state)
            task.kind[:], task.eps[:] = kind, [1e-5] * 4
            if masked:
                given["mask"] = make.whole([[b % 2 for b in range(batch)]] * steps, np.uint8)
            if over_rows:
                given |= {"seen": make(batch, hidden), "sums": make(2 * width)}
                moments = [make(steps, 3, w, positive=True) for w in widths]
                task.moments[:] = [moment.ctypes.data for moment in moments]
            for name, array in given.items():
                setattr(task, name, array.ctypes.data)
            calls = {name: getattr(library, f"{cell}_{name}_{real}") for name in ("forward", "backward")}
            whole_calls = {name: getattr(library, f"{cell}_{name}_all_{real}") for name in ("forward", "backward")}
            for function in (*calls.values(), *whole_calls.values()):
                function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p], None
            if at_once:
                task.packed = packed(library, real, make, hidden, width)
                whole_calls["forward"](ctypes.addressof(task), steps, None)
                task.packed = packed(library, real, make, width, hidden)
                whole_calls["backward"](ctypes.addressof(task), steps, None)
                task.packed = packed(library, real, make, hidden, width)
                task.u, task.apart = None, 0  # nothing is kept
                task.c, task.scratch = (make(batch, size).ctypes.data for size in (state, width))
                whole_calls["forward"](ctypes.addressof(task), steps, None)
                task.packed_x, task.x = packed(library, real, make, 3, width), make(steps, batch, 3).ctypes.data
                task.inputs, task.down, task.right, task.some = 3, batch * 3, 3, 2  # z of two steps at a time
                task.z, task.gathered = (make(2 * batch, size).ctypes.data for size in (width, 3))
                if not over_rows:
                    whole_calls["forward"](ctypes.addressof(task), steps, None)
            else:
                product = make(batch, width)
                for step in range(steps):
                    calls["forward"](ctypes.addressof(task), step, product.ctypes.data if step % 2 else None)
                for step in reversed(range(steps)):
                    calls["backward"](ctypes.addressof(task), step, given["dh"].ctypes.data)
            yield f"{cell} {real} {size} {special} {kind} mask={masked} at_once={at_once}"


def pieces(library: ctypes.CDLL) -> Iterator[str]:
    """Reading and writing through filters, and a window that moves along a text."""
    for real, special, batch, n, side in itertools.product(REALS, SPECIAL, (0, 1, 3), (1, 2, 5), (1, 4, 9)):
        make, number = Arrays(REALS[real], special), ctypes.c_float if real == "float" else ctypes.c_double
        pixels, patch = side * side, n * n
        scratch = make(8 * n * side + pixels + 2 * patch)
        read = make(batch, pixels), make(batch, pixels), make(batch, 5), make(batch, 2 * patch)
        calls = {
            "read_forward": (*read, scratch),
            "read_backward": (*read, make(batch, 2 * patch), make(batch, pixels), make(batch, 5), scratch),
            "write_forward": (make(batch, pixels), make(batch, patch), read[2], make(batch, pixels), scratch),
            "write_backward": (read[0], make(batch, patch), read[2], make(batch, patch), make(batch, 5), scratch),
        }
        for name, arrays in calls.items():
            function = getattr(library, f"{name}_{real}")
            function.argtypes = [ctypes.c_int64] * 3 + [number] + [ctypes.c_void_p] * len(arrays)
            function.restype = None
            function(batch, side, n, 10.0, *addresses(arrays))
            yield f"{name} {real} {special} {batch} {n} {side}"
        places, symbols = side, patch
        letters = make.whole(make.draws.integers(0, symbols, (batch, places)), np.int64)
        lengths = make.whole([b % (places + 1) for b in range(batch)], np.int64)
        given, before, window, after = make(batch, 3 * n), make(batch, n), make(batch, symbols), make(batch, n)
        windows = {
            "window_forward": (given, before, letters, lengths, window, after),
            "window_backward": (given, after, letters, lengths, window, before, make(batch, 3 * n), make(batch, n)),
        }
        for name, arrays in windows.items():
            function = getattr(library, f"{name}_{real}")
            function.argtypes = [ctypes.c_int64] * 4 + [number] * 2 + [ctypes.c_void_p] * (len(arrays) + 1)
            function.restype = None
            function(batch, n, places, symbols, 10.0, 0.5, *addresses((*arrays, make(places))))
            yield f"{name} {real} {special} {batch} {n} {places}"


def blends(library: ctypes.CDLL) -> Iterator[str]:
    """Batch layer normalization."""
    for real, special, m, positions, n in itertools.product(REALS, SPECIAL, (0, 1, 3), (1, 2), (1, 6, 1030)):
        make, number = Arrays(REALS[real], special), ctypes.c_float if real == "float" else ctypes.c_double
        x, y, width, rows = make(m, positions, n), make(m, positions, n), positions * n, m * positions
        columns = [make(width) for _ in range(3)]
        by_row = make(rows), make(rows)
        ways = {
            "blend_forward": (4, (x, make(n), make(n), *columns, *by_row, y)),
            "blend_backward": (
                2, (x, make(n), *columns[:2], *by_row, y, make(m, positions, n), make(n), make(n), make(2 * width))
            ),
        }  # fmt: skip
        for name, (numbers, arrays) in ways.items():
            function = getattr(library, f"{name}_{real}")
            function.argtypes = [ctypes.c_int64] * 3 + [number] * numbers + [ctypes.c_void_p] * len(arrays)
            function.restype = None
            function(m, positions, n, *[0.5] * numbers, *addresses(arrays))
            yield f"{name} {real} {special} {m} {positions} {n}"


def drive(path: str) -> int:
    """All calls, in a process that has the sanitizer's library; how many."""
    library, job, last = ctypes.CDLL(path), job_type(), os.open(f"{path}.last", os.O_WRONLY | os.O_CREAT)
    count = 0
    for line in itertools.chain(recurrences(library, job), pieces(library), blends(library)):
        os.pwrite(last, line.encode().ljust(200), 0)  # where it ended, should it end
        count += 1
    return count


def main() -> int:
    if len(sys.argv) == 2:
        print(drive(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for processor in PROCESSORS:
            library, runtime = build(Path(folder), processor)
            if library is None:
                print(f"skipped: {' '.join(compiler())} has no sanitizers here ({runtime})")
                return 0
            done = subprocess.run(
                [sys.executable, __file__, str(library)], capture_output=True, text=True, timeout=600,
                env=os.environ | ENVIRONMENT | {"LD_PRELOAD": runtime},
            )  # fmt: skip
            if done.returncode:
                last = Path(f"{library}.last")
                print(f"after: {last.read_text().strip() if last.exists() else 'nothing'}")
                print((done.stdout + done.stderr)[-6000:])
                return 1
            print(f"{done.stdout.strip()} calls, clean ({' '.join(processor) or 'any processor'})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
