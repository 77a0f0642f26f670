"""The files of a data set on disk: where they are, whether they are the declared ones, and arrays made of them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normbench.data import content
from normbench.errors import BadInput, class_of
from normbench.files import reading, scratch

if TYPE_CHECKING:
    import numpy as np

Config = Mapping[str, Any]
Arrays = dict[str, "np.ndarray"]
TIMEOUT = 20.0  # seconds without an answer or a byte, after which the next address is asked


def declared(config: Config, root: Path) -> dict[str, list[str]]:
    """Path below the data folder -> md5 or sha256 that its file may have; without any where none is known.

    Of a set that is fetched in other files than published runs have read, those of the two that are there.
    """
    files, public = config["declares"].get("files") or {}, _public(config)
    names = public if public and not all(os.path.isfile(root / name) for name in files) else files
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


def by_number(name: Path | str) -> list[Any]:
    """A key that sorts names by the numbers in them: p2 before p10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(name))]


def listed(config: Config, root: Path, name: str) -> list[Path]:
    """The set's files in a declared folder, in the order of their names.

    NormbenchError for one that is no file: to open a pipe would wait for ever.
    """
    files = []
    with os.scandir(root / name) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.lower().endswith(folders(config)[name]) and not entry.name.startswith("."):
                if not entry.is_file():
                    raise BadInput(f"{as_text(Path(entry.path))} is not a file. Move it away.")
                files.append(Path(entry.path))
    return files


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


# --- are they the declared ones? --------------------------------------------------------------------------------------


def problems(config: Config, root: Path) -> list[str]:
    """One line per missing or damaged file, or empty folder; empty where all have the declared sums, or their content
    together that of the set: numpy and pyarrow write the same content in other bytes.
    """
    names = {**dict.fromkeys(folders(config), ()), **declared(config, root)}
    lines = [line for name, sums in names.items() if (line := _problem(config, root, name, sums))]
    return [] if lines and _has_declared_content(config, root) else lines


def _has_declared_content(config: Config, root: Path) -> bool:
    files = paths(config, root)
    if not all(map(os.path.isfile, files)):  # to open a pipe would wait for ever
        return False
    try:
        return content.checksum(list(map(content.of, files))) == config["declares"].get("sha256")
    except (OSError, ValueError):
        return False


def _problem(config: Config, root: Path, name: str, sums: Sequence[str]) -> str:
    """The error line for a file or folder of the set; "" where it has one of these sums, or is whole without one."""
    declares, path, ending = config["declares"], root / name, folders(config).get(name)
    absent, repair = f"{title(config)} is not in {as_text(root)}", remedy(config, root, name)
    try:
        if ending:
            if listed(config, root, name):
                return ""
            raise FileNotFoundError
        if not stat.S_ISREG(path.stat().st_mode):  # first, because opening a pipe would block
            kind = "folder" if path.is_dir() else "device or pipe"
            return f"{as_text(path)} is not a file but a {kind}. Move it away. {repair}."
        if not sums:
            if "like" in declares:
                content.of_unchanged(path)
            return ""
        given = {kind: digest(path, kind) for kind in map(algorithm, sums)}
        if set(sums) & set(given.values()):
            return ""
        kind = algorithm(sums[0])
        if {"like", "file"} & declares.keys():
            return (
                f"{as_text(path)} has {kind} {given[kind]}, declares.files of data={config['name']} has {sums[0]}. "
                "Place that file there, or declare the sum of this one."
            )
        reason = f"{kind} {given[kind][:4]}… instead of {sums[0][:4]}…"
    except (FileNotFoundError, NotADirectoryError):
        # `ls` lists a dead link: say so.
        link = f" (a link to {os.readlink(path)}, which does not exist)" if path.is_symlink() else ""
        lacks = f"{name} has no {ending} files" if ending else f"{path.name} is missing"
        return f"{absent}: {lacks}{link}. {repair}, or point NORMBENCH_DATA at it."
    except OSError as error:
        why = error.strerror or error
        return f"{as_text(path)} cannot be read: {why}. Make it readable, or point NORMBENCH_DATA at another copy."
    except ValueError as error:
        reason = str(error)
    source = f"; if another program packed it, set data.source={as_text(path.parent)}" if "source" in config else ""
    return (
        f"{as_text(path)} is damaged, or of another set ({reason}{_looks_like(path)}). Move it away, or point "
        f"NORMBENCH_DATA at another copy{source}. {repair}."
    )


def _looks_like(path: Path) -> str:
    """A hint why a file is wrong, such as '; it is an HTML page', or '' where nothing can be said."""
    with path.open("rb") as file:
        start = file.read(512).lstrip().lower()
    is_page = start.startswith((b"<!doctype html", b"<html"))
    return "; it is an HTML page" if is_page else "" if start else "; it is empty"


def algorithm(checksum: str) -> str:
    """Which checksum this is, by its length."""
    return "md5" if len(checksum) == 32 else "sha256"


def digest(path: Path, kind: str = "sha256") -> str:
    """The `md5` or `sha256` of a file, in hex; OSError as `open` and `read` raise it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


# --- from the network -------------------------------------------------------------------------------------------------


def fetch(config: Config, root: Path) -> Iterator[Path]:
    """Download the set's missing files one by one; a place that fails is followed by the next one.

    A file that is there is left, whatever it is. NormbenchError if one cannot be fetched or stored.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    for name, checksum in _public(config).items():
        path, kind, failed = root / name, algorithm(checksum), []
        if os.path.lexists(path):
            continue
        for address in config["declares"]["fetch"]["from"]:
            ask = pooch.HTTPDownloader(timeout=TIMEOUT)
            try:
                pooch.retrieve(address + path.name, f"{kind}:{checksum}", path.name, path.parent, downloader=ask)
                break
            except (requests.RequestException, ValueError) as error:  # ValueError: another file than the declared one
                failed.append(f"{address}: {_reason(error)}")
            except OSError as error:
                raise class_of(error)(
                    f"{title(config)} cannot be written to {as_text(root)}: {error.strerror or error}. Make room or "
                    "point NORMBENCH_DATA at a folder that you can write to."
                ) from error
        else:
            raise BadInput(
                f"{path.name} could not be fetched ({'; '.join(failed)}). Try again later, or place it at "
                f"{as_text(path)} by hand ({kind} {checksum})."
            )
        yield path


def _reason(error: BaseException) -> str:
    """Of an exception the words of the one at its bottom, in one line: Connection refused."""
    while bottom := error.__cause__ or error.__context__:
        error = bottom
    return " ".join((getattr(error, "strerror", None) or str(error)).split())


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
    target = cache(name) / f"{content.checksum([stamps, config['declares'].get('maths'), facts])[:32]}.npz"
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
