"""Hashes by which damage shows: of a status file over itself, of all else that a finished run left, of a figure.

They find damage, not forgery: whoever changes a file on purpose can write its hash anew.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.runs import files

KEY = "sha256"  # of a JSON object: the hash of all else in it
# What a finished run's status has the hashes of, beside that of its curve. `samples` grow after the run's end.
FIXED = ("config.yaml", "environment.json")  # while it is trained
FILES = (*FIXED, "timing.jsonl")
FOLDERS = ("weights", "outcomes", "samples")
_NAME = re.compile(rf"{'|'.join(map(re.escape, FILES))}|({'|'.join(FOLDERS)})/[^/\0.][^/\0]*")
_MARK = re.compile(rb"<!-- sha256 of all above: ([0-9a-f]{64}) -->\n\Z")


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with its seal."""
    bare = {key: value for key, value in content.items() if key != KEY}
    return {**bare, KEY: files.seal(bare)}


def fits(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object has its seal, and is what was sealed."""
    return content.get(KEY) == files.seal({key: value for key, value in content.items() if key != KEY})


def are_hashes(found: Any) -> bool:
    """Whether this can be what `of_run` gave."""
    return isinstance(found, dict) and all(_NAME.fullmatch(name) and isinstance(v, str) for name, v in found.items())


def of_run(path: Path, names: Sequence[str] = ()) -> dict[str, str]:
    """What a run left beside its curve: names below its directory, and hashes; of `names` alone where any are given."""
    return {name: _sha256(path / name) for name in _names(path) if not names or name in names}


def differences(path: Path, recorded: Mapping[str, str], names: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Each file of a run that is not as it was sealed, and how; of `names` alone where any are given.

    Samples that were drawn after the run's end have no hash; weights and outcomes without one are damage.
    """
    here = [name for name in _names(path) if name in recorded or not name.startswith("samples/")]
    for name in names or sorted({*recorded, *here}):
        if name not in recorded:
            yield name, "status.json has no hash of it"
            continue
        try:
            if _sha256(path / name) != recorded[name]:
                yield name, "it does not have the hash that status.json recorded"
        except FileNotFoundError:
            yield name, "it is missing"
        except OSError as error:
            yield name, f"it cannot be read: {error.strerror}"


def marked(image: bytes, of: str) -> bytes:
    """An SVG with a hash as a comment at its end: of itself, and of what it shows in words."""
    return image + b"<!-- sha256 of all above: %s -->\n" % _mark(image, of)


def unmarked(image: bytes, of: str) -> str:
    """What is wrong with an SVG that is to show `of`, "" where nothing is."""
    last = _MARK.search(image[-120:])
    if last is None:
        return "it has no hash at its end"
    return "" if _mark(image[: -len(last[0])], of) == last[1] else "its hash is not that of it and of the pack"


def _mark(image: bytes, of: str) -> bytes:
    return hashlib.sha256(image + of.encode()).hexdigest().encode()


def _names(path: Path) -> list[str]:
    found = [name for name in FILES if (path / name).exists()]
    for folder in FOLDERS:
        if (path / folder).is_dir():
            names = (entry.name for entry in os.scandir(path / folder) if entry.is_file())
            found += sorted(f"{folder}/{name}" for name in names if not name.startswith("."))
    return found


def _sha256(path: Path) -> str:
    """OSError for what is no regular file."""
    found = hashlib.sha256()
    with reading.opened(path) as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
