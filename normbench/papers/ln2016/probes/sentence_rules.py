"""Downstream tasks with sentence vectors without training: random word vectors, and TF-IDF."""

from __future__ import annotations

from normbench import data as datasets
from normbench.config.spec import Spec
from normbench.sentences import evaluate, yardsticks

Record = dict[str, float | str]


def compute(spec: Spec) -> list[Record]:
    """A record of `words_sick_pearson`, `words_mr_accuracy` and so on, from sums of random word vectors drawn by the
    seed, and `tfidf_sick_pearson` and so on; C by nested cross-validation, as after training.
    """
    config = spec.config
    encoders = {
        "words": yardsticks.bag_of_words(config["model"]["size"], spec.seed),
        "tfidf": yardsticks.tf_idf,
    }
    record: Record = {}
    tasks = datasets.load(config["data"], seed=spec.seed).tasks
    assert tasks is not None
    with tasks() as folder:
        for name, encode in encoders.items():
            for evaluation in evaluate(encode, folder, True, config["eval"]["tasks"], name):
                split = evaluation.record.pop("split")
                record |= {f"{name}_{split}_{metric}": value for metric, value in evaluation.record.items()}
    return [record]
