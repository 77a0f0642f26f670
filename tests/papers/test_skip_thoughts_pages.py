"""What LN Fig. 3 and Table 3 report and have in rows, from runs that are made up so that the answers are known."""

from __future__ import annotations

from typing import Any

import pytest

from normbench.draw.tables import Entry
from normbench.papers import artifact as artifacts
from normbench.papers import describe
from normbench.papers.ln2016.fig3 import MEASURES, worse
from normbench.runs.run import Run

LAST = 3000
START = {"pearson": 0.5, "spearman": 0.5, "mse": 0.8, "accuracy": 0.6}


def run(arm: str, seed: int, gain: float, of_c: float = 0.0, fidelity: str = "proxy") -> Run:
    """Better by `gain` after training than before in everything; nested C adds `of_c`. Each seed a little more."""
    records: list[dict[str, Any]] = []
    for split, metric in MEASURES:
        sign = -1 if metric == "mse" else 1
        value = START[metric] + sign * (gain + seed / 1000)
        chosen = of_c + seed / 10**4 if metric == "accuracy" else 0.0
        for step, mode, number in (
            (0, "along", START[metric]),
            (LAST, "along", value),
            (LAST, "stage", value + chosen),
        ):
            records.append({"split": split, "mode": mode, "step": step, "epoch": 0, metric: number})
    return made(arm, seed, records, fidelity)


def rules(seed: int, fidelity: str = "proxy") -> Run:
    """Random words are as good as no training, TF-IDF is better than any training here."""
    found = {
        f"{rule}_{split}_{metric}": START[metric] + more * (-1 if metric == "mse" else 1)
        for rule, more in (("words", 0.0), ("tfidf", 0.3))
        for split, metric in MEASURES
    }
    return made("rules", seed, [{"split": "probe", "mode": "exact", "step": 0, "epoch": 0, **found}], fidelity)


def made(arm: str, seed: int, records: list[dict[str, Any]], fidelity: str) -> Run:
    return Run(
        f"{arm}{seed}", status="done", seed=seed, epochs=0, steps=LAST, records=records, config={},
        experiment="ln2016/fig3", arm=arm, fidelity=fidelity, control="", axes={},
    )  # fmt: skip


def campaign(fidelity: str = "proxy") -> list[Run]:
    """`none` loses by training, LN gains; one C costs `none` three points, LN nothing."""
    seeds = range(1, 6)
    return [
        *(run("none", seed, -0.1, 0.03, fidelity) for seed in seeds),
        *(run("ln", seed, 0.1, 0.0, fidelity) for seed in seeds),
        *(rules(seed, fidelity) for seed in seeds),
    ]


def rows(fidelity: str) -> dict[tuple[str, str, str], Entry]:
    artifact = artifacts.load("ln2016/table3")
    entries = artifacts.table(artifact, campaign(fidelity))
    return {(entry.group, entry.row, entry.quantity): entry for entry in entries}


EVERY = "SICK r, SICK ρ, SICK MSE, MR, CR, SUBJ, MPQA"


def test_what_training_brings_is_reported() -> None:
    parts = {part.id: part for part in artifacts.reported(artifacts.load("ln2016/fig3"), campaign())[""]}
    assert describe.size(parts["Skip-Thoughts, MR, last less first"], -9.7) == "9.7 points worse"
    assert parts["Skip-Thoughts, MR, last less first"].effect == pytest.approx(-9.7)
    assert parts["Skip-Thoughts + LN, SICK MSE, last less first"].effect == pytest.approx(-0.103)


def test_the_caution_names_where_training_is_worse_than_counting() -> None:
    text = artifacts.caution(artifacts.load("ln2016/fig3"), campaign())
    assert text.endswith(f": Skip-Thoughts on {EVERY}; Skip-Thoughts + LN on {EVERY}.")
    assert artifacts.caution(artifacts.load("ln2016/table3"), []) == ""


def test_a_measure_among_seven_is_not_told_by_an_interval_of_its_own() -> None:
    mr, nothing = ("mr", "accuracy"), [-1.0, 1.0, -2.0, 2.0, 0.5]
    differences = {**dict.fromkeys(MEASURES, nothing), mr: [-1.0, -2.0, -4.0, -1.0, -3.0]}
    assert worse({mr: differences[mr]}) == ["MR"]
    assert worse(differences) == [] and worse({("sick", "mse"): differences[mr]}) == []


def test_rows_before_training_and_of_the_larger_class() -> None:
    found = rows("proxy")
    before = found["before training, one C", "none", "CR"]
    assert before.mean == pytest.approx(60) and before.n == 5
    assert found["without training", "most frequent class", "CR"].text() == "63.76"
    assert found["after training, less random words", "ln", "SICK MSE (less is better)"].mean == pytest.approx(-0.103)
    assert rows("smoke")["without training", "most frequent class", "CR"].text() == "–"  # other sentences


def test_the_papers_other_rows_stand_beside_its_own_protocol_alone() -> None:
    longer = ("after training", "Skip-Thoughts + LN, 1.7M updates", "MR")
    assert rows("paper")[longer].paper == "79.4"
    assert longer not in rows("proxy")
