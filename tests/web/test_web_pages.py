"""What stands where on the pages: findings first, one plot per unit, what is beside the artifacts, samples."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import madeup
import pytest
from judged import arms, artifact, direction, only

from normbench.draw.panels import Look
from normbench.papers import artifact as artifacts
from normbench.papers import describe, published, tally
from normbench.papers.page import ClaimText
from normbench.web import report, samples, site

ROOT = Path(__file__).resolve().parents[2]


class Tags(HTMLParser):
    """Every start tag of a page with its attributes, and the text right after it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1][2].append(data)

    def of(self, tag: str, css: str = "") -> Iterator[tuple[dict[str, str | None], str]]:
        for name, attrs, text in self.found:
            if name == tag and (not css or css in (attrs.get("class") or "").split()):
                yield attrs, "".join(text).strip()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    madeup.published(results)
    madeup.checked(results)
    madeup.drawn(results)
    return report.build(results).index.parent


def test_an_artifacts_page_answers_first_then_shows_it(built: Path):
    text = (built / "ln2016-fig6-paper.html").read_text()
    verdicts = published.read_verdicts(built / "ln2016-fig6-paper" / "verdicts.json")
    artifact = artifacts.load("ln2016/fig6")
    order = [
        html.escape(artifact.question), tally.describe(verdicts.claims),
        *[f'id="{claim.id}"' for claim in verdicts.claims],
        'class="figure"', "<h2>Numbers</h2>", "<summary>All numbers", "<h2>Drawn by the trained models</h2>",
        "<summary>Choices and deviations", "<h2>Again, on your machine</h2>",
    ]  # fmt: skip
    places = [text.index(mark) for mark in order]
    assert places == sorted(places)


def test_of_a_claim_only_the_answer_is_unfolded_and_nothing_is_printed_twice(built: Path):
    text = html.unescape((built / "ln2016-fig6-paper.html").read_text())
    verdicts = published.read_verdicts(built / "ln2016-fig6-paper" / "verdicts.json")
    for claim in verdicts.claims:
        _, summary, folded = re.split("<details><summary>|</summary>", text.split(f'id="{claim.id}"')[1], maxsplit=2)
        assert claim.statement in summary and describe.answer(claim) in summary and claim.quote in folded
        assert summary.count(claim.statement) == 1 and claim.statement not in folded.split("</article>")[0]
        assert not claim.n or describe.answer(claim) not in folded.split("</article>")[0]


def test_the_index_lists_every_claim_once_and_has_one_plot_per_unit(built: Path):
    page = Tags(built / "index.html")
    verdicts = published.read_verdicts(built / "ln2016-fig6-paper" / "verdicts.json")
    listed = [text for _, text in page.of("a", "id")]
    assert sorted(listed) == sorted(claim.id for claim in verdicts.claims)
    words = {str(attrs["data-word"]) for attrs, _ in page.of("li", "finding")}
    assert {attrs["value"] for attrs, _ in page.of("input") if attrs["type"] == "checkbox"} == words
    plots = (built / "index.html").read_text().split('<section class="effects">')[1].split("<figure>")[1:]
    axes = [re.findall(r"<figcaption><strong>(.*?)</strong>|<span>(← .*?)</span>", plot) for plot in plots]
    assert len({str(axis) for axis in axes}) == len(axes) > 0


def test_arms_of_one_name_have_one_entry_in_the_legend(tmp_path: Path):
    """Of ours/today each of its tasks has an arm called LN."""
    place = report.build(ROOT / "results", tmp_path / "site", only=["ours/today"]).index.parent
    page = Tags(place / "ours-today-reduced.html")
    names = [attrs["data-arm"] for attrs, _ in page.of("input") if "data-arm" in attrs]
    figures = [json.loads(text) for attrs, text in page.of("script") if attrs.get("type") == "application/json"]
    drawn = [trace["meta"]["arm"] for figure in figures for trace in figure["data"] if trace["meta"]["role"] == "mean"]
    assert len(names) == len({*names}) < len(drawn) and {*names} == {*drawn}


def test_a_row_has_the_name_of_its_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A later panel may show other numbers of the arm, as that of alpha and the deviations in dyt2025/vit does."""
    madeup.published(tmp_path)
    entry = published.read(tmp_path / "ln2016" / "fig6" / "paper")
    drawn = artifacts.draw(entry.artifact, entry.runs)
    (first, *_), arm = drawn.panels, drawn.panels[0].lines[0].arm
    other = replace(first, lines=[replace(first.lines[0], look=Look("1/std", "#888888"))])
    monkeypatch.setattr(artifacts, "draw", lambda *given: replace(drawn, panels=[*drawn.panels, other]))
    assert report._content(entry, "")["names"][arm] == first.lines[0].look.name


def row(word: str = "holds", **changes: Any) -> dict[str, Any]:
    claim = replace(only(artifact(direction()), arms(-1.0)), word=word, verdict=f"{word} · nothing open")
    return {"text": ClaimText.of(claim), "ours": False, "fidelity": "paper", "exact": False, "word": word} | changes


def test_the_papers_claims_come_before_our_own_and_lower_fidelities():
    rows = [
        row(ours=True), row(fidelity="proxy"), *[row(exact=i < 5) for i in range(6)], row("fails"), row("untested"),
    ]  # fmt: skip
    blocks = report._blocks(rows)
    assert [(b["ours"], b["fidelity"]) for b in blocks] == [(False, "paper"), (False, "proxy"), (True, "paper")]
    tally = "Of 8 quoted claims, 6 hold (6 nothing open); 1 fails (1 nothing open); 1 is untested."
    assert blocks[0]["tally"] == tally
    unfolded = [r["word"] for r in blocks[0]["unfolded"]]
    assert unfolded == ["holds"] * report.OPEN + ["fails"]
    assert not blocks[0]["unfolded"][0]["exact"]  # measured ones first
    folded = [(word, more, len(rest)) for word, more, rest in blocks[0]["folded"]]
    assert folded == [("holds", True, 6 - report.OPEN), ("untested", False, 1)]
    assert blocks[2]["tally"] == "Of 1 hypothesis of our own, 1 holds (1 nothing open)."


def test_independent_checks_have_a_page(built: Path):
    page = (built / "checks.html").read_text()
    assert page.count("OUTSIDE") == 2 and "1 outside of the 99 % interval" in page  # on its own, and among all
    assert 'Beside the runs of <a href="ln2016-fig6-paper.html">' in page and ">inf<" in page
    assert 'href="checks.html#check-one"' in (built / "ln2016-fig6-paper.html").read_text()
    assert 'href="checks.html"' in (built / "index.html").read_text()


@pytest.mark.parametrize("content", ["", "[]", '{"rows": [{}]}', '{"rows": 3}', "[" * 100_000, "\x00", None])
def test_a_damaged_check_is_one_line(tmp_path: Path, content: str | None):
    path = tmp_path / "check" / "a.json"
    path.parent.mkdir()
    path.mkdir() if content is None else path.write_text(content)
    written = report.build(tmp_path)
    (note,) = written.notes
    assert note.startswith(f"{path} cannot be read") and not (written.index.parent / "checks.html").exists()
    assert "check/a.json cannot be read" in written.index.read_text()


def test_the_published_checks_can_be_read():
    damaged: list[Any] = []
    checks = report._checks(ROOT / "results", [], damaged)
    assert len(checks) == len([*(ROOT / "results" / "check").glob("*.json")]) and not damaged


def test_samples_are_shown_where_they_can_do_nothing(built: Path):
    page = Tags(built / "ln2016-fig6-paper.html")
    ((frame, _),) = page.of("iframe")
    assert frame["sandbox"] is None or frame["sandbox"] == ""
    source = str(frame["srcdoc"])
    assert source.startswith(samples.LOCK) and "drawn" in source and "</script>" in source
    assert len(list(page.of("script"))) == 1 + 4  # none of theirs
    pictures = [str(attrs["src"]) for attrs, _ in page.of("img") if "figure.svg" not in str(attrs["src"])]
    assert len(pictures) == 1 and (built / pictures[0]).is_file()  # neither the link nor the large one
    assert sorted(p.suffix for p in (built / "ln2016-fig6-paper").iterdir() if "figure" not in p.name) == [
        ".csv", ".gz", ".json", ".svg"
    ]  # fmt: skip


def test_pictures_of_one_name_stand_beside_each_other_in_the_order_of_their_numbers():
    runs = [replace(madeup.runs(1)[0], arm=arm) for arm in ("ln", "none")]
    pictures = [samples.Sample(name, src=f"{name}.png") for name in ("step-1000-a", "b", "step-90-a")]
    page = samples.Sample("c", page="<p>")
    found = samples.pictures([(runs[0], [*pictures, page]), (runs[1], pictures[:2])])
    drawn = {name: {at: [run.arm for run, _ in row] for at, row in rows.items()} for name, rows in found.items()}
    assert drawn == {"a": {90: ["ln"], 1000: ["ln", "none"]}, "b": {0: ["ln", "none"]}}
    assert list(drawn["a"]) == [90, 1000]


def test_runs_without_samples_show_none(tmp_path: Path):
    madeup.published(tmp_path)
    built = report.build(tmp_path).index.parent
    text = (built / "ln2016-fig6-paper.html").read_text()
    assert "iframe" not in text and "Drawn by" not in text
    assert not (built / "checks.html").exists() and "checks.html" not in (built / "index.html").read_text()


@pytest.mark.parametrize(
    ("verdict", "facts"),
    [
        ("holds", ""),
        ("holds · proxy · controls not run", "proxy · controls not run"),
        ("untested (not run)", "(not run)"),
        ("undecided (diverged) · as logged", "(diverged) · as logged"),
    ],
)
def test_facts_stand_beside_a_verdicts_word(verdict: str, facts: str):
    claim = replace(only(artifact(direction()), arms(-1.0)), word=verdict.split(" ")[0], verdict=verdict)
    assert ClaimText.of(claim).facts == facts


def test_an_interval_is_not_broken_over_lines():
    rendered = site.environment().from_string("{{ text }}").render(text="−1 [−2, 0.5], n = 5; sites [a, b]; [1, 2, 3]")
    assert rendered == "−1 [−2,\N{NO-BREAK SPACE}0.5], n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}5; sites [a, b]; [1, 2, 3]"
