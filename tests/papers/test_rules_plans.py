"""What is fixed in advance: smallest effects, seeds, what no plan could decide, the published claims."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from judged import artifact, only
from ruled import claim_data, compared, direction, effects, fig6_part, seen, written

from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import rules
from normbench.papers.claim_file import load
from normbench.papers.claims import Artifact, Endpoint, Part
from normbench.runs.record import RunRecord
from normbench.stats.series import area, at_epoch, best_step, log_floored

# --- smallest effects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "metric", "scale", "data", "expected"),
    [
        ("final", "error", "percent", "cifar10", 0.5),
        ("final", "error", "percent", "mnist", 0.1),
        ("chosen", "error_published", "percent", "imdb", 0.5),
        ("chosen", "nll", "linear", "cifar10", 0.02),
        ("chosen", "nll", "linear", "mnist", 0.005),
        ("final", "nll", "log", "mnist", 0.03),
        ("area", "nll", "log", "cifar10", 0.03),
        ("final", "loss", "log", "recall", 0.03),
        ("time_to_level", "nll", "log", "mnist", 0.10),
        ("final", "image_r1", "percent", "flickr8k_captions", 0.3),
        ("final", "caption_r10", "percent", "flickr8k_captions", 0.3),
        ("final", "bound", "linear", "mnist_binary", 0.1),
        ("final", "line_nll", "linear", "iam_ondb", 5.0),
        ("final", "mse", "linear", "cifar10", None),
        ("value", "", "linear", "", None),
    ],
)
def test_smallest_effects_by_data_set(kind: str, metric: str, scale: str, data: str, expected: float | None) -> None:
    end = Endpoint(kind, split="test", mode="eval", metric=metric, key="gradient_slope_size")
    part = direction(endpoint=end, scale=scale)
    assert rules.smallest_effect(part, data) == expected
    assert rules.smallest_effect(replace(part, delta={"is": 7, "why": "w"}), data) == 7
    shifted = replace(part, delta={"is": None, "why": "shifted by a quarter"})
    assert rules.smallest_effect(shifted, data) is None
    rules.check_smallest_effect(shifted, data, "here")
    assert rules.smallest_effect(replace(part, kind="equivalence", within=1.0), data) is None
    if expected is None:
        with pytest.raises(
            NormbenchError, match=r"^here: part 'p': rules.yaml has no smallest effect for .*why: \.\.\.\}"
        ):
            rules.check_smallest_effect(part, data, "here")
    else:
        rules.check_smallest_effect(part, data, "here")


# --- what no plan could decide is refused when it is read -------------------------------------------------------------


@pytest.mark.parametrize(("k", "one", "two"), [(1, 6, 7), (2, 7, 8), (6, 8, 9)])
def test_fewest_pairs_of_the_sign_test(k: int, one: int, two: int) -> None:
    assert (rules.fewest_pairs(0.05 / k), rules.fewest_pairs(0.025 / k)) == (one, two)
    part = direction(test="sign")
    for n, alpha in ((one, 0.05), (two, 0.025)):
        for pairs, expected in ((n, "holds"), (n - 1, "undecided")):
            values = [1.0 + 0.1 * seed for seed in range(pairs)]
            assert rules.part_word(part, seen(part, values), alpha / k) == expected


@pytest.mark.parametrize(("k", "added", "least"), [(1, None, 6), (2, None, 7), (6, None, 8), (1, [5, 6], 7)])
def test_a_plan_with_fewer_pairs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int, added: Any, least: int
) -> None:
    parts = [fig6_part(f"p{place}", test="sign", expect="negative") for place in range(k)]
    more: dict[str, Any] = {"added": added} if added else {}
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    for seeds in (least, least - 1):
        more["seeds"] = {"from": 2, "to": 1 + seeds}
        written(tmp_path, claim_data("direction", *parts, experiment="ln2016/fig6", **more))
        if seeds == least:
            assert artifacts.load("fig").claims
            continue
        with pytest.raises(NormbenchError, match=f"plans {seeds} of the {least} seeds") as refused:
            artifacts.load("fig")
        assert "\n" not in str(refused.value) and "claim C1" in str(refused.value)


def test_a_control_needs_the_pairs_of_one_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    open_ = {"open": ["rate"], "controls": ["lr-low", "lr-high"]}
    part = fig6_part("p", test="sign", expect="negative")
    written(tmp_path, claim_data("direction", part, experiment="ln2016/fig6", **open_))
    with pytest.raises(NormbenchError, match=r"plans 5 of the 7 seeds .* under the control lr-low"):
        artifacts.load("fig")


def test_planned_seeds_are_those_of_all_places_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def place(arm: str, size: int, control: str = "") -> dict[str, Any]:
        return {"arm": arm, "train.batch_size": size, "control": control}

    cells = [
        (place("ln", 128), range(1, 11)),
        (place("ln", 4), range(4, 11)),
        (place("bn", 128), range(1, 8)),
        (place("ln", 128, "lr-low"), range(1, 6)),
    ]
    monkeypatch.setattr(artifacts.plan, "planned_seeds", lambda *asked: cells)
    monkeypatch.setattr(artifacts.plan, "data_name", lambda *asked: "mnist")
    planned = artifacts.Plan(artifact(direction()), "paper")

    def seeds(*cells: dict[str, Any], control: str = "", alone: Any = None) -> list[int]:
        return planned.seeds(direction(contrast=tuple((1.0, cell) for cell in cells)), control, alone)

    large = {"arm": "ln", "train.batch_size": 128}
    assert seeds(large) == seeds({**large, "variant": "TTTT"}) == list(range(1, 11))
    assert seeds({"arm": "ln"}) == list(range(4, 11)), "of both batch sizes"
    assert seeds(large, {"arm": "bn"}) == list(range(1, 8))
    assert seeds({"arm": "ln"}, {"arm": "bn"}, alone=range(6, 99)) == [6, 7]
    assert seeds(large, control="lr-low") == [1, 2, 3, 4, 5] and seeds({"arm": "bn"}, control="lr-low") == []
    other = [replace(artifact(direction()), seen=5), replace(artifact(direction()), claims_sha256="b" * 64)]
    hashes = {artifacts.Plan(one, "paper").sha256 for one in other} | {planned.sha256}
    cells[0] = (cells[0][0], range(1, 10))
    assert len(hashes | {artifacts.Plan(artifact(direction()), "paper").sha256}) == 4


def test_added_seeds_beyond_the_plan_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    claim = claim_data("direction", fig6_part("p", expect="negative"), experiment="ln2016/fig6", added=[5, 20])
    written(tmp_path, claim)
    with pytest.raises(NormbenchError, match="claim C1: seeds are added up to 20, ln2016/fig6 plans 10"):
        artifacts.load("fig")


# --- seeds that alone count, and added ones ---------------------------------------------------------------------------


class Plan:
    """Seeds 1 to n everywhere but under `controls`, and 1 as the smallest effect."""

    sha256 = "r"

    def __init__(self, n: int, **controls: int) -> None:
        self.n, self.controls = n, controls

    def seeds(self, part: Part, control: str, alone: Sequence[int] | None) -> list[int]:
        planned = range(1, self.controls.get(control, self.n) + 1)
        return [seed for seed in planned if alone is None or seed in alone]

    def smallest_effect(self, part: Part) -> float | None:
        return 1.0


def alone(claims: Artifact, seeds: range) -> Artifact:
    """The one claim, judged on these seeds alone."""
    return replace(claims, claims=(replace(claims.claims[0], seeds={"paper": seeds}),))


def test_seeds_that_had_been_seen_do_not_count_beside_fresh_ones() -> None:
    old, fresh = compared(effects(5.0, 0.4), first=1), compared(effects(-5.0, 0.4), first=6)
    claims = alone(artifact(direction()), range(6, 11))
    found = only(claims, old + fresh, planned=Plan(10))
    assert found["verdict"] == "contradicted" and found["parts"][0]["seeds"] == [6, 7, 8, 9, 10]
    assert found["effect"] == pytest.approx(-5.0) and "judged on seeds 6 to 10 alone" in found["evidence"]
    assert only(claims, old, planned=Plan(10))["setting"] in ("undecided", "not run")
    assert only(claims, old + fresh[:-2], planned=Plan(10))["setting"] == "undecided"
    pooled = only(artifact(direction()), old + fresh, planned=Plan(10))
    assert pooled["parts"][0]["seeds"] == list(range(1, 11)) and pooled["setting"] == "undecided"


def test_a_control_may_have_fresh_seeds_of_its_own() -> None:
    """What was undecided under one control is decided there on others, while setting and other controls keep theirs."""
    opened = artifact(direction(), open=["rate"], controls=["low", "high"])
    claims = replace(opened, claims=(replace(opened.claims[0], control_seeds={"high": {"paper": range(6, 11)}}),))
    setting, low = compared(effects(-5.0, 0.4)), compared(effects(-4.0, 0.4), control="low")
    seen, fresh = compared(effects(0.5, 4.0), control="high"), compared(effects(-3.0, 0.4), first=6, control="high")
    assert only(opened, [*setting, *low, *seen], planned=Plan(5))["robustness"] == "undecided"
    found = only(claims, [*setting, *low, *seen, *fresh], planned=Plan(5, high=10))
    assert found["verdict"] == "contradicted" and found["parts"][0]["seeds"] == [1, 2, 3, 4, 5]
    assert [control["parts"][0]["seeds"] for control in found["controls"]] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert found["evidence"].endswith("; under high on seeds 6 to 10 alone")
    assert only(claims, [*setting, *low, *seen], planned=Plan(5, high=10))["robustness"] == "not run"
    both = replace(claims, claims=(replace(claims.claims[0], seeds={"paper": range(1, 6)}),))
    told = only(both, [*setting, *low, *fresh], planned=Plan(5, high=10))["evidence"]
    assert told.endswith("; judged on seeds 1 to 5, under high on seeds 6 to 10 alone")


def test_what_is_small_on_seen_seeds_is_negligible_on_fresh_ones_alone() -> None:
    claims = replace(alone(artifact(direction()), range(6, 11)), seen=5)
    small = compared(effects(0.0, 0.4), first=6)
    assert only(claims, small, planned=Plan(10))["verdict"] == "negligible"
    found = only(replace(claims, seen=6), small, planned=Plan(10))
    assert found["verdict"] == "undecided" and "post hoc" in found["evidence"]


def test_planned_seeds_alone_count_and_all_of_them() -> None:
    runs = compared(effects(3.0, 1.0), first=1)
    further = compared(effects(-30.0, 1.0), first=6)
    assert only(artifact(direction()), runs + further, planned=Plan(5))["verdict"] == "reproduced"
    assert only(artifact(direction()), runs, planned=Plan(6))["setting"] == "undecided"


def test_a_second_look_that_was_not_planned() -> None:
    claims = artifact(direction(), added=(5, 10))
    small = compared(effects(0.0, 0.4), first=1)
    assert only(claims, small, planned=Plan(10))["setting"] == "negligible"  # the first was
    found = only(claims, small + compared(effects(0.1, 0.4), first=6), planned=Plan(10))
    assert (found["setting"], found["alpha"]) == ("undecided", 0.025) and "not planned" in found["evidence"]
    fewer = only(claims, small, planned=Plan(5))  # no seeds are planned beyond the first look: there was no second
    assert (fewer["setting"], fewer["look"]) == ("negligible", 1)
    large = compared(effects(3.0, 1.0), first=1) + compared(effects(3.1, 1.0), first=6)
    assert only(claims, large, planned=Plan(10))["setting"] == "holds"


# --- the best evaluation ----------------------------------------------------------------------------------------------


def test_the_evaluation_before_training_is_never_the_best() -> None:
    run = RunRecord("r", "x/fig", "ln", 1, "done", 2, steps=20, records=[
        {"epoch": epoch, "step": 10 * epoch, "split": split, "mode": "eval", "nll": nll + (split == "test")}
        for split in ("valid", "test") for epoch, nll in enumerate((0.1, 0.7, 0.5))
    ])  # fmt: skip
    assert best_step(run) == 20
    assert at_epoch(run, "test", "nll", "best") == 1.5
    assert area([(0, 9.0), (1, 0.7), (2, 0.5)], log=True) == pytest.approx(math.sqrt(0.35))
    assert best_step(replace(run, records=[r for r in run.records if not r["step"]])) is None


# --- the published claims say what the papers say ---------------------------------------------------------------------

EXPECTED = {  # part by part: whether the first cell named is to lie above (+) the second, or below
    "bln2022/ablation": {"BLN-5": "++", "BLN-18": "-", "BLN-19": "-", "BLN-A2": "-", "BLN-X2": "-+--+-"},
    "bln2022/fig4": {"BLN-1": "--", "BLN-2": "--", "BLN-4": "----"},
    "bln2022/fig6": {
        "BLN-6": "----", "BLN-7a": "----", "BLN-7b": "----", "BLN-7c": "----", "BLN-7d": "----", "BLN-8a": "--",
        "BLN-8b": "--", "BLN-8c": "--", "BLN-8d": "--", "BLN-18b": "+",
    },
    "bln2022/table1": {
        "BLN-9": "---", "BLN-10": "++", "BLN-22": "-", "BLN-23": "+", "BLN-12": "++", "BLN-13": "++", "BLN-14": "++",
        "BLN-17": "-+", "BLN-X3": "--",
    },
    "bln2022/table2": {"BLN-11": "++", "BLN-13b": "++", "BLN-14b": "++", "BLN-16": "--", "BLN-17b": "+-"},
    "bln2022/tasks": {"BLN-26": "-+"},
    "ln2016/correlation": {"LN-H14": "++"},
    "ln2016/dynamics": {"LN-H1": "++", "LN-H1b": "++"},
    "ln2016/fig6": {"LN-F1": "-", "LN-F1b": "-", "LN-F2": "--", "LN-F3": "++"},
    "ln2016/online": {"LN-H6": "---"},
    "ln2016/recall": {"LN-H4": "----", "LN-H5": "--"},
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_published_claims_expect_what_their_sentences_say(name: str) -> None:
    claims = {claim.id: claim for claim in load(artifacts.HERE / f"{name}.yaml").claims}
    for claim, signs in EXPECTED[name].items():
        found = "".join({"negative": "-", "positive": "+"}[part.expect or ""] for part in claims[claim].parts)
        assert found == signs, claim


@pytest.mark.parametrize("claim", ["BLN-1", "BLN-2"])
def test_published_orders_are_those_of_the_sentence_and_of_the_authors_logs(claim: str) -> None:
    """From their statement, and from what the authors' own runs logged."""
    fig4 = load(artifacts.HERE / "bln2022" / "fig4.yaml")
    (found,) = [c for c in fig4.claims if c.id == claim]
    batch = int(found.statement.split(":")[0].removeprefix("batch "))
    stated = found.statement.partition("training loss ")[2].lower().split(" < ")
    pairs = [[cell["arm"] for _, cell in part.contrast] for part in found.parts]
    assert pairs == [[low, high] for low, high in pairwise(stated)]
    for part, (low, high) in zip(found.parts, pairs, strict=True):
        assert [cell["train.batch_size"] for _, cell in part.contrast] == [batch, batch]
        logs = fig4.reference["histories"]
        theirs = [sum(map(log_floored, logs[arm][batch]["train_loss"])) for arm in (low, high)]
        weights = [weight for weight, _ in part.contrast]
        assert (weights[0] * theirs[0] + weights[1] * theirs[1] < 0) == (part.expect == "negative")


# --- hashes -----------------------------------------------------------------------------------------------------------


def test_the_hash_of_the_rules_changes_with_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rules.sha256("claims", 5)
    assert before == rules.sha256("claims", 5) != rules.sha256("claims", 6)
    for changed in ({"alpha": 0.1}, {"version": 99}, {"smallest_effects": []}):
        monkeypatch.setattr(rules, "RULES", {**rules.RULES, **changed})
        assert rules.sha256("claims", 5) != before
        monkeypatch.undo()


def test_smallest_effects_are_of_metrics_that_some_model_has() -> None:
    """Else one stands in the rules and decides nothing."""
    models = [compose.choice("model", name)["model"]["declares"] for name in compose.choices("model")]
    known = {metric for declared in models for metric in declared.get("metrics", [])}
    named = {metric for entry in rules.RULES["smallest_effects"] for metric in entry.get("metric", [])}
    assert named - known == {"loss"}, "what a model of one's own may log"


@pytest.mark.parametrize("name", artifacts.ids())
def test_shipped_artifacts_are_within_reach_of_their_experiments(name: str) -> None:
    """Loading them relies on it; a user's own is checked each time."""
    artifact = artifacts.read(name)
    artifacts.check_runs(artifact)
    assert artifacts.drawing(artifact)
