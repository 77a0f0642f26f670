"""The embedded digits: splits, range, order, and the declared checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from sklearn.datasets import load_digits

from normbench import data
from normbench.errors import NormbenchError


@pytest.fixture
def digits() -> dict[str, Any]:
    return yaml.safe_load((Path(__file__).resolve().parents[2] / "conf" / "data" / "digits.yaml").read_text())


def test_splits(digits: dict[str, Any], tmp_path: Path) -> None:
    data.check(digits, tmp_path / "absent")
    loaded = data.load(digits, tmp_path / "absent")
    assert (loaded.name, loaded.notes) == ("digits", ())
    # Joined in their order, the parts are the whole set, so none overlaps another.
    parts = [loaded.splits[name] for name in ("valid", "train", "test")]
    assert [len(part["targets"]) for part in parts] == [197, 1200, 400]
    images, labels = load_digits(return_X_y=True)
    assert torch.equal(torch.cat([part["inputs"] for part in parts]), torch.from_numpy(images / 16).float())
    assert torch.equal(torch.cat([part["targets"] for part in parts]), torch.from_numpy(labels))
    for part in parts:
        assert part["inputs"].dtype == torch.float32 and part["targets"].dtype == torch.int64
        assert part["inputs"].min() == 0 and part["inputs"].max() == 1
        assert part["targets"].unique().tolist() == list(range(10))


@pytest.mark.parametrize(("valid", "test"), [(0, 400), (200, 0), (1000, 797), (-1, 10)])
def test_out_of_range(digits: dict[str, Any], valid: int, test: int) -> None:
    with pytest.raises(NormbenchError, match=f"data.valid={valid} and data.test={test} are out of range"):
        data.load(digits | {"valid": valid, "test": test})


def test_other_digits(digits: dict[str, Any]) -> None:
    digits["declares"]["sha256"] = "0" * 64
    with pytest.raises(NormbenchError, match=r"sha256 f6d9e39f… instead of 00000000…"):
        data.load(digits)
