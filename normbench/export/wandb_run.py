"""A run as a Weights & Biases run. The only module that imports wandb."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import normbench
from normbench.compare import configuration
from normbench.config.plan import ADHOC
from normbench.errors import NormbenchError, code_of
from normbench.eval_variants import text
from normbench.runs import files
from normbench.runs.record import PLACE, RunRecord

INIT_SECONDS = 30.0  # with a key and no network, wandb itself would wait 90 s and more
ASKED_WRONGLY = ("UsageError", "AuthenticationError")  # W&B's errors for a missing or wrong key
PLACES = {
    "train": " (training mode)",
    "running": " (running mean)",
    "whole": " (whole split)",
    "along": " (along training)",
}  # by a record's mode; evaluation has no suffix
COLUMNS = {"epoch": "epoch", "step": "updates"}  # what W&B has of a record's place


@dataclass
class Target:
    """Where runs go: `offline` into files below `folder`, `online` to the server that wandb is configured for.

    Call `settle` when all runs are sent: W&B writes in the background, and only then does the ledger get its entries.
    """

    mode: str
    project: str
    entity: str
    folder: Path
    finished: dict[str, float] = field(default_factory=dict)  # run id -> its last epoch, which may be fractional

    def make_folder(self) -> None:
        """NormbenchError where the folder cannot be written: W&B would fall back to /tmp."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise NormbenchError(
                f"{self.folder} cannot be written: {error.strerror}. Choose another place with --results.",
                code_of(error),
            ) from None

    def ledger(self, run: str) -> Path:
        """The file that notes the last epoch sent of a run, so that nothing is sent twice."""
        return self.folder / "sent" / f"{run}.{self.mode}.json"

    def arrived(self, run: str) -> float:
        """The last epoch of a run that was sent, which may be fractional; -1 for none."""
        try:
            content = json.loads(self.ledger(run).read_text())
            return float(content["epoch"]) if content["project"] == self._place() else -1
        except (OSError, ValueError, KeyError, TypeError):
            return -1

    def has(self, run: RunRecord) -> bool:
        """Whether all epochs of a run were sent."""
        return self.arrived(run.id) >= max((record[_clock(run)] for record in run.records), default=-1)

    @property
    def files(self) -> str:
        """Where the offline files are, and the command that sends them to a server."""
        return f"W&B files of finished runs: {self.folder}; to a server: wandb sync {self.folder}/wandb/offline-run-*"

    def clear(self, run: str) -> None:
        """Remove earlier offline files of a run: the next file has all its steps from 0 on.

        Files of another project stay.
        """
        if self.ledger(run).exists() and self.arrived(run) < 0:
            return
        self.ledger(run).unlink(missing_ok=True)
        for folder in (self.folder / "wandb").glob(f"offline-run-*-{run}"):
            shutil.rmtree(folder)

    def settle(self) -> None:
        """Wait until W&B has written everything, then note the finished runs in the ledger."""
        if not self.finished:
            return
        _wandb().teardown()
        (self.folder / "sent").mkdir(parents=True, exist_ok=True)
        for run, epoch in self.finished.items():
            files.write_json(self.ledger(run), {"epoch": epoch, "project": self._place()})
        self.finished.clear()

    def _place(self) -> str:
        return f"{self.entity}/{self.project}"


def group(run: RunRecord) -> str:
    """Experiment, name and axes: the runs of one group differ in their seed alone."""
    axes = [f"{key}={value}" for key, value in run.axes.items()]
    return " ".join(text for text in (run.experiment, name(run), *axes, run.control) if text)


def name(run: RunRecord) -> str:
    """Its arm; of a run of no experiment its configuration."""
    return configuration.describe_config(run.config) if run.experiment == ADHOC else run.arm


def _clock(run: RunRecord) -> str:
    """What orders its records: another program may have logged no epochs, or many records of one."""
    return "step" if run.logged else "epoch"


def epochs(records: Sequence[Mapping[str, Any]], after: float, clock: str = "epoch") -> Iterator[dict[str, Any]]:
    """One dictionary per epoch beyond `after`: `train/nll`, `train (training mode)/nll`, `test (momentum=0.01)/nll`.

    Without passes over other orders and parts of the examples. clock: `step` for one per update that was logged.
    """
    merged: dict[float, dict[str, Any]] = {}
    for record in records:
        if record[clock] <= after or "order" in record or "block" in record:
            continue
        variant = f" ({text(record['variant'])})" if record.get("variant") else ""
        place = f"{record['split']}{PLACES.get(record['mode'], '')}{variant}"
        place_in_run = {name: record[key] for key, name in COLUMNS.items() if key in record}
        row = merged.setdefault(record[clock], place_in_run)
        row |= {f"{place}/{key}": float(value) for key, value in record.items() if key not in PLACE}
    yield from (merged[place] for place in sorted(merged))


class WandbRun:
    """An open W&B run; NormbenchError with one line when W&B does not take it."""

    def __init__(self, run: RunRecord, target: Target) -> None:
        self.id, self.target, self.clock = run.id, target, _clock(run)
        self.sent = target.arrived(run.id) if target.mode == "online" else -1.0
        target.make_folder()
        if target.mode == "offline":
            target.clear(run.id)
        wandb = _wandb()
        try:
            self.run = wandb.init(
                project=target.project,
                entity=target.entity or None,
                dir=str(target.folder),
                mode=target.mode,
                id=run.id,
                resume="allow" if target.mode == "online" else None,
                name=f"{name(run)} s{run.seed}",
                group=group(run),
                job_type=run.experiment,
                tags=[run.fidelity],
                config=_config(run),
                reinit="create_new",
                settings=wandb.Settings(
                    silent=True,
                    console="off",
                    init_timeout=INIT_SECONDS,
                    disable_git=True,
                    disable_code=True,
                    save_code=False,
                    x_disable_stats=True,
                    x_disable_meta=True,  # host name, user and command line stay private
                    host="-",
                    username="-",
                ),
            )
        except Exception as error:  # of any type: a failure of W&B is one line, never a traceback
            asked_wrongly = type(error).__name__ in ASKED_WRONGLY
            raise NormbenchError(f"W&B does not take run {run.id}: {_line(error)}", 2 if asked_wrongly else 4) from None
        if target.mode == "online":  # of an interrupted run the server may have more than the ledger says
            newest = self.run.summary.get(COLUMNS[self.clock])
            self.sent = max(self.sent, newest) if isinstance(newest, int | float) else self.sent
        self.run.define_metric(COLUMNS[self.clock])
        self.run.define_metric("*", step_metric=COLUMNS[self.clock])

    def log(self, records: Sequence[Mapping[str, Any]]) -> None:
        """The epochs of `records` that have not arrived yet."""
        for row in epochs(records, self.sent, self.clock):
            self.run.log(row)
            self.sent = row[COLUMNS[self.clock]]

    def finish(self, status: str, reason: str = "", seconds: float | None = None) -> None:
        """Close it with the run's status; a diverged run counts as a result, an interrupted one as failed."""
        self.run.summary.update({"status": status, "reason": reason, "seconds": seconds})
        self.run.finish(exit_code=0 if status in ("done", "diverged") else 1)
        self.target.finished[self.id] = self.sent


def send(run: RunRecord, target: Target) -> bool:
    """Replay one finished run; False if it was sent already. Call `target.settle()` afterwards."""
    if target.has(run):
        return False
    opened = WandbRun(run, target)
    try:
        opened.log(run.records)
        opened.finish(run.status, run.reason, run.seconds)
    except Exception as error:  # as above
        raise NormbenchError(f"W&B broke off at run {run.id}: {_line(error)}", 4) from None
    return True


def _config(run: RunRecord) -> dict[str, Any]:
    labels = {"experiment": run.experiment, "arm": run.arm, "fidelity": run.fidelity, "control": run.control}
    own = {"run": run.id, "version": normbench.__version__, "environment": dict(run.environment)}
    return {**dict(run.config), **labels, **{f"axis {key}": value for key, value in run.axes.items()}, "normbench": own}


def _wandb() -> Any:
    # our arguments decide, not the environment
    for name in ("WANDB_MODE", "WANDB_RUN_ID", "WANDB_RESUME", "WANDB_RUN_GROUP", "WANDB_NAME", "WANDB_TAGS"):
        os.environ.pop(name, None)
    import wandb

    return wandb


def _line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]
