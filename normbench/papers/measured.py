"""Published measurements: comparisons with independent implementations in `check/`, speed in `bench/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from normbench import reading

LARGEST = 1 << 23  # bytes of a file
Entry = dict[str, Any]


def checks(results: Path, packs: Mapping[str, str]) -> list[Entry]:
    """The numbers of every independent implementation and the published ones; `packs`: page by a pack's hash."""
    return list(_read(results / "check", lambda content: _check(content, packs)))


def benches(results: Path) -> list[Entry]:
    """Every benchmark's ratios and values."""
    return list(_read(results / "bench", _bench))


def _read(folder: Path, shape: Callable[[Mapping[str, Any]], Entry]) -> Iterator[Entry]:
    """One entry per file, `damaged` if it cannot be read."""
    for path in sorted(folder.glob("*.json")):
        try:
            content = reading.parse(reading.read(path, LARGEST))
            yield {"id": path.stem, **shape(content), "damaged": False}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            yield {"id": path.stem, "title": path.name, "damaged": True}


def _check(content: Mapping[str, Any], packs: Mapping[str, str]) -> Entry:
    numbers = ("ours", "mean", "low", "high")  # those that are not finite are stored by name
    rows = [row | {key: float(row[key]) for key in numbers} for row in content["rows"]]
    return {
        **{key: content[key] for key in ("title", "command", "versions", "summary")},
        "rows": rows,
        "unit": content.get("unit", "epoch"),
        "pack": content["pack_sha256"],
        "page": packs.get(content["pack_sha256"], ""),
        "outside": [row for row in rows if row["judgement"].startswith("OUTSIDE")],
    }


def _bench(content: Mapping[str, Any]) -> Entry:
    """Rows of ratios, or of values with their unit."""
    rows = [row | {"met": _met(row)} for row in content["rows"]]
    return {
        **{key: content[key] for key in ("title", "command", "machine")},
        "rows": rows,
        "ratios": [row for row in rows if "ratio" in row],
        "values": [row for row in rows if "ratio" not in row],
        "experiment": content.get("experiment", ""),
    }


def _met(row: Mapping[str, Any]) -> str:
    """Whether the goal is met; for a ratio by the middle half of its rounds, or only by the median."""
    goal = row["goal"]
    if goal is None:
        return ""
    if "ratio" not in row:
        return "met" if row["value"] <= goal else "missed"
    if row["low"] <= goal < row["high"]:
        return f"median {'within' if row['ratio'] <= goal else 'above'}"
    return "met" if row["ratio"] <= goal else "missed"
