"""docs/normbench/SKILL.md: each of its commands runs, and each key that it explains is in what they print."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "normbench" / "SKILL.md"
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) for line in block.splitlines()
]
LONG = [line for line in COMMANDS if re.search(r"  # \d+ min", line)]
TABLES = dict(re.findall(r"\| (\w+) \| \|\n\| - \| - \|\n((?:\| `.*\n)+)", PAGE.read_text() + "\n"))


@pytest.fixture
def folder(tmp_path: Path, normbench: Any) -> Path:
    """What the page takes for granted: a normalizer, logs of two arms, and runs of a sweep."""
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "my_norm.py").write_text(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0])
    (tmp_path / "logs").mkdir()
    for seed in range(1, 6):
        for arm, end in (("ours", 1.0), ("main", 1.5)):
            rows = f"step,valid/loss\n1,4\n2,{end + seed * (0.01 if arm == 'ours' else 0.011)}\n"
            (tmp_path / "logs" / f"{arm}_s{seed}.csv").write_text(rows)
    shutil.copytree(ROOT / "results" / "ln2016" / "fig6", tmp_path / "shipped" / "ln2016" / "fig6")
    for spec in (*fake.specs(5), *fake.specs(5, "norm=layer")):
        fake.directory(tmp_path / "results" / "runs", spec)
    return tmp_path


def ran(line: str, normbench: Any, capfd: Any) -> None:
    """Run a line of the page; its standard output goes where it says, and must be what the option promises."""
    words = shlex.split(line, comments=True)
    words, target = (words[:-2], words[-1]) if ">" in words else (words, "")
    assert words[0] == "normbench" and re.search(r"  # \d+ (s|min)", line), line
    code = normbench(*words[1:])
    out, err = capfd.readouterr()
    assert code == 0, f"{line}\n{err}"
    assert bool(target) == ("--json" in words or "--form" in words), line
    if target:
        Path(target).write_text(out)
    if "--json" in words:
        answer = json.loads(out)
        printed = [place for place in explained(words[1]) if [*values(answer, place)]]
        assert printed == explained(words[1]), line


def explained(command: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", TABLES.get(command, ""), re.MULTILINE)


def values(answer: Any, place: str) -> Iterator[Any]:
    """What stands at `groups[].pairs[].word`."""
    name, _, rest = place.partition(".")
    if name in ("", "[]"):
        items = answer if name else [answer]
    else:
        key = name.removesuffix("[]")
        items = [answer[key]] if isinstance(answer, dict) and key in answer else []
        items = items[0] if items and name.endswith("[]") else items
    for item in items:
        yield from values(item, rest) if rest else [item]


def test_the_commands_run_and_print_the_keys_that_are_explained(folder: Path, normbench: Any, capfd: Any) -> None:
    for line in COMMANDS:
        if line not in LONG:
            ran(line, normbench, capfd)
    (claim,) = json.loads((folder / "judge.json").read_text())["claims"][:1]
    assert claim["word"] == "holds" and {"C1", "C2"} <= {*re.findall(r"C\d", (folder / "claims.md").read_text())}
    assert "LN-F4" in (folder / "claims.csv").read_text() and r"\toprule" in (folder / "table.tex").read_text()


@pytest.mark.slow
def test_the_long_commands_run(folder: Path, normbench: Any, capfd: Any) -> None:
    shutil.rmtree(folder / "results")
    for line in LONG:
        ran(line, normbench, capfd)


def test_the_page_has_the_form_of_a_skill() -> None:
    head = yaml.safe_load(PAGE.read_text().split("---\n")[1])
    assert head["name"] == PAGE.parent.name and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["name"])
    assert 0 < len(head["description"]) <= 1024 and len(PAGE.read_text().splitlines()) < 500
    assert {"battery", "judge", "compare", "status", "reproduce"} == TABLES.keys()
    assert LONG and len(COMMANDS) >= 16 and all(explained(command) for command in TABLES)


@pytest.mark.parametrize(("place", "number"), [("a[].b", 2), ("a[].c", 0), ("d", 1), ("d.e", 0), ("", 1)])
def test_keys_that_are_not_printed_are_missed(place: str, number: int) -> None:
    assert len([*values({"a": [{"b": 1}, {"b": None}], "d": []}, place)]) == number
    assert [*values([{"a": 1}], "[].a")] == [1] and not [*values([], "[].a")]
