"""LN Fig. 6: train NLL (log axis) and test error against epochs, batch 128 left, batch 4 right."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.papers import rules
from normbench.papers.claims import Artifact
from normbench.papers.parts import gather
from normbench.runs.run import Run


def explanation(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """On which side LN is at each level, which one number over the whole curve does not show."""
    (claim,) = (claim for claim in artifact.claims if claim.id == "LN-F1")
    texts = []
    for part in claim.reported:
        observed = gather(part, [run for run in runs if not run.control], claim.alone("paper"))
        if part.id in claim.beside and observed.seeds:
            word = {rules.HOLDS: "faster", rules.FAILS: "slower"}.get(rules.part_word(part, observed), "not told apart")
            level = f"{part.endpoint.level:g}{' in training mode' if part.endpoint.mode == 'train' else ''}"
            texts.append(f"{word} to {level} (sooner in {observed.signs[1]} of {len(observed.seeds)} seeds)")
    return [f"LN against BN on all layers at batch 128, epochs to a train NLL: {', '.join(texts)}."] if texts else []
