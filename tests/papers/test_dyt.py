"""DyT's figures: what runs record of their sites, and the test errors of its tables."""

from __future__ import annotations

from typing import Any

import pytest

from normbench.norms import curves
from normbench.papers import artifact as artifacts
from normbench.papers.dyt2025 import ablation, shape, vit
from normbench.runs.run import Run

SITES = ["block.0.attention", "block.0.mlp", "block.1.attention", "block.1.mlp", "final"]


def run(arm: str, seed: int, error: float = 0.5, status: str = "done", **sites: list[float]) -> Run:
    train: dict[str, Any] = {"split": "train", "mode": "both", "step": 4, "epoch": 1}
    train |= {
        f"{site}.{name}": value for name, values in sites.items() for site, value in zip(SITES, values, strict=True)
    }
    test = {"split": "test", "mode": "eval", "step": 4, "epoch": 1, "error": error, "nll": 1.0}
    return Run(f"{arm}-{seed}", "dyt2025/vit", arm, seed, status, 1, steps=4, records=[train, test])


def test_maps_of_sites_from_the_first_to_the_last_and_how_much_of_an_s_they_are() -> None:
    assert shape.PLACES == curves.PLACES
    far = {f"out_{name}": [0.9 * place] * 5 for name, place in shape.PLACES.items() if place < 8}
    runs = [
        run("ln", seed, input_std=[1.0] * 5, beyond_line=[0.01 * (seed + i) for i in range(5)], **far)
        for seed in (1, 3)
    ]
    map_, share = shape.panels(artifacts.load("dyt2025/shape"), [*runs, run("dyt", 1, input_std=[1.0] * 5)])
    assert [line.look.name for line in map_.lines] == ["0.attn", "0.mlp", "1.mlp", "final"]
    assert [(p.x, p.mean, p.n) for p in map_.lines[0].points] == [
        (x, pytest.approx(0.9 * x), 2) for x in (0.5, 1, 2, 4)
    ]
    assert share.categories == ["0.attn", "0.mlp", "1.attn", "1.mlp", "final"]
    assert share.lines[0].points[4].mean == pytest.approx(0.06)
    assert shape.panels(artifacts.load("dyt2025/shape"), [run("dyt", 1)]) == []


def test_alpha_stands_beside_the_inverse_deviation() -> None:
    runs = [run("dyt", seed, alpha=[0.5] * 5, input_std=[0.5, 1.0, 2.0, 4.0, 8.0]) for seed in (1, 2)]
    alpha, inverse = vit.panels(artifacts.load("dyt2025/vit"), runs)[-1].lines
    assert [p.mean for p in alpha.points] == [0.5] * 5 and [p.mean for p in inverse.points] == [2, 1, 0.5, 0.25, 0.125]


def test_tables_are_points_of_each_arm_and_a_diverged_run_is_counted() -> None:
    runs = [run("dyt", 1, 0.4), run("dyt", 2, 0.6), run("identity", 1, status="diverged"), run("identity", 2, 0.7)]
    runs += [run("sigmoid", 1, status="diverged")]
    *_, table8, table9 = ablation.panels(artifacts.load("dyt2025/ablation"), runs)
    points = {line.arm: [(p.x, p.mean, p.n) for p in line.points] for line in table8.lines}
    assert points == {"identity": [(1, 70, 1)], "dyt": [(2, 50, 2)], "sigmoid": []}
    assert [line.diverged for line in table8.lines] == [1, 0, 1] and table8.categories[1] == "tanh"
    assert [(line.arm, [p.x for p in line.points]) for line in table9.lines] == [("dyt", [3])]
