"""The page of a comparison: as the server sends it, and as one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from normbench.compare.suggested_seeds import suggested_commands
from normbench.runs.record import RunRecord
from normbench.web import plots, site
from normbench.web.json_safe import dumped
from normbench.web.site import PLOTLY
from normbench.web.view import LEFT_OUT, Load, Selection, View, content, view

STYLES = ("style.css", "dashboard.css")
SCRIPTS = (
    PLOTLY,
    "dashboard-source.js",
    "dashboard-draw.js",
    "dashboard-panels.js",
    "dashboard-table.js",
    "dashboard.js",
)
MOST = 2_500_000  # characters of the views of a shared file, without scripts; what is on show is always included
ON_SHOW = 0.9  # of them for the curves on show; a panel's level is in the file as well
FEWEST_COLUMNS = 25  # to which curves on show are thinned where they would need more
ALONE = {"a": "", "b": "", "panels": ""}  # pairs are apart; a panel is drawn from the view of its metric
FEW_CELLS = 8  # up to so many cells, all pairs are in the file


def page() -> str:
    """The page that loads its data from the server; without inline scripts."""
    template = site.environment().get_template("dashboard.html")
    return template.render(shared=None, title="normbench", styles=STYLES, scripts=SCRIPTS, late=PLOTLY)


def static(name: str) -> bytes:
    """One of STYLES and SCRIPTS."""
    if name == PLOTLY:
        return site.plotly_script().read_bytes()
    return (importlib.resources.files("normbench.web") / "static" / name).read_bytes()


def share(heads: Sequence[RunRecord], load: Load, query: Mapping[str, str]) -> bytes:
    """The view of this address as one HTML file, with its panels; every baseline and other choices as space permits.

    Its commands do not contain folders of this machine.
    """
    selection = Selection(heads, query)
    board = selection.board(load)
    columns = plots.COLUMNS
    first = content(selection, board, load, suggested_commands)
    while columns > FEWEST_COLUMNS and _size(first) > ON_SHOW * MOST:
        columns //= 2
        first = content(selection, board, load, suggested_commands, columns)
    file = _File()
    file.add("views", {**first, "pair": None, "panels": []})

    def add(changes: Mapping[str, str]) -> None:
        if file.size < MOST:
            changed = {**query, **first["query"], **ALONE, **changes}
            file.add("views", view(heads, load, changed, columns=columns))

    on_show = _on_show(first)
    for choice in on_show:
        add(choice)
    if board is not None:
        for a, b in _pairs(first):
            file.add("pairs", {**_choice(first, "split", "metric"), "pair": plots.pair(board, a, b)})
        for choice in _others(first, on_show):
            add(choice)
    drawn = {key: value for key, value in query.items() if key not in ("filter", "task", LEFT_OUT)}
    return html({"query": drawn, **file.parts, "pool": file.pool}, first["title"])


def html(shared: Mapping[str, Any], title: str) -> bytes:
    """The file; its policy lists the hash of every script, so no other one runs."""
    scripts = [_script(static(name).decode()) for name in SCRIPTS]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    styles = "\n".join(static(name).decode().replace("</", r"<\/") for name in STYLES)
    template = site.environment().get_template("dashboard.html")
    return template.render(
        shared=Markup(dumped(shared)),
        title=f"{title} · normbench",
        styles=Markup(styles),
        scripts=[Markup(text) for text in scripts],
        allowed=" ".join(f"'sha256-{found}'" for found in hashes),
    ).encode()


def _script(text: str) -> str:
    """A script for inline use: without text that ends its element or opens another."""
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--").replace("<script", r"\x3cscript")


def _pairs(first: View) -> list[tuple[str, str]]:
    """The chosen pair, then all pairs of few cells, else each cell with those of the baseline."""
    keys, against = [cell["key"] for cell in first["cells"]], first["choices"]["against"]["now"]
    base = [cell["key"] for cell in first["cells"] if cell["arm_label"] == against]
    few = len(keys) <= FEW_CELLS
    pairs = [(first["pair"]["a"], first["pair"]["b"])] if first["pair"] else []
    pairs += itertools.combinations(keys, 2) if few else ((k, other) for other in base for k in keys if k != other)
    return list({frozenset(pair): pair for pair in reversed(pairs)}.values())[::-1]


def _size(first: View) -> int:
    """Characters of what is on show: each panel is drawn from a view of its own."""
    return len(dumped(first)) + len(first["panels"]) * len(dumped({**first, "curves": None, "panels": []}))


def _on_show(first: View) -> list[dict[str, str]]:
    """The choices of the panels."""
    choices = {one["key"]: one for one in first["choices"].get("panels", ())}
    shown = (choices[panel["key"]] for panel in first["panels"])
    return [{"split": one["split"], "metric": one["metric"], "level": ""} for one in shown]


def _others(first: View, on_show: Sequence[dict[str, str]]) -> Iterator[dict[str, str]]:
    """The other choices: each baseline, the other point of a run, each metric of each split, each clock."""
    for key in ("against", "at"):
        yield from _options(first, key)
    now = _choice(first, "split", "metric")
    for one in first["choices"]["panels"]:
        choice = {"split": one["split"], "metric": one["metric"]}
        if choice != now and {**choice, "level": ""} not in on_show:
            yield {**choice, "level": ""}
    for clock in _options(first, "x"):
        yield clock
        yield from ({**clock, **choice} for choice in on_show)


def _options(first: View, key: str) -> Iterator[dict[str, str]]:
    choice = first["choices"][key]
    yield from ({key: option["key"]} for option in choice["options"] if option["key"] != choice["now"])


def _choice(first: View, *keys: str) -> dict[str, str]:
    return {key: first["choices"][key]["now"] for key in keys}


class _File:
    """Views and pairs of a shared file: each value is a place in the pool, for most are the same in several views."""

    def __init__(self) -> None:
        self.size = 0  # characters of JSON
        self.pool: list[Any] = []
        self.places: dict[str, int] = {}
        self.parts: dict[str, list[dict[str, int]]] = {"views": [], "pairs": []}

    def add(self, part: str, values: Mapping[str, Any]) -> None:
        """Add a view or a pair, unless it would make the file too large; the first is always added."""
        texts = {key: dumped(value) for key, value in values.items()}
        new = sum(len(text) for text in texts.values() if text not in self.places)
        if self.pool and self.size + new > MOST:
            return
        self.size += new
        for key, text in texts.items():
            if text not in self.places:
                self.places[text] = len(self.pool)
                self.pool.append(values[key])
        self.parts[part].append({key: self.places[text] for key, text in texts.items()})
