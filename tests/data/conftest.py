"""A data folder of small idx files, its configuration, and an unpacking cache, each of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from idxfiles import contents, declare, write


@pytest.fixture
def made() -> dict[str, bytes]:
    return contents()


@pytest.fixture
def config(made: dict[str, bytes]) -> dict[str, Any]:
    return declare(made)


@pytest.fixture
def raw(tmp_path: Path, made: dict[str, bytes]) -> Path:
    return write(tmp_path / "data", made)


@pytest.fixture
def root(raw: Path) -> Path:
    return raw.parents[1]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unpacking cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "normbench" / "mnist"
