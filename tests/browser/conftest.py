"""A browser for the tests that are marked so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
