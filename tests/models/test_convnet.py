"""The network for LN 2016, section 6.7: against torch's own layers, its size, and what it tells of its units."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import torch.nn.functional as F
from smallest import batches, built, small
from torch import Tensor, nn

from normbench.config import compose, grammar
from normbench.config.plan import train_specs
from normbench.data.examples import Split
from normbench.errors import NormbenchError
from normbench.models.base import Model
from normbench.norms.base import own_parameters
from normbench.papers import artifact as artifacts
from normbench.runs.directory import RunDirectory
from normbench.train.train_one import ensure_run

CHANNELS, SIDES = (3, 4, 4, 8, 8, 16, 16), (32, 32, 16, 16, 8, 8)  # of the smallest form
UNITS = 64 + 64 + 128 + 128 + 256 + 256 + 256  # of the default one: channels, and units of the dense layer
ELEMENTS = 2 * (64 * 32**2 + 128 * 16**2 + 256 * 8**2)  # of its convolutions
NORMS = {
    "none": (),
    "batch": ("norm=batch",),
    "layer": ("norm=layer", "norm.normalized_axes=all"),
    "channels": ("norm=layer",),
    "group": ("norm=group", "norm.num_groups=1"),
}


class OverChannels(nn.LayerNorm):
    """Per position."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


def norm_of(name: str, channels: int, side: int) -> nn.Module:
    """torch's layer; of the dense one, where there is no side."""
    if name == "batch":
        return nn.BatchNorm2d(channels) if side else nn.BatchNorm1d(channels)
    if name == "layer":
        return nn.LayerNorm([channels, side, side] if side else channels)
    if name == "channels":
        return OverChannels(channels) if side else nn.LayerNorm(channels)
    return nn.GroupNorm(1, channels) if name == "group" else nn.Identity()


def torch_layers(name: str) -> nn.Sequential:
    """The network of torch's layers, images (B, 3, 32, 32)."""
    layers: list[nn.Module] = []
    for i, side in enumerate(SIDES):
        layers += [nn.Conv2d(CHANNELS[i], CHANNELS[i + 1], 3, padding=1, bias=name == "none")]
        layers += [norm_of(name, CHANNELS[i + 1], side), nn.ReLU(), *([nn.MaxPool2d(2)] if i % 2 else [])]
    dense = nn.Linear(16 * 4 * 4, 16, bias=name == "none")
    return nn.Sequential(*layers, nn.Flatten(), dense, norm_of(name, 16, 0), nn.ReLU(), nn.Linear(16, 10)).double()


def both(name: str) -> tuple[Model, nn.Sequential, Tensor, Tensor]:
    """Ours in float64 and torch's with copies of its parameters, none as it was drawn; images, targets.

    Ours has the channels last, in what the dense layer reads and in a gain for each element.
    """
    spec = small("convnet", *NORMS[name])
    network, theirs, draw = built(spec).double(), torch_layers(name), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    ours = [*network.conv, *network.dense]
    maps = [layer for layer in theirs if isinstance(layer, nn.Conv2d | nn.Linear)]
    for linear, other in zip([*(layer.linear for layer in ours), network.logits], maps, strict=True):
        other.load_state_dict(linear.state_dict())
    weight = network.dense[0].linear.weight
    maps[-2].weight.data = weight.detach().unflatten(1, (4, 4, 16)).movedim(-1, 1).flatten(1)
    norms = [layer for layer in theirs if layer not in maps and [*layer.parameters()]]
    assert bool(norms) == bool(own_parameters(network))
    for layer, other in zip(ours if norms else [], norms, strict=True):
        for values, copy in ((layer.norm.gain, other.weight), (layer.norm.bias, other.bias)):
            copy.data = values.detach().movedim(-1, 0) if values.dim() == 3 else values.detach()
    images, targets = batches(spec, 1)[0].values()
    return network, theirs, images.double(), targets


@pytest.mark.parametrize("name", NORMS)
def test_the_network_is_that_of_torchs_layers(name: str) -> None:
    """By copied weights in float64: logits in both modes, and the gradient of the loss."""
    network, theirs, images, targets = both(name)
    ours, copies = images.clone().requires_grad_(), images.clone().requires_grad_()
    found, wanted = network.train().predict(ours), theirs.train()(copies.permute(0, 3, 1, 2))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    F.cross_entropy(found, targets).backward()
    F.cross_entropy(wanted, targets).backward()
    torch.testing.assert_close(ours.grad, copies.grad, rtol=1e-10, atol=1e-12)
    found, wanted = network.eval().predict(images), theirs.eval()(images.permute(0, 3, 1, 2))  # running averages
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    metrics = network.evaluate(images, targets)
    torch.testing.assert_close(metrics["nll"], F.cross_entropy(wanted, targets, reduction="none"))
    assert torch.equal(metrics["error"], (wanted.argmax(1) != targets).float())


@pytest.mark.parametrize(
    ("name", "added"),
    [("none", 0), ("batch", UNITS), ("channels", UNITS), ("group", UNITS), ("layer", 2 * (ELEMENTS + 256) - UNITS)],
)
def test_the_size_is_that_of_the_declared_layers(name: str, added: int) -> None:
    """A normalizer's shift takes the place of a bias, its gain comes beside it."""
    (spec,) = train_specs(["model=convnet", *NORMS[name]], False)
    assert sum(layer["parameters"] for layer in spec.config["model"]["declares"]["layers"]) == 2196810
    assert sum(p.numel() for p in built(spec).parameters()) == 2196810 + added


def test_other_images_are_refused(tmp_path: Path) -> None:
    """Three poolings need a side of 8 at least; the sites are those of images of 32 x 32."""
    (tmp_path / "data").mkdir()
    declares = (
        "{title: t, source: s, maths: 1, classes: 2, features: 48, shape: [4, 4, 3], train_size: {of: 9, less: []}}"
    )
    (tmp_path / "data" / "stamps.yaml").write_text(f"name: stamps\ndeclares: {declares}\n")
    for name, has in (("stamps", "inputs of 4 x 4 x 3"), ("mnist", "vectors")):
        with pytest.raises(NormbenchError) as caught:
            compose.compose(grammar.parse(["model=convnet", f"data={name}"]), tmp_path)
        assert f"model=convnet reads inputs of 32 x 32 x 3, data={name} has {has}. (that fit: " in str(caught.value)
        assert caught.value.code == 2 and "\n" not in str(caught.value)


# --- what units do at the border --------------------------------------------------------------------------------------


def looked_at(network: Model, images: Tensor) -> dict[str, dict[str, Any]]:
    """The records of the stage after training, by split."""
    split = Split(inputs=images, targets=torch.zeros(len(images), dtype=torch.int64))
    return {record["split"]: record for record in network.after({"test": split}, seed=1)}


@pytest.mark.parametrize("name", ["none", "batch", "layer"])
def test_units_are_counted_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop over the positions of torch's layers; the images in chunks, in evaluation mode."""
    network, theirs, images, _ = both(name)
    images = images[:5]
    monkeypatch.setattr(type(network), "evaluated_at_once", 2)
    found = looked_at(network.train(), images)
    assert network.training and not any(relu._forward_hooks for relu in (layer.activation for layer in network.conv))
    assert list(found) == [*(f"test conv.{i}" for i in range(6)), "test conv"]
    h, layers = images.permute(0, 3, 1, 2), iter(theirs.eval())
    differences, ratios = [], []
    for i, side in enumerate(SIDES):
        with torch.no_grad():
            h = next(layers)(h)
            z = next(layers)(h)
            h = next(layers)(z)
            h = next(layers)(h) if i % 2 else h
        values: dict[str, list[float]] = {"border": [], "interior": []}
        for y in range(side):
            for x in range(side):
                place = "border" if 0 in (y, x) or side - 1 in (y, x) else "interior"
                values[place] += z[:, :, y, x].flatten().tolist()
        record, on, variance = found[f"test conv.{i}"], {}, {}
        for place, numbers in values.items():
            on[place], variance[place] = sum(v > 0 for v in numbers) / len(numbers), np.var(numbers)
            assert record[f"{place}_on"] == pytest.approx(on[place], abs=1e-12)
            assert record[f"{place}_mean"] == pytest.approx(np.mean(numbers), abs=1e-12)
            assert record[f"{place}_variance"] == pytest.approx(variance[place], rel=1e-10)
        differences.append(on["border"] - on["interior"])
        ratios.append(variance["border"] / variance["interior"])
        assert record["on_difference"] == pytest.approx(differences[-1], abs=1e-12)
        assert record["variance_ratio"] == pytest.approx(ratios[-1], rel=1e-10)
    assert found["test conv"]["on_difference"] == pytest.approx(np.mean(differences), abs=1e-12)
    assert found["test conv"]["variance_ratio"] == pytest.approx(math.prod(ratios) ** (1 / 6), rel=1e-10)


def test_units_that_do_not_vary_have_no_ratio() -> None:
    """Of equal numbers sums leave a variance of rounding."""
    network, _, images, _ = both("none")
    with torch.no_grad():
        network.conv[2].linear.weight.zero_()
        network.conv[2].linear.bias.fill_(-0.1)
    found = looked_at(network, images)
    assert found["test conv.2"]["border_on"] == found["test conv.2"]["interior_on"] == 0
    assert math.isnan(found["test conv.2"]["variance_ratio"]) and math.isnan(found["test conv"]["variance_ratio"])


def test_a_run_ends_with_what_its_claims_read(tmp_path: Path) -> None:
    spec = small("convnet", "model.width=1", "data.fraction=0.01", "train.epochs=1", "eval.strides={test: 50}")
    assert ensure_run(spec, RunDirectory(tmp_path)) == "done"
    records = tiny.curve(tmp_path)
    stage = {record["split"]: record for record in records if record["mode"] == "stage"}
    assert len(stage) == 7 and {record["step"] for record in stage.values()} == {spec.steps}
    (claim,) = (claim for claim in artifacts.load("ln2016/convnet").claims if claim.id == "LN-G3")
    for part in (*claim.parts, *claim.reported):
        assert part.endpoint.mode == "stage" and part.endpoint.metric in stage[part.endpoint.split]
    assert str(claim.parts[0].endpoint) == "final test conv on_difference (after training)"


def test_units_that_a_normalizer_replaces_are_not_looked_at() -> None:
    for sites, left in ("[conv.0,conv.3]", [1, 2, 4, 5]), ("[conv]", []):
        spec = small("convnet", "norm=filter_response", f"norm.sites={sites}")
        split = Split(**batches(spec, 1)[0])
        found = [record["split"] for record in built(spec).after({"test": split}, 1)]
        assert found == [f"test conv.{i}" for i in left] + ["test conv"] * bool(left)
