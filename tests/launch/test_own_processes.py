"""A user's code has its process for itself: it can change torch, or end its process, for no other run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import child
import pytest
import tiny

from normbench.runs.table import Runs

HEAD = "import os, sys\nimport torch\nfrom torch import nn\n"
PATCHES = (
    HEAD
    + """
layer_norm = torch.nn.functional.layer_norm
torch.nn.functional.layer_norm = lambda *words, **named: 0.5 * layer_norm(*words, **named)
torch.layer_norm = torch.native_layer_norm = None


class Mine(nn.Module):
    def forward(self, x):
        return x.tanh()
"""
)
SLOW = [pytest.param(ends, marks=pytest.mark.slow) for ends in ("os._exit(0)", "raise KeyboardInterrupt")]
ENDINGS = ["sys.exit(0)", *SLOW]
ENDS = """
class Mine(nn.Module):
    passes = 0

    def forward(self, x):
        Mine.passes += 1
        if Mine.passes > {}:
            {}
        return x.tanh()
"""


def normbench(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of a command, with the processes that users have."""
    command = [sys.executable, "-W", "ignore", "-m", "normbench", *words]
    environment = os.environ | {"PYTHONPATH": child.path()}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def curves(results: Path) -> dict[str, bytes]:
    return {run.id: (run.path / "curve.jsonl").read_bytes() for run in Runs(results).raw}


@pytest.mark.parametrize("launcher", ["local", pytest.param("pool", marks=pytest.mark.slow)])
def test_a_file_that_changes_torch_changes_no_other_run(tmp_path: Path, launcher: str) -> None:
    (tmp_path / "mine.py").write_text(PATCHES)
    assert tiny.train(tmp_path / "alone", "norm=layer") == "done"
    words = (*tiny.WORDS, "norm=mine.py,layer,mine.py", f"launcher={launcher}")
    code, output = normbench(tmp_path, "train", "-m", *words)
    assert code == 0, output
    beside = curves(tmp_path / "results")
    assert len(beside) == 2 and beside[tiny.spec("norm=layer").id] == (tmp_path / "alone" / "curve.jsonl").read_bytes()


@pytest.mark.parametrize("ends", ENDINGS)
def test_a_file_that_ends_its_process_in_its_trial_is_refused(tmp_path: Path, ends: str) -> None:
    (tmp_path / "mine.py").write_text(HEAD + ENDS.format(0, ends))
    for words in (("train", *tiny.WORDS, "norm=mine.py"), ("battery", "--norm", "mine.py")):
        code, output = normbench(tmp_path, *words)
        assert code == 4 and "mine.py" in output and len(output.splitlines()) == 1, output
    assert not (tmp_path / "results" / "runs").exists()


@pytest.mark.parametrize("ends", ENDINGS)
def test_a_run_that_ends_its_process_fails_alone(tmp_path: Path, ends: str) -> None:
    late = ENDS.format(0, ends).replace("if Mine", "if sys.argv[0].endswith('process.py') and Mine")  # in a worker
    (tmp_path / "mine.py").write_text(HEAD + late)
    code, output = normbench(tmp_path, "train", "-m", *tiny.WORDS, "norm=mine.py,layer")
    assert code == 4, output
    assert "mine.py, line" in output or "its worker ended unexpectedly (exit code 0)" in output
    states = [run.status for run in Runs(tmp_path / "results").raw]
    assert len(states) == 2 and states.count("done") == 1


@pytest.mark.slow
def test_a_data_set_that_calls_exit_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "own" / "data").mkdir(parents=True)
    examples = Path(__file__).parents[2] / "examples" / "own_data" / "data"
    for file in examples.iterdir():
        if file.is_file():
            text = file.read_text().replace("    return Dataset(", "    raise SystemExit(0)\n    return Dataset(")
            (tmp_path / "own" / "data" / file.name).write_text(text)
    words = ("model=mnist_mlp", "data=wine", "train.batch_size=50", "train.epochs=1", "norm=none")
    code, output = normbench(tmp_path, "train", "--config-dir", "own", *words)
    assert code == 4 and "SystemExit: 0 (wine.py, line" in output
