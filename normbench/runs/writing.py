"""One run's directory while this process writes it."""

from __future__ import annotations

import contextlib
import datetime
import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from normbench import locks, reading
from normbench.config.identity import ResolvedRun
from normbench.errors import NormbenchError, code_of
from normbench.runs import curve_file, files, leases, lookup, seals, store
from normbench.runs.damaged import Damaged

READERS = 0.2  # s: `is_locked` in some reader holds a lock for a moment; a writer holds it on
LONGEST = 10_000  # characters of a reason that is written


class RunDirectory:
    """One run's directory while this process writes it; `claimed`: beside workers on other nodes."""

    def __init__(self, path: Path, claimed: bool = False) -> None:
        self.path, self.claimed = path, claimed
        self.filed: Mapping[str, Any] = {}  # what config.yaml says of the run
        self.heading: Mapping[str, Any] = {}  # what every status.json does
        self._held = contextlib.ExitStack()
        self.began = ""  # when the run did, in UTC; no part of any hash of it but its status' own seal

    def file_as(self, spec: ResolvedRun) -> None:
        """What is written from now on is of this run."""
        self.filed, self.heading = spec.filed(), spec.heading()

    def begin(self) -> None:
        """From here on its results are made: nothing of an earlier start is used."""
        self.began = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def curve(self) -> Path:
        return self.path / "curve.jsonl"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run's lock; it goes with the process, however that ends. Busy elsewhere: NormbenchError, code 5."""
        with contextlib.ExitStack() as self._held:
            self._hold()
            yield

    def _hold(self) -> None:
        files.make_folder(self.path)
        try:
            handle = open(self.path / "lock", "a+", opener=reading.at_once)  # noqa: SIM115  held for as long as the run is written
        except OSError as error:
            raise NormbenchError(f"{self.path} cannot be written: {error.strerror}.", code_of(error)) from None
        self._held.enter_context(handle)
        if not locks.take(handle.fileno(), self.path, READERS):
            raise NormbenchError(
                f"run {self.path.name[-12:]} is being written by {locks.holder(handle.fileno())}.", code=5
            )
        locks.sign(handle.fileno())
        self._held.enter_context(leases.hold(self.path) if self.claimed else leases.respected(self.path))
        for left in self.path.glob("**/.*.tmp"):  # by a writer that was killed; now there is no other
            left.unlink(missing_ok=True)

    def start_anew(self) -> None:
        """Rename the directory to NAME.old-1, or the next free number, and hold an empty one in its place."""
        taken = [int(path.suffix[5:]) for path in self.path.parent.glob(f"{glob.escape(self.path.name)}.old-*")]
        old = self.path.with_name(f"{self.path.name}.old-{max(taken, default=0) + 1}")
        with self._held.pop_all():
            self.path.rename(old)
            self._hold()
        print(f"{self.path.name}: its earlier results do not serve and are kept in {old.name}")

    def write_config(self) -> None:
        """config.yaml: the labels, and the configuration from which `rerun` composes the run anew."""
        files.atomic_write(self.path / "config.yaml", yaml.safe_dump(self.filed, sort_keys=False).encode())

    def write_status(self, status: str, **fields: Any) -> None:
        """status.json, sealed: with the hashes of all other files, unless the run goes on and changes them."""
        if status != "running":
            if (self.path / "timing.jsonl").exists():
                self._sync("timing.jsonl")
            fields.setdefault("files", seals.of_run(self.path))
        if "reason" in fields:
            fields["reason"] = fields["reason"][:LONGEST]
        began = {"began": self.began} if self.began else {}
        content = {"schema": store.SCHEMA, "status": status, **self.heading, **began, **fields}
        files.write_json(self.path / "status.json", seals.sealed(content))

    def old_status(self) -> dict[str, Any] | None:
        """The status that lies there, None where there is none; NormbenchError where it is damaged."""
        try:
            return store.read_status(self.path) if (self.path / "status.json").exists() else None
        except Damaged as damage:
            raise start_anew(self.path, damage) from None

    def append(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Lines at the end of curve.jsonl or timing.jsonl, at once: others read along."""
        with open(self.path / name, "ab", opener=reading.at_once) as file:
            file.write(b"".join(files.line(record) for record in records))

    def sync_curve(self) -> int:
        """The size of the curve in bytes, all of them on the disk."""
        return self._sync("curve.jsonl")

    def _sync(self, name: str) -> int:
        """The size of a file that is appended to, all of it on the disk."""
        with open(self.path / name, "ab", opener=reading.at_once) as file:
            os.fsync(file.fileno())
            return file.tell()

    def write_samples(self, content: Mapping[str, bytes]) -> None:
        """Files that show what the trained model draws, in `samples/`."""
        for name, file in content.items():
            (self.path / "samples").mkdir(exist_ok=True)
            files.atomic_write(self.path / "samples" / name, file)

    def finish(self, status: str, **fields: Any) -> None:
        """The status seals all that the run left."""
        self.sync_curve()
        self.write_status(status, **fields, curve_sha256=curve_file.sha256(self.curve))


def directory(root: Path, spec: ResolvedRun) -> RunDirectory:
    """Where a run is, or will be, written: an existing directory with its id anywhere below `root`, else a new one."""
    own = place(root, spec)
    if own.is_dir():
        return RunDirectory(own)
    # where runs of this experiment are started one after the other not each of them lists all others
    for found in lookup.below(root, spared=own.parent).named(spec.id):
        if found.seed == spec.seed and found.path.is_dir():
            return RunDirectory(found.path)
    return RunDirectory(own)


def place(root: Path, spec: ResolvedRun) -> Path:
    """Where a run that is nowhere below `root` yet belongs."""
    return store.place(root, spec.experiment, spec.arm, spec.seed, spec.id)


def start_anew(path: Path, damage: Damaged) -> NormbenchError:
    """What whoever was to write there is told."""
    return NormbenchError(f"{path} is damaged: {damage}. Delete it to start this run anew.", code=4)
