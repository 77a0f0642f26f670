"""One run's directory while this process writes it."""

from __future__ import annotations

import contextlib
import datetime
import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from normbench import locks, reading
from normbench.errors import Failed
from normbench.runs import files, run_file, store
from normbench.runs.damaged import Damaged

LONGEST = 10_000  # characters of a reason that is written


class RunDirectory:
    """One run's directory while this process writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {}  # what run.json says whatever the run's status: id, labels, configuration
        self._held = contextlib.ExitStack()

    def begin(self) -> None:
        """From here on its results are made: nothing of an earlier start is used."""
        self.content["began"] = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def curve(self) -> Path:
        return self.path / "curve.jsonl"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run's lock. Busy while another process writes it."""
        with contextlib.ExitStack() as self._held:
            self._hold()
            yield

    def _hold(self) -> None:
        files.make_folder(self.path)
        self._held.enter_context(locks.held(self.path))
        files.sweep(self.path, "**/.*.tmp")

    def take_over(self, content: Mapping[str, Any], anew: bool) -> None:
        """From here on the directory is of the run with this content; `anew`: nothing of the old one is used."""
        before, self.content = self.content, dict(content)
        if anew:
            self.start_anew()
        else:
            self.content |= {key: before[key] for key in ("began", "environment") if key in before}

    def is_finished(self) -> bool:
        """Whether a finished run lies there."""
        try:
            return run_file.read(self.path)["status"] in run_file.FINISHED
        except Damaged:
            return False

    def start_anew(self) -> None:
        """Rename the directory to NAME.old-1, or the next free number, and hold an empty one in its place."""
        taken = [int(path.suffix[5:]) for path in self.path.parent.glob(f"{glob.escape(self.path.name)}.old-*")]
        old = self.path.with_name(f"{self.path.name}.old-{max(taken, default=0) + 1}")
        with self._held.pop_all():
            self.path.rename(old)
            self._hold()
        print(f"{self.path.name}: its earlier results do not serve and are kept in {old.name}")

    def write(self, status: str, **fields: Any) -> None:
        """run.json: with the hashes of all other files, unless the run goes on and changes them."""
        if status != "running":
            if (self.path / "timing.jsonl").exists():
                self.sync("timing.jsonl")
            fields["files"] = run_file.hashes(self.path)
        if "reason" in fields:
            fields["reason"] = fields["reason"][:LONGEST]
        run_file.write(self.path, {**self.content, "status": status, **fields})

    def old(self) -> dict[str, Any] | None:
        """What run.json says by now, None where there is none; NormbenchError where it is damaged."""
        if not (self.path / run_file.NAME).exists():
            return None
        try:
            content = run_file.read(self.path)
        except Damaged as damage:
            raise Failed(f"{self.path} is damaged: {damage}. Delete it to start this run anew.") from None
        return content if "id" in content else None

    def append(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Lines at the end of curve.jsonl or timing.jsonl, at once: others read along."""
        with open(self.path / name, "ab") as file:
            file.write(b"".join(files.line(record) for record in records))

    def sync(self, name: str) -> int:
        """The size in bytes of a file that is appended to, all of them on the disk."""
        with open(self.path / name, "ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def write_samples(self, content: Mapping[str, bytes]) -> None:
        """Files that show what the trained model draws, in `samples/`."""
        for name, file in content.items():
            (self.path / "samples").mkdir(exist_ok=True)
            files.atomic_write(self.path / "samples" / name, file)

    def finish(self, status: str, **fields: Any) -> None:
        """run.json has the hashes of all that the run left."""
        self.sync("curve.jsonl")
        self.write(status, **fields, curve_sha256=reading.sha256(self.curve))


def directory(root: Path, run: store.Wanted, listed: Sequence[store.Stored] | None = None) -> RunDirectory:
    """Where a run is, or will be, written: an existing directory with its id anywhere below `root`, else a new one.

    listed: the directories below `root`, where the caller has them.
    """
    own = store.place(root, run)
    if own.is_dir():
        return RunDirectory(own)
    listed = store.directories(root, {run.id}) if listed is None else listed
    found = (stored.path for stored in listed if (stored.id, stored.seed) == (run.id, run.seed))
    return RunDirectory(next(found, own))
