"""A run at Weights & Biases: logged while a worker trains it, or replayed. The only module that imports wandb."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from normbench.core.eval_variants import text
from normbench.launch.run_missing import check_writable
from normbench.runs import directory
from normbench.runs.run import FINISHED, PLACE

FINISH_SECONDS = 30.0  # that W&B may take to send what is left of a run that a worker has trained
MODES = {
    "train": " (training mode)",
    "running": " (running mean)",
    "whole": " (whole split)",
    "along": " (along training)",
}  # evaluation has no suffix


class WandbRun:
    """An open run of W&B, whose step is the number of updates; `clock`: epoch or updates, which its charts have as x.

    A server continues the run with this id: what it has is not logged again. An offline file takes the place of the
    run's earlier ones, and has its whole curve: W&B could not put them together.
    """

    def __init__(self, arguments: Mapping[str, Any], clock: str = "epoch") -> None:
        import wandb

        folder = Path(arguments["dir"])
        check_writable(folder)  # W&B would write into /tmp
        if arguments["mode"] == "offline":
            for earlier in (folder / "wandb").glob(f"offline-run-*-{arguments['id']}"):
                shutil.rmtree(earlier)
        self.run = wandb.init(**arguments)
        self.run.define_metric(clock)
        self.run.define_metric("*", step_metric=clock)
        self.logged = self.run.starting_step - 1

    def log(self, records: Iterable[Mapping[str, Any]]) -> None:
        """The evaluations of whole records that are not there yet."""
        for row in rows(records):
            if row["updates"] > self.logged:
                self.run.log(row, step=row["updates"])
                self.logged = row["updates"]

    def finish(self, status: str, reason: str, seconds: float | None) -> None:
        """A diverged run counts as a result, an interrupted one as failed."""
        self.run.summary.update({"status": status, "reason": reason, "seconds": seconds})
        self.run.finish(exit_code=0 if status in FINISHED else 1)


def rows(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One dictionary per evaluation: `train/nll`, `train (training mode)/nll`, `test (momentum=0.01)/nll`.

    Without passes over other orders and parts of the examples.
    """
    by_step: dict[int, dict[str, Any]] = {}
    for record in records:
        if "order" in record or "block" in record:
            continue
        row = by_step.setdefault(record["step"], {"updates": record["step"]})
        if "epoch" in record:  # another program may have logged none
            row["epoch"] = record["epoch"]
        variant = f" ({text(record['variant'])})" if record.get("variant") else ""
        place = f"{record['split']}{MODES.get(record['mode'], '')}{variant}"
        row |= {f"{place}/{key}": float(value) for key, value in record.items() if key not in PLACE}
    return [by_step[step] for step in sorted(by_step)]


class Logging:
    """Logs a run while it is trained. Where W&B fails there is one warning, and the run goes on without it."""

    def __init__(self, run: directory.RunDirectory, arguments: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        self.directory, self.arguments, self.warn = run, arguments, warn
        self.run: WandbRun | None = None
        self.read_bytes = 0  # of the curve
        self.failed = False

    def evaluated(self) -> None:
        """Log what was added to the curve."""
        self._try(self._log)

    def ended(self, status: str) -> None:
        """Log the last evaluation, and how the run ended."""
        self._try(lambda: self._finish(status))

    def _log(self) -> None:
        self.run = self.run or WandbRun(self.arguments)
        with open(self.directory.curve, "rb") as curve:
            curve.seek(self.read_bytes)
            added = curve.readlines()
            self.read_bytes = curve.tell()
        self.run.log(map(json.loads, added))

    def _finish(self, status: str) -> None:
        if status in FINISHED:
            self._log()  # the evaluation at which it diverged; all of a probe's
        if self.run is not None:
            run = directory.read(self.directory.path)
            facts = status, run.reason, run.seconds
            # in a thread: without a network it would wait for days
            ThreadPoolExecutor(1).submit(self.run.finish, *facts).result(FINISH_SECONDS)

    def _try(self, action: Callable[[], None]) -> None:
        if self.failed:
            return
        try:
            action()
        except Exception as error:  # of any type: a failure of W&B never stops a run
            self.failed = True
            self.warn(describe(error))


def wait_until_written() -> None:
    """W&B writes in the background, also after a run is finished; it ends with this process, too."""
    import wandb

    wandb.teardown()


def describe(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]
