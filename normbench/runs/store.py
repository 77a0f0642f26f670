"""The raw store: one directory per run, found by id, readable while it is being written.

    runs/<experiment>/<arm>.s<seed>.<id>/
      config.yaml environment.json curve.jsonl timing.jsonl status.json output.log checkpoint/ weights/ lock

status.json has a seal over itself and, of a finished run, the hashes of the curve and of all else that the run left.
A damaged directory is listed with its reason and hides no other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from normbench import locks, reading
from normbench.config import compose
from normbench.config.identity import RunSpec, satisfies
from normbench.errors import NormbenchError
from normbench.runs import files, seals, upgrade, yaml_text
from normbench.runs.record import HIGHEST, RunRecord, check_config, check_record, evaluation_complete

SCHEMA = 3  # of status.json: 2 had no seal, 1 also a curve of another form, which `upgrade` reads
NAME = re.compile(r"(?P<arm>.+)\.s(?P<seed>[0-9]{1,19})\.(?P<id>[0-9a-f]{12})", re.DOTALL)
STATES = ("running", "done", "diverged", "failed", "interrupted")
FINISHED = ("done", "diverged")
STATUS_FIELDS: dict[str, tuple[Any, Any]] = {  # types and defaults of what others rely on
    "epochs": (int, 0),
    "step": (int, 0),
    "steps": (int, 0),
    "seconds": ((int, float), 0.0),
    "reason": (str, ""),
    "curve_sha256": (str, ""),  # of a finished curve
}
RECORD_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
READERS = 0.2  # s: `is_locked` in some reader holds a lock for a moment; a writer holds it on
SECTIONS = (*compose.RUN_GROUPS, "train", "monitor", "eval")  # of a configuration: mappings where they are there
LARGEST_CURVE, LARGEST = 1 << 30, 8 << 20  # bytes of a curve, of any other file that is read
DEEPEST = 20  # folders between the root and a run
LONGEST = 10_000  # characters of a reason that is written


class Damaged(Exception):
    """A run directory that cannot be read; the message is the reason, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(reason.split()))


def start_anew(path: Path, damage: Damaged) -> NormbenchError:
    """What whoever was to write there is told."""
    return NormbenchError(f"{path} is damaged: {damage}. Delete it to start this run anew.", code=4)


@dataclass(frozen=True)
class Stored:
    """A run directory as found: its name's parts and its status file, or the reason why there is none."""

    path: Path
    experiment: str
    arm: str
    seed: int
    id: str
    status: Mapping[str, Any]
    reason: str = ""

    @property
    def state(self) -> str:
        """`damaged`, or the status; `interrupted` for one that says running while nobody holds its lock."""
        if self.reason:
            return "damaged"
        state = str(self.status["status"])
        return "interrupted" if state == "running" and not is_locked(self.path) else state


class RunDirectory:
    """One run's directory while this process writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.filed: Mapping[str, Any] = {}  # what config.yaml says of the run
        self.heading: Mapping[str, Any] = {}  # what every status.json does

    def file_as(self, spec: RunSpec) -> None:
        """What is written from now on is of this run."""
        self.filed, self.heading = spec.filed(), spec.heading()

    @property
    def curve(self) -> Path:
        return self.path / "curve.jsonl"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run's lock; it goes with the process, however that ends. Busy elsewhere: NormbenchError, code 5."""
        files.make_folder(self.path)
        try:
            handle = open(self.path / "lock", "a+", opener=reading.at_once)  # noqa: SIM115  held for as long as the run is written
        except OSError as error:
            raise NormbenchError(f"{self.path} cannot be written: {error.strerror}.") from None
        try:
            if not locks.take(handle.fileno(), self.path, READERS):
                holder = locks.holder(handle.fileno())
                raise NormbenchError(f"run {self.path.name[-12:]} is being written by {holder}.", code=5)
            locks.sign(handle.fileno())
            for left in self.path.glob("**/.*.tmp"):  # by a writer that was killed; under the lock there is no other
                left.unlink(missing_ok=True)
            yield
        finally:
            handle.close()

    def write_config(self) -> None:
        """config.yaml: the labels, and the configuration from which `rerun` composes the run anew."""
        files.atomic_write(self.path / "config.yaml", yaml.safe_dump(self.filed, sort_keys=False).encode())

    def write_status(self, status: str, **fields: Any) -> None:
        """status.json, sealed: with the hashes of all other files, unless the run goes on and changes them.

        A curve of the older form that still lies here keeps its schema.
        """
        if status != "running":
            self._sync("timing.jsonl")
            fields.setdefault("files", seals.of_run(self.path))
        schema = SCHEMA
        with contextlib.suppress(Damaged):
            if read_status(self.path)["schema"] == upgrade.OLD:
                schema = upgrade.OLD
        if "reason" in fields:
            fields["reason"] = fields["reason"][:LONGEST]
        content = {"schema": schema, "status": status, **self.heading, **fields}
        files.write_json(self.path / "status.json", seals.sealed(content))

    def old_status(self) -> dict[str, Any] | None:
        """The status that lies there, None where there is none; NormbenchError where it is damaged."""
        try:
            return read_status(self.path) if (self.path / "status.json").exists() else None
        except Damaged as damage:
            raise start_anew(self.path, damage) from None

    def append(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Lines at the end of curve.jsonl or timing.jsonl, at once: others read along."""
        with open(self.path / name, "ab", opener=reading.at_once) as file:
            file.write(b"".join(files.line(record) for record in records))

    def sync_curve(self) -> int:
        """The size of the curve in bytes, all of them on the disk."""
        with open(self.curve, "ab", opener=reading.at_once) as curve:
            os.fsync(curve.fileno())
            return curve.tell()

    def _sync(self, name: str) -> int:
        """The size of a file that is appended to, 0 where there is none, all of it on the disk."""
        if not (self.path / name).exists():
            return 0
        with open(self.path / name, "ab", opener=reading.at_once) as file:
            os.fsync(file.fileno())
            return file.tell()

    def drop_unfinished(self) -> None:
        """Leave nothing that a run could go on with; a run that was finished before, set aside, stays."""
        for name in ("curve.jsonl", "status.json"):  # in this order: a curve without a status counts as damaged
            (self.path / name).unlink(missing_ok=True)
        files.sync_folder(self.path)

    def set_aside_finished(self) -> None:
        """Before a longer run, or one with more evaluations: a copy of the finished one stays readable until then.

        Its own files are there until the next status is: whoever is killed between leaves a finished run.
        """
        for name in ("config.yaml", "curve.jsonl", "status.json"):
            if (self.path / name).exists():
                content = reading.read(self.path / name, LARGEST_CURVE if name == "curve.jsonl" else LARGEST)
                files.atomic_write(self.path / f"shorter.{name}", content)

    def write_samples(self, content: Mapping[str, bytes]) -> None:
        """Files that show what the trained model draws, in `samples/`."""
        for name, file in content.items():
            (self.path / "samples").mkdir(exist_ok=True)
            files.atomic_write(self.path / "samples" / name, file)

    def finish(self, status: str, **fields: Any) -> None:
        """The status seals all that the run left, and a shorter run that was set aside is not needed any more."""
        self.sync_curve()
        self.write_status(status, **fields, curve_sha256=curve_sha256(self.curve))
        self.drop_shorter()

    def drop_shorter(self) -> None:
        for name in ("status.json", "curve.jsonl", "config.yaml"):
            (self.path / f"shorter.{name}").unlink(missing_ok=True)


def is_locked(path: Path) -> bool:
    """Whether a live process writes this run."""
    try:
        with open(path / "lock", opener=reading.at_once) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def directory(root: Path, spec: RunSpec) -> RunDirectory:
    """Where a run is, or will be, written: an existing directory with its id anywhere below `root`, else a new one."""
    run_id = spec.id
    for found in _walk(root):
        if (found.id, found.seed) == (run_id, spec.seed) and found.path.is_dir():
            return RunDirectory(found.path)
    return RunDirectory(root / spec.experiment / f"{spec.arm}.s{spec.seed}.{run_id}")


def scan(root: Path) -> list[Stored]:
    """Every run directory below `root`, damaged ones included, sorted by path. Reads only the status files."""
    return sorted(map(_with_status, _walk(root)), key=lambda s: str(s.path))


def _with_status(run: Stored) -> Stored:
    if run.reason:
        return run
    try:
        return replace(run, status=status_of(run))
    except Damaged as damage:
        return replace(run, reason=str(damage))


def _walk(root: Path) -> Iterator[Stored]:
    """Every run directory by its name alone, and what should hold some and cannot be listed."""
    waiting = [root] if os.path.lexists(root) else []
    while waiting:
        folder = waiting.pop()
        try:
            runs, folders = listing(folder, root)
        except Damaged as damage:
            runs, folders = [unlisted(folder, damage)], []
        yield from runs
        waiting += folders


def unlisted(folder: Path, damage: Damaged) -> Stored:
    """A folder that is no run, among them to be seen."""
    return Stored(folder, "", folder.name, 0, "", {}, str(damage))


def listing(folder: Path, root: Path) -> tuple[list[Stored], list[Path]]:
    """The run directories in `folder`, by their names alone, and the folders in it that are none. Raises Damaged.

    Names that begin with a dot are of what is on its way to being something else.
    """
    place = folder.relative_to(root)
    if len(place.parts) > DEEPEST:
        raise Damaged(f"it lies deeper than {DEEPEST} folders below {root.name}")
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise Damaged(f"cannot be read: {error.strerror}") from None
    runs, folders = [], []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if match := NAME.fullmatch(entry.name):
            runs.append(Stored(Path(entry.path), str(place), match["arm"], int(match["seed"]), match["id"], {}))
        elif entry.is_dir(follow_symlinks=False):
            folders.append(Path(entry.path))
    return runs, folders


def _why(error: Exception) -> str:
    """What is wrong, without the number that the system has for it."""
    return getattr(error, "strerror", "") or str(error)


def _found(error: ValueError) -> str:
    """What is wrong with a JSON file that is none, where that is more than that."""
    return "" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else f": {error}"


def read_text(path: str | Path) -> str:
    """What a small file of a run says. Errors: OSError, UnicodeDecodeError."""
    return reading.read(path, LARGEST).decode()


def status_of(run: Stored) -> dict[str, Any]:
    """A run's status file, checked, also that it is this run's. Raises Damaged with the reason."""
    status = read_status(run.path)
    if status.get("id", run.id) != run.id:
        raise Damaged(f"status.json is of run {status['id']!r:.40}")
    return status


def read_status(path: Path, prefix: str = "") -> dict[str, Any]:
    """A run's status file, checked. Raises Damaged with the reason."""
    name = f"{prefix}status.json"
    try:
        text = read_text(f"{path}/{name}")
    except OSError as error:
        with contextlib.suppress(OSError):
            if not path.is_dir():
                raise Damaged("it is not a directory" if path.exists() else "it is a dangling link") from None
        if not isinstance(error, FileNotFoundError):
            raise Damaged(f"{name} cannot be read: {_why(error)}") from None
        if prefix == "" and not (path / "curve.jsonl").exists():
            return {"schema": SCHEMA, "status": "interrupted", "step": 0, "reason": "killed before it began"}
        raise Damaged(f"{name} is missing") from None
    except UnicodeDecodeError as error:
        raise Damaged(f"{name} cannot be read: {error}") from None
    try:
        status = reading.parse(text)
    except ValueError as error:
        raise Damaged(f"{name} is not JSON{_found(error)}") from None
    if not isinstance(status, dict):
        raise Damaged(f"{name} is not a JSON object")
    schema = status.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        newer = ": update normbench" if type(schema) is int and schema > SCHEMA else ""
        raise Damaged(f"{name} has schema {schema}, this version reads 1 to {SCHEMA}{newer}")
    if (schema >= seals.SINCE or seals.KEY in status) and not seals.fits(status):
        why = "its seal does not fit its content" if seals.KEY in status else "its seal is missing"
        raise Damaged(f"{name} was changed: {why}")
    if status.get("status") not in STATES:
        raise Damaged(f"{name} has no known status: {status.get('status')!r}")
    needed = ("epochs", "steps", "curve_sha256") if status["status"] in FINISHED else ()
    if not seals.are_hashes(status.get("files", None if needed and schema >= seals.SINCE else {})):
        raise Damaged(f"{name} says files={status.get('files')!r:.40}")
    for key, (kind, default) in STATUS_FIELDS.items():
        value = status.get(key, default if key not in needed else None)
        counts = isinstance(value, int | float)
        if not isinstance(value, kind) or isinstance(value, bool) or (counts and not 0 <= value < HIGHEST):
            raise Damaged(f"{name} says {key}={value!r:.40}")
    return status


def read_curve(path: Path, schema: int = SCHEMA) -> list[dict[str, Any]]:
    """The records of a curve, in today's form. A torn last line is not there yet; all else that is no record is damage.

    schema: the form in which they are, as the run's status tells.
    """
    return parse_curve(_bytes(path), path.name, schema)


def _bytes(path: Path) -> bytes:
    try:
        return reading.read(path, LARGEST_CURVE)
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror}") from None


def parse_curve(content: bytes, name: str, schema: int = SCHEMA, before: int = 0) -> list[dict[str, Any]]:
    """The records of the whole lines in `content`, which follows `before` lines. Damaged names the first bad one."""
    try:
        return _checked(_at_once(content), schema)
    except RECORD_DAMAGE:
        pass  # which line it is shows below
    *lines, _ = content.split(b"\n")
    records = []
    for number, text in enumerate(lines, before + 1):
        place = f"{name} line {number} of {before + len(lines)}"
        try:
            record = reading.decode(text)
        except ValueError as error:
            raise Damaged(f"{place} is not JSON{_found(error)}") from None
        try:
            records += _checked([record], schema)
        except RECORD_DAMAGE as error:
            raise Damaged(f"{place} is not a record: {error}") from None
    return records


def _at_once(content: bytes) -> list[Any]:
    """One JSON value per line, in half the time of one after the other; ValueError where that is not sure.

    A break between two lines can then lie in a list only, and no record holds one.
    """
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.count(b"\n")
    if whole[:1] + b"{" * whole.count(b"\n{") != b"{" * lines:
        raise ValueError("a line is no object")
    values = reading.decode(b"[" + whole[:-1].replace(b"\n", b",\n") + b"]")
    if len(values) != lines:
        raise ValueError("a line is not one value")
    return list(values)


def _checked(records: list[Any], schema: int) -> list[dict[str, Any]]:
    records = [upgrade.record(record) for record in records] if schema == upgrade.OLD else records
    for record in records:
        check_record(record)
    return records


def checked_curve(
    path: Path, status: Mapping[str, Any], known: str = ""
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of a curve and the run's `was`. Without the hash that a finished run's status has: Damaged.

    known: the hash of a curve that was read here before; its records are not checked again.
    """
    content = _bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if known == found == status.get("curve_sha256") and status["schema"] != upgrade.OLD:
        return _at_once(content), {}
    records = parse_curve(content, path.name, status["schema"])  # names the bad line where there is one
    if "curve_sha256" not in status:  # on its way
        return records, {}
    if found != status["curve_sha256"]:
        raise Damaged(f"{path.name} does not have the hash that status.json recorded")
    return records, upgrade.was(found, records) if status["schema"] == upgrade.OLD else {}


def curve_sha256(path: Path) -> str:
    """The fingerprint of a curve: equal for equal torch version, instruction set and threads."""
    return hashlib.sha256(reading.read(path, LARGEST_CURVE)).hexdigest()


def read_config(
    path: Path,
    prefix: str = "",
    load: Callable[[str], Any] = yaml_text.load,
) -> dict[str, Any]:
    """A run's config.yaml: labels, and configuration in today's form. Raises Damaged with the reason."""
    name = f"{prefix}config.yaml"
    try:
        content = load(read_text(f"{path}/{name}"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise Damaged(f"{name} cannot be read: {_why(error)}") from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise Damaged(f"{name} has no configuration")
    try:
        check_config(content["config"])
    except TypeError as error:
        raise Damaged(f"{name} {error}") from None
    return {**content, "config": upgrade.config(content["config"])}


def labels_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """How a run is filed, as its config.yaml tells. Raises Damaged."""
    labels = {key: content.get(key) for key in ("experiment", "arm", "fidelity", "control", "axes")}
    axes = labels["axes"]
    words = [*axes, *(value for key, value in labels.items() if key != "axes")] if isinstance(axes, dict) else [None]
    if not all(isinstance(word, str) for word in words):
        raise Damaged("config.yaml has no labels")
    return labels


def read_environment(path: Path) -> dict[str, Any]:
    try:
        content = reading.parse(read_text(path / "environment.json"))
    except (OSError, ValueError) as error:
        raise Damaged(f"environment.json cannot be read: {_why(error)}") from None
    if not isinstance(content, dict):
        raise Damaged("environment.json is not a JSON object")
    return content


def finished(path: Path, steps: int, asked: RunSpec | None = None) -> tuple[dict[str, Any], Path] | None:
    """Status and curve of the run at `path` if it is done (or diverged) and at least `steps` long.

    With `asked`, only if it has the evaluations of that spec as well.
    """
    for prefix in ("", "shorter."):
        if asked is not None and not has_evaluations(path, asked, prefix):
            continue
        try:
            status = read_status(path, prefix)
        except Damaged:
            continue
        enough = status.get("steps", 0) >= steps or status["status"] == "diverged"
        if status["status"] in FINISHED and enough:
            return status, path / f"{prefix}curve.jsonl"
    return _passed(path, steps) if asked is None or has_evaluations(path, asked) else None


def has_evaluations(path: Path, spec: RunSpec, prefix: str = "") -> bool:
    """Whether the configuration at `path` asked for every evaluation that `spec` does."""
    try:
        return satisfies(read_config(path, prefix)["config"], spec.config, spec.config_dir)
    except Damaged:
        return False


def _passed(path: Path, steps: int) -> tuple[dict[str, Any], Path] | None:
    """A longer run that is still on its way, but beyond `steps`: so far its curve is that of the shorter one."""
    try:
        status, curve = read_status(path), path / "curve.jsonl"
        longer = status["status"] not in FINISHED and status.get("steps", 0) > steps
        if longer and evaluation_complete(read_curve(curve, status["schema"]), steps):
            return {**status, "status": "done"}, curve
    except Damaged:
        pass  # not to be had; whoever lists the run says why
    return None


def record(stored: Stored, spec: RunSpec) -> RunRecord | None:
    """The finished run under the labels of `spec`, its curve cut to the updates asked for; None if not finished.

    A run that lacks an evaluation which the spec asks for is not that one. Raises Damaged.
    """
    return _record(stored, spec.steps, spec.labels(), spec.filed()["config"], spec)


def as_filed(stored: Stored) -> RunRecord | None:
    """The finished run under the labels of its own config.yaml; None if not finished. Raises Damaged."""
    if stored.reason:
        raise Damaged(stored.reason)
    if stored.state not in FINISHED:
        return None
    content = read_config(stored.path)
    return _record(stored, int(stored.status["steps"]), labels_of(content), content["config"])


def _record(
    stored: Stored, steps: int, labels: Mapping[str, Any], config: Mapping[str, Any], asked: RunSpec | None = None
) -> RunRecord | None:
    if stored.reason:
        raise Damaged(stored.reason)
    found = finished(stored.path, steps, asked)
    if found is None:
        return None
    status, curve = found
    if asked is not None:  # it may have more evaluations than are asked for here
        had = read_config(stored.path, curve.name.removesuffix("curve.jsonl"))["config"]
        config = {**config, "eval": had.get("eval", config["eval"])}
    records, was = checked_curve(curve, status)
    whole = replace(
        bare(stored, status, labels, config), records=records, environment=read_environment(stored.path), was=was
    )
    if curve.name == "curve.jsonl":  # what is beside a shorter one is the longer run's
        _check_files(stored.path, status)
    return whole.cut(steps) if whole.serves(steps) else None


def _check_files(path: Path, status: Mapping[str, Any]) -> None:
    """Damaged where what is read beside the curve is not what status.json has the hash of."""
    if "files" in status:
        for name, why in seals.differences(path, status["files"], seals.FIXED):
            raise Damaged(f"{name}: {why}")


def bare(stored: Stored, status: Mapping[str, Any], labels: Mapping[str, Any], config: Mapping[str, Any]) -> RunRecord:
    """A run without its records: what its status and its configuration say."""
    return RunRecord(
        id=stored.id,
        seed=stored.seed,
        status=str(status["status"]),
        epochs=int(status.get("epochs", 0)),
        steps=int(status.get("steps", 0)),
        reason=str(status.get("reason", "")),
        seconds=status.get("seconds"),
        config=config,
        **labels,
    )
