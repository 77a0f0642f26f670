"""The report in a real browser, from file://: it draws, asks nobody for anything, and runs nobody else's code."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import madeup
import pytest

from normbench.cli import main
from normbench.web import report

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("no Chromium on PATH; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    madeup.hostile(results)
    return report.build(results).index.parent


class Watched:
    """A page with everything it said and asked for."""

    def __init__(self, browser: Any, scheme: str = "light", width: int = 1200, scripts: bool = True) -> None:
        self.scripts = scripts
        self.context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=scripts
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: Path) -> Any:
        self.page.goto(path.as_uri())
        if path.name.startswith("ln2016") and self.scripts:
            self.page.wait_for_function("document.querySelectorAll('.panel .main-svg').length >= 6")  # 3 a panel
        return self.page

    def traces(self, panel: int = 0) -> list[dict[str, Any]]:
        found = self.page.evaluate(
            "i => document.querySelectorAll('.panel:not(.empty)')[i].data.map(t => "
            "({arm: t.meta.arm, role: t.meta.role, visible: t.visible !== false, colour: t.line.color}))",
            panel,
        )
        return list(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "models.html", "ln2016-fig6-paper.html"])
def test_a_page_is_silent_and_alone(chromium: Any, site: Path, name: str, scheme: str):
    watched = Watched(chromium, scheme)
    page = watched.open(site / name)
    assert watched.said == []
    assert [url for url in watched.asked if not url.startswith((site.as_uri(), "data:", "blob:"))] == []
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.querySelectorAll('td img, h3 img, li img, label img, figcaption img').length") == 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    if name.startswith("ln2016"):
        assert page.locator(".main-svg").count() >= 2
        assert page.locator(".panel .lines path").count() > 4
        assert page.get_by_text("</script><img src=x").count() > 0  # the hostile arm, as text


def test_arms_intervals_and_seeds_can_be_chosen(chromium: Any, site: Path):
    watched = Watched(chromium)
    page = watched.open(site / "ln2016-fig6-paper.html")
    assert {t["role"] for t in watched.traces() if t["visible"]} == {"mean", "band"}
    page.get_by_label("each seed").check()
    page.get_by_label("95 % intervals").uncheck()
    page.get_by_label("LayerNorm, hidden layers").uncheck()
    for panel in (0, 1):
        shown = [t for t in watched.traces(panel) if t["visible"]]
        assert {t["role"] for t in shown} == {"mean", "seed"}
        assert "ln" not in {t["arm"] for t in shown} and "bn" in {t["arm"] for t in shown}
    page.get_by_label("logarithmic x axis").check()
    kinds = page.evaluate("Array.from(document.querySelectorAll('.panel:not(.empty)'), e => e.layout.xaxis.type)")
    assert kinds == ["log", "log"]
    assert watched.said == []


def test_colours_follow_the_page_while_it_is_open(chromium: Any, site: Path):
    watched = Watched(chromium)
    page = watched.open(site / "ln2016-fig6-paper.html")
    light = {t["arm"]: t["colour"] for t in watched.traces()}
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.querySelector('[data-light]').getAttribute('stroke') === "
                           "document.querySelector('[data-light]').dataset.dark")  # fmt: skip
    dark = {t["arm"]: t["colour"] for t in watched.traces()}
    assert all(light[arm] != dark[arm] for arm in light)


def test_a_narrow_page_does_not_scroll_sideways(chromium: Any, site: Path):
    for name in ("index.html", "models.html", "ln2016-fig6-paper.html"):
        page = Watched(chromium, width=400).open(site / name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        narrow = "Array.from(document.querySelectorAll('td')).filter(e => e.innerText.length > 3 && e.clientWidth < 40)"
        assert page.evaluate(f"{narrow}.map(e => e.innerText)") == [], name


def test_without_scripts_the_published_figure_is_there(chromium: Any, site: Path):
    page = Watched(chromium, scripts=False).open(site / "ln2016-fig6-paper.html")
    assert page.locator("noscript img").count() == 1 and not page.locator(".controls").is_visible()


def test_the_page_of_a_battery_draws_and_asks_for_nothing(chromium: Any, tmp_path: Path) -> None:
    words = ("--norm", "rms", "--only", "ln2016/online", "--seeds", "1", "--results", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["battery", *words])
    assert not ended.value.code
    watched = Watched(chromium)
    page = watched.open(tmp_path / "battery" / "rms" / "page" / "index.html")
    page.wait_for_function("document.querySelectorAll('.panel .main-svg').length >= 12")  # 3 a panel
    page.uncheck('[data-arm="layer"]')
    shown = {t["arm"] for t in watched.traces() if t["visible"]}
    assert shown == {"rms", "none"}
    assert watched.said == [] and all(url.startswith("file://") for url in watched.asked)
