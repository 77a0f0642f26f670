"""Standard output and error that may be closed, or full, at any time: what a command does depends on neither."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any


class Output(io.FileIO):
    """A descriptor that goes to /dev/null after the first write that fails; `error` is that write's."""

    error: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.error = error
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # and so for the processes that are started later
            return len(content)


def guard() -> None:
    """Guard `sys.stdout` and `sys.stderr`, unless a test has put its own there. A closed one (`>&-`) is /dev/null."""
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:  # else the next file that is opened is standard output
        os.set_inheritable(null, True)
    os.close(null)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream: io.TextIOWrapper | None = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            if stream is None:
                settings: dict[str, Any] = {}
            else:
                stream.flush()
                settings = {key: getattr(stream, key) for key in ("encoding", "line_buffering", "write_through")}
            # a name may have characters that the terminal's encoding lacks
            guarded = io.TextIOWrapper(
                io.BufferedWriter(Output(number, "w", closefd=False)), errors="backslashreplace", **settings
            )
            setattr(sys, name, guarded)


def lost() -> OSError | None:
    """Why standard output is incomplete; None if it is whole, or if its reader wanted no more of it (`| head`)."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    error = raw.error if isinstance(raw, Output) else None
    return error if error and error.errno != errno.EPIPE else None
