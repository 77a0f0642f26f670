"""Bring the files of a data set from its mirrors: only when asked, and never half a file under the final name."""

from __future__ import annotations

import fcntl
import http
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from normbench.data import files, folder, module
from normbench.errors import NormbenchError

# Called with the file's name, the bytes that are here, and the bytes in all where the server says so.
Progress = Callable[[str, int, int | None], None]

# How often one mirror is asked for a file whose download breaks off.
_ATTEMPTS = 5


class _MirrorFailed(Exception):
    """Why a mirror did not bring the file; `again` when asking it once more can get further."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


def get(
    config: Mapping[str, Any],
    root: Path | None = None,
    *,
    mirrors: Sequence[str] | None = None,
    timeout: float = 20.0,
    progress: Progress | None = None,
) -> list[Path]:
    """Bring the set's missing and damaged files; returns those brought. NormbenchError when one cannot be had or kept.

    `mirrors`: addresses ending with a slash, tried in turn; by default the set's own. `timeout`: seconds without an
    answer or a byte, after which a mirror is left. An interrupted download is continued by the next call.
    """
    root = folder(root)
    wanted = files.declared(config)
    if not any(files.problem(config, root, name) for name in wanted):
        return []
    order = list(module(config).mirrors() if mirrors is None else mirrors)
    brought = []
    try:
        for name, md5 in wanted.items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with _lock(target.parent / ".normbench.lock"):
                # Asked again: another process may have brought it while this one waited.
                if not (line := files.problem(config, root, name)):
                    continue
                if target.exists() and not target.is_file():
                    raise NormbenchError(line)
                _bring(target, md5, order, timeout, _limit(config), progress or (lambda *_: None))
                brought.append(target)
    except OSError as error:
        # The network's errors are _MirrorFailed; what is left is the disk.
        raise NormbenchError(
            f"{files.title(config)} cannot be written to {files.shown(root)}: {error.strerror or error}. "
            f"Make room or point NORMBENCH_DATA at a folder that you can write to."
        ) from error
    return brought


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _limit(config: Mapping[str, Any]) -> int:
    """Bytes that no file of the set can have: a server that sends without end must not fill the disk."""
    return 2_000_000 * int(config["declares"].get("megabytes", 1000))


def _bring(target: Path, md5: str, order: list[str], timeout: float, limit: int, progress: Progress) -> None:
    """Put the right file at `target` from the first mirror of `order` that has it, which then moves to the front."""
    part = target.with_name(target.name + ".part")
    tried = []
    for mirror in list(order):
        try:
            _from_mirror(mirror + target.name, part, md5, timeout, limit, lambda *p: progress(target.name, *p))
        except _MirrorFailed as error:
            tried.append(f"{mirror}: {error}")
            continue
        os.replace(part, target)
        order.remove(mirror)
        order.insert(0, mirror)
        return
    raise NormbenchError(
        f"{target.name} could not be brought ({'; '.join(tried) or 'no mirrors'}). "
        f"Try again later, or bring it by hand: place it at {files.shown(target)} (md5 {md5})."
    )


def _from_mirror(
    url: str, part: Path, md5: str, timeout: float, limit: int, progress: Callable[[int, int | None], None]
) -> None:
    """Complete `part`, whose md5 is then right; else _MirrorFailed, keeping what can be continued."""
    for left in reversed(range(_ATTEMPTS)):
        start = part.stat().st_size if part.exists() else 0
        # Already whole when a process was killed just before the rename.
        if start and files.md5(part) == md5:
            return
        try:
            _download(url, part, start, timeout, limit, progress)
            found = files.md5(part)
            if found == md5:
                return
            hint = files.looks_like(part).replace("; it", ", it")
            part.unlink()
            # The first bytes may be another mirror's, and bad: this one deserves a whole download.
            raise _MirrorFailed(f"wrong md5 {found[:4]}…{hint}", again=start > 0)
        except _MirrorFailed as error:
            if not (error.again and left):
                raise


def _download(
    url: str, part: Path, start: int, timeout: float, limit: int, progress: Callable[[int, int | None], None]
) -> None:
    """Write what the server sends from byte `start` on to the end of `part`, or all anew if it ignores the range."""
    headers = {"User-Agent": "normbench"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            # `part` is longer than the file, so it is not its beginning.
            part.unlink()
            raise _MirrorFailed("it refused the range", again=True) from error
        raise _MirrorFailed(f"HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _MirrorFailed(_reason(error, timeout)) from error
    with response:
        ranged = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if ranged and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise _MirrorFailed("it sent another range than the one asked for")
        first = done = start if ranged else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else None
        with part.open("ab" if ranged else "wb") as out:
            while block := _block(response, timeout, again=done > first):
                out.write(block)
                done += len(block)
                if done > limit:
                    out.truncate(0)
                    raise _MirrorFailed(f"it sent more than {limit} bytes")
                progress(done, total)
            out.flush()
            os.fsync(out.fileno())
    # http.client reports a short body only when the server sends it in chunks.
    if total is not None and done < total:
        raise _MirrorFailed(f"it broke off after {done} of {total} bytes", again=done > first)


def _block(response: http.client.HTTPResponse, timeout: float, again: bool) -> bytes:
    # Apart from the writing, so that an OSError of the network is not taken for one of the disk.
    try:
        return response.read1(files.CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _MirrorFailed(_reason(error, timeout), again) from error


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer for {timeout:g} s"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
