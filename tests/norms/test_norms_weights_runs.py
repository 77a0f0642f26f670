"""Normalizers of weights and blocks in a model and in a run: initial values, and those from the first minibatch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import contract
import pytest
import tiny
import torch
import torch.nn.functional as F
from smallest import batches, built, small
from torch import Tensor
from weight_cases import LAYOUTS, NORMS, every_option, inputs

from normbench import data as datasets
from normbench.battery.cases import INPUTS, UNITS, WEIGHT_KINDS
from normbench.core.streams import stream
from normbench.data.examples import Split
from normbench.models import base as models
from normbench.norms import base, layers, modes
from normbench.norms.sites import Choice, Site
from normbench.norms.weight import WeightNorm
from normbench.train import checkpoint


def words(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    defaults = contract.defaults(name)
    changed = [f"norm.{key}={str(value).lower()}" for key, value in options.items() if value != defaults[key]]
    return (f"norm={name}", "model.hidden_sizes=[8,6]", *changed)


RUNS = [
    pytest.param(words(name, options), id=f"{name}-{number}")
    for name in NORMS
    for number, options in enumerate([*every_option(name)][::2])  # the defaults; each switch with the other numbers
]


def network(*words: str) -> models.Model:
    spec = tiny.spec(*words)
    return models.build(spec.config, spec.sites)


@pytest.mark.parametrize("words", RUNS)
def test_the_weights_are_the_draws_of_the_arm_without(words: tuple[str, ...]) -> None:
    unnormalized = dict(network("model.hidden_sizes=[8,6]").named_parameters())
    for name, parameter in network(*words).named_parameters():
        if ".norm." not in name:
            assert torch.equal(parameter, unnormalized[name]), name
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
        Site("mine", WEIGHT_KINDS, LAYOUTS["linear"], UNITS, activation="relu"),
    )
    layer = layers.NormedLinear(INPUTS, site, Choice(name, kind, contract.defaults(name), True, False, 1), F.relu)
    x, before = inputs("linear").float(), {key: value.clone() for key, value in layer.state_dict().items()}
    with torch.no_grad():
        y = layer.eval()(x)
        layer.start()
        assert torch.equal(layer(x), y)
    assert layer.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


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
    model = models.build(spec.config, spec.sites)
    batch = data.splits["train"].batch(torch.from_numpy(stream(spec.seed, "order", 1).permutation(1200)[:210]))
    first = batch.tensors["inputs"]
    models.start_from_data(model, batch, spec.seed)
    assert model.training, "as it was built"
    mode_dependent = any(choice.mode_dependent for choice in spec.sites.values())
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


def test_a_run_begins_from_what_its_first_update_sees() -> None:
    """With its dropout: the summed inputs of that update have mean 0 and variance 1."""
    spec = small("attentive_reader", "norm=weight", "norm.init=data", "norm.sites=[dense.query]")
    model, batch = built(spec).train(), Split(**batches(spec, 1)[0]).batch(slice(None))
    models.start_from_data(model, batch, spec.seed)
    found: list[Tensor] = []
    model.get_submodule("dense.query").register_forward_hook(lambda module, inputs, output: found.append(output))
    with torch.no_grad(), models.update(model, spec.seed, 0):
        model(**batch.tensors)
    (z,) = found
    torch.testing.assert_close(z.mean(0), torch.zeros_like(z[0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones_like(z[0]), atol=1e-4, rtol=0)


def test_others_are_left_alone_by_the_start() -> None:
    """Nothing waits: no pass is made. With a pending normalizer batch statistics do not move."""
    spec = tiny.spec("norm=batch")
    split = datasets.load(spec.config["data"]).splits["train"]
    model = models.build(spec.config, spec.sites)
    model.register_forward_hook(lambda *_: pytest.fail("a pass was made"))
    models.start_from_data(model, split.batch(slice(9)), spec.seed)
    spec = tiny.spec("norm.sites={hidden:batch,logits:{name:weight,init:data}}")
    model = models.build(spec.config, spec.sites)
    models.start_from_data(model, split.batch(slice(9)), spec.seed)
    assert not model.hidden[0].norm.running_mean.any() and not modes.pending(model)


def test_what_is_kept_holds_that_it_has_begun(tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", "norm=weight", "norm.init=data", stopping=tiny.after(1))
    _, tensors = checkpoint.read(tmp_path / "run") or ({}, {})
    assert tensors["model:hidden.0.norm.initialized"].item() is True
