"""Loads Python files of the user's, which are in no package: of a normalizer, a model, a data set, an artifact."""

from __future__ import annotations

import ast
import ctypes
import functools
import hashlib
import importlib.util
import inspect
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from normbench.errors import NormbenchError, line_of

Result = TypeVar("Result")
NORMALIZER_SUFFIXES = (".py", ".yaml")  # a class, or a choice that names the file of the class
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
NEVER_LOCAL = {*sys.stdlib_module_names, "normbench", "torch"}
_folders: dict[str, str] = {}  # module that a user's file imports: its folder
_loaded: dict[str, str] = {}  # and the hash of its files when it was imported
executed = False  # whether this process has run a user's file, which may have changed torch
__path__: list[str] = []  # makes this module a package: users' files become its submodules


def is_normalizer_file(word: str) -> bool:
    """Whether a word names a normalizer's file, existing or not, rather than a normalizer."""
    return word.lower().endswith(NORMALIZER_SUFFIXES)


def digest(path: Path) -> str:
    """The sha256 of a file and all that it imports from its folder; NormbenchError if one cannot be read.

    Import statements are read, not run, and count wherever they stand; a package counts as a whole.
    """
    try:
        return _sha256([path, *(file for files in local_imports(path).values() for file in files)])
    except OSError as error:
        raise NormbenchError(f"{error.filename} cannot be read: {error.strerror}.") from None


def _sha256(files: list[Path]) -> str:
    each = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def local_imports(path: Path) -> dict[str, list[Path]]:
    """The modules and packages that a file imports from its own folder, directly or through these, with their files."""
    found: dict[str, list[Path]] = {}
    waiting = [path]
    while waiting:
        for name in _imported_names(waiting.pop()):
            module, package = path.parent / f"{name}.py", path.parent / name
            files = [file for file in (module, *package.rglob("*.py")) if file.is_file()]
            if files and name not in found:
                found[name] = sorted(files)
                waiting += files
    return dict(sorted(found.items()))


def _imported_names(path: Path) -> Iterator[str]:
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # importing it gives the error
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:  # a relative import stays in its package
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        yield from {name.partition(".")[0] for name in names} - {"", *NEVER_LOCAL}


@functools.cache
def load_module(path: Path, sha256: str) -> ModuleType:
    """Import the file, once for each content; NormbenchError for any exception in it.

    The module is in `sys.modules`, where dataclasses and pickle look. Its `local_imports` are found last.
    """
    global executed
    name = f"{__name__}.{str(path).encode().hex()}_{sha256[:12]}"
    for helper, files in local_imports(path).items():
        _check_import(helper, files, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is made in the user's folder
    executed = True
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # any error in the user's code
        del sys.modules[name]
        problem = str(error) if isinstance(error, NormbenchError) else f"{type(error).__name__}: {error}"
        raise NormbenchError(f"{path} cannot be imported: {problem}{line_of(error)}") from error
    finally:
        sys.dont_write_bytecode = before
    return module


def apart(place: Path | str, work: Callable[..., Result], *arguments: Any) -> Result:
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
        raise NormbenchError(f"{place} ended the process that tried it.", code=4) from None
    finally:
        process.kill()
        process.join()
    if error:
        raise error
    return cast(Result, result)


def _send(writer: Connection, parent: int, place: Path | str, work: Callable[..., Any], arguments: Any) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a pipe alone does not end code that runs on
    if os.getppid() != parent:  # it was killed before that
        return
    try:
        writer.send((work(*arguments), None))
    except (SystemExit, KeyboardInterrupt) as error:
        line = f"{place} raised {type(error).__name__}{line_of(error)}."
        writer.send((None, NormbenchError(line, code=4)))
    except Exception as error:
        writer.send((None, error))


def function(path: Path, name: str, *parameters: str) -> Callable[..., Any]:
    """The function of this name in the file; NormbenchError where it has none, or none that takes `parameters`."""
    found = getattr(load_module(path, digest(path)), name, None)
    if not callable(found):
        raise NormbenchError(f"{path} has no function {name}.")
    try:
        inspect.signature(found).bind(*parameters)
    except TypeError as error:
        raise NormbenchError(f"{path}: {name} is called as {name}({', '.join(parameters)}): {error}.") from None
    return cast(Callable[..., Any], found)


def _check_import(name: str, files: list[Path], of: Path) -> None:
    """Forget an earlier version of a local module; NormbenchError if its name means another module."""
    folder, now = str(of.parent.resolve()), _sha256(files)
    if _loaded.get(name, now) != now:
        for old in [old for old in sys.modules if old == name or old.startswith(f"{name}.")]:
            del sys.modules[old]
    importlib.invalidate_caches()
    found = [_folders.setdefault(name, folder)]
    if found == [folder] and (spec := importlib.util.find_spec(name)):
        found = [place for place in (spec.origin, *(spec.submodule_search_locations or [])) if place]
        if {Path(place).resolve() for place in found} & {p.resolve() for file in files for p in (file, *file.parents)}:
            _loaded[name] = now
            return
    raise NormbenchError(f"{of}: `import {name}` means {found[0]}, and not {files[0]}. Give that another name.")


class _UserFile:
    """Loads a user's file that another process had loaded: pickle asks for its module by name."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        path = Path(bytes.fromhex(spec.name.rpartition(".")[2].partition("_")[0]).decode())
        module = load_module(path, digest(path))
        if module.__name__ != spec.name:
            raise ImportError(f"{path} was changed since what is loaded here was saved")
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """`create_module` has run it."""


class _Finder:
    """The last finder that Python asks: for users' files, which pickle names, and for their local imports."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.startswith(f"{__name__}."):
            return ModuleSpec(name, _UserFile)  # type: ignore[arg-type]  # its methods need no instance
        return PathFinder.find_spec(name, [_folders[name]]) if name in _folders else None


sys.meta_path.append(_Finder)
