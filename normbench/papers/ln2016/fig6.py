"""LN Fig. 6: train NLL (log axis) and test error against epochs, batch 128 left, batch 4 right."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, final_entry, time_entry, within
from normbench.papers import rules
from normbench.papers.claims import Artifact
from normbench.papers.parts import gather
from normbench.runs.record import RunRecord

ARMS = {
    "bn-all": Look("BatchNorm, all layers", COLOURS["batch"]),
    "none": Look("Baseline", COLOURS["none"]),
    "ln": Look("LayerNorm, hidden layers", COLOURS["layer"]),
    "bn": Look("BatchNorm, hidden layers (ours)", COLOURS["batch"], in_paper=False),
    "ln-all": Look("LayerNorm, all layers (ours)", COLOURS["layer"], in_paper=False),
}
ORDER = ("none", "bn", "bn-all", "ln", "ln-all")  # in tables; the figure's legend keeps the paper's order
BATCHES = (128, 4)
QUANTITIES = (
    Quantity("Train NLL", "train", "eval", "nll", log=True),
    Quantity("Test error", "test", "eval", "error", top=0.025),  # the paper's axis ends there
)


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The paper's four panels. The paper publishes no numbers of its curves."""
    columns = {f"batch size {batch}": {"train.batch_size": batch} for batch in BATCHES}
    return all_panels(runs, ARMS, columns, QUANTITIES)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Final test error and train NLL (geometric mean), and epochs to three levels of it, per arm and batch size."""
    entries = []
    for batch in BATCHES:
        group = f"batch {batch}"
        for arm in ORDER:
            cell = within(runs, {"arm": arm, "train.batch_size": batch})
            paper = "figure only" if ARMS[arm].in_paper else "–"
            entries += [
                final_entry(cell, group, arm, "final test error", ("test", "eval", "error"), 100, "%", paper),
                final_entry(cell, group, arm, "final train NLL (geometric mean)", ("train", "eval", "nll"), log=True),
                final_entry(cell, group, arm, "in training mode (geometric mean)", ("train", "train", "nll"), log=True),
                *(
                    time_entry(cell, group, arm, f"epochs to train NLL {level:g}", ("train", "eval", "nll"), level)
                    for level in (1e-2, 1e-3, 1e-4)
                ),
            ]
    return entries


def explanation(artifact: Artifact, runs: Sequence[RunRecord]) -> list[str]:
    """On which side LN is at each level, which one number over the whole curve does not show."""
    (claim,) = (claim for claim in artifact.claims if claim.id == "LN-F1")
    texts = []
    for part in claim.reported:
        seen = gather(part, [run for run in runs if not run.control], claim.alone("paper"))
        if part.id in claim.beside and seen.seeds:
            word = {rules.HOLDS: "faster", rules.OPPOSITE: "slower"}.get(rules.part_word(part, seen), "not told apart")
            level = f"{part.endpoint.level:g}{' in training mode' if part.endpoint.mode == 'train' else ''}"
            texts.append(f"{word} to {level} (sooner in {seen.signs[1]} of {len(seen.seeds)} seeds)")
    return [f"LN against BN on all layers at batch 128, epochs to a train NLL: {', '.join(texts)}."] if texts else []
