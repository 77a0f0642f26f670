"""The history of each verdict: `history.jsonl` in the results folder, a line for every change of a word.

    {"date": "2026-11-22", "artifact": "bln2022/fig4", "fidelity": "paper", "claim": "BLN-1",
     "before": {"verdict": "reproduced", "n": 10, "rules": ""}, "after": {"verdict": ..., "n": 10, "rules": sha256},
     "cause": ["rules"]}

`cause` lists what differs between the two: rules (with the plan), claims, runs. Lines are only added, each with a seal.
A claim that is withdrawn gets a last line.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files

NAME = "history.jsonl"
LARGEST = 1 << 27  # bytes
Node = Mapping[str, Any]
WITHDRAWN = "withdrawn"  # the word of a claim that is no longer made, as when it is split


def append(results: Path, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
    """Add a line for every claim whose verdict is another than `before` (None: there was none); done twice, once."""
    with files.alone(results):  # two artifacts may be judged at once
        lines = _lines(results, before, after)
        if lines:  # whole or not at all: a torn line would be damage for ever
            path = results / NAME
            files.atomic_write(path, (path.read_bytes() if path.exists() else b"") + lines)


def _lines(results: Path, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bytes:
    """Those that are to be added."""
    old = {claim["id"]: claim for claim in before["claims"]} if before else {}
    place = {"artifact": after["artifact"], "fidelity": after["fidelity"]}
    last = {entry["claim"]: entry["after"] for entry in read(results) if place.items() <= entry.items()}
    ended = [
        {"id": name, "verdict": WITHDRAWN, "n": 0, "rules_sha256": claim["rules_sha256"]}
        for name, claim in old.items()
        if claim["verdict"] != "not run" and name not in {c["id"] for c in after["claims"]}
    ]
    lines = b""
    for claim in [*after["claims"], *ended]:
        was = old.get(claim["id"])
        now = _state(claim)
        if (was["verdict"] if was else "not run") == claim["verdict"] or last.get(claim["id"]) == now:
            continue
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        previous = _state(was) if was else None
        cause = _cause(before, after, was, claim) if before else []
        entry = {"date": date, **place, "claim": claim["id"], "before": previous, "after": now, "cause": cause}
        lines += files.line(files.sealed(entry))
    return lines


def _cause(before: Node, after: Node, was: Node | None, claim: Node) -> list[str]:
    """What differs."""
    differs = {
        "claims": before["claims_sha256"] != after["claims_sha256"],
        "rules": was is not None and was["rules_sha256"] != claim["rules_sha256"],
        "runs": before["pack_sha256"] != after["pack_sha256"],
    }
    return [name for name, other in differs.items() if other]


def _state(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {"verdict": claim["verdict"], "n": claim["n"], "rules": claim["rules_sha256"]}


def read(results: Path) -> list[dict[str, Any]]:
    """All lines, oldest first; none without a file. NormbenchError with the number of one that is damaged."""
    from normbench.config.validation import validate  # late, as this is where a file is validated
    from normbench.papers.verdict_keys import Change

    path = results / NAME
    try:
        texts = reading.read(path, LARGEST).decode().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise NormbenchError(f"{path} cannot be read: {error}") from None
    found = []
    for number, text in enumerate(texts, 1):
        place, way_out = f"{path}: line {number} is damaged", "Restore it (git checkout)."
        try:
            entry = reading.parse(text)
        except ValueError as error:
            raise NormbenchError(f"{place} ({error}). {way_out}") from None
        validate(Change, entry, place, way_out)
        if not files.is_sealed(entry):
            raise NormbenchError(f"{place} (its seal does not fit it). {way_out}")
        found.append(entry)
    return found
