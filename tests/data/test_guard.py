"""What the whole package must not contain, by its source text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "normbench"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and "import" in getattr(node.func, "attr", getattr(node.func, "id", "")):
            # importlib.import_module("datasets")
            found |= {str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)}
    return found


def test_there_is_something_to_look_at() -> None:
    assert PACKAGE / "data" / "hub.py" in SOURCES


def users(*packages: str) -> list[Path]:
    """The files that import one of them."""
    named = [path for path in SOURCES if any(package in path.read_text() for package in packages)]
    return [path.relative_to(PACKAGE) for path in named if {n.split(".")[0] for n in imported(path)} & {*packages}]


def test_torchvision_is_not_imported() -> None:
    assert users("torchvision") == []


def test_datasets_is_imported_in_one_place_and_late() -> None:
    assert users("datasets", "huggingface_hub") == [Path("data/hub.py")]
    body = ast.parse((PACKAGE / "data" / "hub.py").read_text()).body
    assert not [
        node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and "dataset" in ast.unparse(node)
    ]


@pytest.mark.parametrize(
    "banned",
    [
        r"\b(c?pickle|cloudpickle|dill|joblib|shelve|marshal)\.(load|loads|dump|dumps|open)\b",
        r"\btorch\.(save\(|load\((?!.*weights_only=True))",
        r"allow_pickle\s*=\s*(?!False\b)",
        r"\bread_pickle\b",
        r"\byaml\.(load|unsafe_load|full_load)\(",
    ],
)
def test_no_pickle(banned: str) -> None:
    hits = [
        f"{path.relative_to(PACKAGE)}: {match[0]}"
        for path in SOURCES
        for match in re.finditer(banned, path.read_text())
    ]
    assert hits == []


def test_no_pickle_module() -> None:
    assert users("pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal") == []
