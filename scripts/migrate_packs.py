"""Bring published packs to today's form: python scripts/migrate_packs.py [RESULTS]

The header of a pack keeps the hash that it had before, a run the one of its curve where that is another now. Done twice
it changes nothing. What is damaged is refused with one line and left as it was; exit code 2. Verdicts of an older form
are judged again, on the pack: normbench reproduce ARTIFACT --fidelity FIDELITY --max-time 0
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.runs import files, pack

ROOT = Path(__file__).resolve().parent.parent


def migrate(path: Path) -> bool:
    """Whether the pack had to be brought up to date; NormbenchError before anything is written."""
    packed = pack.load(path)
    if packed.schema == pack.SCHEMA:
        return False
    files.atomic_write(path, pack.dump(packed.runs, packed.was))
    return True


def main(arguments: Sequence[str]) -> int:
    results = Path(arguments[0]) if arguments else ROOT / "results"
    code = 0
    for path in pack.paths(results):
        try:
            with files.alone(path.parent):
                done = migrate(path)
            print(f"{path}: {'brought up to date' if done else 'as it was'}")
        except NormbenchError as error:
            print(f"migrate_packs: {error}", file=sys.stderr)
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
