"""How a script of this folder publishes what it counted: results/faults/NAME.json and NAME.md."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def publish(name: str, title: str, words: str, summary: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """`words`: what was done; `rows`: all with the same keys, which head the table."""
    command = f"python scripts/faults/{name}.py"
    versions = f"Python {platform.python_version()}, {platform.system()}"
    content = {"schema": 1, "title": title, "command": command, "versions": versions, "summary": summary,
               "rows": list(rows)}  # fmt: skip
    lines = ["| " + " | ".join(rows[0]) + " |", "| " + " | ".join("---" for _ in rows[0]) + " |"]
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    page = f"# {title}\n\n{summary}\n\n{words}\n\n" + "\n".join(lines) + f"\n\n`{command}` with {versions}\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
