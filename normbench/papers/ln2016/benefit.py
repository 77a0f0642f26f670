"""LN section 7: what layer normalization does to the training loss of recurrent networks, and of others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normbench.draw.tables import Entry, estimate_entry
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import area, log_floored, series

NETWORKS = {
    "recall": "LSTM, recall over 40 steps",
    "imdb": "RNN, IMDB",
    "mnist": "MLP, MNIST",
    "cifar10": "LeNet-5, CIFAR-10",
}


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Log ratio of the training loss with LN to that without, by network, at the paper's setting and the controls."""
    return [
        estimate_entry(_effects([run for run in runs if run.control == control], arm), control or "as it is", network,
                       "log ratio of the training loss, LN to none", "log ratio")
        for control in artifact.settings
        for arm, network in NETWORKS.items()
    ]  # fmt: skip


def _effects(runs: Sequence[Run], arm: str) -> list[float | None]:
    logs = [
        {run.seed: _log_area(run) for run in runs if run.arm == f"{arm}-{norm}" and run.status == "done"}
        for norm in ("ln", "none")
    ]
    return [logs[0][seed] - logs[1][seed] for seed in sorted(logs[0].keys() & logs[1].keys())]


def _log_area(run: Run) -> float:
    """Mean of the log of the running training loss."""
    mean = area(series(run, "train", "running", "nll"), log=True)
    return math.nan if mean is None else log_floored(mean)
