"""LN Table 3: skip-thought vectors on seven measures after training, with LN in encoder and decoders and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.curves.series import final
from normbench.papers.claims import Artifact
from normbench.papers.ln2016.fig3 import ARMS, MEASURES, RULES
from normbench.papers.panels import Panel
from normbench.papers.table import Entry, cells, estimate_entry, final_entry, value_entry
from normbench.runs.record import RunRecord

WITHOUT_TRAINING = {"words": "random words", "tfidf": "TF-IDF"}


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """None: a table."""
    return []


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """The paper's columns, its numbers beside ours where the data are its; vectors without training; how far above
    these each arm is, seed by seed.
    """
    at_paper = all(run.fidelity == "paper" for run in runs)
    entries = []
    for group, control, arm, cell in cells(artifact, runs, ARMS, "after training"):
        for (split, metric), (name, factor, unit) in MEASURES.items():
            known = artifact.reference[arm][f"{split}_{metric}"]
            paper = f"{known:g}" if at_paper and not control else ""
            where = (split, "stage", metric)
            entries.append(final_entry(cell, group, arm, name, where, factor, unit, paper))
    rules = {run.seed: run for run in runs if run.arm == RULES}
    if not rules:
        return entries
    for rule, title in WITHOUT_TRAINING.items():
        for (split, metric), (name, factor, unit) in MEASURES.items():
            key = f"{rule}_{split}_{metric}"
            entries.append(value_entry(list(rules.values()), "without training", title, name, key, unit, factor))
    for rule, title in WITHOUT_TRAINING.items():
        for arm in ARMS:
            cell = [run for run in runs if (run.arm, run.control) == (arm, "") and run.seed in rules]
            for (split, metric), (name, factor, unit) in MEASURES.items():
                less = [_less(run, rules[run.seed], rule, split, metric, factor) for run in cell]
                shown = "points" if unit == "%" else unit
                entries.append(estimate_entry(less, f"after training, less {title}", arm, name, shown))
    return entries


def _less(run: RunRecord, rules: RunRecord, rule: str, split: str, metric: str, factor: float) -> float | None:
    """What a trained run has less what a rule has with the same seed; None where either is not there."""
    value = final(run, split, "stage", metric)
    key = f"{rule}_{split}_{metric}"
    found = next((float(record[key]) for record in rules.records if key in record), None)
    return None if value is None or found is None or run.status != "done" else factor * (value - found)
