"""Users' code in a process of its own: what it returns, raises and ends, and that it never outlives normbench."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import child
import pytest

from normbench.core import user_code
from normbench.errors import NormbenchError

PARENT = """
import os, sys, time
from pathlib import Path
from normbench.core import user_code

def endless():
    Path(sys.argv[1]).write_text(f"{os.getpid()}\\n")
    while True:
        time.sleep(0.01)

user_code.apart("mine.py", endless)
"""


def stop(code: Any) -> None:
    raise SystemExit(code)


def test_its_result_comes_back() -> None:
    assert user_code.apart("mine.py", sorted, [3, 1, 2]) == [1, 2, 3]
    assert user_code.apart("mine.py", os.getpid) != os.getpid()


def test_its_error_comes_back() -> None:
    with pytest.raises(ZeroDivisionError):
        user_code.apart("mine.py", divmod, 1, 0)


@pytest.mark.parametrize(("work", "told"), [(os._exit, "mine.py"), (stop, "SystemExit")])
def test_code_that_ends_its_process_is_one_line(work: Any, told: str) -> None:
    with pytest.raises(NormbenchError, match=told) as raised:
        user_code.apart("mine.py", work, 0)
    assert raised.value.code == 4


def test_it_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script, written = tmp_path / "parent.py", tmp_path / "pid"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": child.path()}
    parent = subprocess.Popen([sys.executable, str(script), str(written)], env=environment)
    while parent.poll() is None and not (written.is_file() and written.read_text().endswith("\n")):
        time.sleep(0.01)
    process = int(written.read_text())
    parent.kill()
    parent.wait()
    try:
        assert ends(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def ends(process: int) -> bool:
    """Whether it is gone, or waits for its new parent alone, before ten seconds are over."""
    for _ in range(1000):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                time.sleep(0.01)
                continue
        return True
    return False
