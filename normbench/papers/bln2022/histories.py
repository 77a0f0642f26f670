"""BLN Figs. 4 and 6: loss and error against epochs, batch 25 left, batch 1 right, and the authors' own logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from normbench.draw.panels import Look, Panel, Reference
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, estimate_entry, final_entry, mean_of_all, percents, spread_entry, within
from normbench.papers import default_artifact
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import at_epoch, in_orders

ARMS = {  # the paper's
    "bln": Look("BLN", COLOURS["batch_layer"]),
    "bn": Look("BatchNorm", COLOURS["batch"]),
    "ln": Look("LayerNorm", COLOURS["layer"]),
}
BATCHES = (25, 1)
RATES = {"lr-low": "a third of the rate", "": "the authors' rate", "lr-high": "three times the rate"}
DASHES = ("dot", "dashdot", "dash")  # of the published logs, then of earlier ones


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    """Training loss and error as in the paper, and the validation loss; below ours the authors' logs."""
    figure = default_artifact.panels(artifact, runs)
    if any(run.fidelity not in ("paper", "reduced") for run in runs):  # of other data
        return figure
    return [replace(panel, references=_logs(artifact, panel)) for panel in figure]


def arms(artifact: Artifact) -> list[str]:
    """Those of the figure."""
    assert artifact.figure
    return [str(line.cell["arm"]) for line in artifact.figure.lines.values()]


def _logs(artifact: Artifact, panel: Panel) -> list[Reference]:
    """The authors' histories of one quantity, published and earlier ones; accuracies as errors."""
    assert artifact.figure
    batch, quantity = artifact.figure.columns[panel.column]["train.batch_size"], panel.quantity
    key = f"{'val' if quantity.split == 'valid' else 'train'}_{'loss' if quantity.metric == 'nll' else 'acc'}"
    references = []
    sources = [name for name in artifact.reference if name.endswith("histories")]
    for source, dash in zip(sources, DASHES, strict=False):
        log = source.replace("histories", "log").replace("_", " ")  # log, earlier log, ...
        for arm, style in ARMS.items():
            values = artifact.reference[source].get(arm, {}).get(batch, {}).get(key, [])
            values = [1 - value for value in values] if key.endswith("_acc") else values
            points = [(float(epoch), float(value)) for epoch, value in enumerate(values, 1)]
            if points:
                references.append(Reference(f"authors' {log}, {style.name}", points, dash, style.colour))
    return references


def table(artifact: Artifact, runs: Sequence[Run], error: str = "error") -> list[Entry]:
    """Final training error; test error and NLL at the lowest validation loss, by what the configuration is chosen."""
    entries = []
    for batch in BATCHES:
        group = f"batch {batch}"
        for arm in arms(artifact):
            cell = cell_of(runs, arm, batch)
            entries.append(
                final_entry(
                    cell, group, arm, "training error, last epoch", ("train", "running", error), 100, "%",
                    _format_paper_error(artifact.reference, arm, batch),
                )
            )  # fmt: skip
            logged = artifact.reference["test"].get(arm, {}).get(batch)
            for name, variant in (
                ("default evaluation", None),
                ("by validation", "best by valid"),
                ("by test", "best by test"),
            ):
                # an arm with one variant has the same value however it is chosen
                chosen = [at_epoch(run, "test", error, "best", variant if arm == "bln" else None) for run in cell]
                paper = "" if name != "by test" else f"{100 * (1 - logged[1]):.1f} (authors' log)" if logged else "–"
                entries.append(estimate_entry(percents(chosen), group, arm, f"test error, {name}", "%", paper))
            losses = [at_epoch(run, "test", "nll", "best") for run in cell]
            entries.append(estimate_entry(losses, group, arm, "test NLL, default evaluation"))
            # statistics of the evaluation batch depend on its composition; of other arms nothing does
            orders = [[100 * value for value in in_orders(run, error)] if arm == "bln" else [] for run in cell]
            entries.append(spread_entry(orders, group, arm, "points"))
    return entries


def of_evaluation_batches(runs: Sequence[Run], arms: Sequence[str]) -> list[Entry]:
    """BN evaluated with statistics of batches of 25, as in training; the rest have nothing of it, or more (BLN)."""
    entries, variant, group = [], "eval_stats=batch", "batch 25, statistics of the evaluation batch"
    for arm in arms:
        cell = cell_of(runs, arm, 25)
        values = [at_epoch(run, "test", "nll", "best", variant) for run in cell]
        orders = [in_orders(run, "nll", variant) for run in cell]
        entries += [
            estimate_entry(values, group, arm, "test NLL"),
            spread_entry(orders, group, arm),
        ]
    return entries


def at_rates(runs: Sequence[Run], arms: Sequence[str], batch: int, error: str = "error") -> list[Entry]:
    """Each arm at the authors' learning rate, a third and three times of it, and at the one best on validation.

    Of arms that have the controls, over the seeds that have all three; everything at the lowest validation loss.
    """
    entries, group = [], f"batch {batch}, learning rates (over seeds that have all three)"
    for arm in arms:
        cells = {rate: {run.seed: run for run in cell_of(runs, arm, batch, rate)} for rate in RATES}
        if not all(cells.values()):
            continue
        seeds = sorted(set.intersection(*(set(cell) for cell in cells.values())))
        losses = {
            rate: [at_epoch(cell[seed], "valid", "nll", "best") for seed in seeds] for rate, cell in cells.items()
        }
        errors = {
            rate: percents([at_epoch(cell[seed], "test", error, "best") for seed in seeds])
            for rate, cell in cells.items()
        }
        for rate, name in RATES.items():
            entries.append(estimate_entry(losses[rate], group, arm, f"validation NLL, {name}"))
            entries.append(estimate_entry(errors[rate], group, arm, f"test error, {name}", "%"))
        means = {rate: mean for rate, values in losses.items() if (mean := mean_of_all(values)) is not None}
        best = min(means, key=means.__getitem__, default=None)
        entries.append(
            Entry(group, arm, "best on validation", "", len(seeds), literal="–" if best is None else RATES[best])
        )
        entries.append(estimate_entry([] if best is None else errors[best], group, arm, "test error there", "%"))
    return entries


def cell_of(runs: Sequence[Run], arm: str, batch: int, rate: str = "") -> list[Run]:
    """At the authors' learning rate, or that of a control."""
    return within(runs, {"arm": arm, "train.batch_size": batch}, rate)


def _format_paper_error(reference: Mapping[str, Any], arm: str, batch: int) -> str:
    """The paper's error in per cent, or that of the authors' log where the text has none; and of earlier logs.

    The paper's accuracies have two digits, those of the logs four. Earlier logs end at their own last epoch.
    """
    in_text = reference.get("train_accuracy", {}).get(arm, {}).get(batch)
    logs = {name: reference[name].get(arm, {}).get(batch) for name in reference if name.endswith("histories")}
    errors = {name: f"{100 * (1 - log['train_acc'][-1]):.1f}" for name, log in logs.items() if log}
    epochs = {name: len(log["train_acc"]) for name, log in logs.items() if log}
    published = errors.pop("histories", None)
    if in_text is not None:
        published = f"{100 * (1 - in_text):.0f}"
    elif published is not None:
        published += " (authors' log)"
    return (
        "–"
        if published is None
        else published + "".join(f" (earlier log, {epochs[name]} epochs: {value})" for name, value in errors.items())
    )
