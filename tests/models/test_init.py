"""Initial draws: the law of each scheme, and which parameter has which."""

from __future__ import annotations

import copy
import math
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest
import torch
from smallest import MODELS, built, small
from torch import nn

from normbench.config import compose
from normbench.core.streams import stream
from normbench.errors import NormbenchError
from normbench.models import init
from normbench.rnn.cells import GRUCell, LSTMCell, RNNCell

DENSE = init.Weight((300, 200), nn.Linear(1, 1))
CONVOLUTION = init.Weight((30, 20, 5, 4), nn.Conv2d(1, 1, 1))
GATES = init.Weight((200, 50), LSTMCell(3, 50))
INPUTS = init.Weight((200, 30), LSTMCell(3, 50))


def draw(scheme: str, weight: init.Weight, **numbers: float) -> np.ndarray:
    return init.SCHEMES[scheme](stream(1, "init", "w"), weight, **numbers)


@pytest.mark.parametrize(
    ("scheme", "weight", "numbers", "bound"),
    [
        ("uniform", DENSE, {"bound": 0.1}, 0.1),
        ("glorot_uniform", DENSE, {}, math.sqrt(6 / 500)),
        ("glorot_uniform", CONVOLUTION, {}, math.sqrt(6 / (50 * 20))),
        ("glorot_uniform", GATES, {}, math.sqrt(6 / 250)),
        ("he_uniform", DENSE, {}, math.sqrt(6 / 200)),
        ("he_uniform", CONVOLUTION, {}, math.sqrt(6 / 400)),
        ("glorot_orthogonal", GATES, {}, math.sqrt(6 / 250)),
        ("inverse_root", DENSE, {}, 1 / math.sqrt(200)),
        ("inverse_root", INPUTS, {}, 1 / math.sqrt(50)),
        ("inverse_root_in", INPUTS, {}, 1 / math.sqrt(30)),
    ],
)
def test_uniform_within_the_bound(scheme: str, weight: init.Weight, numbers: dict, bound: float) -> None:
    found = draw(scheme, weight, **numbers)
    assert found.shape == weight.shape and 0.99 * bound < np.abs(found).max() <= bound
    assert found.std() == pytest.approx(bound / math.sqrt(3), rel=0.03) and abs(found.mean()) < 0.03 * bound


def test_normal() -> None:
    found = draw("normal", DENSE, std=0.01)
    assert found.std() == pytest.approx(0.01, rel=0.02) and abs(found.mean()) < 1e-4
    assert np.abs(found).max() > 0.035 and (np.abs(found) < 0.01).mean() == pytest.approx(0.683, abs=0.01)


def test_orthogonal_of_gates_each_block_by_itself() -> None:
    found = draw("orthogonal", GATES).reshape(4, 50, 50)
    for block in found:
        np.testing.assert_allclose(block @ block.T, np.eye(50), atol=1e-12)
    assert np.abs(found[0] - found[1]).max() > 0.1
    for weight in (DENSE, CONVOLUTION):
        matrix = draw("orthogonal", weight).reshape(weight.shape[0], -1)
        gram = matrix.T @ matrix if matrix.shape[0] > matrix.shape[1] else matrix @ matrix.T
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)


def test_orthogonal_as_one_matrix() -> None:
    for weight in (GATES, INPUTS):
        found = draw("orthogonal_whole", weight)
        assert found.shape == weight.shape
        np.testing.assert_allclose(found.T @ found, np.eye(weight.fan_in), atol=1e-12)


def test_the_identity_in_the_candidates_block() -> None:
    """Of an LSTM g, of a GRU n, of an RNN all of it."""
    for cell in (LSTMCell(3, 50), GRUCell(3, 50), RNNCell(3, 50)):
        found = draw("identity_candidate", init.Weight((cell.gates * 50, 50), cell))
        others, candidate = found[:-50], found[-50:]
        np.testing.assert_array_equal(candidate, np.eye(50))
        wanted = np.eye(50) if len(others) else np.zeros((50, 50))
        np.testing.assert_allclose(others.T @ others, wanted, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_every_choice_of_a_model_draws_every_weight(model: str) -> None:
    found = set()
    choices = compose.declaration("model", model)["options"]["init"]["choices"]
    for choice in choices:
        network = built(small(model, f"model.init={choice}"))
        schemes = compose.declaration("model", model).get("initial", {}).get(choice, {})
        identities = [pattern for pattern, scheme in schemes.items() if scheme == "identity_candidate"]
        named = [(name, p.detach()) for name, p in network.named_parameters() if p.dim() > 1]
        weights = [p for name, p in named if not any(fnmatch(name, pattern) for pattern in identities)]
        assert all(p.abs().min() > 0 and p.std() > 1e-3 for p in weights)
        found.add(tuple(float(p.norm()) for p in weights))
    assert len(found) == len(choices)


# --- which parameter has which ---------------------------------------------------------------------------------------


def initialized(rules: dict[str, Any]) -> dict[str, torch.Tensor]:
    config = copy.deepcopy(small("recall_lstm", "model.init=kiros").config)
    config["model"]["declares"]["initial"] = {"kiros": rules}
    network = built(small("recall_lstm"))
    init.initialize(network, config)
    return {name: p.detach() for name, p in network.named_parameters()}


def test_the_most_specific_pattern_decides_with_its_numbers_and_its_factor() -> None:
    initial = {"*": {"scheme": "normal", "std": 2}, "lstm.cells.*.weight_hh": "orthogonal"}
    found = initialized(initial)
    recurrent = found["lstm.cells.0.weight_hh"].view(4, 8, 8)
    torch.testing.assert_close(recurrent @ recurrent.mT, torch.eye(8).expand(4, 8, 8), rtol=0, atol=1e-5)
    assert float(found["lstm.cells.0.weight_ih"].std()) == pytest.approx(2, rel=0.2) and not found["logits.bias"].any()
    scaled = initialized({**initial, "lstm.cells.*.weight_hh": {"scheme": "orthogonal", "times": 0.05}})
    torch.testing.assert_close(scaled["lstm.cells.0.weight_hh"], 0.05 * found["lstm.cells.0.weight_hh"])
    assert torch.equal(scaled["logits.weight"], found["logits.weight"])
    shifted = initialized({**initial, "lstm.cells.*.weight_hh": {"scheme": "orthogonal", "times": 0.05, "centre": 0.2}})
    torch.testing.assert_close(shifted["lstm.cells.0.weight_hh"], 0.2 + 0.05 * found["lstm.cells.0.weight_hh"])
    assert torch.equal(shifted["logits.weight"], found["logits.weight"]) and not shifted["lstm.cells.0.bias"].any()
    of_option = initialized({"*": {"scheme": "normal", "std": "model.hidden_size"}})  # 8
    torch.testing.assert_close(of_option["logits.weight"], 4 * found["logits.weight"])


def test_a_common_centre_of_all_weights_is_invisible_to_layer_normalization_alone() -> None:
    """LN's invariance to a re-centred matrix, of each term of its LSTM; a softmax sees no common shift either."""
    x = torch.randn(5, 6, 9, generator=torch.Generator().manual_seed(0))

    def outputs(norm: str, scheme: str) -> torch.Tensor:
        network = built(small("recall_lstm", f"norm={norm}", f"model.init={scheme}"))
        return network.predict(x).detach().log_softmax(1)

    for scheme in ("around", "recurrent_around"):
        torch.testing.assert_close(outputs("layer", scheme), outputs("layer", "glorot_uniform"), atol=1e-4, rtol=0)
        assert (outputs("rms", scheme) - outputs("rms", "glorot_uniform")).abs().max() > 0.01


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ({"*": "orthogonl"}, "model.init=kiros: *: orthogonl is not a scheme. Did you mean 'orthogonal'?"),
        ({"*": "normal"}, "model.init=kiros: *: normal takes std, not {}."),
        (
            {"*": {"scheme": "orthogonal", "std": 1}},
            "model.init=kiros: *: orthogonal takes no numbers, not {'std': 1}.",
        ),
        ({"lstm": "orthogonal"}, "model.init=kiros: recall_lstm declares no initial draw of 'logits.weight'."),
        ({"*": "orthogonal", "lstm.cell": "orthogonal"}, "recall_lstm has no parameter 'lstm.cell'. Did you mean"),
    ],
)
def test_a_wrong_declaration_is_one_line(rules: dict[str, Any], wanted: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        initialized(rules)
    assert wanted in str(caught.value)
