"""What every normalizer keeps to; a new YAML in `conf/norm` is covered by being there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from contract import (
    NAMES,
    NORMS,
    all_rows,
    declares,
    defaults,
    in_turn,
    layouts,
    make,
    masks,
    near,
    pair,
    subject,
    variants,
)
from reference import common

from normbench.battery import contract as promises
from normbench.battery.cases import Axes, draw, sizes
from normbench.norms import modes
from normbench.norms.context import ForwardContext
from normbench.norms.sites import INVARIANT, NOT
from normbench.train.probes import deviation

Rows = Callable[[str, Axes], list[dict[str, Any]]]
CASES = [pytest.param(name, axes, id=f"{name}-{'.'.join(axes)}") for name in NORMS for axes in layouts(name)]

# against the references, whose loops take their time, every row of options has its turn by default; CI tries them all
ROWS = pytest.mark.parametrize("rows", [in_turn, pytest.param(all_rows, marks=pytest.mark.slow)])
PROMISES = [
    pytest.param(check, name, axes, id=f"{check.name}-{name}-{'.'.join(axes)}")
    for name in NAMES
    for check in promises.checks(subject(name))
    for axes in layouts(name)
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("check", "name", "axes"), PROMISES)
def test_contract(check: promises.Check, name: str, axes: Axes) -> None:
    """What `normbench battery` demands of any normalizer, with more values for options that are numbers."""
    assert promises.broken(check, subject(name), axes) == ""


@pytest.mark.parametrize(
    ("name", "invariant"),
    [("filter_response", {"W_rescale", "w_vector_rescale", "data_rescale", "case_rescale"}), ("evo_s0", set())],
)
def test_row_of_table_1_behind_a_convolution(name: str, invariant: set[str]) -> None:
    """LN 2016, of those that need space, which the probe of Table 1 has not."""
    norm = make(name, ("batch", "feature", "space", "space"), defaults(name) | {"eps": 0.0})
    W, x = draw((6, 5), 1), draw((4, 5, 2, 3), 2)
    one_unit, one_case = torch.ones(6, 1).double(), torch.ones(4, 1, 1, 1).double()
    one_unit[0] = one_case[0] = 2.5

    def layer(W: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return norm(torch.einsum("ui,niyx->nuyx", W, x))

    before, found = layer(W, x), set()
    for key, after in {
        "W_rescale": layer(2.5 * W, x),
        "W_recenter": layer(W + draw((5,), 3), x),
        "w_vector_rescale": layer(one_unit * W, x),
        "data_rescale": layer(W, 2.5 * x),
        "data_recenter": layer(W, x + draw((1, 5, 1, 1), 4)),
        "case_rescale": layer(W, one_case * x),
    }.items():
        off = deviation(after.detach(), before.detach())
        assert not INVARIANT < off < NOT
        found |= {key} if off <= INVARIANT else set()
    assert found == invariant


@pytest.mark.parametrize("name", NORMS)
def test_has_a_reference_and_a_layout(name: str) -> None:
    assert issubclass(common.of(name), common.Base)
    assert layouts(name), f"'{name}' serves none of the layouts in tests/norms/contract.py: add the one that it serves"


@ROWS
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_equals_the_naive_reference_in_training_and_evaluation(rows: Rows, name: str, axes: Axes) -> None:
    """An epoch of three batches of different sizes, an evaluation in every way, and one inside the next epoch."""
    for options in rows(name, axes):
        module, reference = pair(name, axes, options)
        asked = variants(name, module) if rows is all_rows or options == defaults(name) else [{}]
        for steps in (3, 1):
            module.train()
            module.begin_epoch()
            reference.begin_epoch()
            for step in range(steps):
                batch = 6 - step if steps == 3 else 2
                for mask in masks(name, axes, batch, step):
                    x = draw(sizes(axes, batch), seed=step + 10 * steps, shift=step)
                    wanted = reference(x.numpy(), training=True, mask=mask)
                    near(module(x, mask), wanted, f"training with {options}, mask {mask}")
            if steps == 3:
                module.end_epoch()
                reference.end_epoch()
            if any(map(module.by_pass, asked)):
                reference.begin_pass()
                with modes.gathering(module, asked):
                    for step, batch in enumerate((4, 5, 2)):
                        for mask in masks(name, axes, batch, step):
                            x = draw(sizes(axes, batch), seed=step + 30, shift=step)
                            wanted = reference(x.numpy(), training=True, mask=mask)
                            near(module(x, mask), wanted, f"a pass with {options}, mask {mask}")
                reference.end_pass()
            for variant in asked:
                for mask in masks(name, axes, 7, 9):
                    x = draw(sizes(axes, batch=7), seed=9, scale=0.5)
                    with modes.inference(module, variant):
                        y = module(x, mask)
                    wanted = reference(x.numpy(), training=False, variant=variant, mask=mask)
                    near(y, wanted, f"evaluation {variant!r} with {options}, mask {mask}")


@pytest.mark.thinned(2)
@ROWS
@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize(("training", "before"), [(True, 0), (True, 2), (False, 2)], ids=["first", "later", "eval"])
def test_gradients_are_the_finite_differences_of_the_reference(
    rows: Rows, name: str, axes: Axes, training: bool, before: int
) -> None:
    """Along random directions of input, gain and shift together; what the paper detaches is held."""
    rng, h = np.random.default_rng(5), 1e-5
    for options in rows(name, axes):
        module, reference = pair(name, axes, options)
        for step in range(before):
            x = draw(sizes(axes), seed=20 + step)
            module.train()(x)
            reference(x.numpy(), training=True)
        if before:
            module.end_epoch()
            reference.end_epoch()
        if before and module.gathers:
            reference.begin_pass()
            with modes.gathering(module):
                for step in range(before):
                    x = draw(sizes(axes), seed=20 + step)
                    module(x)
                    reference(x.numpy(), training=True)
            reference.end_pass()
        module.train(training).forward_context = ForwardContext(update_running_stats=False)
        parts = dict(module.named_parameters())
        start = {n: getattr(reference, n) for n in parts}  # a gain and a bias is all that a normalizer learns
        for mask in masks(name, axes, 3, 2):
            x = draw(sizes(axes, batch=3), seed=1).requires_grad_()
            held = x.detach().numpy()
            weight, along = rng.normal(size=x.shape), rng.normal(size=x.shape)
            along_parts = {n: rng.normal(size=p.shape) for n, p in parts.items()}
            module.zero_grad()
            (module(x, mask) * torch.from_numpy(weight)).sum().backward()
            ours = sum((gradient(p) * along_parts[n]).sum() for n, p in parts.items()) + (gradient(x) * along).sum()
            ends = []
            for t in (h, -h):
                for n in parts:
                    setattr(reference, n, start[n] + t * along_parts[n])
                y = reference(held + t * along, training=training, track=False, mask=mask, hold=held)
                ends.append((y * weight).sum())
            assert ours == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-7), options


def gradient(tensor: torch.Tensor) -> np.ndarray:
    assert tensor.grad is not None
    return tensor.grad.numpy()


@pytest.mark.thinned(2)
@ROWS
@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e4])
def test_zero_variance_gives_the_reference(rows: Rows, name: str, axes: Axes, value: float) -> None:
    for options in rows(name, axes):
        module, reference = pair(name, axes, options)
        x = torch.full(sizes(axes), value, dtype=torch.float64)
        y = module.train()(x)
        near(y, reference(x.numpy(), training=True), options, 1e-6)
        if declares(name)["recentres"] and options == defaults(name):
            # where the mean is taken away, the shift is all that is left
            shift = np.array([reference.affine(i, 0.0) for i in common.every(y.shape)]).reshape(y.shape)
            near(y, shift, options, 1e-6)


@pytest.mark.thinned(2)
@ROWS
@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e15])
def test_huge_and_tiny_magnitudes_in_float32_give_the_reference(
    rows: Rows, name: str, axes: Axes, scale: float
) -> None:
    for options in rows(name, axes):
        module, reference = pair(name, axes, options, seed=None)
        x = (draw(sizes(axes), shift=0.0) * scale).float()
        y = module.float().train()(x)
        near(y, reference(x.double().numpy(), training=True), (options, scale), 1e-4)


@ROWS
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_one_sample_one_step_one_position_give_the_reference(rows: Rows, name: str, axes: Axes) -> None:
    for options in rows(name, axes):
        if not subject(name).refuses_single(axes, options):
            module, reference = pair(name, axes, options)
            x = draw(sizes(axes, batch=1))
            near(module(x), reference(x.numpy(), training=True), options)
        partial = (
            options.get("normalized_axes") == "space" and options.get("p", 1) < 1
        )  # a share of one position is none
        if not partial and not {"space"} & set(axes) & set(declares(name).get("needs") or []):
            module, reference = pair(name, axes, options, space=(1, 1))
            x = draw(sizes(axes, time=1, space=(1, 1)))
            near(module(x), reference(x.numpy(), training=True), options)


@ROWS
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_tracked_pass_moves_the_statistics(rows: Rows, name: str, axes: Axes) -> None:
    """Without this, one that never learns its statistics would keep the contract's promise to leave them."""
    for options in rows(name, axes):
        module = make(name, axes, options).train()
        before = {key: value.clone() for key, value in module.state_dict().items()}
        module(draw(sizes(axes), seed=4))
        if module.gathers:  # it may have no other statistics than those of a pass
            with modes.gathering(module):
                module(draw(sizes(axes), seed=4))
        if before.keys() - dict(module.named_parameters()).keys():
            assert any(not torch.equal(v, before[k]) for k, v in module.state_dict().items()), options
