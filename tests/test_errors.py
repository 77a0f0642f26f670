"""The kinds of errors, their exit codes, and the table of both."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import normbench
from normbench import NormbenchError, cli, errors

CODES = {"BadInput": 2, "Diverged": 3, "Failed": 4, "Busy": 5}
PACKAGE = Path(normbench.__file__).parent
KINDS = [getattr(normbench, name) for name in CODES]


def test_the_table_has_each_kind_with_its_exit_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", errors.__doc__ or "", re.MULTILINE)
    assert {name: int(code) for name, code in rows} == CODES
    kinds = [kind for kind in NormbenchError.__subclasses__() if kind.__module__ == "normbench.errors"]
    assert {kind.__name__: kind.code for kind in kinds} == CODES
    for code in CODES.values():
        assert f" {code} " in cli.EPILOG.partition("exit codes:")[2]


@pytest.mark.parametrize("kind", [NormbenchError, *KINDS], ids=lambda kind: kind.__name__)
def test_a_command_ends_with_one_line_and_the_code_of_its_error(kind, monkeypatch, capsys) -> None:
    def fail(arguments: list[str]) -> int:
        raise kind("a line\n  with its place")

    monkeypatch.setattr(cli, "run", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert ended.value.code == CODES.get(kind.__name__, 2)
    assert capsys.readouterr().err == "normbench: a line with its place\n"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_another_process_gets_the_same_error(kind) -> None:
    copied = pickle.loads(pickle.dumps(kind("a line")))
    assert type(copied) is kind and str(copied) == "a line" and isinstance(copied, NormbenchError)


def test_the_package_raises_kinds_alone() -> None:
    """Else a user who catches BadInput misses some: the base is for `except`."""
    raised = []
    for path in PACKAGE.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        raised += [ast.unparse(node.func) for node in calls if ast.unparse(node.func) in {*CODES, "NormbenchError"}]
    assert raised.count("BadInput") > 100 and raised.count("Failed") > 5
    assert "NormbenchError" not in raised
