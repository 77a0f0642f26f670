"""Python files of the user's own, which are in no package: a normalizer's class, the drawing of an artifact."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

from normbench.errors import NormbenchError

OF_A_NORMALIZER = (".py", ".yaml")  # a class, or the choice that names the file of one


def is_a_normalizers(word: str) -> bool:
    """Whether a word means a normalizer's file, there or not, and no name."""
    return word.lower().endswith(OF_A_NORMALIZER)


def digest(path: Path) -> str:
    """The sha256 of a file; NormbenchError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise NormbenchError(f"{path} cannot be read: {error.strerror}.") from None


@functools.cache
def carried_out(path: Path, sha256: str) -> ModuleType:
    """The file's module, carried out once as long as it stays as it is; NormbenchError for whatever is wrong in it."""
    spec = importlib.util.spec_from_file_location(f"normbench_user_{sha256[:12]}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # it is their line that they need
        raise NormbenchError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
