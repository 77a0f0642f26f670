"""Which of the paths computes a recurrence: the C kernel, torch's own operations, or the plain loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from normbench.errors import NormbenchError, unknown
from normbench.rnn import aten, kernel
from normbench.rnn.product import onednn

NAMES = ("c", "aten", "loop")
RunClass = type[aten.Run] | type[kernel.Run]
_chosen: str = ""
_said: set[str] = set()


def current() -> RunClass | None:
    """What runs the fast paths here and now; None: the plain loop is asked for.

    NORMBENCH_RNN=c, aten or loop asks for one. Otherwise it is c, or aten where there is no compiler, which is said
    once on stderr. Errors: c is asked for and cannot be had.
    """
    name = _chosen or os.environ.get("NORMBENCH_RNN", "")
    if name and name not in NAMES:
        raise unknown(f"NORMBENCH_RNN={name} is not possible.", name, NAMES)
    if name == "loop":
        return None
    if name == "aten":
        return aten.Run
    try:
        kernel.load()
        return kernel.Run
    except kernel.Unavailable as reason:
        if name == "c":
            raise NormbenchError(f"NORMBENCH_RNN=c: {reason}. Install a C compiler, or take aten.") from None
        if str(reason) not in _said:
            _said.add(str(reason))
            print(
                f"normbench: recurrent layers run on torch's own operations, up to four times slower: {reason}",
                file=sys.stderr,
            )
        return aten.Run


@contextmanager
def using(name: str) -> Iterator[None]:
    """The path of this name inside the block."""
    global _chosen
    before, _chosen = _chosen, name
    try:
        yield
    finally:
        _chosen = before


def describe() -> str:
    """What the last bits of a recurrent model's curve depend on, beside torch and the processor."""
    run = current()
    path = "loop" if run is None else f"C, {kernel.compiler()}" if run is kernel.Run else "ATen"
    return f"{path}; products by {'oneDNN' if onednn() else 'BLAS'}"
