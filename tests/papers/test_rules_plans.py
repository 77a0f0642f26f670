"""What is fixed in advance: smallest effects, seeds, what no plan could decide, the published claims."""

import math
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from judged import artifact
from ruled import claim_data, direction, fig6_part, seen, written

from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import rules
from normbench.papers.claims import Artifact, Delta, Endpoint, load
from normbench.runs.run import Run
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
    assert rules.smallest_effect(replace(part, delta=Delta(7, "w")), data) == 7
    shifted = replace(part, delta=Delta(None, "shifted by a quarter"))
    assert rules.smallest_effect(shifted, data) is None
    rules.check_smallest_effect(shifted, None, "here")
    assert rules.smallest_effect(replace(part, kind="equivalence", within=1.0), data) is None
    if expected is None:
        with pytest.raises(
            NormbenchError, match=r"^here: part 'p': rules.yaml has no smallest effect for .*why: \.\.\.\}"
        ):
            rules.check_smallest_effect(part, expected, "here")
    else:
        rules.check_smallest_effect(part, expected, "here")


def test_the_smallest_effect_is_that_of_the_data_of_the_cells_of_a_part() -> None:
    planned = artifacts.Plan(artifacts.load("ours/today"), "reduced")

    def effect(*arms: str) -> float | None:
        end = Endpoint("chosen", split="test", mode="eval", metric="nll", epoch="best")
        cells = tuple((weight, {"arm": arm}) for weight, arm in zip((1.0, -1.0), arms, strict=True))
        return planned.smallest_effect(direction(endpoint=end, contrast=cells, scale="linear"))

    assert effect("mnist-layer", "mnist-dyt") == 0.005
    assert effect("imdb-layer", "imdb-dyt") == effect("imdb-layer", "recall-layer") == 0.02
    with pytest.raises(NormbenchError, match=r"compares imdb and mnist, .*delta: \{is: 0.1"):
        effect("imdb-layer", "mnist-layer")


# --- what no plan could decide is refused when it is read -------------------------------------------------------------


@pytest.mark.parametrize(("k", "one", "two"), [(1, 6, 7), (2, 7, 8), (6, 8, 9)])
def test_fewest_pairs_of_the_sign_test(k: int, one: int, two: int) -> None:
    assert (rules.fewest_pairs(0.05 / k), rules.fewest_pairs(0.025 / k)) == (one, two)
    part = direction(test="sign")
    for n, alpha in ((one, 0.05), (two, 0.025)):
        for pairs, expected in ((n, "holds"), (n - 1, "undecided")):
            values = [1.0 + 0.1 * seed for seed in range(pairs)]
            assert rules.part_word(seen(part, values), alpha / k) == expected


@pytest.mark.parametrize(("k", "least"), [(1, 6), (2, 7), (6, 8)])
def test_a_plan_with_fewer_pairs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int, least: int
) -> None:
    parts = [fig6_part(f"p{place}", test="sign", expect="negative") for place in range(k)]
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    for seeds in (least, least - 1):
        planned = {"from": 2, "to": 1 + seeds}
        written(tmp_path, claim_data("direction", *parts, experiment="ln2016/fig6", seeds=planned))
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

    def sha256(of: Artifact) -> str:
        return artifacts.Plan(of, "paper").sha256(of.claims[0])

    hashes = {sha256(one) for one in (*other, artifact(direction()))}
    cells[0] = (cells[0][0], range(1, 10))
    assert len(hashes | {sha256(artifact(direction()))}) == 4


def test_looks_beyond_the_planned_seeds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    part = fig6_part("p", test="sign", expect="negative")
    late, few = r"C1: looks: .*20 seeds, ln2016/fig6 plans 10", r"plans 6 of the 7 seeds"  # a half of 5 % needs 7
    for looks, refused in (([5, 20], late), ({"at": [5, 6], "spending": "pocock"}, few), ([5, 10], "")):
        written(tmp_path, claim_data("direction", part, experiment="ln2016/fig6", looks=looks))
        with pytest.raises(NormbenchError, match=refused) if refused else nullcontext():
            assert artifacts.load("fig").claims


# --- the best evaluation ----------------------------------------------------------------------------------------------


def test_the_evaluation_before_training_is_never_the_best() -> None:
    config = {"monitor": {"split": "valid", "metric": "nll", "goal": "min"}}
    run = Run("r", "x/fig", "ln", 1, "done", 2, steps=20, config=config, records=[
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


def test_the_hash_of_a_claim_is_of_the_rules_and_smallest_effects_that_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that an entry for another paper refuses nobody's verdicts."""
    artifact = artifacts.read("ln2016/fig6")

    def hashes() -> dict[str, str]:
        return {claim.id: artifacts.Plan(artifact, "paper").sha256(claim) for claim in artifact.claims}

    before = hashes()
    invented = {"of": "a score", "endpoint": ["final"], "metric": ["bleu"], "scale": ["linear"], "is": 0.5}
    own = rules.RULES["smallest_effects"]
    for changed, others in (
        ({"smallest_effects": [*own, invented]}, set()),
        ({"smallest_effects": [{**own[0], "data": {"mnist": 0.2}}, *own[1:]]}, {"LN-F2"}),  # an error's; LN-F4 has none
        ({"alpha": 0.1}, set(before)),
        ({"version": 99}, set(before)),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(rules, "RULES", {**rules.RULES, **changed})
            assert {name for name, found in hashes().items() if found != before[name]} == others
    assert hashes() == before


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
    assert artifacts.title(name) == artifact.title, "which `list` reads from its line alone"
    artifacts.check_runs(artifact)
    artifacts.table(artifact, []), artifacts.panels(artifact, [])  # its module, if it has one, can be imported
