"""Worker processes forked off this one, which has imported torch; `tests/launch` tries those that users have."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys


class Forked:
    """What the pool asks of `subprocess.Popen`."""

    def __init__(self, command: list[str], *, env: dict[str, str], pass_fds: list[int], **_: object) -> None:
        source, sink = os.pipe()
        self.process = multiprocessing.get_context("fork").Process(target=_work, args=(source, pass_fds[0], env))
        self.process.start()
        os.close(source)
        self.stdin, self.pid, self.kill = os.fdopen(sink, "wb"), self.process.pid, self.process.kill

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0)
        return self.process.exitcode


def _work(source: int, events: int, environment: dict[str, str]) -> None:
    """As `python -m normbench.launch.process EVENTS`."""
    from normbench.launch import process

    os.setsid()
    os.dup2(source, 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.closerange(3, events)  # the parent's ends of pipes above all
    os.closerange(events + 1, 1 << 16)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.update(environment)
    sys.argv[1:] = [str(events)]
    process.main()
