"""The Transformers against the formulas of their papers; what no step may see; where which norm may stand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from reference import transformer as reference
from smallest import NORMS, able, batches, built, moved, small, training_part

from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms.scalars import logging_to
from normbench.runs.directory import RunDirectory, place
from normbench.runs.table import Runs
from normbench.stats.series import final
from normbench.train import optim
from normbench.train.passes import Passes
from normbench.train.train_one import ensure_run

PLACEMENTS = ("pre", "post", "peri")
MODELS = ("char_lm", "vit")
SIZES = {"heads": 2, "layers": 2}
ALL = "norm.sites=[block,final]"  # queries and keys, too


def shaken(model: str, *words: str) -> models.Model:
    """In float64, every weight large enough to count."""
    return moved(built(small(model, *words))).eval()


def parameters(network: models.Model) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}


def sites(placement: str, norm: str = "layer") -> tuple[str, ...]:
    where = "[block]" if placement == "post" else "[block,final]"
    return (f"norm={norm}", f"model.placement={placement}", f"norm.sites={where}")


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", ["layer", "none"])
@pytest.mark.parametrize(
    ("head", "scale"), [("untied", "none"), ("tied", "fixed"), ("untied", "learned")], ids="-".join
)
def test_the_language_model_is_that_of_the_formulas(placement: str, norm: str, head: str, scale: str) -> None:
    words = (*sites(placement, norm), f"model.head={head}", f"model.embedding_scale={scale}")
    network = shaken("char_lm", *words)
    p = parameters(network)
    text = batches(small("char_lm"), 1)[0]["text"][:3]
    factor = {"none": 1.0, "fixed": math.sqrt(8), "learned": float(p.get("scale", 0))}[scale]
    found = {name: values.tolist() for name, values in network.evaluate(text).items()}
    for row, characters in enumerate(text.tolist()):
        logits = reference.language(p, np.array(characters[:-1]), factor, placement=placement, **SIZES)
        targets = characters[1:]
        nll = [reference.nll(step, target) for step, target in zip(logits, targets, strict=True)]
        wrong = [int(step.argmax()) != target for step, target in zip(logits, targets, strict=True)]
        assert found["nll"][row] == pytest.approx(np.mean(nll), rel=1e-10)
        assert found["error"][row] == np.mean(wrong)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_classifier_is_that_of_the_formulas(placement: str) -> None:
    network = shaken("vit", *sites(placement))
    p, batch = parameters(network), batches(small("vit"), 1)[0]
    found = network.evaluate(batch["inputs"][:3].double(), batch["targets"][:3])["nll"].tolist()
    for row in range(3):
        image = batch["inputs"][row].double().numpy()
        logits = reference.vision(p, image, 16, placement=placement, **SIZES)
        assert found[row] == pytest.approx(reference.nll(logits, int(batch["targets"][row])), rel=1e-10)


@pytest.mark.filterwarnings("ignore:.*no epoch of training is finished")
@pytest.mark.parametrize("norm", [norm for norm in NORMS if able("char_lm", norm)])
@pytest.mark.parametrize("training", [True, False])
def test_no_prediction_depends_on_later_characters(norm: str, training: bool) -> None:
    words = (f"norm={norm}", ALL)
    text = batches(small("char_lm"), 1)[0]["text"].long()
    other = text.clone()
    other[:, 5] = (other[:, 5] + 3) % 20
    with torch.no_grad():
        ours, theirs = (
            shaken("char_lm", *words).train(training).predict(given) for given in (text[:, :8], other[:, :8])
        )
    assert torch.equal(ours[:, :5], theirs[:, :5]) and not torch.equal(ours[:, 5:], theirs[:, 5:])


@pytest.mark.parametrize("norm", ["batch", "batch_renorm", "ghost_batch", "power", "streaming"])
def test_a_normalizer_that_pools_steps_is_refused_at_causal_sites_alone(norm: str) -> None:
    with pytest.raises(NormbenchError, match=rf"{norm} .*'block\.0\.attention'.* see the characters") as caught:
        small("char_lm", f"norm={norm}")
    assert caught.value.code == 2 and str(caught.value).isprintable()
    assert len(small("vit", f"norm={norm}").sites) == 9


def test_statistics_of_each_step_are_no_later_characters() -> None:
    with pytest.raises(NormbenchError, match=r"norm\.stats=per_step"):
        small("char_lm", "norm=batch")
    assert len(small("char_lm", "norm=batch", "norm.stats=per_step").sites) == 9


@pytest.mark.parametrize(("placement", "count"), [("pre", 5), ("post", 4), ("peri", 9)])
def test_default_sites_are_those_of_the_placement(placement: str, count: int) -> None:
    spec = small("char_lm", "norm=layer", f"model.placement={placement}")
    assert len(spec.sites) == count and ("final" in spec.sites) == (placement != "post")
    assert len(small("char_lm", "norm=layer", f"model.placement={placement}", "model.layers=3").sites) > count
    if placement != "peri":
        with pytest.raises(NormbenchError, match=r"has no site 'block\.0\.mlp_out'"):
            small("char_lm", "norm=layer", f"model.placement={placement}", "norm.sites=[block.0.mlp_out]")


def test_the_last_site_may_have_another_normalizer() -> None:
    spec = small("char_lm", "norm=dyt", "norm.sites={block.*.attention: {}, block.*.mlp: {}, final: layer}")
    assert {path: choice.name for path, choice in spec.sites.items()} == {
        **{f"block.{i}.{name}": "dyt" for i in range(2) for name in ("attention", "mlp")},
        "final": "layer",
    }


def test_a_head_begins_at_the_log_frequencies_of_the_training_split(tmp_path: Path) -> None:
    """Before the first update the loss is nearly the entropy of single characters."""
    loss = {}
    for bias in ("zero", "log_frequency"):
        spec = small("char_lm", f"model.head_bias={bias}", "train.steps=1")
        assert ensure_run(spec, RunDirectory(tmp_path / bias)) == "done"
        loss[bias] = next(r["nll"] for r in tiny.curve(tmp_path / bias) if (r["split"], r["step"]) == ("valid", 0))
    network, split = built(spec), training_part("char_lm")
    network.begin(split)
    counts = np.array([1 + np.count_nonzero(split["text"][:, 1:].numpy() == number) for number in range(29)])
    shares = counts / counts.sum()
    np.testing.assert_allclose(network.logits.bias.detach().numpy(), np.log(shares), rtol=1e-6)
    assert loss["log_frequency"] == pytest.approx(-(shares * np.log(shares)).sum(), abs=0.03)
    assert loss["zero"] == pytest.approx(math.log(29), abs=0.03)


def test_initial_weights_are_those_of_gpt2() -> None:
    network = built(small("char_lm", "model.width=64", "model.layers=3", "model.heads=4"))
    for name, parameter in network.named_parameters():
        if parameter.dim() == 2:
            wanted = 0.02 / math.sqrt(6) if name.endswith("output.weight") else 0.02
            assert parameter.std().item() == pytest.approx(wanted, rel=0.15), name
    assert network.scale.item() == 8 and network.scale.dim() == 0


@pytest.mark.parametrize("model", MODELS)
def test_decay_is_of_matrices_alone(model: str) -> None:
    spec = small(model, "norm=dyt")
    network = built(spec)
    groups = optim.build(spec.config["optim"], network).param_groups
    decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    for name, parameter in network.named_parameters():
        assert (id(parameter) in decayed) == (parameter.dim() == 2), name


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9")
@pytest.mark.parametrize("model", MODELS)
def test_muon_takes_the_matrices_of_blocks(model: str) -> None:
    spec = small(model, "norm=layer", "optim=muon", "schedule=none")
    network = built(spec)
    outer = spec.config["model"]["declares"]["outer"]
    groups = optim.build(spec.config["optim"], network, outer).param_groups
    of_muon = {id(p) for group in groups if group["matrices"] for p in group["params"]}
    for name, parameter in network.named_parameters():
        assert (id(parameter) in of_muon) == (name.startswith("block.") and parameter.dim() == 2), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model=char_lm", "data=made_text", "model.heads=3"), r"model\.heads=3 does not divide model\.width=64"),
        (("model=vit", "data=coloured_digits", "model.patch=3"), r"model\.patch=3 does not divide images of 32 x 32"),
        (("model=vit", "data=digits"), "model=vit reads inputs of height x width x channels, data=digits has vectors"),
        (("model=vit", "data=made_text"), "coloured_digits"),
    ],
)
def test_what_does_not_fit_is_one_line(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(NormbenchError, match=message) as caught:
        (spec,) = train_specs(list(words), False)
        built(spec)
    assert caught.value.code == 2 and str(caught.value).isprintable()


@pytest.mark.parametrize("model", MODELS)
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(model: str, tmp_path: Path) -> None:
    length: tuple[Any, ...] = ("train.epochs=0", "train.steps=6", "eval.unit=updates", "eval.every=3")
    spec = small(model, "norm=layer", *length)
    calm, stopped = tmp_path / "calm", tmp_path / "stopped"
    assert ensure_run(spec, RunDirectory(calm)) == "done"
    assert ensure_run(spec, RunDirectory(stopped), stopping=tiny.after(2)) == "interrupted"
    assert ensure_run(spec, RunDirectory(stopped)) == "done"
    assert tiny.result(stopped) == tiny.result(calm)


@pytest.mark.parametrize("where", ["[block.*.attention]", "[block.*.query]", "[block,final]"])
def test_variants_at_once_are_those_one_by_one(where: str) -> None:
    """Also where the first normalizer stands inside a branch, beside the stream."""
    spec = small("vit", "norm=batch_layer", f"norm.sites={where}", "norm.also_configurations=[TTTT,FFFF]")
    network = built(spec).double().train()
    for batch in batches(spec, 3):
        network(batch["inputs"].double(), batch["targets"])
    split = training_part("vit").only(["inputs", "targets"]).first(40)
    split = split.with_tensors({"inputs": split["inputs"].double()})
    variants: list[dict[str, Any]] = [{}, {"configuration": "TTTT"}, {"configuration": "FFFF"}]
    passes = Passes(network, spec.config)
    together = passes.evaluate(split, "train", variants)
    for variant, metrics in zip(variants, together, strict=True):
        (alone,) = passes.evaluate(split, "train", [variant])
        torch.testing.assert_close(torch.cat(metrics["nll"]), torch.cat(alone["nll"]))
    assert not torch.equal(torch.cat(together[1]["nll"]), torch.cat(together[2]["nll"]))


@pytest.mark.parametrize(
    ("norm", "names"),
    [
        ("layer", {"input_std", "beyond_line", "out_half", "out_1", "out_2"}),
        ("dyt", {"input_std", "alpha", "saturated"}),
        ("derf", {"input_std", "alpha", "saturated"}),
        ("rms", {"input_std"}),
    ],
)
@pytest.mark.parametrize("model", MODELS)
def test_a_run_records_how_each_site_is_normalized(model: str, norm: str, names: set[str], tmp_path: Path) -> None:
    length = ("train.epochs=0", "train.steps=4", "eval.unit=updates", "eval.every=2")
    spec = small(model, f"norm={norm}", *length)
    assert ensure_run(spec, RunDirectory(tmp_path / "run")) == "done"
    first, last = (record for record in tiny.curve(tmp_path / "run") if "final.input_std" in record)
    wanted = {f"{path}.{name}" for path in spec.sites for name in names}
    rare = {f"{path}.out_{far}" for path in spec.sites for far in (4, 8)}  # few inputs, if any, lie so far out
    for record, step in ((first, 2), (last, 4)):
        values = {key: value for key, value in record.items() if key.startswith(("block.", "final."))}
        assert values.keys() - rare == wanted and all(value == float(f"{value:.4g}") for value in values.values())
        assert (record["step"], record["split"]) == (step, "train")
    assert first["final.input_std"] != last["final.input_std"]


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("eval.every=2",), [4, 6, 10, 12, 16, 18, 22, 24, 28, 29]),  # of 15 evaluations
        (("eval.every=9",), [9, 18, 27, 29]),
        (("eval.every=29", "eval.also_after=[1,2,3]"), [3, 29]),
    ],
)
def test_ten_evaluations_of_a_run_record_it_the_last_one_always(
    words: tuple[str, ...], steps: list[int], tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path)
    spec = small("char_lm", "norm=layer", "norm.sites=[final]", "train.steps=29", "eval.unit=updates", *words)
    assert ensure_run(spec, run, stopping=tiny.after(11)) == "interrupted"
    assert ensure_run(spec, run) == "done"
    assert [record["step"] for record in tiny.curve(tmp_path) if "final.beyond_line" in record] == steps


def test_a_claim_reads_what_is_recorded(tmp_path: Path) -> None:
    spec = small("vit", "norm=dyt", "train.epochs=0", "train.steps=2", "eval.unit=updates")
    assert ensure_run(spec, RunDirectory(place(tmp_path / "runs", spec))) == "done"
    (run,) = Runs(tmp_path).find([spec])
    for mode in ("eval", "train"):
        alpha = final(run, "train", mode, "block.1.mlp_out.alpha")
        assert alpha == pytest.approx(0.5, abs=0.01) and alpha == final(run, "train", mode, "final.alpha")


def test_what_is_recorded_is_of_the_inputs_of_the_site() -> None:
    spec = small("char_lm", "norm=dyt", "norm.sites=[final]", "norm.alpha_init=1")
    network, batch = shaken("char_lm", "norm=dyt", "norm.sites=[final]", "norm.alpha_init=1"), batches(spec, 1)[0]
    alpha, given = network.norms["final"].alpha.item(), []
    network.norms["final"].register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    sums: dict[str, list[float]] = {}
    for observing in (False, True, False):
        with models.update(network, 1, 0, observing), logging_to(sums, ()):
            network(**batch)
    values = {name: total for name, (total, _) in sums.items()}
    assert {count for _, count in sums.values()} == {1}
    assert values["final.input_std"] == pytest.approx(given[0].std().item(), rel=1e-3)
    assert values["final.saturated"] == pytest.approx((alpha * given[0]).abs().gt(2).double().mean().item(), rel=1e-3)
    assert 0 < values["final.saturated"] < 1 and values["final.alpha"] == pytest.approx(alpha, rel=1e-3)
