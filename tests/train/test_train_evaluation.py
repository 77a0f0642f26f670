"""What `eval` asks for: which records there are, several ways in one pass, and runs that lack an evaluation."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file

from normbench import data as datasets
from normbench.config.plan import train_specs
from normbench.core.eval_variants import parse
from normbench.data.examples import Split
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms.batch_layer import CONFIGURATIONS, KINDS
from normbench.norms.modes import inference, normalizers
from normbench.runs import directory
from normbench.runs.table import Runs
from normbench.train.evaluate import Evaluation

BLN = ("norm=batch_layer", "norm.configuration=FFFF")


def trained(m: int, *words: str, batches: int = 4) -> models.Model:
    """BLN's LeNet-5 in float64 after an epoch of a few batches, in training mode for populations of another pass."""
    (spec,) = train_specs(["model=lenet5", "data=coloured_digits", f"train.batch_size={m}", *words], False)
    model = models.build(spec.config, spec.sites).double().train()
    draws = torch.Generator().manual_seed(1)
    for norm in normalizers(model):
        norm.begin_epoch()
    for _ in range(batches):
        model(torch.randn(m, 32, 32, 3, generator=draws).double(), torch.zeros(m, dtype=torch.int64))
    for norm in normalizers(model):
        norm.end_epoch()
    return model


DECLARED = {"configuration": CONFIGURATIONS, "populations": KINDS, "eval_stats": ["running", "batch"]}


def several(model: models.Model, split: Split, names: list[str], m: int) -> list[dict]:
    """Records of one pass over the split in all of these variants."""
    config = {**tiny.spec(f"train.batch_size={m}").config}
    evaluation = Evaluation(model, datasets.Dataset("d", {"train": split, "valid": split, "test": split}), config, {})
    variants = [parse(name, DECLARED, "", "") for name in names]
    return evaluation.evaluate("test", variants)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "words"),
    [(5, ()), (5, ("norm.mode=paper",)), (1, ()), (5, ("norm.affine=false",)), (5, ("norm.sites=[conv]",))],
)
def test_variants_in_one_pass_are_those_passes_one_by_one(m: int, words: tuple[str, ...]) -> None:
    """Also with other populations, with a last batch that is smaller, and where m = 1 gives NaN."""
    model = trained(m, *BLN, *words)
    draws = torch.Generator().manual_seed(2)
    images = torch.randn(13, 32, 32, 3, generator=draws).double()
    split = Split(inputs=images, targets=torch.randint(0, 10, (13,), generator=draws))
    names = ["", *CONFIGURATIONS, *(f"{letters} populations=pooled" for letters in CONFIGURATIONS)]
    together = several(model, split, names, m)
    alone = [several(model, split, [name], m)[0] for name in names]
    assert all(norm.stack is None for norm in normalizers(model))
    for name, a, b in zip(names, together, alone, strict=True):
        assert a["nll"] == pytest.approx(b["nll"], rel=1e-12, abs=1e-12, nan_ok=True), name
        assert a["error"] == b["error"], name
    if m == 1:
        missing = {name for name, result in zip(names, together, strict=True) if math.isnan(result["nll"])}
        assert missing == {name for name in names if name[1:2] == "T"}, (
            "0 times infinity: no deviation of a batch of one"
        )
    else:
        assert len({result["nll"] for result in together}) > 16


def curve(folder: Path) -> list[dict]:
    """Records with their variant in a few words, where they have one."""
    found = []
    for record in tiny.curve(folder):
        name = tiny.variant(record)
        without = {key: value for key, value in record.items() if key not in ("variant", "order", "block")}
        found.append(without | ({"variant": name} if name else {}))
    return found


def test_what_is_asked_for_is_recorded_and_nothing_else_moves(tmp_path: Path) -> None:
    asked = (
        "eval.variants=[TTFF,FFFF]",
        "eval.splits=[valid,test]",
        "eval.also_at_best=['populations=pooled','populations=recalibrated']",
    )
    words = (*BLN, "train.epochs=3", "optim.lr=0.3")  # of a size at which the second epoch is not the best
    tiny.train(tmp_path / "without", *words)
    tiny.train(tmp_path / "asked", *words, *asked, "eval.reshuffles=2", "eval.reshuffled=[TTFF]")
    without, full = curve(tmp_path / "without"), curve(tmp_path / "asked")
    assert [r for r in full if "variant" not in r] == without
    ours, theirs = (load_file(tmp_path / name / "weights" / "last.safetensors") for name in ("without", "asked"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if ".recalibrated." not in name)
    losses = [r["nll"] for r in without if r["split"] == "valid" and r["epoch"]]
    best = {epoch for epoch, nll in enumerate(losses, 1) if nll < min(losses[: epoch - 1], default=math.inf)}
    assert 1 in best and best != {1, 2, 3}
    for epoch, split in itertools.product(range(4), ("valid", "test")):
        names = [r["variant"] for r in full if r["epoch"] == epoch and r["split"] == split and "variant" in r]
        # TTFF takes nothing from features, so that slots and all together are the same; FFFF takes nothing at all
        variants = ["TTFF", "FFFF"] + ["TTFF populations=recalibrated"] * (epoch in best)
        again = epoch in best and split == "test"
        shuffled = [f"{variant} shuffle={k}".strip() for k in (1, 2) for variant in ["", "TTFF"]] if again else []
        assert names == variants + shuffled, (epoch, split)
    of = {(r["epoch"], r["split"], r.get("variant")): r["nll"] for r in full if r["mode"] == "eval"}
    for epoch in range(1, 4):
        assert of[epoch, "test", "FFFF"] == pytest.approx(of[epoch, "test", None], rel=1e-5)
    assert of[1, "test", "shuffle=1"] != of[1, "test", "shuffle=2"], "statistics of other batches"


def test_the_last_evaluation_passes_over_whole_splits_as_well(tmp_path: Path) -> None:
    asked = ("eval.strides={train: 0, test: 3}", "eval.whole=[test,valid]")
    tiny.train(tmp_path / "without")
    tiny.train(tmp_path / "asked", *asked)
    found, default = curve(tmp_path / "asked"), curve(tmp_path / "without")
    assert [(r["epoch"], r["split"]) for r in found if r["mode"] == "whole"] == [(2, "test"), (2, "valid")]
    of = {(r["split"], r["mode"]): r["nll"] for r in found if r["epoch"] == 2}
    wanted = {r["split"]: r["nll"] for r in default if r["epoch"] == 2 and r["mode"] == "eval"}
    assert of["test", "whole"] == pytest.approx(wanted["test"], rel=1e-6) and of["test", "eval"] != wanted["test"]
    assert of["valid", "whole"] == of["valid", "eval"], "one without a stride"
    without, having = tiny.spec(asked[0]), tiny.spec(*asked)
    assert without.accepts(having.config) and not having.accepts(without.config)


def test_the_last_examples_that_make_no_whole_batch_can_be_left_out(tmp_path: Path) -> None:
    """Of every split, after its stride; a pass over a whole split has them."""
    asked = ("train.batch_size=70", "eval.strides={train: 0, test: 2}", "eval.drop_last=true", "eval.whole=[valid]")
    tiny.train(tmp_path / "run", *asked)
    spec = tiny.spec(*asked)
    model, splits = models.build(spec.config, spec.sites), datasets.load(spec.config["data"]).splits
    model.load_state_dict(load_file(tmp_path / "run" / "weights" / "last.safetensors"))
    of = {(r["split"], r["mode"]): r for r in curve(tmp_path / "run") if r["epoch"] == 2}
    for name, stride, whole in (("valid", 1, False), ("test", 2, False), ("valid", 1, True)):
        rows = list(range(0, len(splits[name]), stride))
        expected = rows if whole else rows[: len(rows) // 70 * 70]
        assert whole or len(expected) < len(rows)
        with torch.no_grad(), inference(model):
            batch = splits[name].batch(torch.tensor(expected)).tensors
            nll = model.evaluate(**batch)["nll"].mean().item()
        assert of[name, "whole" if whole else "eval"]["nll"] == pytest.approx(nll, rel=1e-6)
    default = tiny.spec("train.batch_size=70", asked[1])
    assert default.id == spec.id and not spec.accepts(default.config)
    assert not default.accepts(spec.config)
    before = {key: value for key, value in default.config["eval"].items() if key != "drop_last"}
    assert default.accepts({**default.config, "eval": before}), "one from when all were evaluated"
    with pytest.raises(NormbenchError, match=r"eval\.drop_last leaves no batch of 600 of \d+ valid examples\."):
        tiny.train(tmp_path / "none", "train.batch_size=600", "eval.drop_last=true")


def test_batch_statistics_go_by_batches_of_the_training_size() -> None:
    spec = tiny.spec("norm=batch", "eval.variants=['eval_stats=batch']", "train.batch_size=7")
    model, data = models.build(spec.config, spec.sites), datasets.load(spec.config["data"])
    test = data.splits["test"]
    split = Split(inputs=test["inputs"][:20], targets=test["targets"][:20])
    (found,) = several(model, split, ["eval_stats=batch"], 7)
    with torch.no_grad(), inference(model, {"eval_stats": "batch"}):
        parts = [model.evaluate(split["inputs"][i : i + 7], split["targets"][i : i + 7])["nll"] for i in (0, 7, 14)]
        whole = model.evaluate(split["inputs"], split["targets"])["nll"].mean().item()
    assert found["nll"] == pytest.approx(torch.cat(parts).mean().item(), rel=1e-6) and abs(found["nll"] - whole) > 1e-4


def test_evaluations_are_no_part_of_what_a_run_is() -> None:
    without = tiny.spec(*BLN)
    for word in (
        "eval.variants=[TTFF]",
        "eval.reshuffles=5",
        "norm.configuration=TTTT",
        "norm.populations=pooled",
    ):
        assert tiny.spec(*BLN, word).id == without.id, word
    assert tiny.spec(*BLN, "norm.eps_w=1e-3").id != without.id
    probes = [train_specs(["model=properties", *BLN, f"norm.configuration={c}"], False)[0].id for c in ("TTTT", "FFFF")]
    assert probes[0] != probes[1], "a probe computes with it"


def test_test_splits_can_wait_for_the_lowest_validation_loss(tmp_path: Path) -> None:
    """Of any way that is asked for; the last epoch is tested in any case. What is recorded has the same numbers."""
    asked = ("eval.variants=[TTTT,TTFF]", "eval.splits=[valid,test]", "eval.also_at_best=['populations=recalibrated']")
    words = (*BLN, "train.epochs=5", "optim.lr=0.3", *asked, "eval.reshuffles=1")
    tiny.train(tmp_path / "each", *words)
    tiny.train(tmp_path / "lowest", *words, "eval.test=lowest")
    each, waiting = curve(tmp_path / "each"), curve(tmp_path / "lowest")
    lowest: dict[str | None, float] = {}
    by_variant: dict[str | None, set[int]] = {}
    for r in (r for r in each if r["split"] == "valid" and r["epoch"]):
        if r["nll"] < lowest.get(variant := r.get("variant"), math.inf):
            lowest[variant] = r["nll"]
            by_variant.setdefault(variant, set()).add(r["epoch"])
    tested = {0, 5}.union(*by_variant.values())
    assert 3 not in tested and 4 in by_variant["TTTT"] - by_variant[None], (
        "where a further variant alone is at its lowest"
    )
    expected = [r for r in each if r["split"] != "test" or r["epoch"] in tested]
    by_text = [sorted(json.dumps(r) for r in records) for records in (expected, waiting)]
    assert by_text[0] == by_text[1] and len(expected) < len(each)
    assert tiny.train(
        tmp_path / "run", "train.checkpoint_seconds=0", *words, "eval.test=lowest", stopping=tiny.after(9)
    )
    tiny.train(tmp_path / "run", *words, "eval.test=lowest")
    assert tiny.result(tmp_path / "run") == tiny.result(tmp_path / "lowest")


def test_a_run_tested_less_often_is_not_one_tested_at_every_epoch() -> None:
    each, lowest = tiny.spec(*BLN), tiny.spec(*BLN, "eval.test=lowest")
    assert lowest.accepts(each.config) and lowest.accepts(lowest.config)
    assert not each.accepts(lowest.config)
    before = {k: v for k, v in each.config["eval"].items() if k != "test"}  # a run from when it was always so
    assert each.accepts({**each.config, "eval": before})
    # the last epoch of another length is not tested for being the last
    spec = tiny.spec(*BLN, "eval.test=lowest", "train.epochs=9")
    assert not lowest.accepts(spec.config) and not spec.accepts(lowest.config)
    assert lowest.accepts({**spec.config, "eval": each.config["eval"]})


def test_a_shorter_request_has_its_last_epoch_tested(tmp_path: Path) -> None:
    from normbench.train.train_one import ensure_run

    words = (*BLN, "optim.lr=0.3", "eval.test=lowest")
    root = tmp_path / "runs"
    long, short = (tiny.spec(*words, f"train.epochs={epochs}") for epochs in (6, 3))
    assert long.id == short.id
    ensure_run(long, directory.RunDirectory(directory.place(root, long)))
    found = Runs(tmp_path)
    assert found.of(long) and not found.of(short)
    ensure_run(short, directory.RunDirectory(directory.place(root, short)))
    (run,) = Runs(tmp_path).find([short])
    assert 3 in {r["epoch"] for r in run.records if r["split"] == "test"}


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ((*BLN, "eval.variants=[TTFG]"), "eval.variants: 'TTFG' .*norm=batch_layer"),
        (("norm=layer", "eval.variants=[TTFF]"), "eval.variants: 'TTFF' .*norm=layer"),
        (("norm=batch", "eval.also_at_best=['populations=pooled']"), "eval.also_at_best: .*norm=batch"),
        ((*BLN, "eval.splits=[tset]"), "eval.splits=tset"),
        (("eval.whole=[tset]",), "eval.whole=tset"),
        ((*BLN, "eval.reshuffles=-1"), "eval.reshuffles=-1"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_anything_runs(words: tuple[str, ...], key: str) -> None:
    with pytest.raises(NormbenchError, match=key):
        tiny.spec(*words)
