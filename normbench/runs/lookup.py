"""Run directories by id, by their names alone: of ten thousand only those that are asked for are opened."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from normbench.runs import store
from normbench.runs.damaged import Damaged
from normbench.runs.stamps import Stamp, settled, stamp

RARELY = 1.0  # s
IN_NAME = -12  # where the id begins in a directory's name


class _Folder:
    """A folder that is no run: names of the runs in it by id, the folders in it, or why it cannot be listed."""

    def __init__(self) -> None:
        self.stamp: Stamp | None = None
        self.looked = -math.inf  # when, by time.monotonic()
        self.known: set[str] = set()  # names of runs
        self.runs: dict[str, list[str]] = {}
        self.folders: list[Path] = []
        self.damage: Damaged | None = None

    def look(self, path: Path, root: Path) -> None:
        """List it anew if it changed; names of runs that were there before are not looked at again."""
        now, self.looked = stamp(path), time.monotonic()
        if now == self.stamp and settled(now):
            return
        self.stamp, self.folders, self.damage = now, [], None
        try:
            names = set(store.names(path, root))
        except Damaged as damage:
            names, self.damage = set(), damage
        new = names - self.known
        if len(names) - len(new) < len(self.known):  # some are gone
            self.known, self.runs, new = set(), {}, names
        for name in new:
            if name.startswith("."):
                continue  # on its way to being something else
            if store.NAME.fullmatch(name):
                self.known.add(name)
                self.runs.setdefault(name[IN_NAME:], []).append(name)
            elif store.is_folder(path / name):
                self.folders.append(path / name)


class Lookup:
    """What there is below `root`, as of the last `refresh`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[Path, _Folder] = {}

    def refresh(self, spared: Path | None = None) -> Lookup:
        """Look what came and went; of a folder that did not change only its time is asked.

        spared: a folder that is looked at once in a while, since the caller itself changes it all the time.
        """
        known, self._folders = self._folders, {}
        waiting = [self.root] if os.path.lexists(self.root) else []
        while waiting:
            path = waiting.pop()
            folder = self._folders[path] = known.get(path) or _Folder()
            if path != spared or time.monotonic() - folder.looked > RARELY:
                folder.look(path, self.root)
            waiting += folder.folders
        return self

    def ids(self) -> set[str]:
        """Of all runs."""
        return {run for folder in self._folders.values() for run in folder.runs}

    def named(self, run_id: str) -> list[store.Stored]:
        """The directories with this id, without their status, by path."""
        found = (
            store.by_name(path, name, str(path.relative_to(self.root)))
            for path, folder in self._folders.items()
            for name in folder.runs.get(run_id, ())
        )
        return sorted(filter(None, found), key=lambda run: str(run.path))

    def stored(self, run_ids: Iterable[str]) -> Iterator[store.Stored]:
        """The directories with these ids, with their status."""
        return (store.with_status(run) for run_id in dict.fromkeys(run_ids) for run in self.named(run_id))

    def unlisted(self) -> list[store.Stored]:
        """Folders that may hold runs and cannot be listed."""
        return [store.unlisted(path, f.damage) for path, f in sorted(self._folders.items()) if f.damage]


@functools.lru_cache(maxsize=8)
def _known(root: Path, place: str) -> Lookup:
    return Lookup(root)


def below(root: Path, spared: Path | None = None) -> Lookup:
    """What there is below `root` now; an unchanged folder is listed once per process. spared: as of `refresh`."""
    return _known(root, os.getcwd()).refresh(spared)
