"""The static report: whole, deterministic, harmless, and open about what it cannot show."""

from __future__ import annotations

import contextlib
import functools
import gzip
import html
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fake
import madeup
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from normbench.config import compose
from normbench.draw.text import visible
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import describe, publish, published
from normbench.runs import pack
from normbench.runs.table import Runs
from normbench.web import report
from normbench.web import site as site_module

COMMON = {"index.html", "models.html", "glossary.html", "amendments.html"}
SHIPPED = functools.cache(artifacts.load)


class Page(HTMLParser):
    """What a browser would make of a page: elements, links, text, and the JSON blocks."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.json: list[str] = []
        self._inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag if dict(attrs).get("type") == "application/json" else ""
        for key, value in attrs:
            if key in ("href", "src"):
                self.links.append(value or "")
            if key.startswith("on"):
                self.handlers.append(key)
            if key == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        (self.json if self._inside else self.text).append(data)


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped artifacts, which every index lists: no test here changes them."""
    monkeypatch.setattr(artifacts, "load", SHIPPED)


def pages(site: Path) -> dict[str, Page]:
    return {path.name: Page(path) for path in sorted(site.glob("*.html"))}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    madeup.published(tmp_path / "results")
    return report.build(tmp_path / "results").index.parent


def test_every_link_leads_to_a_file_of_the_site(site: Path):
    found = pages(site)
    assert set(found) == {*COMMON, "ln2016-fig6-paper.html"}
    for name, page in found.items():
        for link in page.links:
            if link == "data:,":  # no favicon
                continue
            assert "//" not in link, link
            file, _, anchor = link.partition("#")
            assert (site / unquote(file or name)).is_file(), link
            if anchor:
                assert unquote(anchor) in found[file or name].ids, link


def test_pages_on_one_subject_link_to_each_other(tmp_path: Path):
    """Those that one names under `see`, and those of one experiment; no page leads to the user's own of another."""
    results = artifacts.HERE.parents[1] / "results"
    for name in ("ln2016/table1/paper", "rms2019/table1/paper", "ln2016/fig2/proxy", "rbn2016/fig4/proxy"):
        shutil.copytree(results / name, tmp_path / name)
    shutil.copytree(results / "rbn2016/fig4/proxy", tmp_path / "own/rbn2016/fig4/proxy")
    related = {}
    found = pages(report.build(tmp_path).index.parent)
    for name in found:
        if name not in COMMON:
            paragraph = (tmp_path / "report" / name).read_text().partition("See also: ")[2].partition("</p>")[0]
            related[name] = re.findall('href="(.*?)"', paragraph)
            assert {*related[name]} <= {*found}
    assert related == {
        "ln2016-table1-paper.html": ["rms2019-table1-paper.html"],
        "rms2019-table1-paper.html": ["ln2016-table1-paper.html"],
        "ln2016-fig2-proxy.html": ["rbn2016-fig4-proxy.html"],
        "rbn2016-fig4-proxy.html": ["ln2016-fig2-proxy.html"],
        "own-rbn2016-fig4-proxy.html": ["ln2016-fig2-proxy.html"],
    }


def test_an_artifact_that_is_none_cannot_be_seen(tmp_path: Path):
    shipped = artifacts.load("rms2019/table1")
    with pytest.raises(NormbenchError, match="ln2016/tabel1"):
        artifacts.check_runs(replace(shipped, see=("ln2016/tabel1",)))
    for name in artifacts.ids():
        assert {*artifacts.load(name).see} <= {*artifacts.ids()}


def test_the_pages_say_what_the_verdicts_say(site: Path):
    content = published.read_verdicts(site / "ln2016-fig6-paper" / "verdicts.json")
    index = " ".join(" ".join(pages(site)["index.html"].text).split())
    page = " ".join(" ".join(pages(site)["ln2016-fig6-paper.html"].text).split())
    for claim in content.claims:
        for text in (claim.id, claim.statement, claim.word, describe.answer(claim)):
            assert text in index and text in page
        for text in (*describe.evidence(claim).split("; "), claim.quote, describe.suggestion(claim)):
            assert text in page
        assert not claim.suggestion or claim.suggestion.command in page
        assert all(command in page for command in content.control_commands(claim).values())
    assert all(text in page for text in content.deviations)
    assert content.command in page and "not run" in page
    assert "a plot of usage statistics, cited from" in index  # what cannot be reproduced is listed, with its reason
    assert len(pages(site)["ln2016-fig6-paper.html"].json) == 2  # batch 4 has no runs


def test_each_word_of_a_page_leads_to_the_glossary_and_tells_its_meaning(site: Path):
    content = published.read_verdicts(site / "ln2016-fig6-paper" / "verdicts.json")
    needed = {content.fidelity, "control", "amended", *(claim.word for claim in content.claims)}
    needed |= {
        f"controls {claim.robustness}" for claim in content.claims if claim.robustness not in ("", "nothing open")
    }
    page = (site / "ln2016-fig6-paper.html").read_text()
    terms = re.search(r'<p class="terms">(.*?)</p>', page).group(1)
    linked = dict(re.findall(r'<a href="glossary.html#([^"]+)" title="([^"]+)"', terms))
    assert {word.replace(" ", "-") for word in needed} <= linked.keys()
    explained = html.unescape((site / "glossary.html").read_text())
    for word, meaning in linked.items():
        assert f'<div id="{word}">' in explained and html.unescape(meaning) in explained
    chips = re.findall(r'<span class="chip [\w-]+" title="([^"]*)">', page)
    assert chips and all(chips)
    assert re.search(r'<abbr title="[^"]+">amended</abbr>', page)


def test_amendments_are_listed_by_claim(site: Path):
    content = published.read_verdicts(site / "ln2016-fig6-paper" / "verdicts.json")
    page = " ".join(" ".join(Page(site / "amendments.html").text).split())
    assert content.amendments and set(Page(site / "amendments.html").links) >= {
        f"ln2016-fig6-paper.html#{amendment.claim}" for amendment in content.amendments
    }
    for amendment in content.amendments:
        assert all(piece in page for piece in amendment.change.split("`"))


def test_the_same_results_give_the_same_bytes(site: Path, tmp_path: Path):
    again = report.build(tmp_path / "results", tmp_path / "again").index.parent
    assert [p.relative_to(site) for p in sorted(site.rglob("*"))] == [
        p.relative_to(again) for p in sorted(again.rglob("*"))
    ]
    assert all(p.read_bytes() == (again / p.relative_to(site)).read_bytes() for p in site.rglob("*") if p.is_file())


def test_hostile_names_are_text(tmp_path: Path):
    madeup.hostile(tmp_path / "results")
    site = report.build(tmp_path / "results").index.parent
    page = pages(site)["ln2016-fig6-paper.html"]
    assert "img" not in page.tags[: page.tags.index("noscript")] and "b" not in page.tags[page.tags.index("noscript") :]
    for name, found in pages(site).items():
        assert not found.handlers
        assert found.tags.count("script") == (2 if name == "index.html" else 1 if name in COMMON else 5)
        text = "".join(found.text)
        assert "\u202e" not in text and "\x07" not in text
    displayed = visible(madeup.HOSTILE)
    assert "\ufffd" in displayed and displayed in "".join(page.text)
    figure = json.loads(page.json[0])
    names = [trace["name"] for trace in figure["data"] if "name" in trace]
    assert any(name.startswith("&lt;/script&gt;&lt;img src=x") for name in names)  # Plotly reads names as HTML


def test_damaged_verdicts_are_named_and_the_rest_is_shown(tmp_path: Path):
    results = tmp_path / "results"
    madeup.published(results)
    broken = results / "ln2016" / "other" / "reduced"
    broken.mkdir(parents=True)
    (broken / "verdicts.json").write_text("{")
    written = report.build(results)
    (note,) = written.notes
    assert str(broken / "verdicts.json") in note and "\n" not in note
    index = pages(written.index.parent)["index.html"]
    displayed = "".join(index.text)
    assert visible(note).replace(f"{results}/", "") in displayed and "LN-F4" in index.text
    assert str(tmp_path) not in displayed  # where they lie is nobody's business


ODD = [None, 5, -0.0, 10**400, 1e308, "x", "\ud800", "", {}, [], [None], True, "NaN", 2**70]


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a JSON value; of a long list the first two entries."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from spots(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return copy


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_a_published_file_costs_the_others_their_page(tmp_path: Path, data: st.DataObject):
    results = Path(tempfile.mkdtemp(dir=tmp_path))
    place = madeup.published(results)
    other = results / "ln2016" / "fig6" / "reduced"
    other.mkdir()
    good = json.loads((place / "verdicts.json").read_text())
    artifact = artifacts.load("ln2016/fig6")
    plan = artifacts.Plan(artifact, "reduced")
    pairs = zip(good["claims"], artifact.claims, strict=True)
    claims = [{**found, "rules_sha256": plan.sha256(claim)} for found, claim in pairs]
    (other / "verdicts.json").write_text(madeup.sealed({**good, "fidelity": "reduced", "claims": claims}, ""))
    to = data.draw(st.sampled_from(ODD))
    if data.draw(st.booleans()):
        path = data.draw(st.sampled_from(list(spots(good))))
        (place / "verdicts.json").write_text(json.dumps(changed(good, path, to)))
    else:
        _, *lines = gzip.decompress((place / pack.NAME).read_bytes()).decode().splitlines()[:7]
        number = data.draw(st.sampled_from([0, 1]))  # what the run is, or its curves
        first = json.loads(lines[number])
        path = data.draw(st.sampled_from(list(spots(first))))
        first = changed(first, path, to)
        (place / pack.NAME).write_bytes(fake.packed([*lines[:number], json.dumps(first), *lines[number + 1 :]]))
        with contextlib.suppress(NormbenchError):
            (place / "verdicts.json").write_text(
                madeup.sealed(good | {"pack_sha256": pack.read(place / pack.NAME).sha256})
            )
    written = report.build(results)
    assert (written.index.parent / "ln2016-fig6-reduced.html").exists()
    assert all("\n" not in note for note in written.notes)
    Runs(results).finished()  # and the exports go on with what is whole


@pytest.mark.parametrize("change", ["nan", "unknown fidelity", "pack", "pipe"])
def test_other_damage_is_one_line(tmp_path: Path, change: str):
    results = tmp_path / "results"
    place = madeup.published(results)
    content = json.loads((place / "verdicts.json").read_text())
    if change == "unknown fidelity":
        place = place.rename(place.with_name("best"))
        content["fidelity"] = "best"
    elif change == "nan":
        content["claims"][0]["parts"][0]["effect"] = float("nan")
    (place / "verdicts.json").write_text(madeup.sealed(content))
    if change == "pipe":
        (place / "verdicts.json").unlink()
        os.mkfifo(place / "verdicts.json")
    elif change == "pack":
        (place / pack.NAME).write_bytes(b"\x1f\x8b")
    written = report.build(results)
    (note,) = written.notes
    assert str(place) in note and "\n" not in note
    assert set(pages(written.index.parent)) == COMMON


def test_an_artifact_of_another_version_is_shown_without_its_figure(tmp_path: Path):
    results = tmp_path / "results"
    place = madeup.published(results)
    content = json.loads((place / "verdicts.json").read_text()) | {"artifact": "x2030/fig'1"}
    other = place.rename(place.parent.parent / "moving")
    target = results / "x2030" / "fig'1" / "paper"
    target.parent.mkdir(parents=True)
    other.rename(target)
    (target / "verdicts.json").write_text(madeup.sealed(content))
    written = report.build(results)
    assert not written.notes
    page = next(p for name, p in pages(written.index.parent).items() if name.startswith("x2030-fig-1-paper-"))
    assert any("does not know" in text for text in page.text) and not page.json
    index = " ".join("".join(pages(written.index.parent)["index.html"].text).split())
    assert "The claims of x2030, written down before the runs" in index, "of what is judged, and nothing else"


def test_verdicts_of_other_rules_are_not_shown_and_the_way_on_is_said(tmp_path: Path):
    place = madeup.published(tmp_path / "results")
    content = json.loads((place / "verdicts.json").read_text())
    content["claims"][0]["rules_sha256"] = "0" * 64
    (place / "verdicts.json").write_text(madeup.sealed(content))
    written = report.build(tmp_path / "results")
    (note,) = written.notes
    assert "other rules, claims or plans than today's" in note
    assert "normbench reproduce ln2016/fig6 --fidelity paper --max-time 0" in note
    assert "ln2016-fig6-paper.html" not in pages(written.index.parent)


def test_nothing_published_is_a_page_with_the_way_on(tmp_path: Path):
    written = report.build(tmp_path / "results")
    assert any("normbench reproduce" in text for text in pages(written.index.parent)["index.html"].text)


def test_the_reports_copies_are_nobodys_results(site: Path, tmp_path: Path):
    found, damaged = published.collect(tmp_path / "results")
    assert [p.name for p in found] == ["ln2016/fig6"] and not damaged
    assert len(list((tmp_path / "results").glob(f"*/*/*/{pack.NAME}"))) == 1


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(NormbenchError, match="holds other files than a report"):
        report.build(tmp_path / "results", tmp_path / "mine")
    with pytest.raises(NormbenchError, match="is not a folder"):
        report.build(tmp_path / "results", tmp_path / "mine" / "thesis.tex")
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def test_names_that_fall_together_have_pages_of_their_own(tmp_path: Path):
    results = tmp_path / "results"
    content = json.loads((madeup.published(results) / "verdicts.json").read_text())
    for name in ("a/b-c", "a-b/c", "My/Fig", "my/fig", "α/β", "γ/δ"):
        (results / name / "paper").mkdir(parents=True)
        (results / name / "paper" / "verdicts.json").write_text(madeup.sealed(content | {"artifact": name}, ""))
    site = report.build(results).index.parent
    assert len(list(site.glob("*.html"))) == 7 + len(COMMON)


def test_a_place_among_the_results_is_refused_and_a_link_is_followed(tmp_path: Path):
    results = tmp_path / "results"
    madeup.published(results)
    with pytest.raises(NormbenchError, match="lies among the results"):
        report.build(results, results / "site" / "v1")
    (tmp_path / "site").mkdir()
    (tmp_path / "link").symlink_to("site")
    report.build(results, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "site" / "index.html").is_file()


def test_reports_at_once_follow_each_other(tmp_path: Path):
    results = tmp_path / "results"
    madeup.published(results)
    with ThreadPoolExecutor(4) as threads:
        written = list(threads.map(lambda _: report.build(results), range(8)))
    assert all(w.index.is_file() for w in written)
    assert {path.name for path in results.iterdir()} == {"ln2016", "report"}


def test_amended_claims_are_marked_on_the_index(site: Path):
    assert (site / "index.html").read_text().count(">amended</abbr>") == 5


def test_of_computed_numbers_the_index_has_one_that_fails(tmp_path: Path):
    results = tmp_path / "results"
    place = madeup.published(results)
    content = json.loads((place / "verdicts.json").read_text())
    claim = content["claims"][0]
    claim |= {"kind": "exact", "word": "fails", "deciding": 1}
    number = {"kind": "exact", "why": "", "n": 1, "effect": 2.0, "unit": "count"}
    number["required"] = {"value": 1.0, "at_most": None, "at_least": None}
    claim["parts"] = [claim["parts"][0] | number | {"id": f"number {o}", "word": o} for o in ("holds", "fails")]
    (place / "verdicts.json").write_text(madeup.sealed(content))
    index = pages(report.build(results).index.parent)["index.html"]
    (answer,) = [text for text in index.text if "1 of 2" in text]
    assert "number fails" in answer and not any("number holds" in text for text in index.text)


def test_what_is_no_plain_file_is_not_copied(tmp_path: Path):
    place = madeup.published(tmp_path / "results")
    (place / "figure.svg").unlink()
    (place / "figure.svg").symlink_to("/etc/hostname")
    site = report.build(tmp_path / "results").index.parent
    assert not (site / "ln2016-fig6-paper" / "figure.svg").exists()


def test_a_failed_build_leaves_the_old_site(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site_module, "_assets", full)
    with pytest.raises(NormbenchError, match="No space left on device"):
        report.build(tmp_path / "results")
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before
    assert [path.name for path in site.parent.iterdir() if path.name.startswith(".")] == []


def test_killed_at_any_step_the_old_site_or_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Killed before its first step, then its second, and so on."""
    monkeypatch.setattr(site_module, "_assets", lambda folder: folder.mkdir())
    target = tmp_path / "paper" / "report"  # deep enough for its pack to be found as a published one
    old, inside = target.with_name(".report.normbench-old"), Path("page") / pack.NAME

    def put(word: str) -> None:
        def write(folder: Path) -> None:
            (folder / inside).parent.mkdir()
            for path in (inside, Path("index.html")):
                (folder / path).write_text(word)

        site_module.put(target, write)

    put("0")
    for step in itertools.count(1):
        before = (target / "index.html").read_text()
        survived = killed_at(step, lambda: put(str(step)))  # noqa: B023  called at once
        there = target if target.exists() else old
        words = {(there / path).read_text() for path in (inside, "index.html")}
        assert words in ({before}, {str(step)})
        assert pack.paths(tmp_path) == [path for path in [target / inside] if path.exists()]
        put(before)
        assert os.listdir(target.parent) == ["report"] and (target / "index.html").read_text() == before
        if survived:
            break
    assert words == {str(step)} and step > 10


def killed_at(step: int, then: Callable[[], None]) -> bool:
    """Do it in a process that is killed before its step of that number of those that change a folder: False if so."""
    if (child := os.fork()) == 0:
        steps = itertools.count(1)

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            changes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")
            if (changes or (event == "open" and arguments[1] == "w")) and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            then()
        finally:
            os._exit(0)
    return not os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_contents_list_every_artifact_once():
    listed = yaml.safe_load((artifacts.HERE / "contents.yaml").read_text())
    entries = [entry for paper in listed.values() for entry in paper["contents"]]
    assert sorted(e["artifact"] for e in entries if "artifact" in e) == artifacts.ids()
    assert all(set(entry) <= {"what", "title", "artifact", "model", "reason"} for entry in entries)
    assert all(len({"artifact", "model", "reason"} & set(entry)) == 1 for entry in entries)
    assert {entry["model"] for entry in entries if "model" in entry} <= set(compose.choices("model"))


@pytest.mark.slow
def test_what_is_the_users_own_is_never_among_the_findings(tmp_path: Path):
    """Smoke runs of shipped artifacts, and shipped artifacts whose experiment is another in a --config-dir."""
    results, extra = tmp_path / "results", tmp_path / "extra"
    experiment = extra / "experiment" / "ln2016" / "fig6.yaml"
    experiment.parent.mkdir(parents=True)
    shipped = compose.conf_dir() / "experiment" / "ln2016" / "fig6.yaml"
    experiment.write_text(shipped.read_text().replace("from: 1, to: 10", "from: 1, to: 12"))
    madeup.published(results)
    counted = report.build(results).index.read_text().split('class="words"')[1].split("</form>")[0]
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file() and "report" not in path.parts}
    smoke = [replace(run, fidelity="smoke") for run in madeup.runs()]
    publish.publish(artifacts.Plan(artifacts.load("ln2016/fig6"), "smoke"), smoke, results)
    mine = artifacts.load("ln2016/fig6", extra)
    publish.publish(artifacts.Plan(mine, "paper"), madeup.runs(), results)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert not (results / "ln2016" / "fig6" / "smoke").exists()
    index = report.build(results, config_dir=extra).index
    text = index.read_text()
    assert text.split('class="words"')[1].split("</form>")[0] == counted and 'class="own"' in text
    assert "no finding about a paper" in (index.parent / "own-ln2016-fig6-paper.html").read_text()
    page = (index.parent / "own-ln2016-fig6-smoke.html").read_text()
    assert "no finding about a paper" in page and "<h2>Claims</h2>" not in page and "LN-F1" not in page


def test_pages_that_are_not_made_are_kept_or_name_their_command(tmp_path: Path) -> None:
    results = tmp_path / "results"
    madeup.published(results)
    page = results / "report" / "ln2016-fig6-paper.html"
    report.build(results, only=[])
    assert "normbench report" in page.read_text() and "made-of" not in page.read_text()
    report.build(results)
    whole = page.read_bytes()
    assert b"made-of" in whole
    report.build(results, only=[])
    assert page.read_bytes() == whole and (page.parent / "ln2016-fig6-paper" / "verdicts.json").exists()
    content = json.loads((results / "ln2016" / "fig6" / "paper" / "verdicts.json").read_text()) | {"command": "another"}
    (results / "ln2016" / "fig6" / "paper" / "verdicts.json").write_text(madeup.sealed(content))
    report.build(results, only=[])
    assert page.read_bytes() != whole, "it is of other verdicts"
