"""The report in a real browser, from file://: it draws, asks nobody for anything, and runs nobody else's code."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import madeup
import pytest
from watched import Watched

from normbench.cli import main
from normbench.web import report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    madeup.hostile(results)
    madeup.checked(results)
    return report.build(results).index.parent


PAGES = ("index.html", "models.html", "checks.html", "glossary.html", "amendments.html", "ln2016-fig6-paper.html")
# Of every piece of text that is seen the contrast of its colour with the nearest ground behind it: those below 4.5.
FAINT = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, noscript, title") || !element.checkVisibility())
      continue;
    const style = getComputedStyle(element);
    const colour = parse(element instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [light(colour), light(ground(element))].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    seen += 1;
    if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return {faint, seen};
}"""
UNFOLD = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"
# What reaches beyond the page at its right, but for what scrolls or is cut in a box of its own.
WIDE = """() => Array.from(document.querySelectorAll("body *"))
  .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter((e) => !e.closest(".scroll, pre, .js-plotly-plot"))
  .map((e) => `${e.tagName}.${e.getAttribute("class")}: ${e.textContent.trim().slice(0, 40)}`)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_silent_and_alone(chromium: Any, site: Path, name: str, scheme: str):
    watched = Watched(chromium, scheme)
    page = watched.open(site / name)
    assert watched.messages == []
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
        visible = [t for t in watched.traces(panel) if t["visible"]]
        assert {t["role"] for t in visible} == {"mean", "seed"}
        arms = {t["arm"] for t in visible}
        assert "LayerNorm, hidden layers" not in arms and "BatchNorm, hidden layers (ours)" in arms
    page.get_by_label("logarithmic x axis").check()
    kinds = page.evaluate("Array.from(document.querySelectorAll('.panel:not(.empty)'), e => e.layout.xaxis.type)")
    assert kinds == ["log", "log"]
    assert watched.messages == []


def test_colours_follow_the_page_while_it_is_open(chromium: Any, site: Path):
    watched = Watched(chromium)
    page = watched.open(site / "ln2016-fig6-paper.html")
    light = {t["arm"]: t["colour"] for t in watched.traces()}
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.querySelector('[data-light]').getAttribute('stroke') === "
                           "document.querySelector('[data-light]').dataset.dark")  # fmt: skip
    dark = {t["arm"]: t["colour"] for t in watched.traces()}
    assert all(light[arm] != dark[arm] for arm in light)


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_its_text_stands_out(chromium: Any, site: Path, name: str, width: int):
    page = Watched(chromium, width=width).open(site / name)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(WIDE) == []
    narrow = "Array.from(document.querySelectorAll('td')).filter(e => e.innerText.length > 3 && e.clientWidth < 40)"
    assert page.evaluate(f"{narrow}.map(e => e.innerText)") == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for _ in range(50):  # the figures are drawn anew
            page.wait_for_timeout(100)
            found = page.evaluate(FAINT)
            if not found["faint"]:
                break
        assert found["faint"] == [] and found["seen"] > 20, scheme


def test_the_pages_of_everything_published_are_short(chromium: Any, tmp_path: Path):
    """All claims, nothing unfolded, whatever the fonts; of what is published, not of what was tried."""
    tried = shutil.ignore_patterns("smoke", "runs", "report")
    published = shutil.copytree(Path(__file__).parents[2] / "results", tmp_path / "results", ignore=tried)
    index = report.build(published, tmp_path / "site").index
    watched = Watched(chromium, width=1400)
    page = watched.open(index)
    assert page.evaluate("document.documentElement.scrollHeight") <= 6200
    page.set_viewport_size({"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400 and page.evaluate(WIDE) == []
    assert watched.messages == []
    visible = "Array.from(document.querySelectorAll('.finding'), e => e).filter(e => e.checkVisibility()).length"
    before, total = page.evaluate(visible), page.locator(".finding").count()
    assert 0 < before < total
    page.get_by_label("Filter the claims").fill("test error")
    some = page.evaluate(visible)
    texts = page.locator(".finding:visible").all_inner_texts()
    assert 0 < some == len(texts) < total and f"{some} of {total} claims" in page.locator(".shown").inner_text()
    page.get_by_label("Filter the claims").fill("")
    assert page.evaluate(visible) == before
    tallied = """() => [...document.querySelectorAll('.tally')].filter((e) => e.checkVisibility())
      .reduce((sum, e) => sum + parseInt(e.textContent), 0)"""
    wrong = """() => [...document.querySelectorAll('.fold:not([hidden]) .count')].filter((e) =>
      Number(e.textContent) !== e.closest('.fold').querySelectorAll('.finding:not([hidden])').length).length"""
    for label in page.locator(".words label").all():  # headings and folds follow, and count as the chip does
        label.locator("input").check()
        assert page.evaluate(visible) == page.evaluate(tallied) == int(label.locator("strong").inner_text())
        assert page.evaluate(wrong) == 0
        label.locator("input").uncheck()
    assert page.locator(".tally").first.inner_text().startswith("Of ") and page.evaluate(visible) == before
    page.set_viewport_size({"width": 1400, "height": 900})
    for path in index.parent.glob("*-*.html"):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollHeight") <= 3700, path.name


def test_a_link_to_a_claim_unfolds_it_and_its_effects_are_drawn(chromium: Any, site: Path):
    watched = Watched(chromium)
    page = watched.open(site / "index.html")
    page.evaluate(UNFOLD)
    page.locator('.finding .id[href$="LN-F1b"]').click()
    page.wait_for_selector("#LN-F1b > details[open]")
    claim = page.locator("#LN-F1b")
    assert page.locator(".claim > details[open]").count() == 1
    dot, zero = (claim.locator(f".forest .{name}").first.bounding_box() for name in ("dot", "zero"))
    ratio = float(claim.locator("td.value").first.inner_text().split()[0])
    assert dot and zero and ratio != 1 and (dot["x"] + 4 > zero["x"]) == (ratio > 1)  # never mirrored
    assert claim.locator(".sides").first.inner_text().split() == ["←", "better", "worse", "→"]
    assert watched.messages == []


def test_claims_are_filtered_by_text_and_verdict_with_the_keyboard_alone(chromium: Any, site: Path):
    watched = Watched(chromium)
    page = watched.open(site / "index.html")
    verdicts = json.loads((site / "ln2016-fig6-paper" / "verdicts.json").read_text())["claims"]
    visible = page.locator(".finding:visible .id")
    for _ in range(20):  # from link to link
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "search":
            break
    page.keyboard.type("LN-F4")
    assert visible.all_inner_texts() == ["LN-F4"]
    assert page.locator(".shown").inner_text() == f"1 of {len(verdicts)} claims"
    (claim,) = (claim for claim in verdicts if claim["id"] == "LN-F4")
    for words, finds in (
        ("permutation-invariant", True),  # of the page's title
        (claim["quote"], True),
        ("learning rate", True),  # an open choice
        ("lr-high", True),
        ("n-f", True),
        ("LN-F", True),
        ("128", True),
        ("28", False),
        ("12", False),
    ):
        page.keyboard.press("Control+A")
        page.keyboard.type(words)
        assert ("LN-F4" in visible.all_inner_texts()) == finds, words
    page.keyboard.press("Control+A")
    page.keyboard.type("nothing has this")
    assert visible.count() == 0 and page.locator(".paper:visible, .effects:visible").count() == 0
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Tab")
    word = page.evaluate("document.activeElement.value")
    page.keyboard.press("Space")
    words = page.locator(".finding:visible").evaluate_all("all => all.map((e) => e.dataset.word)")
    assert words and set(words) == {word}
    page.keyboard.press("Space")
    assert page.locator(".shown:visible").count() == 0
    assert watched.messages == []


def test_the_keyboard_reads_the_meaning_of_a_word(chromium: Any, site: Path):
    page = Watched(chromium, width=400).open(site / "ln2016-fig6-paper.html")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("Boolean(document.activeElement.closest('.terms'))"):
            break
    shown, title = page.evaluate(
        "[getComputedStyle(document.activeElement, '::after').content, document.activeElement.title]"
    )
    assert title and json.loads(shown) == title
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html#*")
    assert page.locator(".glossary > :target dd").inner_text() == title


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """A server that a page could ask, and what it was asked: a browser also tells of requests that it refuses."""
    asked = []

    class Asked(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_samples_draw_and_do_nothing_else(chromium: Any, tmp_path: Path, elsewhere: tuple[str, list[str]]):
    server, asked = elsewhere
    madeup.published(tmp_path)
    madeup.drawn(tmp_path, server)
    watched = Watched(chromium, width=400)
    page = watched.open(report.build(tmp_path).index.with_name("ln2016-fig6-paper.html"))
    page.evaluate(UNFOLD)
    page.locator("iframe").scroll_into_view_if_needed()
    assert page.frame_locator("iframe").get_by_text("drawn").inner_text().startswith("drawn")
    page.wait_for_function("Array.from(document.querySelectorAll('.gallery img')).every((e) => e.naturalWidth === 9)")
    assert page.evaluate("window.pwned") is None
    # the browser tells what it refused, and nothing else is said
    assert watched.messages and all(
        re.search("blocked|violates|not allowed", line, re.IGNORECASE) for line in watched.messages
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert asked == []
    page.goto(server)
    assert asked[0] == "/"  # so it would have been seen


def test_without_scripts_the_published_figure_is_there(chromium: Any, site: Path):
    page = Watched(chromium, scripts=False).open(site / "ln2016-fig6-paper.html")
    assert page.locator("noscript img").count() == 1 and not page.locator(".controls").is_visible()


def test_the_page_of_a_battery_answers_before_it_draws(chromium: Any, tmp_path: Path) -> None:
    """The answer is in the first screen; figures are drawn where they are unfolded; no text is faint or cut."""
    words = ("--norm", "rms", "--only", "ln2016/online", "--seeds", "1", "--results", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["battery", *words])
    assert not ended.value.code
    place = tmp_path / "battery" / "rms" / "page" / "index.html"
    watched = Watched(chromium)
    page = watched.open(place)
    answer = page.get_by_text("against layer: better in 0, worse in 0, undecided in 0 of 1 experiment; not yet in 1")
    assert answer.bounding_box()["y"] < 300 and page.locator(".panel .main-svg").count() == 0
    page.get_by_role("link", name="The online regime").click()
    page.wait_for_function("document.querySelectorAll('.panel .main-svg').length >= 12")  # 3 a panel
    page.uncheck('[data-arm="layer"]')
    visible = {t["arm"] for t in watched.traces() if t["visible"]}
    assert visible == {"rms", "none"}
    assert watched.messages == [] and all(url.startswith("file://") for url in watched.asked)
    for scheme in ("light", "dark"):
        for width in (1400, 400):
            page = Watched(chromium, scheme).open(place)
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(UNFOLD)
            assert page.evaluate(FAINT)["faint"] == [] and page.evaluate(WIDE) == [], (scheme, width)


def test_the_list_of_pages_closes_with_escape(chromium: Any, site: Path):
    watched = Watched(chromium)
    page = watched.open(site / "ln2016-fig6-paper.html")
    page.locator(".menu > summary").click()
    page.locator(".sheet a").first.focus()
    page.keyboard.press("Escape")
    assert page.locator(".menu").get_attribute("open") is None
    assert page.evaluate("document.activeElement.parentNode.className") == "menu" and watched.messages == []
    named = page.evaluate("() => [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert "Zoom" in named and not any("hare" in name for name in named), "Plotly would send it to its maker"
