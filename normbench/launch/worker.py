"""A worker process: trains the runs that arrive on its standard input, one by one; torch is imported once.

Lines of JSON both ways. In: `{"run": {...}, "path": ...}` or `{"stop": true}`. Out, on a descriptor of their own whose
number is the only argument: events, `progress` and `end`. What is printed is no part of it: a run's goes to its log.
The end of the input means that the parent is gone, however it went: the run is saved and the worker ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, Any

from normbench import reading
from normbench.config.identity import RunSpec
from normbench.errors import FULL, NormbenchError
from normbench.runs import store, writing

GRACE_SECONDS = 20.0  # for the last checkpoint after the parent has gone


def main() -> None:
    events = int(sys.argv[1])
    os.set_inheritable(events, False)  # not for programs that a run starts: they may outlive it
    source = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what a run starts or asks must not read what is meant for us
    jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
    stopping = threading.Event()
    threading.Thread(target=_listen, args=(source, jobs, stopping), daemon=True).start()
    while (job := jobs.get()) is not None:
        _run(job, events, stopping)


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
    timer.daemon = True  # a worker that ends in time is not held back
    timer.start()


def _run(job: dict[str, Any], events: int, stopping: threading.Event) -> None:
    from normbench.train.ensure import ensure_run  # here, for torch takes a while, in which the input is heard

    def tell(event: str, **fields: Any) -> None:
        line = (json.dumps({"event": event} | fields) + "\n").encode()
        try:
            while line:
                line = line[os.write(events, line) :]
        except OSError:  # the parent is gone; `stopping` ends the run
            stopping.set()

    run = writing.RunDirectory(Path(job["path"]))
    try:
        spec = RunSpec.from_message(job["run"])
        with _output_to(run.path / "output.log"):
            status = ensure_run(spec, run, lambda event: tell("progress", **event), stopping.is_set)
        tell("end", status=status, reason=store.read_status(run.path).get("reason", ""))
    except NormbenchError as error:
        if error.code == 2:
            _leave_nothing_begun(run.path)
        tell("end", status="busy" if error.code == 5 else "refused", reason=str(error), code=error.code)
    except Exception as error:  # whatever a model or a user's normalizer raises: this run failed, the others go on
        if isinstance(error, OSError) and error.errno in FULL:  # outside of the run's own care
            return tell("end", status="refused", reason=f"{run.path}: {error.strerror}", code=4)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _record_failure(run, reason)
        tell("end", status="failed", reason=reason)


def _leave_nothing_begun(path: Path) -> None:
    """A run that was refused before it began leaves no folder: it would be listed as one that was killed."""
    with contextlib.suppress(OSError):
        if {entry.name for entry in path.iterdir()} <= {"lock", "output.log"} and not store.is_locked(path):
            shutil.rmtree(path)


def _record_failure(run: writing.RunDirectory, reason: str) -> None:
    """The traceback into the run's log, and the status; a finished run keeps its own."""
    # the failure may be that nothing can be written here; the parent hears of it all the same
    with contextlib.suppress(Exception), run.writing():
        with open(run.path / "output.log", "a", opener=reading.at_once) as log:
            traceback.print_exc(file=log)
        if store.finished(run.path, 1) is None:
            run.write_status("failed", reason=reason)


class _output_to:
    """Standard output and error of the process into a run's log while the run lasts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        self.kept = os.dup(1), os.dup(2)
        log = reading.at_once(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)

    def __exit__(self, *error: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for target, kept in zip((1, 2), self.kept, strict=True):
            os.dup2(kept, target)
            os.close(kept)


if __name__ == "__main__":
    main()
