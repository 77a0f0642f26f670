"""The RNN of BLN 2022, section 4.2: its layers, its size, its draws, its dropout."""

from __future__ import annotations

import contextlib
import importlib

import pytest
import torch
import torch.nn.functional as F
from reference import keras
from smallest import batches, built, small

from normbench import data as datasets
from normbench.config.plan import train_specs
from normbench.core.streams import stream
from normbench.models import base as models


@pytest.mark.parametrize(("norm", "count"), [("none", 10620161 - 448), ("batch", 10620161), ("batch_layer", 10620161)])
def test_imdb_rnn_has_the_size_that_the_authors_print(norm: str, count: int) -> None:
    (spec,) = train_specs(["model=imdb_rnn", f"norm={norm}"], False)
    with torch.device("meta"):
        module = importlib.import_module("normbench.models.imdb_rnn")
        network = module.build(spec.config, models.Sites(spec.config, spec.sites))
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
    network(reviews["inputs"][:25], reviews["targets"][:25])
    found = []
    for norm in (network.norms["0"], network.norms["1"], network.dense.norm):
        norm.end_epoch()
        sizes = {name: tensor.numel() for name, tensor in norm.state_dict().items()}
        moments = sum(sizes[f"trained.{of}_{moment}"] for of in ("batch", "feature") for moment in ("mean", "std"))
        found.append(sizes["gain"] + sizes["bias"] + moments + 2)
    assert found == [24738, 308, 180]


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
    inputs, targets = batches(spec, 1)[0].values()
    draw = stream(1, "dropout", 2)
    h = p["embedding.weight"][inputs]
    for place in ("0", "1"):
        cell, units = f"lstm.{place}.cells.0", p[f"lstm.{place}.cells.0.weight_hh"].shape[1]
        rows = [k * units + i for k in (1, 0, 3, 2) for i in range(units)]  # ours are f, i, o, g
        bias = p[f"{cell}.bias"].clone()
        bias[:units] += 1  # unit_forget_bias
        masks = []
        for features in (h.shape[2], units):
            dropout_mask = draw.random((4 if per_gate else 1, len(inputs), features), dtype="float32") >= 0.2
            dropout_mask = dropout_mask / 0.8 if updating else dropout_mask + 1.0 - dropout_mask
            masks.append([dropout_mask[k if per_gate else 0] for k in (1, 0, 3, 2)])
        weights = (p[f"{cell}.weight_ih"][rows].T, p[f"{cell}.weight_hh"][rows].T, bias[rows])
        h = torch.from_numpy(keras.lstm(h.numpy(), *(w.numpy() for w in weights), *masks))
        h = keras.layer_normalization(
            h if place == "0" else h[:, -1], p[f"norms.{place}.gain"], p[f"norms.{place}.bias"]
        )
    h = torch.tanh(h @ p["dense.linear.weight"].T + p["dense.linear.bias"])
    h = keras.layer_normalization(h, p["dense.norm.gain"], p["dense.norm.bias"])
    s = (h @ p["logit.weight"].T + p["logit.bias"])[:, 0]
    wanted = torch.where(targets > 0, F.softplus(-s), F.softplus(s)).mean()
    with models.update(network, 1, 2) if updating else contextlib.nullcontext():
        loss = network(inputs, targets)
    torch.testing.assert_close(loss.detach(), wanted, rtol=1e-6 if updating else 1e-10, atol=0)  # masks are float32
    positive = targets > 0
    assert network.tally["error"] == ((s > 0) != positive).sum()
    assert network.tally["error_published"] == ((s > 0.5) != positive).sum()


def test_imdb_rnn_drops_in_updates_alone_and_all_arms_drop_the_same() -> None:
    inputs, targets = batches(small("imdb_rnn"), 1)[0].values()
    masks = {}
    for norm in ("none", "batch_layer"):
        network = built(small("imdb_rnn", f"norm={norm}")).train()
        seen = masks[norm] = []
        for layer in network.lstm:
            weights = layer.cells[0].sequence_weights
            layer.cells[0].sequence_weights = lambda *a, weights=weights, seen=seen: (
                seen.append(weights(*a)) or seen[-1]
            )
        for update in (0, 1, 0):
            with models.update(network, 1, update):
                network(inputs, targets)
        assert torch.equal(seen[0].input_drop, seen[4].input_drop)
        assert not torch.equal(seen[0].input_drop, seen[2].input_drop)
        network(inputs, targets)
        network.evaluate(inputs, targets)
        assert all(weights.input_drop is None and weights.state_drop is None for weights in seen[6:])
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
