"""The page of all runs in a real browser: sorted, filtered, grouped, marked, by mouse and keys, at each width."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import compared
import pytest
from test_browser_dashboard import asked_now, published, until
from watched import Watched

from normbench.web.marks import Marks

pytestmark = pytest.mark.browser
MANY = 10_000
READY = (
    "() => document.body && !document.body.hasAttribute('aria-busy') "
    "&& document.querySelectorAll('#rows .line').length > 0"
)
LISTED = "() => [...document.querySelectorAll('#rows .line')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
FRAMES = """async () => {
  const view = document.getElementById('table');
  const took = [];
  for (let i = 0; i < 60; i++) {
    const start = performance.now();
    view.scrollTop = (1 + ((i * 7919) % 9000)) * 30;
    await new Promise(requestAnimationFrame); // in which the rows are drawn
    document.body.offsetHeight;
    took.push(performance.now() - start);
    const top = view.getBoundingClientRect().top + 60;
    if (!document.elementFromPoint(200, top).closest('#rows .line')) throw new Error('nothing is drawn');
  }
  took.sort((a, b) => a - b);
  return {median: took[30], rows: document.querySelectorAll('#rows .line').length};
}"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    sweep = [run for lr in (1e-3, 1e-2) for run in compared.runs(lr=lr)]
    published(tmp_path, [replace(run, id=f"{0xABC000 + i:012x}") for i, run in enumerate(sweep)])
    return tmp_path


@pytest.fixture
def page(chromium: Any, serve: Callable[[Path], str], results: Path) -> Iterator[SimpleNamespace]:
    yield opened(chromium, serve(results))


def opened(browser: Any, address: str, query: str = "", **how: Any) -> SimpleNamespace:
    watched = Watched(browser, **how)
    watched.page.goto(address)
    watched.page.goto(f"{address.partition('?')[0]}runs?{query}")
    until(watched.page, READY)
    return SimpleNamespace(page=watched.page, messages=watched.messages)


def column(page: Any, name: str) -> list[str]:
    """The texts of a column, from the first row that is drawn."""
    heads = page.locator("#head > span").all_inner_texts()
    place = next(i for i, head in enumerate(heads) if head.split(" ")[0] == name)
    return list(page.evaluate(f"() => ({LISTED})().map((row) => row.children[{place}].innerText.trim())"))


def ids(page: Any) -> list[str]:
    return [re.findall("[0-9a-f]{12}", text)[0] for text in column(page, "run")]


def test_the_best_run_is_on_top_and_each_column_sorts(page: SimpleNamespace):
    losses = [float(text) for text in column(page.page, "valid.nll")]
    assert len(losses) == 30 and losses == sorted(losses)
    assert page.page.locator("#rows .top:visible").count() == 1 and "best" in column(page.page, "run")[0]
    page.page.get_by_role("button", name="seed").click()
    assert column(page.page, "seed") == sorted(column(page.page, "seed")) and asked_now(page.page)["sort"] == "seed"
    page.page.get_by_role("button", name="seed").click()
    assert column(page.page, "seed")[0] == "5" and asked_now(page.page)["sort"] == "-seed"
    assert page.page.locator("#head [aria-sort=descending]").inner_text().startswith("seed")
    assert page.page.locator("#rows .top:visible").count() == 0
    page.page.reload()
    until(page.page, READY)
    assert column(page.page, "seed")[0] == "5" and page.messages == []


def test_a_filter_of_metrics_and_keys_and_one_that_fits_nothing(page: SimpleNamespace):
    page.page.locator("#filter").fill("norm!=none lr>1e-3 -seed=3")
    page.page.keyboard.press("Enter")
    until(page.page, "() => document.getElementById('live').textContent === '8 of 30 runs'")
    assert "3" not in column(page.page, "seed") and {*column(page.page, "norm")} == {"batch", "layer"}
    page.page.locator("#filter").fill("norm=layr")
    page.page.keyboard.press("Enter")
    until(page.page, "() => !document.getElementById('trouble').hidden")
    assert "Not applied: " in page.page.locator("#trouble").inner_text()
    assert "Did you mean 'layer'?" in page.page.locator("#trouble").inner_text()
    page.page.go_back()
    until(page.page, "() => document.getElementById('live').textContent === '8 of 30 runs'")
    assert page.page.locator("#trouble").is_hidden() and page.messages == []


def test_a_link_with_a_filter_of_a_metric_is_no_error_while_metrics_are_read(
    chromium: Any,
    serve: Callable[[Path], str],
    results: Path,
):
    address = serve(results)
    watched = Watched(chromium)
    watched.page.goto(address)
    watched.page.add_init_script("addEventListener('DOMContentLoaded', () => new MutationObserver(() => "
                                 "console.log(document.getElementById('trouble').textContent)).observe("
                                 "document.getElementById('trouble'), {childList: true}))")  # fmt: skip
    watched.page.goto(f"{address.partition('?')[0]}runs?filter=valid.nll<0.0671")
    until(watched.page, READY)
    assert watched.page.locator("#live").inner_text() == "12 of 30 runs" and watched.messages == []


def test_groups_by_any_key_have_means_and_open(page: SimpleNamespace):
    page.page.select_option("#group", "norm")
    assert len(column(page.page, "run")) == 3 and all("mean of 10" in text for text in column(page.page, "run"))
    means = [float(text) for text in column(page.page, "valid.nll")]
    assert len({*means}) == 2 and means == sorted(means)  # batch and layer are made up alike
    page.page.locator("#table").focus()
    page.page.keyboard.press("ArrowRight")
    assert len(column(page.page, "run")) == 13 and "best" in column(page.page, "run")[1]
    assert page.page.locator("#row-0").get_attribute("aria-expanded") == "true"
    page.page.keyboard.press(" ")
    assert page.page.locator("#count").inner_text() == "10 selected"
    page.page.keyboard.press("ArrowLeft")
    assert len(column(page.page, "run")) == 3 and asked_now(page.page)["group"] == "norm" and page.messages == []


def test_groups_are_by_the_mean_that_is_shown_and_no_line_is_through_their_names(
    chromium: Any, serve: Callable[[Path], str], tmp_path: Path
):
    """The group of the best run is not the best group."""
    rates = (("layer", 0.05), ("layer", 1e-5), ("layer", 2e-5), ("none", 0.02))
    runs = [run for norm, lr in rates for run in compared.runs((norm,), 2, lr=lr)]
    published(tmp_path, [replace(run, id=f"{0xABD000 + i:012x}") for i, run in enumerate(runs)])
    it = opened(chromium, serve(tmp_path), "group=norm")
    assert ["norm=none" in text for text in column(it.page, "run")] == [True, False]
    means = [float(text) for text in column(it.page, "valid.nll")]
    assert means == sorted(means) and len({*means}) == 2
    outside = """() => [...document.querySelectorAll('#rows .line > span')].filter((cell) => {
      const [own, row] = [cell, cell.parentElement].map((e) => e.getBoundingClientRect());
      return own.top < row.top || own.bottom > row.bottom;
    }).length"""
    assert it.page.evaluate(outside) == 0 and it.messages == []


def test_across_data_sets_no_run_is_the_best(chromium: Any, serve: Callable[[Path], str], tmp_path: Path):
    """Grouped by them at first, each has one."""
    two = [run for name in ("digits", "mnist") for run in compared.runs(name=name)]
    published(tmp_path, [replace(run, id=f"{i:012x}") for i, run in enumerate(two)])
    it = opened(chromium, serve(tmp_path))
    assert it.page.locator("#group").input_value() == "data" and it.page.locator("#mixed").is_hidden()
    assert it.page.locator("#rows .top:visible").count() == 2
    it.page.select_option("#group", "-")
    assert it.page.locator("#mixed").is_visible() and it.page.locator("#rows .top:visible").count() == 0


def test_columns_are_chosen_and_kept_in_the_address(page: SimpleNamespace):
    page.page.get_by_text("Columns").click()
    page.page.get_by_label("test.error", exact=True).check()
    page.page.get_by_label("status", exact=True).uncheck()
    heads = page.page.locator("#head > span").all_inner_texts()
    assert "test.error" in heads and "status" not in heads and len(column(page.page, "test.error")) == 30
    page.page.locator("#count").click()
    assert page.page.locator("#columns").get_attribute("open") is None, "closed by a click elsewhere"
    page.page.reload()
    until(page.page, READY)
    assert page.page.locator("#head > span").all_inner_texts() == heads and page.messages == []


def test_runs_are_selected_and_hidden_by_keys_alone(page: SimpleNamespace, results: Path):
    chosen = {*ids(page.page)[:2]}
    page.page.locator("#table").focus()
    for key in (" ", "ArrowDown", " "):
        page.page.keyboard.press(key)
    assert page.page.locator("#table").get_attribute("aria-activedescendant") == "row-1"
    assert page.page.locator("#count").inner_text() == "2 selected"
    page.page.get_by_role("button", name="Hide").press("Enter")
    until(page.page, "() => document.querySelectorAll('#rows .line.out').length === 2")
    assert ["best" in text for text in column(page.page, "run")[:4]] == [False, False, True, False]
    assert Marks(results).hidden() == chosen
    page.page.get_by_role("button", name="Show").press("Enter")
    until(page.page, "() => document.querySelectorAll('#rows .line.out').length === 0")
    assert Marks(results).hidden() == set() and page.messages == []


def test_selected_runs_are_compared(page: SimpleNamespace):
    assert page.page.get_by_role("link", name="Compare all").count() == 1  # of none selected
    for place in (0, 1):
        page.page.locator(f"#row-{place} .check").click()
    chosen = {*ids(page.page)[:2]}
    page.page.get_by_role("link", name="Compare", exact=True).click()
    until(page.page, "() => document.querySelectorAll('#plot-curves .main-svg').length > 0")
    assert {*asked_now(page.page)["filter"].split()} == chosen
    page.page.get_by_role("link", name="Runs").click()
    until(page.page, READY)
    assert {*ids(page.page)} == chosen and "model=mnist_mlp data=digits" in asked_now(page.page)["filter"]


def test_another_page_shows_what_this_one_marks(chromium: Any, serve: Callable[[Path], str], results: Path):
    address = serve(results)
    one, two = opened(chromium, address), opened(chromium, address)
    one.page.locator("#row-0 .check").click()
    one.page.get_by_role("button", name="Hide").click()
    until(two.page, "() => document.querySelectorAll('#rows .line.out').length === 1")
    two.page.select_option("#group", "norm")
    means = [text.rpartition("mean of ")[2] for text in column(two.page, "run")]
    assert sorted(means) == ["10", "10", "9"]  # a hidden run is in no mean


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 1000, 400])
def test_nothing_sticks_out_or_is_pale(width: int, scheme: str, chromium: Any, serve: Callable[[Path], str],
                                       results: Path):  # fmt: skip
    Marks(results).hide(["000000abc000"], True)
    it = opened(chromium, serve(results), width=width, scheme=scheme)
    it.page.locator("#row-1 .check").click()
    it.page.get_by_text("Columns").click()
    menu = it.page.locator("#columns .ways").bounding_box()
    assert menu and menu["x"] >= 0 and menu["x"] + menu["width"] <= width
    it.page.evaluate((Path(__file__).parent / "looks.js").read_text())
    assert it.page.evaluate("() => looks.pale()") == []
    assert it.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert it.page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    named = "(e) => e.innerText || e.ariaLabel || e.labels?.length"
    unnamed = (
        f"() => [...document.querySelectorAll('button, input, select, a[href]')].filter((e) => !({named})(e)).length"
    )
    assert it.page.evaluate(unnamed) == 0 and it.messages == []


def test_of_ten_thousand_runs_those_are_drawn_that_are_seen(chromium: Any, serve: Callable[[Path], str],
                                                            tmp_path: Path):  # fmt: skip
    few = [replace(run, records=[*run.records][-2:]) for run in compared.runs(points=2)]
    seeds = [replace(few[i % len(few)], id=f"{i:012x}", seed=i) for i in range(MANY)]
    published(tmp_path, seeds)
    it = opened(chromium, serve(tmp_path))
    assert it.page.locator("#live").inner_text() == "10,000 runs"
    found = it.page.evaluate(FRAMES)
    assert found["rows"] < 60 and found["median"] < 50
    it.page.locator("#table").focus()
    it.page.keyboard.press("End")
    assert it.page.locator(f"#row-{MANY - 1}").get_attribute("aria-rowindex") == str(MANY + 1)
    assert it.page.locator(f"#row-{MANY - 1}").is_visible() and it.messages == []
