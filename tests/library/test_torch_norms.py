"""Weights of torch's normalizers: the same outputs in float64, in training and evaluation, or one line."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normbench import NormbenchError, create_norm, load_torch

FLAT, STEPS, IMAGE = (5, 6), (5, 4, 6), (5, 6, 3, 2)
AXES = {2: "batch feature", 3: "batch time feature", 4: "batch feature space space"}
RMS = {"eps": torch.finfo(torch.float64).eps}
SAME = [
    ("layer", FLAT, {}, nn.LayerNorm(6)),
    ("layer", STEPS, {"eps": 1e-3, "bias": False}, nn.LayerNorm(6, eps=1e-3, bias=False)),
    ("layer", IMAGE, {"normalized_axes": "all"}, nn.LayerNorm([6, 3, 2])),
    ("layer", FLAT, {"affine": False}, nn.LayerNorm(6, elementwise_affine=False)),
    ("rms", STEPS, {}, nn.RMSNorm(6, eps=1e-8)),
    ("rms", FLAT, {"eps": 1e-2, "affine": False}, nn.RMSNorm(6, eps=1e-2, elementwise_affine=False)),
    ("rms", FLAT, RMS, nn.RMSNorm(6)),
    ("group", IMAGE, {"num_groups": 3}, nn.GroupNorm(3, 6)),
    ("group", FLAT, {}, nn.GroupNorm(2, 6)),
    ("group", IMAGE, {"num_groups": 1, "affine": False}, nn.GroupNorm(1, 6, affine=False)),
    ("instance", IMAGE, {}, nn.InstanceNorm2d(6)),
    ("instance", IMAGE, {"track_running_stats": True, "affine": True, "momentum": 0.3},
     nn.InstanceNorm2d(6, track_running_stats=True, affine=True, momentum=0.3)),
    ("batch", FLAT, {"eps": 1e-4}, nn.BatchNorm1d(6, eps=1e-4)),
    ("batch", FLAT, {"affine": False}, nn.BatchNorm1d(6, affine=False)),
    ("batch", IMAGE, {"momentum": 0.3}, nn.BatchNorm2d(6, momentum=0.3)),
    ("batch", FLAT, {"momentum": 1.0}, nn.BatchNorm1d(6, momentum=1.0)),
    ("batch", FLAT, {"eval_stats": "batch"}, nn.BatchNorm1d(6, track_running_stats=False)),
]  # fmt: skip
OTHER = [
    ("eps is 1e-05 here and 0.001 there", "layer", FLAT, {}, nn.LayerNorm(6, eps=1e-3)),
    ("shape is (6,) here and (7,) there", "layer", FLAT, {}, nn.LayerNorm(7)),
    ("shape is (6,) here and (6, 3, 2) there", "layer", IMAGE, {}, nn.LayerNorm([6, 3, 2])),
    ("a gain is True here and False there", "layer", FLAT, {}, nn.LayerNorm(6, elementwise_affine=False)),
    ("a shift is True here and False there", "layer", FLAT, {}, nn.LayerNorm(6, bias=False)),
    ("eps_mode is out here and in there", "layer", FLAT, {"eps_mode": "out"}, nn.LayerNorm(6)),
    ("LayerNorm and torch's RMSNorm", "layer", FLAT, {}, nn.RMSNorm(6)),
    ("torch's BatchNorm1d", "batch_layer", FLAT, {}, nn.BatchNorm1d(6)),
    ("eps is 1e-08 here and 1.1", "rms", FLAT, {}, nn.RMSNorm(6)),
    ("num_groups is 2 here and 3 there", "group", FLAT, {}, nn.GroupNorm(3, 6)),
    ("a time axis", "group", STEPS, {}, nn.GroupNorm(2, 6)),
    ("track_running_stats is False here", "instance", IMAGE, {}, nn.InstanceNorm2d(6, track_running_stats=True)),
    ("momenta is [0.1] here and [None] there", "batch", FLAT, {}, nn.BatchNorm1d(6, momentum=None)),
    ("momenta is [0.1, 0.5] here", "batch", FLAT, {"also_momenta": [0.5]}, nn.BatchNorm1d(6)),
    ("eval_stats is running here and batch", "batch", FLAT, {}, nn.BatchNorm1d(6, track_running_stats=False)),
    ("steps or positions apart", "batch", STEPS, {"stats": "per_step"}, nn.BatchNorm1d(6)),
    ("steps or positions apart", "batch", IMAGE, {"positions": "separate"}, nn.BatchNorm2d(6)),
    ("unbiased_norm", "batch", FLAT, {"unbiased_norm": True}, nn.BatchNorm1d(6)),
    ("num_features is 6 here and 7", "batch", FLAT, {}, nn.BatchNorm1d(7)),
]


def make(name: str, shape: tuple[int, ...], options: dict) -> nn.Module:
    return create_norm(name, 6, axes=AXES[len(shape)], space=shape[2:] if len(shape) == 4 else (), **options)


@pytest.mark.parametrize(("name", "shape", "options", "theirs"), SAME)
def test_it_computes_what_torchs_module_computes(name, shape, options, theirs) -> None:
    """After torch's has learned, at once and after both have learned on."""
    ours, theirs, draw = make(name, shape, options).double(), theirs.double().train(), torch.Generator().manual_seed(1)
    x, *further = (torch.randn(shape, generator=draw, dtype=torch.float64) * 2 + i for i in range(4))
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(generator=draw)
    theirs(x)
    load_torch(ours, theirs)
    for training, values in ((False, x), *((True, values) for values in further), (False, x)):
        wanted = theirs.train(training)(values)
        torch.testing.assert_close(ours.train(training)(values), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("message", "name", "shape", "options", "theirs"), OTHER)
def test_another_formula_is_one_line_and_nothing_is_loaded(message, name, shape, options, theirs) -> None:
    ours = make(name, shape, options)
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    for parameter in theirs.parameters():
        nn.init.constant_(parameter, 3.0)
    with pytest.raises(NormbenchError) as refused:
        load_torch(ours, theirs)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert all(torch.equal(value, before[key]) for key, value in ours.state_dict().items())


def test_a_linear_map_is_no_normalizer() -> None:
    with pytest.raises(NormbenchError, match="NormedLinear"):
        load_torch(create_norm("layer", 6, inputs=3), nn.LayerNorm(6))
