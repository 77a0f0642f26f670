"""A worker of a plan: it claims and trains one run after another; any number of workers share a plan."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.launch.base import Outcome
from normbench.launch.run_one import train_one
from normbench.runs import run_file, store, writing
from normbench.runs.damaged import Damaged, why
from normbench.runs.plans import Plan

STOPPED = 130  # the exit code of a worker that was stopped while runs are left
UNREAD = 4  # the exit code if a run could not be read: repeat the command
CODES = {"refused": 2, "failed": 4, "damaged": 4}


def work(plan: Plan, report: Callable[[str], None]) -> int:
    """Train the remaining runs of a plan. Exit code: 0 done, 2 a run was refused, 4 failed or damaged, 130 stopped.

    On SIGTERM or SIGINT it saves its run and ends. It also ends when all remaining runs are written by others: waiting
    for them would occupy a node for nothing.
    """
    stop_requested = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stop_requested  # no Event: a second signal during its `set` would deadlock
        stop_requested = True

    def stopping() -> bool:
        return stop_requested

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    waiting = {str(run["id"]): run for run in plan.runs}
    order = random.SystemRandom().sample([*waiting], len(waiting))  # workers start with different runs
    code, again, found = 0, True, 0
    busy: list[Outcome] = []
    while waiting and again and not stop_requested:
        busy, again = [], False
        for run in [run for run in order if run in waiting]:
            outcome = _train_if_needed(plan, waiting[run], stopping)
            if outcome.status == "busy":
                busy.append(outcome)
                continue
            if outcome.status == "finished before":
                found += 1
            else:
                again = True  # time has passed: busy runs may be free now
                reason = f": {outcome.reason}" if outcome.reason else ""
                report(f"{run} {outcome.status}{reason}")
            code = max(code, outcome.code or CODES.get(outcome.status, 0))
            if stop_requested:
                break
            del waiting[run]
    if stop_requested and (left := sum(_is_left(plan, message) for message in waiting.values())):
        report(f"told to stop: {left} of {len(plan.runs)} runs are left")
        return STOPPED
    if found:
        report(f"{found} of {len(plan.runs)} runs found; not trained again")
    unread = [outcome.reason for outcome in busy if outcome.code == UNREAD]
    for reason in unread:
        report(reason)
    if len(busy) > len(unread):
        report(f"nothing left to claim: {len(busy) - len(unread)} being written by other workers")
    return max([code, UNREAD]) if unread else code


def _train_if_needed(plan: Plan, message: Mapping[str, Any], stopping: Callable[[], bool]) -> Outcome:
    try:
        spec = ResolvedRun.from_message(message)
    except NormbenchError as error:
        return Outcome("refused", str(error), error.code)
    try:
        run = writing.directory(plan.root, spec)
        before = settled(plan, spec, run)
    except OSError as error:  # of this run only: continue with the others
        return Outcome("busy", f"{spec.id} cannot be read now: {why(error)}", UNREAD)
    run.claimed = True
    return before or train_one(message, run, stopping=stopping)


def settled(plan: Plan, spec: ResolvedRun, run: writing.RunDirectory) -> Outcome | None:
    """The outcome of a run that need not be trained: finished, damaged, or failed since it was planned; else None.

    OSError if the file system does not answer, as NFS may for a file that another node has just replaced.
    """
    before = Outcome("finished before")
    if not run.path.is_dir():
        return None
    try:
        content = run_file.read(run.path)
        if content["status"] == "failed":
            return before if os.stat(run.path / run_file.NAME).st_mtime_ns > plan.since else None
    except FileNotFoundError:
        return None
    except Damaged as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        return Outcome("damaged", f"{why(error)}; it is left alone (normbench check)")
    return before if store.serves(content, spec) else None


def _is_left(plan: Plan, message: Mapping[str, Any]) -> bool:
    """Whether a later worker would train it: it is neither finished meanwhile nor refused."""
    try:
        spec = ResolvedRun.from_message(message)
        return settled(plan, spec, writing.directory(plan.root, spec)) is None
    except NormbenchError:
        return False
    except OSError:
        return True
