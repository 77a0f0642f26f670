"""Progress: on a terminal a bar per running run and one for all, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from normbench.commands.terminal import say
from normbench.compare import configuration
from normbench.config.plan import ADHOC
from normbench.config.spec import Spec
from normbench.draw.text import visible
from normbench.launch.base import Listener
from normbench.runs.run import FINISHED

QUIET = 10.0  # s between two lines of a run without a terminal


def label(spec: Spec) -> str:
    """`bn-all b4 s1`: arm, values of the axes, seed, and the device unless it is the CPU.

    A run of no experiment has its configuration: `mnist_mlp layer optim.lr=0.01 s1`, one of a battery, which has an
    experiment's settings, its model: `imdb_rnn mine b1 s1`; and what a normalizer replaces.
    """
    axes = " ".join(f"b{value}" if key == "train.batch_size" else str(value) for key, value in spec.axes.items())
    control = f" {spec.control}" if spec.control else ""
    device = f" {spec.config['device']}" if spec.config["device"] != "cpu" else ""
    arm = spec.arm
    if spec.experiment == ADHOC:
        of_battery = f"{spec.config['model']['name']} {arm}"
        arm = configuration.describe_config(spec.config) if spec.fidelity == ADHOC else of_battery
    if replaced := sorted({choice.replaces for choice in spec.sites.values()} - {""}):
        arm += f" (replaces {' and '.join(replaced)})"
    return f"{arm} {axes} s{spec.seed}{control}{device}".replace("  ", " ")


def _evaluated(spec: Spec, event: Mapping[str, Any]) -> str:
    """`epoch 3 · 18/120 updates · train loss 0.31 · valid nll 0.28`."""
    epoch = f"epoch {event['epoch']} · " if isinstance(event["epoch"], int) else ""
    monitor = spec.config["monitor"]
    also = f" · {monitor['split']} {monitor['metric']} {event['monitored']:.3g}" if "monitored" in event else ""
    return f"{epoch}{event['step']}/{event['steps']} updates · train loss {event['loss']:.3g}{also}"


@contextmanager
def bars(total: int, console: Console) -> Iterator[Listener]:
    """A context with a listener that shows the events of a launcher, which trains so many runs."""
    shown: dict[str, TaskID] = {}  # by run id, of running ones
    started: dict[str, float] = {}
    printed: dict[str, float] = {}  # when the last line of a run was
    ended = 0

    def listen(spec: Spec, event: dict[str, Any]) -> None:
        nonlocal ended
        run, now = spec.id, time.monotonic()
        if event["event"] == "start":
            started[run] = printed[run] = now
            shown[run] = progress.add_task(escape(visible(label(spec))), total=spec.steps, note="starting")
        elif event["event"] == "progress":
            progress.update(shown[run], completed=event["step"], note=f"train loss {event['loss']:.3g}")
            if "epoch" in event and not console.is_terminal and now - printed[run] >= QUIET:
                printed[run] = now
                say(console, f"  {label(spec)} · {_evaluated(spec, event)}")
            running = set(shown.values())
            partial = sum(task.percentage / 100 for task in progress.tasks if task.id in running)
            progress.update(everything, completed=ended + partial)
        else:
            ended += event["status"] in FINISHED
            progress.remove_task(shown.pop(run))
            progress.update(everything, completed=ended, note=f"{ended}/{total}")
            refused = event["status"] == "refused"  # the command gives the reason once, when it ends
            reason = f": {event['reason']}" if event["reason"] and not refused else ""
            if not console.is_terminal or event["status"] != "done":
                took = f"({now - started[run]:.0f} s)"
                say(console, f"  [{ended}/{total}] {label(spec)} {event['status']}{reason} {took}")

    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[note]:<18}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        everything = progress.add_task("all", total=total, note=f"0/{total}")
        yield listen
