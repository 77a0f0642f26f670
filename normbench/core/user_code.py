"""Imports Python files of the user's, which are in no package: of a normalizer, a model, a data set, an artifact."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import importlib.util
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

from normbench.errors import BadInput, Failed, NormbenchError, line_of

NORMALIZER_SUFFIXES = (".py", ".yaml")  # a class, or a choice that names the file of the class
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
NEVER_LOCAL = {*sys.stdlib_module_names, "normbench", "torch"}
_local: dict[str, tuple[str, str]] = {}  # of a module beside a user's file: the folder, and the hash when it was found
executed = False  # whether this process has run a user's file, which may have changed torch
__path__: list[str] = []  # makes this module a package: users' files become its submodules


def is_normalizer_file(word: str) -> bool:
    """Whether a word names a normalizer's file, existing or not, rather than a normalizer."""
    return word.lower().endswith(NORMALIZER_SUFFIXES)


def digest(path: Path) -> str:
    """The sha256 of a file and all that it imports from its folder, wherever it does, a package as a whole."""
    try:
        return _sha256([path, *(file for files in _local_imports(path).values() for file in files)])
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}.") from None


def _sha256(files: list[Path]) -> str:
    each = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def _local_imports(path: Path) -> dict[str, list[Path]]:
    """The files of the modules and packages that a file imports from its folder, directly or through these."""
    local: dict[str, list[Path]] = {}
    waiting = [path]
    while waiting:
        for name in _imported_names(waiting.pop()) - local.keys():
            candidates = path.parent / f"{name}.py", *(path.parent / name).rglob("*.py")
            if files := sorted(file for file in candidates if file.is_file()):
                local[name] = files
                waiting += files
    return dict(sorted(local.items()))


def _imported_names(path: Path) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # importing it gives the error
        return set()
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names} - {"", *NEVER_LOCAL}


def load_module(path: Path, sha256: str) -> ModuleType:
    """Import the file, once for each content; NormbenchError for any exception in it."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is made in the user's folder
    try:
        return importlib.import_module(f"{__name__}.{str(path).encode().hex()}_{sha256[:12]}")
    except (Exception, SystemExit) as error:  # any error in the user's code
        problem = str(error) if isinstance(error, NormbenchError) else f"{type(error).__name__}: {error}"
        raise BadInput(f"{path} cannot be imported: {problem}{line_of(error)}") from error
    finally:
        sys.dont_write_bytecode = before


def function(path: Path, name: str) -> Callable[..., Any]:
    """The function of this name in the file; NormbenchError where it has none."""
    if not callable(called := getattr(load_module(path, digest(path)), name, None)):
        raise BadInput(f"{path} has no function {name}.")
    return called


def apart(place: Path | str, work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work` returns, called in a process of its own, which users' files of `place` may change or end.

    The result is pickled. The process ends with this one. NormbenchError if the users' code ended it.
    """
    reader, writer = multiprocessing.Pipe(duplex=False)
    fork = multiprocessing.get_context("fork")  # it has torch, which has no threads yet
    process = fork.Process(target=_send, args=(writer, os.getpid(), place, work, arguments))
    process.start()
    writer.close()
    try:
        result, error = reader.recv()
    except EOFError:
        raise Failed(f"{place} ended the process that tried it.") from None
    finally:
        process.kill()
        process.join()
    if error:
        raise error
    return result


def _send(writer: Connection, parent: int, place: Path | str, work: Callable[..., Any], arguments: Any) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a pipe alone does not end code that runs on
    if os.getppid() != parent:  # it was killed before that
        return
    try:
        writer.send((work(*arguments), None))
    except (SystemExit, KeyboardInterrupt) as error:
        line = f"{place} raised {type(error).__name__}{line_of(error)}."
        writer.send((None, Failed(line)))
    except Exception as error:  # whatever the users' code raises: the parent raises it
        writer.send((None, error))


class _Finder:
    """The last finder that Python asks: for users' files, by names that pickle keeps, and for their local imports."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        global executed
        if not name.startswith(f"{__name__}."):
            return PathFinder.find_spec(name, [_local[name][0]]) if name in _local else None
        place, _, sha256 = name.removeprefix(f"{__name__}.").partition("_")
        file = Path(bytes.fromhex(place).decode())
        if not digest(file).startswith(sha256):
            raise ImportError(f"{file} was changed since what is loaded here was saved")
        for module, files in _local_imports(file).items():
            _claim(module, files, file.parent.resolve())
        executed = True
        return importlib.util.spec_from_file_location(name, file)


def _claim(name: str, files: list[Path], folder: Path) -> None:
    """Let `import name` mean these files as they are now; NormbenchError if it means another module."""
    now = str(folder), _sha256(files)
    if _local.setdefault(name, now) != now and _local[name][0] == str(folder):
        _local[name] = now
        for old in [old for old in sys.modules if old == name or old.startswith(f"{name}.")]:
            del sys.modules[old]
    importlib.invalidate_caches()
    spec, places = importlib.util.find_spec(name), (folder / f"{name}.py", folder / name, folder / name / "__init__.py")
    origin = spec and (spec.origin or next(iter(spec.submodule_search_locations or [])))
    if not origin or Path(origin).resolve() not in places:
        raise BadInput(f"`import {name}` means {origin}, and not {files[0]}. Give that another name.")


sys.meta_path.append(_Finder)
