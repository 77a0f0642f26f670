"""The page of a comparison in a real browser: from its server, under its policy, and as one file from file://."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import compared
import pytest
from watched import Watched

from normbench.runs import directory, files, pack
from normbench.runs.run import Run
from normbench.web import share

pytestmark = pytest.mark.browser
PUBLISHED = Path(__file__).resolve().parents[2] / "results"
SHOWN = (
    "() => document.body && !document.body.hasAttribute('aria-busy') "
    "&& document.querySelectorAll('#plot-curves .main-svg').length"
)
LOADED = "() => document.body && document.readyState === 'complete' && !document.body.hasAttribute('aria-busy')"
LOADING = "() => getComputedStyle(document.getElementById('loading')).visibility === 'visible'"
ROLES = "() => document.getElementById('plot-curves').data.map(t => [t.meta.role, t.meta.arm])"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e366"
    "0000000049454e44ae426082"
)


def until(page: Any, script: str, seconds: float = 10.0) -> Any:
    """What the script gives as soon as that is true; the page's policy forbids the waiting that evaluates texts."""
    end = time.monotonic() + seconds
    while not (found := page.evaluate(script)):
        assert time.monotonic() < end, f"not within {seconds} s: {script}"
        page.wait_for_timeout(20)
    return found


def published(results: Path, runs: list[Run]) -> None:
    place = results / "made" / "up" / "paper"
    place.mkdir(parents=True)
    pack.write(place / pack.NAME, runs)


def stored(results: Path, run: Run, status: str = "interrupted", output: str = "") -> Path:
    """The directory of a run that is not finished."""
    path = results / "runs" / "adhoc" / f"{run.arm}.s{run.seed}.{run.id}"
    path.mkdir(parents=True)
    labels = {"id": run.id, "experiment": "adhoc", "arm": run.arm, "control": "", "fidelity": "adhoc", "axes": {}}
    (path / "curve.jsonl").write_bytes(b"".join(files.line(record) for record in run.records))
    content = {"status": status, "epochs": run.epochs, "steps": run.steps, "step": 0, "reason": run.reason,
               **labels, "seed": run.seed, "config": dict(run.config), "environment": {}}  # fmt: skip
    directory.write_json(path, content)
    (path / "output.log").write_text(output)
    return path


@pytest.fixture(scope="module")
def address(serve: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    results = tmp_path_factory.mktemp("results")
    sweep = [run for lr in (1e-3, 1e-2) for run in compared.runs(lr=lr)]
    numbered = [replace(run, id=f"{i:012x}") for i, run in enumerate(sweep)]
    published(results, numbered)
    return serve(results)


def opened(browser: Any, address: str, query: str = "", ready: str = SHOWN, **how: Any) -> SimpleNamespace:
    watched = Watched(browser, **how)
    watched.page.goto(address + (f"&{query}" if query else ""))
    until(watched.page, ready, 40.0)  # the page asks for Plotly when it lists cells, and `goto` does not wait for it
    return SimpleNamespace(page=watched.page, messages=watched.messages, asked=watched.asked)


def roles(page: Any) -> list[list[str]]:
    return [list(found) for found in page.evaluate(ROLES)]


def asked_now(page: Any) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def test_arms_and_facets_hide_curves_and_change_no_number(chromium: Any, address: str):
    it = opened(chromium, address)
    numbers = it.page.locator("#table .row.cell .number").all_inner_texts()
    assert len(numbers) == 6 and [r for r, _ in roles(it.page)].count("mean") == 6
    it.page.get_by_role("button", name="batch", exact=True).click()
    assert [r for r, _ in roles(it.page)].count("mean") == 4
    it.page.get_by_role("button", name="0.01", exact=True).click()
    assert [r for r, _ in roles(it.page)].count("mean") == 2
    assert it.page.locator("#table .row.cell .number").all_inner_texts() == numbers
    assert set(asked_now(it.page)["off"].split("|")) == {"batch", "optim.lr=0.01"}
    it.page.get_by_role("button", name="layer", exact=True).dblclick()  # that alone
    assert {arm for role, arm in roles(it.page) if role == "mean"} == {arm for role, arm in roles(it.page) if arm}
    assert [r for r, _ in roles(it.page)].count("mean") == 1
    assert it.messages == []


def test_one_cell_alone_is_hidden_and_shown_again(chromium: Any, address: str):
    it = opened(chromium, address)
    row = it.page.locator("#table .row.cell").nth(1)
    own = row.get_attribute("data-row")
    row.click(modifiers=["Alt"])
    assert asked_now(it.page)["off"] == own and "muted" in row.get_attribute("class")
    assert [r for r, _ in roles(it.page)].count("mean") == 5 and own not in {arm for _, arm in roles(it.page)}
    it.page.reload()
    until(it.page, SHOWN)
    assert own not in {arm for _, arm in roles(it.page)} and "H: hide or show" in row.get_attribute("title")
    it.page.locator("#table .row.cell").first.focus()
    for key in ("ArrowDown", "h"):
        it.page.keyboard.press(key)
    assert "off" not in asked_now(it.page) and own in {arm for _, arm in roles(it.page)} and it.messages == []


def test_baseline_metric_log_and_smoothing(chromium: Any, address: str):
    it = opened(chromium, address)
    title = "() => document.getElementById('plot-forest').layout.xaxis.title.text"
    assert "none" in it.page.evaluate(title)
    it.page.select_option("#choice-against", "layer")
    until(it.page, f"() => ({title})().includes('layer')")
    kind = "() => document.getElementById('plot-curves')._fullLayout.yaxis.type"
    assert it.page.evaluate(kind) == "linear"
    it.page.get_by_label("log y").check()
    assert it.page.evaluate(kind) == "log" and asked_now(it.page)["log"] == "1"
    raw = it.page.evaluate("() => document.getElementById('plot-curves').data.find(t => t.meta.role === 'mean').y")
    it.page.select_option("#switch-smooth", "0.9")
    found = it.page.evaluate(
        "() => ['raw', 'mean'].map(r => document.getElementById('plot-curves').data.find(t => t.meta.role === r).y)"
    )
    # 20 epochs: the untrained model, at 0, is not smoothed over
    assert found[0] == raw and found[1][0] is None and found[1][1] == pytest.approx(raw[1]) and found[1][2] != raw[2]
    it.page.select_option("#choice-metric", "nll")
    until(it.page, "() => document.getElementById('heading').textContent.includes('NLL')")
    assert it.page.evaluate(kind) == "log" and it.messages == []


def test_two_cells_are_chosen_and_opened_by_keys(chromium: Any, address: str):
    it = opened(chromium, address)
    row = it.page.locator("#table [data-row]").first
    row.focus()
    it.page.keyboard.press("Enter")
    assert it.page.locator("#table .row.seed").count() == 5 and row.get_attribute("aria-expanded") == "true"
    it.page.keyboard.press("ArrowDown")
    assert "seed" in it.page.evaluate("() => document.activeElement.className")
    it.page.keyboard.press("ArrowLeft")
    it.page.keyboard.press("ArrowLeft")
    assert it.page.locator("#table .row.seed").count() == 0
    it.page.keyboard.press(" ")
    it.page.keyboard.press("ArrowDown")
    it.page.keyboard.press(" ")
    until(it.page, "() => document.querySelectorAll('#plot-difference .main-svg').length")
    assert it.page.locator("#table [aria-selected=true]").count() == 2
    assert it.page.locator("#pair-diff td").all_inner_texts() == ["optim.lr", "0.001", "0.01"]
    assert it.page.locator("#pair-heading").inner_text().endswith("] points, 5 pairs")
    bright = """() => new Set([...document.querySelectorAll('#plot-curves .scatterlayer > .trace:not(.aside)')]
      .map(e => e.__data__[0].trace.meta.arm)).size"""
    it.page.locator("#heading").click()
    assert it.page.evaluate(bright) == 2, "both, also where nobody points at a row"
    row.focus()
    assert it.page.locator("#table [tabindex='0']").count() == 1  # one stop for the tab key
    it.page.keyboard.press("End")
    it.page.keyboard.press("Escape")
    until(it.page, "() => document.getElementById('pair').hidden")
    assert it.messages == []


def test_the_address_holds_the_view_and_back_works(chromium: Any, address: str):
    it = opened(chromium, address)
    before = it.page.evaluate("() => document.getElementById('choice-metric').value")
    it.page.get_by_role("button", name="batch", exact=True).click()
    it.page.select_option("#choice-x", "step")
    until(it.page, "() => document.getElementById('plot-curves').layout.xaxis.title.text === 'Updates'")
    it.page.select_option("#choice-metric", "nll")
    until(it.page, "() => document.getElementById('heading').textContent.includes('NLL')")
    chosen = roles(it.page)
    again = opened(chromium, address, urlsplit(it.page.url).query)
    assert roles(again.page) == chosen and "nll" in again.page.url
    assert again.page.evaluate("() => document.getElementById('plot-curves').layout.xaxis.title.text") == "Updates"
    it.page.go_back()
    until(it.page, f"() => document.getElementById('choice-metric').value === '{before}'")
    until(it.page, SHOWN)
    assert it.page.get_by_role("button", name="batch", exact=True).get_attribute("aria-pressed") == "false"
    assert it.messages == [] and again.messages == []


def test_a_question_that_was_overtaken_ends_no_waiting_for_the_last(chromium: Any, address: str):
    it = opened(chromium, address)
    held: list[Any] = []
    it.page.route("**/api/view*", lambda route: held.append(route))  # a method of a list takes no attributes
    for number, baseline in enumerate(("batch", "layer"), 1):
        it.page.select_option("#choice-against", baseline)
        while len(held) < number:
            it.page.wait_for_timeout(20)
    with it.page.expect_response("**/api/view*"):
        held[0].fulfill(status=500, body="of no interest any more")
    it.page.wait_for_timeout(200)
    assert it.page.evaluate("document.body.getAttribute('aria-busy')") == "true"
    assert not it.page.locator("#trouble").is_visible()
    held[1].continue_()
    until(it.page, SHOWN)
    assert it.page.evaluate("document.getElementById('choice-against').value") == "layer"


def test_thirty_selections_in_a_row_end_as_the_last_says(chromium: Any, address: str):
    it = opened(chromium, address)
    names = ("none", "batch", "layer")
    for turn in range(30):
        it.page.get_by_role("button", name=names[turn % 3], exact=True).click()
        if turn % 5 == 0:
            it.page.select_option("#choice-against", names[turn % 3])
    until(it.page, SHOWN)
    until(it.page, "() => document.getElementById('choice-against').value === 'batch'")  # of turn 25
    until(it.page, f"() => ({ROLES})().filter(([role]) => role === 'mean').length === 6")  # ten times each: all are on
    assert it.messages == []


def test_a_shared_file_shows_the_same_and_asks_for_nothing(chromium: Any, address: str, tmp_path: Path):
    it = opened(chromium, address, "log=1&off=batch&against=layer")
    for place in (0, 1):
        it.page.locator("#table .row.cell .mark").nth(place).click()
    until(it.page, "() => document.querySelectorAll('#plot-difference .main-svg').length")
    with it.page.expect_download() as download:
        it.page.locator("#share summary").click()
        it.page.locator("#share-html").click()
    place = tmp_path / "shared.html"
    download.value.save_as(place)
    alone = Watched(chromium)
    alone.page.goto(place.as_uri())
    until(alone.page, SHOWN)
    data = (
        "() => JSON.stringify(['curves', 'forest', 'difference'].map(n => document.getElementById(`plot-${n}`).data))"
    )
    assert alone.page.evaluate(data) == it.page.evaluate(data)
    for part in ("#sentence", "#table", "#arms", "#speed"):
        assert alone.page.locator(part).inner_text() == it.page.locator(part).inner_text()
    assert alone.page.locator("#choices select:visible, #choices input:visible, #pair-close:visible").count() == 0
    assert alone.page.get_by_text("A file: what was on show.").is_visible()
    alone.page.get_by_role("button", name="batch", exact=True).click()
    until(alone.page, f"() => ({ROLES})().filter(([role]) => role === 'mean').length > 2")
    alone.page.locator("#table .row.cell .mark").nth(2).click()
    assert alone.page.evaluate("() => document.getElementById('plot-difference').data.length > 0")
    with alone.page.expect_download() as download:
        alone.page.locator("#share summary").click()
        alone.page.locator("#share-svg").click()
    assert Path(download.value.path()).read_text().startswith("<svg")
    asked = [url for url in alone.asked if not url.startswith(("data:", "blob:"))]
    assert asked == [place.as_uri()] and alone.messages == []
    assert alone.page.locator("#share-html").count() == 0


def test_hundreds_of_rows_are_reached_by_keys(chromium: Any, tmp_path: Path):
    runs = [run for i in range(150) for run in compared.runs(("none", "layer"), 1, points=3, lr=0.001 * (i + 1))]
    place = tmp_path / "many.html"
    place.write_bytes(share.share(compared.heads(runs), compared.loader(runs), {}))
    watched = Watched(chromium)
    watched.page.goto(place.as_uri())
    until(watched.page, SHOWN)
    rows = watched.page.locator("#table [data-row]")
    assert rows.count() == 300 and watched.page.locator("#table").get_attribute("aria-rowcount") == "301"
    rows.first.focus()
    for key, row in (("End", "301"), ("PageUp", None), ("Home", "2")):
        watched.page.keyboard.press(key)
        place_now = watched.page.evaluate("document.activeElement.getAttribute('aria-rowindex')")
        assert place_now == row or (row is None and 2 < int(place_now) < 301)
    assert watched.messages == []


@pytest.mark.parametrize("width", [1400, 400])
def test_a_small_plot_per_value_of_a_facet_on_common_axes(width: int, chromium: Any, address: str):
    it = opened(chromium, address, "level=5", width=width)
    whole = it.page.evaluate("() => document.getElementById('plot-curves').layout.yaxis.range")
    it.page.select_option("#switch-beside", "optim.lr")
    figure = """() => {
      const plot = document.getElementById('plot-curves');
      const axes = Object.keys(plot._fullLayout).filter(k => /^yaxis/.test(k));
      const means = plot.data.filter(t => t.meta.role === 'mean');
      return {axes, titles: plot.layout.annotations.map(a => a.text), where: means.map(t => [t.meta.arm, t.yaxis]),
              ranges: axes.map(a => plot._fullLayout[a].range),
              levels: plot.data.filter(t => t.meta.role === 'level').length,
              domains: [0, 1].map(i => plot._fullLayout[`xaxis${i ? 2 : ''}`].domain)};
    }"""
    until(it.page, "() => document.getElementById('plot-curves')._fullLayout.yaxis2")
    found = it.page.evaluate(figure)
    assert found["titles"] == ["optim.lr=0.001", "optim.lr=0.01"] and found["levels"] == 2
    assert sorted(axis for _, axis in found["where"]) == ["y"] * 3 + ["y2"] * 3
    assert found["ranges"] == [whole, whole]  # the same scale, and the one that was there before
    side_by_side = found["domains"][0][1] < found["domains"][1][0]
    assert side_by_side == (width > 1000)
    assert asked_now(it.page)["beside"] == "optim.lr"
    assert it.page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    it.page.locator("#facets").get_by_role("button", name="0.01", exact=True).click()
    until(it.page, "() => !document.getElementById('plot-curves')._fullLayout.yaxis2")
    it.page.select_option("#switch-beside", "")
    until(it.page, "() => !document.getElementById('plot-curves').layout.annotations")
    assert it.messages == []
    it.page.context.close()


def test_hostile_names_are_shown_as_text(chromium: Any, tmp_path: Path):
    runs = compared.runs(("none", compared.HOSTILE), 3, name=compared.HOSTILE)
    runs = [replace(r, status="diverged", reason=compared.HOSTILE) if r.seed == 3 else r for r in runs]
    place = tmp_path / "hostile.html"
    place.write_bytes(share.share(compared.heads(runs), compared.loader(runs), {}))
    watched = Watched(chromium)
    watched.page.goto(place.as_uri())
    until(watched.page, SHOWN)
    watched.page.locator("#table [data-row]").nth(1).click()
    watched.page.hover("#plot-curves .nsewdrag", position={"x": 200, "y": 200})
    watched.page.wait_for_timeout(200)
    assert watched.page.evaluate(
        "[window.pwned, document.querySelectorAll('main img, main a, svg a, svg b').length]"
    ) == [
        None,
        0,
    ]
    assert watched.page.get_by_text("</script><img src=x").count() > 0 and watched.messages == []
    titled = watched.page.evaluate(
        """name => normbench.beside({data: [], layout: {xaxis: {}, yaxis: {}, margin: {}}}, [{key: "a", label: name}],
                                    () => "a", 400).layout.annotations[0].text""",
        compared.HOSTILE,
    )
    assert "&lt;img" in titled and "<" not in titled
    forest = watched.page.locator("#plot-forest").inner_text()
    assert "</script>" in forest and "\u202e" not in forest


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_is_cut_or_pale_or_wider_than_the_page(chromium: Any, address: str, width: int, scheme: str):
    it = opened(chromium, address, width=width, scheme=scheme)
    cells = it.page.evaluate("() => [...document.querySelectorAll('#table .row.cell')].map(e => e.dataset.row)")
    it.page.context.close()  # a server has few live pages
    asked = f"a={cells[0]}&b={cells[4]}&open={cells[1]}&beside=optim.lr"
    it = opened(chromium, address, asked, width=width, scheme=scheme)
    until(it.page, "() => document.querySelectorAll('#plot-difference .main-svg').length")
    assert it.page.evaluate("document.documentElement.scrollWidth") <= width
    it.page.evaluate((Path(__file__).parent / "looks.js").read_text())
    for flaw in ("pale", "cut", "crossed"):
        assert it.page.evaluate(f"looks.{flaw}()") == []
    for plot in ("curves", "forest", "sensitivity", "difference"):
        assert it.page.evaluate("id => looks.outside(id)", f"plot-{plot}") == []
    band = it.page.evaluate("document.getElementById('plot-curves').data.find(t => t.meta.role === 'band').opacity")
    assert (band > 0.2) == (scheme == "dark"), "a dark page hides what a light one shows"
    assert it.messages == []


def test_new_records_are_shown_and_nothing_jumps(
    chromium: Any,
    serve: Callable[[Path], str],
    tmp_path: Path,
):
    published(tmp_path, [replace(run, id=f"{i:012x}") for i, run in enumerate(compared.runs(("none",), 3))])
    late = replace(compared.run("layer", 1), id="f" * 12)
    path = stored(tmp_path, replace(late, records=[record for record in late.records if record["epoch"] <= 5]))
    it = opened(chromium, serve(tmp_path))
    it.page.locator("#table [data-row]").first.focus()
    it.page.keyboard.press("Enter")
    it.page.keyboard.press("ArrowDown")
    last = "() => Math.max(...document.getElementById('plot-curves').data.find(t => t.name === 'layer').x)"
    assert it.page.evaluate(last) == 5
    it.page.evaluate("() => { window.focused = document.activeElement; }")
    it.page.wait_for_timeout(1000)  # its server has begun to look
    with open(path / "curve.jsonl", "ab") as curve:
        curve.write(b"".join(files.line(record) for record in late.records if 5 < record["epoch"] <= 9))
    until(it.page, f"() => ({last})() === 9", 4.0)
    assert it.page.evaluate("window.focused === document.activeElement && window.focused.isConnected")
    assert it.page.locator("#table .row.seed").count() == 3 and it.messages == []


def test_a_failed_run_shows_its_last_lines_and_samples_in_a_box(
    chromium: Any,
    serve: Callable[[Path], str],
    tmp_path: Path,
):
    published(tmp_path, [replace(run, id=f"{i:012x}") for i, run in enumerate(compared.runs(("none",), 2))])
    lost = replace(compared.run("layer", 1), id="e" * 12, reason="ValueError: no such thing")
    path = stored(tmp_path, replace(lost, records=lost.records[:4]), "failed", "epoch 1\nValueError: no such thing\n")
    (path / "samples").mkdir()
    (path / "samples" / "digits.png").write_bytes(PIXEL)
    (path / "samples" / "text.html").write_text("<script>top.pwned = 1</script><p>drawn</p>")
    it = opened(chromium, serve(tmp_path), f"run={lost.id}")
    until(it.page, "() => document.querySelector('#run img') && document.querySelector('#run img').naturalWidth === 1")
    assert "epoch 1\nValueError: no such thing" in it.page.locator("#run .log").inner_text()
    frame = it.page.locator("#run iframe")
    assert frame.get_attribute("sandbox") == "" and it.page.evaluate("window.pwned") is None
    assert "1 failed" in it.page.locator("#live").inner_text()
    it.page.keyboard.press("Escape")
    assert it.page.locator("#run").is_hidden()


def test_damaged_torn_and_truncated_runs_stand_beside_whole_ones(
    chromium: Any,
    serve: Callable[[Path], str],
    tmp_path: Path,
):
    # Ids of their own: what is drawn is kept by id in this process, and other tests here have other curves.
    whole = [replace(run, id=f"{0xDA0 + i:012x}") for i, run in enumerate(compared.runs(("none", "batch"), 5))]
    records = [dict(record) for record in whole[0].records]
    for record in records:
        if record["epoch"] in (6, 11):
            record["error"] = 30.0 if record["epoch"] == 6 else "NaN"
    whole[0] = replace(whole[0], records=records)
    published(tmp_path, whole)
    lost = [replace(compared.run("layer", seed), id=f"{seed:x}" * 12) for seed in (10, 11, 12)]
    torn, cut, damaged = (stored(tmp_path, run) for run in lost)
    curves = [path / "curve.jsonl" for path in (torn, cut, damaged)]
    curves[0].write_bytes(curves[0].read_bytes()[:-9])
    curves[1].write_bytes(b"".join(curves[1].read_bytes().splitlines(keepends=True)[:5])[:-3])
    curves[2].write_bytes(curves[2].read_bytes().replace(b'"epoch": 4', b'"epoch": [4', 1))
    before = [path.read_bytes() for path in curves]
    it = opened(chromium, serve(tmp_path), "metric=error&split=test")
    assert "2 interrupted · 1 damaged" in it.page.locator("#live").inner_text()
    until(it.page, "() => document.getElementById('plot-curves').data.some(t => Array.from(t.y).includes(3000))", 30.0)
    seeds = it.page.evaluate(
        "() => document.getElementById('plot-curves').data.filter(t => t.meta.role === 'seed')"
        ".map(t => Array.from(t.y))"
    )
    spiky = next(y for y in seeds if 3000.0 in y)
    assert None in spiky, "the line has a gap where there is no number"
    row = it.page.locator("#table [data-row]", has_text="none").first
    assert "5" in row.inner_text().split(), "all five seeds of the whole runs are counted"
    assert [path.read_bytes() for path in curves] == before and it.messages == []


def test_what_the_papers_have_is_drawn_grey_on_wish(chromium: Any, serve: Callable[[Path], str], tmp_path: Path):
    name = "bln2022/fig4/paper"
    shutil.copytree(PUBLISHED / name, tmp_path / name)
    it = opened(chromium, serve(tmp_path), "metric=nll&split=valid")
    script = (
        "() => document.getElementById('plot-curves').data.filter(t => t.meta.role === 'reference')"
        ".map(t => [t.visible !== false, t.line.color, t.name])"
    )
    lines = it.page.evaluate(script)
    assert lines and all(visible for visible, _, _ in lines), "the authors' logs"
    sentence = it.page.locator(
        "#sentence"
    ).inner_text()  # which, by how much, how sure: without a click, like the paper's
    assert "BLN" in sentence.upper() and "[" in sentence and "]" in sentence
    (grey,) = {colour for _, colour, _ in lines}
    red, green, blue = (int(grey[place : place + 2], 16) for place in (1, 3, 5))
    assert max(red, green, blue) - min(red, green, blue) <= 32
    it.page.get_by_label("paper").uncheck()
    until(it.page, f"() => ({script})().every(([shown]) => !shown)")
    assert asked_now(it.page)["paper"] == "0" and it.messages == []
