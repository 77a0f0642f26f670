"""The directory of one run: what lies there is read here, and written by the process that holds its lock.

    runs/<experiment>/<arm>.s<seed>.<id>/
      run.json curve.jsonl timing.jsonl output.log checkpoint/ weights/ outcomes/ samples/ lock

run.json says what the run is, where it was trained and how it stands:

    {"schema": 5, "id", "experiment", "arm", "fidelity", "control", "axes", "seed", "epochs", "steps", "status", "step",
     "reason", "seconds", "began", "curve_sha256", "files": {NAME: SHA-256}, "config": {...}, "environment": {...}}

A finished run has the hashes of its curve and of all other files that it left. Hashes find damage, not forgery.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from normbench.errors import Failed
from normbench.files import locks, reading
from normbench.files.stored import LABELS
from normbench.runs import checkpoint_file, files
from normbench.runs.curve import Curve
from normbench.runs.run import FINISHED, STATES, Run, check_record

SCHEMA = 5
NAME = "run.json"
LONGEST = 10_000  # characters of a reason that is written
KINDS: dict[str, Any] = {  # the fields of run.json: what others rely on
    **dict.fromkeys(("id", *LABELS, "reason", "began", "curve_sha256"), str),
    **dict.fromkeys(("axes", "config", "environment", "files"), dict),
    **dict.fromkeys(("seed", "epochs", "steps", "step"), int),
    "seconds": (int, float),
}
NEEDED = KINDS.keys() - {"reason", "began", "step", "seconds"}  # of a finished run
CARRIED = ("id", *LABELS, "axes", "seed", "epochs", "steps", "began", "config", "environment")  # whatever its status
LEFT = ("timing.jsonl",)  # files beside the curve, and folders of files, that a run leaves
FOLDERS = ("weights", "outcomes", "samples")
FOLDER = re.compile(r"(?P<arm>.+)\.s(?P<seed>[0-9]{1,19})\.(?P<id>[0-9a-f]{12})", re.DOTALL)
OLD = re.compile(r"\.old-[0-9]+\Z")  # ends the name of a directory whose run was trained anew


class Damaged(Exception):
    """What cannot be read of a run; the message is the reason, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(reason.split()))


class Spec(Protocol):
    """A run to be, as far as its place needs it."""

    @property
    def id(self) -> str: ...
    @property
    def experiment(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def seed(self) -> int: ...


def left_out(run: Run) -> str:
    """The line about a damaged run."""
    return f"{run.path} is damaged: {run.reason}. It is left out."


def why(error: Exception) -> str:
    """What is wrong, without the number that the system has for it."""
    return getattr(error, "strerror", "") or str(error)


# --- finding ---


def listed(root: Path, wanted: Callable[[str], bool] = lambda run_id: True) -> list[Path]:
    """All run directories below `root`, by their names alone, and folders that cannot be listed: they may hold some.

    None are looked for behind a link, nor among those that a newer run replaced. wanted: whether a run with
    this id is looked for.
    """
    paths: list[Path] = []
    waiting = [root] if os.path.lexists(root) else []
    while waiting:
        folder = waiting.pop()
        try:
            names = os.listdir(folder)
        except OSError:
            paths.append(folder)
            continue
        for name in names:
            if name.startswith(".") or OLD.search(name):
                continue
            path = folder / name
            if match := FOLDER.fullmatch(name):
                if wanted(match["id"]):
                    paths.append(path)
            elif path.is_dir() and not path.is_symlink():
                waiting.append(path)
    return sorted(paths, key=str)


def named(folder: Path, arm: str, seed: int, run_id: str) -> Path:
    """The directory of a run in the folder of its experiment."""
    return folder / f"{arm}.s{seed}.{run_id}"


def place(root: Path, spec: Spec, paths: Sequence[Path] | None = None) -> Path:
    """Where a run is, or will be, written: an existing directory with its id anywhere below `root`, else a new one.

    paths: the directories below `root`, where the caller has them.
    """
    new = named(root / spec.experiment, spec.arm, spec.seed, spec.id)
    if new.is_dir():
        return new
    paths = listed(root, spec.id.__eq__) if paths is None else paths
    return next((path for path in paths if path.name.endswith(f".s{spec.seed}.{spec.id}")), new)


# --- reading ---


def read(path: Path) -> Run:
    """The run in a directory, without its curve; one that cannot be read is `damaged`, with the reason."""
    run: dict[str, Any] = {"id": str(path), "experiment": "", "arm": path.name, "seed": 0, "epochs": 0, "path": path}
    if match := FOLDER.fullmatch(path.name):
        run |= {**match.groupdict(), "seed": int(match["seed"]), "experiment": path.parent.name}
    else:
        try:
            os.listdir(path)  # folders that cannot be listed stand among the runs, too
        except OSError as error:
            return Run(**run, status="damaged", reason=f"cannot be read: {why(error)}")
    try:
        content = read_json(path)
        if match and content.get("id", match["id"]) != match["id"]:
            raise Damaged(f"{NAME} is of run {content['id']!r:.40}")
    except Damaged as damage:
        return Run(**run, status="damaged", reason=str(damage))
    run |= {key: content[key] for key in KINDS.keys() & content.keys()}
    status = content["status"]
    if status == "running" and not is_locked(path):
        status = "interrupted"
    return Run(**run, status=status, source="smoke" if content.get("fidelity") == "smoke" else "own")


def read_json(folder: Path) -> dict[str, Any]:
    """What run.json says, checked, or that the run never began. Raises Damaged with the reason."""
    try:
        content = orjson.loads(Path(folder, NAME).read_bytes())
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise Damaged("it is a dangling link") from None
        if os.path.exists(f"{folder}/curve.jsonl"):
            raise Damaged(f"{NAME} is missing") from None
        return {"status": "interrupted", "step": 0, "reason": "killed before it began"}
    except (OSError, ValueError) as error:
        raise Damaged(f"{NAME} cannot be read: {why(error)}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else None
        newer = ": update normbench" if isinstance(schema, int) and schema > SCHEMA else ""
        raise Damaged(f"{NAME} has schema {schema!r:.40}, this version reads {SCHEMA}{newer}")
    wrong = {key for key in KINDS.keys() & content.keys() if not isinstance(content[key], KINDS[key])}
    wrong |= {"status"} if content.get("status") not in STATES else set()
    wrong |= NEEDED - content.keys() if content.get("status") in FINISHED else set()
    if wrong:
        raise Damaged(f"{NAME} has no known {', '.join(sorted(wrong))}")
    return content


def write_json(folder: Path, content: Mapping[str, Any]) -> None:
    """run.json anew. The caller holds the run's lock."""
    text = json.dumps({"schema": SCHEMA, **content}, indent=1)  # options in their own order
    files.atomic_write(folder / NAME, (text + "\n").encode())


def is_locked(path: Path) -> bool:
    return locks.is_held(path)


def with_curve(run: Run) -> Run:
    """A run of `read` with its records; a finished one cut to its length. Raises Damaged."""
    if run.status == "damaged":
        raise Damaged(run.reason)
    loaded = replace(run, records=curve(run))
    return loaded.cut(loaded.steps) if run.status in FINISHED else loaded


def curve(run: Run) -> Curve:
    """The records of a run's curve.jsonl; without the hash that a finished run's run.json has: Damaged."""
    path = run.path / "curve.jsonl"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {why(error)}") from None
    if not run.curve_sha256:  # it is on its way
        return _each(content, path.name)
    if hashlib.sha256(content).hexdigest() != run.curve_sha256:
        raise Damaged(f"{path.name} does not have the hash that {NAME} recorded")
    return Curve(reading.decode(b"[" + b",".join(content.splitlines()) + b"]"))  # as they were written


def _each(content: bytes, name: str) -> Curve:
    """The records of the whole lines: a torn last one is not there yet. Damaged names the first bad one."""
    *lines, _ = content.split(b"\n")
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(reading.decode(line))
            check_record(records[-1])
        except (ValueError, TypeError, RecursionError) as error:
            raise Damaged(f"{name} line {number} of {len(lines)} is not a record: {error}") from None
    return Curve(records)


def carried(run: Run) -> dict[str, Any]:
    """What run.json says of a run whatever its status."""
    return {key: getattr(run, key) for key in CARRIED if key != "began" or run.began}


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that a run left, but for its curve, by its name below the directory."""
    return {name: reading.sha256(folder / name) for name in _left(folder)}


def differences(run: Run) -> Iterator[tuple[str, str]]:
    """Each file of a finished run that does not have its recorded hash, and why.

    Samples that were drawn after the run's end have no hash; weights and outcomes without one are damage.
    """
    left = [name for name in _left(run.path) if name in run.files or not name.startswith("samples/")]
    for name in sorted({*run.files, *left}):
        if name not in run.files:
            yield name, f"{NAME} has no hash of it"
            continue
        try:
            if reading.sha256(run.path / name) != run.files[name]:
                yield name, f"it does not have the hash that {NAME} recorded"
        except FileNotFoundError:
            yield name, "it is missing"
        except OSError as error:
            yield name, f"it cannot be read: {error.strerror}"


def _left(folder: Path) -> list[str]:
    names = [name for name in LEFT if (folder / name).exists()]
    for inside in FOLDERS:
        if (folder / inside).is_dir():
            inner = (entry.name for entry in os.scandir(folder / inside) if entry.is_file())
            names += sorted(f"{inside}/{name}" for name in inner if not name.startswith("."))
    return names


# --- writing ---


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
        return read(self.path).status in FINISHED

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
            fields["files"] = hashes(self.path)
        if "reason" in fields:
            fields["reason"] = fields["reason"][:LONGEST]
        write_json(self.path, {**self.content, "status": status, **fields})

    def old(self) -> Run | None:
        """The run that lies there, None where none has begun; NormbenchError where it is damaged."""
        if not (self.path / NAME).exists():
            return None
        run = read(self.path)
        if run.status == "damaged":
            raise Failed(f"{self.path} is damaged: {run.reason}. Delete it to start this run anew.")
        return run

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


def has_checkpoint(path: Path) -> bool:
    return (path / checkpoint_file.NAME).exists()
