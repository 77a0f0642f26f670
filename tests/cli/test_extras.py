"""What `pip install normbench` alone can do, and the line that each command says which needs an extra."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import child
import pytest
import tiny
from packaging.requirements import Requirement

import normbench as package
from normbench.cli import COMMANDS
from normbench.commands import doctor
from normbench.core import extras
from normbench.runs import imported

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = [*map(Requirement, PROJECT["dependencies"])]
LOGS = ROOT / "examples" / "imports"
RUN = tiny.spec().id
PUBLISHED = "05fb4d3344a7"  # of ln2016/fig6
JUDGED = ("judge", "--runs", "lightning", "--compare", "ln", "base", "--metric", "loss", "--split", "valid")
WORKS = [
    ["--help"],
    ["list"],
    ["list", "norms"],
    *(["import", f"{LOGS / name}", "--as", name, "--yes"] for name in ("tensorboard", "keras", "tensorflow2")),
    *(
        ["import", f"{LOGS / name}", "--as", name, "--map", f"{LOGS / name}.yaml", "--yes"]
        for name in ("lightning", "huggingface", "wandb")
    ),
    ["check"],
    ["compare", "imported/lightning", "--split", "valid", "--metric", "loss"],
    ["compare", "ln2016/fig6"],
    [*JUDGED, "--better", "lower"],
    ["export", "csv", "ln2016/fig6"],
    ["export", "parquet", "ln2016/table1"],
    ["reproduce", "ln2016/fig6", "ln2016/table1", "--max-time", "0"],
    ["reproduce", "ln2016/table1", "--dry-run"],
    ["report"],
    ["status"],
    ["show", PUBLISHED],
    ["doctor"],
    ["data"],
]
NEEDS = [
    (["train", "model=mnist_mlp", "data=digits"], "torch", "train"),
    (["train", "-m", "model=mnist_mlp", "data=digits", "norm=none,layer"], "hydra", "train"),
    (["reproduce", "ln2016/fig6", "--fidelity", "smoke"], "torch", "train"),
    (["worker", "PLAN"], "torch", "train"),
    (["rerun", PUBLISHED], "torch", "train"),
    (["sample", RUN, "--count", "1"], "safetensors", "train"),
    (["weights", RUN, "--output", "model.safetensors"], "safetensors", "train"),
    (["battery", "--norm", "layer"], "torch", "train"),
    (["battery", "--norm", str(ROOT / "examples" / "own_normalizer" / "isru.py"), "--dry-run"], "torch", "train"),
    (["data", "get", "mnist"], "pooch", "train"),
    (["train", "model=mnist_mlp", "data=digits", "logger=wandb"], "wandb", "wandb"),
    (["export", "wandb", "ln2016/fig6"], "wandb", "wandb"),
]
ELSEWHERE = {"dashboard"}  # in a test of its own
BARE = """
import json, sys
from importlib.machinery import PathFinder
missing = {*json.loads(sys.argv[1])}
class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
COMMAND = """
import contextlib, io
from normbench.cli import main
ended = []
for words in json.loads(sys.argv[2]):
    with contextlib.redirect_stderr(io.StringIO()) as stderr, contextlib.redirect_stdout(io.StringIO()) as stdout:
        try:
            main(words)
        except SystemExit as end:
            ended.append((end.code, stdout.getvalue(), stderr.getvalue()))
        except BaseException as error:
            ended.append((repr(error), stdout.getvalue(), stderr.getvalue()))
print(json.dumps(ended))
"""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(needs: Iterable[Requirement]) -> set[str]:
    """These distributions and what they need, as it is installed here."""
    names, todo = set(), [*needs]
    while todo:
        if (name := canonical(todo.pop().name)) not in names:
            names.add(name)
            needed = map(Requirement, importlib.metadata.requires(name) or ())
            todo += [need for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})]
    return names


@pytest.fixture(scope="module")
def missing() -> str:
    """The modules that `pip install normbench` does not bring, as JSON."""
    brought = {*closure(BASE), "normbench"}
    owners = importlib.metadata.packages_distributions()
    lacking = [module for module, of in owners.items() if not brought & {*map(canonical, of)}]
    assert {*extras.EXTRAS, "omegaconf"} <= {*lacking}
    return json.dumps(lacking)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder but for the published results of two artifacts."""
    for name in ("fig6", "table1"):
        place = tmp_path / "results" / "ln2016" / name / "paper"
        shutil.copytree(ROOT / "results" / "ln2016" / name / "paper", place)
    monkeypatch.chdir(tmp_path)
    for name in ("NORMBENCH_RESULTS", "NORMBENCH_DATA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run_all(missing: str, commands: list[list[str]]) -> list[tuple[int, str, str]]:
    """The exit code and what each command prints, one after the other in one process."""
    return [*map(tuple, json.loads(child.run("-c", BARE + COMMAND, missing, json.dumps(commands))))]


def test_every_command_stands_in_a_table() -> None:
    named = {words[0] for words in WORKS} | {words[0] for words, *_ in NEEDS} | ELSEWHERE
    assert named - {"--help"} == {*COMMANDS}


def test_the_referee_needs_no_extra(missing: str, folder: Path) -> None:
    verdicts = (folder / "results" / "ln2016" / "fig6" / "paper" / "verdicts.json").read_bytes()
    for words, (code, out, err) in zip(WORKS, run_all(missing, WORKS), strict=True):
        assert code == 0, f"{words}: {code} {out} {err}"
    assert len(imported.names(folder / "results")) == 6
    assert (folder / "results" / "ln2016" / "fig6" / "paper" / "verdicts.json").read_bytes() == verdicts
    assert (folder / "results" / "report" / "index.html").is_file()
    assert (folder / "results" / "export" / "curves.csv").stat().st_size > 100_000


def test_a_command_whose_extra_is_missing_says_so_in_one_line(missing: str, folder: Path, normbench, capfd) -> None:
    tiny.train(folder / "results" / "runs" / "adhoc" / f"none.s1.{RUN}", "train.epochs=1", "train.keep=[last]")
    assert normbench("train", "-m", *tiny.WORDS, "norm=layer", "launcher=plan") == 0
    (plan,) = (folder / "results" / "plans").iterdir()
    commands = [[word.replace("PLAN", str(plan)) for word in words] for words, *_ in NEEDS]
    for (words, module, extra), (code, _, err) in zip(NEEDS, run_all(missing, commands), strict=True):
        line = f"normbench: {words[0]} needs {module}: pip install 'normbench[{extra}]'\n"
        assert (code, err[-len(line) :]) == (2, line), words
        assert len(err.splitlines()) == 1 or words[0] == "rerun", err


def test_a_figure_that_is_drawn_stays_without_matplotlib(missing: str, folder: Path) -> None:
    place = folder / "results" / "ln2016" / "fig6" / "paper"
    figure, table = (place / "figure.svg").read_bytes(), (place / "table.md").read_bytes()
    (place / "table.md").write_text("of an earlier version")
    again = ["reproduce", "ln2016/fig6", "--max-time", "0"]
    undrawn = shutil.copytree(folder / "results", folder / "undrawn")
    (undrawn / "ln2016" / "fig6" / "paper" / "figure.svg").unlink()
    (code, out, _), lacking = run_all(missing, [again, [*again, "--results", str(undrawn)]])
    assert code == 0 and "pip install 'normbench[train]'" in " ".join(out.split())
    assert ((place / "figure.svg").read_bytes(), (place / "table.md").read_bytes()) == (figure, table)
    assert lacking[::2] == (2, "normbench: reproduce needs matplotlib: pip install 'normbench[train]'\n")


def test_the_dashboard_serves_without_an_extra(missing: str, folder: Path) -> None:
    code = f"{BARE}\nfrom normbench.cli import main\nmain(['dashboard'])"
    environment = os.environ | {"PYTHONPATH": child.path(), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, missing], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout
        link, _, rest = process.stdout.readline().partition("  ")
        assert "runs" in rest
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(link, timeout=60) as answer:
            assert answer.status == 200 and b"<title>" in answer.read()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_python_name_whose_extra_is_missing_says_so(missing: str) -> None:
    code = """
import normbench
lines = {}
for name in normbench.__all__:
    try:
        getattr(normbench, name)
    except ImportError as error:  # as user code that can do without catches it
        assert isinstance(error, normbench.NormbenchError) and error.code == 2
        lines[name] = str(error)
print(json.dumps(lines))
"""
    lines = json.loads(child.run("-c", BARE + code, missing))
    assert lines.keys() == package._HOME.keys()
    for name, line in lines.items():
        assert re.fullmatch(rf"normbench\.{name} needs \w+: pip install 'normbench\[train\]'", line)


def test_no_error_of_other_code_is_hidden(normbench, capfd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of an extra that a user's file, or an installed package, lacks; and one that belongs to no extra."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    for importer, module, line in (
        ("normbench.web.site", "pandas", "x needs pandas: pip install 'normbench[train]'"),
        ("normbench.core.user_code.abc", "pandas", ""),
        ("datasets.arrow", "pandas", ""),
        ("normbench.web.site", "no_such_module", ""),
    ):
        with pytest.raises(ModuleNotFoundError) as caught:
            exec(f"import {module}", {"__name__": importer})
        assert extras.missing("x", caught.value) == line
    (tmp_path / "mine.py").write_text("import pandas\n")
    assert normbench("battery", "--norm", "mine.py", "--dry-run") == 2
    err = capfd.readouterr().err
    assert "mine.py cannot be imported: ModuleNotFoundError" in err and "(mine.py, line 1)" in err
    monkeypatch.setattr(doctor, "command", lambda: exec("import no_such_module", {"__name__": "normbench.x"}))
    with pytest.raises(ModuleNotFoundError):
        package.cli.main(["doctor"])


def test_doctor_says_by_extra_what_is_missing(normbench, capfd, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = list(PROJECT["dependencies"])
    for extra, listed in PROJECT["optional-dependencies"].items():
        needs += [f'{need}; extra == "{extra}"' for need in listed]
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name in ("wandb", "pooch"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needs)
    monkeypatch.setattr(importlib.metadata, "version", without)
    for module in ("wandb", "pooch"):
        monkeypatch.setitem(sys.modules, module, None)
    assert normbench("doctor", "--json") == 0
    findings = json.loads(capfd.readouterr().out)["findings"]
    notes = [each["text"] for each in findings if each["state"] == "note" and each["topic"] == "versions"]
    assert notes == [
        "pooch: not installed. Run: pip install 'normbench[train]'",
        "wandb: not installed. Run: pip install 'normbench[wandb]'",
    ]
    (fits,) = [each["text"] for each in findings if "torch 2" in each["text"] and each["topic"] == "versions"]
    assert f"torch {version('torch')}" in fits and "pytest" not in fits


def test_the_table_is_that_of_the_project() -> None:
    owners = importlib.metadata.packages_distributions()
    for extra, modules in extras.MODULES.items():
        distributions = {canonical(name) for module in modules for name in owners[module]}
        assert distributions == {canonical(Requirement(need).name) for need in PROJECT["optional-dependencies"][extra]}
    optional = PROJECT["optional-dependencies"]
    assert optional.keys() == {*extras.MODULES, "all", "dev"}
    assert optional["all"] == [f"normbench[{','.join(sorted(extras.MODULES))}]"] and "normbench[all]" in optional["dev"]


def test_the_base_is_small() -> None:
    assert len(BASE) <= 13
    heavy = {canonical(Requirement(need).name) for extra in extras.MODULES
             for need in PROJECT["optional-dependencies"][extra]}  # fmt: skip
    assert not closure(BASE) & heavy


def test_every_imported_module_is_declared() -> None:
    owners = importlib.metadata.packages_distributions()
    names = {canonical(need.name) for need in BASE}
    declared = {module for module, of in owners.items() if names & {*map(canonical, of)}}
    declared |= {*extras.EXTRAS, "omegaconf", "markupsafe", "normbench"}  # of hydra, jinja2
    for path in (ROOT / "normbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [str(node.module)]
            tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
            assert tops <= declared, f"{path}: {tops - declared}"
