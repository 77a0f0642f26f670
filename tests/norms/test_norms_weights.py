"""The contract of normalizers of weights and blocks; a new YAML in `conf/norm` is covered by being there."""

from __future__ import annotations

from functools import partial
from typing import Any

import contract
import pytest
import torch
import torch.nn.functional as F
from reference.weights import FREE, REFERENCES
from torch import nn
from torch.nn.utils import parametrizations
from weight_cases import (
    CASES,
    LAYOUTS,
    NORMS,
    Options,
    activations,
    every_case,
    inputs,
    make,
    reference,
    rows,
    settled,
    units,
)

from normbench import create_norm
from normbench.battery.cases import FUNCTIONS, INPUTS, KERNEL, UNITS, WEIGHT_KINDS, draw
from normbench.config import compose
from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.norms import base, layers, modes
from normbench.norms.sites import INVARIANT, NOT, Choice, Site, least_eps
from normbench.train import probes

# --- the contract ----------------------------------------------------------------------------------------------------


def test_every_normalizer_is_under_a_contract() -> None:
    assert {*NORMS, *contract.NORMS, *contract.PRESETS, "none"} == set(compose.choices("norm"))
    assert set(NORMS) == set(REFERENCES) == set(FREE), "write a naive float64 reference in tests/reference/weights.py"
    assert {case.values[0] for case in CASES} == set(NORMS)


@pytest.mark.thinned(2)
@every_case
@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_naive_reference(name: str, layout: str, options: Options, bias: bool) -> None:
    for activation in activations(name):
        layer = make(name, layout, options, bias=bias, activation=activation)
        naive = reference(name, layer, options, activation)
        for step in range(3):
            x = inputs(layout, batch=4 + step, seed=step, shift=step)  # the last batch of an epoch has another size
            y = units(layer.train()(x), layout).detach()
            wanted = torch.from_numpy(naive(rows(x, layout).numpy(), training=True))
            torch.testing.assert_close(y, wanted, rtol=1e-9, atol=1e-9)
        x = inputs(layout, seed=9, scale=0.5)
        wanted = torch.from_numpy(naive(rows(x, layout).numpy(), training=False))
        torch.testing.assert_close(units(layer.eval()(x), layout).detach(), wanted, rtol=1e-9, atol=1e-9)


@every_case
def test_weights_without_a_direction_are_refused_in_words(name: str, layout: str, options: Options) -> None:
    layer = make(name, layout, options)
    with torch.no_grad():
        layer.linear.weight[2] = 0.0
    if FREE[name] == "unit":
        with pytest.raises(NormbenchError, match=r"'hidden.0'.*unit 2 are all zero \(1 of 5"):
            layer.start()
    else:  # one unit without weights leaves the matrix with a singular value
        layer.start()
        assert torch.isfinite(layer.train()(inputs(layout))).all()
        assert not layer.norm(layer.linear.weight)[2].any()
    with torch.no_grad():
        layer.linear.weight.zero_()
    with pytest.raises(NormbenchError, match=r"'hidden.0'.*zero"):
        layer.start()


@pytest.mark.thinned(2)
@every_case
@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e15])
@pytest.mark.parametrize("what", ["inputs", "weights"])
def test_huge_and_tiny_magnitudes_in_float32(name: str, layout: str, options: Options, scale: float, what: str) -> None:
    if FREE[name] == "matrix" and what == "weights" and scale < options["eps"]:
        layer = make(name, layout, options)
        with torch.no_grad(), pytest.raises(NormbenchError, match=r"below norm\.eps"):
            layer.linear.weight.mul_(scale / 100)
            layer.start()
        options = options | {"eps": 1e-30}
    results = []
    for dtype in (torch.float64, torch.float32):
        layer = make(name, layout, options, seed=None)
        x = inputs(layout, batch=8)
        with torch.no_grad():
            (layer.linear.weight if what == "weights" else x).mul_(scale)
        layer = layer.to(dtype)
        layer.start()
        x = x.to(dtype).requires_grad_()
        y = layer.train()(x)
        y.sum().backward()
        results.append(y.detach().double())
        assert torch.isfinite(y).all() and torch.isfinite(x.grad).all()
        assert all(torch.isfinite(p.grad).all() for p in layer.parameters())
    torch.testing.assert_close(*reversed(results), rtol=1e-3, atol=1e-4 * float(results[0].abs().max()))


@every_case
def test_a_batch_of_one_is_served_or_refused_in_words(name: str, layout: str, options: Options) -> None:
    layer = make(name, layout, options).train()
    x = inputs(layout, batch=1).requires_grad_()
    if layer.norm.pending and layout == "linear":
        with pytest.raises(NormbenchError, match=r"'hidden.0'.*has 1 value\(s\) per unit.*norm\.init=preserve"):
            layer(x)
        assert layer.norm.pending
        settled(layer, layout)
    y = layer(x)
    y.sum().backward()
    assert y.shape[0] == 1 and torch.isfinite(y).all() and torch.isfinite(x.grad).all()


@every_case
def test_before_the_first_minibatch_too_a_pass_without_tracking_leaves_everything(
    name: str, layout: str, options: Options
) -> None:
    layer, x = make(name, layout, options), inputs(layout, seed=4)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    with modes.training_without_tracking(layer):
        layer(x)
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())
    layer.train()(x)
    if layer.norm.state_dict().keys() - dict(layer.norm.named_parameters()):
        assert any(not torch.equal(v, before[k]) for k, v in layer.state_dict().items()), "tracked, it moves them"


@every_case
def test_the_first_minibatch_counts_once(name: str, layout: str, options: Options) -> None:
    """A pass under `starting` sets initial values alone; in training they are set once, and never in evaluation."""
    layer = make(name, layout, options)
    first, second = inputs(layout, batch=6), inputs(layout, batch=6, seed=1, scale=5.0)
    waits = layer.norm.pending
    layer.eval()(second)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    with torch.no_grad(), modes.starting(layer):
        layer(first)
    assert not layer.training and layer.norm.track and not layer.norm.starting and not layer.norm.pending
    started = {key: value.clone() for key, value in layer.state_dict().items()}
    changed = {key for key, value in started.items() if not torch.equal(value, before[key])}
    wanted = {"norm.gain", "norm.initialized", "linear.bias"} - (
        {"linear.bias"} if options.get("mean_only_bn") else set()
    )
    assert changed == (wanted if waits else set())
    lazily = make(name, layout, options).train()
    lazily(first)
    for key in wanted:
        if key in started:
            assert torch.equal(lazily.state_dict()[key], started[key]), "in training the same, without `starting`"
    layer.train()(second)
    for key in wanted & set(started):
        assert torch.equal(layer.state_dict()[key], started[key]), "the second minibatch sets nothing"


@every_case
def test_of_what_scale_of_the_weights_the_output_is_free(name: str, layout: str, options: Options) -> None:
    """LN 2016, Table 1, first and third column: all weights doubled; those of one unit doubled."""
    options = options | least_eps(contract.declares(name)["options"], options)
    layer, x = settled(make(name, layout, options), layout).eval(), inputs(layout)
    y = layer(x)
    with torch.no_grad():
        layer.linear.weight.mul_(2.0)
    assert torch.allclose(layer(x), y, rtol=1e-12)
    with torch.no_grad():
        layer.linear.weight[1] *= 3.0
    assert torch.allclose(layer(x), y, rtol=1e-12) == (FREE[name] == "unit")


@every_case
def test_it_folds_into_a_plain_weight(name: str, layout: str, options: Options) -> None:
    """LN-T2: a re-parameterization; in evaluation one fixed weight and bias do the same for all inputs."""
    layer = settled(make(name, layout, options), layout).eval()
    bias = layer.linear.bias - (layer.norm.running_mean if options.get("mean_only_bn") else 0.0)
    product = F.conv2d if layout == "convolution" else F.linear
    for seed in (1, 2):
        x = inputs(layout, seed=seed)
        z = product(x, layer.norm(layer.linear.weight), bias)
        torch.testing.assert_close(layer(x), layer.norm.finish(layer.activation(z)))


# --- beside another at the same layer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NORMS if contract.declares(name)["kinds"] == ["weight"]])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["pre_activation", "post_activation"])
def test_beside_one_of_the_activations_it_makes_the_matrix(name: str, layout: str, kind: str) -> None:
    site = Site("hidden.0", (kind, "weight"), LAYOUTS[layout], UNITS, (2, 2) if layout == "convolution" else ())
    of_weight = Choice(name, "weight", contract.defaults(name), True, False, 1)
    beside = Choice("batch", kind, contract.defaults("batch"), True, True, 1, weight=of_weight)
    form = partial(layers.NormedConv, kernel=KERNEL) if layout == "convolution" else layers.NormedLinear
    layer, x = form(INPUTS, site, beside, torch.tanh).double(), inputs(layout)
    layer.start()
    own, product = layer.linear, F.conv2d if layout == "convolution" else F.linear
    layer.train()(x)
    layer.eval()
    with torch.no_grad():
        z = product(x, layer.weight_norm(own.weight), own.bias)
        wanted = torch.tanh(layer.norm(z)) if kind == "pre_activation" else layer.norm(torch.tanh(z))
        torch.testing.assert_close(layer(x), wanted)
        torch.testing.assert_close(layer.once()(x), wanted)
    assert [*layer.state_dict()][:2] == ["linear.weight", "linear.bias"]
    layer.train()(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n, p in layer.named_parameters() if n != "linear.bias")


# --- torch's equivalents ----------------------------------------------------------------------------------------------


def train_both(ours: Any, theirs: nn.Module, layout: str) -> None:
    """Five steps of SGD of both on the same batches, with an evaluation after each."""
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.05) for layer in (ours, theirs)]
    for step in range(5):
        x, results = inputs(layout, seed=step, shift=step), []
        for layer, optimizer in zip((ours, theirs), optimizers, strict=True):
            y = layer.train()(x)
            (y * draw(tuple(y.shape), 100 + step)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            results.append((y.detach(), layer.eval()(x).detach()))
        torch.testing.assert_close(results[0], results[1])


def torch_map(ours: Any, layout: str) -> nn.Module:
    theirs = nn.Conv2d(INPUTS, UNITS, KERNEL) if layout == "convolution" else nn.Linear(INPUTS, UNITS)
    theirs = theirs.double()
    theirs.load_state_dict(ours.linear.state_dict())
    return theirs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weight_is_torch_weight_norm(layout: str) -> None:
    ours = make("weight", layout, contract.defaults("weight"), seed=None)
    ours.activation = FUNCTIONS["none"]
    x = inputs(layout)
    torch.testing.assert_close(ours(x), torch_map(ours, layout)(x))  # the default preserves the function
    theirs = parametrizations.weight_norm(torch_map(ours, layout), dim=0)
    train_both(ours, theirs, layout)
    torch.testing.assert_close(ours.norm.gain, theirs.parametrizations.weight.original0.flatten())
    torch.testing.assert_close(ours.linear.weight, theirs.parametrizations.weight.original1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("iterations", "eps"), [(1, 1e-12), (3, 1e-12), (1, 100.0)])
def test_spectral_is_torch_spectral_norm(layout: str, iterations: int, eps: float) -> None:
    """By copied u and v: PyTorch draws them. The large eps makes it count."""
    ours = make("spectral", layout, contract.defaults("spectral") | {"iterations": iterations}, seed=None)
    ours.activation, ours.norm.eps = FUNCTIONS["none"], eps
    theirs = parametrizations.spectral_norm(torch_map(ours, layout), n_power_iterations=iterations, eps=eps)
    with torch.no_grad():
        theirs.parametrizations.weight[0]._u.copy_(ours.norm.u)
        theirs.parametrizations.weight[0]._v.copy_(ours.norm.v)
    train_both(ours, theirs, layout)
    torch.testing.assert_close(ours.linear.weight, theirs.parametrizations.weight.original)
    torch.testing.assert_close(ours.norm.u, theirs.parametrizations.weight[0]._u)
    torch.testing.assert_close(ours.norm.v, theirs.parametrizations.weight[0]._v)


def test_mean_only_is_batch_norm_without_the_division() -> None:
    """Times the batch's standard deviation, torch's BatchNorm1d is the same function of the batch."""
    layer = make("weight", "linear", contract.defaults("weight") | {"mean_only_bn": True}, seed=None, activation="none")
    theirs, x = nn.BatchNorm1d(UNITS, eps=1e-12).double(), inputs("linear", batch=7)
    z = F.linear(x, layer.linear.weight)
    torch.testing.assert_close(layer.train()(x), theirs(z) * z.std(0, correction=0))
    torch.testing.assert_close(layer.norm.running_mean, theirs.running_mean)


def test_two_gradients_through_passes_of_one_module_are_those_of_each() -> None:
    """The vectors of spectral normalization move with every pass; an earlier pass keeps its own for its gradient."""
    layer = make("spectral", "linear", contract.defaults("spectral") | {"start_iterations": 1})
    x = inputs("linear")
    alone = make("spectral", "linear", contract.defaults("spectral") | {"start_iterations": 1})
    alone.train()(x).sum().backward()
    for mode in (True, False):
        y = layer.train(mode)(x)
        layer.train()(x + 1)
        layer.zero_grad()
        y.sum().backward()
        if mode:
            torch.testing.assert_close(layer.linear.weight.grad, alone.linear.weight.grad)


def test_weight_standardizations_row_of_table_1() -> None:
    """LN 2016; its weights sum to 0, so that a number added to all inputs of a case is not seen."""
    (spec,) = train_specs(["model=invariances", "norm=weight_standardization", "norm.eps=0"], False)
    (record,) = probes.compute(spec)
    invariant = {"W_rescale", "w_vector_rescale", "case_recenter", "affine"}
    found = {key: value for key, value in record.items() if isinstance(value, float)}
    assert {key for key, value in found.items() if value <= INVARIANT} == invariant
    assert all(value > NOT for key, value in found.items() if key not in invariant)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_unit_that_does_not_vary_is_refused_by_lasagne_alone() -> None:
    x = torch.zeros(5, INPUTS, dtype=torch.float64)
    with pytest.raises(NormbenchError, match=r"every unit must vary over the first minibatch, which has 5 value"):
        make("weight", "linear", contract.defaults("weight") | {"init": "lasagne"}).train()(x)
    layer = make("weight", "linear", contract.defaults("weight") | {"init": "data"}).train()
    layer(x)
    torch.testing.assert_close(layer.norm.gain.detach(), torch.full((UNITS,), 1e5, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"mean_only_bn": True}, {"init": "data"}, {"init": "lasagne"}])
def test_a_time_axis_has_no_rule_for_batch_means(options: Options) -> None:
    with pytest.raises(NormbenchError, match=r"'hidden.0'.*norm.init=preserve and norm.mean_only_bn=false"):
        make("weight", "sequence", contract.defaults("weight") | options)


def test_units_with_one_input_have_no_standardized_weight() -> None:
    with pytest.raises(NormbenchError, match=r"each unit has one input, so that its weight would always be 0\."):
        create_norm("weight_standardization", 4, inputs=1)


def test_a_class_must_be_of_the_kind_that_is_declared() -> None:
    site = Site("hidden.0", ("pre_activation", *WEIGHT_KINDS), LAYOUTS["linear"], UNITS, activation="relu")
    for name, kind, needed in (("layer", "weight", "WeightNormalizer"), ("weight", "pre_activation", "not of Weight")):
        with pytest.raises(NormbenchError, match=f"{name} serves {kind}: .*must be a subclass of .*{needed}"):
            base.build(site, Choice(name, kind, {}, True, False, 1))


def test_propagated_values_keep_mean_zero_and_variance_one() -> None:
    """Arpit et al.'s point, for g = 1 and uncorrelated normal inputs."""
    for activation in activations("norm_propagation"):
        layer = make("norm_propagation", "linear", {"gain_init": 1.0}, seed=None, activation=activation)
        with torch.no_grad():
            y = layer(draw((400_000, INPUTS), scale=1.0, shift=0.0))
        torch.testing.assert_close(y.mean(0), torch.zeros(UNITS).double(), atol=0.01, rtol=0)
        torch.testing.assert_close(y.var(0), torch.ones(UNITS).double(), atol=0.01, rtol=0)
