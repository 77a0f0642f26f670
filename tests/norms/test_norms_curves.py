"""How much a map looks like an S."""

from __future__ import annotations

import pytest
import torch

from normbench.norms.curves import beyond_line, in_out


def test_a_line_has_nothing_beyond_it_and_a_tanh_all() -> None:
    x = torch.linspace(-4, 4, 1001, dtype=torch.float64)
    assert beyond_line(x, 3 * x - 1).item() == 0
    y = torch.tanh(1.7 * x)
    line = torch.corrcoef(torch.stack([x, y]))[0, 1].square()
    assert beyond_line(x, 5 * y + 2).item() == pytest.approx(1 - line.item(), abs=1e-3)
    assert beyond_line(10 * x, -y).item() == pytest.approx(1 - line.item(), abs=1e-3)
    assert beyond_line(x, x**3).item() == 0, "it bends the other way"
    assert beyond_line(0 * x, x).item() == beyond_line(x, 0 * x).item() == 0


def test_outputs_are_read_at_distances_from_the_mean_of_the_inputs() -> None:
    x = torch.linspace(-1, 1, 10001, dtype=torch.float64).repeat(9)
    x = torch.cat([x, torch.tensor([6.0, -6.0], dtype=torch.float64)]) + 3  # 10 deviations out
    line = in_out(x, 2 * (x - 3))
    assert set(line) == {"out_half", "out_1", "out_2", "out_8"}, "nothing is 4 deviations out"
    middle = (0.5**0.5 + 2**0.5) / 2  # between the ends of the place around 1, where the inputs lie evenly
    assert line["out_1"].item() == pytest.approx(2 * middle * x.std().item(), rel=1e-2) and line["out_8"] == 12
    squashed = in_out(x, torch.tanh(9 * (x - 3)))
    assert squashed["out_8"] == pytest.approx(1) and squashed["out_2"].item() < 1.1 * squashed["out_1"].item()


def test_it_is_the_same_of_some_values_of_many() -> None:
    x = torch.randn(50, 20, 30, generator=torch.Generator().manual_seed(0))
    assert beyond_line(x, torch.tanh(x)).item() == pytest.approx(beyond_line(x[:5], torch.tanh(x[:5])).item(), abs=0.01)
