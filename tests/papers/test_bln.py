"""Tables, figures and words of the BLN artifacts, from runs that are made up so that the answers are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from normbench.config import plan
from normbench.draw import tables
from normbench.papers import artifact as artifacts
from normbench.papers.parts import PartResult
from normbench.runs.run import Run
from normbench.stats.statistics import kendall

GRID = ["".join(letters) for letters in itertools.product("TF", repeat=4)]
# training loss of every epoch: the factor 1/sqrt(d) makes it 10 % less, statistics per position change nothing
LOSS = {"bln": 0.9, "bn": 1.0, "bn-scaled": 0.9, "bn-pos": 1.0, "bn-pos-scaled": 0.9}
ERROR = {"bn-before": 0.58}  # of the others 0.6


def named(words: str) -> dict[str, str]:
    """`TTFF`, `eval_stats=batch` as records have it."""
    option, equals, value = words.partition("=")
    return {option: value} if equals else {"configuration": words}


def lag(variant: str) -> float:
    """Of the four groups FT has the lowest loss, then FF, TT, TF; within one as in GRID."""
    if variant not in GRID:
        return 0.5
    return GRID.index(variant) / 1000 + 0.1 * ("FT", "FF", "TT", "TF").index(variant[:2])


def runs(name: str, seeds: int, only: Sequence[str] = (), controls: bool = False) -> list[Run]:
    """Of seeds 1 to `seeds`, whichever are planned."""
    made = []
    for spec in plan.artifact_specs(f"bln2022/{name}", "paper", seeds, only, controls, limited=False):
        records: list[dict[str, Any]] = []
        asked = spec.config["eval"]
        for epoch in range(4):
            place, nll = {"epoch": epoch, "step": epoch}, LOSS.get(spec.arm, 1.2)
            if epoch:
                records.append({**place, "split": "train", "mode": "running", "nll": nll, "error": 0.5 - epoch / 100})
            for split in ("train", "valid", "test"):
                usual = {"nll": 2.0 + (epoch - 2) ** 2, "error": ERROR.get(spec.arm, 0.6)}
                records.append({**place, "split": split, "mode": "eval", **usual})
                for variant in asked["variants"] if split != "train" else []:
                    worse = lag(variant)
                    value = usual["nll"] + worse + spec.seed / 10
                    ours = {"variant": named(variant), "nll": value, "error": 0.6 + worse / 10}
                    records.append({**place, "split": split, "mode": "eval", **ours})
        for variant, k in itertools.product(["", *asked["reshuffled"]], range(1, 1 + asked["reshuffles"])):
            shuffled = {"order": k, "nll": 2.0 + k, "error": 0.5 + k / 100}
            shuffled |= {"variant": named(variant)} if variant else {}
            records.append({"epoch": 2, "step": 2, "split": "test", "mode": "eval", **shuffled})
        # the RNN counts errors at two thresholds
        records = [{**r, "error_published": r["error"] + 0.1} if "error" in r else r for r in records]
        # as long as was planned: the last evaluation stands for the rest
        records += [{**r, "epoch": spec.epochs, "step": spec.epochs} for r in records if r["epoch"] == 3]
        labels, config = spec.labels(), spec.stored_config()
        made.append(
            Run(spec.id, status="done", seed=spec.seed, epochs=spec.epochs, records=records, config=config, **labels)
        )
    return made


@pytest.mark.parametrize("name", ["fig4", "table1", "ablation", "fig6", "table2"])
@pytest.mark.parametrize("seeds", [0, 1, 2])
def test_every_table_can_be_drawn(name: str, seeds: int) -> None:
    artifact = artifacts.load(f"bln2022/{name}")
    found = runs(name, seeds) if seeds else []
    entries = artifacts.table(artifact, found)
    text = tables.markdown(entries)
    assert tables.as_csv(entries).count("\n") == len(entries) + 1
    assert ("not run" in text) == (not found) and "nan" not in text
    panels = artifacts.panels(artifact, found)
    assert panels and all(bool(panel.lines) == bool(found) for panel in panels)


def test_table_1_says_its_order() -> None:
    artifact = artifacts.load("bln2022/table1")
    entries = {(e.group, e.row, e.quantity): e for e in artifacts.table(artifact, runs("table1", 3))}
    best = entries["A: 20 %", "FTFF", "test NLL"]
    assert best.mean == pytest.approx(2.0 + 0.011 + 0.2) and best.n == 3, "of seeds 1 to 3"
    assert entries["A: 20 %", "FTFF", "rank by test NLL"].paper == "10"
    assert entries["A: 20 %", "FTFF", "rank by test NLL"].literal == "4", "after FTTT, FTTF, FTFT"
    ours = [entry for (group, _, column), entry in entries.items() if (group, column) == ("A: 20 %", "test NLL")]
    assert len(ours) == 16 and [entry.mean for entry in ours] == sorted(entry.mean for entry in ours)
    assert [entry.note for entry in ours].count("best") == 1 and ours[0].note == "best"
    assert ours[0].text().endswith("(best, n = 3)")
    groups = entries["contrasts and orders", "groups, best first", "A: 20 %"]
    assert (groups.literal, groups.paper) == ("FT, FF, TT, TF", "TT, FF, FT, TF")
    effect = entries["contrasts and orders", "test NLL, E_B = T less F", "A: 20 %"].mean
    assert effect == pytest.approx(0.2 - 0.008), "groups TT, TF are 0.2 behind FT, FF on the mean, and first in GRID"
    tau = entries["contrasts and orders", "Kendall's tau with the paper, 4 groups", "A: 20 %"].mean
    assert tau == pytest.approx(kendall([1, 2, 3, 4], [3, 2, 1, 4]))
    assert entries["contrasts and orders", "Kendall's tau between seeds, mean over pairs", "B: whole"].mean == 1
    error = entries["BLN, BN and LN", "BLN, best on test (as published)", "B: whole, test error"]
    assert (error.mean, error.paper, error.n) == (pytest.approx(60.08), "44.2 (authors' log)", 3), "FTTT"
    assert entries["BLN, BN and LN", "LN", "A: 20 %, test error"].mean == pytest.approx(60)


def test_the_figure_of_table_1_rises_where_the_order_is_the_papers() -> None:
    artifact = artifacts.load("bln2022/table1")
    small, _ = artifacts.panels(artifact, runs("table1", 2))
    assert list(small.categories) == list(artifact.reference["test_loss"][0.2]), "points with names, and no line"
    theirs = [value for _, value in small.references[0].points]
    assert theirs == sorted(theirs) and sum(theirs) == pytest.approx(0)
    (line,) = small.lines
    ours = [point.mean for point in line.points]
    assert ours[0] == pytest.approx(lag("TTFF") - sum(map(lag, GRID)) / 16) and ours != sorted(ours)


def test_the_orders_of_a_test_set_have_a_deviation() -> None:
    artifact = artifacts.load("bln2022/fig4")
    entries = {(e.group, e.row, e.quantity): e for e in artifacts.table(artifact, runs("fig4", 2))}
    quantity = "std over test-set orders"
    assert entries["batch 25", "bln", quantity].mean == pytest.approx(math.sqrt(2.5)), "1 to 5 points"
    assert entries["batch 25", "ln", quantity].text() == entries["batch 1", "bln", quantity].text() == "–"
    assert entries["batch 25", "bln", "test error, by validation"].mean == pytest.approx(60.08), "FTTT"


def test_fig_6_counts_errors_at_the_authors_threshold_and_at_the_proper_one() -> None:
    artifact = artifacts.load("bln2022/fig6")
    found = runs("fig6", 2)
    entries = {(e.group, e.row, e.quantity): e for e in artifacts.table(artifact, found)}
    of = {(row, q): e for (group, row, q), e in entries.items() if group == "batch 25"}
    assert of["bn", "test error, default evaluation"].mean == pytest.approx(70)
    assert of["bn", "test error, logits above 0, default evaluation"].mean == pytest.approx(60)
    assert of["bln", "test error, by test"].paper == "22.9 (authors' log)"
    assert of["none", "test error, by test"].paper == "–"
    trained = of["bln", "training error, last epoch"]
    assert trained.mean == pytest.approx(57) and trained.paper == (
        "0.3 (authors' log) (earlier log, 5 epochs: 3.8) (earlier log, 5 epochs: 2.4)"
    )
    assert ("batch 1", "bn-pos-scaled") not in {key[:2] for key in entries}, "its output would be its shift"


def test_logs_of_the_authors_lie_below_ours() -> None:
    for name, counts in (("fig4", {25: 6, 1: 3}), ("fig6", {25: 9, 1: 6})):
        artifact = artifacts.load(f"bln2022/{name}")
        for panel in artifacts.panels(artifact, runs(name, 1)):
            batch = int(panel.column.removeprefix("batch size "))
            assert len(panel.references) == counts[batch], panel.quantity.name
            # one value an epoch; as errors where they logged accuracies
            for reference in panel.references:
                assert [x for x, _ in reference.points] == list(range(1, len(reference.points) + 1))
    panels = {(p.column, p.quantity.metric, p.quantity.split): p for p in artifacts.panels(artifact, [])}
    errors = panels["batch size 25", "error_published", "train"].references
    assert errors[0].name == "authors' log, BLN" and errors[0].points[-1] == (10.0, pytest.approx(1 - 0.9973))
    assert len({log.name for log in errors}) == len({(log.dash, log.colour) for log in errors}) == 9, "each by itself"


def test_each_arm_at_the_learning_rate_that_is_best_on_validation() -> None:
    artifact = artifacts.load("bln2022/ablation")
    made = runs("ablation", 2, ["bln", "bn", "bn-pos", "train.batch_size=25"], controls=True)
    better = {("bln", "lr-high"): 0.9, ("bn", "lr-low"): math.nan}  # of the validation loss and the test error

    def changed(run: Run) -> Run:
        factor = better.get((run.arm, run.control), 1.0)
        records = [
            {**r, "nll": r["nll"] * factor, "error": r["error"] * factor} if r["split"] != "train" else r
            for r in run.records
        ]
        return replace(run, records=records)

    entries = artifacts.table(artifact, [changed(run) for run in made])
    rates = {(e.row, e.quantity): e.text() for e in entries if "learning rates" in e.group}
    assert {row for row, _ in rates} == {"bln", "bn"}, "the others have no runs at other rates"
    assert rates["bln", "best on validation"] == "three times the rate"
    assert rates["bln", "test error there"].startswith("54") and rates[
        "bln", "test error, the authors' rate"
    ].startswith("60")
    assert rates["bn", "best on validation"] == "the authors' rate"


def reported(name: str, runs: list[Run]) -> dict[str, dict[str, PartResult]]:
    """By control and id."""
    results = artifacts.reported(artifacts.load(f"bln2022/{name}"), runs)
    return {control: {part.id: part for part in parts} for control, parts in results.items()}


def test_what_explains_it_is_reported() -> None:
    parts = reported("ablation", runs("ablation", 3, controls=True))
    of_bn = parts[""]["BN with the factor 1/√d against BN, mean training loss, batch 25"]
    assert (of_bn.effect, of_bn.n) == (pytest.approx(math.log(0.9)), 3)
    assert parts[""]["BN per position against BN, mean training loss, batch 25"].effect == pytest.approx(0)
    assert parts[""]["BLN against BLN before tanh, test error, batch 25"].n == 3
    adopted = "BLN trained on with TTFF against BLN with TTFF at evaluation alone, test error, batch 25"
    assert parts[""][adopted].effect == pytest.approx(-2.03)
    assert parts["lr-low"]["BLN against LN, mean training loss, batch 25"].n == 3
    at_last = reported("fig4", runs("fig4", 3))[""]["BLN against BN, test error at the last epoch, batch 25"]
    assert at_last.effect == pytest.approx(0.08), "FTTT"
    assert all(not part.n for part in reported("fig6", [])[""].values())


def test_the_best_configurations_are_those_that_the_seeds_do_not_tell_apart() -> None:
    from normbench.papers.bln2022 import configurations

    values = {"FFFF": [1.0, 1.2, 1.4], "FFFT": [1.1, 1.0, 1.7], "TTTT": [2.0, 2.2001, 2.4], "TTTF": [1.3, None, 1.2]}
    ranks = {"FFFF": 1, "FFFT": 2, "TTTT": 3}  # of one that lacks a value there is none
    assert configurations._against_best(values, ranks) == {"FFFF": "best", "FFFT": "not told apart"}
    assert configurations._against_best({}, {}) == {}
