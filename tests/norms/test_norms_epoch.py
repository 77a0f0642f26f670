"""Training loops of one's own: evaluation goes by statistics of the training batches, or a warning says what to do."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from contract import LEARNING_ROWS
from torch import nn

from normbench import LSTM, NormbenchError, create_norm, epoch
from normbench.norms import modes


def make(name: str, options: dict[str, Any]) -> nn.Module:
    space = {"axes": "batch feature space space", "space": (2, 3)} if name == "instance" else {}
    return create_norm(name, 6, **space, **options)


def train(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    shape = (8, 6, 2, 3) if len(module.site.axes) == 4 else (8, 6)
    for _ in range(3):
        module(3 * torch.randn(shape, generator=generator) + 5)


def evaluated(module: nn.Module) -> tuple[torch.Tensor, list[str]]:
    """The output of the second of two evaluations, and the warnings of both."""
    x = torch.randn((8, 6, 2, 3) if len(module.site.axes) == 4 else (8, 6), generator=torch.Generator().manual_seed(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.eval()(x)
        y = module(x)
    return y.detach(), [str(warning.message) for warning in caught]


@pytest.mark.parametrize(("name", "options"), LEARNING_ROWS)
def test_a_plain_loop_has_statistics_or_one_warning(name: str, options: dict[str, Any]) -> None:
    module = make(name, options)
    untrained, _ = evaluated(make(name, options))
    train(module.train())
    y, told = evaluated(module)
    if torch.equal(y, untrained):
        assert len(told) == 1 and "normbench.epoch(model" in told[0]
    else:
        assert not told


@pytest.mark.parametrize(("name", "options"), LEARNING_ROWS)
def test_within_epochs_all_have_statistics(name: str, options: dict[str, Any]) -> None:
    """Those of the harness: of an epoch or of a pass over the training batches, as its options want."""
    module, harness = make(name, options), make(name, options)
    untrained, _ = evaluated(make(name, options))
    with epoch(module.train()):
        train(module)
    with epoch(module, frozen=True):
        train(module)
    harness.train().begin_epoch()
    train(harness)
    harness.end_epoch()
    with modes.gathering(harness):
        train(harness)
    y, told = evaluated(module)
    assert not told and not torch.equal(y, untrained)
    with modes.inference(harness):
        x = torch.randn(untrained.shape, generator=torch.Generator().manual_seed(2))
        torch.testing.assert_close(harness(x), y, rtol=0, atol=1e-6)  # of torch 2.6 two calls differ in the last digit


def test_after_an_error_the_epoch_before_counts() -> None:
    module = create_norm("batch_layer", 6).train()
    with epoch(module):
        train(module)
    before, _ = evaluated(module)
    with pytest.raises(KeyboardInterrupt), epoch(module.train()):
        module(torch.randn(8, 6))
        raise KeyboardInterrupt
    assert torch.equal(evaluated(module)[0], before)


def test_an_epoch_in_an_epoch_of_the_same_model_is_refused() -> None:
    """It went by the inner one's batches and those after it, without a word."""
    module, other = create_norm("batch_layer", 6).train(), create_norm("batch_layer", 6).train()
    with epoch(module), epoch(other):
        train(module)
        with pytest.raises(NormbenchError, match="inside another epoch"), epoch(nn.Sequential(module)):
            pass
    with pytest.raises(KeyboardInterrupt), epoch(module):
        raise KeyboardInterrupt
    with epoch(module):
        train(module)


def test_recurrent_layers_warn_too() -> None:
    """Their own loops ask a normalizer for its statistics without calling it."""
    options = {"stats": "per_step", "eval_stats": "per_step_pass"}
    layer, x = LSTM(4, 6, norm={"name": "batch", **options}), torch.randn(5, 3, 4)
    with pytest.warns(UserWarning, match="frozen=True"):
        layer.eval()(x)
    with epoch(layer, frozen=True):
        layer(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.eval()(x)


def test_a_convolutional_network_with_batch_layer_learns() -> None:
    """The network of a bug: 46 % of its own training examples were right in evaluation, 94 % with epochs."""
    torch.manual_seed(0)
    x = torch.randn(512, 1, 8, 8) + 2
    y = (x.mean((1, 2, 3)) > 2).long()
    torch.manual_seed(1)
    norm = create_norm("batch_layer", 8, axes="batch feature space space", space=(8, 8))
    rest = nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), norm, *rest)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(15):
        with epoch(model):
            for batch in torch.arange(512).split(32):
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    assert (model.eval()(x).argmax(1) == y).float().mean() > 0.9


@pytest.mark.parametrize(("name", "options"), LEARNING_ROWS)
def test_update_bn_renews_the_statistics(name: str, options: dict[str, Any]) -> None:
    """Plainly averaged over its batches, whatever was there before; training goes on with the momentum again."""
    if (
        name == "instance"
        or options.get("eval_stats") == "per_step_pass"
        or options.get("populations") == "recalibrated"
    ):
        return  # torch leaves its own InstanceNorm alone; the others evaluate with a pass, `epoch(frozen=True)`
    batches = [torch.randn(8, 6, generator=torch.Generator().manual_seed(seed)) * 3 + seed for seed in range(3)]
    module, other = make(name, options), make(name, options)
    before = {key: value.clone() for key, value in module.state_dict().items() if "mean" in key or "square" in key}
    train(other)
    for each in (module, other):
        momentum = each.momentum
        torch.optim.swa_utils.update_bn(batches, each.eval())
        assert each.momentum == momentum and not each.training
    y, told = evaluated(module)
    assert not told and torch.equal(evaluated(other)[0], y)
    moved = module.state_dict()
    assert any(not torch.equal(moved[key], value) for key, value in before.items())
    if name == "batch":
        torchs = nn.BatchNorm1d(6, momentum=None)
        for x in batches:
            torchs(x)
        for mean in module.running_mean:
            torch.testing.assert_close(mean, torchs.running_mean)


@pytest.mark.parametrize("name", sorted({name for name, _ in (row[:2] for row in LEARNING_ROWS)} - {"instance"}))
def test_synchronized_statistics_are_refused_in_words(name: str) -> None:
    with pytest.raises(NormbenchError, match="convert_sync_batchnorm"):
        nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(create_norm(name, 6)))
