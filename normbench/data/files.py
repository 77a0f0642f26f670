"""The files of a data set: where they lie below the data folder, whether they are the declared ones, how they come."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normbench.errors import BadInput
from normbench.files import reading, scratch

if TYPE_CHECKING:
    import numpy as np

Config = Mapping[str, Any]
Arrays = dict[str, "np.ndarray"]
TIMEOUT = 20.0  # seconds without an answer or a byte, after which the next address is asked
GZIP = b"\x1f\x8b"
ELSEWHERE = "point NORMBENCH_DATA at another folder"


def declared(config: Config, root: Path) -> dict[str, list[str]]:
    """Path below the data folder -> md5 or sha256 that its file may have; without any where none is known.

    Of a set that is fetched in other files than published runs have read, those of the two that are there.
    """
    files, public = config["declares"].get("files") or {}, _public(config)
    names = public if public and not all((root / name).is_file() for name in files) else files
    return {name: list(filter(None, (files.get(name), public.get(name)))) for name in names}


def _public(config: Config) -> dict[str, str]:
    """The files that can be fetched, and the sum of each."""
    return dict((config["declares"].get("fetch") or {}).get("files") or {})


def remark(config: Config, root: Path) -> str:
    """What the set declares of the files that published runs have read, where these are there, or ""."""
    known = declared(config, root).keys() == (config["declares"].get("files") or {}).keys()
    return str(config["declares"].get("remark", "")) if known else ""


def folders(config: Config) -> dict[str, str]:
    """Folder below the data folder that the user fills -> how the names of its files end."""
    return dict(config["declares"].get("folders") or {})


def paths(config: Config, root: Path) -> list[Path]:
    """Where the declared files are."""
    return [root / name for name in declared(config, root)]


def listed(config: Config, root: Path, name: str) -> list[Path]:
    """The set's files in a declared folder, in the order of their names."""
    return sorted((root / name).glob(f"*{folders(config)[name]}"))


def title(config: Config) -> str:
    """The set's name as the error lines write it: MNIST."""
    return str(config["name"]).upper()


def as_text(path: Path) -> str:
    """The path as a user would type it; a relative one starts with ./"""
    text = str(path)
    return text if path.is_absolute() or text.startswith(".") else f".{os.sep}{text}"


def remedy(config: Config, root: Path, name: str) -> str:
    """How to bring this file or folder of the set, without a full stop."""
    declares = config["declares"]
    if "fetch" in declares:
        size = f" ({declares['megabytes']} MB)" if "megabytes" in declares else ""
        return f"Bring it with: normbench data get {config['name']}{size}"
    if "bring" in declares:
        return f"Place at {as_text(root / name)} what only you can bring: {declares['bring']}"
    return f"Place it at {as_text(root / name)}"


def problems(config: Config, root: Path) -> list[str]:
    """One line per file that is missing or not the declared one, and per folder without files."""
    lines, absent = [], f"{title(config)} is not in {as_text(root)}"
    for name, ending in folders(config).items():
        if not listed(config, root, name):
            lines.append(f"{absent}: {name} has no {ending} files. {remedy(config, root, name)}, or {ELSEWHERE}.")
    for name, sums in declared(config, root).items():
        path = root / name
        if not path.is_file():
            lines.append(f"{absent}: {path.name} is missing. {remedy(config, root, name)}, or {ELSEWHERE}.")
        elif sums and (kind := algorithm(sums[0])) and (given := digest(path, kind)) not in sums:
            lines.append(
                f"{as_text(path)} is damaged, or of another set: its {kind} is {given} instead of {sums[0]}. Move "
                f"it away, or {ELSEWHERE}. {remedy(config, root, name)}."
            )
    return lines


def algorithm(checksum: str) -> str:
    """Which checksum this is, by its length."""
    return "md5" if len(checksum) == 32 else "sha256"


def digest(path: Path, kind: str = "sha256") -> str:
    """The `md5` or `sha256` of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def unpacked(path: Path) -> bytes:
    """The bytes of a file that may be packed by gzip; NormbenchError for one that is not whole."""
    body = path.read_bytes()
    try:
        return gzip.decompress(body) if body.startswith(GZIP) else body
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{as_text(path)} is no whole gzip file: {error}.") from error


def unpacked_digest(path: Path) -> str:
    """The sha256 of a file's unpacked bytes, taken once for a file of this size and time."""
    status = path.stat()
    return _unpacked_digest(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache
def _unpacked_digest(path: Path, size: int, time: int) -> str:
    return hashlib.sha256(unpacked(path)).hexdigest()


def checksum(sums: Any) -> str:
    """One sha256 of all these sums."""
    return hashlib.sha256(json.dumps(sums, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- from the network -------------------------------------------------------------------------------------------------


def fetch(config: Config, root: Path) -> Iterator[Path]:
    """Download the set's missing files one by one; a place that fails is followed by the next one.

    A file that is there is left, whatever it is. NormbenchError if one cannot be fetched.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    for name, known in _public(config).items():
        path, kind, failed = root / name, algorithm(known), []
        if os.path.lexists(path):
            continue
        for address in config["declares"]["fetch"]["from"]:
            downloader = pooch.HTTPDownloader(timeout=TIMEOUT)
            try:
                pooch.retrieve(address + path.name, f"{kind}:{known}", path.name, path.parent, downloader=downloader)
                break
            except (requests.RequestException, ValueError) as error:  # ValueError: another file than the declared one
                failed.append(f"{address}: {error}")
        else:
            raise BadInput(
                f"{path.name} could not be fetched ({'; '.join(failed)}). Try again later, or place it at "
                f"{as_text(path)} by hand ({kind} {known})."
            )
        yield path


# --- arrays that take long to make ------------------------------------------------------------------------------------


def cache(name: str) -> Path:
    """The folder of a set's cache: $XDG_CACHE_HOME/normbench/NAME, else ~/.cache/normbench/NAME."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rule: a relative path is to be ignored.
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~/.cache"))
    return base / "normbench" / name


def cached(
    config: Config, of: Sequence[Path], facts: Any, make: Callable[[], Arrays]
) -> tuple[Arrays, tuple[str, ...]]:
    """The arrays that `make` makes of the files `of` by `facts`, from the set's cache if they have been made before.

    They are kept under the files' names, sizes and times. The second value has a line for the user where they cannot
    be kept.
    """
    import numpy as np

    name = str(config["name"])
    stamps = [(str(path.absolute()), (status := path.stat()).st_size, status.st_mtime_ns) for path in of]
    target = cache(name) / f"{checksum([stamps, config['declares'].get('maths'), facts])[:32]}.npz"
    try:
        # numpy checks the CRC-32 of every array as it reads.
        with np.load(target, allow_pickle=False) as arrays:
            return dict(arrays), ()
    except reading.NO_ARCHIVE:
        pass  # not there yet, or damaged
    made = make()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A private name, then a rename: processes that do this at once all end with a whole file.
        with scratch.folder(f".{target.name}-", target.parent) as aside:
            np.savez(aside / target.name, **made)  # type: ignore[arg-type]  # its stub takes the names for allow_pickle's
            os.replace(aside / target.name, target)
    except OSError as error:
        reason = error.strerror or error
        return made, (f"{target.parent} cannot be used ({reason}); data={name} is made anew for every process.",)
    return made, ()
