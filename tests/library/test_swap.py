"""`normbench.swap`: norms of a network of one's own, exchanged for any normalizer."""

from __future__ import annotations

import copy
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from normbench import BadInput, create_norm, epoch, swap
from normbench.cli import main
from normbench.norms.base import Normalizer

EXAMPLE = Path(__file__).parents[2] / "examples" / "swap.py"
PIXELS = "batch feature space space"


class Tokens(nn.Module):
    """A normalizer built in from the start, for x (batch, time, features)."""

    def __init__(self, name: str, features: int, **options: Any) -> None:
        super().__init__()
        self.norm = create_norm(name, features, axes="batch time feature", **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Residual(nn.Module):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(6, 6, 3, padding=1), norm(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, padding=1), norm(6)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))).relu()


def convnet(norm: Any) -> nn.Sequential:
    """A small ResNet, of the same weights for any norm."""
    torch.manual_seed(0)
    stem = (nn.Conv2d(3, 6, 3, padding=1), norm(6), nn.ReLU(), Residual(norm), Residual(norm))
    return nn.Sequential(*stem, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))


def transformer(**options: Any) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not layer.norm_first)


def trained(model: nn.Module, x: Tensor, steps: int = 3) -> Tensor:
    """Outputs of evaluation after a few updates."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with epoch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return model.eval()(x)


@pytest.mark.parametrize(
    "name", ["none", "batch", "batch_layer", "rms", "layer", "group", "instance", "dyt", "filter_response"]
)
def test_a_convnet_trains_as_one_that_was_built_so(name: str) -> None:
    swapped = convnet(nn.BatchNorm2d)
    x = torch.randn(8, 3, 5, 7)
    assert swap(swapped, nn.BatchNorm2d, name) == ["1", "3.bn1", "3.bn2", "4.bn1", "4.bn2"]
    eps = {} if name in ("none", "dyt", "batch_layer") else {"eps": 1e-5}
    affine = {"affine": True} if name == "instance" else {}  # a BatchNorm2d has a gain, an instance norm by itself none
    built = convnet(lambda features: create_norm(name, features, axes=PIXELS, **eps, **affine))
    torch.testing.assert_close(trained(swapped, x), trained(built, x))


@pytest.mark.parametrize("name", ["none", "batch", "rms", "group", "dyt", "derf"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_transformer_trains_as_one_that_was_built_so(name: str, norm_first: bool) -> None:
    x = torch.randn(4, 5, 16)
    swapped, built = transformer(norm_first=norm_first), transformer(norm_first=norm_first)
    names = swap(swapped, nn.LayerNorm, name)
    assert names == [f"layers.{i}.norm{j}" for i in range(2) for j in (1, 2)]
    options = {} if name in ("none", "dyt", "derf") else {"eps": 1e-5}
    for layer in built.layers:
        layer.norm1, layer.norm2 = Tokens(name, 16, **options), Tokens(name, 16, **options)
        layer.norm1.eps, layer.norm2.eps = 1.0, 2.0  # else torch reads weights of them
    torch.testing.assert_close(trained(swapped, x), trained(built, x))


@pytest.mark.parametrize("name", ["layer", "rms"])
@pytest.mark.parametrize("grad", [True, False])
def test_torchs_fused_evaluation_is_left(name: str, grad: bool) -> None:
    """With the gradient off and padding torch reads the weights of its norms, and computes LayerNorm with them."""
    model, x = transformer(), torch.randn(4, 5, 16)
    padding = torch.arange(5) >= torch.tensor([5, 4, 3, 2])[:, None]
    expected = model(x, src_key_padding_mask=padding)
    swap(model, nn.LayerNorm, name)
    model.eval()
    for module in model.modules():
        module._forward_pre_hooks.clear()  # of which any makes a layer leave the fused evaluation
    with torch.set_grad_enabled(grad):
        y = model(x, src_key_padding_mask=padding)
    valid = ~padding
    assert torch.allclose(y[valid], expected[valid], atol=1e-5) == (name == "layer")
    torch.testing.assert_close(y[valid], model.train()(x, src_key_padding_mask=padding)[valid])


@pytest.mark.parametrize(("theirs", "name", "shape"), [
    (nn.LayerNorm(8), "layer", (4, 3, 8)),
    (nn.LayerNorm(8, eps=1e-2, bias=False), "layer", (2, 3, 5, 8)),
    (nn.LayerNorm(8, elementwise_affine=False), "layer", (4, 8)),
    (nn.RMSNorm(8), "rms", (4, 3, 8)),
    (nn.RMSNorm(8, eps=0.1), "rms", (8,)),
    (nn.BatchNorm1d(8, eps=1e-2), "batch", (6, 8)),
    (nn.BatchNorm1d(8), "batch", (6, 8, 5)),
    (nn.BatchNorm2d(8, affine=False), "batch", (6, 8, 5, 4)),
    (nn.GroupNorm(1, 8), "none", (6, 8, 5)),
])  # fmt: skip
def test_the_same_formula_gives_the_same(theirs: nn.Module, name: str, shape: tuple[int, ...]) -> None:
    """With gains and shifts that are copied, and random."""
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    model = nn.Sequential(copy.deepcopy(theirs))
    swap(model, "0", name, copy=name != "none")
    x = 3 * torch.randn(shape) + 1
    torch.testing.assert_close(model(x), x if name == "none" else theirs(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("axes", "shape"), [
    ("batch feature", (6, 8)), ("batch feature space", (6, 8, 5)), (PIXELS, (6, 8, 5, 4)),
])  # fmt: skip
def test_several_ranks_are_asked_for_where_they_matter(axes: str, shape: tuple[int, ...]) -> None:
    x, theirs = torch.randn(shape), nn.GroupNorm(4, 8)
    model = nn.Sequential(nn.GroupNorm(2, 8))
    with pytest.raises(BadInput, match="axes="):
        swap(model, nn.GroupNorm, "group", num_groups=4)
    swap(model, nn.GroupNorm, "group", num_groups=4, axes=axes)
    torch.testing.assert_close(model(x), theirs(x))


def test_gains_and_shifts_start_anew_unless_they_are_copied() -> None:
    for parameter in (model := nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4))).parameters():
        nn.init.constant_(parameter, 3.0)
    other = copy.deepcopy(model)
    swap(model, nn.LayerNorm, "dyt")
    assert model[0].norm.gain.tolist() == [1.0] * 4 and model[0].norm.bias.tolist() == [0.0] * 4
    swap(other, (nn.LayerNorm, nn.RMSNorm), "dyt", copy=True)
    assert other[0].norm.bias.tolist() == other[1].norm.gain.tolist() == [3.0] * 4
    assert other[1].norm.bias.tolist() == [0.0] * 4


def test_type_device_mode_and_other_weights_stay() -> None:
    model = convnet(nn.BatchNorm2d).double().eval()
    model[3].bn1.train()
    model.to_empty(device="meta")
    state = torch.get_rng_state()
    swap(model, "*bn?", "rms")
    swap(model, "1", "batch")
    assert torch.equal(state, torch.get_rng_state())
    assert {(p.dtype, p.device.type) for p in model.parameters()} == {(torch.float64, "meta")}
    assert [model[3].bn1.norm.training, model[3].bn2.norm.training, model[1].training] == [True, False, False]
    frozen = nn.Sequential(nn.Linear(4, 4, dtype=torch.bfloat16), nn.LayerNorm(4, elementwise_affine=False))
    swap(frozen, nn.LayerNorm, "dyt")
    assert frozen[1].norm.gain.dtype is torch.bfloat16 and frozen(torch.ones(2, 4).bfloat16()).dtype is torch.bfloat16


def test_shared_modules_stay_shared() -> None:
    norm = nn.LayerNorm(4)
    block = nn.Sequential(nn.Linear(4, 4), norm)
    model = nn.ModuleDict({"a": block, "b": block, "last": norm, "other": nn.LayerNorm(4)})
    assert swap(model, "a.1", "rms") == ["a.1", "b.1", "last"]
    assert model["a"][1] is model["b"][1] is model["last"] and isinstance(model["other"], nn.LayerNorm)
    assert len({id(p) for p in model.parameters()}) == 2 + 1 + 2


def test_weights_are_stored_loaded_copied_and_compiled() -> None:
    model, again = transformer(), transformer()
    x = torch.randn(4, 5, 16)
    swap(model, nn.LayerNorm, "batch")
    swap(again, nn.LayerNorm, "batch")
    y = trained(model, x)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(x), y) and torch.equal(copy.deepcopy(model)(x), y)
    follows_all = hasattr(torch.optim, "Muon")  # torch from 2.9
    compiled = torch.compile(model.layers[0], backend="eager", fullgraph=follows_all)
    torch.testing.assert_close(compiled(x), model.layers[0](x))


class Mine(nn.Module):
    """A norm of a user's: its features are the second axis."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.ones(size, 1, 1)), 1e-3

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class ChannelsFirst(nn.LayerNorm):
    """As torchvision's and timm's LayerNorm2d."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize("theirs", [Mine, ChannelsFirst])
def test_other_classes_need_features_and_axes(theirs: type[nn.Module]) -> None:
    model = nn.Sequential(theirs(4), nn.Conv2d(4, 8, 1), theirs(8))
    for given in ({}, {"features": 4}, {"axes": PIXELS}):
        if theirs is Mine or "axes" not in given:
            with pytest.raises(BadInput, match="features= and axes="):
                swap(model, theirs, "rms", **given)
    size = {Mine: lambda norm: norm.scale.numel(), ChannelsFirst: lambda norm: norm.normalized_shape[0]}[theirs]
    assert swap(model, theirs, "rms", features=size, axes=PIXELS) == ["0", "2"]
    x = torch.randn(3, 4, 5, 6)
    assert model(x).shape == (3, 8, 5, 6)
    expected = create_norm("rms", 4, axes=PIXELS, eps=1e-3 if theirs is Mine else 1e-5)
    torch.testing.assert_close(model[0](x), expected(x))


def test_one_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "half.py"
    path.write_text(
        "from torch import nn\n\nclass Half(nn.Module):\n    def __init__(self, features):\n"
        "        super().__init__()\n\n    def forward(self, x):\n        return x / 2\n"
    )
    model, x = convnet(nn.BatchNorm2d), torch.randn(2, 6, 3, 3)
    assert len(swap(model, nn.BatchNorm2d, str(path))) == 5
    assert torch.equal(model[1](x), x / 2)


@pytest.mark.parametrize(("which", "norm", "options", "facts"), [
    ("norm", "dyt", {}, ["'norm'", "bn1"]),
    (nn.LayerNorm, "dyt", {}, ["LayerNorm", "BatchNorm2d"]),
    ("3", "dyt", {}, ["'3'", "Residual", "features="]),
    ("3*", "dyt", {}, ["'3'", "another match"]),
    ("*", "dyt", {}, ["Sequential", "create_norm"]),
    (nn.BatchNorm2d, "dty", {}, ["dty", "dyt"]),
    (nn.BatchNorm2d, "weight", {}, ["'1'", "weights of a linear map"]),
    (nn.BatchNorm2d, "gate_layer", {}, ["'1'", "time"]),
    (nn.BatchNorm2d, "group", {"num_groups": 4}, ["'1'", "6 features"]),
    (nn.BatchNorm2d, "dyt", {"alpha": 1}, ["'1'", "alpha"]),
    (nn.BatchNorm2d, "rms", {"copy": True}, ["'1'", "RMSNorm has no bias"]),
    (nn.Linear, "rms", {"copy": True, "features": 6, "axes": "batch feature"}, ["Linear"]),
])  # fmt: skip
def test_what_cannot_be_is_one_line_and_nothing_is_changed(which, norm, options, facts) -> None:
    model = convnet(nn.BatchNorm2d)
    with pytest.raises(BadInput) as caught:
        swap(model, which, norm, **options)
    assert all(fact in str(caught.value) for fact in facts), str(caught.value)
    assert not any(isinstance(module, Normalizer) for module in model.modules())


def test_several_axes_at_once_are_refused() -> None:
    with pytest.raises(BadInput, match="LayerNorm"):
        swap(nn.Sequential(nn.LayerNorm((3, 4))), nn.LayerNorm, "rms")
    model = nn.Sequential(nn.LayerNorm(4))
    swap(model, nn.LayerNorm, "rms")
    with pytest.raises(BadInput, match="x must be"):
        model(torch.ones(2, 5))


def test_the_example_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    """With the commands that it names."""
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLE))
    example["main"](seeds=range(1, 3), steps=20)
    lines = re.findall("^    normbench (.*)$", EXAMPLE.read_text(), re.MULTILINE)
    for line in (lines[0], f"{lines[1]} --json"):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        assert not ended.value.code
    (answer,) = json.loads(capfd.readouterr().out)
    (group,) = answer["groups"]
    assert {row["arm"]: row["at"]["n"] for row in group["rows"]} == {"layer": 2, "dyt": 2, "rms": 2}
    assert len({row["at"]["mean"] for row in group["rows"]}) == 3
