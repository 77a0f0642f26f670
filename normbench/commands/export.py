"""`normbench export`: writes finished runs for other tools."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console

from normbench import scratch
from normbench.commands import format, terminal
from normbench.commands.options import ConfigDir, Filters, Json, Results, argument, flag, option
from normbench.commands.terminal import say
from normbench.compare import configuration
from normbench.errors import NormbenchError
from normbench.export import tables, wandb_run
from normbench.reading import place
from normbench.runs import exported, files, pack
from normbench.runs.damaged import left_out
from normbench.runs.record import RunRecord
from normbench.runs.run_file import FINISHED
from normbench.runs.table import Runs

EPILOG = """examples:
  normbench export wandb                                W&B files below results/wandb; nothing leaves the machine
  normbench export wandb --mode online --entity TEAM    to the server that wandb is set up for
  normbench export csv ln2016/fig6                      one row per evaluation: results/export/curves.csv,
                                                        and beside it what else normbench import keeps of these runs
  normbench export parquet model=mnist_mlp norm=none,layer --output curves.parquet

filters are those of normbench compare: KEY=VALUE[,VALUE]; or an experiment, an arm, or the beginning of an id.
"""


def command(
    form: Annotated[Literal["wandb", "csv", "parquet"], argument("")],
    filters: Filters,
    results: Results,
    config_dir: ConfigDir = None,
    output: Annotated[Path | None, option("csv, parquet: the file (-: standard output)", "FILE", parser=place)] = None,
    mode: Annotated[
        Literal["offline", "online"] | None, option("wandb: files, or the server", show_default="offline")
    ] = None,
    project: Annotated[str | None, option("wandb: the project", "PROJECT", show_default="normbench")] = None,
    entity: Annotated[str | None, option("wandb: user or team", "ENTITY", show_default="W&B's own")] = None,
    again: Annotated[bool, flag("--again", "wandb: also send runs that were sent before")] = False,
    as_json: Json = False,
) -> None:
    """Write the finished runs that fit."""
    of_wandb = {"mode": mode, "project": project, "entity": entity, "again": again}
    for name, value in {"output": output}.items() if form == "wandb" else of_wandb.items():
        if value not in (None, False):
            raise NormbenchError(f"--{name} is not an option of export {form}.")
    if output == Path("-") and as_json:
        raise NormbenchError("--output - writes the table to standard output, where --json writes the answer.")
    console = terminal.console(stderr=as_json or output == Path("-"))
    heads, load = _chosen(results, filters, console)
    if form != "wandb":
        answer = _table(form, heads, load, output, results, console)
    else:
        target = (mode or "offline", "normbench" if project is None else project, entity or "")
        answer = _wandb(load(heads), target, results, again, console)
    if as_json:
        terminal.say_json(answer)


def _table(
    form: str, heads: Sequence[RunRecord], load: tables.Load, output: Path | None, results: Path, console: Console
) -> dict[str, Any]:
    """Write one flat table of the records. output: - is standard output."""
    write = {"csv": tables.write_csv, "parquet": tables.write_parquet}[form]
    if output == Path("-"):
        with scratch.folder("normbench-export-") as folder:
            write(heads, folder / "table" / form, load)
            sys.stdout.buffer.write((folder / "table" / form).read_bytes())
        return {}
    path = output or results / "export" / f"curves.{form}"
    if path.exists() and not path.is_file():
        raise NormbenchError(f"{path} is no regular file. Name one with --output.")
    target = Path(os.path.realpath(path))  # write through a link, not over it
    files.make_folder(target.parent, "--output" if output else files.RESULTS)
    count = write(heads, target, load)
    beside = exported.write(target, heads, _contrasts(heads, results))
    say(console, f"{format.plural(len(heads), 'run')}, {format.plural(count, 'record')}: {path}")
    say(console, f"  beside it, for normbench import: {', '.join(one.name for one in beside)}")
    return {"runs": len(heads), "records": count, "place": str(path), "beside": [*map(str, beside)]}


def _contrasts(runs: Sequence[RunRecord], results: Path) -> bytes:
    """The effects by test example beside the smallest pack that has all these runs; empty without one."""
    wanted, found = {(run.id, run.steps) for run in runs}, []
    for path in pack.paths(results, exported.CONTRASTS):
        with contextlib.suppress(NormbenchError):  # a damaged pack has none of the runs
            packed = {(run.id, run.head.steps) for run in pack.heads(path.with_name(pack.NAME))}
            found += [(len(packed), path)] if wanted <= packed else []
    return min(found)[1].read_bytes() if found else b""


def _wandb(
    runs: Sequence[RunRecord], names: tuple[str, str, str], results: Path, again: bool, console: Console
) -> dict[str, Any]:
    """Send runs, except those that were sent before. names: mode, project, entity.

    NormbenchError with code 4 if W&B fails on a run, 2 if the request is wrong, such as a missing key.
    """
    mode, project, _ = names
    if not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
        raise NormbenchError(f"--project {project} cannot be a W&B project: 1 to 128 characters without / \\ # ? % :")
    target = wandb_run.Target(*names, results / "wandb")
    sent = 0
    try:
        for run in runs:
            if again and target.arrived(run.id) >= 0:
                target.ledger(run.id).unlink(missing_ok=True)
            sent += wandb_run.send(run, target)
    except NormbenchError as error:
        if error.code == 2 and not sent:
            raise NormbenchError(f"export wandb --mode {mode}: {error}") from None
        raise NormbenchError(f"{error} ({sent} of {len(runs)} sent; the same command goes on)", error.code) from None
    finally:  # runs sent before an error or Ctrl-C count
        target.settle()
    there = len(runs) - sent
    already = f", {there} there already (--again sends them anyway)" if there else ""
    say(console, f"{format.plural(sent, 'run')} to W&B project {project}, {mode}{already}")
    if mode == "offline" and sent:
        say(console, f"  {target.files}")
    return {"runs": sent, "there": there, "place": str(results / "wandb") if mode == "offline" else project}


def _chosen(results: Path, filters: Sequence[str], console: Console) -> tuple[Sequence[RunRecord], tables.Load]:
    """The runs that fit, without their curves, and what reads these; damaged runs are left out with a note."""
    table = Runs(results)
    table.refresh()
    damaged = [head for head in table.heads if head.status == "damaged"]
    for note in (*table.notes, *map(left_out, damaged)):
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
                say(console, f"  note: {left_out(run)}")
                noted.add(run.id)
        return [run for run in runs if run.status in FINISHED]

    return chosen, load
