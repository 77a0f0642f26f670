"""Runs that are there when this returns: found, or trained by a launcher."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from normbench import data
from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.launch.base import Launcher, Outcome, Watch, python
from normbench.runs import files, store, writing
from normbench.runs.find import Found, find

BUSY_SECONDS = 0.5  # between looks at runs that another process writes


@dataclass(frozen=True)
class Ensured:
    """What is found now, which runs were missing before, and how those that were launched ended."""

    found: Found
    missing: Sequence[RunSpec]
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # by run id
    interrupted: bool = False


def ensure_runs(
    specs: Sequence[RunSpec],
    launcher: Launcher,
    results: Path,
    announce: Callable[[Found, Sequence[RunSpec]], None] = lambda found, missing: None,
    watch: Watch = lambda runs: nullcontext(lambda spec, event: None),
    retry_failed: bool = True,
    seconds: float | None = None,
    wait_for_busy: bool = False,
) -> Ensured:
    """Find `specs` below `results` and train what is missing; NormbenchError before any is trained, where it cannot be.

    announce: called with what is found and what is missing before anything is checked or trained. watch: a context for
    the training of so many runs, which gives what listens to it. seconds: after that long running runs are saved and
    stopped; 0 trains nothing. wait_for_busy: runs that another process writes are waited for after all others, and
    taken over if that process ends without finishing.
    """
    found = find(specs, results)
    lacking = missing(specs, found, retry_failed)
    announce(found, lacking)
    if not lacking or seconds == 0:
        return Ensured(found, lacking)
    if seconds is not None and not launcher.here:
        raise NormbenchError(
            "--max-time ends runs that this command trains; this launcher leaves them to others. Leave one of the two "
            "out: how long a task of Slurm may take is launcher.time=4:00:00."
        )
    root = results / "runs"
    check_data(lacking)
    check_writable(root)
    for device in sorted({spec.config["device"] for spec in lacking}) if launcher.here else ():
        check_device(device)
    with watch(len(lacking)) as listen:
        deadline = None if seconds is None else time.monotonic() + seconds
        outcomes, interrupted = launcher.launch(lacking, root, listen, deadline)
        while wait_for_busy and not interrupted:
            busy = [spec for spec in lacking if outcomes[spec.id].status == "busy"]
            if not busy or (deadline is not None and time.monotonic() >= deadline):
                break
            try:
                free = [spec for spec in busy if not store.is_locked(writing.directory(root, spec).path)]
                if not free:
                    time.sleep(BUSY_SECONDS)
                    continue
            except KeyboardInterrupt:  # a launcher hears it only while it trains
                interrupted = True
                break
            # a run that the other process has finished ends at once
            again, interrupted = launcher.launch(free, root, listen, deadline)
            outcomes = {**outcomes, **again}
    found = find(specs, results)
    done = {run.id: run.status for run in found.runs}
    ended = {
        run: Outcome(done[run]) if outcome.status == "busy" and run in done else outcome
        for run, outcome in outcomes.items()  # who was met writing it has finished it since
    }
    return Ensured(found, lacking, ended, interrupted)


def missing(specs: Sequence[RunSpec], found: Found, retry_failed: bool = True) -> list[RunSpec]:
    """Those that are to be trained: damaged ones are left alone, and failed ones unless they are tried again."""
    left_alone = {"damaged"} if retry_failed else {"damaged", "failed"}
    return [spec for spec in specs if found.of(spec) is None and found.state(spec) not in left_alone]


def check_data(specs: Sequence[RunSpec]) -> None:
    """NormbenchError where data that these runs read is not here, or damaged."""
    sets = [of for spec in specs for of in data.read_by(spec.config)]
    for config in {(config["name"], config.get("source")): config for config in sets}.values():
        data.check(config)


def check_device(name: str) -> None:
    """Refuse a device that is not here, before anything starts; asked in a process of its own, for torch is slow."""
    if name == "cpu":
        return
    ask = f"from normbench.train.environment import device; device({name!r})"
    asked = subprocess.run(python("-c", ask), stderr=subprocess.PIPE, text=True, check=False)
    if asked.returncode:
        reason = asked.stderr.strip().splitlines()[-1].partition("NormbenchError: ")[2]
        raise NormbenchError(reason or f"device={name}: {asked.stderr.strip().splitlines()[-1]}")


def check_writable(root: Path) -> None:
    """Refuse an unwritable results folder before anything starts."""
    files.make_folder(root)
    if not os.access(root, os.W_OK):
        raise NormbenchError(f"{root} cannot be written. Choose another place with --results or NORMBENCH_RESULTS.")
