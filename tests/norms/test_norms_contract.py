"""What every normalizer keeps to; a new YAML in `conf/norm` is covered by being there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from contract import (
    NORMS,
    Axes,
    declares,
    defaults,
    draw,
    every_option,
    layouts,
    make,
    masks,
    near,
    pair,
    sizes,
    valid,
)
from reference import common

from normbench.errors import NormbenchError
from normbench.norms import base

CASES = [pytest.param(name, axes, id=f"{name}-{'.'.join(axes)}") for name in NORMS for axes in layouts(name)]


def refuses_single(name: str, axes: Axes, options: dict) -> bool:
    """Whether one value per feature, in a batch of one at this layout, is refused."""
    single = declares(name).get("single_batch")
    one_value = "space" not in axes and ("time" not in axes or options.get("stats") == "per_step")
    return bool(single) and one_value and not options[single]


@pytest.mark.parametrize("name", NORMS)
def test_has_a_reference_and_a_layout(name: str) -> None:
    assert issubclass(common.of(name), common.Base)
    assert layouts(name), f"'{name}' serves none of the layouts in tests/norms/contract.py: add the one that it serves"


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_equals_the_naive_reference_in_training_and_evaluation(name: str, axes: Axes) -> None:
    """An epoch of three batches of different sizes, an evaluation in every way, and one inside the next epoch."""
    for options in every_option(name):
        module, reference = pair(name, axes, options)
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
            for variant in ("", *module.variants):
                for mask in masks(name, axes, 7, 9):
                    x = draw(sizes(axes, batch=7), seed=9, scale=0.5)
                    with base.inference(module, variant):
                        y = module(x, mask)
                    wanted = reference(x.numpy(), training=False, variant=variant, mask=mask)
                    near(y, wanted, f"evaluation {variant!r} with {options}, mask {mask}")


@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize(("training", "before"), [(True, 0), (True, 2), (False, 2)], ids=["first", "later", "eval"])
def test_gradients_are_the_finite_differences_of_the_reference(
    name: str, axes: Axes, training: bool, before: int
) -> None:
    """Along random directions of input, gain and shift together; what the paper detaches is held."""
    rng, h = np.random.default_rng(5), 1e-5
    for options in every_option(name):
        module, reference = pair(name, axes, options)
        for step in range(before):
            x = draw(sizes(axes), seed=20 + step)
            module.train()(x)
            reference(x.numpy(), training=True)
        if before:
            module.end_epoch()
            reference.end_epoch()
        module.train(training).track = False
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


@pytest.mark.parametrize("name", NORMS)
def test_options_are_those_that_are_declared(name: str) -> None:
    """A constructor with defaults of its own would let YAML and code drift apart."""
    axes = layouts(name)[0]
    module = make(name, axes, defaults(name), seed=None)
    with pytest.raises(TypeError):
        make(name, axes, defaults(name) | {"no_such_option": 1})
    bare = type(module)(module.site).double()
    for step in range(2):
        x = draw(sizes(axes), seed=step)
        assert torch.equal(bare(x), module(x)), "the constructor's defaults differ from the YAML's"
    x = draw(sizes(axes), seed=3)
    assert torch.equal(bare.eval()(x), module.eval()(x))


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_every_parameter_gets_a_gradient(name: str, axes: Axes) -> None:
    for options in every_option(name):
        module = make(name, axes, options)
        x = draw(sizes(axes)).requires_grad_()
        (module(x) * draw(sizes(axes), seed=3)).sum().backward()
        for parameter in [x, *module.parameters()]:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, options


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_the_state_is_all_there_is_to_a_normalizer(name: str, axes: Axes) -> None:
    """Saved in the middle of an epoch, loaded into another: the two go on alike, and so do their evaluations."""
    for options in every_option(name):
        module, other = make(name, axes, options), make(name, axes, options, seed=5)
        for step in range(2):
            module(draw(sizes(axes), seed=step))
        state = {key: value.clone() for key, value in module.state_dict().items()}
        missing, unexpected = other.load_state_dict(state)
        assert not missing and not unexpected
        for one in (module, other):
            one(draw(sizes(axes), seed=3))
            one.end_epoch()
        x = draw(sizes(axes), seed=4)
        for variant in ("", *module.variants):
            with base.inference(module, variant), base.inference(other, variant):
                assert torch.equal(module(x), other(x)), (options, variant)
        after = other.state_dict()
        assert all(torch.equal(value, after[key]) for key, value in module.state_dict().items())


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_output_has_the_shape_and_type_of_its_input(name: str, axes: Axes) -> None:
    for options in every_option(name):
        for training in (True, False):
            module = make(name, axes, options).train(training)
            x = draw(sizes(axes))
            kept = x.clone()
            assert module(x).shape == x.shape
            assert torch.equal(x, kept), "the input was changed in place"
            single = module.float()(x.float())
            assert single.dtype == torch.float32


@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e4])
def test_zero_variance_is_served_with_finite_gradients(name: str, axes: Axes, value: float) -> None:
    for options in every_option(name):
        module, reference = pair(name, axes, options)
        x = torch.full(sizes(axes), value, dtype=torch.float64, requires_grad=True)
        y = module.train()(x)
        near(y, reference(x.detach().numpy(), training=True), options, 1e-6)
        if declares(name)["recentres"] and options == defaults(name):
            # where the mean is taken away, the shift is all that is left
            shift = np.array([reference.affine(i, 0.0) for i in common.every(y.shape)]).reshape(y.shape)
            near(y, shift, options, 1e-6)
        y.square().sum().backward()
        assert x.grad is not None and torch.isfinite(x.grad).all(), options
        assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None), options


@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e15])
def test_huge_and_tiny_magnitudes_stay_finite_in_float32(name: str, axes: Axes, scale: float) -> None:
    for options in every_option(name):
        module, reference = pair(name, axes, options, seed=None)
        x = (draw(sizes(axes), shift=0.0) * scale).float().requires_grad_()
        y = module.float().train()(x)
        y.sum().backward()
        assert x.grad is not None and torch.isfinite(y).all() and torch.isfinite(x.grad).all(), (options, scale)
        near(y, reference(x.detach().double().numpy(), training=True), (options, scale), 1e-4)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_bfloat16_is_near_float64(name: str, axes: Axes) -> None:
    for options in every_option(name):
        module = make(name, axes, options).train()
        x = draw(sizes(axes)).bfloat16()
        wanted = module(x.double())
        y = make(name, axes, options).bfloat16().train()(x)
        assert y.dtype == torch.bfloat16
        torch.testing.assert_close(y.double(), wanted, rtol=0.05, atol=0.1)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_batch_of_one_is_served_or_refused_in_words(name: str, axes: Axes) -> None:
    single = declares(name).get("single_batch")
    for options in every_option(name):
        module, reference = pair(name, axes, options)
        x = draw(sizes(axes, batch=1)).requires_grad_()
        if refuses_single(name, axes, options):
            with pytest.raises(NormbenchError, match=rf"one value per feature.*{single}"):
                module(x)
            continue
        y = module(x)
        near(y, reference(x.detach().numpy(), training=True), options)
        y.sum().backward()
        assert x.grad is not None and torch.isfinite(x.grad).all()


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_one_step_and_one_position_are_served_or_refused_in_words(name: str, axes: Axes) -> None:
    if "space" in axes and "space" in (declares(name).get("needs") or []):
        with pytest.raises(NormbenchError, match="one position in space"):
            make(name, axes, defaults(name), space=(1, 1))(draw(sizes(axes, space=(1, 1))))
        return
    for options in every_option(name):
        module, reference = pair(name, axes, options, space=(1, 1))
        x = draw(sizes(axes, time=1, space=(1, 1)))
        near(module(x), reference(x.numpy(), training=True), options)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_last_smaller_batch_and_other_sizes_at_evaluation_are_served(name: str, axes: Axes) -> None:
    """Down to one sample where that is not refused: whatever a data set's size leaves."""
    for options in every_option(name):
        module = make(name, axes, options)
        smallest = 2 if refuses_single(name, axes, options) else 1
        for batch in (4, 4, smallest):
            assert torch.isfinite(module.train()(draw(sizes(axes, batch), seed=batch))).all()
        module.end_epoch()
        for batch in (1, 4, 9):
            if batch == 1 and options.get("eval_stats") == "batch" and smallest == 2:
                continue
            assert torch.isfinite(module.eval()(draw(sizes(axes, batch), seed=8))).all(), (options, batch)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_mode_and_neighbours_count_only_where_declared(name: str, axes: Axes) -> None:
    """`mode_dependent: false` promises one function: of each sample alone, the same in training and evaluation."""
    x, other = draw(sizes(axes)), draw(sizes(axes), seed=2)
    other[0] = x[0]  # the first sample among other neighbours
    differs = False
    for options in every_option(name):
        module = make(name, axes, options)
        trained = module.train()(x)
        evaluated = module.eval()(x)
        alone = torch.equal(module.train()(other)[0], trained[0])
        same = torch.equal(trained, evaluated)
        if not declares(name)["mode_dependent"]:
            assert same and alone, options
        differs = differs or not (same and alone)
    assert differs == declares(name)["mode_dependent"]


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_evaluation_as_shipped_looks_at_each_sample_alone(name: str, axes: Axes) -> None:
    module = make(name, axes, defaults(name))
    module(draw(sizes(axes)))
    module.end_epoch()
    x, other = draw(sizes(axes), seed=1), draw(sizes(axes), seed=2)
    other[0] = x[0]
    module.eval()
    near(module(other)[0], module(x)[0], "the first sample among other neighbours", 1e-12)
    near(module(x[:1]), module(x)[:1], "the first sample by itself", 1e-12)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_pass_without_tracking_leaves_the_statistics(name: str, axes: Axes) -> None:
    for options in every_option(name):
        module = make(name, axes, options).train()
        module(draw(sizes(axes)))
        before = {key: value.clone() for key, value in module.state_dict().items()}
        module.eval()
        with base.training_without_tracking(module):
            assert module.training
            y = module(draw(sizes(axes), seed=4))
        assert not module.training and module.track
        assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items()), options
        module.train()
        assert torch.equal(y, module(draw(sizes(axes), seed=4))), "it must be the function of training"
        if before.keys() - dict(module.named_parameters()).keys():
            changed = [k for k, v in module.state_dict().items() if not torch.equal(v, before[k])]
            assert changed, "a tracked training pass moves the statistics"


@pytest.mark.parametrize(("name", "axes"), [case for case in CASES if "time" in case.values[1]])
def test_the_mask_counts_only_where_declared(name: str, axes: Axes) -> None:
    mask, reads = valid(4, 0), False
    for options in every_option(name):
        whole, masked = make(name, axes, options), make(name, axes, options)
        x = draw(sizes(axes))
        reads = reads or not torch.equal(whole(x), masked(x, mask))
    assert reads == bool(declares(name).get("reads_mask"))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(("fact", "change"), [("recentres", lambda x: x + 7e4), ("rescales", lambda x: 3 * x)])
def test_invariances_are_what_is_declared(name: str, fact: str, change: object) -> None:
    """A constant added to all data, a factor on all data; `recentres` lets a preceding bias go."""
    axes = layouts(name)[0]
    one, other = make(name, axes, defaults(name)), make(name, axes, defaults(name))
    same = True
    for step in range(3):
        x = 1e4 * draw(sizes(axes), seed=step)  # no eps is in the way
        same = same and torch.allclose(other(change(x)), one(x), atol=1e-6)  # type: ignore[operator]
    assert same == bool(declares(name)[fact])
