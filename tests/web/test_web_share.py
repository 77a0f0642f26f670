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


def test_a_shared_file_has_the_view_that_is_on_show():
    runs = compared.runs()
    a, b = (cell["key"] for cell in view(compared.heads(runs), compared.loader(runs), {})["cells"][:2])
    query = {"metric": "nll", "panels": "valid:nll", "a": a, "b": b, "log": "1", "off": "batch"}
    _, content = shared(runs, query)
    assert content["view"] == json.loads(dumped(view(compared.heads(runs), compared.loader(runs), query)))
    assert content["view"]["pair"] and content["view"]["panels"] and content["query"] == query


@pytest.mark.slow
def test_four_panels_of_fifty_cells_of_long_curves_are_all_in_a_small_file():
    runs = [run for lr in (1e-3, 2e-3, 5e-3, 1e-2, 2e-2) for run in compared.runs("abcdefghij", 2, points=1000, lr=lr)]
    keys = ["test:nll", "valid:nll", "valid:error"]
    text, content = shared(runs, {"panels": "|".join(keys)})
    assert len(text) - len(share.static(share.PLOTLY)) < 3_000_000
    found = content["view"]
    assert [panel["key"] for panel in found["panels"]] == keys
    for curves in (found["curves"], *(panel["curves"] for panel in found["panels"])):
        means = [trace for trace in curves["data"] if trace["meta"]["role"] == "mean"]
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
    labels = [cell["label"] for cell in content["view"]["cells"]]
    assert any("</script><img" in label for label in labels)  # as text


def test_fifty_curves_make_a_small_file():
    runs = compared.runs(("none", "layer"), 25, points=1000)
    one = view(compared.heads(runs), compared.loader(runs), {})
    own = sum(len(share.static(name)) for name in share.PAGE_SCRIPTS + share.STYLES)
    assert len(dumped(one)) < share.MOST and share.MOST + own < 3_000_000


def test_the_live_page_has_no_script_in_it_and_names_only_what_is_served():
    text = share.page()
    assert re.findall(r"<script([^>]*)>", text) == [f' src="static/{name}"' for name in share.PAGE_SCRIPTS]
    assert f'"static/{share.PLOTLY}"'.encode() in share.static("dashboard-draw.js")  # when cells are listed
    assert "<style" not in text and "style=" not in text and not re.search(r"\son\w+=", text)
    assert all(share.static(name) for name in share.SCRIPTS + share.STYLES)


def test_own_scripts_make_no_html_of_text():
    own = [share.static(name).decode() for name in share.PAGE_SCRIPTS]
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write", "new Function", "scattergl")
    assert [way for way in ways for text in own if way in text] == []


def test_numbers_at_the_end_of_what_there_is_can_be_shared():
    runs = compared.runs(("none", "batch"))
    low = [
        replace(run, id=f"low-{run.id}", records=[{**record, "error": -1.7e308} for record in run.records])
        for run in runs[5:]  # a run of the same name would be taken for one that is known
    ]
    text, _ = shared([*runs[:5], *low])
    assert "Infinity" not in text[text.index('id="shared"') :].split("</script>")[0]
