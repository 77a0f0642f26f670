"""Skip-thoughts of LN 2016, section 6.3: its formulas, the loss in blocks of rows, vectors, what is near, bad input."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import torch.nn.functional as F
from reference import skip_thoughts as reference
from smallest import batches, built, moved, small
from torch import Tensor

from normbench import data as datasets
from normbench import sentences
from normbench.data import triples
from normbench.errors import NormbenchError
from normbench.models import softmax
from normbench.models.skip_thoughts import SkipThoughts
from normbench.runs.directory import RunDirectory
from normbench.sentences import relatedness, sets
from normbench.train.train_one import ensure_run

ARMS = {
    "none": ("norm=none",),
    "ln": ("norm=layer",),
    "conditioned": ("norm=layer", "model.conditioned=true"),
}


def made(arm: str) -> SkipThoughts:
    """In float64, away from its start."""
    network = moved(built(small("skip_thoughts", *ARMS[arm])))
    assert isinstance(network, SkipThoughts)
    return network


def parameters(network: SkipThoughts) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in network.state_dict().items()}


@pytest.fixture(scope="module")
def stories() -> datasets.Dataset:
    return datasets.load(small("skip_thoughts").config["data"])


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ARMS)
def test_losses_are_those_of_the_formulas(arm: str) -> None:
    network, batch = made(arm), {name: t[:4] for name, t in batches(small("skip_thoughts"), 1)[0].items()}
    p, wanted = parameters(network), []
    for row in range(4):
        given = {
            name: batch[name][row][batch[f"{name}_mask"][row]].tolist() for name in ("sentence", *triples_around())
        }
        v = reference.vector(p, given["sentence"])
        wanted.append([reference.nll(p, name, v, given[name], arm == "conditioned") for name in triples_around()])
    found = network.evaluate(**batch)
    for name, of_name in zip(triples_around(), np.transpose(wanted), strict=True):
        np.testing.assert_allclose(found[f"{name}_nll"].sums.detach(), of_name, rtol=1e-10)
        assert found[f"{name}_nll"].counts.tolist() == batch[f"{name}_mask"].sum(1).tolist()
    np.testing.assert_allclose(found["nll"].sums.detach(), np.sum(wanted, 1), rtol=1e-10)
    assert network(**batch).item() == pytest.approx(np.sum(wanted), rel=1e-10)


def triples_around() -> tuple[str, str]:
    return "next", "previous"


def test_the_parameters_are_those_of_the_code() -> None:
    """V = 20 000, 620, 2 400: counted by the code's shapes, as the layers are declared."""
    spec = small("skip_thoughts", "model.word_size=7", "model.hidden_size=5")
    words, e, h = spec.config["data"]["words"], 7, 5
    gru = e * 2 * h + h * 2 * h + 2 * h + e * h + h * h + h  # W, U, b, Wx, Ux, bx
    assert sum(p.numel() for p in built(spec).parameters()) == words * e + 3 * gru + h * words + words
    declared = {layer["layer"]: layer["parameters"] for layer in spec.config["model"]["declares"]["layers"]}
    words, e, h = 20000, 620, 2400
    gru = e * 2 * h + h * 2 * h + 2 * h + e * h + h * h + h
    each = dict.fromkeys(("encoder", "decoder.next", "decoder.previous"), gru)
    assert declared == {"embedding": words * e, **each, "output": h * words + words}


def test_initial_weights_are_those_of_the_code() -> None:
    network = built(small("skip_thoughts", "model.hidden_size=12"))
    assert isinstance(network, SkipThoughts)
    for gru in (network.encoder, *network.decoder.values()):
        for block in gru.cells[0].weight_hh.split(12):
            torch.testing.assert_close(block @ block.T, torch.eye(12), atol=1e-5, rtol=0)
        assert 0.09 < gru.cells[0].weight_ih.abs().max() <= 0.1
    first, second = (network.decoder[name].cells[0].weight_ih for name in triples_around())
    assert not torch.equal(first, second)
    assert 0.09 < network.output.weight.abs().max() <= 0.1 and not network.output.bias.any()


# --- the loss ---------------------------------------------------------------------------------------------------------


def tensors(rows: int, words: int = 11, seed: int = 0) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    h, weight, bias = (
        torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()
        for shape in ((rows, 6), (words, 6), (words,))
    )
    return h, weight, bias, torch.randint(0, words, (rows,), generator=draw)


@pytest.mark.parametrize("rows", [1, 8, 21])
def test_the_loss_in_blocks_is_the_plain_one(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value and gradients, of rows that fill a block, some, and a part of one; where a target has next to no chance."""
    monkeypatch.setattr(softmax, "ROWS", 8)
    h, weight, bias, targets = tensors(rows)
    with torch.no_grad():
        bias[targets[0]] -= 20
    direct = -(torch.softmax(h @ weight.T + bias, 1).gather(1, targets[:, None]) + 1e-8).log().squeeze(1)
    total = softmax.total(h, weight, bias, targets)
    torch.testing.assert_close(total, direct.sum(), rtol=1e-12, atol=0)
    torch.testing.assert_close(softmax.nll(h, weight, bias, targets), direct.detach(), rtol=1e-12, atol=0)
    second = []
    for loss in (total, direct.sum()):
        (first,) = torch.autograd.grad(loss, h, create_graph=True)
        second += torch.autograd.grad(first.square().sum(), weight, retain_graph=True)
    torch.testing.assert_close(*second, rtol=1e-9, atol=1e-14)
    wanted = torch.autograd.grad(direct.sum() * 0.7, (h, weight, bias))
    for ours, theirs in zip(torch.autograd.grad(total * 0.7, (h, weight, bias)), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-14)


def test_padding_has_no_part_in_the_loss() -> None:
    network, batch = made("none"), batches(small("skip_thoughts"), 1)[0]
    padded = dict(batch)
    for name in triples_around():
        padded[name] = F.pad(batch[name], (0, 3), value=5)
        padded[f"{name}_mask"] = F.pad(batch[f"{name}_mask"], (0, 3))
    torch.testing.assert_close(network(**padded), network(**batch), rtol=1e-12, atol=0)
    padded["next_mask"] = padded["next_mask"].clone()
    padded["next_mask"][0, batch["next_mask"][0].sum()] = True
    assert network(**padded) > network(**batch)


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_vectors_are_last_states_of_unit_length(stories: datasets.Dataset) -> None:
    """In whatever company and order; small letters, unknown words, the end where it is asked for; nothing is zeros."""
    network = made("ln")
    p, numbers = parameters(network), triples.numbered(stories.words)
    lines = ["The good cat comes.", "now", "the cat  sneezes", "", "bad dog looks again now"]
    for eos in (True, False):
        found = network.encode(lines, eos, stories)
        assert found.shape == (5, network.encoder.hidden_size) and found.dtype == np.float32
        for sentence, row in zip(lines, found, strict=True):
            words = [numbers.get(w, 1) for w in sentence.lower().replace(".", " .").split()] + ([0] if eos else [])
            v = reference.vector(p, words)
            np.testing.assert_allclose(row, v / np.linalg.norm(v) if len(words) else v, atol=1e-6)
    assert not network.encode([""], False, stories).any()
    assert network.encode([], True, stories).shape == (0, network.encoder.hidden_size)


def test_what_is_near_are_held_out_sentences(stories: datasets.Dataset) -> None:
    network = made("none")
    lines = network.nearest("The BAD dog looks now .", 4, stories)
    assert len(lines) == len(set(lines)) == 4
    cosines, texts = zip(*(line.split("  ", 1) for line in lines), strict=True)
    assert list(map(float, cosines)) == sorted(map(float, cosines), reverse=True)
    held = {tuple(s) for s in triples.different(stories.splits["test"], 10**6)}
    numbers = triples.numbered(stories.words)
    assert all((*triples.encoded(text, numbers), 0) in held for text in texts)
    asked = network.encode(["the bad dog looks now .", *texts], True, stories)
    np.testing.assert_allclose(asked[1:] @ asked[0], list(map(float, cosines)), atol=6e-4)
    with pytest.raises(NormbenchError, match=r"--near 'xyzzy 12': data=made_triples knows none of these words\."):
        network.nearest("xyzzy 12", 4, stories)


# --- downstream tasks -------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the downstream evaluation is asked for; it answers with a number of the vectors."""
    calls: list[tuple[Any, ...]] = []

    def evaluate(encode: Any, folder: Path, nested: bool, names: Sequence[str], of: str) -> Iterator[sentences.Scored]:
        calls.append((nested, list(names)))
        for name in names:
            found = abs(encode(sets.read(name, folder).all, name == "sick"))
            right = found.mean(1) > found.mean()
            yield sentences.Scored({"split": name, "accuracy": float(found.mean())}, {"accuracy": right})

    monkeypatch.setattr("normbench.sentences.evaluate", evaluate)
    return calls


def test_tasks_are_evaluated_along_training_and_after_it(tmp_path: Path, asked: list[Any]) -> None:
    spec = small("skip_thoughts", "train.steps=4", "eval.every=2", "eval.tasks=[mr,sick]")
    run = RunDirectory(tmp_path / "run")
    assert ensure_run(spec, run) == "done"
    names = ["mr", "sick"]
    assert asked == [(False, names), (False, names), (False, names), (True, names)]
    records = tiny.curve(run.path)
    found = [(r["step"], r["mode"], r["split"]) for r in records if r["split"] in names]
    along = [(step, "along", name) for step, name in itertools.product((0, 2, 4), names)]
    assert found == [*along, *((4, "stage", name) for name in names)]
    with np.load(run.path / "outcomes" / "last.npz") as outcomes:
        assert {key for key in outcomes if key[:2] in ("mr", "si")} == {
            f"{name}|{what}" for name in names for what in ("count", "|accuracy")
        }
        assert 0 < np.unpackbits(outcomes["mr||accuracy"], count=int(outcomes["mr|count"])).sum() < outcomes["mr|count"]
    values = [r["accuracy"] for r in records if r["split"] == "mr"]
    assert values[0] != values[1] and values[2] == values[3]


def test_a_run_that_explodes_before_its_tasks_has_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relatedness, "EPOCHS", 2)
    words = ("train.steps=3", "eval.every=1", "optim.lr=1e38", "norm=layer")
    for tasks in ("[]", "[sick,mr]"):
        run = RunDirectory(tmp_path / tasks)
        assert ensure_run(small("skip_thoughts", *words, f"eval.tasks={tasks}"), run) == "diverged"
    status = tiny.status(run.path)
    assert status["reason"] == "after step 1: valid nll is no finite number" and status["step"] == 1
    both = [tiny.curve(tmp_path / tasks) for tasks in ("[]", "[sick,mr]")]
    assert both[0] == [record for record in both[1] if record["split"] not in ("sick", "mr")]
    assert {record["step"] for record in both[1] if record["split"] == "sick"} == {0}
    assert [record["nll"] for record in both[0] if record["split"] == "valid"][1:] == ["NaN"]


@pytest.mark.parametrize("steps", [4, 2], ids=["along", "at the end"])
@pytest.mark.parametrize("value", [np.nan, 1e30])
def test_vectors_that_are_no_numbers_are_a_divergence_after_all_is_written(
    steps: int, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = SkipThoughts.encode, []

    def encode(self: SkipThoughts, lines: list[str], eos: bool, data: datasets.Dataset) -> np.ndarray:
        calls.append(eos)
        return real(self, lines, eos, data) * np.float32(value if len(calls) == 4 else 1)  # SICK's, the second time

    monkeypatch.setattr(relatedness, "EPOCHS", 2)
    monkeypatch.setattr(SkipThoughts, "encode", encode)
    spec = small("skip_thoughts", f"train.steps={steps}", "eval.every=2", "eval.tasks=[mr,sick]")
    run = RunDirectory(tmp_path / "run")
    assert ensure_run(spec, run) == "diverged"
    status = tiny.status(run.path)
    reason = "SICK: the vectors are too long" if value == 1e30 else "the model: the vectors of sick hold NaN"
    assert status["reason"].startswith(f"after step 2: {reason}")
    found = [(r["step"], r["mode"], r["split"]) for r in tiny.curve(run.path) if r["step"] == 2]
    assert [f[1:] for f in found] == [("running", "train"), ("eval", "valid"), ("eval", "test"), ("along", "mr")]
    monkeypatch.setattr(SkipThoughts, "encode", lambda *_: pytest.fail("it was trained again"))
    assert ensure_run(spec, run) == "diverged"


def test_a_run_without_the_tasks_that_are_asked_for_is_repeated() -> None:
    none, one, both = (small("skip_thoughts", f"eval.tasks={tasks}") for tasks in ("[]", "[mr]", "[mr,sick]"))
    assert none.id == one.id == both.id
    assert one.accepts(both.config) and none.accepts(one.config)
    assert not one.accepts(none.config) and not both.accepts(one.config)


def test_tasks_are_refused_to_a_model_without_vectors() -> None:
    from normbench.models import base as models
    from normbench.train.evaluate import Evaluation

    spec = small("order_embeddings", "eval.tasks=[mr]")
    model = models.build(spec.config, spec.sites)
    with pytest.raises(NormbenchError, match=r"eval.tasks=\['mr'\]: model=order_embeddings makes no vectors of"):
        Evaluation(model, datasets.load(spec.config["data"]), spec.config, spec.sites)
