"""A browser for the tests that are marked so."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TOKEN = "let-me-in"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("no Chromium on PATH; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Path], str]]:
    """Starts a server for a results folder; gives the address of its page."""
    uvicorn = pytest.importorskip("uvicorn")
    from normbench.web.index import Index
    from normbench.web.server import app

    started = []

    def start(results: Path) -> str:
        index = Index(results)
        index.refresh()
        server = uvicorn.Server(uvicorn.Config(app(index, TOKEN), port=0, log_level="critical"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        started.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/?token={TOKEN}"

    yield start
    for server, _ in started:
        server.should_exit = server.force_exit = True
    for _, thread in started:
        thread.join(10)
