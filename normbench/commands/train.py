"""`normbench train`: one run, or a sweep with -m."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from normbench import data
from normbench.commands.progress import Bars
from normbench.config import plan
from normbench.config.identity import RunSpec
from normbench.curves.series import final
from normbench.launch import pool
from normbench.papers.table import number
from normbench.runs.find import Found, find

NAMES = {"nll": "NLL"}
LABELS = ("epoch", "mode", "split", "step", "variant")


def run(words: Sequence[str], multirun: bool, results: Path, config_dir: Path | None, console: Console) -> int:
    """Exit code: 0 done, 3 diverged, 4 failed, 5 busy elsewhere, 130 interrupted; the gravest of a sweep."""
    specs = plan.train_specs(words, multirun, config_dir)
    options = dict(plan.launch_options(words, config_dir))
    jobs = options.get("jobs", 0) if options.get("name") == "pool" else 1
    found = find(specs, results)
    missing = [spec for spec in specs if spec.id not in found.records]
    say(
        console,
        f"{len(specs)} run{'s' if len(specs) > 1 else ''} · {len(specs) - len(missing)} done, {len(missing)} to run",
    )
    if missing:
        root = results / "runs"
        for name in dict.fromkeys(spec.config["data"]["name"] for spec in missing):
            data.check(next(s.config["data"] for s in missing if s.config["data"]["name"] == name))
        pool.check_writable(root)
        with Bars(len(missing), console) as bars:
            outcomes, interrupted = pool.launch(missing, root, jobs, bars.listen)
        found = find(specs, results)
        for reason in dict.fromkeys(o.reason for o in outcomes.values() if o.status in ("failed", "refused", "busy")):
            say(console, f"normbench: {reason}")
    else:
        outcomes, interrupted = {}, False
    _table(specs, found, console)
    for spec in specs:
        if spec.id in found.stored and len(specs) == 1:
            say(console, f"  {found.stored[spec.id].path}")
        reason = found.records[spec.id].reason if spec.id in found.records else ""
        if reason:
            say(console, f"normbench: run {spec.id} diverged: {reason}. It counts as diverged in figures and verdicts.")
    if interrupted:
        say(console, "interrupted; the same command goes on.")
        return 130
    codes = [
        {"failed": 4, "refused": outcome.code or 4, "busy": 5}.get(outcome.status, 0) for outcome in outcomes.values()
    ]
    codes += [3 for spec in specs if found.state(spec) == "diverged"]
    return next((code for code in (4, 2, 5, 3) if code in codes), 0)


def _table(specs: Sequence[RunSpec], found: Found, console: Console) -> None:
    """A row per run with the metrics of its last epoch, in evaluation mode."""
    metrics = dict.fromkeys(
        (r["split"], key)
        for run in found.records.values()
        for r in run.records
        if r["split"] in ("train", "test") and r["mode"] in ("eval", "both")
        for key in sorted(r, reverse=True)
        if key not in LABELS
    )
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in (
        "run",
        "arm",
        "seed",
        "status",
        *(f"{split} {NAMES.get(metric, metric)}" for split, metric in metrics),
    ):
        grid.add_column(name, no_wrap=name == "run", overflow="fold")
    for spec in specs:
        run = found.records.get(spec.id)
        values = [final(run, split, "eval", metric) if run else None for split, metric in metrics]
        finals = ["" if value is None else number(value, abs(value) / 100) for value in values]
        grid.add_row(spec.id, escape(spec.arm), str(spec.seed), found.state(spec), *finals)
    console.print(grid)


def say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
