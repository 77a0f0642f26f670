"""Brings the files of a data set: from its mirrors, or made from the sources that its mirrors or its user have.

The final name never has an incomplete file; an interrupted download is continued by the next call.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from normbench.data import content, files, folder, function
from normbench.errors import BadInput, class_of
from normbench.files import durable

# Called with the file's name, the bytes that are here, and the bytes in all where the server says so.
Progress = Callable[[str, int, int | None], None]
SLOWEST = 1000  # bytes per second: a slower mirror is left
LONGEST = 600.0  # seconds that another process, which may be bringing the same set, is waited for
ASIDE = "prepared"  # below a set's sources: unfinished files


def get(
    config: Mapping[str, Any],
    root: Path | None = None,
    *,
    mirrors: Sequence[str] | None = None,
    timeout: float = 20.0,
    deadline: float = 6 * 3600.0,
    progress: Progress = lambda *_: None,
    waiting: Callable[[str], None] | None = None,
) -> list[Path]:
    """Bring the missing and damaged files; returns those brought. NormbenchError if one cannot be brought or stored.

    `mirrors`: addresses to which a file's name is added, tried in turn; by default the set's own. `timeout`: seconds
    without an answer or a byte, after which a mirror is left; `deadline`: seconds for everything. `waiting` is called
    with the process that this one waits for.
    A set that declares `sources` is prepared from these: all its files anew, as soon as one is missing or damaged.
    """
    root = folder(root)
    declares, wanted = config["declares"], files.declared(config)
    if not any(files.problem(config, root, name) for name in wanted):
        _tidy(config, root)
        return []
    given = declares.get("sources")
    if mirrors is None:
        mirrors = (given or declares).get("mirrors", [])
    # No file of the set can have so many bytes: a server that sends without end must not fill the disk.
    limit = int(2_000_000 * (files.megabytes(config) or 1000))
    servers = _Servers(list(mirrors), timeout, time.monotonic() + deadline, limit, progress)
    place = files.sources(config, root) if given else (root / next(iter(wanted))).parent
    owned = given["files"] if given and "register" in given else []
    if absent := [name for name in owned if not files.find(place, name).is_file()]:
        remedy = files.remedy(config, root, next(iter(wanted)))
        raise BadInput(f"{remedy} ({' and '.join(absent)} missing)")
    try:
        with files.filling(place, LONGEST, waiting):
            # Asked again: another process may have brought it while this one waited.
            wrong = [name for name in wanted if files.problem(config, root, name)]
            for name in wrong:
                if (root / name).exists() and files.is_users(config, root / name, name):
                    raise BadInput(str(files.problem(config, root, name)))
            if wrong and given:
                return _prepared(config, root, place, servers)
            for name in wrong:
                servers.bring(root / name, wanted[name])
            return [root / name for name in wrong]
    except OSError as error:
        # The network's errors do not come here; what is left is the disk.
        raise class_of(error)(
            f"{files.title(config)} cannot be written to {files.as_text(root)}: {error.strerror or error}. "
            f"Make room or point NORMBENCH_DATA at a folder that you can write to."
        ) from error


def _tidy(config: Mapping[str, Any], root: Path) -> None:
    """Remove what a killed call left of a whole set: parts and sources, but not the files that a user brought."""
    given, place = config["declares"].get("sources"), files.sources(config, root)
    brought = [place / name for name in given["files"]] if given else [root / name for name in files.declared(config)]
    left = [place / ASIDE, *(path.with_name(f"{path.name}.part") for path in brought)]
    left += brought if given and "register" not in given else []
    with contextlib.suppress(OSError):  # of a read-only place nothing is removed
        for path in filter(Path.exists, left):
            with files.filling(path.parent, LONGEST):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@dataclass
class _Servers:
    """The mirrors of a set in the order of asking, and how to ask; a mirror that served moves to the front."""

    mirrors: list[str]
    timeout: float
    until: float
    limit: int
    progress: Progress

    def bring(self, target: Path, wanted: str) -> None:
        """Put the right file at `target`. While a round of the mirrors makes it grow, there is another one."""
        import requests
        import urllib3

        target.parent.mkdir(parents=True, exist_ok=True)
        part, failed, grows = target.with_name(f"{target.name}.part"), dict[str, str](), True
        while grows:
            size, began = _size(part), time.monotonic()
            for mirror in list(self.mirrors):
                try:
                    self._complete(part, mirror + target.name, wanted)
                except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
                    failed[mirror] = _reason(error)
                    continue
                durable.replace(part, target)
                self.mirrors.sort(key=mirror.__ne__)
                return
            grows = _size(part) - size > SLOWEST * (time.monotonic() - began)
        tried = "; ".join(f"{mirror}: {reason}" for mirror, reason in failed.items()) or "no mirrors"
        raise BadInput(
            f"{target.name} could not be brought ({tried}). Try again later, or bring it by hand: place it at "
            f"{files.as_text(target)} ({files.algorithm(wanted)} {wanted})."
        )

    def _complete(self, part: Path, url: str, wanted: str) -> None:
        """Go on with `part`; begin anew where what is there turns out to be no beginning of the file."""
        import pooch
        import requests

        kind = files.algorithm(wanted)
        while True:
            if (start := _size(part)) and pooch.file_hash(str(part), kind) == wanted:
                return  # a process was killed just before the rename
            headers = {"User-Agent": "normbench", "Accept-Encoding": "identity"}
            headers |= {"Range": f"bytes={start}-"} if start else {}
            try:
                with part.open("ab") as out:
                    watch = _Watch(self, out, part.name.removesuffix(".part"), start)
                    hooks = {"response": watch.answered}
                    ask = pooch.HTTPDownloader(watch, 1 << 16, headers=headers, timeout=self.timeout, hooks=hooks)
                    ask(url, out, None)
            except requests.HTTPError as error:
                if not start or error.response is None or error.response.status_code != 416:  # no such range
                    raise
            found = pooch.file_hash(str(part), kind)
            if found == wanted:
                return
            hint = files.looks_like(part).replace("; it", ", it")
            part.unlink()
            if not start:
                raise ValueError(f"wrong {kind} {found[:4]}…{hint}")


@dataclass
class _Watch:
    """pooch's progress bar, which ends a download that is another one, too large, too slow or too late."""

    servers: _Servers
    out: BinaryIO
    name: str
    start: int
    total: int = 0  # set by pooch: what the server is going to send, 0 where it does not say

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    def answered(self, answer: Any, **_: object) -> None:
        """Begin anew where the server ignores the range; `requests` calls this before the first byte is read."""
        import requests

        given, asked = answer.headers.get("Content-Range", ""), f"bytes {self.start}-"
        if answer.status_code == requests.codes.partial_content and not given.startswith(asked):
            raise requests.RequestException("it sent another range than the one asked for")
        if answer.status_code == requests.codes.ok:
            self.out.truncate(0)
            self.start = 0
        # What has come rather than whole chunks, for which a slow mirror would let `update` wait for hours.
        answer.iter_content = lambda chunk_size: iter(lambda: answer.raw.read1(chunk_size), b"")

    def update(self, count: int) -> None:
        import requests

        done, now = self.out.tell(), time.monotonic()
        if done > self.servers.limit:
            self.out.truncate(0)
            raise requests.RequestException(f"it sent more than {self.servers.limit} bytes")
        if now > self.servers.until:
            raise BadInput(f"{self.name} took too long. Repeat the command: it goes on where it was.")
        if now - self.began > 3 * self.servers.timeout and done - self.start < SLOWEST * (now - self.began):
            raise requests.Timeout(f"less than {SLOWEST} bytes per second")
        self.servers.progress(self.name, done, self.start + self.total if self.total > 0 else None)

    def reset(self) -> None:
        """pooch calls it at the end."""

    def close(self) -> None:
        os.fsync(self.out.fileno())


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _reason(error: BaseException) -> str:
    """Of an exception the words of the one at its bottom, in one line: Connection refused."""
    while bottom := error.__cause__ or error.__context__:
        error = bottom
    return " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())


# --- from sources -----------------------------------------------------------------------------------------------------


def _prepared(config: Mapping[str, Any], root: Path, sources: Path, servers: _Servers) -> list[Path]:
    """Bring the sources of the set and prepare it; then delete the sources, but not the files that a user brought."""
    given, name = config["declares"]["sources"], str(config["name"])
    owned = "register" in given
    for source, wanted in given["files"].items() if not owned else ():
        if not ((sources / source).is_file() and files.same(given, sources / source, source)):
            servers.bring(sources / source, wanted)
    aside = sources / ASIDE
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        found = function(config, "prepare_")(sources, aside, config["declares"])
        differing = list(_differing(config, aside))
        # Without a published checksum, what the owners hand out is right, and only said to differ.
        if differing and not owned:
            raise ValueError(f"{', '.join(differing)} would not have the declared content")
        _install(config, root, aside, f"{found}; not the declared copy" if differing else "")
    except ValueError as error:
        raise BadInput(
            f"{files.title(config)} cannot be prepared from the files in {files.as_text(sources)}: {error}. "
            f"Replace what is wrong there and run: normbench data get {name}"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for source in given["files"] if not owned else ():
        (sources / source).unlink(missing_ok=True)
    return [root / file for file in files.declared(config)]


def _differing(config: Mapping[str, Any], aside: Path) -> Iterator[str]:
    """The prepared files that have other content than declared; one without a sum is verified by who prepares it."""
    for file in files.declared(config):
        wanted = content.declared(config["declares"], file)
        if wanted is not None and content.of(aside / file) != wanted:
            yield file


def _install(config: Mapping[str, Any], root: Path, aside: Path, remark: str) -> None:
    wanted = files.declared(config)
    sums = {file: files.digest(aside / file) for file in wanted}
    record = files.record_path(config, root)
    record.parent.mkdir(parents=True, exist_ok=True)
    # Out with all that was there, so that a kill between the renames leaves missing files, never a mixture of copies.
    for path in (*(root / file for file in wanted), record):
        path.unlink(missing_ok=True)
    if sums != wanted:
        made = {"basis": files.basis(config), "remark": remark, "files": sums}
        (aside / record.name).write_text(json.dumps(made, indent=1))
        _move(aside / record.name, record)
    for file in wanted:
        _move(aside / file, root / file)


def _move(source: Path, target: Path) -> None:
    """By a copy: the target may be on another disk, as when the set's folder is a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    shutil.copyfile(source, part)
    durable.replace(part, target)
