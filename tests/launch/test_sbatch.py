"""What `launcher=slurm` asks of sbatch, of which a program of that name stands in; a real Slurm is in test_slurm.py."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import fake
import pytest

from normbench.errors import BadInput
from normbench.launch import slurm
from normbench.launch.base import Outcome

SBATCH = """#!/bin/bash
cd "$(dirname "$0")"
[ ! -e refuse ] || { echo "sbatch: error: Invalid partition" >&2; exit 1; }
printf "%s\\n" "$@" >words
cat >script
echo "100;cluster"
"""


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(stat.S_IRWXU)


def submit(results: Path, runs: int, **options: object) -> dict[str, Outcome]:
    return slurm.Slurm(workers=4, **options).launch(fake.specs(runs), results / "runs", print, 0.0)[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program(tmp_path / "sbatch", SBATCH)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_one_array_of_workers_is_submitted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker takes the shell's place, which alone gets Slurm's signal."""
    program(folder / "python", '#!/bin/bash\necho "$$ $COLOUR $*"\n')
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    more = {"time": "4:00:00", "grace": 90, "setup": ["export COLOUR=green", "echo $$"], "options": ["--qos=low"]}
    outcomes = submit(folder / "results", 3, **more)
    (path,) = (folder / "results" / "plans").iterdir()
    reason = f"submitted: job 100, 3 tasks for 3 runs; {path}"
    assert {(outcome.status, outcome.reason) for outcome in outcomes.values()} == {("planned", reason)}
    words = {*(folder / "words").read_text().split()}
    assert {"--array=0-2", "--requeue", "--time=4:00:00", "--signal=B:TERM@90", "--qos=low"} <= words
    assert not any(word.startswith(("--partition", "--mem")) for word in words)
    environment = os.environ | {"SLURM_ARRAY_TASK_ID": "1"}
    done = subprocess.run(["bash", folder / "script"], env=environment, capture_output=True, text=True, check=True)
    shell, worker = done.stdout.splitlines()
    assert worker == f"{shell} green -P -m normbench worker {path} --shard 1/3"


def test_a_refusal_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "refuse").touch()
    with pytest.raises(BadInput, match="Invalid partition"):
        submit(folder / "results", 1)
    monkeypatch.setenv("PATH", str(folder / "results"))
    with pytest.raises(BadInput, match="sbatch"):
        submit(folder / "results", 1)
