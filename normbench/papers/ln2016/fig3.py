"""LN Fig. 3: skip-thought vectors on downstream tasks against updates, with LN in encoder and decoders and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from normbench.papers.claims import Artifact
from normbench.papers.rules_file import ALPHA
from normbench.runs.run import Run
from normbench.stats.series import final, series
from normbench.stats.statistics import significant_signs

ARMS = {"none": "Skip-Thoughts", "ln": "Skip-Thoughts + LN"}
RULES = "rules"
# in the order of Table 3: split and metric; name, factor and unit
MEASURES = {
    ("sick", "pearson"): ("SICK r", 1.0, ""),
    ("sick", "spearman"): ("SICK ρ", 1.0, ""),
    ("sick", "mse"): ("SICK MSE", 1.0, ""),
    **{(name, "accuracy"): (name.upper(), 100.0, "%") for name in ("mr", "cr", "subj", "mpqa")},
}
LESS_IS_BETTER = ("sick", "mse")
Measure = tuple[str, str]  # split and metric


def caution(artifact: Artifact, runs: Sequence[Run]) -> str:
    """Where trained vectors are worse than those of words counted, which learn nothing."""
    rules = {run.seed: run for run in runs if run.arm == RULES}
    texts = []
    for arm, title in ARMS.items():
        differences = {
            measure: [value for run in own(runs, arm) if (value := less(run, rules, "tfidf", *measure)) is not None]
            for measure in MEASURES
        }
        if names := worse(differences):
            texts.append(f"{title} on {', '.join(names)}")
    return f"Trained vectors are worse than TF-IDF vectors, which learn nothing: {'; '.join(texts)}." if texts else ""


def own(runs: Sequence[Run], arm: str) -> list[Run]:
    """The whole runs of an arm at the paper's setting."""
    return [run for run in runs if (run.arm, run.control, run.status) == (arm, "", "done")]


def start(run: Run, split: str, metric: str) -> float | None:
    """The value before training, as at the checkpoints."""
    return dict(series(run, split, "along", metric, x="step")).get(0)


def worse(differences: Mapping[Measure, Sequence[float]]) -> list[str]:
    """The measures on which these differences are worse than 0 by t over seeds.

    The measures are one family: a false word about any has a chance of ALPHA at most.
    """
    signs = significant_signs(list(differences.values()), ALPHA)
    return [
        MEASURES[measure][0]
        for measure, sign in zip(differences, signs, strict=True)
        if sign and (sign > 0) == (measure == LESS_IS_BETTER)
    ]


def less(run: Run, rules: Mapping[int, Run], rule: str, split: str, metric: str) -> float | None:
    """What a trained run has less what a rule has with the same seed; None where either is not there."""
    value = final(run, split, "stage", metric)
    key = f"{rule}_{split}_{metric}"
    records = rules[run.seed].records if run.seed in rules else ()
    reference = next((float(record[key]) for record in records if key in record), None)
    return None if value is None or reference is None else value - reference
