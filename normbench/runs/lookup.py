"""Run directories by their names alone: of ten thousand only those that are asked for are opened."""

from __future__ import annotations

import functools
import math
import os
import re
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
        self.known: dict[str, re.Match[str]] = {}  # names of runs, and what they say
        self.runs: dict[str, list[str]] = {}
        self.folders: list[Path] = []
        self.damage: Damaged | None = None
        self._listed: list[store.Stored] | None = None

    def look(self, path: Path, root: Path) -> None:
        """List it anew if it changed; names of runs that were there before are not looked at again."""
        now, self.looked = stamp(path), time.monotonic()
        if now == self.stamp and settled(now):
            return
        self.stamp, self.folders, self.damage, self._listed = now, [], None, None
        try:
            names = set(store.names(path, root))
        except Damaged as damage:
            names, self.damage, self.stamp = set(), damage, None  # asked again, as no time tells that it may be listed
        new = names - self.known.keys()
        if len(names) - len(new) < len(self.known):  # some are gone
            self.known, self.runs, new = {}, {}, names
        for name in new:
            if name.startswith(".") or store.OLD.search(name):
                continue  # on its way to being something else, or replaced
            if match := store.NAME.fullmatch(name):
                self.known[name] = match
                self.runs.setdefault(name[IN_NAME:], []).append(name)
            elif store.is_folder(path / name):
                self.folders.append(path / name)

    def listed(self, path: Path, root: Path) -> list[store.Stored]:
        """The runs in it, without their status; itself where it cannot be listed."""
        if self._listed is None:
            place = str(path.relative_to(root))
            runs = [store.by_name(path, said, place) for said in self.known.values()]
            self._listed = [store.unlisted(path, self.damage)] if self.damage else runs
        return self._listed


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
            store.by_name(path, folder.known[name], str(path.relative_to(self.root)))
            for path, folder in self._folders.items()
            for name in folder.runs.get(run_id, ())
        )
        return sorted(found, key=lambda run: str(run.path))

    def stored(self, run_ids: Iterable[str]) -> Iterator[store.Stored]:
        """The directories with these ids, with their status; of several with one id the one to take comes last.

        A damaged copy hides no whole one, and one that is not finished no finished one.
        """
        for run_id in dict.fromkeys(run_ids):
            copies = map(store.with_status, self.named(run_id))
            yield from sorted(copies, key=lambda run: (not run.reason, run.state in store.FINISHED))

    def everything(self) -> list[store.Stored]:
        """All run directories, without their status, and what may hold some and cannot be listed."""
        return [run for path, folder in self._folders.items() for run in folder.listed(path, self.root)]

    def unlisted(self) -> list[store.Stored]:
        """Folders that may hold runs and cannot be listed."""
        return [store.unlisted(path, f.damage) for path, f in sorted(self._folders.items()) if f.damage]


@functools.lru_cache(maxsize=8)
def _known(root: Path, place: str) -> Lookup:
    return Lookup(root)


def below(root: Path, spared: Path | None = None) -> Lookup:
    """What there is below `root` now; an unchanged folder is listed once per process. spared: as of `refresh`."""
    return _known(root, os.getcwd()).refresh(spared)


def scan(root: Path) -> list[store.Stored]:
    """Every run directory below `root`, damaged ones included, sorted by path. Reads only the status files."""
    return sorted(map(store.with_status, Lookup(root).refresh().everything()), key=lambda run: str(run.path))
