"""Do the tests notice forty changes of the code? python scripts/mutants.py [--only TOPIC] [--jobs N]

Each mutant of `tests/golden/mutants.yaml` replaces one text in a copy of the package; tests of its topic then run.
A test that fails kills the mutant. Exit code 1 where one survives, or where its text does not occur once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
COPIED = ("normbench", "conf", "tests", "examples", "scripts", "pyproject.toml")
LINKED = ("results", "README.md", "CONTRIBUTING.md")


def killed(mutant: dict[str, Any], tests: list[str]) -> str:
    """`killed`, or why not."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for part in COPIED:
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, copy / part)
        for part in LINKED:
            (copy / part).symlink_to(ROOT / part)
        holders = [path for path in (copy / "normbench").rglob("*.py") if mutant["old"] in path.read_text()]
        if len(holders) != 1 or (text := holders[0].read_text()).count(mutant["old"]) != 1:
            return "its text does not occur once"
        holders[0].write_text(text.replace(mutant["old"], mutant["new"]))
        environment = {**os.environ, "PYTHONPATH": name, "OMP_NUM_THREADS": "1"}
        called = [
            sys.executable,
            "-m",
            "pytest",
            "-n0",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            *mutant.get("tests", tests),
        ]
        code = subprocess.run(called, cwd=copy, env=environment, capture_output=True).returncode
    return {0: "survived", 1: "killed"}.get(code, f"pytest ended with {code}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="TOPIC")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    topics = yaml.safe_load((ROOT / "tests" / "golden" / "mutants.yaml").read_text())
    work = [(t, mutant) for t in topics if options.only in ("", t["topic"]) for mutant in t["mutants"]]
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda pair: killed(pair[1], pair[0]["tests"]), work))
    for (topic, mutant), word in zip(work, outcomes, strict=True):
        if word != "killed":
            print(f"{topic['topic']}: {word}: {mutant['old']}")
    print(f"{outcomes.count('killed')} of {len(outcomes)} mutants killed")
    return 0 if outcomes.count("killed") == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
