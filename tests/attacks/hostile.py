"""What somebody who means harm makes of a run directory: each of these once broke a command for all runs, or could."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spoil

from normbench.runs import curve_file, run_file

Spoil = Callable[[Path], object]

FILES = (
    "run.json", "lock", "curve.jsonl", "timing.jsonl", "output.log", "samples", "outcomes", "checkpoint", "weights",
)  # fmt: skip

# --- something else in a file's place --------------------------------------------------------------------------------


def _gone(path: Path) -> Path:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return path


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


PLACED: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a folder": lambda path: path.mkdir(),
    "a link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "a link to memory": lambda path: path.symlink_to("/proc/self/mem"),
    "a link to the terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a terabyte": spoil.become_large,
}


def _placed(name: str, place: Callable[[Path], object], state: str = "done") -> Spoil:
    def make(run: Path) -> None:
        spoil.change(run, status=state)
        place(_gone(run / name))

    return make


# --- other content ---------------------------------------------------------------------------------------------------


def _curve(change: Callable[[str], str]) -> Spoil:
    """Of every line; the status then has the hash of what came out."""

    def make(run: Path) -> None:
        curve = run / "curve.jsonl"
        curve.write_text("".join(f"{change(line)}\n" for line in curve.read_text().splitlines()))
        spoil.change(run, curve_sha256=curve_file.sha256(curve))

    return make


def _added(raw: str) -> Spoil:
    return _curve(lambda line: f"{line[:-1]}, {raw}}}")


def _config(change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Other content of run.json, with hashes that fit."""

    def make(run: Path) -> None:
        content = json.loads((run / "run.json").read_text())
        change(content)
        run_file.write(run, content)

    return make


def _field(key: str, raw: str) -> Spoil:
    """Raw JSON in the place of a field of run.json."""

    def make(run: Path) -> None:
        content = json.loads((run / "run.json").read_text()) | {key: "@"}
        (run / "run.json").write_text(json.dumps(content).replace('"@"', raw))

    return make


def _in_model(raw: str) -> Spoil:
    """A further option of the model in run.json, as JSON."""

    def make(run: Path) -> None:
        text = (run / "run.json").read_text()
        (run / "run.json").write_text(text.replace('"model": {', f'"model": {{ "more": {raw},'))

    return make


def _renamed(name: bytes) -> Spoil:
    """Another arm in the directory's name."""
    return lambda run: os.rename(os.fsencode(run), os.fsencode(run.parent) + b"/" + name + os.fsencode(run.name[-16:]))


def _moved(name: bytes) -> Spoil:
    """Another experiment's folder."""

    def make(run: Path) -> None:
        folder = os.fsencode(run.parent.parent) + b"/" + name
        os.makedirs(folder, exist_ok=True)
        os.rename(os.fsencode(run), folder + b"/" + os.fsencode(run.name))

    return make


def _folders(run: Path) -> None:
    here = os.getcwd()
    (run.parent / f"folders {run.name[-3:]}").mkdir()
    os.chdir(run.parent / f"folders {run.name[-3:]}")
    try:
        for _ in range(400):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)


PLACES: dict[str, Spoil] = {
    **{f"{what} for {name}": _placed(name, place) for name in FILES for what, place in PLACED.items()},
    **{
        f"{what} for {name}, running": _placed(name, place, "running")
        for name in ("lock", "curve.jsonl", "timing.jsonl")
        for what, place in PLACED.items()
    },
}
SINGLE: dict[str, Spoil] = {
    **{
        f"{name} nested {depth}": spoiled
        for depth in (60, 900, 100_000)
        for name, spoiled in {
            "record": _added(f'"variant": {depth * chr(91) + depth * chr(93)}'),
            "config": _in_model(depth * "[" + depth * "]"),
            "label": _field("axes", f'{{"a": {depth * "[" + depth * "]"}}}'),
        }.items()
    },
    "a key that is half a character": _added('"\\ud800": 1'),
    "a key that steers": _added('"\\u001b[31m": 1'),
    "a key twice": _added('"nll": 1, "nll": 2'),
    "thousands of metrics": _added(", ".join(f'"m{number}": {number}' for number in range(2000))),
    "steps in another order": _curve(lambda line: line.replace('"step": 6', '"step": 3000')),
    "a reason of 10 MB": lambda p: spoil.change(p, status="failed", reason="x" * 10**7),
    "a reason of 5 MB": lambda p: spoil.change(p, status="failed", reason="\x1b[31m\n" * 10**6),
    "a reason that steers": lambda p: spoil.change(p, status="failed", reason="\x1b]0;owned\x07\x9b31m\u202e[/red]"),
    "a status that is markup": lambda p: spoil.change(p, status="[/x]"),
    **{
        f"label {key} {what}": _config(lambda content, k=key, v=value: content.update({k: v}))
        for key in ("experiment", "arm", "fidelity", "control")
        for what, value in {
            "steers": "\x1b[31mX\x07\x9b\n", "is markup": "[/x][bold", "is long": "x" * 10**6, "is a number": 3,
            "is nothing": None, "is a list": [1], "is half a character": "\ud800",
        }.items()
    },
    **{
        f"axes {what}": _config(lambda content, v=value: content.update(axes=v))
        for what, value in {
            "that steer": {"\x1b[31m": "\x1b[0m"}, "of objects": {"a": {"b": 1}}, "of lists": {"a": [[1]]},
        }.items()
    },
    **{
        f"monitor {key} {what}": _config(lambda content, k=key, v=value: content["config"]["monitor"].update({k: v}))
        for key in ("metric", "split", "goal")
        for what, value in {"is a list": [1], "is a map": {"a": 1}, "is nothing": None}.items()
    },
    "an interpolation": _config(lambda content: content["config"]["train"].update(epochs="${oc.env:HOME}")),
    "an interpolation for a key": _in_model('{"${oc.env:HOME}": 1}'),
    "a whole number of 100,000 digits": _in_model("9" * 100_000),
    "a name that is not UTF-8": _renamed(b"bad\xff\xfe"),
    "a name that steers": _renamed(b"a\x1b[31mred\x1b]0;t\x07\n"),
    "a name with another script's digits": lambda p: p.rename(p.with_name(f"a.s٣.{p.name[-12:]}")),
    "a name with a seed of 200 digits": lambda p: p.rename(p.with_name(f"a.s{'9' * 200}.{p.name[-12:]}")),
    "an experiment that is not UTF-8": _moved(b"experiment\xff"),
    "an experiment that steers": _moved(b"\x1b[31m\x1b]0;t\x07\n"),
    "folders in folders": _folders,
}  # fmt: skip

CASES = SINGLE | PLACES
FEW = SINGLE | dict(list(PLACES.items())[::3])
