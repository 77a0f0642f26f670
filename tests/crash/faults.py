"""Disks that fail: the N-th open, write, flush, rename or new folder ends in an error, or the power goes.

A process of its own that has torch in memory once; each command runs in a forked child.
    python faults.py FOLDER COMMAND:FAULT:FIRST:STRIDE ...    FAULT: EIO, ENOSPC, ENOMEM or power
Prints as JSON how often the command ended how, and where it went wrong: it ended in a traceback, or the same command,
undisturbed, did not make of what was left what it makes of a folder that no fault has met.
"""

from __future__ import annotations

import builtins
import errno
import functools
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import driver
import tiny

from normbench.errors import BadInput, NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import publish
from normbench.runs import imported, pack
from normbench.runs.curve import Curve
from normbench.runs.directory import RunDirectory, place

DARK, OVER = 77, 3  # exit codes of a process whose power went; that was done before the fault came
ROOT = Path(__file__).resolve().parents[2]
NAME = "ln2016/table1"  # a table alone: no second for a figure


class Disk:
    """What lies on it for good, while the commands of this process write below `folder`."""

    def __init__(self, folder: Path, last: int, fault: str) -> None:
        self.folder, self.last, self.fault = str(folder), last, fault
        self.calls = 0
        self.before: dict[str, bytes | None] = {}  # by path: what is safe; None where there was no such file
        self.renames: list[tuple[str, str, bytes | None]] = []  # not flushed: from, to, and what was there
        self.real = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace", "rename", "mkdir")}
        self.real_open = builtins.open

    def mount(self) -> None:
        builtins.open = io.open = self.open  # type: ignore[assignment]
        for name in self.real:
            setattr(os, name, functools.partial(self.call, name))

    def mine(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(self.folder)

    def count(self) -> bool:
        """One more operation; whether it is the one that fails. The power goes here."""
        self.calls += 1
        if self.calls != self.last:
            return False
        if self.fault == "power":
            self.cut()
        return True

    def fail(self) -> OSError:
        number = getattr(errno, self.fault)
        return OSError(number, os.strerror(number))

    def open(self, path: Any, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
        if not self.mine(path):
            return self.real_open(path, mode, *arguments, **keywords)
        if self.count():
            raise self.fail()
        if set(mode) & set("wax+"):
            self.remember(os.path.abspath(path))
            return File(self, self.real_open(path, mode, *arguments, **keywords))
        return self.real_open(path, mode, *arguments, **keywords)

    def call(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        first = arguments[0]
        path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else first
        if not self.mine(path):
            return self.real[name](*arguments, **keywords)
        if self.count():
            if name == "write":
                self.real["write"](first, arguments[1][: len(arguments[1]) // 2])
            raise self.fail()
        if name == "open" and arguments[1] & (os.O_WRONLY | os.O_RDWR):
            self.remember(os.path.abspath(path))
        if name in ("replace", "rename") and os.path.isfile(first):
            there, target = os.path.abspath(first), os.path.abspath(arguments[1])
            self.renames.append((there, target, self.read(target)))
            if there in self.before:
                self.before[target] = self.before.pop(there)
        result = self.real[name](*arguments, **keywords)
        if name == "fsync":
            if os.path.isdir(path):
                self.renames = [entry for entry in self.renames if os.path.dirname(entry[1]) != os.path.abspath(path)]
            else:
                self.before[path] = self.read(path)
        return result

    def remember(self, path: str) -> None:
        self.before.setdefault(path, self.read(path))

    def read(self, path: str) -> bytes | None:
        try:
            with self.real_open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def cut(self, code: int = DARK) -> None:
        """The power goes: renames that were not flushed may not have been, bytes that were not are in part there."""
        draw = random.Random(self.last)
        for path, safe in self.before.items():
            now = self.read(path)
            if now is not None and now != safe:
                keep = len(safe or b"") if now.startswith(safe or b"") else 0
                with self.real_open(path, "wb") as file:
                    file.write(now[: draw.randint(keep, len(now))] if draw.random() < 0.7 else (safe or b""))
        for there, target, before in reversed(self.renames):
            if draw.random() < 0.5:
                self.real["replace"](target, there) if os.path.exists(target) else None
                if before is not None:
                    with self.real_open(target, "wb") as file:
                        file.write(before)
        os._exit(code)


class File:
    """An open file, each write of which counts."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self.disk, self.file = disk, file

    def write(self, content: Any) -> Any:
        if self.disk.count():
            self.file.write(content[: len(content) // 2])
            raise self.disk.fail()
        found = self.file.write(content)
        self.file.flush()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __iter__(self) -> Any:
        return iter(self.file)


# --- commands ---------------------------------------------------------------------------------------------------------

WORDS = ("train.checkpoint_seconds=0", "train.epochs=1", "train.batch_size=400", "train.keep=[last]")


def train(folder: Path) -> None:
    from normbench.train.train_one import ensure_run

    spec = tiny.spec(*WORDS)
    ensure_run(spec, RunDirectory(place(folder / "runs", spec)))


def before_publish(folder: Path) -> None:
    path = ROOT / "results" / NAME / "paper" / pack.NAME
    publish.publish(artifacts.Plan(artifacts.load(NAME), "paper"), pack.read(path).runs[:6], folder)


def publish_all(folder: Path) -> None:
    runs = pack.read(ROOT / "results" / NAME / "paper" / pack.NAME).runs
    notes = publish.publish(artifacts.Plan(artifacts.load(NAME), "paper"), runs, folder).notes
    if notes:
        raise BadInput(notes[0])


def nothing(folder: Path) -> None:
    pass


def logged(lengths: dict[str, int]) -> list[Any]:
    """Runs of another program, each of so many points."""
    curves = ((key, n, {"step": [*range(n)], "loss": [1 / (1 + s) for s in range(n)]}) for key, n in lengths.items())
    return [
        imported.record(
            "x", key, "ln", number, Curve.of_columns([{"split": "valid", "mode": "logged", "columns": c}]), n
        )
        for number, (key, n, c) in enumerate(curves)
    ]


def before_import(folder: Path) -> None:
    imported.write(folder, "x", logged({"a": 10, "b": 2000}))


def import_more(folder: Path) -> None:
    imported.write(folder, "x", logged({"a": 3000, "b": 10, "c": 5}))


COMMANDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "train": (nothing, train),
    "publish": (before_publish, publish_all),
    "import": (before_import, import_more),
    "first_import": (nothing, import_more),
}


TIMED = (".normbench.lock", "timing.jsonl")


def tree(folder: Path) -> dict[str, str]:
    """All that a command made, but what says when and how long."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name == "run.json":
            found[name] = json.loads(path.read_text())["status"]
        elif path.is_file() and path.name not in TIMED:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def once(act: Callable[[Path], None], folder: Path, last: int, fault: str, report_file: Path) -> int:
    """The command with one fault; its exit code: 0 done all the same, 2 one line, 1 anything else, DARK or OVER."""

    def then() -> None:
        disk = Disk(folder, last, fault)
        disk.mount()
        try:
            act(folder)
        except (NormbenchError, OSError) as error:
            with disk.real_open(report_file, "w") as file:
                file.write(str(error))
            os._exit(2)
        except BaseException as error:
            with disk.real_open(report_file, "w") as file:
                file.write(repr(error))
            os._exit(1)
        if disk.calls < last:
            if fault == "power":  # after all is done: is what was promised there for good?
                disk.cut(OVER)
            os._exit(OVER)

    code = os.waitstatus_to_exitcode(driver.wait(driver.fork(then)))
    return int(code)


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(key for key in one | other if one.get(key) != other.get(key))


def main() -> None:
    found = {}
    for number, word in enumerate(sys.argv[2:]):
        name, fault, first, stride = word.split(":")
        place = Path(sys.argv[1]) / str(number)
        place.mkdir()
        found[word] = tried(place, name, fault, int(first), int(stride))
    print(json.dumps(found))


def tried(folder: Path, name: str, fault: str, first: int, stride: int) -> dict[str, Any]:
    """One command with one kind of fault, at every operation or some of them."""
    before, act = COMMANDS[name]
    start, calm, at = folder / "start", folder / "calm", folder / "at"
    start.mkdir()
    before(start)
    shutil.copytree(start, calm)
    act(calm)  # here, for what is imported late
    expected = tree(calm)
    report: dict[str, Any] = {"ends": {}, "wrong": []}
    for last in itertools.count(first, stride):
        shutil.copytree(start, at)
        code = once(act, at, last, fault, folder / "problem")
        report["ends"][str(code)] = report["ends"].get(str(code), 0) + 1
        if code not in (0, 2, DARK, OVER):
            report["wrong"].append([last, code, (folder / "problem").read_text()])
        if code == OVER and tree(at) != expected:
            report["wrong"].append([last, "it was not there for good", differing(tree(at), expected)])
        try:
            if os.waitstatus_to_exitcode(driver.wait(driver.fork(lambda: act(at)))):
                report["wrong"].append([last, "the next command failed", ""])
            elif (ended := tree(at)) != expected:
                report["wrong"].append([last, "another end", differing(ended, expected)])
        finally:
            shutil.rmtree(at)
        if code == OVER:
            return report
    raise AssertionError("there is always one more operation")


if __name__ == "__main__":
    main()
