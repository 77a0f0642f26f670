"""A worker of a plan: it claims one run after the other and trains it, beside any number of others, anywhere."""

from __future__ import annotations

import errno
import os
import random
import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.launch.base import Outcome
from normbench.launch.run_one import train_one
from normbench.runs import store, writing
from normbench.runs.damaged import Damaged, why
from normbench.runs.plans import Plan

STOPPED = 130  # the exit code of a worker that was told to stop and leaves runs to be trained
PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EMFILE, errno.ENFILE}  # not the run's fault
UNREAD = 4  # of a run that could not be looked at: repeat the command
CODES = {"refused": 2, "failed": 4, "damaged": 4}


def work(plan: Plan, say: Callable[[str], None]) -> int:
    """Train what is left of a plan. Exit code: 0 done, 2 a run was refused, 4 one failed or is damaged, 130 stopped.

    SIGTERM or SIGINT let it save its run and end. A worker that finds only runs which others write leaves them: who
    waits for the end of a run holds a node for nothing.
    """
    told = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal told  # no Event: a second signal inside its `set` would wait for the first for ever
        told = True

    def stopping() -> bool:
        return told

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    waiting = {str(run["id"]): run for run in plan.runs}
    left = random.SystemRandom().randrange(len(waiting) or 1)  # not all workers ask for the same run first
    order = [*waiting][left:] + [*waiting][:left]
    code, again, found = 0, True, 0
    busy: list[Outcome] = []
    while waiting and again and not told:
        busy, again = [], False
        for run in [run for run in order if run in waiting]:
            ended = _one(plan, waiting[run], stopping)
            if ended.status == "busy":
                busy.append(ended)
                continue
            if ended.status == "finished before":
                found += 1
            else:
                again = True  # it took a while: what was busy may have been left since
                reason = f": {ended.reason}" if ended.reason else ""
                say(f"{run} {ended.status}{reason}")
            code = max(code, ended.code or CODES.get(ended.status, 0))
            if told:
                break
            del waiting[run]
    if told and (left := sum(_is_left(plan, message) for message in waiting.values())):
        say(f"told to stop: {left} of {len(plan.runs)} runs are left")
        return STOPPED
    if found:
        say(f"{found} of {len(plan.runs)} runs found; not trained again")
    unread = [ended.reason for ended in busy if ended.code == UNREAD]
    for reason in unread:
        say(reason)
    if len(busy) > len(unread):
        say(f"nothing left to claim: {len(busy) - len(unread)} being written by other workers")
    return max([code, UNREAD]) if unread else code


def _one(plan: Plan, message: Mapping[str, Any], stopping: Callable[[], bool]) -> Outcome:
    try:
        spec = RunSpec.from_message(message)
    except NormbenchError as error:
        return Outcome("refused", str(error), error.code)
    try:
        run = writing.directory(plan.root, spec)
        before = settled(plan, spec, run)
    except OSError as error:  # of this run: the others go on
        return Outcome("busy", f"{spec.id} cannot be read now: {why(error)}", UNREAD)
    run.claimed = True
    return before or train_one(message, run, stopping=stopping)


def settled(plan: Plan, spec: RunSpec, run: writing.RunDirectory) -> Outcome | None:
    """Why there is nothing to train: finished, damaged, or tried and failed since the plan was asked for; else None.

    OSError where the file system does not answer, as NFS may for a file that another node has just replaced.
    """
    before = Outcome("finished before")
    if not run.path.is_dir():
        return None
    try:
        if store.read_status(run.path)["status"] == "failed":
            return before if os.stat(run.path / "status.json").st_mtime_ns > plan.since else None
    except FileNotFoundError:
        return None
    except Damaged as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in PASSING:
            raise error.__cause__ from None
        return Outcome("damaged", f"{why(error)}; it is left alone (normbench check)")
    return before if store.finished(run.path, spec.steps, spec) else None


def _is_left(plan: Plan, message: Mapping[str, Any]) -> bool:
    """Whether a later worker would find it to be trained: nobody has finished it meanwhile, and it is not refused."""
    try:
        spec = RunSpec.from_message(message)
        return settled(plan, spec, writing.directory(plan.root, spec)) is None
    except NormbenchError:
        return False
    except OSError:
        return True
