"""Who may import whom; and what must stay light enough to answer at once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import normbench

PACKAGE = Path(normbench.__file__).parent

NORMS = ("norms.base", "norms.layers", "norms.modes")  # what of them imports torch; where one stands says norms.sites
# What a module below the first name may never import. `cli` and the commands behind it see everything, and are seen by
# nobody else.
FORBIDDEN = {
    "norms": ("rnn", "models", "data", "train", "runs", "stats", "papers", "web", "launch", "export"),
    "rnn": ("models", "data", "train", "runs", "stats", "papers", "web", "launch", "export"),
    "models": ("train", "runs", "stats", "papers", "web", "launch", "export"),
    "data": ("norms", "rnn", "models", "train", "runs", "stats", "config", "papers", "web", "launch", "export"),
    "sentences": ("norms", "rnn", "models", "train", "runs", "stats", "papers", "web", "launch", "export"),
    "train": ("stats", "papers", "web", "launch", "export"),
    "config": (*NORMS, "rnn", "models", "train", "runs", "stats", "papers", "web", "launch", "export"),
    "runs": (*NORMS, "config", "data", "rnn", "models", "train", "stats", "papers", "web", "launch", "export"),
    "stats": (*NORMS, "rnn", "models", "train", "papers", "web", "launch", "export"),
    "draw": (*NORMS, "rnn", "models", "data", "train", "papers", "compare", "check", "web", "launch", "export"),
    "papers": (*NORMS, "rnn", "models", "train", "compare", "check", "web", "export"),
    "probes": ("stats", "papers", "web", "launch", "export"),  # as train, which runs them
    "compare": (*NORMS, "rnn", "models", "data", "train", "check", "web", "launch", "export"),
    "check": (*NORMS, "rnn", "models", "data", "train", "compare", "web", "launch", "export"),
    "web": (
        *NORMS,
        *("rnn", "models", "train", "export"),
        *("battery.adopt", "battery.cases", "battery.contract", "battery.cost"),
    ),
    "battery": ("papers", "web", "launch", "export"),
    "export": (*NORMS, "rnn", "models", "data", "train", "stats", "papers", "web", "launch"),
    "imports": (
        *NORMS,
        "rnn",
        "models",
        "data",
        "train",
        "stats",
        "papers",
        "compare",
        "check",
        "web",
        "launch",
        "export",
    ),
    "judge": (*NORMS, "rnn", "models", "data", "train", "imports", "check", "web", "launch", "export"),
    "launch": ("stats", "papers", "web", "export"),
    "library": ("papers", "check", "web", "launch"),
}
# Makes runs out of words and stored configurations: whoever trains one is given it.
COMPOSING = ("config.compose", "config.plan", "config.grammar", "config.experiment_file")
# What a worker calls trains; the rest of its folder is the parent, which does not.
TRAINS = {"launch/run_one.py"}
COMMANDS = {"cli.py", "__main__.py"}


def imports(path: Path) -> set[str]:
    """All modules of this package that a file imports, late imports too, as dotted paths without the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(["normbench", *path.relative_to(PACKAGE).parts[: -node.level]]) if node.level else ""
            base = ".".join(part for part in (package, node.module) if part)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name.removeprefix("normbench.") for name in found if name.startswith("normbench.")}


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def within(name: str, area: str) -> bool:
    return name == area or name.startswith(f"{area}.")


def test_imports_go_one_way() -> None:
    for path in files():
        name = path.relative_to(PACKAGE).as_posix()
        forbidden = [*FORBIDDEN.get("probes" if "probes" in path.parts else name.split("/")[0], ())]
        if name.startswith("launch/") and name not in TRAINS:
            forbidden += [*NORMS, "models", "train"]
        if name.startswith("train/") and name != "train/weights.py":  # which gives models of stored runs
            forbidden += COMPOSING
        if name not in COMMANDS:
            forbidden += ["cli"] if name.startswith("commands/") else ["cli", "commands"]
        wrong = [other for other in imports(path) if any(within(other, area) for area in forbidden)]
        assert not wrong, f"{name} must not import {wrong}"


def test_the_walk_sees_imports() -> None:
    """The rule above would hold for any code if the walk were blind."""
    assert "norms.modes" in imports(PACKAGE / "models" / "base.py")
    assert any(within(name, "train") for name in imports(PACKAGE / "launch" / "run_one.py"))


def test_planning_and_reading_do_not_import_torch() -> None:
    modules = (  # one after another in one process
        "config.compose", "config.identity", "config.plan",
        "runs.find", "runs.store", "runs.pack",
        "stats", "stats.series", "stats.statistics",
        "papers", "papers.claims",
        "web.report", "web.figures", "web.battery_page", "battery.trials",
        "check", "compare.answer", "library.runs",
        "export.mirror", "export.tables", "export.wandb_run", "imports",
        "launch.slurm", "launch.queue", "launch.plan", "commands.worker",
        "launch.pool", "norms.sites", "norms", "data",
    )  # fmt: skip
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(f'normbench.{name}')\n"
        "    if 'torch' in sys.modules: sys.exit(name)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *(p for p in sys.path if p)])}
    done = subprocess.run([sys.executable, "-c", code, *modules], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
