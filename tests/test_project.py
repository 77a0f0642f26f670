"""The project as a whole: README, CI and published results say the same."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from normbench.papers import artifact as artifacts
from normbench.papers import contrasts, publish, table
from normbench.runs import pack

ROOT = Path(__file__).parent.parent
PUBLISHED = sorted(
    path.parent for path in (ROOT / "results").glob("*/*/*/verdicts.json") if path.parent.name != "smoke"
)


def test_readme_table_is_fresh():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "scripts" / "readme.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text()
    assert module.readme(text, ROOT / "results") == text, "README.md is stale: python scripts/readme.py"


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text().splitlines()
    assert len([line for line in readme if line.startswith("    pip install ")]) == 2
    ci = (ROOT / ".ci" / "run").read_text()
    assert "README.md" in ci and 'bash -c "$command"' in ci


def test_readme_names_files_that_exist():
    words = (ROOT / "README.md").read_text().replace("`", " ").replace(":", " ").split()
    named = [w for w in words if w.startswith(("normbench/", "conf/", "examples/")) and "NAME" not in w and "." in w]
    assert len(named) >= 6
    assert [w for w in named if not (ROOT / w).exists()] == []


@pytest.mark.parametrize("place", PUBLISHED, ids=lambda path: str(path.relative_to(ROOT / "results")))
def test_published_verdicts_and_tables_follow_from_the_pack(place: Path):
    name, fidelity = str(place.parent.relative_to(ROOT / "results")), place.name
    artifact = artifacts.load(name)
    packed = pack.load(place / pack.NAME)
    runs = packed.runs
    examples = contrasts.load(place / contrasts.NAME)
    judged = publish.judge(artifact, runs, fidelity, ROOT / "results", packed.sha256, examples)
    assert judged == json.loads((place / "verdicts.json").read_text())
    assert table.as_csv(artifacts.drawing(name).table(artifact, runs)) == (place / "table.csv").read_text()


@pytest.mark.parametrize("name", artifacts.ids())
def test_an_artifact_is_complete(name: str):
    from normbench.config import plan

    artifact = artifacts.load(name)
    drawing = artifacts.drawing(name)
    assert callable(drawing.panels) and callable(drawing.table)
    node = plan.experiment(artifact.experiment)
    for fidelity in node["fidelities"]:
        specs = plan.artifact_specs(artifact.experiment, fidelity, 1)
        assert len({spec.id for spec in specs}) == len(specs)
