"""The files of a data set on disk: where they are, and the error line for one that is missing or damaged."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from normbench import locks
from normbench.data import content
from normbench.errors import NormbenchError

CHUNK = 1 << 20


def declared(config: Mapping[str, Any]) -> dict[str, str]:
    """Path below the data folder -> md5 or sha256, as the set declares, or ""; empty for embedded sets."""
    return dict(config["declares"].get("files") or {})


def paths(config: Mapping[str, Any], root: Path) -> list[Path]:
    """Where these files are; see `find`."""
    return [find(root, name) for name in declared(config)]


def supplied(config: Mapping[str, Any]) -> dict[str, str]:
    """Path below the data folder -> where it comes from, of files that the user brings and nobody has a checksum of."""
    return dict(config["declares"].get("supplied") or {})


def folders(config: Mapping[str, Any]) -> dict[str, str]:
    """Folders below the data folder that the user fills -> how the names of their files end."""
    return dict(config["declares"].get("folders") or {})


def find(root: Path, name: str, is_kind: Callable[[Path], bool] = Path.is_file) -> Path:
    """Where a file (or folder) of the set is: at this path below the data folder, or anywhere in its top folder.

    Upper and lower case, and `.gz`, are not distinguished there, nor `train-images.idx3-ubyte`, as 7-zip names it, from
    `train-images-idx3-ubyte`, nor the (1) of a browser's second download. Where there is none, the path itself.
    """
    path, top = root / name, _bare(Path(name).parts[0])
    if os.path.lexists(path):
        return path
    tops = [root] if _bare(root.name) == top else [other for other in root.glob("*") if _bare(other.name) == top]
    below = (other for one in tops for other in (one, *one.rglob("*")) if _bare(other.name) == _bare(path.name))
    return min(filter(is_kind, below), default=path)


def _bare(name: str) -> str:
    return re.sub(r" ?\(\d+\)", "", name.lower().removesuffix(".gz")).replace(".", "-")


def by_number(name: Path | str) -> list[Any]:
    """A key that sorts names by the numbers in them: p2 before p10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(name))]


def belongs(name: str, ending: str) -> bool:
    """Whether a file in such a folder is one of the set's."""
    return name.lower().endswith(ending) and not name.startswith(".")


def listed(folder: Path, ending: str) -> list[tuple[Path, os.stat_result]]:
    """The set's files in such a folder in the order of their names, and what the system says of each.

    NormbenchError for one that is no file: to open a pipe would wait for ever.
    """
    found = []
    with os.scandir(folder) as entries:
        for entry in sorted((one for one in entries if belongs(one.name, ending)), key=lambda one: one.name):
            path = Path(entry.path)
            try:
                facts = entry.stat()
            except OSError as error:
                raise NormbenchError(f"{as_text(path)} cannot be read: {error.strerror}. Bring it anew.") from None
            if not stat.S_ISREG(facts.st_mode):
                raise NormbenchError(f"{as_text(path)} is not a file but a {_kind(path)}. Move it away.")
            found.append((path, facts))
    return found


def sources(config: Mapping[str, Any], root: Path) -> Path:
    """The folder of the files from which a set is prepared."""
    return root / "source" / str(config["name"])


def cache(name: str) -> Path:
    """The folder of a set's cache: $XDG_CACHE_HOME/normbench/NAME, else ~/.cache/normbench/NAME."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rule: a relative path is to be ignored.
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~/.cache"))
    return base / "normbench" / name


def title(config: Mapping[str, Any]) -> str:
    """The set's name as the error lines write it: MNIST."""
    return str(config["name"]).upper()


def as_text(path: Path) -> str:
    """The path as a user would type it; a relative one starts with ./"""
    text = str(path)
    return text if path.is_absolute() or text.startswith(".") else f".{os.sep}{text}"


def registration(config: Mapping[str, Any], root: Path) -> str | None:
    """A line on how to bring a set that its owners hand out, or that the user brings; None for any other."""
    if bring := config["declares"].get("bring"):
        places = " and ".join(as_text(root / name) for name in folders(config))
        return f"Place in {places} what only you can bring: {bring}; or point NORMBENCH_DATA at it."
    if archive := config["declares"].get("archive"):
        unpack = f"tar -xzf {archive['name']} -C {as_text(root)}"
        return (
            f"Unpack {archive['name']} of {archive['of']} in {as_text(root)} ({unpack}), or point NORMBENCH_DATA at it."
        )
    given = config["declares"].get("sources") or {}
    if "register" not in given:
        return None
    return (
        f"{title(config)} needs registration with its owners: {given['register']}. Place their "
        f"{' and '.join(given['files'])} in {as_text(sources(config, root))} and run: normbench data get "
        f"{config['name']}"
    )


def megabytes(config: Mapping[str, Any]) -> int | None:
    """Size of the download, if declared: of the sources if the set is prepared from sources."""
    declares = config["declares"]
    found = (declares.get("sources") or declares).get("megabytes")
    return None if found is None else int(found)


def problem(config: Mapping[str, Any], root: Path, name: str) -> str | None:
    """The error line for one declared file; None if it is the declared one.

    It is if its bytes or its content have the declared sum, or its bytes that of the file which `prepare` made here.
    """
    path, wanted, here = find(root, name), declared(config)[name], as_text(root / name)
    own = "like" in config["declares"]
    get = f"place it at {here}" if own else f"run: normbench data get {config['name']}"
    try:
        # First, because opening a pipe would block.
        if not stat.S_ISREG(path.stat().st_mode):
            return f"{as_text(path)} is not a file but a {_kind(path)}. Move it away and {get}"
        made = record(config, root).get("files", {}).get(name)
        if (made and digest(path, "sha256") == made) or same(config["declares"], path, name):
            return None
        if is_another(config, path, name):
            return (
                f"{as_text(path)} is whole, but of another data set than {config['name']}. Move it away and {get}; or "
                "train on it as a set of your own (normbench data --help)"
            )
        kind = algorithm(wanted)
        sums = f"{kind} {digest(path, kind)[:4]}… instead of {wanted[:4]}…" if wanted else "not a whole file"
        source = f"; if another program packed it, set data.source={as_text(path.parent)}" if "source" in config else ""
        return (
            f"{as_text(path)} is damaged ({sums}{looks_like(path)}). Point NORMBENCH_DATA at another copy{source}; or "
            f"{get}{'' if own else ' (which replaces it)'}"
        )
    except (FileNotFoundError, NotADirectoryError):
        # `ls` lists a dead link: say so.
        link = f" (a link to {os.readlink(path)}, which does not exist)" if path.is_symlink() else ""
        size = f" ({megabytes(config)} MB)" if megabytes(config) else ""
        bring = f"Place it at {here}" if own else f"Bring it with: normbench data get {config['name']}{size}"
        return (
            f"{title(config)} is not in {as_text(root)}: {path.name} is missing{link}. {bring}, or point "
            "NORMBENCH_DATA at it."
        )
    except OSError as error:
        return _unreadable(path, error)


def empty(config: Mapping[str, Any], root: Path, name: str) -> str | None:
    """The error line for one declared folder; None if it has a file of the set."""
    try:
        with os.scandir(find(root, name, Path.is_dir)) as entries:
            if any(belongs(entry.name, folders(config)[name]) for entry in entries):
                return None
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return _unreadable(root / name, error)
    return (
        f"{title(config)} is not in {as_text(root)}: {name} has no {folders(config)[name]} files. "
        f"{registration(config, root)}"
    )


def not_supplied(config: Mapping[str, Any], root: Path, name: str) -> str | None:
    """The error line for one file that the user brings; None if it is there."""
    try:
        if stat.S_ISREG(find(root, name).stat().st_mode):
            return None
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return _unreadable(root / name, error)
    return (
        f"{title(config)} is not in {as_text(root)}: {name} is missing, which only you can bring: "
        f"{supplied(config)[name]}. Place it in {as_text((root / name).parent)}, or point NORMBENCH_DATA at it."
    )


def remark(config: Mapping[str, Any], root: Path) -> str:
    """A remark on the user's copy, or ''; call it only if the copy has no problems."""
    made = record(config, root)
    first, wanted = next(iter(declared(config).items()))
    if made and digest(find(root, first), algorithm(wanted)) != wanted:
        return str(made["remark"])
    return str(config["declares"].get("remark", ""))


def record_path(config: Mapping[str, Any], root: Path) -> Path:
    """The record that `prepare` writes next to the set's files: their sums, which depend on the installed libraries."""
    return (root / next(iter(declared(config)))).parent / f".normbench-{config['name']}.json"


def record(config: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The record of `prepare`; empty if there is none for these declarations."""
    if "sources" not in config["declares"]:
        return {}
    try:
        made = json.loads(record_path(config, root).read_text(encoding="utf-8"))
        whole = made["basis"] == basis(config) and isinstance(made["remark"], str) and isinstance(made["files"], dict)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(made) if whole else {}


def basis(config: Mapping[str, Any]) -> str:
    """Checksum of everything that determines the prepared files; the place of the sources is no part of it."""
    declares = config["declares"]
    given = declares["sources"]
    facts = [declares.get("content"), given["files"], given.get("batches")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def algorithm(checksum: str) -> str:
    """Which checksum this is, by its length."""
    return "md5" if len(checksum) == 32 else "sha256"


def digest(path: Path, kind: str) -> str:
    """The `md5` or `sha256` of a file, in hex; OSError as `open` and `read` raise it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def same(declares: Mapping[str, Any], path: Path, name: str) -> bool:
    """Whether a file has the declared bytes or content; where no sum is declared, whether it is whole."""
    wanted, content_sum = declares["files"][name], content.declared(declares, name)
    if wanted and digest(path, algorithm(wanted)) == wanted:
        return True
    if wanted and not content_sum:
        return False
    found = _content(path)
    return found == content_sum if content_sum else bool(found)


def is_another(config: Mapping[str, Any], path: Path, name: str) -> bool:
    """Whether a file is whole, in the declared format, and has other content than the declared one."""
    content_sum = content.declared(config["declares"], name)
    return bool(content_sum) and path.suffix not in content.TEXT and _content(path) not in ("", content_sum)


def _content(path: Path) -> str:
    try:
        return content.of(path)
    except ValueError:
        return ""


def sums(config: Mapping[str, Any], root: Path) -> dict[str, str]:
    """For each declared file the declared sum if its bytes or content match it, else the sum of its bytes."""
    found = {}
    for name, wanted in declared(config).items():
        path = find(root, name)
        found[name] = wanted if same(config["declares"], path, name) else digest(path, algorithm(wanted))
    return found


def looks_like(path: Path) -> str:
    """A hint why a file's checksum is wrong, such as '; it is an HTML page', or '' when nothing can be said."""
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        return "; it is empty"
    if start.startswith(b"PK\3\4") and path.suffix.lower() != ".npz":
        return "; it is a zip archive"
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


@contextmanager
def filling(folder: Path, wait: float, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Be the only process that fills a folder, which is made; NormbenchError after so many seconds behind another.

    `waiting` is called with who that is, before the waiting begins.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".normbench.lock").open("a+") as file:
        if not locks.take(file.fileno(), folder, 0):
            filled = f"{as_text(folder)} is being filled by"
            if waiting and wait:
                waiting(f"{filled} {locks.holder(file.fileno())}: waiting for it, {wait / 60:g} minutes at most")
            if not locks.take(file.fileno(), folder, wait):
                holder = locks.holder(file.fileno())  # who may have come since
                raise NormbenchError(f"{filled} {holder}. Wait for it, and repeat the command.", code=5)
        locks.sign(file.fileno())
        yield


def _unreadable(path: Path, error: OSError) -> str:
    return (
        f"{as_text(path)} cannot be read: {error.strerror or error}. "
        f"Make it readable, or point NORMBENCH_DATA at another copy."
    )


def _kind(path: Path) -> str:
    return "folder" if path.is_dir() else "device or pipe"
