"""Every model with every normalizer: it holds what its YAML declares, learns, and learns the same as before."""

from __future__ import annotations

import contextlib
import functools
import importlib

import pytest
import tiny
import torch
import torch.nn.functional as F
from reference import keras_lstm

from normbench import data as datasets
from normbench.config import compose
from normbench.config.identity import RunSpec
from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms import sites
from normbench.norms.base import Normalizer, WeightNormalizer, own_parameters
from normbench.streams import stream
from normbench.train import optim

# A model's smallest form on embedded data; a new model needs its line here.
SMALL = {
    "mnist_mlp": ("data=digits", "model.hidden_sizes=[8,6]", "train.batch_size=100"),
    "lenet5": ("data=coloured_digits", "train.batch_size=20"),
    "recall_lstm": ("data.length=6", "model.hidden_size=8", "train.batch_size=50"),
    "imdb_rnn": (
        *("data=made_reviews", "data.length=12", "model.embedding_size=8", "model.hidden_size=8"),
        *("model.last_hidden_size=6", "model.dense_size=6", "train.batch_size=50"),
    ),
}
# With which it learns a batch by heart in a moment.
LEARNING = {
    "mnist_mlp": ("model.hidden_sizes=[32]", "optim.lr=0.02"),
    "lenet5": ("optim.lr=0.005",),
    "recall_lstm": ("model.hidden_size=32", "optim.lr=0.05"),
    "imdb_rnn": ("model.hidden_size=16", "model.last_hidden_size=16", "model.dense_size=16", "optim.lr=0.02"),
}
NORMS = compose.choices("norm")
MODELS = [name for name in compose.choices("model") if not compose.is_probe(name)]

# Losses of steps 1, 10 and 20 on the digits; per model, normalizer at its usual sites with default options.
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
    ("lenet5", "ada"): (4.37845516204834, 1.9982731342315674, 1.1082803010940552),
    ("lenet5", "batch"): (3.0291223526000977, 1.8825544118881226, 1.2539918422698975),
    ("lenet5", "batch_layer"): (2.340607166290283, 2.1354732513427734, 1.8529233932495117),
    ("lenet5", "batch_renorm"): (3.0264246463775635, 1.881169080734253, 1.2500269412994385),
    ("lenet5", "ghost_batch"): (3.0291223526000977, 1.8825544118881226, 1.2539918422698975),
    ("lenet5", "group"): (2.9610259532928467, 1.459535837173462, 0.7446025609970093),
    ("lenet5", "instance"): (2.2867496013641357, 1.2631175518035889, 0.7558375597000122),
    ("lenet5", "layer"): (3.006730794906616, 1.6292345523834229, 0.8151503801345825),
    ("lenet5", "none"): (2.377460241317749, 1.7271287441253662, 0.991293728351593),
    ("lenet5", "norm_propagation"): (2.6818416118621826, 1.3501155376434326, 0.719730019569397),
    ("lenet5", "rms"): (2.8673572540283203, 1.6139519214630127, 0.8453642129898071),
    ("lenet5", "spectral"): (2.383335828781128, 1.9199106693267822, 1.2323030233383179),
    ("lenet5", "streaming"): (3.029125452041626, 1.733190894126892, 1.0899989604949951),
    ("lenet5", "weight"): (2.377460241317749, 1.7358405590057373, 1.0085301399230957),
    ("recall_lstm", "ada"): (2.1106748580932617, 2.2095601558685303, 2.1631858348846436),
    ("recall_lstm", "batch"): (2.1448700428009033, 2.116640329360962, 2.1036527156829834),
    ("recall_lstm", "batch_layer"): (2.0921332836151123, 2.0859270095825195, 2.0824875831604004),
    ("recall_lstm", "batch_renorm"): (2.1444005966186523, 2.116472005844116, 2.10355806350708),
    ("recall_lstm", "ghost_batch"): (2.1448700428009033, 2.116640329360962, 2.1036527156829834),
    ("recall_lstm", "group"): (2.141205310821533, 2.1807634830474854, 2.165449380874634),
    ("recall_lstm", "layer"): (2.157571315765381, 2.1909234523773193, 2.1634442806243896),
    ("recall_lstm", "none"): (2.10634183883667, 2.094454288482666, 2.090353488922119),
    ("recall_lstm", "rms"): (2.1554110050201416, 2.12445330619812, 2.1070163249969482),
    ("recall_lstm", "spectral"): (2.095433235168457, 2.087501287460327, 2.085463047027588),
    ("recall_lstm", "streaming"): (2.1448724269866943, 2.1178269386291504, 2.105098247528076),
    ("recall_lstm", "weight"): (2.10634183883667, 2.0942249298095703, 2.0899100303649902),
    ("imdb_rnn", "ada"): (1.2420176267623901, 0.8783900737762451, 0.7593457698822021),
    ("imdb_rnn", "batch"): (0.9049233198165894, 0.7112376689910889, 0.6754571795463562),
    ("imdb_rnn", "batch_layer"): (0.7456070780754089, 0.7059780359268188, 0.6613472104072571),
    ("imdb_rnn", "batch_renorm"): (0.9081141948699951, 0.7242183089256287, 0.671836793422699),
    ("imdb_rnn", "ghost_batch"): (0.9049233198165894, 0.7112376689910889, 0.6754571795463562),
    ("imdb_rnn", "group"): (0.8046395778656006, 0.851736307144165, 0.7178341746330261),
    ("imdb_rnn", "layer"): (0.8363609313964844, 0.7411044239997864, 0.696748673915863),
    ("imdb_rnn", "none"): (0.6934234499931335, 0.6937305331230164, 0.6893550157546997),
    ("imdb_rnn", "rms"): (0.8047324419021606, 0.7135001420974731, 0.6655347347259521),
    ("imdb_rnn", "spectral"): (0.6934234499931335, 0.6937248110771179, 0.6892662048339844),
    ("imdb_rnn", "streaming"): (0.9048426747322083, 0.7003376483917236, 0.6832253932952881),
    ("imdb_rnn", "weight"): (0.6934234499931335, 0.6937500834465027, 0.6893421411514282),
}


def small(model: str, *words: str) -> RunSpec:
    (spec,) = train_specs([f"model={model}", *SMALL[model], *words], False)
    return spec


def built(spec: RunSpec) -> models.Model:
    return models.build(spec.config, spec.sites())


def batches(spec: RunSpec, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows in the set's own order, which does not depend on any generator."""
    split = training_part(spec.config["model"]["name"])
    size = spec.config["train"]["batch_size"]
    return [(split.inputs[i : i + size], split.targets[i : i + size]) for i in range(0, count * size, size)][:count]


@functools.cache
def training_part(model: str) -> datasets.Split:
    return datasets.load(small(model).config["data"]).splits["train"]


@functools.cache
def usual(model: str, norm: str) -> tuple[str, ...]:
    """The words for a normalizer at the default sites; at all that it can serve, where those include others."""
    try:
        small(model, f"norm={norm}")
    except NormbenchError:
        return f"norm={norm}", f"norm.sites=[{','.join(able(model, norm))}]"
    return (f"norm={norm}",)


@functools.cache
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
    assert set(SMALL) == set(LEARNING) == set(MODELS), "add the model's smallest form to SMALL"


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
            site = module.site
            assert x.dim() == len(site.axes) and x.shape[site.feature_axis] == site.features
            assert site.space == tuple(x.shape[i] for i, axis in enumerate(site.axes) if axis == "space")
        assert output.shape == x.shape and output.dtype == x.dtype
        seen.append(module.site.path)

    for module in network.modules():
        if isinstance(module, Normalizer):
            module.register_forward_hook(look)
    network(*batches(spec, 1)[0])
    assert set(seen) == set(spec.sites())


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
    spec = small(model, *usual(model, norm))
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
        network = built(small(model, *usual(model, norm), "norm.preceding_bias=drop"))
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
    spec = small(model, *usual(model, norm))
    network = built(spec).train()
    optimizer = optim.build(spec.config["optim"], network)
    losses = []
    for step in range(20):
        inputs, targets = batches(spec, 10)[step % 10]
        with models.update(network, 1, step):
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
    spec = small(model, *usual(model, norm), *LEARNING[model])
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


def test_convolutions_are_drawn_within_their_bound_and_matrices_orthogonal() -> None:
    for scheme, bounds in (("glorot_orthogonal", (0.163, 0.104)), ("he_uniform", (0.283, 0.200))):
        network = built(small("lenet5", f"model.init={scheme}"))
        for layer, bound in zip(network.conv, bounds, strict=True):
            assert 0.98 * bound < layer.linear.weight.abs().max() < bound + 5e-4
            assert not layer.linear.bias.any()
    network = built(small("lenet5"))
    for linear in (network.dense[0].linear, network.dense[1].linear, network.logits):
        torch.testing.assert_close(linear.weight @ linear.weight.T, torch.eye(linear.out_features), rtol=0, atol=1e-5)
        assert abs(linear.weight.sum()) < 0.2 * linear.weight.numel() ** 0.5  # signs of columns are drawn, too


@pytest.mark.parametrize(("norm", "count"), [("none", 83578 - 452), ("batch", 83578), ("batch_layer", 83578)])
def test_lenet5_has_the_size_that_the_authors_print(norm: str, count: int) -> None:
    assert sum(p.numel() for p in built(small("lenet5", f"norm={norm}")).parameters()) == count


def test_batch_layer_keeps_as_many_numbers_as_the_authors_print() -> None:
    """The first one has 15 886: with gain and bias, and two scalars where ours has one and a count per slot."""
    spec = small("lenet5", "norm=batch_layer", "train.batch_size=25")
    network = built(spec).train()
    network(*batches(spec, 1)[0])
    for norm in network.modules():
        if isinstance(norm, Normalizer):
            norm.end_epoch()
    found = {name: tensor.numel() for name, tensor in network.conv[0].norm.state_dict().items()}
    accumulators = sum(found[f"trained.{of}_{moment}"] for of in ("batch", "feature") for moment in ("mean", "std"))
    assert found["gain"] + found["bias"] + accumulators + 2 == 15886


@pytest.mark.parametrize("placed", ["after", "before"])
def test_lenet5_is_the_network_of_section_4_1(placed: str) -> None:
    """Against the layers written down one by one, with the axes of the authors' code, by copied weights."""
    words = {"after": (), "before": ("norm.sites=[summed]",)}[placed]
    spec = small("lenet5", "norm=layer", "norm.eps=1e-3", *words)
    network = built(spec).double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in own_parameters(network):
                parameter.add_(torch.linspace(-0.2, 0.3, parameter.numel(), dtype=torch.float64))
    p = dict(network.named_parameters())
    inputs, targets = batches(spec, 1)[0]
    site = "norm" if placed == "after" else "before"

    def layer(h: torch.Tensor, name: str, pooled: bool) -> torch.Tensor:
        """h (B, height, width, channels) or (B, features), as Keras has it."""
        weight, bias = p[f"{name}.linear.weight"], p[f"{name}.linear.bias"]
        if pooled:
            h = F.pad(h, (0, 0, 2, 2, 2, 2)) if name == "conv.0" else h
            patches = h.unfold(1, 5, 1).unfold(2, 5, 1)  # (B, height, width, channels, 5, 5)
            z = torch.einsum("bhwcij,ocij->bhwo", patches, weight) + bias
        else:
            z = h @ weight.T + bias
        normalized = functools.partial(over_channels, gain=p[f"{name}.{site}.gain"], shift=p[f"{name}.{site}.bias"])
        h = torch.tanh(normalized(z) if placed == "before" else z)
        if pooled:
            h = h.unflatten(2, (-1, 2)).unflatten(1, (-1, 2)).mean((2, 4))
        return normalized(h) if placed == "after" else h

    h = layer(layer(inputs.double(), "conv.0", True), "conv.1", True)
    h = layer(layer(h.reshape(len(h), 576), "dense.0", False), "dense.1", False)
    logits = h @ p["logits.weight"].T + p["logits.bias"]
    torch.testing.assert_close(network.predict(inputs.double()), logits, rtol=1e-10, atol=1e-12)
    loss = (logits.logsumexp(1) - logits.gather(1, targets[:, None])[:, 0]).mean()
    torch.testing.assert_close(network(inputs.double(), targets), loss, rtol=1e-10, atol=0)


def over_channels(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """tf.keras.layers.LayerNormalization: over the last axis, position by position."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() * gain + shift


def test_lenet5_rescaled_at_the_start_has_the_summed_inputs_of_a_normalized_one() -> None:
    """`start=unit`: what each layer reads has root mean square 1; `scale` divides by the root of the width."""
    for start, power in (("unit", 0.0), ("inverse_root_d", -0.5)):
        spec = small("lenet5", f"model.start={start}")
        network, drawn = built(spec), built(small("lenet5"))
        inputs, targets = batches(spec, 1)[0]
        models.start_from_data(network, inputs, targets)
        with torch.no_grad():
            outputs = list(network.layers(inputs))
        layers = [*network.conv, *network.dense]
        before = [*(layer.linear for layer in [*drawn.conv, *drawn.dense][1:]), drawn.logits]
        after = [*(layer.linear for layer in layers[1:]), network.logits]
        for h, old, new in zip(outputs, before, after, strict=False):
            factor = h.shape[1] ** power / h.square().mean().sqrt()
            torch.testing.assert_close(new.weight, factor * old.weight)
    plain, scaled = (built(small("lenet5", f"model.scale={s}")) for s in ("one", "inverse_root_d"))
    one, other = (next(network.layers(inputs)) for network in (plain, scaled))
    torch.testing.assert_close(other, one / 6**0.5)
    with pytest.raises(NormbenchError, match="without normalization"):
        built(small("lenet5", "model.start=unit", "norm=layer"))


@pytest.mark.parametrize("batch", [1, 5])
def test_batch_layer_is_other_normalizers_with_its_factor(batch: int) -> None:
    """At m = 1 LN/sqrt(d) but for 1e-4; at m the weighted sum of BN per position and LN, over sqrt(d)."""
    x = 2 * torch.randn(batch, 6, 16, 16, generator=torch.Generator().manual_seed(0)) + 1
    words = {
        "bln": ("norm=batch_layer",),
        "bn": ("norm=batch", "norm.positions=separate", "norm.allow_single=true", "norm.eps=1e-3"),
        "ln": ("norm=layer", "norm.eps=1e-3"),
    }
    y = {
        arm: built(small("lenet5", *own, "norm.scale=inverse_root_d")).train().conv[0].norm(x).detach()
        for arm, own in words.items()
    }
    weight_b, weight_f = 1 - (1 / batch + 1e-4), 1 / batch - 1e-4
    torch.testing.assert_close(y["bln"], weight_b * y["bn"] + weight_f * y["ln"], rtol=1e-5, atol=1e-6)
    without = built(small("lenet5", "norm=batch_layer", "norm.scale=one")).train().conv[0].norm(x)
    torch.testing.assert_close(without, 6**0.5 * y["bln"], rtol=1e-5, atol=1e-5)


# -- the RNN of BLN 2022, section 4.2


@pytest.mark.parametrize(("norm", "count"), [("none", 10620161 - 448), ("batch", 10620161), ("batch_layer", 10620161)])
def test_imdb_rnn_has_the_size_that_the_authors_print(norm: str, count: int) -> None:
    (spec,) = train_specs(["model=imdb_rnn", f"norm={norm}"], False)
    with torch.device("meta"):
        module = importlib.import_module("normbench.models.imdb_rnn")
        network = module.build(spec.config, models.Sites(spec.config, spec.sites()))
    assert sum(p.numel() for p in network.parameters()) == count
    layers = {"embedding": 10240000, "lstm.0": 328192, "lstm.1": 49408, "dense.linear": 2080, "logit": 33}
    for name, size in layers.items():
        assert sum(p.numel() for p in network.get_submodule(name).parameters()) == size


def test_batch_layer_in_the_rnn_keeps_as_many_numbers_as_the_authors_print() -> None:
    """24 738, 308 and 180 at m = 25, with gain and bias, and two scalars where ours has one and a count per slot."""
    words = ("data.length=80", "model.hidden_size=128", "model.last_hidden_size=64", "model.dense_size=32")
    spec = small("imdb_rnn", *words, "norm=batch_layer", "train.batch_size=25")
    network = built(spec).train()
    reviews = datasets.load(spec.config["data"]).splits["train"]
    network(reviews.inputs[:25], reviews.targets[:25])
    found = []
    for norm in (network.norms["0"], network.norms["1"], network.dense.norm):
        norm.end_epoch()
        sizes = {name: tensor.numel() for name, tensor in norm.state_dict().items()}
        moments = sum(sizes[f"trained.{of}_{moment}"] for of in ("batch", "feature") for moment in ("mean", "std"))
        found.append(sizes["gain"] + sizes["bias"] + moments + 2)
    assert found == [24738, 308, 180]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_what_a_model_prepares_stands_for_its_inputs(model: str, training: bool) -> None:
    """An evaluation of many passes, in either mode, computes it once."""
    spec = small(model, *usual(model, "batch"))
    network = built(spec).train(training)
    (inputs, targets), _ = batches(spec, 2)
    with torch.no_grad():
        prepared = network.prepare(inputs)
        ours, theirs = (network.evaluate(x, targets) for x in (prepared, inputs))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.is_floating_point(prepared) and len(prepared) == len(inputs)


@pytest.mark.parametrize("per_gate", [True, False])
@pytest.mark.parametrize("updating", [True, False])
def test_imdb_rnn_is_the_network_of_section_4_2(per_gate: bool, updating: bool) -> None:
    """Against tf.keras' layers written down step by step, by copied weights, with the masks of the third update."""
    spec = small("imdb_rnn", "norm=layer", "norm.eps=1e-3", f"model.per_gate={str(per_gate).lower()}")
    network = built(spec).double()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.linspace(-0.2, 0.3, parameter.numel(), dtype=torch.float64))
    p = {name: parameter.detach() for name, parameter in network.named_parameters()}
    inputs, targets = batches(spec, 1)[0]
    draw = stream(1, "dropout", 2)
    h = p["embedding.weight"][inputs]
    for place in ("0", "1"):
        cell, units = f"lstm.{place}.cells.0", p[f"lstm.{place}.cells.0.weight_hh"].shape[1]
        rows = [k * units + i for k in (1, 0, 3, 2) for i in range(units)]  # ours are f, i, o, g
        bias = p[f"{cell}.bias"].clone()
        bias[:units] += 1  # unit_forget_bias
        masks = []
        for features in (h.shape[2], units):
            drawn = draw.random((4 if per_gate else 1, len(inputs), features), dtype="float32") >= 0.2
            drawn = drawn / 0.8 if updating else drawn + 1.0 - drawn
            masks.append([drawn[k if per_gate else 0] for k in (1, 0, 3, 2)])
        weights = (p[f"{cell}.weight_ih"][rows].T, p[f"{cell}.weight_hh"][rows].T, bias[rows])
        h = torch.from_numpy(keras_lstm.lstm(h.numpy(), *(w.numpy() for w in weights), *masks))
        h = over_channels(h if place == "0" else h[:, -1], p[f"norms.{place}.gain"], p[f"norms.{place}.bias"])
    h = torch.tanh(h @ p["dense.linear.weight"].T + p["dense.linear.bias"])
    h = over_channels(h, p["dense.norm.gain"], p["dense.norm.bias"])
    s = (h @ p["logit.weight"].T + p["logit.bias"])[:, 0]
    wanted = torch.where(targets > 0, F.softplus(-s), F.softplus(s)).mean()
    with models.update(network, 1, 2) if updating else contextlib.nullcontext():
        loss = network(inputs, targets)
    torch.testing.assert_close(loss.detach(), wanted, rtol=1e-6 if updating else 1e-10, atol=0)  # masks are float32
    positive = targets > 0
    assert network.tally["error"] == ((s > 0) != positive).sum()
    assert network.tally["error_published"] == ((s > 0.5) != positive).sum()


def test_imdb_rnn_drops_in_updates_alone_and_all_arms_drop_the_same() -> None:
    inputs, targets = batches(small("imdb_rnn"), 1)[0]
    masks = {}
    for norm in ("none", "batch_layer"):
        network = built(small("imdb_rnn", f"norm={norm}")).train()
        seen = masks[norm] = []
        for layer in network.lstm:
            once = layer.cells[0].once
            layer.cells[0].once = lambda *a, once=once, seen=seen: seen.append(once(*a)) or seen[-1]
        for update in (0, 1, 0):
            with models.update(network, 1, update):
                network(inputs, targets)
        assert torch.equal(seen[0].input_drop, seen[4].input_drop)
        assert not torch.equal(seen[0].input_drop, seen[2].input_drop)
        network(inputs, targets)
        network.evaluate(inputs, targets)
        assert all(once.input_drop is None and once.state_drop is None for once in seen[6:])
    for one, other in zip(masks["none"][:6], masks["batch_layer"][:6], strict=True):
        assert torch.equal(one.input_drop, other.input_drop) and torch.equal(one.state_drop, other.state_drop)


def test_imdb_rnn_is_drawn_as_keras_draws() -> None:
    """Glorot uniform for the embedding and all four gates together, orthogonal dense layers, zero biases."""
    network = built(small("imdb_rnn", "model.hidden_size=40", "model.embedding_size=30"))
    p = dict(network.named_parameters())
    limits = {
        "embedding.weight": (64, 30),
        "lstm.0.cells.0.weight_ih": (30, 160),
        "lstm.0.cells.0.weight_hh": (40, 160),
    }
    for name, sizes in limits.items():
        bound = (6 / sum(sizes)) ** 0.5
        assert 0.98 * bound < p[name].abs().max() <= bound
    for name in ("dense.linear.weight", "logit.weight"):
        torch.testing.assert_close(p[name] @ p[name].T, torch.eye(len(p[name])), rtol=0, atol=1e-5)
    assert not any(p[name].any() for name in p if name.endswith("bias"))
    assert all(layer.cells[0].forget_bias == 1 for layer in network.lstm)
