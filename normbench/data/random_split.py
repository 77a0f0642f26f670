"""Parts of a set that the seed draws: which rows train, which validate, and in which order the test rows come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from normbench.errors import NormbenchError
from normbench.streams import stream


def parts(config: Mapping[str, Any], count: int, tests: int, seed: int, what: str) -> dict[str, np.ndarray]:
    """Rows of `train`, `valid` and `test`, of `count` training rows (called `what` in errors) and `tests` test rows.

    Of the training rows in an order that the seed draws, the first `held_out` are for validation and the rest for
    training; both use a `fraction` of theirs, its first ones, so that a smaller fraction is part of a larger one. The
    test rows are all used, in an order that the seed draws as well.
    """
    held, fraction = int(config["held_out"]), float(config["fraction"])
    rows = stream(seed, "subset").permutation(count)
    valid, train = (part[: round(len(part) * fraction)] for part in (rows[:held], rows[held:]))
    if not len(valid) or not len(train):
        raise NormbenchError(
            f"data.held_out={held} and data.fraction={fraction:g} are out of range: of {count} training {what}, "
            f"some must stay to train on and some to validate with."
        )
    return {"train": train, "valid": valid, "test": stream(seed, "test order").permutation(tests)}
