"""The page of a comparison: as the server sends it, and as one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from normbench.runs.record import RunRecord
from normbench.web import site
from normbench.web.json_safe import dumped
from normbench.web.site import PLOTLY
from normbench.web.view import Load, View, pairs, runs_of, view

STYLES = ("style.css", "dashboard.css")
SCRIPTS = (
    PLOTLY, "dashboard-source.js", "dashboard-address.js", "dashboard-draw.js", "dashboard-table.js", "dashboard.js"
)  # fmt: skip
LARGE = 1500  # characters of JSON: larger values are stored once
MOST = 2_500_000  # characters of the views of a shared file, without scripts; the current view is always included
CHOSEN = ("split", "metric", "against", "at", "x")  # choices in a shared file; its level and task are fixed
FEW_CELLS = 8  # up to so many cells, all pairs are in the file


def page() -> str:
    """The page that loads its data from the server; without inline scripts."""
    template = site.environment().get_template("dashboard.html")
    return template.render(shared=None, title="normbench", styles=STYLES, scripts=SCRIPTS, late=PLOTLY)


def static(name: str) -> bytes:
    """One of STYLES and SCRIPTS. KeyError for another name."""
    if name not in STYLES + SCRIPTS:
        raise KeyError(name)
    if name == PLOTLY:
        return site.plotly_script().read_bytes()
    return (importlib.resources.files("normbench.web") / "static" / name).read_bytes()


def share(heads: Sequence[RunRecord], load: Load, query: Mapping[str, str]) -> bytes:
    """The view of this address as one HTML file, with every baseline, and other choices as space permits.

    Its commands do not contain folders of this machine.
    """
    first = view(heads, load, query)
    runs = runs_of(heads, load, query)
    loaded = {run.id: run for run in runs}

    def asked(**changes: str) -> View:
        words = {**first["query"], **changes}
        words.pop("filter", None)
        return view(runs, lambda ids: {run_id: loaded[run_id] for run_id in ids if run_id in loaded}, words)

    file = _File({key: value for key, value in query.items() if key not in ("filter", "task")})
    file.add(first)
    if first["choices"]:
        chosen = [(first["pair"]["a"], first["pair"]["b"])] if first["pair"] else []
        for pair, figure in pairs(runs, first["query"], [*chosen, *_pairs(first)]):
            file.add_pair(first, pair, figure)
    for changes in _others(first):
        if file.size < MOST:
            file.add(asked(a="", b="", **changes))
    return html(file.content(), first["title"])


def html(shared: Mapping[str, Any], title: str) -> bytes:
    """The file; its policy lists the hash of every script, so no other one runs."""
    scripts = [_script(static(name).decode()) for name in SCRIPTS]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    styles = "\n".join(static(name).decode().replace("</", r"<\/") for name in STYLES)
    text = (
        site.environment()
        .get_template("dashboard.html")
        .render(
            shared=Markup(dumped(shared)),
            title=f"{title} · normbench",
            styles=Markup(styles),
            scripts=[Markup(text) for text in scripts],
            allowed=" ".join(f"'sha256-{found}'" for found in hashes),
        )
    )
    return text.encode()


def _script(text: str) -> str:
    """A script for inline use: without text that ends its element or opens another."""
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--").replace("<script", r"\x3cscript")


def _pairs(first: View) -> Iterator[tuple[str, str]]:
    """The pairs of cells in the file: all pairs of few cells, else each cell with those of the baseline."""
    keys = [cell["key"] for cell in first["cells"]]
    if len(keys) <= FEW_CELLS:
        yield from itertools.combinations(keys, 2)
        return
    against = first["choices"].get("against", {}).get("now")
    base = [cell["key"] for cell in first["cells"] if cell["arm_label"] == against]
    yield from ((key, other) for other in base for key in keys if key != other)


def _others(first: View) -> Iterator[dict[str, str]]:
    """The other choices: each baseline, the other point of a run, each metric of each split, each clock."""
    choices = first["choices"]
    if not choices:
        return

    def others(key: str) -> Iterator[dict[str, str]]:
        now = choices[key]["now"]
        yield from ({key: option["key"]} for option in choices[key]["options"] if option["key"] != now)

    yield from others("against")
    yield from others("at")
    for split, names in choices["logged"].items():
        for name in names:
            if (split, name) != (choices["split"]["now"], choices["metric"]["now"]):
                yield {"split": split, "metric": name, "level": ""}
    yield from others("x")


class _File:
    """Views and pairs; large values are stored once, in a pool."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.query = dict(query)
        self.size = 0  # characters of JSON
        self.pool: list[Any] = []
        self.places: dict[str, int] = {}
        self.views: list[dict[str, Any]] = []
        self.pairs: list[dict[str, Any]] = []

    def add(self, one: View) -> None:
        """Add a view, unless it would make the file too large; the first is always added."""
        answer = one["answer"] and _without_rows(one["answer"])  # the table has them
        figures = {f"figures.{key}": value for key, value in one["figures"].items() if key != "difference"}
        rest = {key: value for key, value in one.items() if key != "figures"}
        self._add(self.views, {"chosen": _chosen(one)}, {"view": {**rest, "answer": answer, "pair": None, **figures}})

    def add_pair(self, one: View, pair: Mapping[str, Any], figure: Any) -> None:
        """Add a pair of cells of this view, once."""
        names = (pair["a"], pair["b"])
        if not any((other["a"], other["b"]) in (names, names[::-1]) for other in self.pairs):
            head = {"a": names[0], "b": names[1], "chosen": _chosen(one)}
            self._add(self.pairs, head, {"pair": {**pair, "figure": figure}})

    def _add(self, to: list[dict[str, Any]], head: dict[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> None:
        ((name, content),) = parts.items()
        texts = {key: dumped(value) for key, value in content.items()}
        new = sum(len(text) for text in texts.values() if text not in self.places)
        if self.views and self.size + new > MOST:
            return
        self.size += new
        to.append({**head, name: {key: self._place(text, content[key]) for key, text in texts.items()}})

    def _place(self, text: str, value: Any) -> Any:
        if len(text) < LARGE:
            return value
        if text not in self.places:
            self.places[text] = len(self.pool)
            self.pool.append(value)
        return {"$pool": self.places[text]}

    def content(self) -> dict[str, Any]:
        return {"query": self.query, "views": self.views, "pairs": self.pairs, "pool": self.pool}


def _without_rows(answer: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if answer is None:
        return None
    groups = [{key: value for key, value in group.items() if key != "rows"} for group in answer["groups"]]
    return {**answer, "groups": groups}


def _chosen(one: View) -> dict[str, str]:
    return {key: one["choices"][key]["now"] for key in CHOSEN if key in one["choices"]}
