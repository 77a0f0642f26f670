"""From the sources of a set to its final files: one module a set, with `prepare(sources, out, declares)`.

A module writes below `out` and returns a remark for the user, or nothing; `run` verifies what it wrote and moves it.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench import durable
from normbench.data import content, files
from normbench.data.prepare.parts import Wrong
from normbench.errors import NormbenchError

ASIDE = "prepared"  # below a set's sources: unfinished files


def run(config: Mapping[str, Any], root: Path) -> list[Path]:
    """Make the set's final files from its sources, which are all there and verified; returns the files.

    They are written aside, verified and then renamed. NormbenchError when the sources do not give the declared content.
    The caller holds the set's lock.
    """
    name, declares, sources = str(config["name"]), config["declares"], files.sources(config, root)
    aside = sources / ASIDE
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        remark = importlib.import_module(f"{__name__}.{name}").prepare(sources, aside, declares) or ""
        differing = [file for file in files.declared(config) if not _as_declared(declares, aside, file)]
        if differing and "register" not in declares["sources"]:
            raise Wrong(f"{', '.join(differing)} would not have the declared content")
        # Without a published checksum, what the owners hand out is right, and only said to differ.
        remark = f"{remark}; not the declared copy" if differing else ""
        _install(config, root, aside, remark)
    except Wrong as error:
        raise NormbenchError(
            f"{files.title(config)} cannot be prepared from the files in {files.as_text(sources)}: {error}. "
            f"Replace what is wrong there and run: normbench data get {name}"
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return [root / file for file in files.declared(config)]


def _as_declared(declares: Mapping[str, Any], aside: Path, file: str) -> bool:
    """Whether the content is the declared one; a file without one is verified by its own module."""
    wanted = content.declared(declares, file)
    try:
        return wanted is None or content.of(aside / file) == wanted
    except (OSError, ValueError) as error:
        raise Wrong(f"{file} was not written whole ({error})") from None


def _install(config: Mapping[str, Any], root: Path, aside: Path, remark: str) -> None:
    wanted = files.declared(config)
    sums = {file: files.digest(aside / file, "sha256") for file in wanted}
    record = files.record_path(config, root)
    record.parent.mkdir(parents=True, exist_ok=True)
    # Out with all that was there, so that a kill between the renames leaves missing files, never a mixture of copies.
    for file in wanted:
        (root / file).unlink(missing_ok=True)
    record.unlink(missing_ok=True)
    if sums != wanted:
        made = {"basis": files.basis(config), "remark": remark, "files": sums}
        (aside / record.name).write_text(json.dumps(made, indent=1))
        _move(aside / record.name, record)
    for file in wanted:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        _move(aside / file, root / file)


def _move(source: Path, target: Path) -> None:
    # On another disk, as when the set's folder is a link, the file cannot be renamed to the target.
    if source.stat().st_dev != target.parent.stat().st_dev:
        part = target.with_name(f".{target.name}.part")
        shutil.copyfile(source, part)
        source = part
    with source.open("rb") as file:
        os.fsync(file.fileno())
    durable.replace(source, target)
