"""`normbench export`: writes finished runs for other tools."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from normbench import scratch
from normbench.commands import format, terminal
from normbench.commands.terminal import say
from normbench.compare import configuration
from normbench.errors import NormbenchError
from normbench.export import tables, wandb_run
from normbench.runs import files
from normbench.runs.record import RunRecord
from normbench.runs.run_file import FINISHED
from normbench.runs.table import Runs


def run_table(form: str, results: Path, filters: Sequence[str], output: Path | None, console: Console) -> int:
    """Write one flat table of the records of the runs that fit. form: csv or parquet; output: - is standard output."""
    write = {"csv": tables.write_csv, "parquet": tables.write_parquet}[form]
    if output == Path("-"):
        runs, load = _chosen(results, filters, terminal.console(stderr=True))
        with scratch.folder("normbench-export-") as folder:
            write(runs, folder / "table" / form, load)
            sys.stdout.buffer.write((folder / "table" / form).read_bytes())
        return 0
    runs, load = _chosen(results, filters, console)
    path = output or results / "export" / f"curves.{form}"
    if path.exists() and not path.is_file():
        raise NormbenchError(f"{path} is no regular file. Name one with --output.")
    target = Path(os.path.realpath(path))  # write through a link, not over it
    files.make_folder(target.parent, "--output" if output else files.RESULTS)
    count = write(runs, target, load)
    say(console, f"{format.plural(len(runs), 'run')}, {format.plural(count, 'record')}: {path}")
    return 0


def run_wandb(
    results: Path, filters: Sequence[str], mode: str, project: str, entity: str, again: bool, console: Console
) -> int:
    """Send the finished runs that fit, except those that were sent before.

    NormbenchError with code 4 if W&B fails on a run, 2 if the request is wrong, such as a missing key.
    """
    heads, load = _chosen(results, filters, console)
    runs = load(heads)
    if not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
        raise NormbenchError(f"--project {project} cannot be a W&B project: 1 to 128 characters without / \\ # ? % :")
    target = wandb_run.Target(mode, project, entity, results / "wandb")
    sent = there = 0
    try:
        for run in runs:
            if again and target.arrived(run.id) >= 0:
                target.ledger(run.id).unlink(missing_ok=True)
            new = wandb_run.send(run, target)
            sent, there = sent + new, there + (not new)
    except NormbenchError as error:
        if error.code == 2 and not sent:
            raise NormbenchError(f"export wandb --mode {mode}: {error}") from None
        raise NormbenchError(f"{error} ({sent} of {len(runs)} sent; the same command goes on)", error.code) from None
    finally:  # runs sent before an error or Ctrl-C count
        target.settle()
    already = f", {there} there already (--again sends them anyway)" if there else ""
    say(console, f"{format.plural(sent, 'run')} to W&B project {project}, {mode}{already}")
    if mode == "offline" and sent:
        say(console, f"  {target.files}")
    return 0


def _chosen(results: Path, filters: Sequence[str], console: Console) -> tuple[Sequence[RunRecord], tables.Load]:
    """The runs that fit, without their curves, and what reads these; damaged runs are left out with a note."""
    table = Runs(results)
    table.refresh()
    damaged = [head for head in table.heads if head.status == "damaged"]
    for note in (*table.notes, *map(table.describe_damage, damaged)):
        say(console, f"  note: {note}")
    finished = [head for head in table.heads if head.status in FINISHED]
    if not finished:
        raise NormbenchError(f"there are no finished runs below {results}. (normbench status)")
    chosen = configuration.select(filters, finished)
    if not chosen:
        raise NormbenchError(f"no finished run below {results} fits {' '.join(filters)}.")
    noted = set()

    def load(heads: Sequence[RunRecord]) -> list[RunRecord]:
        runs = table.load(head.id for head in heads).values()
        for run in runs:
            if run.status not in FINISHED and run.id not in noted:
                say(console, f"  note: {table.describe_damage(run)}")
                noted.add(run.id)
        return [run for run in runs if run.status in FINISHED]

    return chosen, load
