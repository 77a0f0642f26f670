"""LN Fig. 2: validation error of the attentive reader against updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from normbench.draw.panels import Look, Panel, Quantity, Reference
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS, EXTRA_COLOURS
from normbench.draw.tables import Entry, estimate_entry, levels_by_seed, percents, time_entry, within
from normbench.papers.claims import Artifact
from normbench.papers.rules_file import ALPHA
from normbench.runs.run import Run
from normbench.stats.series import at_epoch
from normbench.stats.statistics import significant_signs, t_interval

ARMS = {
    "none": Look("LSTM", COLOURS["none"]),
    "bn-lstm": Look("BN-LSTM", COLOURS["batch"]),
    "bn-everywhere": Look("BN-everywhere", COLOURS["batch_layer"]),
    "ln": Look("LN-LSTM", COLOURS["layer"]),
    "ln-gain01": Look("LN-LSTM, gain 0.1", COLOURS["layer"], in_paper=False),
    "bn-gain1": Look("BN-LSTM, gain 1 (ours)", COLOURS["batch"], in_paper=False),
    "bn-lstm-masked": Look("BN-LSTM without padding (ours)", EXTRA_COLOURS[0], in_paper=False),
    "bn-everywhere-masked": Look("BN-everywhere without padding (ours)", EXTRA_COLOURS[2], in_paper=False),
}
ERROR = ("valid", "eval", "error")
SHARES = (0.5, 0.8, 0.95)
RULES = {
    "random": "any entity of the document",
    "frequent": "the most frequent one",
    "not_in_question": "of those that the question does not have",
    "distance": "word distance",
    "window": "bag of words in a window",
}


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    """One panel, with the curves of the BN paper's authors, as in LN's figure, for runs of the paper's protocol."""
    quantity = Quantity("Validation error", *ERROR, x="Update", clock="step")
    ours = all_panels([run for run in runs if run.arm != "rules"], ARMS, {"attentive reader": {}}, [quantity])
    if not _of_the_paper(runs):
        return ours
    curves = artifact.reference["curves"]
    theirs = [
        Reference(
            f"authors' curve, {name}",
            [(1000.0 * thousands, error) for thousands, error in points],
            "dot",
            next(style.colour for style in ARMS.values() if style.name == name),
        )
        for name, points in curves.items()
    ]
    return [replace(panel, references=theirs) for panel in ours]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Lowest errors and times to levels per arm, and what rules make of the same questions that learn nothing."""
    uncontrolled = [run for run in runs if not run.control]
    levels = {share: levels_by_seed(uncontrolled, ARMS, ERROR, share) for share in SHARES}
    lowest = artifact.reference["lowest"] if _of_the_paper(runs) else {}
    entries = []
    for arm, style in ARMS.items():
        cell, row = within(uncontrolled, {"arm": arm}), ("readers", style.name)

        def best(split: str, variant: str | None = None, cell: Sequence[Run] = cell) -> list[float | None]:
            return percents([at_epoch(run, split, "error", "own" if variant else "best", variant) for run in cell])

        paper = f"{100 * lowest[style.name]:.1f}" if style.name in lowest else ""
        entries.append(estimate_entry(best("valid"), *row, "lowest validation error", "%", paper))
        entries += [
            time_entry(cell, *row, f"to {100 * share:g} % of the way", ERROR, levels[share], clock="step")
            for share in SHARES
        ]
        entries.append(estimate_entry(best("test"), *row, "test error there", "%"))
        if arm.startswith("bn"):
            running = estimate_entry(best("valid", "eval_stats=running"), *row, "lowest by running statistics", "%")
            entries.append(running)
        else:
            entries.append(Entry(*row, "lowest by running statistics", "%", n=1, literal="–"))
    return entries + _rules([run for run in uncontrolled if run.arm == "rules"])


def _rules(runs: Sequence[Run]) -> list[Entry]:
    """Errors of rules, of which the data's draw alone makes the spread."""
    return [
        estimate_entry(
            percents([1 - float(record[rule]) for run in runs for record in run.records if record["split"] == split]),
            "rules that learn nothing", name, f"{named} error", "%",
        )
        for rule, name in RULES.items()
        for split, named in (("valid", "validation"), ("test", "test"))
    ]  # fmt: skip


def caution(artifact: Artifact, runs: Sequence[Run]) -> str:
    """Where no arm answers more test questions than the best rule that learns nothing."""
    _, bars = _counted(runs)
    errors_by_arm = {arm: errors for arm in ARMS if (errors := _test_errors(runs, arm))}
    if not bars or not errors_by_arm:
        return ""
    best = min(bars, key=bars.__getitem__)
    above = [[error - bars[best] for error in errors] for errors in errors_by_arm.values()]
    if any(sign is None or sign < 0 for sign in significant_signs(above, ALPHA)):
        return ""
    text = ", ".join(
        f"{ARMS[arm].name} {t_interval(errors).mean:.1f} %"
        for arm, errors in errors_by_arm.items()
        if ARMS[arm].in_paper
    )
    return (
        f"No trained network answers more test questions than the rule '{RULES[best]}', which learns nothing and errs "
        f"in {bars[best]:.1f} %: {text}."
    )


def _counted(runs: Sequence[Run]) -> tuple[Mapping[str, Any], dict[str, float]]:
    """What rules make of the test questions, and the errors, in %, of the two that read most of them."""
    counted = [record for run in runs if run.arm == "rules" for record in run.records if record["split"] == "test"]
    if not counted:
        return {}, {}
    return counted[0], {rule: 100 * (1 - float(counted[0][rule])) for rule in ("window", "distance")}


def _test_errors(runs: Sequence[Run], arm: str) -> list[float]:
    errors = percents([at_epoch(run, "test", "error", "best") for run in within(runs, {"arm": arm})])
    return [error for error in errors if error is not None]


def _of_the_paper(runs: Sequence[Run]) -> bool:
    return any(run.fidelity == "paper" for run in runs)
