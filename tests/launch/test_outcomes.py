"""How a run ends that raises: of the file system's faults no word says that the run was refused."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import tiny

from normbench.errors import BadInput, Busy, Failed
from normbench.launch import process
from normbench.runs.directory import RunDirectory
from normbench.train import train_one


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "failed", 4),
        (Failed("disk full"), "failed", 4),
        (Busy("another process"), "busy", 5),
        (BadInput("no such option"), "refused", 2),
    ],
)
def test_a_run_is_refused_for_what_it_asks_alone(
    error: Exception, status: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr(train_one, "ensure_run", fail)
    monkeypatch.setattr(process, "_print_to", lambda log: None)
    run = RunDirectory(tmp_path / "run")
    outcome = process.train_one(tiny.spec().to_json(), run, lambda event: None, lambda: False)
    assert (outcome.status, outcome.code) == (status, code)
