"""What each test example gave at a run's best evaluation and at its last, as `normbench.train.recorder` wrote it.

`outcomes/best.npz`, `outcomes/last.npz`: for every test split and variant and every metric an array
`SPLIT|VARIANT|METRIC`, examples in the order of their own numbers in the set, so that row i is the same example in
every run; of a downstream task `TASK||METRIC` in the order of its file. Metrics that are 0 or 1 are packed bits, others
half precision. `SPLIT|numbers` is present if they are not 0 to N - 1; `SPLIT|count` is their number. The files are not
part of the curve's hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from normbench.errors import Failed
from normbench.files import reading


def read(path: Path, split: str, variants: Sequence[str], metric: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(N,) the examples' own numbers, (N,) float64 the mean over `variants` ("" is the default evaluation).

    None where the file or one of the variants is not there; NormbenchError where what is there does not fit together.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            if not variants or any(f"{split}|{variant}|{metric}" not in stored for variant in variants):
                return None
            count = int(stored[f"{split}|count"])
            numbers = stored[f"{split}|numbers"] if f"{split}|numbers" in stored else np.arange(count)
            by_variant = [_values(stored[f"{split}|{variant}|{metric}"], count) for variant in variants]
    except FileNotFoundError:
        return None
    except reading.NO_ARCHIVE as error:
        raise Failed(f"{path} is damaged ({error}). Delete the run to train it again.") from None
    if any(len(values) != len(numbers) for values in by_variant):
        raise Failed(
            f"{path} has {len(numbers)} examples of {split}, but {len(by_variant[0])} results of them. Delete the run "
            "to train it again."
        )
    return numbers, np.mean(by_variant, axis=0)


def _values(stored: np.ndarray, count: int) -> np.ndarray:
    bits = stored.dtype == np.uint8
    if bits and len(stored) != -(-count // 8):
        return np.empty(0)
    return np.asarray(np.unpackbits(stored, count=count) if bits else stored, dtype=np.float64)
