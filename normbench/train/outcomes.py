"""Each test example's results, in files beside the curve: what intervals over test examples are computed from.

`outcomes/best.npz`, `outcomes/last.npz`: for every test split and variant and every metric an array
`SPLIT|VARIANT|METRIC`, examples in the order of their own numbers in the set, so that row i is the same example in
every run; of a downstream task `TASK||METRIC` in the order of its file. Metrics that are 0 or 1 are packed bits, others
half precision. `SPLIT|numbers` is there where they are not 0 to N - 1, `SPLIT|count` how many there are. No part of the
curve's hash. They are read by `normbench.runs.outcomes`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from normbench.data.examples import Split
from normbench.runs import files


def write(path: Path, found: Mapping[tuple[str, str], Mapping[str, Tensor]], splits: Mapping[str, Split]) -> None:
    """`found`: by split and variant, each example's value of every metric, in the order of the split.

    What is none of the `splits` has its examples in their own order.
    """
    arrays: dict[str, np.ndarray] = {}
    for (name, variant), metrics in found.items():
        index = splits[name].index if name in splits else None
        count = len(next(iter(metrics.values())))
        numbers = np.arange(count) if index is None else index.cpu().numpy()
        order = np.argsort(numbers)
        arrays[f"{name}|count"] = np.array(len(order))
        if not np.array_equal(numbers[order], np.arange(len(order))):
            arrays[f"{name}|numbers"] = numbers[order].astype(np.int32)
        for metric, tensor in metrics.items():
            values = tensor.cpu().numpy()[order]
            binary = bool(np.isin(values, (0, 1)).all())
            with np.errstate(over="ignore"):  # beyond half precision: infinite
                packed = np.packbits(values.astype(bool)) if binary else values.astype(np.float16)
            arrays[f"{name}|{variant}|{metric}"] = packed
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # its stub takes the names for allow_pickle's
    path.parent.mkdir(exist_ok=True)
    files.atomic_write(path, content.getvalue())
