"""The dashboard as it is used: filtered, read closely, by keys, in many tabs, and while its server goes and comes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import compared
import pytest
from test_browser_dashboard import LOADED, LOADING, ROLES, SHOWN, asked_now, opened, published, roles, stored, until
from watched import Watched

from normbench.files import locks
from normbench.web.index import Index
from normbench.web.marks import Marks

pytestmark = pytest.mark.browser
uvicorn = pytest.importorskip("uvicorn")


class Served:
    """A results folder behind a port that stays the same while servers go and come."""

    def __init__(self, results: Path) -> None:
        self.results = results
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self, token: str = "first") -> str:
        from normbench.web.server import app

        index = Index(self.results)
        index.refresh()
        made = app(index, token)
        self.server = uvicorn.Server(uvicorn.Config(made, port=self.port, log_level="critical"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.port}/?token={token}"

    def stop(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(10)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    sweep = [run for lr in (1e-3, 1e-2) for run in compared.runs(lr=lr)]
    published(tmp_path, [replace(run, id=f"{0xABC000 + i:012x}") for i, run in enumerate(sweep)])
    it = Served(tmp_path)
    yield it
    it.stop()


def filtered(page: Any, words: str) -> None:
    page.locator("#filter").fill(words)
    page.keyboard.press("Enter")


def test_a_filter_is_typed_reported_where_it_fits_nothing_and_undone(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    arms = "() => [...document.querySelectorAll('#arms button')].map(b => b.innerText)"
    assert it.page.evaluate(arms) == ["none", "batch", "layer"]
    filtered(it.page, "norm=layer,none optim.lr=1e-2")
    until(it.page, f"() => ({arms})().join() === 'none,layer'")
    assert asked_now(it.page)["filter"] == "norm=layer,none optim.lr=1e-2" and it.page.locator("#trouble").is_hidden()
    filtered(it.page, "norm=layr")
    until(it.page, "() => !document.getElementById('trouble').hidden")
    assert it.page.locator("#trouble").inner_text().startswith("Not applied: norm=layr: no run here has norm=layr")
    assert "Did you mean 'layer'?" in it.page.locator("#trouble").inner_text()
    it.page.go_back()
    until(it.page, "() => document.getElementById('trouble').hidden")
    assert it.page.locator("#filter").input_value() == "norm=layer,none optim.lr=1e-2"
    it.page.go_back()
    until(it.page, f"() => ({arms})().join() === 'none,batch,layer'")  # in their order again
    assert it.page.locator("#filter").input_value() == "" and it.messages == []
    filtered(it.page, "000000abc000")
    until(it.page, "() => document.querySelector('#task option').innerText.endsWith(' · 1 run')")
    assert "single runs" in it.page.locator("#sentence").inner_text()


def test_a_level_that_is_no_number_is_reported_above_everything(chromium: Any, served: Served):
    it = opened(chromium, served.start(), "level=abc")
    assert "level=abc" in it.page.locator("#trouble").inner_text() and it.page.locator("#trouble").is_visible()
    it.page.locator("#choice-level").fill("5")
    it.page.keyboard.press("Enter")
    until(it.page, "() => document.getElementById('trouble').hidden")


def test_a_logarithmic_x_axis_leaves_out_where_it_has_no_place(chromium: Any, served: Served):
    it = opened(chromium, served.start(), "x=step")
    axis = "() => (({type, range}) => ({type, range}))(document.getElementById('plot-curves')._fullLayout.xaxis)"
    before = it.page.evaluate(axis)
    it.page.get_by_label("log x").check()
    now = it.page.evaluate(axis)
    assert now["type"] == "log" and now["range"] == pytest.approx([1.0, 2.30103])  # 10 to 200 updates
    assert asked_now(it.page)["logx"] == "1"
    it.page.get_by_label("log x").uncheck()
    assert it.page.evaluate(axis) == before and it.messages == []


def test_of_many_cells_each_arm_is_first_drawn_at_its_best_rate(chromium: Any, served: Served, tmp_path: Path):
    """15 cells: five curves with bands; all of them, where somebody asks, and bands then too only if asked for."""
    it = opened(chromium, served.start())

    def drawn() -> tuple[int, int]:
        counted = [role for role, _ in roles(it.page)]
        return counted.count("mean"), counted.count("band")

    assert drawn() == (6, 6) and not it.page.get_by_label("best rate").is_checked()
    assert it.page.get_by_title("Each arm at its best learning rate by valid NLL alone").is_visible()
    it.page.get_by_label("best rate").check()
    until(it.page, f"() => ({ROLES})().filter(([role]) => role === 'mean').length === 3")
    norms = ("none", "batch", "layer", "rms", "group")
    sweep = [run for lr in (1e-3, 1e-2, 1e-1) for run in compared.runs(norms, 3, lr=lr)]
    published(tmp_path / "many", [replace(run, id=f"{0xABC000 + i:012x}") for i, run in enumerate(sweep)])
    served.stop()
    served.results = tmp_path / "many"
    it = opened(chromium, served.start("second"))
    assert drawn() == (5, 5) and it.page.get_by_label("best rate").is_checked()
    assert it.page.locator("#table .row.cell.muted").count() == 10
    it.page.get_by_label("best rate").uncheck()
    assert drawn() == (15, 0) and not it.page.get_by_label("95 % band").is_checked()
    it.page.get_by_label("95 % band").check()
    assert drawn() == (15, 15)
    assert {asked_now(it.page)[key] for key in ("band", "rate")} == {"1", "all"} and it.messages == []


def test_what_is_switched_off_still_counts_and_what_is_hidden_does_not(chromium: Any, served: Served):
    Marks(served.results).hide(["000000abc000", "000000abc001"], True)
    it = opened(chromium, served.start())
    assert it.page.locator("#live").inner_text() == "28 done · 2 hidden"
    before = it.page.locator("#sentence strong").inner_text()
    said = it.page.get_by_text("count what is switched off too. A filter leaves runs out.")
    assert said.count() == 0
    it.page.get_by_role("button", name="layer", exact=True).click()
    assert said.is_visible() and it.page.locator("#sentence strong").inner_text() == before
    it.page.get_by_role("button", name="layer", exact=True).click()
    caption = it.page.locator("#caption")
    assert said.count() == 0 and "n = 3 to 5." in caption.inner_text()
    it.page.get_by_role("button", name="none", exact=True).click()
    assert "n = 5." in caption.inner_text() and it.messages == []


def test_the_caption_names_the_bands_that_are_drawn(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    caption = it.page.locator("#caption")
    assert caption.inner_text() == "Means over all seeds of a cell. n = 5. Bands: 95 % intervals."
    it.page.get_by_label("95 % band").uncheck()
    assert caption.inner_text() == "Means over all seeds of a cell. n = 5."
    filtered(it.page, "seed=1-2")
    until(it.page, "() => document.getElementById('caption').innerText.includes('n = 2')")
    it.page.get_by_label("95 % band").check()
    assert "Bands" not in caption.inner_text() and it.messages == []


def test_one_arm_alone_by_keys(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    it.page.get_by_role("button", name="layer", exact=True).focus()
    it.page.keyboard.press("Shift+Enter")
    assert asked_now(it.page)["off"] == "none|batch" and [r for r, _ in roles(it.page)].count("mean") == 2
    it.page.keyboard.press("Shift+Enter")
    assert "off" not in asked_now(it.page) and it.messages == []


def test_a_run_is_shown_with_its_configuration_and_place_to_copy(chromium: Any, served: Served):
    path = stored(served.results, replace(compared.run("rms", 1), id="d" * 12))
    it = opened(chromium, served.start(), f"run={'d' * 12}")
    it.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    it.page.locator("#run summary").click()
    assert "norm.name=rms\noptim.name=adam\noptim.lr=0.001\n" in it.page.locator("#run .options").inner_text()
    it.page.get_by_role("button", name="Copy the place").click()
    it.page.get_by_role("button", name="Copied").wait_for()
    assert it.page.evaluate("navigator.clipboard.readText()") == str(path) and it.messages == []
    said = "() => document.querySelector('#run .caption').innerText"
    until(it.page, f"() => ({said})() === 'run {'d' * 12} · interrupted · update 200 of 200'")
    it.page.goto(it.page.url.replace("d" * 12, "000000abc000"))
    until(it.page, SHOWN)
    until(it.page, f"() => ({said})() === 'run 000000abc000 · done · 200 updates'")


def test_a_copied_link_opens_this_view_in_another_browser(chromium: Any, served: Served):
    it = opened(chromium, served.start(), "smooth=0.5&off=batch")
    it.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    it.page.locator("#share summary").click()
    it.page.get_by_role("button", name="Copy link").click()
    it.page.get_by_role("button", name="Copied").wait_for()
    other = opened(chromium, it.page.evaluate("navigator.clipboard.readText()"))
    assert other.page.url == it.page.url and "off=batch" in other.page.url
    assert it.messages == [] and other.messages == []


def test_the_sentence_of_the_verdict_is_copied_whole(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    it.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    it.page.locator("#sentence").get_by_role("button", name="Copy").click()
    it.page.locator("#sentence").get_by_role("button", name="Copied").wait_for()
    copied = it.page.evaluate("navigator.clipboard.readText()")
    place, sentence = (it.page.locator(f"#sentence {part}").inner_text() for part in ("small", "strong"))
    assert (
        copied.startswith(f"{place}: {sentence}")
        and not copied.endswith(" ")
        and "Copy" not in copied
        and it.messages == []
    )


def test_the_runs_of_a_task_are_filtered_by_each_word_once(chromium: Any, served: Served):
    it = opened(chromium, served.start(), "filter=model%3Dmnist_mlp+norm%3Dlayer")
    words = parse_qs(urlsplit(it.page.locator("#to-runs").get_attribute("href")).query)["filter"][0].split()
    assert len(words) == len({*words}) and {"model=mnist_mlp", "norm=layer", "data=digits"} <= {*words}


@pytest.mark.parametrize("width", [400, 1400])
def test_no_choice_is_cut_off_in_its_box(width: int, chromium: Any, served: Served):
    it = opened(chromium, served.start(), "at=best&metric=nll", width=width)
    cut_off = """() => [...document.querySelectorAll('#choices select')].filter(e => e.checkVisibility()).filter(e => {
        const text = e.selectedOptions[0].label, pen = document.createElement('canvas').getContext('2d');
        pen.font = getComputedStyle(e).font;
        return pen.measureText(text).width + 30 > e.clientWidth;
    }).map(e => e.id)"""
    assert it.page.locator("#choice-at").input_value() == "best" and it.page.evaluate(cut_off) == []


def test_y_is_over_what_is_shown_and_its_logarithmic_ticks_follow_a_zoom(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    top = "() => document.getElementById('plot-curves').layout.yaxis.range[1]"
    before = it.page.evaluate(top)
    for label in ("none", "0.001"):
        it.page.get_by_role("button", name=label, exact=True).click()
    until(it.page, f"() => ({top})() < {before} - 1")
    it.page.get_by_label("log y").check()
    ticks = "() => [...document.querySelectorAll('#plot-curves .ytick text')].map(e => Number(e.textContent))"
    until(it.page, f"() => ({ticks})().length > 3")
    it.page.evaluate("() => Plotly.relayout('plot-curves', {'yaxis.range': [Math.log10(5), Math.log10(8)]})")
    until(it.page, f"() => ({ticks})().length > 2 && ({ticks})().every(tick => tick >= 5 && tick <= 8)")
    assert it.messages == []


def test_text_in_the_table_can_be_selected(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    box = it.page.locator("#table .row.cell .number").first.bounding_box()
    it.page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    it.page.mouse.down()
    it.page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    it.page.mouse.up()
    assert "[" in it.page.evaluate("getSelection().toString()")
    assert it.page.locator("#table .row.seed").count() == 0, "the row stays closed"
    it.page.locator("#table .row.cell .name").first.click()
    assert it.page.locator("#table .row.seed").count() == 5


def test_a_server_that_ends_is_reported_and_one_that_comes_back_is_found(chromium: Any, served: Served):
    link = served.start()
    it = opened(chromium, link)
    it.page.wait_for_timeout(300)  # it listens
    served.stop()
    until(it.page, "() => document.getElementById('trouble').innerText.includes('does not answer')")
    assert "What is shown is of" in it.page.locator("#trouble").inner_text()
    served.start()  # with the token of before, which the page has
    until(it.page, "() => document.getElementById('trouble').hidden", 15.0)
    served.stop()
    until(it.page, "() => !document.getElementById('trouble').hidden")
    link = served.start("second")  # as normbench dashboard does
    until(it.page, "() => document.getElementById('trouble').innerText.includes('Open the link')", 15.0)
    other = it.page.context.new_page()
    other.goto(link)
    until(other, SHOWN)
    it.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # as on coming back to this tab
    until(it.page, "() => document.getElementById('trouble').hidden")


def test_tabs_that_nobody_sees_hold_no_connection(chromium: Any, served: Served):
    """A browser has six for a server; the seventh page would wait for ever."""
    link = served.start()
    context = chromium.new_context()
    context.add_init_script(
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => window.unseen === true})"
    )
    tabs = []
    for _ in range(8):
        page = context.new_page()
        page.goto(link, timeout=10_000)
        until(page, SHOWN)
        page.evaluate("window.unseen = true; document.dispatchEvent(new Event('visibilitychange'))")
        tabs.append(page)
    stored(served.results, replace(compared.run("rms", 1), id="c" * 12))
    tabs[0].evaluate("window.unseen = false; document.dispatchEvent(new Event('visibilitychange'))")
    until(tabs[0], "() => [...document.querySelectorAll('#arms button')].some(b => b.innerText === 'rms')")
    context.close()


def test_what_plotly_sends_to_its_maker_is_not_offered(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    named = it.page.evaluate("() => [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert "Zoom" in named and not any("hare" in name for name in named)


def test_the_parts_of_the_page_have_names_for_those_who_hear_it(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    for name in ("test error at the end, %", "differences from the baseline", "by learning rate"):
        assert it.page.get_by_role("figure", name=name, exact=True).count() == 1
    unnamed = """() => [...document.querySelectorAll('button, select, input')].filter(e => e.checkVisibility()
      && !(e.ariaLabel || e.innerText.trim() || (e.labels && e.labels.length) || e.dataset.title))
      .map(e => e.outerHTML)"""
    assert it.page.evaluate(unnamed) == [] and it.messages == []


def test_paper_has_all_of_the_page(chromium: Any, served: Served):
    watched = Watched(chromium, width=720)
    watched.page.goto(served.start())
    until(watched.page, SHOWN)
    for place in reversed(range(6)):  # the last first: what is out of sight is not in the page
        watched.page.locator("#table .row.cell").nth(place).click()
    table = watched.page.locator("#table .view")
    assert table.evaluate("e => e.scrollHeight > e.clientHeight")  # on the screen it scrolls
    watched.page.emulate_media(media="print")
    assert watched.page.locator("#share").is_hidden() and watched.page.locator("#filter").is_hidden()
    assert table.evaluate("e => e.scrollHeight <= e.clientHeight") and watched.messages == []
    assert watched.page.evaluate("getComputedStyle(document.body).overflow") == "visible"


def test_the_curves_of_the_row_that_is_pointed_at_stand_out(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    strong = """() => [...new Set([...document.querySelectorAll('#plot-curves .scatterlayer > .trace')]
      .filter(e => getComputedStyle(e).opacity > 0.2).map(e => e.__data__[0].trace.meta.arm).filter(Boolean))].length"""
    assert it.page.evaluate(strong) == 6
    it.page.locator("#table .row.cell").nth(2).hover()
    assert it.page.evaluate(strong) == 1
    it.page.get_by_label("log y").check()  # drawn anew; the pointer has left
    until(it.page, f"() => ({strong})() === 6")
    it.page.locator("#table [data-row]").first.focus()
    it.page.keyboard.press("ArrowDown")
    assert it.page.evaluate(strong) == 1
    it.page.keyboard.press("Shift+Tab")
    assert it.page.evaluate(strong) == 6 and it.messages == []


def test_a_live_sweep_is_opened_and_its_progress_shown_and_the_page_stays_with_it(chromium: Any, served: Served):
    """Where another task begins meanwhile, this page stays; a new one opens there."""
    begun = [replace(compared.run("rms", seed, name="wine"), id=f"{seed:x}" * 12, records=[]) for seed in (1, 2, 3)]
    for run in begun:
        stored(served.results, run, "interrupted" if run.seed == 1 else "running")
    with contextlib.ExitStack() as stack:
        for path in served.results.glob("runs/adhoc/*.s[23].*"):
            stack.enter_context(locks.held(path))
        it = opened(chromium, served.start(), ready=LOADED)
        assert it.page.locator("#task option:checked").inner_text().startswith("mnist_mlp on wine, ")
        assert it.page.locator("#live").inner_text() == "0 of 3 done · 2 running · 1 interrupted"
        progress = it.page.locator("#progress")
        assert progress.get_attribute("value") == "1" and progress.get_attribute("max") == "3"
        assert "task" in asked_now(it.page), "a link to this page leads to this task"
        bar = it.page.locator(".bar").bounding_box()
        it.page.evaluate("document.getElementById('live').textContent = 'many words of a status '.repeat(30)")
        assert it.page.locator(".bar").bounding_box() == bar, "nothing jumps where the status is long"
    it.page.reload()
    until(it.page, LOADED)
    assert it.page.locator("#task option:checked").inner_text().startswith("mnist_mlp on wine, ")
    assert it.page.locator("#progress").is_hidden() and it.messages == []


def test_loading_is_shown_until_the_curves_are_there(chromium: Any, served: Served):
    link = served.start()
    watched = Watched(chromium)
    held: list[Any] = []
    watched.page.route(
        "**/api/view*", lambda route: route.continue_() if "outline" in route.request.url else held.append(route)
    )
    watched.page.goto(link)
    until(watched.page, "() => document.querySelectorAll('#table [data-row]').length")
    assert watched.page.locator("#heading").inner_text() == "Loading the curves…"
    until(watched.page, LOADING)  # after .2 s
    counts = watched.page.locator("#table .row.cell .n")
    assert counts.all_inner_texts() == ["–"] * 6
    held[0].continue_()
    until(watched.page, SHOWN)
    assert counts.all_inner_texts() == ["5"] * 6
    assert watched.page.locator("#heading").inner_text() == "test error at the end, %"
    assert not watched.page.locator("#loading").is_visible() and watched.messages == []


def test_a_question_that_is_overtaken_takes_nothing_from_the_page(chromium: Any, served: Served):
    link = served.start()
    watched = Watched(chromium)
    outlines: list[Any] = []
    curves: list[Any] = []
    watched.page.route("**/api/view*", lambda r: (outlines if "outline" in r.request.url else curves).append(r))
    watched.page.goto(link)
    wait_for(watched.page, outlines, 1)
    back = "window.dispatchEvent(new PopStateEvent('popstate'))"
    watched.page.evaluate(back)
    wait_for(watched.page, outlines, 2)
    outlines[1].continue_()
    wait_for(watched.page, curves, 1)
    with watched.page.expect_response("**/api/view*"):
        outlines[0].continue_()  # the first answer comes last
    watched.page.evaluate(back)
    wait_for(watched.page, curves, 2)
    for route in curves:
        route.continue_()
    until(watched.page, SHOWN)
    assert len(outlines) == 2 and watched.messages == []
    assert watched.page.locator("script[src*=plotly]").count() == 1


def wait_for(page: Any, routes: list[Any], count: int) -> None:
    for _ in range(400):
        if len(routes) >= count:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{len(routes)} of {count} questions were asked")


def test_below_five_seeds_there_is_no_verdict_but_what_would_decide(chromium: Any, served: Served):
    it = opened(chromium, served.start(), "filter=seed%3D1-3+lr%3D1e-3")
    (strong,) = it.page.locator("#sentence strong").all_inner_texts()
    assert strong == "No verdict: fewer than 5 seeds."
    assert "The filter leaves out seeds 6, 7" in it.page.locator("#decide pre").inner_text()  # 4 and 5 are there
    it.page.goto(it.page.url.replace("1-3", "1-5"))
    until(it.page, SHOWN)
    assert "No verdict" not in it.page.locator("#sentence").inner_text() and it.messages == []


def test_titles_have_two_lines_and_three_groups_have_names(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    for name, label in (("Question", "Metric"), ("Filter", "filter of runs"), ("View", "smoothing")):
        assert it.page.get_by_role("group", name=name).get_by_label(label).count() == 1
    title = it.page.locator("#sentence strong")
    title.evaluate("e => { e.textContent = 'a winner with a very long name '.repeat(20); }")
    assert title.evaluate("e => Math.round(e.clientHeight / parseFloat(getComputedStyle(e).lineHeight))") == 2
    family = "e => getComputedStyle(e).fontFamily"
    for part in ("#choice-x", "#switch-smooth", "#plot-curves .xtick text"):  # the system's sans serif
        assert "system-ui" in it.page.locator(part).first.evaluate(family)
    numbers = "e => getComputedStyle(e).fontVariantNumeric"
    for part in ("#table .number", "#plot-curves .xtick text", "#live"):
        assert it.page.locator(part).first.evaluate(numbers) == "tabular-nums"
    assert it.messages == []


def test_hovering_names_the_place_and_a_level_is_drawn_where_it_is_set(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    drag = it.page.locator("#plot-curves .nsewdrag").first
    box = drag.bounding_box()
    it.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    until(it.page, "() => document.querySelector('#plot-curves .hoverlayer .legendtitletext')")
    assert it.page.locator("#plot-curves .hoverlayer .legendtitletext").text_content() == "epoch 10"
    it.page.locator("#switch-smooth").select_option("0.5")
    for side in (0.25, 0.75):
        it.page.mouse.move(box["x"] + box["width"] * side, box["y"] + box["height"] * 0.5)
        found = f"""() => {{
          const {{x, width}} = document.querySelector('#plot-curves .hoverlayer .legend').getBoundingClientRect();
          return (x + width / 2 > {box["x"] + box["width"] / 2}) === {str(side < 0.5).lower()};
        }}"""
        until(it.page, found)  # the box lies on the other side
    assert " smoothed" in it.page.locator("#plot-curves .hoverlayer .legend").text_content()
    means = "document.getElementById('plot-curves').data.filter(t => t.meta.role === 'mean')"
    filtered(it.page, "seed=1")  # one seed alone has another text
    until(it.page, f"() => {means}.every(t => !t.customdata && t.hovertemplate.endsWith(' smoothed'))")
    filtered(it.page, "")
    until(it.page, f"() => {means}.every(t => t.customdata && t.hovertemplate.endsWith(' smoothed'))")
    levels = f"() => ({ROLES})().filter(([role]) => role === 'level').length"
    assert it.page.evaluate(levels) == 0
    field = it.page.get_by_label("Level")
    assert field.input_value() == "" and field.get_attribute("placeholder").startswith("e.g. ")
    field.fill("5")
    field.press("Enter")
    until(it.page, f"() => ({levels})() === 1")
    assert "Dotted: 5 %" in it.page.locator("#caption").inner_text() and asked_now(it.page)["level"] == "5"
    assert it.page.locator("#speed th").all_inner_texts()[1] == "epochs to 5 %" and it.messages == []


def test_dashes_are_of_one_thing_that_the_filter_shows_and_a_reader_chooses(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    dashes = "t => t.meta.role === 'mean' ? [t.line.dash] : []"
    found = it.page.evaluate(f"() => document.getElementById('plot-curves').data.flatMap({dashes})")
    assert found == ["solid", "dash"] * 3
    marks = "id => [...document.querySelectorAll(`${id} .swatch line`)].map(e => e.getAttribute('stroke-dasharray'))"
    assert it.page.evaluate(marks, "#facets") == ["none", "6 3"] and it.page.evaluate(marks, "#arms") == ["none"] * 3


def test_menus_close_on_a_click_elsewhere(chromium: Any, served: Served):
    it = opened(chromium, served.start())
    for menu in ("#share", "#panels-menu"):
        it.page.locator(f"{menu} summary").click()
        assert it.page.locator(f"{menu} .ways").is_visible()
        it.page.locator("#heading").click()
        assert not it.page.locator(f"{menu} .ways").is_visible()
    assert it.messages == []
