"""Finished runs as data frames."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import pandas

from normbench.compare import configuration
from normbench.errors import BadInput
from normbench.export import tables
from normbench.files.stored import RUN_GROUPS
from normbench.runs import root
from normbench.runs.run import EVALUATED, LABELS, PLACE, Run
from normbench.stats.series import PARTS, best_step


def load_runs(*words: str, results: str | Path | None = None, records: bool = False) -> pandas.DataFrame:
    """Finished runs below `results`, published and one's own, as a data frame: a row per run.

    >>> from normbench import load_runs
    >>> runs = load_runs("ln2016/fig6", "norm=layer,batch")         # doctest: +SKIP
    >>> runs = runs[runs["source"] == "published"]                  # doctest: +SKIP
    >>> runs.groupby("norm")["last test error"].mean()              # doctest: +SKIP
    >>> curves = load_runs("model=mnist_mlp", records=True)         # doctest: +SKIP

    Columns: `run` (the id), `experiment`, `arm`, `seed`, `fidelity`, `control`, `status` (done, diverged), `source`
    (published, smoke, own, imported); the configuration, the names of what was chosen (`model`, `norm`, `data`,
    `optim`, ...) and every option of what was trained that any of the runs has (`optim.lr`, `train.batch_size`), lists
    as text, and the length; `last SPLIT METRIC` and `best SPLIT METRIC` of the default evaluation, after the last
    update and where what the run monitors is best. What a run lacks is missing.

    Args:
        words: which runs, all where there are none, as `normbench compare` takes them: `norm=layer,batch`, `seed=1-5`,
            an experiment, an arm, or the beginning of an id.
        results: the folder; without it NORMBENCH_RESULTS, else ./results.
        records: a row per record of the runs' curves: run, labels, axes, split, mode, variant, epoch, step, metrics.

    Errors: NormbenchError for a column that no run has, for words that no run fits. A damaged run is left out with a
    warning.
    """
    for word in words:
        if not isinstance(word, str):
            raise BadInput(f"{word!r} is no text: words stand alone, as in load_runs('norm=layer', 'seed=1-5').")
    folder = root(results)
    chosen, _ = configuration.finished(words, folder, partial(warnings.warn, stacklevel=3))
    if not chosen:
        raise BadInput(f"no finished run below {folder}. Another folder: results= or NORMBENCH_RESULTS.")
    if records:
        return tables.frame(chosen)
    rows = [
        configuration.labels_of(run)
        | {"source": run.source}
        | tables.settings(run)
        | configuration.length_of(run)
        | _metrics(run)
        for run in chosen
    ]
    configured = {key for run in chosen for key in (*tables.settings(run), *configuration.length_of(run))}
    labels = [*LABELS, "source"]
    options = sorted(configured - {*labels, *RUN_GROUPS})
    groups = [group for group in RUN_GROUPS if any(group in row for row in rows)]
    metrics = sorted({key for row in rows for key in row} - {*labels, *groups, *options}, reverse=True)
    return pandas.DataFrame(rows, columns=[*labels, *groups, *options, *metrics])


def _metrics(run: Run) -> dict[str, float]:
    """The default evaluation after the last update, and at the best."""
    moments = {"last": run.steps, "best": best_step(run)}
    found: dict[str, float] = {}
    for record in run.records:
        if record["mode"] not in EVALUATED or record.get("variant") or PARTS & record.keys():
            continue
        values = {key: float(value) for key, value in record.items() if key not in PLACE}
        for name, step in moments.items():
            if not step or (record["step"] != step and (name == "best" or not run.logged)):
                continue  # of another program each series may end elsewhere
            found |= {f"{name} {record['split']} {key}": value for key, value in values.items()}
    return found
