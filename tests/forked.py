"""Worker processes forked off this one, which has imported torch; `tests/launch` tries those that users have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from typing import Any

import tiny


class Forked:
    """What the pool asks of `subprocess.Popen`."""

    def __init__(self, command: list[str], *, env: dict[str, str], pass_fds: list[int], **_: Any) -> None:
        source, sink = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _work(source, pass_fds[0], env)
        os.close(source)
        self.stdin = os.fdopen(sink, "wb")

    def poll(self) -> int | None:
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        if not tiny.wait_until(lambda: self.poll() is not None, timeout):
            raise subprocess.TimeoutExpired("a forked worker", timeout)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _work(source: int, events: int, environment: dict[str, str]) -> None:
    """As `python -m normbench.launch.process EVENTS`; never returns."""
    code = 1
    try:
        from normbench.launch import process

        os.setsid()
        os.dup2(source, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.closerange(3, events)
        os.closerange(events + 1, 1 << 16)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.update(environment)
        sys.argv[1:] = [str(events)]
        process.main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
