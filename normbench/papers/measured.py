"""Published measurements: comparisons with independent implementations in `check/`, speed in `bench/`."""

from __future__ import annotations

import os
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
            yield {
                "id": path.stem,
                **shape(reading.parse(reading.read(os.path.realpath(path), LARGEST))),
                "damaged": False,
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            yield {"id": path.stem, "title": path.name, "damaged": True}


def _check(content: Mapping[str, Any], packs: Mapping[str, str]) -> Entry:
    rows = [
        {key: str(row[key]) for key in ("cell", "what", "judgement")}
        | {key: int(row[key]) for key in ("epoch", "n")}
        | {key: float(row[key]) for key in ("ours", "mean", "low", "high")}
        for row in content["rows"]
    ]
    return {
        **{key: str(content[key]) for key in ("title", "command", "versions", "summary")},
        "unit": str(content.get("unit", "epoch")),
        "pack": str(content["pack_sha256"]),
        "page": packs.get(str(content["pack_sha256"]), ""),
        "rows": rows,
        "outside": [row for row in rows if str(row["judgement"]).startswith("OUTSIDE")],
    }


def _bench(content: Mapping[str, Any]) -> Entry:
    """Rows of ratios, or of values with their unit."""
    rows = [_ratio(row) if "ratio" in row else _value(row) for row in content["rows"]]
    return {
        **{key: str(content[key]) for key in ("title", "command", "machine")},
        "rows": rows,
        "ratios": [row for row in rows if "ratio" in row],
        "values": [row for row in rows if "ratio" not in row],
    }


def _ratio(row: Mapping[str, Any]) -> Entry:
    entry: Entry = {key: float(row[key]) for key in ("ratio", "low", "high", "ours_ms", "reference_ms")}
    entry |= {"case": str(row["case"]), "goal": _number(row["goal"]), "rounds": int(row["rounds"])}
    return {**entry, "met": _met(entry)}


def _value(row: Mapping[str, Any]) -> Entry:
    entry: Entry = {"case": str(row["case"]), "unit": str(row["unit"]), "value": float(row["value"])}
    entry |= {"goal": _number(row["goal"]), "reference": _number(row["reference"])}
    met = "" if entry["goal"] is None else "met" if entry["value"] <= entry["goal"] else "missed"
    return {**entry, "met": met}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _met(row: Mapping[str, Any]) -> str:
    """Whether the goal is met, by the middle half of the rounds, or only on which side the median lies."""
    if row["goal"] is None:
        return ""
    if row["low"] <= row["goal"] < row["high"]:
        return f"median {'within' if row['ratio'] <= row['goal'] else 'above'}"
    return "met" if row["ratio"] <= row["goal"] else "missed"
