"""The contract of normalizers of weights and blocks; a new YAML in `conf/norm` is covered by being there."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import contract
import pytest
import tiny
import torch
import torch.nn.functional as F
from reference.weights import FREE, REFERENCES
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from normbench import data as datasets
from normbench.battery.cases import FUNCTIONS, INPUTS, KERNEL, UNITS, WEIGHT_KINDS, WEIGHT_LAYOUTS, draw
from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms import base, layers, modes
from normbench.norms.sites import Choice, Site
from normbench.norms.weight import WeightNorm
from normbench.streams import stream
from normbench.train import checkpoint

KINDS = WEIGHT_KINDS
NORMS = [n for n in contract.NAMES if set(KINDS) & set(contract.declares(n)["kinds"])]
LAYOUTS = dict(zip(("linear", "sequence", "convolution"), WEIGHT_LAYOUTS, strict=True))
WEIGHTS = contract.subject(NORMS[0])  # all take the same inputs
FEATURES, ACTIVATIONS = UNITS, FUNCTIONS
NUMBERS = {
    "init_scale": [1.0, 0.5],
    "momentum": [0.1, 0.4],
    "iterations": [1, 3],
    "start_iterations": [15, 2],
    "eps": [1e-12, 1e-3],
    "gain_init": [1 / 1.21, 0.5],
}


def every_option(name: str) -> Iterator[dict[str, Any]]:
    """The defaults, then all combinations of switches and choices, each with both values of the numbers."""
    options = contract.declares(name)["options"]
    switches = {
        key: [True, False] if spec["type"] == "bool" else spec["choices"]
        for key, spec in options.items()
        if spec["type"] == "bool" or "choices" in spec
    }
    assert set(options) <= set(switches) | set(NUMBERS), "give a new number its two values in NUMBERS"
    yield contract.defaults(name)
    for values, turn in itertools.product(itertools.product(*switches.values()), (0, 1)):
        numbers = {key: both[turn] for key, both in NUMBERS.items() if key in options}
        yield numbers | dict(zip(switches, values, strict=True))


def activations(name: str) -> list[str]:
    return list(contract.declares(name).get("activations") or ["tanh"])


def make(
    name: str, layout: str, options: Mapping[str, Any], seed: int | None = 0, bias: bool = True, activation: str = ""
) -> Any:
    """A small layer in float64; parameters away from their start unless seed is None."""
    subject = contract.subject(name)
    return subject.make(LAYOUTS[layout], dict(options), seed, bias=bias, activation=activation)


def inputs(layout: str, batch: int = 4, seed: int = 0, scale: float = 2.0, shift: float = 1.0) -> Tensor:
    return WEIGHTS.inputs(LAYOUTS[layout], batch, seed, scale, shift)


def rows(x: Tensor, layout: str) -> Tensor:
    """The inputs of every output value, one row each."""
    if layout == "convolution":
        x = F.unfold(x, KERNEL).transpose(1, 2)
    return x.flatten(0, -2)


def units(y: Tensor, layout: str) -> Tensor:
    return y.movedim(LAYOUTS[layout].index("feature"), -1).flatten(0, -2)


def reference(name: str, layer: Any, options: Mapping[str, Any], activation: str) -> Any:
    """The naive one with this layer's numbers; after `make`, before any pass."""
    weight = layer.linear.weight.detach().flatten(1).numpy().copy()
    bias = None if layer.linear.bias is None else layer.linear.bias.detach().numpy().copy()
    naive = REFERENCES[name](weight, bias, activation, options)
    for key, value in {**dict(layer.norm.named_parameters()), **dict(layer.norm.named_buffers())}.items():
        if key in ("gain", "u", "v"):
            assert getattr(naive, key).shape in (value.shape, (0,))
            setattr(naive, key, value.detach().numpy().copy())
    return naive


def servable(name: str, layout: str, options: Mapping[str, Any]) -> bool:
    try:
        make(name, layout, options)
    except NormbenchError as refusal:
        assert "over a time axis there is no rule" in str(refusal) and layout == "sequence"
        return False
    return True


CASES = [
    pytest.param(name, layout, options, id=f"{name}-{layout}-{number}")
    for name in NORMS
    for layout, axes in LAYOUTS.items()
    if set(axes) <= set(contract.declares(name)["axes"])
    for number, options in enumerate(every_option(name))
    if servable(name, layout, options)
]
every_case = pytest.mark.parametrize(("name", "layout", "options"), CASES)
Options = dict[str, Any]


def settled(layer: Any, layout: str) -> Any:
    """After a first minibatch, so that nothing waits for one."""
    layer.train()(inputs(layout, batch=6, seed=77))
    assert not layer.norm.pending
    return layer


# --- the contract ----------------------------------------------------------------------------------------------------


def test_every_normalizer_is_under_a_contract() -> None:
    assert {*NORMS, *contract.NORMS, "none"} == set(compose.choices("norm"))
    assert set(NORMS) == set(REFERENCES) == set(FREE), "write a naive float64 reference in tests/reference/weights.py"
    assert {case.values[0] for case in CASES} == set(NORMS)


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


@every_case
@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e15])
@pytest.mark.parametrize("what", ["inputs", "weights"])
def test_huge_and_tiny_magnitudes_in_float32(name: str, layout: str, options: Options, scale: float, what: str) -> None:
    if "eps" in options and what == "weights" and scale < options["eps"]:
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
    plain = F.conv2d if layout == "convolution" else F.linear
    for seed in (1, 2):
        x = inputs(layout, seed=seed)
        z = plain(x, layer.norm(layer.linear.weight), bias)
        torch.testing.assert_close(layer(x), layer.norm.finish(layer.activation(z)))


# --- in a model and in a run -----------------------------------------------------------------------------------------


def words(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    usual = contract.defaults(name)
    changed = [f"norm.{key}={str(value).lower()}" for key, value in options.items() if value != usual[key]]
    return (f"norm={name}", "model.hidden_sizes=[8,6]", *changed)


RUNS = [
    pytest.param(words(name, options), id=f"{name}-{number}")
    for name in NORMS
    for number, options in enumerate([*every_option(name)][::2])  # the defaults; each switch with the other numbers
]


def network(*words: str) -> models.Model:
    spec = tiny.spec(*words)
    return models.build(spec.config, spec.sites())


@pytest.mark.parametrize("words", RUNS)
def test_the_weights_are_the_draws_of_the_arm_without(words: tuple[str, ...]) -> None:
    plain = dict(network("model.hidden_sizes=[8,6]").named_parameters())
    for name, parameter in network(*words).named_parameters():
        if ".norm." not in name:
            assert torch.equal(parameter, plain[name]), name
        else:
            assert name in base.own_parameters(network(*words))


def test_initial_values_come_from_the_draws_not_from_torch() -> None:
    """torch fills a new linear map from its global generator; nothing of that may remain."""
    for name in NORMS:
        found = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            found.append(network(*words(name, {})).state_dict())
        assert all(torch.equal(value, found[1][key]) for key, value in found[0].items()), name
    gain = network("norm=weight").hidden[0]
    assert torch.equal(gain.norm.gain, gain.linear.weight.norm(dim=1))
    spectral = network("norm=spectral", "norm.start_iterations=500").hidden[0]
    largest = torch.linalg.matrix_norm(spectral.linear.weight, 2)
    torch.testing.assert_close(spectral.eval().norm(spectral.linear.weight), spectral.linear.weight / largest)


@pytest.mark.parametrize("name", NORMS)
def test_a_layer_in_somebodys_own_model_has_begun(name: str) -> None:
    """Without the paired draws of `initialize`: from the weights that torch gave it."""
    kind, site = (
        contract.declares(name)["kinds"][0],
        Site("mine", KINDS, LAYOUTS["linear"], FEATURES, activation="relu"),
    )
    layer = layers.NormedLinear(INPUTS, site, Choice(name, kind, contract.defaults(name), True, False, 1), F.relu)
    x, before = inputs("linear").float(), {key: value.clone() for key, value in layer.state_dict().items()}
    with torch.no_grad():
        y = layer.eval()(x)
        layer.start()
        assert torch.equal(layer(x), y)
    assert layer.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


@pytest.mark.parametrize("words", RUNS)
def test_an_interrupted_run_ends_with_the_same_bytes(words: tuple[str, ...], tmp_path: Path) -> None:
    assert tiny.train(tmp_path / "calm", *words) == "done"
    rng, stops = random.Random(str(words)), 0
    while tiny.train(tmp_path / "run", *words, stopping=tiny.after(rng.randint(1, 4))) == "interrupted":
        stops += 1
    assert stops >= 2
    assert tiny.result(tmp_path / "run") == tiny.result(tmp_path / "calm")
    other = tmp_path / "other"
    assert tiny.train(other, *words, "seed=2") == "done"
    assert tiny.result(other) != tiny.result(tmp_path / "calm")


STARTS = [("norm.init=data",), ("norm.init=lasagne",), ("norm.init=data", "norm.mean_only_bn=true")]


@pytest.mark.parametrize("start", STARTS)
def test_a_run_begins_from_its_first_minibatch_once(
    start: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the record of epoch 0, with the minibatch that is trained first, and never again after a resume."""
    seen, real = [], WeightNorm._from_data

    def watched(self: WeightNorm, t: Tensor, bias: Tensor | None) -> None:
        seen.append((self.site.path, len(t)))
        real(self, t, bias)

    monkeypatch.setattr(WeightNorm, "_from_data", watched)
    chosen = ("norm=weight", "model.hidden_sizes=[8,6]", "norm.sites=[hidden,logits]", *start)
    run = tmp_path / "run"
    assert tiny.train(run, *chosen, stopping=tiny.after(2)) == "interrupted"
    sites = [(path, 210) for path in ("hidden.0", "hidden.1", "logits")]
    assert seen == sites
    assert tiny.train(run, *chosen) == "done"
    assert seen == sites, "resumed, it must not begin again"

    # the record of epoch 0 is that of the network so begun, whose first minibatch comes out as the method says
    spec = tiny.spec(*chosen)
    data = datasets.load(spec.config["data"])
    model = models.build(spec.config, spec.sites())
    batch = data.splits["train"].batch(torch.from_numpy(stream(spec.seed, "order", 1).permutation(1200)[:210]))
    first = batch.tensors["inputs"]
    models.start_from_data(model, batch)
    assert model.training, "as it was built"
    mode_dependent = any(choice.mode_dependent for choice in spec.sites().values())
    assert mode_dependent == ("norm.mean_only_bn=true" in start)
    wanted = tiny.evaluate(model, spec, 0)
    records = [json.loads(line) for line in (run / "curve.jsonl").read_text().splitlines()]
    assert [{"epoch": 0, "step": 0} | record for record in wanted] == [r for r in records if r["epoch"] == 0]
    h = first
    with modes.training_without_tracking(model):
        for layer in [*model.hidden, model.logits]:
            bias = None if layer.norm.mean_only_bn else layer.linear.bias
            z = layer.norm.summed(partial(F.linear, h), layer.linear.weight, bias)
            torch.testing.assert_close(z.mean(0), torch.zeros_like(z[0]), atol=1e-5, rtol=0)
            torch.testing.assert_close(z.std(0, correction=0), torch.ones_like(z[0]), atol=1e-4, rtol=0)
            h = layer(h)


def test_others_are_left_alone_by_the_start() -> None:
    """Nothing waits: no pass is made. Something waits beside batch statistics: these do not move."""
    spec = tiny.spec("norm=batch")
    split = datasets.load(spec.config["data"]).splits["train"]
    model = models.build(spec.config, spec.sites())
    model.register_forward_hook(lambda *_: pytest.fail("a pass was made"))
    models.start_from_data(model, split.batch(slice(9)))
    spec = tiny.spec("norm.sites={hidden:batch,logits:{name:weight,init:data}}")
    model = models.build(spec.config, spec.sites())
    models.start_from_data(model, split.batch(slice(9)))
    assert not model.hidden[0].norm.running_mean.any() and not modes.pending(model)


def test_what_is_kept_holds_that_it_has_begun(tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", "norm=weight", "norm.init=data", stopping=tiny.after(1))
    _, tensors, _ = checkpoint.newest(tmp_path / "run" / "checkpoint")
    assert tensors["model:hidden.0.norm.initialized"].item() is True


# --- what they are said to equal -------------------------------------------------------------------------------------


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


def plain(ours: Any, layout: str) -> nn.Module:
    theirs = nn.Conv2d(INPUTS, FEATURES, KERNEL) if layout == "convolution" else nn.Linear(INPUTS, FEATURES)
    theirs = theirs.double()
    theirs.load_state_dict(ours.linear.state_dict())
    return theirs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weight_is_torch_weight_norm(layout: str) -> None:
    ours = make("weight", layout, contract.defaults("weight"), seed=None)
    ours.activation = ACTIVATIONS["none"]
    x = inputs(layout)
    torch.testing.assert_close(ours(x), plain(ours, layout)(x))  # the default preserves the function
    theirs = parametrizations.weight_norm(plain(ours, layout), dim=0)
    train_both(ours, theirs, layout)
    torch.testing.assert_close(ours.norm.gain, theirs.parametrizations.weight.original0.flatten())
    torch.testing.assert_close(ours.linear.weight, theirs.parametrizations.weight.original1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("iterations", "eps"), [(1, 1e-12), (3, 1e-12), (1, 100.0)])
def test_spectral_is_torch_spectral_norm(layout: str, iterations: int, eps: float) -> None:
    """By copied u and v: PyTorch draws them. The large eps makes it count."""
    ours = make("spectral", layout, contract.defaults("spectral") | {"iterations": iterations}, seed=None)
    ours.activation, ours.norm.eps = ACTIVATIONS["none"], eps
    theirs = parametrizations.spectral_norm(plain(ours, layout), n_power_iterations=iterations, eps=eps)
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
    theirs, x = nn.BatchNorm1d(FEATURES, eps=1e-12).double(), inputs("linear", batch=7)
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


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_unit_that_does_not_vary_is_refused_by_lasagne_alone() -> None:
    x = torch.zeros(5, INPUTS, dtype=torch.float64)
    with pytest.raises(NormbenchError, match=r"every unit must vary over the first minibatch, which has 5 value"):
        make("weight", "linear", contract.defaults("weight") | {"init": "lasagne"}).train()(x)
    layer = make("weight", "linear", contract.defaults("weight") | {"init": "data"}).train()
    layer(x)
    torch.testing.assert_close(layer.norm.gain.detach(), torch.full((FEATURES,), 1e5, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"mean_only_bn": True}, {"init": "data"}, {"init": "lasagne"}])
def test_a_time_axis_has_no_rule_for_batch_means(options: Options) -> None:
    with pytest.raises(NormbenchError, match=r"'hidden.0'.*norm.init=preserve and norm.mean_only_bn=false"):
        make("weight", "sequence", contract.defaults("weight") | options)


def test_a_block_without_known_moments_is_refused() -> None:
    with pytest.raises(NormbenchError, match="knows the moments of relu and tanh, not of 'none'"):
        make("norm_propagation", "linear", {}, activation="none")


def test_a_class_must_be_of_the_kind_that_is_declared() -> None:
    site = Site("hidden.0", ("pre_activation", *KINDS), LAYOUTS["linear"], FEATURES, activation="relu")
    for name, kind, needed in (("layer", "weight", "WeightNormalizer"), ("weight", "pre_activation", "not of Weight")):
        with pytest.raises(NormbenchError, match=f"{name} serves {kind}: .*must be a subclass of .*{needed}"):
            base.build(site, Choice(name, kind, {}, True, False, 1))


def test_propagated_values_keep_mean_zero_and_variance_one() -> None:
    """Arpit et al.'s point, for g = 1 and uncorrelated normal inputs."""
    for activation in activations("norm_propagation"):
        layer = make("norm_propagation", "linear", {"gain_init": 1.0}, seed=None, activation=activation)
        with torch.no_grad():
            y = layer(draw((400_000, INPUTS), scale=1.0, shift=0.0))
        torch.testing.assert_close(y.mean(0), torch.zeros(FEATURES).double(), atol=0.01, rtol=0)
        torch.testing.assert_close(y.var(0), torch.ones(FEATURES).double(), atol=0.01, rtol=0)
