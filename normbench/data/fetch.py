"""Downloads the files of a data set from its mirrors; the final name never has an incomplete file."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench import durable
from normbench.data import files, folder, module, prepare
from normbench.errors import NormbenchError, code_of

# Called with the file's name, the bytes that are here, and the bytes in all where the server says so.
Progress = Callable[[str, int, int | None], None]

# How often one mirror is asked for a file whose download breaks off.
_ATTEMPTS = 5
# Bytes per second, mean over the download: a slower mirror is left.
_SLOWEST = 1000
# Seconds that another process, which may be bringing the same set, is waited for.
_LONGEST = 600.0


class _NetworkFailed(Exception):
    """Why there is no answer, or no more of it."""


class _MirrorFailed(Exception):
    """The reason why a mirror failed; `again` if another try can get further."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


@dataclass
class _Mirrors:
    """The mirrors of a set in the order of asking, and how to ask; a mirror that served moves to the front."""

    order: list[str]
    timeout: float
    limit: int
    progress: Progress
    waiting: Callable[[str], None] | None


def get(
    config: Mapping[str, Any],
    root: Path | None = None,
    *,
    mirrors: Sequence[str] | None = None,
    timeout: float = 20.0,
    progress: Progress | None = None,
    waiting: Callable[[str], None] | None = None,
) -> list[Path]:
    """Bring the set's missing and damaged files; returns those brought. NormbenchError when one cannot be had or kept.

    `mirrors`: addresses to which a file's name is added, tried in turn; by default the set's own. `timeout`: seconds
    without an answer or a byte, after which a mirror is left. `waiting` is called with the
    process that this one waits for.
    An interrupted download is continued by the next call.
    A set that declares `sources` is prepared from these: all its files anew, as soon as one is missing or damaged.
    """
    root = folder(root)
    if not any(files.problem(config, root, name) for name in files.declared(config)):
        _tidy(config, root)
        return []
    given = config["declares"].get("sources")
    if mirrors is None:
        mirrors = given.get("mirrors", []) if given else module(config).mirrors()
    # No file of the set can have so many bytes: a server that sends without end must not fill the disk.
    limit = 2_000_000 * (files.megabytes(config) or 1000)
    servers = _Mirrors(list(mirrors), timeout, limit, progress or (lambda *_: None), waiting)
    try:
        return _direct(config, root, servers) if given is None else _prepared(config, root, servers)
    except OSError as error:
        # The network's errors are _MirrorFailed; what is left is the disk.
        raise NormbenchError(
            f"{files.title(config)} cannot be written to {files.as_text(root)}: {error.strerror or error}. "
            f"Make room or point NORMBENCH_DATA at a folder that you can write to.",
            code_of(error),
        ) from error


def _tidy(config: Mapping[str, Any], root: Path) -> None:
    """Remove what a killed call left of a complete set: parts and sources, but not the files that a user brought."""
    given, sources = config["declares"].get("sources") or {}, files.sources(config, root)
    left = [(root / name).with_name(f"{Path(name).name}.part") for name in files.declared(config)]
    if given:
        own = "register" in given
        left += [sources / f"{name}{end}" for name in given["files"] for end in (".part", *([] if own else [""]))]
        left.append(sources / prepare.ASIDE)
    with contextlib.suppress(OSError):  # of a read-only place nothing is removed
        for path in left:
            if path.exists():
                with files.filling(path.parent, _LONGEST):
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _direct(config: Mapping[str, Any], root: Path, mirrors: _Mirrors) -> list[Path]:
    """Bring the files that the set consists of."""
    brought = []
    for name, wanted in files.declared(config).items():
        target = root / name
        with files.filling(target.parent, _LONGEST, mirrors.waiting):
            # Asked again: another process may have brought it while this one waited.
            if not (line := files.problem(config, root, name)):
                continue
            if target.exists() and (not target.is_file() or files.is_another(config, target, name)):
                raise NormbenchError(line)
            _bring(target, wanted, mirrors)
            brought.append(target)
    return brought


def _prepared(config: Mapping[str, Any], root: Path, mirrors: _Mirrors) -> list[Path]:
    """Bring the sources of the set and prepare it; then delete the sources, but not the files that a user brought."""
    given, sources = config["declares"]["sources"]["files"], files.sources(config, root)
    register = files.registration(config, root)
    if register and (absent := [name for name in given if not files.find(sources, name).is_file()]):
        raise NormbenchError(f"{register} ({' and '.join(absent)} missing)")
    with files.filling(sources, _LONGEST, mirrors.waiting):
        problems = {name: line for name in files.declared(config) if (line := files.problem(config, root, name))}
        if not problems:
            return []
        for name, line in problems.items():
            if (root / name).exists() and not (root / name).is_file():
                raise NormbenchError(line)
        if register:
            return prepare.run(config, root)
        for name, wanted in given.items():
            target = sources / name
            if not (target.is_file() and files.same(config["declares"]["sources"], target, name)):
                _bring(target, wanted, mirrors)
        made = prepare.run(config, root)
        for name in given:
            (sources / name).unlink(missing_ok=True)
        return made


def _bring(target: Path, wanted: str, mirrors: _Mirrors) -> None:
    """Put the right file at `target` from the first of the mirrors that has it, which then moves to the front."""
    part = target.with_name(target.name + ".part")
    tried = []
    for mirror in list(mirrors.order):
        try:
            _from_mirror(mirror + target.name, part, wanted, mirrors)
        except _MirrorFailed as error:
            tried.append(f"{mirror}: {error}")
            continue
        durable.replace(part, target)
        mirrors.order.remove(mirror)
        mirrors.order.insert(0, mirror)
        return
    raise NormbenchError(
        f"{target.name} could not be brought ({'; '.join(tried) or 'no mirrors'}). Try again later, or bring it by "
        f"hand: place it at {files.as_text(target)} ({files.algorithm(wanted)} {wanted})."
    )


def _from_mirror(url: str, part: Path, wanted: str, mirrors: _Mirrors) -> None:
    """Complete `part`, whose checksum is then right; else _MirrorFailed, keeping what can be continued."""
    kind, name = files.algorithm(wanted), part.name.removesuffix(".part")
    for left in reversed(range(_ATTEMPTS)):
        start = part.stat().st_size if part.exists() else 0
        # Already whole when a process was killed just before the rename.
        if start and files.digest(part, kind) == wanted:
            return
        try:
            _download(url, part, start, mirrors.timeout, mirrors.limit, lambda *p: mirrors.progress(name, *p))
            found = files.digest(part, kind)
            if found == wanted:
                return
            hint = files.looks_like(part).replace("; it", ", it")
            part.unlink()
            # The first bytes may be another mirror's, and bad: this one deserves a whole download.
            raise _MirrorFailed(f"wrong {kind} {found[:4]}…{hint}", again=start > 0)
        except _MirrorFailed as error:
            if not (error.again and left):
                raise


def _download(
    url: str, part: Path, start: int, timeout: float, limit: int, progress: Callable[[int, int | None], None]
) -> None:
    """Write what the server sends from byte `start` on to the end of `part`, or all anew if it ignores the range."""
    headers = {"User-Agent": "normbench"} | ({"Range": f"bytes={start}-"} if start else {})
    first = done = 0
    began = time.monotonic()
    try:
        request = _network(timeout, urllib.request.Request, url, None, headers)
        with _network(timeout, urllib.request.urlopen, request, None, timeout) as answer:
            ranged = answer.status == http.HTTPStatus.PARTIAL_CONTENT
            if ranged and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise _MirrorFailed("it sent another range than the one asked for")
            first = done = start if ranged else 0
            length = answer.headers.get("Content-Length", "")
            total = done + int(length) if re.fullmatch(r"[0-9]{1,15}", length) else None
            with part.open("ab" if ranged else "wb") as out:
                while block := _network(timeout, answer.read1, files.CHUNK):
                    out.write(block)
                    done += len(block)
                    if done > limit:
                        out.truncate(0)
                        raise _MirrorFailed(f"it sent more than {limit} bytes")
                    if (seconds := time.monotonic() - began) > 3 * timeout and done - first < _SLOWEST * seconds:
                        raise _MirrorFailed(f"less than {_SLOWEST} bytes per second", again=done > first)
                    progress(done, total)
                out.flush()
                os.fsync(out.fileno())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            # `part` is longer than the file, so it is not its beginning.
            part.unlink()
            raise _MirrorFailed("it refused the range", again=True) from error
        raise _MirrorFailed(f"HTTP {error.code} {error.reason}") from error
    except _NetworkFailed as error:
        raise _MirrorFailed(str(error), again=done > first) from error
    # http.client reports a short body only when the server sends it in chunks.
    if total is not None and done < total:
        raise _MirrorFailed(f"it broke off after {done} of {total} bytes", again=done > first)


def _network(timeout: float, call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call to the network; its errors become _NetworkFailed, to tell them from those of the disk."""
    try:
        return call(*arguments)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: no address
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            raise _NetworkFailed(f"no answer for {timeout:g} s") from error
        strerror = cause.strerror if isinstance(cause, OSError) else ""
        raise _NetworkFailed(strerror or str(cause) or type(cause).__name__) from error
