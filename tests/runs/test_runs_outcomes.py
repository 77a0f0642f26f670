"""What each test example gave, read back: whole, missing, or damaged with the file's name."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from normbench.errors import NormbenchError
from normbench.runs import outcomes


def _kept(**arrays: np.ndarray) -> bytes:
    content = io.BytesIO()
    wrong = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 1], dtype=bool)
    whole = {
        "test|count": np.array(10),
        "test||nll": np.linspace(0, 1, 10).astype(np.float16),
        "test||error": np.packbits(wrong),
        "test|FTFF|error": np.packbits(~wrong),
    }
    np.savez_compressed(content, **(whole | arrays))  # type: ignore[arg-type]
    return content.getvalue()


def test_values_and_bits_are_read_by_example_and_averaged_over_variants(tmp_path: Path) -> None:
    path = tmp_path / "best.npz"
    assert outcomes.read(path, "test", [""], "error") is None, "the run kept none"
    path.write_bytes(_kept())
    numbers, values = outcomes.read(path, "test", [""], "error") or (None, None)
    assert np.array_equal(numbers, np.arange(10)) and np.array_equal(values, [1, 0, 0, 1, 0, 0, 0, 0, 1, 1])
    both = outcomes.read(path, "test", ["", "FTFF"], "error")
    assert both is not None and np.array_equal(both[1], np.full(10, 0.5))
    assert outcomes.read(path, "test", ["", "TTFF"], "error") is outcomes.read(path, "test", [], "error") is None
    path.write_bytes(_kept(**{"test|numbers": np.arange(5, 15)}))
    drawn = outcomes.read(path, "test", [""], "nll")
    assert drawn is not None and np.array_equal(drawn[0], np.arange(5, 15))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no archive", _kept()[:-40], _kept()[:100], _kept().replace(b"PK", b"KP"),
        _kept(**{"test||nll": np.zeros(9, dtype=np.float16)}), _kept(**{"test|count": np.array(["many"])}),
        _kept(**{"test|numbers": np.arange(11)}),
    ],
)  # fmt: skip
def test_damage_is_one_line_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "best.npz"
    path.write_bytes(content)
    with pytest.raises(NormbenchError, match=r"best\.npz .* Delete the run to train it again") as caught:
        outcomes.read(path, "test", [""], "nll")
    assert "\n" not in str(caught.value)
