"""LN Table 3: skip-thought vectors on seven measures after training, with LN in encoder and decoders and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from normbench.draw.tables import Entry, estimate_entry, value_entry
from normbench.papers import default_artifact
from normbench.papers.claims import Artifact
from normbench.papers.ln2016.fig3 import (
    ARMS,
    LESS_IS_BETTER,
    MEASURES,
    RULES,
    caution,
    less,
    own,
    start,
)
from normbench.runs.run import Run

__all__ = ["caution", "table"]
WITHOUT_TRAINING = {"words": "random words", "tfidf": "TF-IDF"}
AFTER = "after training"
IN_PAPER_ALONE = {"original": "Skip-Thoughts, original", "ln-1.7M": "Skip-Thoughts + LN, 1.7M updates"}


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """The paper's columns, with its numbers for runs on its data; the same before training, and of vectors that were
    never trained; the difference of each arm to the latter, seed by seed.
    """
    entries = default_artifact.table(artifact, runs)
    for arm, title in IN_PAPER_ALONE.items() if runs and all(run.fidelity == "paper" for run in runs) else ():
        for (split, metric), (name, _, unit) in MEASURES.items():
            value = artifact.reference[arm][f"{split}_{metric}"]
            entries.append(Entry(AFTER, title, name, unit, n=1, paper=f"{value:g}", literal="–"))
    for arm in ARMS:
        for measure, (name, factor, unit) in MEASURES.items():
            before = [_times(factor, start(run, *measure)) for run in own(runs, arm)]
            entries.append(estimate_entry(before, "before training, one C", arm, name, unit))
    rules = {run.seed: run for run in runs if run.arm == RULES}
    return entries + (_without(artifact, runs, rules) if rules else [])


def _without(artifact: Artifact, runs: Sequence[Run], rules: Mapping[int, Run]) -> list[Entry]:
    entries, never = [], "without training"
    of_the_sets = all(run.fidelity != "smoke" for run in runs)
    for (split, _), (name, factor, unit) in MEASURES.items():
        share = artifact.reference["frequent"].get(split) if of_the_sets else None
        text = "–" if share is None else f"{factor * share:.2f}"
        entries.append(Entry(never, "most frequent class", name, unit, n=1, literal=text))
    for rule, title in WITHOUT_TRAINING.items():
        for (split, metric), (name, factor, unit) in MEASURES.items():
            key = f"{rule}_{split}_{metric}"
            entries.append(value_entry(list(rules.values()), never, title, name, key, unit, factor))
    for rule, title in WITHOUT_TRAINING.items():
        for arm in ARMS:
            for measure, (name, factor, unit) in MEASURES.items():
                apart = [_times(factor, less(run, rules, rule, *measure)) for run in own(runs, arm)]
                column = f"{name} (less is better)" if measure == LESS_IS_BETTER else name
                column_unit = "points" if unit == "%" else unit
                entries.append(estimate_entry(apart, f"{AFTER}, less {title}", arm, column, column_unit))
    return entries


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value
