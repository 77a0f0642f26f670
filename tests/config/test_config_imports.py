"""Who may import whom; and what must stay light enough to answer at once."""

from __future__ import annotations

import ast
from pathlib import Path

import child

import normbench

PACKAGE = Path(normbench.__file__).parent

NORMS = ("norms.base", "norms.layers", "norms.modes")  # what of them imports torch; where one stands says norms.sites
# Makes runs out of words and stored configurations: whoever trains one is given it.
COMPOSING = ("config.compose", "config.plan", "config.grammar", "config.experiment_file")
# Which room may import which is in tests/golden/arrows.json; here is what a room may not import of one that it may.
FORBIDDEN = {
    "config": NORMS,
    "papers": NORMS,
    "launch": (*NORMS, "models", "train"),
    "train": COMPOSING,
    "web": ("battery.adopt", "battery.cases", "battery.contract", "battery.cost"),
}
# What a worker calls trains; and one file gives models of stored runs.
EXCEPT = {"launch/process.py", "train/weights.py"}


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


def within(name: str, area: str) -> bool:
    return name == area or name.startswith(f"{area}.")


def test_imports_go_one_way() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name in EXCEPT or "probes" in path.parts:
            continue
        forbidden = FORBIDDEN.get(name.split("/")[0], ())
        wrong = [other for other in imports(path) if any(within(other, area) for area in forbidden)]
        assert not wrong, f"{name} must not import {wrong}"


def test_the_walk_sees_imports() -> None:
    """The rule above would hold for any code if the walk were blind."""
    assert "norms.modes" in imports(PACKAGE / "models" / "base.py")
    assert any(within(name, "train") for name in imports(PACKAGE / "launch" / "process.py"))


def test_planning_and_reading_do_not_import_torch() -> None:
    modules = (  # one after another in one process
        "config.compose", "config.identity", "config.plan",
        "runs.table", "runs.directory", "runs.pack",
        "stats", "stats.series", "stats.statistics",
        "papers", "papers.claims",
        "web.report", "web.figures", "web.battery_page", "battery.trials",
        "check", "compare.answer", "library.runs",
        "export.tables", "export.wandb_run", "launch.wandb_run", "imports", "commands.dashboard", "web.server",
        "launch.slurm", "launch.plan", "commands.worker",
        "launch.pool", "norms.sites", "norms", "data",
    )  # fmt: skip
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(f'normbench.{name}')\n"
        "    if 'torch' in sys.modules: sys.exit(name)"
    )
    child.run("-c", code, *modules)
