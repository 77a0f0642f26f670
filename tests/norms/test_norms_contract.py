"""What every normalizer keeps to; a new YAML in `conf/norm` is covered by being there."""

from __future__ import annotations

import pytest
import torch
from contract import FEATURES, NORMS, declares, defaults, draw, every_option, layouts, make, sizes
from reference.norms import REFERENCES
from torch import nn

from normbench.norms import base

CASES = [pytest.param(name, axes, id=f"{name}-{'.'.join(axes)}") for name in NORMS for axes in layouts(name)]


@pytest.mark.parametrize("name", NORMS)
def test_has_a_reference_and_a_layout(name: str) -> None:
    assert name in REFERENCES, f"write a naive float64 '{name}' in tests/reference/norms.py"
    assert layouts(name), f"'{name}' serves none of the layouts in tests/norms/contract.py: add the one that it serves"


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_equals_the_naive_reference_in_training_and_evaluation(name: str, axes: tuple[str, ...]) -> None:
    for options in every_option(name):
        module, reference = make(name, axes, options), REFERENCES[name](axes, sizes(axes), options)
        for parameter, attribute in ((module.gain, "gain"), (module.bias, "bias")):
            if parameter is not None:
                assert parameter.shape == reference.affine_shape
                setattr(reference, attribute, parameter.detach().numpy())
        module.train()
        for step in range(3):
            x = draw(sizes(axes, batch=4 + step), seed=step, shift=step)
            torch.testing.assert_close(
                module(x).detach(),
                torch.from_numpy(reference(x.numpy(), training=True)),
                rtol=1e-10,
                atol=1e-10,
                msg=lambda text, o=options: f"{text}\ntraining with {o}",
            )
        x = draw(sizes(axes), seed=9, scale=0.5)
        for variant in ("", *module.variants):
            with base.inference(module, variant):
                y = module(x).detach()
            wanted = torch.from_numpy(reference(x.numpy(), training=False, variant=variant))
            torch.testing.assert_close(
                y,
                wanted,
                rtol=1e-10,
                atol=1e-10,
                msg=lambda text, o=options, v=variant: f"{text}\nevaluation {v!r} with {o}",
            )


@pytest.mark.parametrize("name", NORMS)
def test_options_are_those_that_are_declared(name: str) -> None:
    """A constructor without defaults of its own kind would let YAML and code drift apart."""
    axes = layouts(name)[0]
    module = make(name, axes, defaults(name), seed=None)
    with pytest.raises(TypeError):
        make(name, axes, defaults(name) | {"no_such_option": 1})
    bare = type(module)(module.site).double()
    x = draw(sizes(axes))
    assert torch.equal(bare(x), module(x)), "the constructor's defaults differ from the YAML's"


@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_those_of_finite_differences(name: str, axes: tuple[str, ...], training: bool) -> None:
    seen, no_part = [], ("also_momenta", "momentum", "unbiased_running", "gain_init")  # in the gradient
    for options in every_option(name):
        key = {k: v for k, v in options.items() if k not in no_part}
        if key in seen:
            continue
        seen.append(key)
        module = make(name, axes, options).train(training)
        parameters = list(module.parameters())

        def output(x: torch.Tensor, *_: torch.Tensor, module: nn.Module = module) -> torch.Tensor:
            return module(x)

        x = draw(sizes(axes, batch=3), seed=1).requires_grad_()
        assert torch.autograd.gradcheck(output, (x, *parameters), fast_mode=True), options


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_every_parameter_gets_a_gradient_and_survives_a_round_trip(name: str, axes: tuple[str, ...]) -> None:
    for options in every_option(name):
        module = make(name, axes, options)
        x = draw(sizes(axes)).requires_grad_()
        (module(x) * draw(sizes(axes), seed=3)).sum().backward()
        for parameter in [x, *module.parameters()]:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, options
        other = make(name, axes, options, seed=5)
        missing, unexpected = other.load_state_dict(module.state_dict())
        assert not missing and not unexpected
        for variant in ("", *module.variants):
            with base.inference(module, variant), base.inference(other, variant):
                assert torch.equal(module(x), other(x)), (options, variant)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_output_has_the_shape_and_type_of_its_input(name: str, axes: tuple[str, ...]) -> None:
    for options in every_option(name):
        for training in (True, False):
            module = make(name, axes, options).train(training)
            x = draw(sizes(axes))
            assert module(x).shape == x.shape
            single = module.float()(x.float())
            assert single.dtype == torch.float32
            kept = x.clone()
            module.double()(x)
            assert torch.equal(x, kept), "the input was changed in place"


@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e4])
def test_zero_variance_gives_the_shift_and_finite_gradients(name: str, axes: tuple[str, ...], value: float) -> None:
    for options in every_option(name):
        module = make(name, axes, options).train()
        x = torch.full(sizes(axes), value, dtype=torch.float64, requires_grad=True)
        y = module(x)
        shift = torch.zeros(FEATURES) if module.bias is None else module.bias
        if shift.dim() == 1:  # one per feature: bring it to the feature axis
            shift = shift.view([FEATURES if axis == "feature" else 1 for axis in axes])
        torch.testing.assert_close(y, shift.double().expand_as(y), rtol=1e-7, atol=1e-7)
        y.square().sum().backward()
        assert torch.isfinite(x.grad).all(), options
        assert all(torch.isfinite(p.grad).all() for p in module.parameters()), options


@pytest.mark.parametrize(("name", "axes"), CASES)
@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e15])
def test_huge_and_tiny_magnitudes_stay_finite_in_float32(name: str, axes: tuple[str, ...], scale: float) -> None:
    for options in every_option(name):
        module = make(name, axes, options, seed=None).float().train()
        x = (draw(sizes(axes), shift=0.0) * scale).float().requires_grad_()
        y = module(x)
        y.sum().backward()
        assert torch.isfinite(y).all() and torch.isfinite(x.grad).all(), (options, scale)
        if scale > 1:  # eps does not count there: the moments are those of the normalized input at scale 1
            unit = make(name, axes, options | {"eps": 1e-12}, seed=None).train()(x.detach().double() / scale)
            torch.testing.assert_close(y.double(), unit, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_bfloat16_is_near_float64(name: str, axes: tuple[str, ...]) -> None:
    for options in every_option(name):
        module = make(name, axes, options).train()
        x = draw(sizes(axes)).bfloat16()
        wanted = module(x.double())
        y = make(name, axes, options).bfloat16().train()(x)
        assert y.dtype == torch.bfloat16
        torch.testing.assert_close(y.double(), wanted, rtol=0.05, atol=0.1)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_batch_of_one_is_served_or_refused_in_words(name: str, axes: tuple[str, ...]) -> None:
    single = declares(name).get("single_batch")
    for options in every_option(name):
        module = make(name, axes, options).train()
        x = draw(sizes(axes, batch=1)).requires_grad_()
        if single and set(axes) == {"batch", "feature"} and not options[single]:
            with pytest.raises(Exception, match=rf"one value per feature.*{single}"):
                module(x)
            continue
        y = module(x)
        y.sum().backward()
        assert torch.isfinite(y).all() and torch.isfinite(x.grad).all()
        if single and set(axes) == {"batch", "feature"}:
            wanted = torch.zeros_like(y) if module.bias is None else module.bias.expand_as(y)
            assert torch.equal(y, wanted), "one value per feature gives the shift"


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_mode_and_neighbours_count_only_where_declared(name: str, axes: tuple[str, ...]) -> None:
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
def test_a_pass_without_tracking_leaves_the_statistics(name: str, axes: tuple[str, ...]) -> None:
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
        if module.variants:
            changed = [k for k, v in module.state_dict().items() if not torch.equal(v, before[k])]
            assert changed, "a tracked training pass moves the statistics"


@pytest.mark.parametrize("name", NORMS)
def test_recentring_is_what_is_declared(name: str) -> None:
    """`recentres` lets a preceding bias go: adding a constant per feature (batch) or to all (layer) changes nothing."""
    axes = layouts(name)[0]
    module = make(name, axes, defaults(name)).train()
    x = draw(sizes(axes))
    same = torch.allclose(module(x + 7.0), module(x), atol=1e-9)
    assert same == bool(declares(name).get("recentres"))
