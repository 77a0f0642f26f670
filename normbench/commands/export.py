"""`normbench export`: writes finished runs for other tools."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console

from normbench.commands import format, terminal
from normbench.commands.options import ConfigDir, Filters, Json, Results, argument, option
from normbench.commands.terminal import say
from normbench.compare import configuration
from normbench.core import extras
from normbench.errors import BadInput, Failed, NormbenchError
from normbench.export import tables, wandb_run
from normbench.files import scratch
from normbench.files.reading import place
from normbench.runs import files
from normbench.runs.run import Run

EPILOG = """examples:
  normbench export wandb                                W&B files below results/wandb; nothing leaves the machine
  normbench export wandb --mode online --entity TEAM    to the server that wandb is set up for
  normbench export csv ln2016/fig6                      one row per evaluation: results/export/curves.csv
  normbench export parquet model=mnist_mlp norm=none,layer --output curves.parquet

filters are those of normbench compare: KEY=VALUE[,VALUE]; or an experiment, an arm, or the beginning of an id.

--json prints, shortened:
  {"runs": 2, "records": 10, "place": "results/export/curves.csv"}        csv and parquet
"""

ASKED_WRONGLY = ("UsageError", "AuthenticationError")  # W&B's errors for a missing or wrong key


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
    as_json: Json = False,
) -> None:
    """Write the finished runs that fit."""
    of_wandb = {"mode": mode, "project": project, "entity": entity}
    for name, value in {"output": output}.items() if form == "wandb" else of_wandb.items():
        if value is not None:
            raise BadInput(f"--{name} is not an option of export {form}.")
    if output == Path("-") and as_json:
        raise BadInput("--output - writes the table to standard output, where --json writes the answer.")
    console = terminal.console(stderr=as_json or output == Path("-"))
    runs, _ = configuration.finished(filters, results, lambda line: say(console, f"  note: {line}"))
    if not runs:
        raise BadInput(f"no finished run below {results}. Try: {format.first_command(results)}")
    if form != "wandb":
        answer = _table(form, runs, output, results, console)
    else:
        project = "normbench" if project is None else project
        logger = {"mode": mode or "offline", "project": project, "entity": entity or ""}
        answer = _wandb(runs, logger, results, console)
    if as_json:
        terminal.say_json(answer)


def _table(form: str, runs: Sequence[Run], output: Path | None, results: Path, console: Console) -> dict[str, Any]:
    """Write one flat table of the records. output: - is standard output."""
    write = {"csv": tables.write_csv, "parquet": tables.write_parquet}[form]
    if output == Path("-"):
        with scratch.folder("normbench-export-") as folder:
            write(runs, folder / "table" / form)
            sys.stdout.buffer.write((folder / "table" / form).read_bytes())
        return {}
    path = output or results / "export" / f"curves.{form}"
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is no regular file. Name one with --output.")
    target = Path(os.path.realpath(path))  # write through a link, not over it
    if output:
        files.check_folder(target, "--output")
    else:
        files.make_folder(target.parent)
    write(runs, target)
    records = sum(len(run.records) for run in runs)
    say(console, f"{format.plural(len(runs), 'run')}, {format.plural(records, 'record')}: {path}")
    return {"runs": len(runs), "records": records, "place": str(path)}


def _wandb(runs: Sequence[Run], logger: Mapping[str, str], results: Path, console: Console) -> dict[str, Any]:
    """Replay runs. Failed if W&B fails on one, BadInput if the request is wrong, such as a missing key."""
    extras.require("wandb")
    from normbench.launch.wandb_run import WandbRun, describe, wait_until_written

    mode, project = logger["mode"], logger["project"]
    if not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
        raise BadInput(f"--project {project} cannot be a W&B project: 1 to 128 characters without / \\ # ? % :")
    for sent, run in enumerate(runs):
        try:
            replayed = WandbRun(wandb_run.arguments(run, logger, results), "updates" if run.logged else "epoch")
            replayed.log(run.records)
            replayed.finish(run.status, run.reason, run.seconds)
        except NormbenchError:
            raise
        except Exception as error:  # of any type: a failure of W&B is one line, never a traceback
            kind = BadInput if type(error).__name__ in ASKED_WRONGLY else Failed
            line = describe(error).rstrip(".")
            raise kind(f"W&B does not take run {run.id}: {line}. ({sent} of {len(runs)} sent)") from None
    wait_until_written()
    say(console, f"{format.plural(len(runs), 'run')} to W&B project {project}, {mode}")
    if mode == "offline":
        say(console, f"  {wandb_run.files(results)}")
    return {"runs": len(runs), "place": str(results / "wandb") if mode == "offline" else project}
