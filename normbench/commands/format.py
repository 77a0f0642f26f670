"""Parses durations, seeds, folders; formats durations, counts and repeated options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from normbench import runs
from normbench.errors import BadInput

UNITS = {"s": 1, "m": 60, "h": 3600}
LENGTHS = {"in": 1.0, "cm": 2.54, "mm": 25.4, "pt": 72.27}  # in an inch


def repeated(results: Path, config_dir: Path | None) -> list[str]:
    """The options without which a printed command would not mean the same runs."""
    words = [] if results == runs.root() else ["--results", str(results)]
    return words if config_dir is None else [*words, "--config-dir", str(config_dir)]


def first_command(results: Path) -> str:
    """A command for an empty folder of results."""
    return shlex.join(["normbench", "reproduce", "ln2016/fig6", "--fidelity", "smoke", *repeated(results, None)])


def where_published(path: Path) -> str:
    """Where to find published results, if this folder has none. Else empty."""
    from normbench.runs import pack

    if pack.published(path):
        return ""
    return (
        f"{path} has no published runs. Normbench comes with them: `normbench reproduce all --max-time 0` in an empty "
        "folder, without --results, copies them into ./results and judges them"
    )


def seconds(text: str, name: str = "--max-time") -> float:
    """A duration such as 90s, 30m, 2h; a bare number is minutes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise BadInput(f"{name} {text} is not a duration. Write 90s, 30m or 2h (a bare number is minutes).")
    return float(match[1]) * UNITS[match[2] or "m"]


def inches(text: str) -> float:
    """A width such as 3.25in, 8.3cm, 83mm; in points of TeX, of which LaTeX's \\columnwidth is: 235pt."""
    if not 1 <= (width := _length(text)) <= 20:
        raise BadInput(f"--width {text} is not a width from 1in to 20in. Write 3.25in, 8.3cm, 83mm or 235pt.")
    return width


def points(text: str) -> float:
    """A size of text such as 8pt, in points of 1/72 inch."""
    if not 3.98 <= (size := 72 * _length(text)) <= 36:
        raise BadInput(f"--font-size {text} is not a size from 4pt to 36pt. Write 8pt.")
    return size


def _length(text: str) -> float:
    """In inches; 0 for what is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(in|cm|mm|pt)", text)
    return float(match[1]) / LENGTHS[match[2]] if match else 0.0


def seeds(text: str) -> int | range:
    """`5` or `6-10`."""
    if match := re.fullmatch(r"([1-9]\d*)(?:-(\d+))?", text):
        first, last = int(match[1]), int(match[2] or match[1])
        if last >= first:
            return range(first, last + 1) if match[2] else first
    raise BadInput(f"--seeds {text} must be a number of seeds (at least 1), or the first and the last, such as 6-10.")


def existing_results(text: str) -> Path:
    folder = runs.root(text)
    if not folder.is_dir():
        raise BadInput(f"--from {text}: there is no such folder.")
    return folder


def duration(value: float) -> str:
    """12 s, 4 min, 2 h 05 min."""
    if value < 90:
        return f"{max(value, 1):.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def plural(count: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith(("s", "x")) else f"{noun}s"
    return f"{count} {noun if count == 1 else many}"
