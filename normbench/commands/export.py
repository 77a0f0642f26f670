"""`normbench export`: finished runs for other tools."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from normbench.commands import places
from normbench.commands.terminal import say
from normbench.errors import NormbenchError, code_of, unknown
from normbench.export import tables, wandb_run
from normbench.runs.find import everything
from normbench.runs.record import RunRecord


def run_table(form: str, results: Path, only: Sequence[str], output: Path | None, console: Console) -> int:
    """One flat table of all records, `form` csv or parquet."""
    runs = _chosen(results, only, console)
    path = output or results / "export" / f"curves.{form}"
    write = {"csv": tables.write_csv, "parquet": tables.write_parquet}[form]
    if path.is_dir() or not path.name:
        raise NormbenchError(f"{path} is a folder. Name a file with --output.")
    if path.exists() and not path.is_file():  # whose place the file would take
        raise NormbenchError(f"{path} is a device or pipe. Name a file with --output.")
    try:
        count = write(runs, Path(os.path.realpath(path)))  # to where a link leads, not in its place
    except OSError as error:
        raise NormbenchError(
            f"{path} cannot be written: {error.strerror}. Choose another place with --output.", code_of(error)
        ) from None
    say(console, f"{places.plural(len(runs), 'run')}, {places.plural(count, 'record')}: {path}")
    return 0


def run_wandb(
    results: Path, only: Sequence[str], mode: str, project: str, entity: str, again: bool, console: Console
) -> int:
    """Replay finished runs; those that are there already are left out. Exit code 4 when W&B does not take one."""
    runs = _chosen(results, only, console)
    if not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
        raise NormbenchError(f"--project {project} cannot be a W&B project: 1 to 128 characters without / \\ # ? % :")
    target = wandb_run.Target(mode, project, entity, results / "wandb")
    sent = there = 0
    try:
        for run in runs:
            if again:
                target.ledger(run.id).unlink(missing_ok=True)
            new = wandb_run.send(run, target)
            sent, there = sent + new, there + (not new)
    except NormbenchError as error:
        raise NormbenchError(f"{error} ({sent} of {len(runs)} sent; the same command goes on)", code=4) from None
    finally:  # what was sent before an error or a Ctrl-C counts
        target.settle()
    already = f", {there} there already (--again sends them anyway)" if there else ""
    say(console, f"{places.plural(sent, 'run')} to W&B project {project}, {mode}{already}")
    if mode == "offline" and sent:
        say(console, f"  files below {target.folder}; to a server with: wandb sync {target.folder}/wandb/offline-run-*")
    return 0


def _chosen(results: Path, only: Sequence[str], console: Console) -> list[RunRecord]:
    runs, notes = everything(results)
    for note in notes:
        say(console, f"  note: {note}")
    for word in only:
        if not any(run.is_called(word) for run in runs):
            names = sorted({name for run in runs for name in (run.experiment, run.arm)})
            raise unknown(
                f"--only {word}: no finished run below {results} has that experiment, arm or id.", word, names
            )
    chosen = [run for run in runs if not only or any(run.is_called(word) for word in only)]
    if not chosen:
        raise NormbenchError(f"there are no finished runs below {results}. (normbench status)")
    return chosen
