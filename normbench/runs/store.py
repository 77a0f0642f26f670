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
from normbench.config.identity import RunSpec, satisfies
from normbench.runs import claims, curve_file, seals, yaml_text
from normbench.runs.damaged import Damaged, no_json, why
from normbench.runs.record import HIGHEST, RunRecord, check_config, evaluation_complete

SCHEMA = 3  # of status.json
NAME = re.compile(r"(?P<arm>.+)\.s(?P<seed>[0-9]{1,19})\.(?P<id>[0-9a-f]{12})", re.DOTALL)
STATES = ("running", "done", "diverged", "failed", "interrupted")
FINISHED = ("done", "diverged")
ASIDE = "shorter."  # begins the names of what a finished run left, while one of its id is trained again
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
    return claims.is_claimed(path)  # on another node, where a lock is not seen here


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
            raise Damaged(f"{name} cannot be read: {why(error)}") from error
        if prefix == "" and not (path / "curve.jsonl").exists():
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


def read_config(
    path: Path,
    prefix: str = "",
    load: Callable[[str], Any] = yaml_text.load,
) -> dict[str, Any]:
    """A run's config.yaml: labels and configuration. Raises Damaged with the reason."""
    name = f"{prefix}config.yaml"
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


def finished(path: Path, steps: int, asked: RunSpec | None = None) -> tuple[dict[str, Any], Path] | None:
    """Status and curve of the run at `path` if it is done (or diverged) and at least `steps` long.

    With `asked`, only if it has the evaluations of that spec as well.
    """
    for prefix in ("", ASIDE):
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
        return satisfies(read_config(path, prefix)["config"], spec)
    except Damaged:
        return False


def has_aside(path: Path) -> bool:
    """Whether a finished run was set aside there, while one of its id is trained again."""
    return (path / f"{ASIDE}status.json").exists()


def can_become(path: Path, spec: RunSpec) -> bool:
    """Whether an unfinished run at `path` can be gone on with to the end of `spec`; its length is not asked.

    But where it is trained again in the place of a finished run: it is to be as long as that. Raises Damaged.
    """
    config = read_config(path)["config"]
    if has_aside(path):
        return satisfies(config, spec)
    own = spec.config["train"]  # where it ends it is evaluated
    return satisfies({**config, "train": {**config["train"], "epochs": own["epochs"], "steps": own["steps"]}}, spec)


def _passed(path: Path, steps: int) -> tuple[dict[str, Any], Path] | None:
    """A longer run that is still on its way, but beyond `steps`: so far its curve is that of the shorter one."""
    try:
        status, curve = read_status(path), path / "curve.jsonl"
        longer = status["status"] not in FINISHED and status.get("steps", 0) > steps
        if longer and evaluation_complete(curve_file.read(curve), steps):
            return {**status, "status": "done"}, curve
    except Damaged:
        pass  # not to be had; whoever lists the run says why
    return None


def record(stored: Stored, spec: RunSpec) -> RunRecord | None:
    """The finished run under the labels of `spec`, its curve cut to the updates asked for; None if not finished.

    A run that lacks an evaluation which the spec asks for is not that one. Raises Damaged.
    """
    return _record(stored, spec.steps, spec.labels(), spec.filed()["config"], spec)


def as_filed(stored: Stored, load: Callable[[str], Any] = yaml_text.load) -> RunRecord | None:
    """The finished run under the labels of its own config.yaml; None if not finished. Raises Damaged.

    Of one that is trained again, longer or with other evaluations, the finished one that was set aside for it. load: of
    the text of config.yaml, for who reads many.
    """
    if stored.reason:
        raise Damaged(stored.reason)
    prefix, status = "", stored.status
    if stored.state not in FINISHED:
        try:
            prefix, status = ASIDE, read_status(stored.path, ASIDE)
        except Damaged:
            if has_aside(stored.path):
                raise
            return None  # there is none, or it went when the new one was finished
    content = read_config(stored.path, prefix, load)
    return _record(stored, int(status["steps"]), labels_of(content), content["config"])


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
    try:
        records = curve_file.packed(curve, status)
    except Damaged:
        again = None if curve.name == "curve.jsonl" else finished(stored.path, steps, asked)
        if again is None or again == found:
            raise
        status, curve = again  # the run that it was set aside for has been finished meanwhile
        records = curve_file.packed(curve, status)
    whole = replace(bare(stored, status, labels, config), records=records, environment=read_environment(stored.path))
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
        began=str(status.get("began", "")),
        config=config,
        **labels,
    )
