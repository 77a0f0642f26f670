"""The picture of the dashboard in README: python scripts/screenshots.py [--output docs]

Serves the published results to a headless Chromium and keeps what it shows. Needs the packages of `[dev]` and Chromium.
"""

from __future__ import annotations

import argparse
import secrets
import threading
from pathlib import Path
from typing import Literal

from playwright.sync_api import ViewportSize, sync_playwright

from normbench.commands import dashboard
from normbench.web.index import Index

RESULTS = Path(__file__).parent.parent / "results"
PICTURES: dict[str, tuple[list[str], Literal["light", "dark"], str]] = {  # name: filter, colour scheme, parameters
    "dashboard-light": (
        ["model=mnist_mlp", "train.batch_size=128", "control="],
        "light",
        "&metric=error&panels=valid:nll",
    ),
}
SIZE: ViewportSize = {"width": 1400, "height": 720}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS.parent / "docs")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    index = Index(RESULTS)
    token = secrets.token_urlsafe(24)
    with dashboard.listen(None) as listener, sync_playwright() as browsers:
        threading.Thread(target=dashboard.server_of(index, token), args=([listener],), daemon=True).start()
        browser = browsers.chromium.launch(executable_path=given.chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, (filters, scheme, rest) in PICTURES.items():
            page = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
            page.goto(dashboard.link(listener, token, filters) + rest)
            page.wait_for_selector(".js-plotly-plot .scatterlayer .trace", timeout=60_000)
            page.wait_for_timeout(2_000)  # all plots of the page are drawn
            page.screenshot(path=given.output / f"{name}.png")
            print(given.output / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
