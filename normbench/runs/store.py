"""The raw store: one directory per run, found by id, readable while it is being written.

    runs/<experiment>/<arm>.s<seed>.<id>/
      config.yaml environment.json curve.jsonl timing.jsonl status.json output.log checkpoint/ weights/ lock claim

status.json has a seal over itself and, of a finished run, the hashes of the curve and of all else that the run left.
A damaged directory is listed with its reason and hides no other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from normbench import reading
from normbench.config.identity import ResolvedRun, satisfies
from normbench.runs import curve_file, leases, seals, yaml_text
from normbench.runs.damaged import Damaged, no_json, why
from normbench.runs.record import HIGHEST, RunRecord, check_config

SCHEMA = 3  # of status.json
NAME = re.compile(r"(?P<arm>.+)\.s(?P<seed>[0-9]{1,19})\.(?P<id>[0-9a-f]{12})", re.DOTALL)
OLD = re.compile(r"\.old-[0-9]+\Z")  # ends the name of a directory whose run was trained anew
STATES = ("running", "done", "diverged", "failed", "interrupted")
FINISHED = ("done", "diverged")
STATUS_FIELDS: dict[str, tuple[Any, Any]] = {  # types and defaults of what others rely on
    "epochs": (int, 0),
    "step": (int, 0),
    "steps": (int, 0),
    "seconds": ((int, float), 0.0),
    "reason": (str, ""),
    "began": (str, ""),
    "curve_sha256": (str, ""),  # of a finished curve
}
LARGEST = 8 << 20  # bytes of a file that is read, a curve apart
DEEPEST = 20  # folders between the root and a run


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
    def log(self) -> Path | None:
        """What the run printed, and why it failed; None where that is nothing."""
        log = self.path / "output.log"
        with contextlib.suppress(OSError):
            return log if log.stat().st_size else None
        return None

    @property
    def state(self) -> str:
        """`damaged`, or the status; `interrupted` for one that says running while nobody holds its lock."""
        if self.reason:
            return "damaged"
        state = str(self.status["status"])
        return "interrupted" if state == "running" and not is_locked(self.path) else state


def is_locked(path: Path) -> bool:
    """Whether a live process writes this run."""
    try:
        with open(path / "lock", opener=reading.at_once) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return leases.is_claimed(path)  # on another node, where a lock is not seen here


def with_status(run: Stored) -> Stored:
    """A run directory as found, with its status file or the reason why there is none."""
    if run.reason:
        return run
    try:
        return replace(run, status=status_of(run))
    except Damaged as damage:
        return replace(run, reason=str(damage))


def unlisted(folder: Path, damage: Damaged) -> Stored:
    """A folder that is no run, among them to be seen."""
    return Stored(folder, "", folder.name, 0, "", {}, str(damage))


def names(folder: Path, root: Path) -> list[str]:
    """What there is in a folder below `root`. Raises Damaged."""
    if len(folder.relative_to(root).parts) > DEEPEST:
        raise Damaged(f"it lies deeper than {DEEPEST} folders below {root.name}")
    try:
        return os.listdir(folder)
    except OSError as error:
        raise Damaged(f"cannot be read: {error.strerror}") from None


def is_folder(path: Path) -> bool:
    """Whether there may be runs in it; none are looked for behind a link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def place(root: Path, experiment: str, arm: str, seed: int, run: str) -> Path:
    """Where a run that is nowhere below `root` yet belongs; its name is as NAME reads it."""
    return root / experiment / f"{arm}.s{seed}.{run}"


def by_name(folder: Path, said: re.Match[str], place: str) -> Stored:
    """What a run directory's name says, as NAME reads it. `place`: of the folder, below the root."""
    return Stored(folder / said.string, place, said["arm"], int(said["seed"]), said["id"], {})


def read_text(path: str | Path) -> str:
    """What a small file of a run says. Errors: OSError, UnicodeDecodeError."""
    return reading.read(path, LARGEST).decode()


def status_of(run: Stored) -> dict[str, Any]:
    """A run's status file, checked, also that it is this run's. Raises Damaged with the reason."""
    status = read_status(run.path)
    if status.get("id", run.id) != run.id:
        raise Damaged(f"status.json is of run {status['id']!r:.40}")
    return status


def read_status(path: Path) -> dict[str, Any]:
    """A run's status file, checked. Raises Damaged with the reason."""
    name = "status.json"
    try:
        text = read_text(f"{path}/{name}")
    except OSError as error:
        with contextlib.suppress(OSError):
            if not path.is_dir():
                raise Damaged("it is not a directory" if path.exists() else "it is a dangling link") from None
        if not isinstance(error, FileNotFoundError):
            raise Damaged(f"{name} cannot be read: {why(error)}") from error
        if not (path / "curve.jsonl").exists():
            return {"schema": SCHEMA, "status": "interrupted", "step": 0, "reason": "killed before it began"}
        raise Damaged(f"{name} is missing") from None
    except UnicodeDecodeError as error:
        raise Damaged(f"{name} cannot be read: {error}") from None
    try:
        status = reading.parse(text)
    except ValueError as error:
        raise Damaged(f"{name} is not JSON{no_json(error)}") from None
    if not isinstance(status, dict):
        raise Damaged(f"{name} is not a JSON object")
    schema = status.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        newer = ": update normbench" if type(schema) is int and schema > SCHEMA else ""
        raise Damaged(f"{name} has schema {schema}, this version reads {SCHEMA}{newer}")
    if not seals.fits(status):
        seal = "its seal does not fit its content" if seals.KEY in status else "its seal is missing"
        raise Damaged(f"{name} was changed: {seal}")
    if status.get("status") not in STATES:
        raise Damaged(f"{name} has no known status: {status.get('status')!r}")
    needed = ("epochs", "steps", "curve_sha256") if status["status"] in FINISHED else ()
    if not seals.are_hashes(status.get("files", None if needed else {})):
        raise Damaged(f"{name} says files={status.get('files')!r:.40}")
    for key, (kind, default) in STATUS_FIELDS.items():
        value = status.get(key, default if key not in needed else None)
        counts = isinstance(value, int | float)
        if not isinstance(value, kind) or isinstance(value, bool) or (counts and not 0 <= value < HIGHEST):
            raise Damaged(f"{name} says {key}={value!r:.40}")
    return status


def read_config(path: Path, load: Callable[[str], Any] = yaml_text.load) -> dict[str, Any]:
    """A run's config.yaml: labels and configuration. Raises Damaged with the reason."""
    name = "config.yaml"
    try:
        text = read_text(f"{path}/{name}")
        content = load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise Damaged(f"{name} cannot be read: {why(error)}") from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise Damaged(f"{name} has no configuration")
    try:
        check_config(content["config"], text)
    except TypeError as error:
        raise Damaged(f"{name} {error}") from None
    return content


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
        raise Damaged(f"environment.json cannot be read: {why(error)}") from None
    if not isinstance(content, dict):
        raise Damaged("environment.json is not a JSON object")
    return content


def finished(path: Path, steps: int, asked: ResolvedRun | None = None) -> dict[str, Any] | None:
    """Status of the run at `path` if it is done (or diverged) and at least `steps` long.

    With `asked`, only if it has the evaluations of that spec as well.
    """
    try:
        status = read_status(path)
        if status["status"] not in FINISHED or (status["steps"] < steps and status["status"] != "diverged"):
            return None
        if asked is not None and not satisfies(read_config(path)["config"], asked):
            return None
    except Damaged:
        return None
    return status


def can_become(path: Path, spec: ResolvedRun) -> bool:
    """Whether the run at `path` is unfinished and can be continued to the end of `spec`, whatever its own length."""
    try:
        if read_status(path)["status"] in FINISHED:
            return False
        config, own = read_config(path)["config"], spec.config["train"]  # where it ends it is evaluated
    except Damaged:  # its configuration is written anew
        return True
    if not any((path / "checkpoint").glob("*.json")):
        return True  # it starts from the first update in any case
    return satisfies({**config, "train": {**config["train"], "epochs": own["epochs"], "steps": own["steps"]}}, spec)


def record(stored: Stored, spec: ResolvedRun) -> RunRecord | None:
    """The finished run under the labels of `spec`, its curve cut to the updates asked for; None if not finished.

    A run that lacks an evaluation which the spec asks for is not that one. Raises Damaged.
    """
    return _record(stored, spec.steps, spec.labels(), spec.filed()["config"], spec)


def as_filed(stored: Stored, load: Callable[[str], Any] = yaml_text.load) -> RunRecord | None:
    """The finished run under the labels of its own config.yaml; None if not finished. Raises Damaged.

    load: of the text of config.yaml, for who reads many.
    """
    if stored.reason:
        raise Damaged(stored.reason)
    if stored.state not in FINISHED:
        return None
    content = read_config(stored.path, load)
    return _record(stored, int(stored.status["steps"]), labels_of(content), content["config"])


def _record(
    stored: Stored, steps: int, labels: Mapping[str, Any], config: Mapping[str, Any], asked: ResolvedRun | None = None
) -> RunRecord | None:
    if stored.reason:
        raise Damaged(stored.reason)
    status = finished(stored.path, steps, asked)
    if status is None:
        return None
    if asked is not None:  # it may have more evaluations than are asked for here
        config = {**config, "eval": read_config(stored.path)["config"].get("eval", config["eval"])}
    records = curve_file.packed(stored.path / "curve.jsonl", status)
    whole = replace(bare(stored, status, labels, config), records=records, environment=read_environment(stored.path))
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
        began=str(status.get("began", "")),
        config=config,
        **labels,
    )
