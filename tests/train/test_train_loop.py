"""Divergence, and the records of the evaluation modes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import smallest
import tiny
import torch
from safetensors.torch import load_file

from normbench import data as datasets
from normbench.config import compose
from normbench.config.plan import train_specs
from normbench.files import reading
from normbench.models import base as models
from normbench.models.lenet5 import LeNet5
from normbench.models.mnist_mlp import MnistMLP
from normbench.norms import sites
from normbench.runs.directory import RunDirectory
from normbench.train import checkpoint, optim
from normbench.train.evaluate import Evaluation, State
from normbench.train.train_one import ensure_run


def test_a_run_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither training it nor finding it there composes or asks the algebra of sites again."""
    spec = tiny.spec("norm=layer")
    for module, name in ((compose, "_unchecked"), (compose, "_chosen"), (sites, "assign")):
        monkeypatch.setattr(module, name, lambda *a, **k: pytest.fail("it was resolved again"))
    run = RunDirectory(tmp_path / "run")
    assert ensure_run(spec, run) == "done" and ensure_run(spec, run) == "done"


# --- divergence ------------------------------------------------------------------------------------------------------


def spoil(monkeypatch: pytest.MonkeyPatch, step: int, value: float) -> list[int]:
    """The training loss becomes `value` at one step; evaluation stays as it is."""
    calls, forward = [], MnistMLP.forward

    def bad(self: MnistMLP, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        loss = forward(self, inputs, targets)
        return loss * value if len(calls) == step else loss

    monkeypatch.setattr(MnistMLP, "forward", bad)
    return calls


@pytest.mark.parametrize(("step", "value"), [(1, math.nan), (4, math.nan), (9, math.inf)])
def test_a_loss_that_is_no_number_ends_the_run_before_the_update(
    step: int, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        spoil(patch, step, value)
        assert tiny.train(run) == "diverged"
    found = tiny.status(run)
    assert (found["status"], found["step"]) == ("diverged", step - 1)
    assert found["reason"] == f"train NLL is {value} at step {step}"
    assert found["curve_sha256"] == reading.sha256(run / "curve.jsonl")
    assert not (run / "checkpoint").exists()
    # the weights are those of the step before
    other = tmp_path / "other"
    if step > 1:
        tiny.train(other, stopping=tiny.after(step - 1))
        _, saved = checkpoint.read(other) or ({}, {})
        for name, tensor in load_file(run / "weights" / "last.safetensors").items():
            assert torch.equal(tensor, saved[f"model:{name}"]), name
    monkeypatch.setattr(MnistMLP, "forward", lambda *_: pytest.fail("it was trained again"))
    assert tiny.train(run) == "diverged"
    assert tiny.train(run, "train.epochs=9") == "diverged", "longer does not help it"


def test_a_divergence_after_a_resume_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, stop in (("calm", 10**6), ("stopped", 3)):
        with monkeypatch.context() as patch:
            spoil(patch, 8, math.nan)
            if tiny.train(tmp_path / name, stopping=tiny.after(stop)) == "interrupted":
                assert tiny.train(tmp_path / name) == "diverged"
    assert tiny.result(tmp_path / "calm") == tiny.result(tmp_path / "stopped")
    assert tiny.status(tmp_path / "calm")["reason"] == tiny.status(tmp_path / "stopped")["reason"]


def test_a_huge_learning_rate_diverges_and_says_where(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("optim.lr=1e38", "model.activation=relu", "model.hidden_sizes=[8,8]")
    assert tiny.train(run, *words) == "diverged"
    found = tiny.status(run)
    assert found["reason"].startswith("train NLL is ") and (
        " at step " in found["reason"] or " epoch " in found["reason"]
    )
    assert all(
        math.isfinite(value) for record in tiny.curve(run) for value in record.values() if isinstance(value, float)
    )


def test_an_evaluation_that_is_not_finite_is_stored_as_text_and_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MnistMLP.evaluate

    def bad(self: MnistMLP, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        metrics = real(self, inputs, targets)
        return metrics | {"nll": metrics["nll"] * (math.nan if self.spoilt else 1.0)}

    def forward(self: MnistMLP, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self.spoilt = True
        return torch.nn.functional.cross_entropy(self.predict(inputs), targets)

    monkeypatch.setattr(MnistMLP, "spoilt", False, raising=False)
    monkeypatch.setattr(MnistMLP, "evaluate", bad)
    monkeypatch.setattr(MnistMLP, "forward", forward)
    assert tiny.train(tmp_path / "run") == "diverged"
    assert tiny.status(tmp_path / "run")["reason"] == "train NLL is nan after epoch 1"
    assert {r["nll"] for r in tiny.curve(tmp_path / "run") if r["epoch"] == 1 and r.get("mode") != "running"} == {"NaN"}


def test_an_error_by_the_arg_max_of_no_number_is_none_and_never_the_best(tmp_path: Path) -> None:
    """Class 0 is the arg-max of NaN alone, and of some examples the right one."""
    words = ("optim.lr=1e38", "model.activation=relu", "model.hidden_sizes=[8,8]", "train.batch_size=1200")
    asked = ("train.epochs=1", "eval.strides={train: 0}", "monitor.metric=error", "train.keep=[best]")
    assert tiny.train(tmp_path / "run", *words, *asked) == "diverged"
    assert tiny.status(tmp_path / "run")["reason"] == "after epoch 1: valid nll is no finite number"
    last = [record for record in tiny.curve(tmp_path / "run") if record["step"] == 1 and record["mode"] == "eval"]
    assert [(record["split"], record["error"]) for record in last] == [("valid", "NaN"), ("test", "NaN")]
    assert not (tmp_path / "run" / "weights").exists()


def test_weights_that_are_no_numbers_are_found_where_no_output_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = evaluated()
    monkeypatch.setattr(MnistMLP, "evaluate", lambda *_, **tensors: {"nll": torch.ones(len(tensors["targets"]))})
    assert evaluation(State(1)) and not evaluation.broken
    with torch.no_grad():
        next(evaluation.model.parameters())[0, 0] = math.inf
    assert evaluation(State(1)) == [] and evaluation.broken == "the weights hold NaN or Inf"


@pytest.mark.parametrize(("goal", "value"), [("max", math.inf), ("min", -math.inf), ("min", math.nan)])
def test_what_is_not_finite_is_never_the_best(goal: str, value: float) -> None:
    values = evaluated(f"monitor.goal={goal}").values([{"split": "valid", "mode": "eval", "nll": value}])
    assert values == {"": math.inf} and not State(1).at_lowest(values) and State(1).at_lowest({"": 1e9}) == {""}


def evaluated(*words: str) -> Evaluation:
    spec = tiny.spec(*words)
    model = models.build(spec.config, spec.sites)
    return Evaluation(model, datasets.load(spec.config["data"]), spec.config, spec.sites)


# --- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("norm=layer",)])
def test_where_both_modes_are_one_function_there_is_one_pass(words: tuple[str, ...], tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", *words)
    found = [(r["epoch"], r["split"], r["mode"]) for r in tiny.curve(tmp_path / "run")]
    first = [(0, "train", "both"), (0, "valid", "eval"), (0, "test", "eval")]
    later = [[(e, "train", "running"), (e, "train", "both"), (e, "valid", "eval"), (e, "test", "eval")] for e in (1, 2)]
    assert found == [*first, *later[0], *later[1]]


def test_batch_statistics_give_a_pass_in_each_mode_and_for_each_momentum(tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", "norm=batch", "norm.also_momenta=[0.01]", "train.epochs=1")
    records = [r for r in tiny.curve(tmp_path / "run") if r["epoch"] == 1]
    assert [(r["split"], r["mode"], tiny.variant(r) or None) for r in records] == [
        ("train", "running", None),
        ("train", "eval", None),
        ("valid", "eval", None),
        ("test", "eval", None),
        ("train", "train", None),
        ("test", "eval", "momentum=0.01"),
    ]
    values = [r["nll"] for r in records if r["mode"] != "running"]
    assert len(set(values)) == len(values), "each of them measures something else"
    assert [r["step"] for r in records] == [6] * 6


def test_an_evaluation_leaves_model_and_modes_as_they_were() -> None:
    """Running statistics, training mode, and so all the training after it."""
    spec = tiny.spec("norm=batch", "norm.also_momenta=[0.01]")
    data = datasets.load(spec.config["data"])
    split = data.splits["train"]

    def trained(evaluations: int) -> tuple[dict[str, torch.Tensor], list]:
        model = models.build(spec.config, spec.sites).train()
        optimizer, records = optim.build(spec.config["optim"], model), []
        for step in range(4):
            model(split["inputs"][step * 50 : step * 50 + 50], split["targets"][step * 50 : step * 50 + 50]).backward()
            optimizer.step()
            optimizer.zero_grad()
            for _ in range(evaluations):
                records.append(tiny.evaluate(model, spec, step))
                assert model.training and all(p.grad is None for p in model.parameters())
        return {k: v.clone() for k, v in model.state_dict().items()}, records

    calm, _ = trained(0)
    evaluated, records = trained(2)
    assert all(torch.equal(tensor, evaluated[name]) for name, tensor in calm.items())
    assert records[0] == records[1], "the same evaluation twice is the same"


def test_the_training_mode_pass_is_that_of_its_epoch() -> None:
    specs = {seed: tiny.spec("norm=batch", f"seed={seed}") for seed in (1, 2)}
    model = models.build(specs[1].config, specs[1].sites)
    found = {}
    for epoch, seed in ((1, 1), (2, 1), (1, 2)):
        records = tiny.evaluate(model, specs[seed], epoch)
        found[epoch, seed] = next(r["nll"] for r in records if r["mode"] == "train")
    assert len(set(found.values())) == 3


def test_a_pass_is_the_mean_over_examples_not_over_batches() -> None:
    spec = tiny.spec()
    splits = datasets.load(spec.config["data"]).splits
    model, split = models.build(spec.config, spec.sites).eval(), splits["test"]
    model.evaluated_at_once = 7
    with torch.no_grad():
        whole = model.evaluate(split["inputs"], split["targets"])["nll"].double().mean().item()
    (record,) = Evaluation(model, datasets.Dataset("d", splits), spec.config, {}).evaluate("test")
    assert len(split) % 7 and record["nll"] == pytest.approx(whole, rel=1e-6)


def test_the_running_loss_is_the_mean_over_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, forward = [], MnistMLP.forward

    def watched(self: MnistMLP, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = forward(self, inputs, targets)
        seen.append((loss.item(), len(targets)))
        return loss

    monkeypatch.setattr(MnistMLP, "forward", watched)
    tiny.train(tmp_path / "run", "train.epochs=1")
    assert [count for _, count in seen] == [210] * 5 + [150], "the last, smaller batch is used too"
    (running,) = [r["nll"] for r in tiny.curve(tmp_path / "run") if r["mode"] == "running"]
    assert running == pytest.approx(sum(v * n for v, n in seen) / 1200, rel=1e-12)


def test_every_example_once_an_epoch_in_an_order_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders: dict[str, list[list[float]]] = {}
    for name, words in (
        ("one", ()),
        ("paired", ("norm=layer",)),
        ("other", ("seed=2",)),
        ("fixed", ("train.reshuffle=false",)),
    ):
        rows, forward = [], MnistMLP.forward

        def watched(self, inputs, targets, rows=rows, forward=forward):  # type: ignore[no-untyped-def]
            rows.extend(inputs.double().mul(torch.arange(1, 65)).sum(1).tolist())
            return forward(self, inputs, targets)

        with monkeypatch.context() as patch:
            patch.setattr(MnistMLP, "forward", watched)
            tiny.train(tmp_path / name, *words)
        orders[name] = [rows[:1200], rows[1200:]]
    assert sorted(orders["one"][0]) == sorted(orders["one"][1]) and orders["one"][0] != orders["one"][1]
    assert orders["one"] == orders["paired"], "arms of one seed see the same order"
    assert orders["one"][0] != orders["other"][0]
    assert orders["fixed"][0] == orders["fixed"][1]


COLOURED = ("model=lenet5", "data=coloured_digits", "data.fraction=0.1", "train.epochs=2")


def test_further_running_means_are_over_the_examples_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, forward = [], LeNet5.forward

    def watched(self: LeNet5, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = forward(self, inputs, targets)
        wrong.append(int((self.predict(inputs).argmax(1) != targets).sum()))
        return loss

    monkeypatch.setattr(LeNet5, "forward", watched)
    (spec,) = train_specs([*COLOURED, "train.batch_size=70"], False)
    ensure_run(spec, RunDirectory(tmp_path / "run"))
    running = [r["error"] for r in tiny.curve(tmp_path / "run") if r["mode"] == "running"]
    assert running == pytest.approx([sum(wrong[:7]) / 480, sum(wrong[7:]) / 480], rel=1e-12)


# --- epochs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_normalizer_hears_of_each_epoch(epochs: int, tmp_path: Path) -> None:
    """Five batches of 210 and one of 150 in the last epoch, whatever came before; finished before it is evaluated."""
    tiny.train(tmp_path / "run", "norm=batch_layer", "norm.configuration=TTTT", f"train.epochs={epochs}")
    weights = load_file(tmp_path / "run" / "weights" / "last.safetensors")
    slots, mean = weights["hidden.0.norm.trained.counts"], weights["hidden.0.norm.trained.epoch_batch_mean"]
    assert slots.tolist() == [6] * 150 + [5] * 60 and int(weights["hidden.0.norm.trained.samples"]) == 210
    assert torch.equal(weights["hidden.0.norm.trained.batch_mean"], mean) and mean.abs().sum() > 0
    assert all(math.isfinite(record["nll"]) for record in tiny.curve(tmp_path / "run"))


def test_every_test_split_is_evaluated_in_every_variant(tmp_path: Path) -> None:
    words = ("model=recall_lstm", "data.length=3", "data.fraction=0.02", "train.batch_size=50", "train.epochs=1")
    norm = ("norm=batch", "norm.stats=per_step", "norm.also_momenta=[0.01]", "model.hidden_size=3")
    (spec,) = train_specs([*words, *norm], False)
    assert ensure_run(spec, RunDirectory(tmp_path)) == "done"
    found = [(r["split"], tiny.variant(r)) for r in tiny.curve(tmp_path) if r["epoch"] == 1]
    for part in ("test", "test 2x", "test 4x"):
        assert found.count((part, "")) == 1 and found.count((part, "momentum=0.01")) == 1
    assert found.count(("valid", "")) == 1


@pytest.mark.slow
def test_a_trained_run_is_kept_where_no_samples_can_be_drawn(tmp_path: Path, capfd) -> None:
    """Batch normalization of whole sequences cannot draw the next point of one."""
    words = ["model=handwriting", *smallest.SMALL["handwriting"], "train.steps=2", "train.epochs=0", "norm=batch"]
    (spec,) = train_specs([*words, "norm.sites=[second.input,third.input]"], multirun=False)
    assert ensure_run(spec, RunDirectory(tmp_path / "run")) == "done"
    assert "no samples are drawn" in capfd.readouterr().out and not (tmp_path / "run" / "samples").exists()
