"""The files of a data set on disk: which there are, what is wrong with one, and the line that says so."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHUNK = 1 << 20


def declared(config: Mapping[str, Any]) -> dict[str, str]:
    """Path below the data folder -> md5, as the set declares; empty for embedded sets."""
    return dict(config["declares"].get("files") or {})


def title(config: Mapping[str, Any]) -> str:
    """The set's name as the error lines write it: MNIST."""
    return str(config["name"]).upper()


def shown(path: Path) -> str:
    """The path as a user would type it; a relative one starts with ./"""
    text = str(path)
    return text if path.is_absolute() or text.startswith(".") else f".{os.sep}{text}"


def problem(config: Mapping[str, Any], root: Path, name: str) -> str | None:
    """What is wrong with one declared file, as the line for the user; None when its md5 is right."""
    path = root / name
    get = f"normbench data get {config['name']}"
    try:
        # Asked first, because opening a pipe would wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            return f"{shown(path)} is not a file but a {_kind(path)}. Move it away and run: {get}"
        found = md5(path)
        wanted = declared(config)[name]
        if found == wanted:
            return None
        reason = f"md5 {found[:4]}… instead of {wanted[:4]}…{looks_like(path)}"
        return f"{shown(path)} is damaged ({reason}). Delete it and run: {get}"
    except (FileNotFoundError, NotADirectoryError):
        # "Bring it" alone would not tell why a file that `ls` shows is missing.
        link = f" (a link to {os.readlink(path)}, which does not exist)" if path.is_symlink() else ""
        size = f" ({config['declares']['megabytes']} MB)" if "megabytes" in config["declares"] else ""
        return (
            f"{title(config)} is not in {shown(root)}: {path.name} is missing{link}. "
            f"Bring it with: {get}{size}, or point NORMBENCH_DATA at it."
        )
    except OSError as error:
        return (
            f"{shown(path)} cannot be read: {error.strerror or error}. "
            f"Make it readable, or point NORMBENCH_DATA at another copy."
        )


def md5(path: Path) -> str:
    """The md5 of a file, in hex; OSError as `open` and `read` raise it."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def looks_like(path: Path) -> str:
    """A hint why a file's md5 is wrong, such as '; it is an HTML page', or '' when nothing can be said."""
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        return "; it is empty"
    if start.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "; it is an HTML page"
    if ".gz" not in path.suffixes:
        return ""
    try:
        with gzip.open(path) as packed:
            while packed.read(CHUNK):
                pass
    except gzip.BadGzipFile:
        return "" if start.startswith(b"\x1f\x8b") else "; it is not a gzip file"
    except EOFError:
        return f"; it breaks off after {path.stat().st_size} bytes"
    except zlib.error:
        pass
    return ""


def _kind(path: Path) -> str:
    return "folder" if path.is_dir() else "device or pipe"
