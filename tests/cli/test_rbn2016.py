"""Recurrent Batch Normalization is a folder: the same files serve as a user's own, from `--config-dir`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from normbench.config import plan
from normbench.config.compose import conf_dir
from normbench.papers import artifact as artifacts

Run = Callable[..., int]
FILES = sorted(path.stem for path in (artifacts.HERE / "rbn2016").glob("*.yaml"))
EXPERIMENTS = sorted(path.stem for path in (conf_dir() / "experiment" / "rbn2016").glob("*.yaml"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Both folders as those of a paper mine2016, but its probe, which is a model's."""
    for kind, source in (("papers", artifacts.HERE), ("experiment", conf_dir() / "experiment")):
        target = tmp_path / "own" / kind / "mine2016"
        target.mkdir(parents=True)
        for path in (source / "rbn2016").iterdir():
            if path.suffix in (".yaml", ".py"):
                (target / path.name).write_text(path.read_text().replace("rbn2016", "mine2016"))
    return tmp_path / "own"


def test_its_python_is_drawing_alone_and_short() -> None:
    """General code does what the paper needs: what is here may import none of the paper's other files."""
    texts = [path.read_text() for path in (artifacts.HERE / "rbn2016").glob("*.py")]
    assert sum(len(text.splitlines()) for text in texts) <= 120
    assert not [
        line for text in texts for line in text.splitlines() if re.search(r"import.*rbn2016|rbn2016.*import", line)
    ]


@pytest.mark.parametrize("name", FILES)
def test_from_outside_it_has_the_same_claims_and_drawing(name: str, outside: Path) -> None:
    shipped, own = artifacts.load(f"rbn2016/{name}"), artifacts.load(f"mine2016/{name}", outside)
    artifacts.check_runs(shipped)
    assert own.config_dir == outside and own.claims_sha256 == shipped.claims_sha256
    assert json.dumps(own.deviations) == json.dumps(shipped.deviations).replace("rbn2016", "mine2016")
    assert artifacts.table(own, []) == artifacts.table(shipped, [])


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("fidelity", ["paper", "smoke"])
def test_from_outside_it_has_the_same_runs(name: str, fidelity: str, outside: Path) -> None:
    def ids(paper: str, config_dir: Path | None) -> list[str]:
        return [spec.id for spec in plan.artifact_specs(f"{paper}/{name}", fidelity, 5, (), True, config_dir)]

    assert ids("mine2016", outside) == ids("rbn2016", None)


def test_from_outside_it_is_reproduced(normbench: Run, outside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert normbench("reproduce", "--config-dir", str(outside), "mine2016/inputs", "--fidelity", "smoke", "--json") == 0
    (found,) = json.loads(capfd.readouterr().out)["artifacts"]
    assert found["done"] == found["runs"] == 4 and not found["failures"]
    assert Path(found["files"]["table"]).is_file()


@pytest.mark.slow
def test_from_outside_all_of_it_is_drawn(normbench: Run, outside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Fig. 5 is of the runs of Fig. 2; the attentive reader's runs have a test of their own."""
    for name in ("fig2", "fig1", "fig5"):
        words = ("--config-dir", str(outside), f"mine2016/{name}", "--fidelity", "smoke", "--json")
        assert normbench("reproduce", *words) == 0
        (found,) = json.loads(capfd.readouterr().out)["artifacts"]
        assert found["done"] == found["runs"] and not found["failures"]
        assert b"<svg" in Path(found["files"]["figure"]).read_bytes()
