"""Sentence vectors of finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from normbench import data
from normbench.commands import places
from normbench.commands.sample import kept_run, trained
from normbench.config import compose
from normbench.errors import NormbenchError


def encode(
    run: str,
    sentences: Sequence[str],
    eos: bool = False,
    weights: str | None = None,
    results: str | Path | None = None,
) -> np.ndarray:
    """The vectors of sentences by the model of a finished run: (N, D) float32, a row for each sentence in order.

    >>> from normbench import encode
    >>> vectors = encode("00955a672333", ["a sentence .", "another one ."])         # doctest: +SKIP

    Args:
        run: its id, the start of one, or its directory, as in `normbench sample`; it must have kept weights.
        sentences: with words between blanks, as the model was trained on.
        eos: whether each ends in an end of sentence, as SICK's do in skip-thoughts' code.
        weights: `last`, `best` or `step-N` of those that the run kept; without it the last.
        results: the folder; without it NORMBENCH_RESULTS, else ./results.

    Errors: NormbenchError for a run that is not there or is published without weights, for a model that encodes none.
    """
    return encoder(run, places.results(None if results is None else str(results)), weights)(list(sentences), eos)


def encoder(run: str, results: Path, weights: str | None = None, config_dir: Path | None = None) -> Any:
    """`encode(sentences, eos)` of a run's model, whose weights are loaded once."""
    found, folder = kept_run(run, results)
    config = compose.restore(found.config, config_dir)
    model, _ = trained(folder, config, weights, config_dir)
    examples = data.load(config["data"], seed=int(config["seed"]))

    def encode(told: list[str], eos: bool) -> np.ndarray:
        rows: np.ndarray | None = model.encode(told, eos, examples)
        if rows is None:
            raise NormbenchError(f"run {found.id}: model={found.config['model']['name']} does not encode sentences.")
        return rows

    encode(["a"], False)  # a model that does not is known before anything is computed
    return encode
