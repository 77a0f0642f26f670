"""A data folder of small idx files, its configuration, and a cache, each of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from idxfiles import contents, declare, write
from servers import Handler, Mirror


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
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "normbench"


@pytest.fixture
def mirror() -> Iterator[Callable[..., Mirror]]:
    """Starts mirrors, by default of the idx files; each is closed at the end."""
    started: list[Mirror] = []

    def start(
        answer: Callable[[Handler, bytes], None] | None = None, files: Mapping[str, bytes] | None = None
    ) -> Mirror:
        started.append(Mirror(contents() if files is None else files, answer))
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def dead() -> str:
    """The address of a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"
