"""A worker process: trains the runs that it receives on its standard input, one by one; imports torch once.

It ends after a run with a user's code, which may have changed torch for all runs of its process.

It reads and writes lines of JSON. In: `{"run": {...}, "path": ..., "wandb": {...}}` or `{"stop": true}`. Out, on a
descriptor whose number is the only argument: the events `progress`, `warning` and `end`. A run's printed output goes to
its log instead.
The end of the input means that the parent has ended: the run is saved and the worker ends; so it does on SIGTERM, which
a batch system sends to all processes of a job.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

from normbench.core import user_code
from normbench.launch.run_one import train_one
from normbench.launch.wandb_run import Logging
from normbench.runs import directory

GRACE_SECONDS = 20.0  # for the last checkpoint after the parent has gone


def main() -> None:
    events = int(sys.argv[1])
    os.set_inheritable(events, False)  # programs that a run starts may outlive it
    source = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a run that reads its standard input must not read the jobs
    jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
    stopping = threading.Event()
    terminated = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal terminated  # no Event: a second signal during its `set` would deadlock
        terminated = True

    signal.signal(signal.SIGTERM, terminate)
    threading.Thread(target=_listen, args=(source, jobs, stopping), daemon=True).start()
    while not terminated and (job := jobs.get()) is not None:
        _run(job, events, stopping, lambda: terminated or stopping.is_set())
        if user_code.executed:
            return


def _listen(source: IO[str], jobs: queue.Queue[dict[str, Any] | None], stopping: threading.Event) -> None:
    with contextlib.suppress(ValueError):  # a torn line: the parent was killed as it wrote
        for text in source:
            message = json.loads(text)
            if message.get("stop"):
                stopping.set()
            else:
                jobs.put(message)
    stopping.set()
    jobs.put(None)
    timer = threading.Timer(GRACE_SECONDS, os._exit, (1,))
    timer.daemon = True  # it does not delay a worker that ends in time
    timer.start()


def _run(job: dict[str, Any], events: int, stopping: threading.Event, stopped: Callable[[], bool]) -> None:
    def send(event: Mapping[str, Any]) -> None:
        line = (json.dumps(event) + "\n").encode()
        try:
            while line:
                line = line[os.write(events, line) :]
        except OSError:  # the parent is gone; `stopping` ends the run
            stopping.set()

    run = directory.RunDirectory(Path(job["path"]))
    arguments = job.get("wandb")
    logging = arguments and Logging(run, arguments, lambda text: send({"event": "warning", "text": text}))

    def listen(event: dict[str, Any]) -> None:
        if logging and "epoch" in event:
            logging.evaluated()
        send({"event": "progress"} | event)

    outcome = train_one(job["run"], run, listen, stopped)
    if logging:
        logging.ended(outcome.status)
    send({"event": "end", "last": user_code.executed} | vars(outcome))


if __name__ == "__main__":
    main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is written; to take torch apart, object by object, costs 0.3 s
