"""The network of BLN 2022, section 4.1: its layers, its size, its draws, its normalizers beside each other."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from reference import keras
from smallest import batches, built, small

from normbench.commands.progress import label
from normbench.data.examples import Split
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms.base import Normalizer, own_parameters


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
    network(**batches(spec, 1)[0])
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
    inputs, targets = batches(spec, 1)[0].values()
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
        normalized = functools.partial(
            keras.layer_normalization, gain=p[f"{name}.{site}.gain"], shift=p[f"{name}.{site}.bias"]
        )
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


@pytest.mark.parametrize("norm", ["evo_s0", "filter_response"])
def test_a_normalizer_with_a_non_linearity_replaces_tanh_and_leaves_the_pooling(norm: str) -> None:
    spec = small("lenet5", f"norm={norm}", "norm.sites=[summed.conv]")
    assert spec.arm == f"lenet5-{norm}-replaces-tanh" and label(spec).endswith("(replaces tanh) s1")
    network, (inputs, _) = built(spec), batches(spec, 1)[0].values()
    h = inputs.permute(0, 3, 1, 2)
    for layer in network.conv:
        h = F.avg_pool2d(layer.before(F.conv2d(h, layer.linear.weight, layer.linear.bias, padding=layer.padding)), 2)
    *_, before_dense, _, _, _ = network.layers(inputs)
    torch.testing.assert_close(before_dense, h)
    h = torch.tanh(network.dense[0].linear(h.permute(0, 2, 3, 1).flatten(1)))
    torch.testing.assert_close(torch.tanh(network.dense[1].linear(h)), [*network.layers(inputs)][3])
    other = built(small("lenet5", "norm=layer", "norm.sites=[summed.conv]"))
    assert other.conv[0].activation is torch.tanh and "replaces" not in small("lenet5", "norm=layer").arm


def test_lenet5_rescaled_at_the_start_has_the_summed_inputs_of_a_normalized_one() -> None:
    """`start=unit`: what each layer reads has root mean square 1; `scale` divides by the root of the width."""
    for start, power in (("unit", 0.0), ("inverse_root_d", -0.5)):
        spec = small("lenet5", f"model.start={start}")
        network, original = built(spec), built(small("lenet5"))
        inputs, targets = batches(spec, 1)[0].values()
        models.start_from_data(network, Split(inputs=inputs, targets=targets).batch(slice(None)), spec.seed)
        with torch.no_grad():
            outputs = list(network.layers(inputs))
        layers = [*network.conv, *network.dense]
        before = [*(layer.linear for layer in [*original.conv, *original.dense][1:]), original.logits]
        after = [*(layer.linear for layer in layers[1:]), network.logits]
        for h, old, new in zip(outputs, before, after, strict=False):
            factor = h.shape[1] ** power / h.square().mean().sqrt()
            torch.testing.assert_close(new.weight, factor * old.weight)
    unscaled, scaled = (built(small("lenet5", f"model.scale={s}")) for s in ("one", "inverse_root_d"))
    one, other = (next(network.layers(inputs)) for network in (unscaled, scaled))
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
