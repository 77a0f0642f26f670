"""What each test example gave lies at its own number in the set, in whatever order a seed was tested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from normbench.data.examples import Split
from normbench.runs import outcomes
from normbench.train.recorder import write_outcomes


def written(path: Path, numbers: Tensor | None, count: int = 20) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read back what was written of examples whose results follow from their own number."""
    of = torch.arange(count) if numbers is None else numbers
    found = {("test", ""): {"nll": of / 8, "error": (of % 3 == 0).float()}}
    write_outcomes(path, found, {"test": Split(index=numbers, inputs=torch.zeros(len(of), 1))})
    read = {metric: outcomes.read(path, "test", [""], metric) for metric in ("nll", "error")}
    return {metric: row for metric, row in read.items() if row is not None}


@pytest.mark.parametrize("draw", [1, 2])
@pytest.mark.parametrize("size", [20, 7])  # the whole set, and a subset that each seed draws anew
def test_every_example_has_its_own_result(tmp_path: Path, draw: int, size: int) -> None:
    tested = torch.randperm(20, generator=torch.Generator().manual_seed(draw))[:size]
    rows = written(tmp_path / "best.npz", tested)
    for numbers, _ in rows.values():
        assert np.array_equal(numbers, np.sort(tested.numpy()))
    assert np.array_equal(rows["nll"][1], rows["nll"][0] / 8)
    assert np.array_equal(rows["error"][1], rows["error"][0] % 3 == 0)


def test_examples_without_numbers_are_in_their_own_order(tmp_path: Path) -> None:
    numbers, values = written(tmp_path / "last.npz", None)["nll"]
    assert np.array_equal(numbers, np.arange(20)) and np.array_equal(values, numbers / 8)
