"""The size of each room of the package, and of scripts and conf: python tests/golden/sizes.py writes size.yaml.

A room may shrink freely. Who raises one of its numbers does so in a commit of its own, whose message names the user who
meets what came in; what moves between rooms may change both, but not the sum.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SIZE = Path(__file__).with_name("size.yaml")
# everyday words that say nothing of what a variable holds
EVERYDAY = {"found", "own", "one", "there", "asked", "said", "here", "look", "seen"}
LANGUAGES = {".c": "c", ".css": "css", ".html": "html", ".js": "js", ".yaml": "yaml"}  # counted in lines


def sizes(root: Path = ROOT) -> dict[str, dict[str, int]]:
    rooms: dict[str, Counter[str]] = {}
    for folder in ("normbench", "scripts", "conf"):
        for path in (root / folder).rglob("*"):
            if path.suffix == ".py" or path.suffix in LANGUAGES:
                rooms.setdefault(room(path.relative_to(root)), Counter()).update(size(path))
    return {name: {key: n for key, n in sorted(rooms[name].items()) if n} for name in sorted(rooms)}


def room(path: Path) -> str:
    """scripts, conf, the folder in the package, or (top) for a file that lies directly in the package."""
    if path.parts[0] != "normbench":
        return path.parts[0]
    return path.parts[1] if len(path.parts) > 2 else "(top)"


def size(path: Path) -> dict[str, int]:
    text = path.read_text()
    if path.suffix != ".py":
        return {LANGUAGES[path.suffix]: text.count("\n")}
    nodes = list(ast.walk(ast.parse(text)))
    return {
        "statements": sum(isinstance(node, ast.stmt) for node in nodes),
        "raises": sum(isinstance(node, ast.Raise) for node in nodes),
        "everyday": sum(everyday(node) for node in nodes),
    }


def everyday(node: ast.AST) -> bool:
    """Is a variable assigned, or a parameter declared, that has an everyday name?"""
    if isinstance(node, ast.Name):
        return node.id in EVERYDAY and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.arg) and node.arg in EVERYDAY


def total(rooms: dict[str, dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in rooms.values():
        total.update(counts)
    return dict(total)


if __name__ == "__main__":
    head = "# statements, raises, variables with everyday names, lines of other languages; see sizes.py\n"
    rooms = [f"{name}: {yaml.safe_dump(counts, default_flow_style=True)}" for name, counts in sizes().items()]
    SIZE.write_text(head + "".join(rooms))
