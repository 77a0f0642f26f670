"""Run directories and packs: curves, logs, status. Nothing here imports torch."""

from __future__ import annotations

import os
from pathlib import Path

from normbench.errors import BadInput
from normbench.files import reading


def root(given: str | Path | None = None) -> Path:
    """The folder of the results: --results, else NORMBENCH_RESULTS, else ./results. Absolute, as messages name it."""
    if given == "":  # as "$UNSET" is
        raise BadInput("--results '' names no folder.")
    path = reading.place(given or os.environ.get("NORMBENCH_RESULTS") or "results").absolute()
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path} is not a folder. Choose another place with --results or NORMBENCH_RESULTS.")
    runs = (run for depth in ("*", "*/*") for run in path.glob(f"{depth}/*.s*.*/run.json"))
    if path.name == "runs" and not (path / "runs").exists() and any(runs):
        raise BadInput(f"{path} has the runs of the results in {path.parent}: --results {path.parent}")
    return path


def own(results: Path) -> Path:
    """The folder of the user's own: normalizers that were given as a file, and what no paper's claim rests on (smoke
    runs, artifacts and experiments of a `--config-dir`), laid out as the published results and never among them.
    """
    return results / "own"


def choices(results: Path, config_dir: Path | None) -> Path | None:
    """The folder of choices: that of --config-dir, else where `train` keeps the normalizers of files, if it has any."""
    return own(results) if config_dir is None and (own(results) / "norm").is_dir() else config_dir
