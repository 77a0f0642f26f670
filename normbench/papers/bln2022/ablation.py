"""BLN part by part: training loss of LeNet-5 on CIFAR-10 in groups of arms, BLN in every group."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.papers import default_artifact
from normbench.papers.bln2022.histories import RATES, Changes, at_rates, of_evaluation_batches
from normbench.papers.claims import Artifact
from normbench.runs.run import Run


def explanation(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """Which parts of BLN change its training; each number is from pairs of runs with the same seed."""
    change = Changes(runs)
    if not change.log_loss:
        return []

    rates = {name: Changes(runs, rate) for rate, name in RATES.items() if rate}
    compared = {"BN": ("bln", "bn"), "LN": ("bln", "ln"), "BN per position with the factor": ("bln", "bn-pos-scaled"),
                "BN before tanh": ("bln", "bn-before")}  # fmt: skip

    def at_other_rates(arm: str, base: str) -> str:
        """Of those that have runs of both."""
        return "; ".join(
            f"at {name} loss {at_rate(25, arm, base)}, test error {at_rate.in_test_error(arm, base)}"
            for name, at_rate in rates.items()
            if at_rate.has(25, arm, base)
        )

    tried = {name: text for name, pair in compared.items() if (text := at_other_rates(*pair))}

    def adopted(variant: str) -> str:
        return change.in_test_error("bln-adopted", "bln", base_variant=variant)

    return [
        Changes.INTRODUCTION,
        f"Batch 25. BLN against BN: {change(25, 'bln', 'bn')}. BLN is nearly BN with statistics of its own for every "
        "position, divided by √d: 96 % of it at this batch size, beside 4 % of LN. "
        f"BN with the factor against BN: {change(25, 'bn-scaled', 'bn')}. BN per position against BN: "
        f"{change(25, 'bn-pos', 'bn')}. Both together: {change(25, 'bn-pos-scaled', 'bn')}. What LN's part adds, BLN "
        f"against BN per position with the factor: {change(25, 'bln', 'bn-pos-scaled')}.",
        f"BLN without the factor against BLN: {change(25, 'bln-unscaled', 'bln')}. LN with the factor against LN: "
        f"{change(25, 'ln-scaled', 'ln')}. With a gain that begins at 1/√d, which Adam then moves: BN "
        f"{change(25, 'bn-gain', 'bn')}, LN {change(25, 'ln-gain', 'ln')}.",
        f"Without any normalization, against none: with the factor {change(25, 'none-scaled', 'none')}, with weights "
        f"rescaled to the summed inputs of BN {change(25, 'none-unit', 'none')}, of BLN "
        f"{change(25, 'none-small', 'none')}. BLN against none: {change(25, 'bln', 'none')}, BN "
        f"{change(25, 'bn', 'none')}, LN {change(25, 'ln', 'none')}.",
        f"Batch 1, where BLN is 0.9999 LN / √d by construction. BLN against LN: {change(1, 'bln', 'ln')}; LN with the "
        f"factor against LN: {change(1, 'ln-scaled', 'ln')}; BLN against no normalization: {change(1, 'bln', 'none')}, "
        f"and that with the factor alone: {change(1, 'none-scaled', 'none')}. BN after the convolutions only, against "
        f"none: {change(1, 'bn-conv', 'none')}.",
        f"Place, batch 25. Normalizing after tanh against before it: BLN {change(25, 'bln', 'bln-before')}, BN "
        f"{change(25, 'bn', 'bn-before')}, LN {change(25, 'ln', 'ln-before')}. In test error, at the lowest validation "
        f"loss: BLN {change.in_test_error('bln', 'bln-before')}, BN {change.in_test_error('bn', 'bn-before')}, "
        f"LN {change.in_test_error('ln', 'ln-before')}. BLN after tanh, as published, against BN before it: "
        f"{change.in_test_error('bln', 'bn-before')}.",
        "Test error beside training loss, batch 25, at the lowest validation loss. BLN against BN "
        f"{change.in_test_error('bln', 'bn')}, against no normalization {change.in_test_error('bln', 'none')}; "
        f"the factor without normalization against none {change.in_test_error('none-scaled', 'none')}, BLN against "
        f"that {change.in_test_error('bln', 'none-scaled')}. Trained on with the statistics of the "
        f"population (TTFF, Algorithm 2's step 13) against FFFF throughout: loss {change(25, 'bln-adopted', 'bln')}, "
        f"test error {change.in_test_error('bln-adopted', 'bln')}; against the same networks evaluated with TTFF "
        f"{adopted('TTFF')}, and with TTFF of populations taken anew with the weights that are evaluated "
        f"{adopted('TTFF populations=recalibrated')}.",
        *(
            [f"Learning rate, batch 25. {' '.join(f'BLN against {name}: {text}.' for name, text in tried.items())}"]
            if tried
            else []
        ),
    ]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Mean training loss, last training error, test error and NLL at the lowest validation loss; then more of some."""
    arms = list(artifact.table[0].rows)
    normalized = [arm for arm in arms if arm.startswith("bn")]
    entries = default_artifact.table(artifact, runs) + at_rates(runs, arms, 25)
    return entries + of_evaluation_batches(runs, normalized)
