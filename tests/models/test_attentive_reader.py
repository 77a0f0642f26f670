"""The attentive reader of LN 2016, section 6.2: its formulas, its dropout, its permuted entities, sites and draws."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from reference import attentive_reader as reference
from reference.recurrent import layer_norm
from smallest import batches, built, small

from normbench import data as datasets
from normbench.config import compose
from normbench.config.plan import train_specs
from normbench.core.streams import stream
from normbench.data.cloze import ENTITY
from normbench.models import base as models

LSTM_SITES = [f"lstm.{which}.{site}" for which in ("document", "question") for site in ("input", "hidden", "cell")]
DENSE = ("document", "question", "context", "query", "mean")
PER_STEP = "stats:per_step,gain_init:0.1"
BN_LSTM = f"lstm.*.input:{{{PER_STEP},bias:false}},lstm.*.hidden:{{{PER_STEP},bias:false}},lstm.*.cell:{{{PER_STEP}}}"
BN_EVERYWHERE = f"{BN_LSTM}," + ",".join(
    f"dense.{name}:{{gain_init:0.1,bias:{str(name in ('document', 'query')).lower()}}}" for name in DENSE
)
ARMS = {
    "none": ("norm=none",),
    "layer": ("norm=layer",),
    "bn-lstm": ("norm=batch", "norm.eval_stats=batch", f"norm.sites={{{BN_LSTM}}}"),
    "bn-everywhere": ("norm=batch", "norm.eval_stats=batch", f"norm.sites={{{BN_EVERYWHERE}}}"),
}


def shaken(arm: str, *words: str) -> models.Model:
    """In float64, with biases and gains that differ and weights ten times as large, so that all of them count."""
    network = built(small("attentive_reader", *ARMS[arm], *words)).double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.linspace(-0.2, 0.3, parameter.numel(), dtype=torch.float64))
            elif not name.startswith(("embedding", "output")):
                parameter.mul_(10)
    return network


def by_site(network: models.Model, arm: str) -> Mapping[str, Any]:
    p = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    found = {}
    for path in LSTM_SITES + [f"dense.{name}" for name in DENSE]:
        place = path.replace("lstm.", "").replace(".", ".cells.0.norms.") if "lstm" in path else f"{path}.norm"
        if f"{place}.gain" in p:
            law = layer_norm if arm == "layer" else reference.batch_norm
            found[path] = law(p[f"{place}.gain"], p.get(f"{place}.bias", 0.0), 1e-5)
    assert len(found) == {"none": 0, "layer": 6, "bn-lstm": 6, "bn-everywhere": 11}[arm]
    return found


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("updating", [True, False])
def test_the_reader_is_that_of_its_code(arm: str, updating: bool) -> None:
    """Against the formulas written down one by one, with the masks and the permutation of the third update."""
    network = shaken(arm)
    batch = [part[:7] for part in batches(small("attentive_reader"), 1)[0].values()]
    p = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    document, valid, question, asked, answer = (part.numpy() for part in batch)
    assert not valid.all()
    share: Any = 0.5
    if updating:
        draw, size = stream(1, "dropout", 2), p["attention.weight"].shape[1]
        shapes = [(*document.shape, size), (*question.shape, size), (len(document), size)]
        share = [draw.random(shape, dtype="float32") >= 0.5 for shape in shapes]
        names = np.arange(len(p["embedding.weight"]))
        entities = network.entities
        names[ENTITY : ENTITY + entities] = ENTITY + stream(1, "entities", 2).permutation(entities)
        document, question, answer = names[document], names[question], names[answer]
    wanted = reference.probabilities(p, by_site(network, arm), (document, valid), (question, asked), share)
    nll = -np.log(wanted[range(len(answer)), answer] + 1e-8)
    if updating:
        with models.update(network.train(), 1, 2):
            assert network(*batch).item() == pytest.approx(nll.mean(), rel=1e-10)
        return
    with torch.no_grad():
        found = network.eval().evaluate(*batch)
    np.testing.assert_allclose(found["nll"].numpy(), nll, rtol=1e-10)
    assert found["error"].tolist() == (wanted.argmax(1) != answer).tolist()


def test_an_improbable_answer_costs_no_more_than_the_code_lets_it() -> None:
    network = built(small("attentive_reader"))
    with torch.no_grad():
        network.output.bias[ENTITY : ENTITY + network.entities] = -100.0
    nll = network.evaluate(**batches(small("attentive_reader"), 1)[0])["nll"]
    torch.testing.assert_close(nll, torch.full_like(nll, -np.log(1e-8)))


def test_what_comes_after_the_end_changes_nothing() -> None:
    """Neither attention nor mean nor the last state of the question has a part of padding."""
    network = shaken("layer").eval()
    document, valid, question, asked, answer = batches(small("attentive_reader"), 1)[0].values()
    longer, more = torch.nn.functional.pad(document, (0, 4), value=9), torch.nn.functional.pad(valid, (0, 4))
    with torch.no_grad():
        ours = network.evaluate(longer, more, question, asked, answer)["nll"]
        torch.testing.assert_close(ours, network.evaluate(document, valid, question, asked, answer)["nll"])
        q = torch.randn(len(document), 8, dtype=torch.float64)
        weights = network.attend(torch.randn(*document.shape, 8, dtype=torch.float64), q, valid)
    assert (weights[~valid] == 0).all() and (weights[valid] > 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones_like(weights.sum(1)))


def test_names_of_entities_are_permuted_in_updates_alone() -> None:
    """A network for which they are all alike does not see it; one for which they are not sees another one each time."""
    network = shaken("none", "model.dropout=0")
    batch = [*batches(small("attentive_reader"), 1)[0].values()]

    def losses() -> list[float]:
        found = [network(*batch).item()]
        for number in range(3):
            with models.update(network, 1, number):
                found.append(network(*batch).item())
        return found

    assert len(set(losses())) == 4
    with torch.no_grad():
        for table in (network.embedding.weight, network.output.weight, network.output.bias):
            table[ENTITY : ENTITY + network.entities] = table[ENTITY].clone()
    assert losses() == pytest.approx([losses()[0]] * 4, rel=1e-12)


def test_statistics_at_the_dense_sites_are_over_all_steps_and_sequences() -> None:
    """Of W_d d_t at once, padding included; inside the LSTMs of each step by itself."""
    network, seen = shaken("bn-everywhere").train(), {}

    def look(path: str) -> Any:
        return lambda module, arguments, output: seen.__setitem__(path, (arguments[0], output))

    for name in DENSE:
        network.dense[name].norm.register_forward_hook(look(name))
    network(**batches(small("attentive_reader"), 1)[0])
    for name, (_, y) in seen.items():
        flat = y.flatten(0, -2)
        norm = network.dense[name].norm
        shift = norm.bias if name in ("document", "query") else torch.zeros(8, dtype=torch.float64)
        assert (norm.bias is None) == (name in ("question", "context", "mean")) and network.dense[
            name
        ].linear.bias is None
        torch.testing.assert_close(flat.mean(0), shift.detach(), rtol=0, atol=1e-12)
        torch.testing.assert_close(flat.std(0, correction=0), norm.gain.abs().detach(), rtol=1e-2, atol=0)
    assert seen["document"][0].dim() == 3 and all(seen[name][0].dim() == 2 for name in DENSE[1:])


def test_attr_legacy_begins_alike_where_shapes_are_equal() -> None:
    """Gates, both LSTMs, the square maps; others to the root of 6 / (in + out + 1), the vector to 1 / sqrt(H)."""
    network = built(small("attentive_reader", "model.init=attr_legacy", "model.hidden_size=16"))
    p = {name: parameter.detach() for name, parameter in network.named_parameters()}
    square = p["similarity.weight"] / 0.05
    torch.testing.assert_close(square @ square.T, torch.eye(16), rtol=0, atol=1e-5)
    assert torch.equal(p["dense.document.linear.weight"], p["similarity.weight"])
    for cell in ("document", "question"):
        for name in ("weight_ih", "weight_hh"):
            assert torch.equal(p[f"{cell}.cells.0.{name}"], p["similarity.weight"].repeat(4, 1))
        assert not p[f"{cell}.cells.0.h0"].any() and not p[f"{cell}.cells.0.bias"].any()
    around = [p[f"dense.{name}.linear.weight"] for name in ("question", "context", "query", "mean")]
    assert all(torch.equal(weight, around[0]) for weight in around)
    assert 0.95 * (6 / 33) ** 0.5 < around[0].abs().max() <= (6 / 33) ** 0.5
    words = len(p["embedding.weight"])
    for name in ("embedding.weight", "output.weight"):
        assert 0.97 * (6 / (words + 17)) ** 0.5 < p[name].abs().max() <= (6 / (words + 17)) ** 0.5
    # from one sequence of numbers, read in the code's layouts: (words, H) and (H, words)
    assert torch.equal(p["embedding.weight"].flatten(), p["output.weight"].T.flatten())
    assert not torch.equal(p["embedding.weight"], p["output.weight"])
    assert p["attention.weight"].abs().max() <= 0.25
    independent = {name: parameter.detach() for name, parameter in built(
        small("attentive_reader", "model.init=independent", "model.hidden_size=16")
    ).named_parameters()}  # fmt: skip
    gates = independent["document.cells.0.weight_hh"].view(4, 16, 16) / 0.05
    torch.testing.assert_close(gates @ gates.mT, torch.eye(16).expand(4, -1, -1), rtol=0, atol=1e-5)
    assert (gates[0] - gates[1]).abs().max() > 0.1


def test_the_reader_has_the_size_that_is_declared() -> None:
    """Of the paper's 65 829 words, layer by layer."""
    (spec,) = train_specs(["model=attentive_reader", "data=made_cloze", "data.words=65829"], False)
    module = importlib.import_module("normbench.models.attentive_reader")
    with torch.device("meta"):
        network = module.build(spec.config, models.Sites(spec.config, spec.sites))
    for layer in compose.declaration("model", "attentive_reader")["layers"]:
        assert sum(p.numel() for p in network.get_submodule(layer["layer"]).parameters()) == layer["parameters"]


def test_samples_show_the_weight_of_every_word() -> None:
    network = built(small("attentive_reader")).eval()
    data = datasets.load(small("attentive_reader").config["data"])
    pages = network.sample(3, 2, data)
    assert pages == network.sample(3, 2, data) != network.sample(4, 2, data)
    page = pages["question-1.html"].decode()
    weights = [float(weight) for weight in re.findall(r'title="([0-9.]+)"', page)]
    assert sum(weights) == pytest.approx(1, abs=0.01) and "&lt;blank&gt;" in page and "answered " in page
    assert network.sample(3, 2, replace(data, words=())) == {}, "numbers that stand for nothing"
    assert network.sample(3, 2, replace(data, splits={"train": data.splits["train"]})) == {}
