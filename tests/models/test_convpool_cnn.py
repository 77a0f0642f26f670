"""The network of RMSNorm's section 6.4: against torch's own layers, its size, noise and dropout in updates alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from smallest import batches, built, moved, small
from torch import Tensor, nn

from normbench.config.plan import experiment, train_specs
from normbench.models import base as models
from normbench.norms.layers import NormedConv

ARMS = [*experiment("rms2019/table10").arms]
EPS = 1e-6


def of_images(arm: str, x: Tensor) -> Tensor:
    """Images (B, C, H, W) by torch, before gain and shift."""
    if arm == "bn":
        return F.batch_norm(x, None, None, training=True, eps=EPS)
    if arm == "ln-hw":
        return F.instance_norm(x, eps=EPS)
    if arm == "ln-chw":
        return F.group_norm(x, 1, eps=EPS)
    axes = (2, 3) if arm == "rms-hw" else (1, 2, 3)
    return x / (x.square().mean(axes, keepdim=True) + EPS).sqrt()


def of_logits(arm: str, x: Tensor) -> Tensor:
    if arm == "bn":
        return F.batch_norm(x, None, None, training=True, eps=EPS)
    return F.layer_norm(x, x.shape[1:], eps=EPS) if arm.startswith("ln") else F.rms_norm(x, x.shape[1:], eps=EPS)


def network_of(arm: str) -> models.Model:
    words = [word for word in experiment("rms2019/table10").arms[arm] if not word.startswith("optim")]
    return moved(built(small("convpool_cnn", *words))).train()


def by_torch(arm: str, network: models.Model, images: Tensor) -> Tensor:
    """The logits by the formulas, with the network's parameters."""

    def normalized(x: Tensor, layer: nn.Module) -> Tensor:
        shape = [1, -1, 1, 1][: x.dim()]
        if arm == "none":
            return x
        of = of_images if x.dim() == 4 else of_logits
        return of(arm, x) * layer.norm.gain.view(shape) + layer.norm.bias.view(shape)

    h = images.permute(0, 3, 1, 2)
    for i, layer in enumerate(network.conv):
        padding = 1 if i < 6 else 0
        h = F.leaky_relu(normalized(F.conv2d(h, layer.linear.weight, layer.linear.bias, padding=padding), layer), 0.1)
        h = F.max_pool2d(h, 2) if i in (2, 5) else h
    logits = network.logits
    return normalized(h.mean((2, 3)) @ logits.linear.weight.T + (0 if arm != "none" else logits.linear.bias), logits)


@pytest.mark.parametrize("arm", ARMS)
def test_the_network_is_that_of_torchs_functions(arm: str) -> None:
    """Every arm of the experiment in float64: logits, and the gradient of the loss by the images."""
    network = network_of(arm)
    images, targets = batches(small("convpool_cnn"), 1)[0].values()
    ours, copies = (images.double().requires_grad_() for _ in range(2))
    found, wanted = network.predict(ours), by_torch(arm, network, copies)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    F.cross_entropy(found, targets).backward()
    F.cross_entropy(wanted, targets).backward()
    torch.testing.assert_close(ours.grad, copies.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("arm", ARMS)
def test_a_normalizers_shift_takes_the_place_of_each_bias(arm: str) -> None:
    """The paper's width: 1.4 million parameters, and a gain for each channel and logit."""
    words = [word for word in experiment("rms2019/table10").arms[arm] if not word.startswith("optim")]
    (spec,) = train_specs(["model=convpool_cnn", *words], False)
    units = 3 * 96 + 6 * 192 + 10
    assert sum(layer["parameters"] for layer in spec.config["model"]["declares"]["layers"]) == 1406794
    assert sum(p.numel() for p in built(spec).parameters()) == 1406794 + (0 if arm == "none" else units)


def test_updates_alone_have_noise_and_dropout_and_repeat_them() -> None:
    network = built(small("convpool_cnn")).train()
    images = batches(small("convpool_cnn"), 1)[0]["inputs"]
    seen: list[Tensor] = []
    for layer in (network.conv[0], network.conv[3]):
        assert isinstance(layer, NormedConv)
        layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].detach()))
    with torch.no_grad():
        network.predict(images)
        for number in (0, 0, 1):
            with models.update(network, 1, number):
                network.predict(images)
    quiet, whole, *updates = seen
    (first, dropped), (again, same), (other, _) = zip(updates[::2], updates[1::2], strict=True)
    assert torch.equal(quiet, images) and torch.equal(first, again) and torch.equal(dropped, same)
    assert float((first - images).std()) == pytest.approx(0.15, rel=0.02)
    assert abs(float((first - images).mean())) < 0.01 and not torch.equal(first, other)
    assert not (whole == 0).any() and float((dropped == 0).float().mean()) == pytest.approx(0.5, abs=0.02)


def test_what_dropout_keeps_is_divided_by_its_share() -> None:
    network = built(small("convpool_cnn", "model.dropout=0.75"))
    ones = torch.ones(50, 4, 4, 8)
    with models.update(network, 1, 0):
        dropped = network._dropped(ones, network.draws("dropout"))
    assert set(dropped.unique().tolist()) == {0.0, 4.0}
    assert float(dropped.mean()) == pytest.approx(1, abs=0.1)
