"""Progress: on a terminal a bar per running run and one for all, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
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

    A run of no experiment has its configuration: `mnist_mlp layer optim.lr=0.01 s1`; and what a normalizer replaces.
    """
    axes = " ".join(f"b{value}" if key == "train.batch_size" else str(value) for key, value in spec.axes.items())
    control = f" {spec.control}" if spec.control else ""
    device = f" {spec.config['device']}" if spec.config["device"] != "cpu" else ""
    arm = configuration.describe_config(spec.config) if spec.experiment == ADHOC else spec.arm
    if replaced := sorted({choice.replaces for choice in spec.sites.values()} - {""}):
        arm += f" (replaces {' and '.join(replaced)})"
    return f"{arm} {axes} s{spec.seed}{control}{device}".replace("  ", " ")


def _evaluated(spec: Spec, event: Mapping[str, Any]) -> str:
    """`epoch 3 · 18/120 updates · train loss 0.31 · valid nll 0.28`."""
    epoch = f"epoch {event['epoch']} · " if isinstance(event["epoch"], int) else ""
    monitor = spec.config["monitor"]
    also = f" · {monitor['split']} {monitor['metric']} {event['monitored']:.3g}" if "monitored" in event else ""
    return f"{epoch}{event['step']}/{event['steps']} updates · train loss {event['loss']:.3g}{also}"


class Bars:
    """A context with a listener that shows the events of a launcher."""

    def __init__(self, total: int, console: Console) -> None:
        self.total, self.console = total, console
        self.ended = 0
        self.progress = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[note]:<18}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.tasks: dict[str, TaskID] = {}
        self.started: dict[str, float] = {}
        self.last_line: dict[str, float] = {}  # run: time of its last printed line
        self.all = self.progress.add_task("all", total=total, note=f"0/{total}")

    def __enter__(self) -> Listener:
        self.progress.start()
        return self.listen

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def listen(self, spec: Spec, event: dict[str, Any]) -> None:
        run = spec.id
        if event["event"] == "start":
            self.started[run] = self.last_line[run] = time.monotonic()
            self.tasks[run] = self.progress.add_task(escape(visible(label(spec))), total=spec.steps, note="starting")
        elif event["event"] == "progress":
            self.progress.update(self.tasks[run], completed=event["step"], note=f"train loss {event['loss']:.3g}")
            quiet = time.monotonic() - self.last_line[run] < QUIET
            if "epoch" in event and not (quiet or self.console.is_terminal):
                self.last_line[run] = time.monotonic()
                say(self.console, f"  {label(spec)} · {_evaluated(spec, event)}")
            running = set(self.tasks.values())
            partial = sum(task.percentage / 100 for task in self.progress.tasks if task.id in running)
            self.progress.update(self.all, completed=self.ended + partial)
        else:
            self.ended += event["status"] in FINISHED
            self.progress.remove_task(self.tasks.pop(run))
            self.progress.update(self.all, completed=self.ended, note=f"{self.ended}/{self.total}")
            took = time.monotonic() - self.started[run]
            refused = event["status"] == "refused"  # the command gives the reason once, when it ends
            reason = f": {event['reason']}" if event["reason"] and not refused else ""
            if not self.console.is_terminal or event["status"] != "done":
                text = f"  [{self.ended}/{self.total}] {label(spec)} {event['status']}{reason} ({took:.0f} s)"
                say(self.console, text)
