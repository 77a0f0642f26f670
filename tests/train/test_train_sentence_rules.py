"""Sentence vectors without training: as a run, and in the table beside trained ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normbench import data as datasets
from normbench.config import plan
from normbench.papers import artifact as artifacts
from normbench.papers.ln2016 import table3
from normbench.runs.run import Run
from normbench.sentences import evaluate, yardsticks
from normbench.train import probes

TABLE3 = artifacts.load("ln2016/table3")


@pytest.mark.slow
def test_they_are_what_a_user_computes_of_the_same_sets() -> None:
    spec = plan.experiment_spec(TABLE3.experiment, "rules", "smoke", ["seed=2"])
    spec = replace(spec, config={**spec.config, "eval": {**spec.config["eval"], "tasks": ["sick", "mr"]}})
    (found,) = probes.compute(spec)
    tasks = datasets.load(spec.config["data"], seed=2).tasks
    assert tasks is not None
    with tasks() as folder:
        for name, encode in {"words": yardsticks.bag_of_words(16, 2), "tfidf": yardsticks.tf_idf}.items():
            for one in evaluate(encode, folder, True, ["sick", "mr"]):
                for metric in one.record.keys() - {"split"}:
                    assert found[f"{name}_{one.record['split']}_{metric}"] == one.record[metric]
    assert found["words_mr_accuracy"] != found["tfidf_mr_accuracy"]


def test_the_table_says_how_far_above_them_each_arm_is() -> None:
    keys = {f"{rule}_{split}_{metric}": 0.5 for rule in ("words", "tfidf") for split, metric in table3.MEASURES}
    runs = []
    for seed in (1, 2):
        probe = {
            "epoch": 0,
            "step": 0,
            "split": "probe",
            "mode": "exact",
            **keys,
            "words_mr_accuracy": 0.5 + seed / 100,
        }
        runs.append(Run(f"r{seed}", TABLE3.experiment, "rules", seed, "done", 1, records=[probe]))
        for arm, of in (("none", 0.6), ("ln", 0.7)):
            records = [
                {"epoch": 1, "step": 9, "split": split, "mode": "stage", metric: of + seed / 100}
                for split, metric in table3.MEASURES
            ]
            runs.append(Run(f"{arm}{seed}", TABLE3.experiment, arm, seed, "done", 1, records=records, steps=9))
    entries = table3.table(TABLE3, runs)
    by_place = {(e.group, e.row, e.quantity): e for e in entries}
    words = "after training, less random words"
    assert by_place[words, "ln", "MR"].mean == pytest.approx(20) and by_place[words, "ln", "MR"].unit == "points"
    assert by_place[words, "none", "MR"].interval == pytest.approx((10, 10)), "seed by seed"
    assert by_place["after training, less TF-IDF", "ln", "SICK r"].mean == pytest.approx(0.215)
    assert by_place["without training", "random words", "MR"].mean == pytest.approx(51.5)
    alone = table3.table(TABLE3, [run for run in runs if run.arm != "rules"])
    assert {entry.group for entry in alone} == {"after training", "before training, one C"}
