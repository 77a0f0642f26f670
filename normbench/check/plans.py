"""Plans of workers: whole, and named by their content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.errors import NormbenchError
from normbench.runs import plans


def check(results: Path) -> Iterator[Finding]:
    for path in sorted((results / plans.FOLDER).glob(f"*/{plans.PLAN}")):
        try:
            plans.read(path.parent)
        except plans.Foreign as error:
            yield Finding("unknown", path, str(error))
        except NormbenchError as error:
            yield Finding("damage", path, str(error))
