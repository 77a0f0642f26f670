"""Checks that every file below a results folder is whole and follows from its sources; like `git fsck`.

Hashes find damage, not forgery: a changed file with a new hash is found only if an id, a verdict or a table that
follows from it changes. Nothing is written but by `repair`, which removes leftovers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from normbench.check import published, stored
from normbench.check.ids import Ids
from normbench.check.stored import Finding
from normbench.runs import directory


class Check:
    """One check of a results folder; `counted` has the checked things."""

    def __init__(self, results: Path, ids: Ids | None = None, config_dir: Path | None = None) -> None:
        self.results = results
        self.counted = {"published runs": 0, "claims": 0, "raw runs": 0, "files": 0}
        self._config_dir = config_dir
        self._ids = ids or Ids(results=results)

    def findings(self, repair: bool = False) -> Iterator[Finding]:
        """All findings; `repair` removes leftovers on the way."""
        yield from stored.leftovers(self.results, repair, self.counted)
        yield from published.check(self.results, self._ids, self.counted)
        yield from stored.imports(self.results, self.counted)
        for path in directory.listed(self.results / "runs"):
            self.counted["raw runs"] += 1
            yield from stored.raw(directory.read(path), self._ids)
        if self._config_dir and any((self._config_dir / group).is_dir() for group in ("model", "data")):
            from normbench.check import own_files  # which needs torch

            yield from own_files.check(self._config_dir, self.counted)
