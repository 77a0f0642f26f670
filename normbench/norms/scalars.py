"""Scalars of one's own: a number that a model or a normalizer logs in training is a metric of the run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from torch import Tensor

from normbench.errors import BadInput, kind

NAME = re.compile(r"[A-Za-z][\w.]*")
Sums = dict[str, list[float]]  # of the values that were logged under a name, and how many these were

_updates: list[tuple[Sums, Collection[str]]] = []  # the update that is being computed, if any


class Scalars:
    """Gives a class `log`: every `Model` and `Normalizer` has it, a plain module inherits it beside `nn.Module`."""

    def log(self, name: str, value: float | Tensor) -> None:
        """Log a number in the forward or backward pass of an update: `self.log("grad_norm", gradient.norm())`.

        Each evaluation records the mean of all values that were logged under the name since the evaluation before, by
        whatever module, as a metric of the split `train`. Other passes than those of updates log nothing.
        Errors: a name that is a metric of the run already, or none of letters, digits, _ and dots; several numbers.
        """
        for sums, taken in _updates[-1:]:
            if not NAME.fullmatch(name):
                raise BadInput(f"log('{name}'): a name begins with a letter, then letters, digits, _ and dots.")
            if name in taken:
                raise BadInput(f"log('{name}'): the run has a number of this name already. Choose another one.")
            try:
                number = float(value.detach() if isinstance(value, Tensor) else value)
            except (TypeError, ValueError, RuntimeError):
                raise BadInput(f"log('{name}'): {kind(value)} is not one number.") from None
            total, count = sums.get(name, (0.0, 0.0))
            sums[name] = [total + number, count + 1]


@contextmanager
def logging_to(sums: Sums, taken: Collection[str]) -> Iterator[None]:
    """The update inside adds what it logs to `sums`; names that are `taken` are refused."""
    _updates.append((sums, taken))
    try:
        yield
    finally:
        _updates.pop()
