"""The files of a data set on disk: where they are, whether they are the declared ones, and arrays made of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normbench.data import content
from normbench.errors import BadInput, Busy
from normbench.files import locks, reading, scratch

if TYPE_CHECKING:
    import numpy as np

Config = Mapping[str, Any]
Arrays = dict[str, "np.ndarray"]
KINDS = ("files", "supplied", "folders")  # with checksums; the user's own; filled by the user


def declared(config: Config, kind: str = "files") -> dict[str, str]:
    """Path below the data folder -> its md5 or sha256 or ""; of `supplied` what it is, of `folders` how names end."""
    return dict(config["declares"].get(kind) or {})


def paths(config: Config, root: Path) -> list[Path]:
    """Where the declared files are; see `find`."""
    return [find(root, name) for name in declared(config)]


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


def listed(config: Config, root: Path, name: str) -> list[Path]:
    """The set's files in a declared folder, in the order of their names.

    NormbenchError for one that is no file: to open a pipe would wait for ever.
    """
    folder, ending, found = find(root, name, Path.is_dir), declared(config, "folders")[name], []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.name.lower().endswith(ending) and not entry.name.startswith("."):
                if not entry.is_file():
                    raise BadInput(f"{as_text(Path(entry.path))} is not a file. Move it away.")
                found.append(Path(entry.path))
    return found


def sources(config: Config, root: Path) -> Path:
    """The folder of the files from which a set is prepared."""
    return root / "source" / str(config["name"])


def title(config: Config) -> str:
    """The set's name as the error lines write it: MNIST."""
    return str(config["name"]).upper()


def as_text(path: Path) -> str:
    """The path as a user would type it; a relative one starts with ./"""
    text = str(path)
    return text if path.is_absolute() or text.startswith(".") else f".{os.sep}{text}"


def megabytes(config: Config) -> float | None:
    """Size of the download, if declared: of the sources if the set is prepared from sources."""
    declares = config["declares"]
    return (declares.get("sources") or declares).get("megabytes")


def only_users_have(config: Config) -> bool:
    """Whether no command brings the set."""
    return bool({"supplied", "folders"} & config["declares"].keys()) or is_own(config)


def is_own(config: Config) -> bool:
    """Whether it is a user's own set, without sources that a command brings."""
    declares = config["declares"].keys()
    return bool({"like", "file"} & declares) and not {"sources", "mirrors"} & declares


def remedy(config: Config, root: Path, name: str) -> str:
    """How to bring this file or folder of the set, without a full stop."""
    declares, get = config["declares"], f"normbench data get {config['name']}"
    given = declares.get("sources") or {}
    if archive := declares.get("archive"):
        unpack = f"tar -xzf {archive['name']} -C {as_text(root)}"
        return f"Unpack {archive['name']} of {archive['of']} in {as_text(root)} ({unpack})"
    if what := declares.get("bring") or declared(config, "supplied").get(name):
        return f"Place at {as_text(root / name)} what only you can bring: {what}"
    if is_own(config):
        return f"Place it at {(root / name).absolute()}"
    if register := given.get("register"):
        return (
            f"{title(config)} needs registration with its owners: {register}. Place their "
            f"{' and '.join(given['files'])} in {as_text(sources(config, root))} and run: {get}"
        )
    size = f" ({megabytes(config)} MB)" if megabytes(config) else ""
    return f"Bring it with: {get}{size}"


def problem(config: Config, root: Path, name: str) -> str | None:
    """The error line for a file or folder that the set declares; None where it is as declared.

    A file is if its bytes or its content have the declared sum, or its bytes that of the file which was prepared here.
    """
    wanted, filled = declared(config).get(name, ""), name in declared(config, "folders")
    path, own = find(root, name, Path.is_dir if filled else Path.is_file), is_own(config)
    get = f"place it at {as_text(root / name)}" if own else f"run: normbench data get {config['name']}"
    try:
        if filled:
            if listed(config, root, name):
                return None
            raise FileNotFoundError
        # First, because opening a pipe would block.
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "folder" if path.is_dir() else "device or pipe"
            return f"{as_text(path)} is not a file but a {kind}. Move it away and {get}"
        if name not in declared(config) or _is_prepared(config, root, name) or same(config["declares"], path, name):
            return None
        if is_another(config, path, name):
            return (
                f"{as_text(path)} is whole, but of another data set than {config['name']}. Move it away and {get}; or "
                "train on it as a set of your own (normbench data --help)"
            )
        kind = algorithm(wanted)
        if own and wanted:
            return (
                f"{as_text(path)} has {kind} {digest(path, kind)}{looks_like(path)}, declares.files of "
                f"data={config['name']} has {wanted}. Place that file there, or declare the sum of this one."
            )
        sums = f"{kind} {digest(path, kind)[:4]}… instead of {wanted[:4]}…" if wanted else "not a whole file"
        source = f"; if another program packed it, set data.source={as_text(path.parent)}" if "source" in config else ""
        return (
            f"{as_text(path)} is damaged ({sums}{looks_like(path)}). Point NORMBENCH_DATA at another copy{source}; or "
            f"{get}{'' if own else ' (which replaces it)'}"
        )
    except (FileNotFoundError, NotADirectoryError):
        # `ls` lists a dead link: say so.
        link = f" (a link to {os.readlink(path)}, which does not exist)" if path.is_symlink() else ""
        lacks = f"{name} has no {declared(config, 'folders')[name]} files" if filled else f"{path.name} is missing"
        return (
            f"{title(config)} is not in {as_text(root)}: {lacks}{link}. {remedy(config, root, name)}, or point "
            "NORMBENCH_DATA at it."
        )
    except OSError as error:
        return (
            f"{as_text(path)} cannot be read: {error.strerror or error}. Make it readable, or point NORMBENCH_DATA at "
            "another copy."
        )


# --- sums -------------------------------------------------------------------------------------------------------------


def algorithm(checksum: str) -> str:
    """Which checksum this is, by its length."""
    return "md5" if len(checksum) == 32 else "sha256"


def digest(path: Path, kind: str = "sha256") -> str:
    """The `md5` or `sha256` of a file, in hex; OSError as `open` and `read` raise it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def same(declares: Config, path: Path, name: str) -> bool:
    """Whether a file has the declared bytes or content; where no sum is declared, whether it is whole."""
    wanted, content_sum = declares["files"][name], content.declared(declares, name)
    if wanted and digest(path, algorithm(wanted)) == wanted:
        return True
    if not content_sum and (wanted or "file" in declares):  # the user's code knows what is whole
        return not wanted
    found = _content(path)
    return found == content_sum if content_sum else bool(found)


def is_another(config: Config, path: Path, name: str) -> bool:
    """Whether a file is whole, in the declared format, and has other content than the declared one."""
    content_sum = content.declared(config["declares"], name)
    return bool(content_sum) and path.suffix not in content.TEXT and _content(path) not in ("", content_sum)


def is_users(config: Config, path: Path, name: str) -> bool:
    """Whether what lies there must not be overwritten."""
    return not path.is_file() or is_another(config, path, name)


def _content(path: Path) -> str:
    try:
        return content.of(path)
    except ValueError:
        return ""


def looks_like(path: Path) -> str:
    """A hint why a file's checksum is wrong, such as '; it is an HTML page', or '' when nothing can be said."""
    with path.open("rb") as file:
        start = file.read(512)
    if start.startswith(b"PK\3\4") and path.suffix.lower() != ".npz":
        return "; it is a zip archive"
    is_page = start.lstrip().lower().startswith((b"<!doctype html", b"<html"))
    return "; it is an HTML page" if is_page else "" if start else "; it is empty"


# --- what `normbench data get` prepared here --------------------------------------------------------------------------


def record_path(config: Config, root: Path) -> Path:
    """The record of the prepared files' sums, which depend on the installed libraries; it lies beside the files."""
    return (root / next(iter(declared(config)))).parent / f".normbench-{config['name']}.json"


def record(config: Config, root: Path) -> dict[str, Any]:
    """Sums by file and a remark on the copy; empty if none was made by these declarations."""
    try:
        made = json.loads(record_path(config, root).read_text(encoding="utf-8"))
        if made["basis"] == basis(config) and isinstance(made["remark"], str) and isinstance(made["files"], dict):
            return dict(made)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {}


def basis(config: Config) -> str:
    """Checksum of everything that determines the prepared files."""
    declares = config["declares"]
    given = declares["sources"]
    return content.checksum([declares.get("content"), given["files"], given.get("batches")])


def _is_prepared(config: Config, root: Path, name: str) -> bool:
    sums = record(config, root).get("files", {}) if "sources" in config["declares"] else {}
    return name in sums and digest(find(root, name)) == sums[name]


def remark(config: Config, root: Path) -> str:
    """A remark on the user's copy, or ''; call it only if the copy has no problems."""
    first, wanted = next(iter(declared(config).items()))
    if _is_prepared(config, root, first) and digest(find(root, first), algorithm(wanted)) != wanted:
        return str(record(config, root)["remark"])
    return str(config["declares"].get("remark", ""))


# --- archives, the cache, locks ---------------------------------------------------------------------------------------


def members(path: Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files in a .tar.gz, or .tar, whose name is `wanted`, in the archive's order.

    Nothing is unpacked to the disk. ValueError for a damaged archive.
    """
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and wanted(member.name) and (body := archive.extractfile(member)):
                    yield member.name, body.read()
            assert archive.fileobj is not None
            while archive.fileobj.read(1 << 20):  # to the end, where gzip has the checksum of the whole
                pass
    except (tarfile.TarError, EOFError, zlib.error, OverflowError, OSError) as error:
        reason = " ".join(str(error).split())  # of tarfile's several lines
        hint = "" if isinstance(error, FileNotFoundError) else looks_like(path)
        raise ValueError(f"{path.name} is not a whole .tar.gz archive ({reason}{hint})") from error


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
    stamps = [(str(path.absolute()), (found := path.stat()).st_size, found.st_mtime_ns) for path in of]
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
                raise Busy(f"{filled} {holder}. Wait for it, and repeat the command.")
        locks.sign(file.fileno())
        yield
