"""LN Fig. 1: recall of image retrieval on the validation set against updates, with LN in the encoder and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import within
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import area, at_epoch, series
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


def explanation(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """How much of LN's lead the authors' Adam makes."""
    leads = []
    for control in ("", "adam"):
        ln, none = (
            _mean(
                [
                    area(series(run, "valid", "eval", "image_r1"), log=False)
                    for run in within(runs, {"arm": arm}, control)
                ]
            ).mean
            for arm in ("ln", "none")
        )
        if ln is None or none is None:
            return []
        leads.append(ln - none)
    return [
        "With the authors' Adam, whose bias correction uses wrong constants, LN's mean image retrieval R@1 over the "
        f"updates lies {leads[0]:.1f} points above that of no normalization; with the right constants (control adam) "
        f"{leads[1]:.1f} points."
    ]


def _mean(shares: Sequence[float | None]) -> Estimate:
    """In per cent."""
    return t_interval([100 * share for share in shares if share is not None])
