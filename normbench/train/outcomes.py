"""Writes each test example's results, from which intervals over test examples are computed.

`outcomes/best.npz`, `outcomes/last.npz`: for every test split and variant and every metric an array
`SPLIT|VARIANT|METRIC`, examples in the order of their own numbers in the set, so that row i is the same example in
every run; of a downstream task `TASK||METRIC` in the order of its file. Metrics that are 0 or 1 are packed bits, others
half precision. `SPLIT|numbers` is present if they are not 0 to N - 1; `SPLIT|count` is their number. The files are not
part of the curve's hash. `normbench.runs.outcomes` reads them.
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

    Names outside `splits` have their examples in order.
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
