"""The LSTM that reads pixels: its starting state and the noise there, and the statistics of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from smallest import batches, built, small

from normbench import data
from normbench.data.sampler import Sampler
from normbench.models.base import Noise, evaluating, start_from_data, update
from normbench.models.pixel_lstm import PixelLSTM
from normbench.norms.modes import inference
from normbench.rnn.layers import LSTM
from normbench.train.evaluate import gather_populations

NOISY, QUIET = "model.noise=0.1", "model.noise=0"
LN = ("norm=layer", "norm.gain_init=0.1")
BN = ("norm=recurrent_batch", "norm.t_max=64", "norm.eval_stats=per_step_pass")


def model(*words: str) -> PixelLSTM:
    network = built(small("pixel_lstm", *words))
    assert isinstance(network, PixelLSTM)
    return network


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Tensor]]:
    """h_0 of each pass."""
    found: list[torch.Tensor] = []
    forward = LSTM.forward

    def watched(self: LSTM, x: torch.Tensor, **given: Any) -> object:
        found.append(given["state"][0][0].detach().clone())
        return forward(self, x, **given)

    monkeypatch.setattr(LSTM, "forward", watched)
    yield found


def test_it_is_the_lstm_from_the_learned_state() -> None:
    network, batch = model(QUIET), batches(small("pixel_lstm"), 1)[0]
    with torch.no_grad():
        network.h0.normal_()
        network.c0.normal_()
        state = tuple(start.expand(1, 50, -1).contiguous() for start in (network.h0, network.c0))
        outputs, _ = network.lstm(batch["inputs"], state=state)
        wanted = network.logits(outputs[:, -1])
        torch.testing.assert_close(network.predict(batch["inputs"]), wanted)
    network(**batch).backward()
    for start in (network.h0, network.c0):
        assert start.grad is not None and bool(start.grad.any())


def test_noise_is_in_updates_in_evaluations_and_where_statistics_are_gathered(starts: list[torch.Tensor]) -> None:
    """An example has the same noise in an evaluation as where statistics are gathered for it."""
    network, batch = model(NOISY, *BN), batches(small("pixel_lstm"), 1)[0]
    for number in (0, 1, 0):
        with update(network, 1, number):
            network(**batch)
    first, second, again = starts
    assert torch.equal(first, again) and not torch.equal(first, second)
    assert float(first.std()) == pytest.approx(0.1, rel=0.1) and first.shape == (50, 8)
    starts.clear()
    with evaluating(network, Noise(1, "train", range(50))), torch.no_grad():
        network.evaluate(**batch)
    split = data.load(small("pixel_lstm").config["data"]).splits["train"].only(["inputs", "targets"])
    gather_populations(network, split, 1, Sampler("shuffled", len(split), 50, 1))
    evaluated, *gathered = starts
    assert {tuple(row) for row in evaluated.tolist()} <= {tuple(row) for row in torch.cat(gathered).tolist()}
    starts.clear()
    start_from_data(network, split.batch(slice(50)), 1)
    with update(model(QUIET), 1, 0):
        model(QUIET)(**batch)
    assert not any(bool(start.any()) for start in starts)


def test_without_noise_the_gradient_of_layer_normalization_is_no_number() -> None:
    """While pixels are black and h_0 = c_0 = 0 each site multiplies it by 1 / sqrt(eps) at each step."""
    dark = torch.zeros(4, 64, 1)
    dark[:, 60:] = torch.rand(4, 4, 1)
    for noise, finite in ((QUIET, False), (NOISY, True)):
        network = model(*LN, noise)
        with update(network, 1, 0):
            loss = network(dark, torch.arange(4))
        loss.backward()
        assert bool(loss.isfinite())
        assert all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None) is finite


def test_the_statistics_of_the_steps_are_those_of_the_hidden_term() -> None:
    network = model(NOISY, *BN)
    images = data.load(small("pixel_lstm").config["data"]).splits["valid"]
    noise = Noise(1, "valid", range(len(images)))
    with inference(network), evaluating(network, noise), torch.no_grad():
        outputs = network.outputs(images["inputs"]).double().numpy()
    weights = network.lstm.cells[0].weight_hh.detach().double().numpy()
    found = {record.pop("split"): record for record in network.after({"valid": images}, 1)}
    assert list(found) == [f"valid step {t}" for t in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 64)]
    assert found["valid step 64"] == {"log_variance": 0.0, "mean_shift": 0.0}
    last = outputs[:, 63] @ weights.T
    for t in (1, 30):
        terms = outputs[:, t - 1] @ weights.T
        wanted = {
            "log_variance": np.abs(np.log(terms.var(0) / last.var(0))).mean(),
            "mean_shift": (np.abs(terms.mean(0) - last.mean(0)) / last.std(0)).mean(),
        }
        assert found[f"valid step {t}"] == pytest.approx(wanted, rel=1e-3)
