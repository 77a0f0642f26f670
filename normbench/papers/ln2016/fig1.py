"""LN Fig. 1: recall of image retrieval on the validation set against updates, with LN in the encoder and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import within
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import at_epoch
from normbench.stats.statistics import Estimate, t_interval

ARMS = {"none": "Order-Embedding", "ln": "Order-Embedding + LN"}
RULES = "rules"  # the arm without training


def caution(artifact: Artifact, runs: Sequence[Run]) -> str:
    """Where both networks are worse than vectors that learn nothing."""
    key = "test_tfidf_caption_r1"
    bar = _mean([float(r[key]) for run in within(runs, {"arm": RULES}) for r in run.records if key in r]).mean
    estimates = {
        name: _mean([at_epoch(run, "test", "caption_r1", "best") for run in within(runs, {"arm": arm})])
        for arm, name in ARMS.items()
    }
    if bar is None or not all(estimate.interval and estimate.interval[1] < bar for estimate in estimates.values()):
        return ""
    text = ", ".join(f"{estimate.mean:.1f} % of {name}" for name, estimate in estimates.items())
    return (
        "In caption retrieval R@1 both trained networks are worse than TF-IDF vectors, which learn nothing: on the "
        f"test set it is {text} and {bar:.1f} % of TF-IDF."
    )


def _mean(shares: Sequence[float | None]) -> Estimate:
    """In per cent."""
    return t_interval([100 * share for share in shares if share is not None])
