"""Every model with every normalizer: it holds what its YAML declares, learns, and learns the same as before."""

from __future__ import annotations

import pytest
import tiny
import torch

from normbench import data as datasets
from normbench.config import compose
from normbench.config.identity import RunSpec
from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms import sites
from normbench.norms.base import Normalizer, WeightNormalizer, own_parameters
from normbench.train import optim

# A model's smallest form on embedded data; a new model needs its line here.
SMALL = {"mnist_mlp": ("data=digits", "model.hidden_sizes=[8,6]", "train.batch_size=100")}
NORMS = compose.choices("norm")
MODELS = [name for name in compose.choices("model") if not compose.is_probe(name)]

# Losses of steps 1, 10 and 20 on the digits; per model, normalizer at its default sites with default options.
GOLDEN: dict[tuple[str, str], tuple[float, float, float]] = {
    ("mnist_mlp", "none"): (2.304231643676758, 2.2780537605285645, 2.2591710090637207),
    ("mnist_mlp", "batch"): (2.3915767669677734, 2.3247084617614746, 2.266655683517456),
    ("mnist_mlp", "layer"): (2.393656015396118, 2.3032727241516113, 2.2197766304016113),
    ("mnist_mlp", "weight"): (2.304231643676758, 2.27730655670166, 2.2585413455963135),
    ("mnist_mlp", "spectral"): (2.2953882217407227, 2.2849199771881104, 2.2755379676818848),
    ("mnist_mlp", "norm_propagation"): (2.357154607772827, 2.30220103263855, 2.2595198154449463),
    ("mnist_mlp", "ada"): (2.5822339057922363, 2.427165985107422, 2.2972066402435303),
    ("mnist_mlp", "batch_layer"): (2.3056201934814453, 2.278982400894165, 2.2556517124176025),
    ("mnist_mlp", "batch_renorm"): (2.391148328781128, 2.324644088745117, 2.2667524814605713),
    ("mnist_mlp", "ghost_batch"): (2.3915767669677734, 2.3247084617614746, 2.266655683517456),
    ("mnist_mlp", "group"): (2.326951503753662, 2.3581080436706543, 2.2607741355895996),
    ("mnist_mlp", "streaming"): (2.3915770053863525, 2.331127643585205, 2.2751481533050537),
    ("mnist_mlp", "rms"): (2.5094988346099854, 2.3809943199157715, 2.2857773303985596),
}


def small(model: str, *words: str) -> RunSpec:
    (spec,) = train_specs([f"model={model}", *SMALL[model], *words], False)
    return spec


def built(spec: RunSpec) -> models.Model:
    return models.build(spec.config, spec.sites())


def batches(spec: RunSpec, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows in the set's own order, which does not depend on any generator."""
    split = datasets.load(spec.config["data"]).splits["train"]
    size = spec.config["train"]["batch_size"]
    return [(split.inputs[i : i + size], split.targets[i : i + size]) for i in range(0, count * size, size)][:count]


def able(model: str, norm: str) -> list[str]:
    """Sites of the model that the normalizer can serve."""
    found = []
    for path in sites.declared(small(model).config):
        try:
            small(model, f"norm={norm}", f"norm.sites=[{path}]")
        except NormbenchError:
            continue
        found.append(path)
    return found


PAIRS = [pytest.param(m, n, id=f"{m}-{n}") for m in MODELS for n in NORMS if able(m, n)]


def test_every_model_has_a_small_form() -> None:
    assert set(SMALL) == set(MODELS), "add the model's smallest form to SMALL"


@pytest.mark.parametrize(("model", "norm"), PAIRS)
def test_sites_are_where_the_yaml_says(model: str, norm: str) -> None:
    places = able(model, norm)
    spec = small(model, f"norm={norm}", f"norm.sites=[{','.join(places)}]")
    found = {m.site.path: m.site for m in built(spec).modules() if isinstance(m, Normalizer)}
    wanted = {} if norm == "none" else {path: sites.declared(spec.config)[path] for path in places}
    assert found == wanted


@pytest.mark.parametrize(("model", "norm"), PAIRS)
def test_the_tensor_at_a_site_has_the_declared_form(model: str, norm: str) -> None:
    spec = small(model, f"norm={norm}", f"norm.sites=[{','.join(able(model, norm))}]")
    network, seen = built(spec), []

    def look(module: Normalizer, arguments: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        (x, *_) = arguments
        if isinstance(module, WeightNormalizer):
            assert x.dim() >= 2 and x.shape[0] == module.site.features
        else:
            assert x.dim() == len(module.site.axes) and x.shape[module.site.feature_axis] == module.site.features
        assert output.shape == x.shape and output.dtype == x.dtype
        seen.append(module.site.path)

    for module in network.modules():
        if isinstance(module, Normalizer):
            module.register_forward_hook(look)
    network(*batches(spec, 1)[0])
    assert sorted(seen) == sorted(spec.sites())


@pytest.mark.parametrize(("model", "norm"), PAIRS)
@pytest.mark.parametrize("policy", ["site", "keep", "drop"])
def test_every_parameter_gets_a_gradient(model: str, norm: str, policy: str) -> None:
    places = ",".join(able(model, norm))
    network = built(small(model, f"norm={norm}", f"norm.sites=[{places}]", f"norm.preceding_bias={policy}"))
    loss = network(*batches(small(model), 1)[0])
    assert loss.shape == () and torch.isfinite(loss)
    loss.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(("model", "norm"), PAIRS)
def test_metrics_are_one_per_example_and_agree_with_the_loss(model: str, norm: str) -> None:
    spec = small(model, f"norm={norm}")
    inputs, targets = batches(spec, 1)[0]
    network = built(spec)
    metrics = network.evaluate(inputs, targets)
    assert all(values.shape == (len(targets),) for values in metrics.values())
    torch.testing.assert_close(metrics["nll"].mean(), network(inputs, targets))
    assert set(metrics["error"].unique().tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("model", MODELS)
def test_arms_share_their_initial_draws(model: str) -> None:
    """A normalizer has no part in the draws of the weights, nor has the order in which they are made."""
    plain = dict(built(small(model)).named_parameters())
    for norm in [norm for norm in NORMS if able(model, norm)]:
        network = built(small(model, f"norm={norm}", "norm.preceding_bias=drop"))
        own = own_parameters(network)
        for name, parameter in network.named_parameters():
            if name not in own:
                assert torch.equal(parameter, plain[name]), (norm, name)
    again, other = dict(built(small(model)).named_parameters()), dict(built(small(model, "seed=2")).named_parameters())
    for name, parameter in plain.items():
        assert torch.equal(parameter, again[name])
        assert parameter.dim() < 2 or not torch.equal(parameter, other[name]), name


def test_draws_are_uniform_within_their_bound_and_biases_zero() -> None:
    for scheme, bound in (("glorot_uniform", (6 / (64 + 400)) ** 0.5), ("he_uniform", (6 / 64) ** 0.5)):
        network = built(small("mnist_mlp", "model.hidden_sizes=[400]", f"model.init={scheme}"))
        weight = network.hidden[0].linear.weight
        assert 0.99 * bound < weight.abs().max() <= bound
        assert abs(weight.mean()) < 0.01 * bound
        torch.testing.assert_close(weight.std(), torch.tensor(bound / 3**0.5), rtol=0.02, atol=0)
        assert not network.hidden[0].linear.bias.any()


@pytest.mark.parametrize(
    ("arm", "count"),
    [
        ("none", 784 * 1000 + 1000 + 1000 * 1000 + 1000 + 1000 * 10 + 10),
        ("bn", 784 * 1000 + 2000 + 1000 * 1000 + 2000 + 1000 * 10 + 10),
        ("ln-all", 784 * 1000 + 2000 + 1000 * 1000 + 2000 + 1000 * 10 + 20),
    ],
)
def test_the_papers_network_has_the_papers_size(arm: str, count: int) -> None:
    (spec,) = train_specs(["experiment=ln2016/fig6", f"arm={arm}"], False)
    assert sum(p.numel() for p in built(spec).parameters()) == count


@pytest.mark.parametrize(("model", "norm"), PAIRS)
def test_twenty_steps_give_the_losses_of_before(model: str, norm: str) -> None:
    spec = small(model, f"norm={norm}")
    network = built(spec).train()
    optimizer = optim.build(spec.config["optim"], network)
    losses = []
    for step in range(20):
        inputs, targets = batches(spec, 10)[step % 10]
        loss = network(inputs, targets)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = (losses[0], losses[9], losses[19])
    assert (model, norm) in GOLDEN, f"write the losses of this pair into GOLDEN: {found}"
    assert found == pytest.approx(GOLDEN[model, norm], rel=1e-5), (
        f"the training maths of {model} with {norm} has changed. If that is meant, raise the `maths` number of the "
        f"component that changed in its YAML (results under the old number stay apart) and write {found} into GOLDEN."
    )


@pytest.mark.parametrize(("model", "norm"), PAIRS)
def test_one_batch_can_be_learnt_by_heart(model: str, norm: str) -> None:
    spec = small(model, f"norm={norm}", "model.hidden_sizes=[32]", "optim.lr=0.02")
    network = built(spec).train()
    optimizer = optim.build(spec.config["optim"], network)
    inputs, targets = (part[:20] for part in batches(spec, 1)[0])
    for _ in range(150):
        loss = network(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.02


def test_the_tiny_run_is_a_model_of_the_battery() -> None:
    """Other tests lean on it; were it refused, they would fail for another reason than theirs."""
    assert tiny.spec().steps == 12
