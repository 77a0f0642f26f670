"""A results folder, and the real experiment shrunk to seconds in a config directory of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from normbench.cli import main
from normbench.config.compose import conf_dir
from normbench.papers import shipped_results

Run = Callable[..., int]


@pytest.fixture
def normbench(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None) -> Run:
    """`normbench("status", "--json")` in an empty folder, with nothing shipped: the exit code; output in `capfd`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shipped_results, "FOLDER", tmp_path / "shipped")
    for name in ("NORMBENCH_RESULTS", "NORMBENCH_DATA"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(words)
        return int(ended.value.code or 0)

    return run


@pytest.fixture(scope="session")
def small_fig6(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A --config-dir whose ln2016/fig6 has the real arms, axes and conditions, but one epoch and four units."""
    node = yaml.safe_load((conf_dir() / "experiment" / "ln2016" / "fig6.yaml").read_text())
    node["fidelities"]["smoke"]["set"] = [
        "data=digits",
        "model.hidden_sizes=[4]",
        "train.epochs=1",
        "data.valid=797",
        "data.test=800",
    ]
    folder = tmp_path_factory.mktemp("own choices")
    (folder / "experiment" / "ln2016").mkdir(parents=True)
    (folder / "experiment" / "ln2016" / "fig6.yaml").write_text(yaml.safe_dump(node))
    return folder
