"""The exceptions that users meet: a single line with the value, the place and the way out.

Each kind has an exit code of the command line, its `code`. `except NormbenchError` catches all of them.

| exception | code | means |
| --- | --- | --- |
| `BadInput` | 2 | the request cannot be served as it is: a name, a value, a file of the user's |
| `Diverged` | 3 | a run's loss is not finite; a result, not an exception of a command: `train` exits so |
| `Failed` | 4 | the request is right, the work failed: a stored file is damaged, the disk is full |
| `Busy` | 5 | another process has the run, the file or the port |
"""

from __future__ import annotations

import difflib
import errno
import math
import re
import traceback
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

NEAR = 0.65  # difflib ratio from which a name is proposed; in a word of two letters one may differ
FULL = (errno.ENOSPC, errno.EDQUOT)  # the disk or the quota is full


class NormbenchError(Exception):
    """The base of all. The command line prints it as one line and exits with `code`."""

    code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class BadInput(NormbenchError):
    """The request cannot be served as it is."""

    code = 2


class Diverged(NormbenchError):
    """The loss of a run is no finite number."""

    code = 3


class Failed(NormbenchError):
    """The request is right, and the work failed."""

    code = 4


class Busy(NormbenchError):
    """Another process has what is needed."""

    code = 5


def class_of(error: OSError) -> type[BadInput] | type[Failed]:
    """Failed where the disk is full, else BadInput: the user named a place that cannot be used."""
    return Failed if error.errno in FULL else BadInput


def real(place: str, least: float = -math.inf, below: float = math.inf, **numbers: Any) -> None:
    """NormbenchError unless these are finite numbers within the bounds."""
    bounds = f", at least {least:g}" if math.isfinite(least) else ""
    bounds += f", below {below:g}" if math.isfinite(below) else ""
    for name, value in numbers.items():
        is_real = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not is_real or not least <= value < below:
            raise BadInput(f"{place}: {name}={value!r} must be a finite number{bounds}.")


def positive(place: str, **numbers: Any) -> None:
    """NormbenchError unless these are whole numbers of at least 1."""
    for name, value in numbers.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < 1:
            raise BadInput(f"{place}: {name}={value!r} must be {'' if whole else 'a whole number, '}at least 1.")


def kind(value: Any) -> str:
    """'Tensor of shape (20, 1)', 'dict': what a user's code gave in the place of something else."""
    shape = getattr(value, "shape", None)
    return type(value).__name__ + ("" if shape is None else f" of shape {tuple(shape)}")


def line_of(error: BaseException) -> str:
    """' (residual.py, line 8)': the last line of a user's file that raised this, or ''."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(
            "normbench.core.user_code."
        ):  # of which users' files are a part
            place = f" ({frame.f_code.co_filename.rpartition('/')[2]}, line {line})"
    return place


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """' Did you mean 'layer'?' for the nearest choice, or '' when nothing is near.

    A dotted choice is also near if its last part equals the value's or has its initials: `optim.lr`, `learning_rate`.
    """
    choices, last = list(choices), _last(value)
    near = [name for name in choices if name.casefold() == value.casefold()]  # capitals alone
    if not near:
        same = [name for name in choices if _last(name) in (last, _initials(last)) or _initials(_last(name)) == last]
        cutoff = 0.0 if same else min(NEAR, 1 - 1 / max(len(value), 2))
        near = difflib.get_close_matches(value, same or choices, n=3, cutoff=cutoff)
    near.sort(key=lambda name: sorted(name) != sorted(value))  # swapped letters first
    return f" Did you mean '{near[0]}'?" if near else ""


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _initials(name: str) -> str:
    """`lr` of `learning_rate`."""
    return "".join(part[:1] for part in name.split("_"))


def unknown(what: str, value: str, choices: Iterable[str], listing: str = "") -> NormbenchError:
    """The error for a name that does not exist: nearest name, or all of them when they are few.

    An empty value is written as '' in `what`.
    """
    if not value:
        what = re.sub(r"(^|(?<= ))(?=[ :])", "''", what, count=1)
    choices = list(choices)
    hint = did_you_mean(value, choices)
    if not hint and 0 < len(choices) <= 12:
        hint = f" Choose from: {', '.join(choices)}."
    return BadInput(f"{what}{hint}{f' ({listing})' if listing and listing not in hint else ''}")
