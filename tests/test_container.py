"""The Dockerfile and the project say the same; scripts/container/check.sh builds it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """(FROM, ...), (RUN, ...) in order, with continued lines joined and comments left out."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    pairs = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(word.upper(), rest.strip()) for word, rest in pairs]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(i for i, (word, _) in enumerate(found) if word == "FROM") :]


def settings(word: str, stage: list[tuple[str, str]]) -> dict[str, str]:
    """What the ENV or LABEL instructions of a stage set."""
    return dict(item.split("=", 1) for name, rest in stage if name == word for item in shlex.split(rest))


def in_context(path: str) -> bool:
    """Whether .dockerignore lets a file through: the last pattern that fits it or a folder of it decides."""
    inside = True
    parts = path.split("/")
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").strip("/").split("/")
        if any(_fits(parts[:n], pattern) for n in range(1, len(parts) + 1)):
            inside = line.startswith("!")
    return inside


def _fits(parts: list[str], pattern: list[str]) -> bool:
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return any(_fits(parts[n:], pattern[1:]) for n in range(len(parts) + 1))
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def copied() -> list[str]:
    """What the build takes from the checkout."""
    rows = [rest.split() for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    return [source for row in rows for source in row[:-1]]


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no git checkout")
    return [name for name in listed.stdout.split("\0") if name]


def test_every_tracked_file_that_is_copied_reaches_the_build():
    files = tracked()
    for source in copied():
        below = [name for name in files if name == source or name.startswith(f"{source}/")]
        assert below, f"COPY {source}: git has no such file"
        assert [name for name in below if not in_context(name)] == []


def test_what_the_wheel_is_made_of_is_copied():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", PROJECT["readme"], *wheel["only-include"]}
    assert needed <= set(copied())


@pytest.mark.parametrize(
    "path",
    [
        "data/MNIST/raw/train-images-idx3-ubyte.gz",
        "results/runs/ln2016/ln.s1.05fb4d3344a7/weights/last.safetensors",
        "results/own/ln2016/fig6/smoke/figure.svg",
        "normbench/commands/__pycache__/show.pyc",
        ".git/config",
        ".venv/pyvenv.cfg",
        ".env",
        "pip.conf",
    ],
)
def test_data_runs_and_secrets_stay_out_of_the_build(path: str):
    assert not in_context(path)


def test_what_git_ignores_below_a_copied_folder_is_not_copied():
    probes = [f"{source}/probe/file" for source in copied() if (ROOT / source).is_dir()]
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/")]
    probes += [f"{rule.replace('**', 'paper/artifact')}/file" for rule in ignored]
    asked = subprocess.run(
        ["git", "check-ignore", "--stdin"], cwd=ROOT, input="\n".join(probes), capture_output=True, text=True
    )
    if asked.returncode not in (0, 1):
        pytest.skip("no git checkout")
    assert asked.stdout.split(), "the probes found no rule of .gitignore"
    copied_all_the_same = [path for path in asked.stdout.split() if in_context(path)]
    assert copied_all_the_same == [], ".dockerignore lacks a rule that .gitignore has"


def test_it_ends_as_a_user_that_is_not_root():
    # a number, because an orchestrator that refuses root cannot look a name up
    users = [rest for word, rest in last_stage() if word == "USER"]
    assert users and re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])
    after = [word for word, _ in last_stage()][[word for word, _ in last_stage()].index("USER") :]
    assert "RUN" not in after and "COPY" not in after  # they would need a chown


def test_the_folders_of_the_environment_are_volumes_and_are_made():
    stage = last_stage()
    environment = settings("ENV", stage)
    places = {environment["NORMBENCH_DATA"], environment["NORMBENCH_RESULTS"]}
    volumes = next(json.loads(rest) for word, rest in stage if word == "VOLUME")
    assert set(volumes) == places
    made = next(rest for word, rest in stage if word == "RUN" and "install -d -m 0777" in rest)
    assert all(place in made.split() for place in places)  # else the engine makes them as root
    assert ("COPY", f"--from=build /results {environment['NORMBENCH_RESULTS']}") in stage
    # what is copied after VOLUME is lost with some builders
    words = [word for word, _ in stage]
    assert "COPY" not in words[words.index("VOLUME") :]


def test_python_of_the_base_is_one_that_the_project_takes():
    base = next(rest for word, rest in instructions() if word == "ARG" and rest.startswith("BASE="))
    found = re.fullmatch(r"BASE=python:(\d+)\.(\d+)-slim-\w+", base)
    lowest = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"])
    assert found and lowest and tuple(map(int, found.groups())) >= tuple(map(int, lowest.groups()))


def test_requirements_come_from_the_project_alone():
    # a bound of torch written here as well would go its own way
    text = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert not re.search(r"[A-Za-z][\w-]*\s*(==|>=|<|~=)\s*\d", text)


def test_torch_and_the_others_are_all_of_the_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    split = next(rest for word, rest in instructions() if word == "RUN" and "python3 -c" in rest)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    exec(shlex.split(split)[2], {})
    torch, others = ((tmp_path / name).read_text().splitlines() for name in ("torch.txt", "others.txt"))
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    names = everything.removeprefix("normbench[").removesuffix("]").split(",")
    assert sorted(torch + others) == sorted(sum((extras[name] for name in names), PROJECT["dependencies"]))
    assert [re.split(r"[^\w-]", need)[0] for need in torch] == ["torch"]


def test_labels_and_entry_point_are_the_projects():
    stage = last_stage()
    labels = settings("LABEL", stage)
    prefix = "org.opencontainers.image."
    assert [labels[prefix + key] for key in ("title", "version", "description")] == [
        PROJECT["name"],
        PROJECT["version"],
        PROJECT["description"],
    ]
    assert json.loads(dict(stage)["ENTRYPOINT"])[0] in PROJECT["scripts"]
