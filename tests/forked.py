"""Worker processes forked off this one, which has imported torch; `tests/launch` tries those that users have."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys


class Forked:
    """What the pool asks of `subprocess.Popen`."""

    def __init__(self, command: list[str], *, env: dict[str, str], pass_fds: list[int], **_: object) -> None:
        self.process = multiprocessing.get_context("fork").Process(target=_work, args=(pass_fds[0], env))
        self.process.start()
        self.pid, self.kill = self.process.pid, self.process.kill

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0)
        return self.process.exitcode


def _work(end: int, environment: dict[str, str]) -> None:
    """As `python -m normbench.launch.process END`."""
    from normbench.launch import process

    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.closerange(3, end)  # the parent's ends of connections above all
    os.closerange(end + 1, 1 << 16)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.update(environment)
    sys.argv[1:] = [str(end)]
    process.main()
