"""Bring published packs to today's form and seal verdicts to them: python scripts/migrate_packs.py [RESULTS]

The header of a pack keeps the hash that it had before, a run the one of its curve where that is another now. Done twice
it changes nothing. What is damaged is refused with one line and left as it was; exit code 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.papers import published, verdicts
from normbench.runs import files, pack

ROOT = Path(__file__).resolve().parent.parent


def migrate(place: Path, results: Path) -> list[str]:
    """The names of the files at one place that were brought up to date; NormbenchError before anything is written."""
    packed = pack.load(place / pack.NAME)
    contents = {}
    if packed.schema != pack.SCHEMA:
        contents[pack.NAME] = pack.dump(packed.runs, packed.was)
    if (place / "verdicts.json").exists():
        content = _verdicts(place, packed, results)
        if content != (place / "verdicts.json").read_bytes():
            contents["verdicts.json"] = content
    for name, content in contents.items():  # the verdicts last: those without a seal are sealed by the next attempt
        files.atomic_write(place / name, content)
    return list(contents)


def _verdicts(place: Path, packed: pack.Pack, results: Path) -> bytes:
    """The content of verdicts.json, sealed to the pack; that of a sealed one as it is."""
    path = place / "verdicts.json"
    text = path.read_bytes()
    try:
        old = json.loads(text)
        if not isinstance(old, dict):
            raise ValueError("it is no JSON object")
        if old.get("schema") != 1 or "sha256" in old:
            published.read(place, results)
            return text
        sealed = verdicts.sealed(old, packed.sha256)
        verdicts.read_previous(sealed, place.parent.relative_to(results).as_posix(), place.name)
        if strangers := {run for claim in old["claims"] for run in claim["runs"]} - {run.id for run in packed.runs}:
            raise ValueError(f"its run {min(strangers)} is not in the pack")
        return verdicts.as_file(sealed)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NormbenchError(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.") from None


def main(arguments: Sequence[str]) -> int:
    results = Path(arguments[0]) if arguments else ROOT / "results"
    code = 0
    places = {path.parent for name in (pack.NAME, "verdicts.json") for path in results.glob(f"*/*/*/{name}")}
    for place in sorted(places):
        try:
            with files.alone(place):
                done = migrate(place, results)
            print(f"{place}: {', '.join(done) or 'as it was'}")
        except NormbenchError as error:
            print(f"migrate_packs: {error}", file=sys.stderr)
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
