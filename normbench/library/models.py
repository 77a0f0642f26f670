"""The trained networks of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from normbench.config import compose
from normbench.models.base import Model
from normbench.runs import root
from normbench.runs.run import Run
from normbench.train.weights import locate_run, refuse_edited, trained


def load_model(
    run: str | Path,
    *,
    weights: str | None = None,
    results: str | Path | None = None,
    config_dir: str | Path | None = None,
) -> tuple[Model, dict[str, Any]]:
    """The network of a run with its stored weights, in evaluation mode, and the run's configuration.

    >>> from normbench import load_model
    >>> network, config = load_model("3a228e1c3403")            # doctest: +SKIP
    >>> logits = network.predict(inputs)                        # doctest: +SKIP
    >>> config["norm"]["name"]                                  # doctest: +SKIP
    'layer'

    A classifier has `predict(inputs)`; `network(inputs, targets)` is the loss. The normalizers evaluate with the
    statistics that are stored beside the weights.

    Args:
        run: its id, the beginning of one, or its directory. Published runs come without weights.
        weights: `best` (the lowest validation error, as the run's `monitor` says), `last`, or `step-N` of
            `train.keep=[N]`; without it the best, else the last.
        results: the folder; without it NORMBENCH_RESULTS, else ./results.
        config_dir: where a model or data set of one's own lies, as `--config-dir`.

    Errors: NormbenchError for no such run, for weights that are not stored, are damaged or not finite, and where a
    normalizer's file was edited since.
    """
    choices = None if config_dir is None else Path(config_dir)
    stored, network, _ = load_trained(str(run), weights, root(results), choices)
    return network, dict(stored.config)


def load_trained(name: str, weights: str | None, results: Path, config_dir: Path | None) -> tuple[Run, Model, str]:
    """A run, its network, and which weights it has."""
    run, folder = locate_run(name, results)
    refuse_edited(run, config_dir)
    config = compose.restore(run.config, config_dir)
    network, stem = trained(folder, config, weights, config_dir, prefer=("best", "last"))
    return run, network, stem
