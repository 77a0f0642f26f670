"""A pass over the training batches with frozen weights, for the evaluations that ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load
from torch import nn

from normbench import data as datasets
from normbench.data.sampler import Sampler
from normbench.models import base as models
from normbench.models.mnist_mlp import MnistMLP
from normbench.norms.modes import inference, normalizers
from normbench.train.evaluate import gather_populations

BATCH_LAYER = ("norm=batch_layer", "norm.configuration=TTTT")
SLOTS = "eval.variants=[FFFF,TFFF]"
RECALIBRATED = "eval.variants=[FFFF,TFFF,'populations=recalibrated','TFFF populations=recalibrated']"
ARMS = {
    "with slots": (*BATCH_LAYER, RECALIBRATED),
    "alone": ("norm=batch_layer", "norm.populations=recalibrated"),
    "batch": ("norm=batch", "norm.eval_stats=per_step_pass", "eval.variants=['eval_stats=running']"),
}


def passes(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Sizes of the batches of each pass, as the model meets them."""
    found: list[list[int]] = []
    forward, gather = MnistMLP.forward, gather_populations

    def watched(self: MnistMLP, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if any(norm.gathering for norm in normalizers(self)):
            assert self.training and not torch.is_grad_enabled() and not any(norm.track for norm in normalizers(self))
            found[-1].append(len(targets))
        return forward(self, inputs, targets)

    def counted(*args: object) -> None:
        found.append([])
        gather(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(MnistMLP, "forward", watched)
    monkeypatch.setattr("normbench.train.evaluate.gather_populations", counted)
    return found


@pytest.mark.parametrize("arm", ARMS)
def test_there_is_one_pass_before_each_evaluation(arm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = passes(monkeypatch)
    tiny.train(tmp_path / "run", *ARMS[arm])
    assert [sizes for sizes in found if sizes] == [[210] * 5 + [150]] * 3, (
        "before the first epoch, and after each of the two"
    )


def test_without_need_there_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = passes(monkeypatch)
    tiny.train(tmp_path / "run", "norm=batch_layer")
    assert found and not any(found)


def test_what_there_was_without_it_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    tiny.train(tmp_path / "without", *BATCH_LAYER, SLOTS)
    tiny.train(tmp_path / "with", *BATCH_LAYER, RECALIBRATED)
    records = [r for r in tiny.curve(tmp_path / "with") if r["epoch"]]
    new = [r for r in records if "recalibrated" in r.get("variant", {}).values()]
    assert [r for r in records if r not in new] == [r for r in tiny.curve(tmp_path / "without") if r["epoch"]]
    assert {tiny.variant(r) for r in new} == {"populations=recalibrated", "TFFF populations=recalibrated"}
    default = {r["epoch"]: r["nll"] for r in records if r["split"] == "test" and "variant" not in r}
    moved = [r for r in new if tiny.variant(r) == "populations=recalibrated"]
    assert all(r["nll"] != default[r["epoch"]] for r in moved), "frozen weights are others"


@pytest.mark.parametrize("arm", ARMS)
def test_an_interrupted_run_ends_the_same(arm: str, tmp_path: Path) -> None:
    assert tiny.train(tmp_path / "calm", *ARMS[arm]) == "done"
    for step in (4, 4, 4):
        tiny.train(tmp_path / "run", *ARMS[arm], "train.checkpoint_seconds=0", stopping=tiny.after(step))
    assert tiny.train(tmp_path / "run", *ARMS[arm]) == "done"
    assert tiny.result(tmp_path / "run") == tiny.result(tmp_path / "calm")


@pytest.mark.parametrize("arm", ["alone", "batch", "of the last epoch"])
def test_stored_weights_have_their_own_statistics(arm: str, tmp_path: Path) -> None:
    """Evaluated, they give what the curve has; not those of weights before, or of the epoch before."""
    words = (*{**ARMS, "of the last epoch": (*BATCH_LAYER, SLOTS)}[arm], "train.keep=[6,9]")
    tiny.train(tmp_path / "run", *words, "eval.also_after=[9]")
    spec = tiny.spec(*words)
    splits = datasets.load(spec.config["data"]).splits
    for step in (6, 9):
        wanted = [r for r in tiny.curve(tmp_path / "run") if r["step"] == step and r["split"] == "test"]
        model = models.build(spec.config, spec.sites)
        model.load_state_dict(load((tmp_path / "run" / "weights" / f"step-{step}.safetensors").read_bytes()))
        for record in wanted:
            with torch.no_grad(), inference(model, record.get("variant", {})):
                nll = model.evaluate(**splits["test"].batch(slice(None)).tensors)["nll"]
            assert nll.mean().item() == pytest.approx(record["nll"], rel=1e-5), record


class Dropping(nn.Module):
    """A model that draws from torch's generator in training mode."""

    def __init__(self, inner: models.Model) -> None:
        super().__init__()
        self.inner, self.seen = inner, []

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        dropped = nn.functional.dropout(inputs, 0.5, self.training)
        self.seen.append(dropped.sum().item())
        return self.inner(dropped, targets)


def test_draws_are_fixed_and_leave_the_generator_alone() -> None:
    spec = tiny.spec(*ARMS["alone"])
    split = datasets.load(spec.config["data"]).splits["train"]
    model = Dropping(models.build(spec.config, spec.sites))
    found = {}
    for epoch, seed, generator in ((1, 1, 5), (1, 1, 6), (2, 1, 5), (1, 2, 5)):
        torch.manual_seed(generator)
        before, model.seen = torch.get_rng_state(), []
        gather_populations(model, split, epoch, Sampler("shuffled", 1200, 210, seed))  # type: ignore[arg-type]
        assert torch.equal(torch.get_rng_state(), before) and model.training
        found[epoch, seed, generator] = tuple(model.seen)
    assert found[1, 1, 5] == found[1, 1, 6] and len(set(found.values())) == 3
    assert all(p.grad is None for p in model.parameters())


def test_an_error_in_the_pass_leaves_the_modes_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tiny.spec(*ARMS["with slots"])
    split = datasets.load(spec.config["data"]).splits["train"]
    model = models.build(spec.config, spec.sites).eval()
    monkeypatch.setattr(MnistMLP, "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gather_populations(model, split, 1, Sampler("shuffled", 1200, 210, 1), [{"populations": "recalibrated"}])
    assert not model.training
    assert all(norm.track and not norm.gathering for norm in normalizers(model))
