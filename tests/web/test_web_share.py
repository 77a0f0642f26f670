"""The page and the shared file: whole, named by hash, and nothing in them but what was meant."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from typing import Any

import compared
import pytest

from normbench.web import share
from normbench.web.json_safe import dumped
from normbench.web.view import view

DATA = re.compile(r'<script type="application/json" id="shared">(.*?)</script>', re.DOTALL)


def shared(runs: list[Any], query: dict[str, str] | None = None) -> tuple[str, dict[str, Any]]:
    text = share.share(compared.heads(runs), compared.loader(runs), query or {}).decode()
    (content,) = DATA.findall(text)
    return text, json.loads(content)


def unpacked(content: dict[str, Any], part: str) -> list[dict[str, Any]]:
    return [{key: content["pool"][place] for key, place in places.items()} for places in content[part]]


def test_a_shared_file_has_the_view_every_baseline_and_every_metric():
    runs = compared.runs()
    _, content = shared(runs, {"log": "1", "off": "batch"})
    views = unpacked(content, "views")
    keys = ("split", "metric", "against", "at", "x")
    found = [{key: view["choices"][key]["now"] for key in keys} for view in views]
    assert found[0] == {"split": "test", "metric": "error", "against": "none", "at": "end", "x": "epoch"}
    assert {view["at"] for view in found} == {"end", "best"} and {view["x"] for view in found} >= {"step", "seconds"}
    assert {view["against"] for view in found if view["metric"] == "error"} == {"none", "batch", "layer"}
    assert {(view["split"], view["metric"]) for view in found} >= {("test", "nll"), ("valid", "error")}
    assert content["query"] == {"log": "1", "off": "batch"} and len(content["pairs"]) == 3
    one = view(compared.heads(runs), compared.loader(runs), {})
    assert views[0] == json.loads(dumped(one))


def test_what_is_on_show_beside_the_curves_comes_first_into_a_file(monkeypatch: pytest.MonkeyPatch):
    runs = compared.runs()
    _, content = shared(runs, {"panels": "valid:nll|test:nll"})
    found = [(view["choices"]["split"]["now"], view["choices"]["metric"]["now"]) for view in unpacked(content, "views")]
    assert found[:3] == [("test", "error"), ("valid", "nll"), ("test", "nll")]
    assert content["query"] == {"panels": "valid:nll|test:nll"} and len(found) == len(shared(runs)[1]["views"]) + 2 * 3
    clocks = [view["choices"]["x"]["now"] for view in unpacked(content, "views")]
    assert [clocks.count(clock) for clock in ("step", "seconds")] == [3, 3]


@pytest.mark.slow
def test_four_panels_of_fifty_cells_of_long_curves_are_all_in_a_small_file():
    runs = [run for lr in (1e-3, 2e-3, 5e-3, 1e-2, 2e-2) for run in compared.runs("abcdefghij", 2, points=1000, lr=lr)]
    keys = ["test:nll", "valid:nll", "valid:error"]
    text, content = shared(runs, {"panels": "|".join(keys)})
    assert len(text) - len(share.static(share.PLOTLY)) < 3_000_000
    views = unpacked(content, "views")[:4]
    assert [f"{v['choices']['split']['now']}:{v['choices']['metric']['now']}" for v in views] == ["test:error", *keys]
    for one in views:
        means = [trace for trace in one["curves"]["data"] if trace["meta"]["role"] == "mean"]
        assert len(means) == 50 and all(len(mean["x"]) > 2 * share.FEWEST_COLUMNS for mean in means)
        assert {(mean["x"][0], mean["x"][-1]) for mean in means} == {(0, 1000)}


def test_every_script_of_a_shared_file_is_named_by_its_hash():
    text, _ = shared(compared.runs(("none", "layer"), 2))
    (allowed,) = re.findall(r"script-src (.*?); style-src", text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert len(scripts) == len(share.SCRIPTS) and html.unescape(allowed).split() == [
        f"'sha256-{one}'" for one in hashes
    ]
    outside = DATA.sub("", re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL))
    assert not re.search(r"\s(src|href)=(?!\"data:,\")", outside) and " on" not in "".join(
        re.findall(r"<[^>]+>", outside)
    )


def test_hostile_names_end_no_script_and_make_no_element():
    text, content = shared(compared.runs(("none", compared.HOSTILE), 2))
    assert text.count("</script>") == len(share.SCRIPTS) + 1
    assert (
        "<img"
        not in text.replace(share.static(share.PLOTLY).decode(), "").split('id="shared"')[1].split("</script>")[0]
    )
    labels = [cell["label"] for cell in unpacked(content, "views")[0]["cells"]]
    assert any("</script><img" in label for label in labels)  # as text


def test_fifty_curves_and_a_full_file_stay_small(monkeypatch: pytest.MonkeyPatch):
    runs = compared.runs(("none", "layer"), 25, points=1000)
    one = view(compared.heads(runs), compared.loader(runs), {})
    own = sum(len(share.static(name)) for name in share.SCRIPTS + share.STYLES if name != share.PLOTLY)
    assert len(dumped(one)) < share.MOST and share.MOST + own < 3_000_000
    monkeypatch.setattr(share, "MOST", 10_000)
    _, content = shared(compared.runs(seeds=2))
    assert len(content["views"]) == 1 and content["pairs"] == []  # what is on the screen is there all the same


def test_the_live_page_has_no_script_in_it_and_names_only_what_is_served():
    text = share.page()
    late = {share.SCRIPTS[0]: 'id="late" async '}  # the page is there before Plotly is
    assert re.findall(r"<script([^>]*)>", text) == [f' {late.get(s, "")}src="static/{s}"' for s in share.SCRIPTS]
    assert "<style" not in text and "style=" not in text and not re.search(r"\son\w+=", text)
    assert all(share.static(name) for name in share.SCRIPTS + share.STYLES)


def test_own_scripts_make_no_html_of_text():
    own = [share.static(name).decode() for name in share.SCRIPTS if name != share.PLOTLY]
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write", "new Function", "scattergl")
    assert [way for way in ways for text in own if way in text] == []


def test_numbers_at_the_end_of_what_there_is_can_be_shared():
    runs = compared.runs(("none", "batch"))
    low = [
        replace(run, id=f"low-{run.id}", records=[{**record, "error": -1.7e308} for record in run.records])
        for run in runs[5:]  # a run of the same name would be taken for one that is known
    ]
    text, content = shared([*runs[:5], *low])
    assert len(content["views"]) > 1 and "Infinity" not in text[text.index('id="shared"') :].split("</script>")[0]
