"""A worker process: trains the runs that it receives one by one; imports torch once.

Its only argument is the number of its end of the connection to the pool. In: `{"run": ..., "path": ..., "wandb": ...}`,
or None, which stops the run and ends the worker. Out: the events `progress`, `warning` and `end`. A run's printed
output goes to its log.

It ends after a run with a user's code, which may have changed torch for all runs of its process. Where the connection
ends the pool has ended: the run is saved and the worker ends; so it does on SIGTERM, which a batch system sends to all
processes of a job.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from normbench.config.spec import Spec
from normbench.core import user_code
from normbench.errors import FULL, NormbenchError, line_of
from normbench.launch.base import Outcome
from normbench.launch.wandb_run import Logging
from normbench.runs import directory
from normbench.runs.run import FINISHED

Job = dict[str, Any]


def main() -> None:
    pool = Connection(int(sys.argv[1]))
    os.set_inheritable(pool.fileno(), False)  # programs that a run starts may outlive it
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped  # no Event: a second signal during its `set` would deadlock
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_receive, args=(pool, jobs, stop), daemon=True).start()
    while not stopped and (job := jobs.get()):
        _run(job, pool, lambda: stopped)
        if user_code.executed:
            return


def _receive(pool: Connection, jobs: queue.SimpleQueue[Job | None], stop: Callable[[], None]) -> None:
    """Pass runs on, until the pool says or shows by its end that there are no more."""
    with contextlib.suppress(EOFError, OSError):
        while job := pool.recv():
            jobs.put(job)
    stop()
    jobs.put(None)


def _run(job: Job, pool: Connection, stopped: Callable[[], bool]) -> None:
    def send(event: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the pool is gone; `stopped` ends the run
            pool.send(event)

    def listen(event: dict[str, Any]) -> None:
        if logging and "epoch" in event:
            logging.evaluated()
        send({"event": "progress"} | event)

    run = directory.RunDirectory(job["path"])
    arguments = job["wandb"]
    logging = arguments and Logging(run, arguments, lambda text: send({"event": "warning", "text": text}))
    outcome = train_one(job["run"], run, listen, stopped)
    if logging:
        logging.ended(outcome.status)
    send({"event": "end", "outcome": outcome, "last": bool(user_code.executed)})


def train_one(
    message: Mapping[str, Any],
    run: directory.RunDirectory,
    listen: Callable[[dict[str, Any]], None],
    stopped: Callable[[], bool],
) -> Outcome:
    """Train, or resume, the run of a spec's message in its directory; its outcome, whatever it raises."""
    from normbench.train.train_one import ensure_run  # imported here: torch is slow

    try:
        spec = Spec.from_json(message)
        _print_to(run.path / "output.log")
        return Outcome(ensure_run(spec, run, listen, stopped), directory.read(run.path).reason)
    except NormbenchError as error:
        if error.code == 2:
            _remove_if_empty(run.path)
        status = {4: "failed", 5: "busy"}.get(error.code, "refused")
        return Outcome(status, f"{error}{line_of(error)}", error.code)
    except BaseException as error:  # raised by a model or a user's code, as sys.exit does: the other runs continue
        if isinstance(error, OSError) and error.errno in FULL:  # where the run does not handle it itself
            return Outcome("failed", f"{run.path}: {error.strerror}", 4)
        reason = f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ") + line_of(error)
        _record_failure(run, reason)
        return Outcome("failed", reason)
    finally:
        sys.stdout.flush()  # into this run's log


def _print_to(log: Path) -> None:
    """From here on what this process prints goes to a run's log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _remove_if_empty(path: Path) -> None:
    """Remove the folder of a run that was refused before it began: it would be listed as killed."""
    with contextlib.suppress(OSError):
        if {entry.name for entry in path.iterdir()} <= {"lock", "output.log"} and not directory.is_locked(path):
            shutil.rmtree(path)


def _record_failure(run: directory.RunDirectory, reason: str) -> None:
    """Write the traceback to the run's log, and the status unless the run is finished."""
    # the failure may be that nothing can be written here; the caller gets the outcome all the same
    with contextlib.suppress(Exception), run.writing():
        traceback.print_exc()
        stored = directory.read(run.path)
        if stored.status not in (*FINISHED, "damaged"):
            run.content = run.content or directory.carried(stored)
            run.write("failed", reason=reason)


if __name__ == "__main__":
    main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is written; to take torch apart, object by object, costs 0.3 s
