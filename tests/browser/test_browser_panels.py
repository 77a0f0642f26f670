"""Several panels of a comparison at once: chosen, pointed at, zoomed, returned to by link, and in a shared file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import compared
import pytest
from test_browser_dashboard import SHOWN, asked_now, opened, published, until
from watched import Watched

from normbench.web import share

pytestmark = pytest.mark.browser
PANELS = "panels=valid:error|valid:nll|test:nll"
PLOTS = "[...document.querySelectorAll('#panels .plot')]"
AXES = f"""letter => {PLOTS}.map(plot => {{
  const axis = plot._fullLayout[`${{letter}}axis`];
  return axis.range.map(end => (axis.type === 'log' ? 10 ** end : end));
}})"""
DRAWN = f"() => {PLOTS}.filter(p => p.querySelector('.main-svg')).length"
FOUR = f"() => ({DRAWN})() === 4"


@pytest.fixture(scope="module")
def address(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    results = tmp_path_factory.mktemp("results")
    published(results, [replace(run, id=f"{0xA11 + i:012x}") for i, run in enumerate(compared.runs())])
    found: str = serve(results)
    return found


def each(page: Any, script: str) -> list[Any]:
    """What a script gives for each plot."""
    return list(page.evaluate(f"() => {PLOTS}.map({script})"))


def dragged(page: Any, plot: Any, horizontally: tuple[float, float], vertically: tuple[float, float]) -> None:
    """Draw a box between these shares of the plot's width and height."""
    plot.scroll_into_view_if_needed()
    box = plot.locator(".nsewdrag").bounding_box()
    places = [
        (box["x"] + x * box["width"], box["y"] + y * box["height"])
        for x, y in zip(horizontally, vertically, strict=True)
    ]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=5)
    page.mouse.up()


def test_panels_are_chosen_by_keys_closed_and_returned_to(chromium: Any, address: str):
    it = opened(chromium, address)
    assert it.page.evaluate(DRAWN) == 1 and it.page.get_by_role("button", name="Close").count() == 0
    it.page.locator("#panels-menu summary").focus()
    it.page.keyboard.press("Enter")
    box = it.page.get_by_role("checkbox", name="valid NLL")
    box.focus()
    it.page.keyboard.press("Space")
    until(it.page, f"() => ({DRAWN})() === 2")
    assert box.is_checked() and it.page.evaluate("document.activeElement.dataset.panel") == "valid:nll"
    own = it.page.get_by_role("checkbox", name="test error")
    assert own.is_checked() and own.is_disabled()
    it.page.get_by_role("checkbox", name="test NLL").check()
    until(it.page, f"() => ({DRAWN})() === 3")
    assert asked_now(it.page)["panels"] == "valid:nll|test:nll"
    it.page.keyboard.press("Escape")
    assert it.page.evaluate("document.activeElement.innerText") == "Panels"
    assert it.page.locator("#panels h2").all_inner_texts() == ["test error", "valid NLL", "test NLL"]
    assert it.page.get_by_role("figure", name="valid NLL").count() == 1
    it.page.get_by_role("button", name="Close valid NLL").click()
    until(it.page, f"() => ({DRAWN})() === 2")
    it.page.go_back()
    until(it.page, f"() => ({DRAWN})() === 3")
    it.page.get_by_role("button", name="batch", exact=True).click()  # hides a curve of all
    means = "plot => plot.data.filter(t => t.meta.role === 'mean').length"
    assert each(it.page, means) == [2, 2, 2] and it.messages == []


def test_a_zoom_is_shared_in_x_and_in_the_address(chromium: Any, address: str):
    it = opened(chromium, address, PANELS)
    until(it.page, FOUR)
    before = {letter: it.page.evaluate(AXES, letter) for letter in "xy"}
    assert len({tuple(ends) for ends in before["x"]}) == 1
    dragged(it.page, it.page.locator("#panels .plot").nth(2), (0.25, 0.75), (0.2, 0.8))
    until(it.page, "() => location.search.includes('zoom=')")
    after = {letter: it.page.evaluate(AXES, letter) for letter in "xy"}
    for ends in after["x"]:
        assert ends == pytest.approx(after["x"][0]) and 3 < ends[0] < 7 and 13 < ends[1] < 17
    changed = [a != pytest.approx(b) for a, b in zip(after["y"], before["y"], strict=True)]
    assert changed == [False, False, True, False]
    it.page.locator("#switch-seeds").click()  # drawn anew
    assert it.page.evaluate(AXES, "x")[0] == pytest.approx(after["x"][0])
    again = opened(chromium, address, it.page.url.partition("?")[2])
    until(again.page, FOUR)
    for letter in "xy":
        for ends, there in zip(again.page.evaluate(AXES, letter), after[letter], strict=True):
            assert ends == pytest.approx(there, rel=1e-4)
    again.page.get_by_label("log x").check()
    assert again.page.evaluate(AXES, "x")[1] == pytest.approx(after["x"][0], rel=1e-4)
    again.page.get_by_role("button", name="Reset zoom").click()
    assert again.page.evaluate(AXES, "y") == before["y"] and "zoom" not in asked_now(again.page)
    assert again.page.locator("#unzoom").is_hidden()
    it.page.locator("#panels .nsewdrag").nth(2).dblclick()
    until(it.page, "() => !location.search.includes('zoom=')")
    assert it.page.evaluate(AXES, "x") == before["x"]
    dragged(it.page, it.page.locator("#panels .plot").nth(0), (0.2, 0.6), (0.2, 0.8))
    until(it.page, "() => location.search.includes('zoom=')")
    it.page.select_option("#choice-x", "step")
    until(it.page, "() => document.getElementById('plot-curves').layout.xaxis.title.text === 'Updates'")
    assert it.page.evaluate(AXES, "x")[3] == [0, 200] and it.messages == [] and again.messages == []


def test_a_plot_of_the_answer_is_zoomed_by_itself(chromium: Any, serve: Any, tmp_path: Path):
    runs = [run for lr in (1e-3, 1e-2) for run in compared.runs(seeds=2, lr=lr)]
    published(tmp_path, [replace(run, id=f"{0xC0C0 + i:012x}") for i, run in enumerate(runs)])
    it = opened(chromium, serve(tmp_path))
    ends = "() => document.getElementById('plot-sensitivity')._fullLayout.xaxis.range"
    before = it.page.evaluate(ends)
    dragged(it.page, it.page.locator("#plot-sensitivity"), (0.2, 0.6), (0.2, 0.8))
    until(it.page, f"() => String(({ends})()) !== '{','.join(map(str, before))}'")
    assert "zoom" not in asked_now(it.page)
    it.page.locator("#plot-sensitivity .nsewdrag").dblclick()
    until(it.page, f"() => String(({ends})()) === '{','.join(map(str, before))}'")
    assert it.messages == []


@pytest.mark.parametrize("asked", ["", "rate=all"])
def test_one_cursor_for_all_panels(chromium: Any, serve: Any, tmp_path: Path, asked: str):
    """With many curves hovering tells one: the other panels tell the same."""
    rates = (1e-3, 2e-3, 5e-3, 1e-2, 2e-2) if asked else (1e-3,)
    runs = [run for lr in rates for run in compared.runs(seeds=2, lr=lr)]
    published(tmp_path, [replace(run, id=f"{0xB0B0 + len(rates) * 100 + i:012x}") for i, run in enumerate(runs)])
    it = opened(chromium, serve(tmp_path), f"{PANELS}&{asked}")
    until(it.page, FOUR)
    place = """plot => {
      const {xaxis, yaxis} = plot._fullLayout, mean = plot.data.find(t => t.meta.role === 'mean');
      return [xaxis._offset + xaxis.d2p(mean.x[10]), yaxis._offset + yaxis.d2p(mean.y[10])];
    }"""
    box = it.page.locator("#panels .plot").nth(1).bounding_box()
    x, y = each(it.page, place)[1]
    it.page.mouse.move(box["x"] + x, box["y"] + y)
    lines = f"""() => {PLOTS}.map(plot => plot.querySelector('.spikeline')
      && Number(plot.querySelector('.spikeline').getAttribute('x1')) - plot._fullLayout._size.l)"""
    until(it.page, f"() => ({lines})().every(place => place !== null)")
    places = it.page.evaluate(lines)
    assert places == pytest.approx([places[0]] * 4, abs=3) and places[0] > 50
    curves = each(it.page, "plot => [...new Set(plot._hoverdata.map(d => d.data.name))]")
    assert all(names == curves[0] for names in curves) and len(curves[0]) == (1 if asked else 3)
    assert all("epoch 10" in text for text in each(it.page, "plot => plot.querySelector('.hoverlayer').textContent"))
    names = each(it.page, "plot => [...plot.querySelectorAll('.hoverlayer .name')].map(e => e.textContent).join('')")
    assert set(names) == {""}  # beside the box it would be without a ground
    assert not asked or "none · lr=0.001" in it.page.locator("#plot-curves .hoverlayer .nums").text_content()
    it.page.mouse.move(5, 5)
    until(it.page, "() => !document.querySelector('#panels .spikeline')")
    assert it.messages == []


def test_each_panel_is_saved_as_a_picture_and_all_as_a_table(chromium: Any, address: str, tmp_path: Path):
    it = opened(chromium, address, PANELS)
    until(it.page, FOUR)

    def saved(name: str, page: Any) -> tuple[str, bytes]:
        with page.expect_download() as download:
            page.get_by_text(name, exact=True).or_(page.get_by_label(name, exact=True)).click()
        download.value.save_as(tmp_path / "saved")
        return download.value.suggested_filename, (tmp_path / "saved").read_bytes()

    name, picture = saved("PNG valid NLL", it.page)
    assert name == "curves-valid-nll.png" and picture.startswith(b"\x89PNG") and len(picture) > 10_000
    name, picture = saved("SVG test error", it.page)
    text = picture.decode()
    assert name == "curves-test-error.svg" and text.count('class="legendtext"') == 3 and "test error, %" in text
    it.page.locator("#share summary").click()
    assert it.page.locator("#share-svg").is_hidden()  # each panel has its own
    alone = opened(chromium, address)
    alone.page.locator("#share summary").click()
    assert saved("PNG of the curves", alone.page)[0] == "curves-test-error.png"
    alone.page.locator("#share summary").click()  # saving a picture closes the menu
    name, whole = saved("PDF, one column of a paper (3.25 in)", alone.page)
    assert name == "normbench-curves.pdf" and b"/MediaBox [ 0 0 234 " in whole
    alone.page.get_by_role("group", name="arms").get_by_role("button").first.click()
    alone.page.locator("#share summary").click()
    assert len(saved("PDF, one column of a paper (3.25 in)", alone.page)[1]) < len(whole), "of one arm less"
    assert it.messages == [] and alone.messages == []


def test_a_shared_file_has_the_panels(chromium: Any, tmp_path: Path):
    runs = compared.runs()
    place = tmp_path / "panels.html"
    query = {"panels": "valid:error|valid:nll|test:nll", "zoom": "x,4,12", "level": "5"}
    place.write_bytes(share.share(compared.heads(runs), compared.loader(runs), query))
    alone = Watched(chromium)
    alone.page.goto(place.as_uri())
    until(alone.page, SHOWN)
    until(alone.page, FOUR)
    assert alone.page.evaluate(AXES, "x") == [[4, 12]] * 4
    assert each(alone.page, "plot => plot.data.some(t => t.meta.role === 'level')") == [True, False, False, False]
    assert alone.page.locator("#panels-menu").is_hidden() and alone.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 1000, 400])
def test_no_panel_is_cut_or_pale_or_wider_than_the_page(chromium: Any, address: str, width: int, scheme: str):
    it = opened(chromium, address, f"{PANELS}&zoom=x,4,12", width=width, scheme=scheme)
    until(it.page, FOUR)
    it.page.locator("#panels-menu summary").click()
    assert it.page.evaluate("document.documentElement.scrollWidth") <= width
    it.page.evaluate((Path(__file__).parent / "looks.js").read_text())
    for flaw in ("pale", "cut", "crossed"):
        assert it.page.evaluate(f"looks.{flaw}()") == []
    menu = it.page.locator("#panels-choice").bounding_box()
    assert menu["x"] >= 0 and menu["x"] + menu["width"] <= width
    heights = each(it.page, "plot => [plot.clientHeight, plot._fullLayout.height]")
    assert all(height > 200 and drawn == pytest.approx(height, abs=1) for height, drawn in heights)
    assert it.messages == []
    it.page.context.close()


def test_points_and_parallel_coordinates_in_place_of_curves(chromium: Any, serve: Any, tmp_path: Path):
    sweep = [run for lr in (1e-3, 1e-2) for run in compared.runs(lr=lr)]
    published(tmp_path, [replace(run, id=f"{0xB22 + i:012x}") for i, run in enumerate(sweep)])
    link = serve(tmp_path)
    it = opened(chromium, link, "panels=valid%3Anll&zoom=x%2C4%2C12")
    until(it.page, f"() => ({DRAWN})() === 2")
    it.page.get_by_label("plot", exact=False).first.select_option("points by optim.lr")
    roles = "() => document.getElementById('plot-curves').data.map(t => t.meta.role).sort().join()"
    until(it.page, f"() => ({roles})() === '{','.join(['point'] * 6 + ['run'] * 6)}'")
    assert it.page.evaluate(DRAWN) == 1 and asked_now(it.page)["plot"] == "optim.lr"
    assert not it.page.get_by_label("log y").is_visible() and not it.page.locator("#panels-menu").is_visible()
    it.page.get_by_role("button", name="layer", exact=True).click()
    assert it.page.evaluate("document.getElementById('plot-curves').data.length") == 8
    it.page.select_option("#choice-plot", "parallel coordinates")
    until(it.page, "() => document.getElementById('plot-curves').data.every(t => t.x.length === 3)")
    assert it.page.evaluate("document.getElementById('plot-curves').data.length") == 4
    it.page.locator("#table .row.cell").nth(0).hover()
    strong = "() => document.querySelectorAll('#plot-curves .scatterlayer > .trace:not(.aside)').length"
    until(it.page, f"() => ({strong})() === 1")
    again = opened(chromium, link, urlsplit(it.page.url).query)
    assert again.page.locator("#choice-plot").input_value() == "parallel coordinates"
    it.page.select_option("#choice-plot", "")
    until(it.page, f"() => ({DRAWN})() === 2")
    assert it.page.evaluate(AXES, "x") == [[4, 12]] * 2 and it.messages == []
