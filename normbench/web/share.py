"""The page of a comparison: as the server gives it, and as one file that has all in itself and asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import importlib.util
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from normbench.errors import NormbenchError
from normbench.runs.record import RunRecord
from normbench.web import site
from normbench.web.view import Load, View, view

STYLES = ("style.css", "dashboard.css")
PLOTLY = "plotly.min.js"
SCRIPTS = (
    PLOTLY, "dashboard-source.js", "dashboard-address.js", "dashboard-draw.js", "dashboard-table.js", "dashboard.js"
)  # fmt: skip
LARGE = 1500  # characters of JSON: what is as large stands in the file once
MOST = 2_500_000  # characters of the views of a shared file, beside the scripts; the view on the screen is always there
FEW_CELLS = 8  # so many have every pair of theirs in the file


def page() -> str:
    """The page that asks its server; no script stands in it."""
    template = site.environment().get_template("dashboard.html")
    return template.render(shared=None, title="normbench", styles=STYLES, scripts=SCRIPTS)


def static(name: str) -> bytes:
    """One of STYLES and SCRIPTS. KeyError for another name."""
    if name not in STYLES + SCRIPTS:
        raise KeyError(name)
    return plotly_script().read_bytes() if name == PLOTLY else _own(name)


def plotly_script() -> Path:
    """Plotly's script, from the installed package: found, not imported, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise NormbenchError("plotly is not installed. Run: pip install 'plotly>=6,<8'")
    return Path(spec.origin).parent / "package_data" / PLOTLY


def _own(name: str) -> bytes:
    return (importlib.resources.files("normbench.web") / "static" / name).read_bytes()


def share(heads: Sequence[RunRecord], load: Load, query: Mapping[str, str]) -> bytes:
    """The view of this address as one HTML file, with every baseline, and what else of its task there is room for."""
    first = view(heads, load, query)
    loaded = load([seed["id"] for cell in first["cells"] for seed in cell["seeds"]])
    runs = list(loaded.values())

    def asked(**changes: str) -> View:
        words = {**first["query"], **changes}
        words.pop("filter", None)
        return view(runs, lambda ids: {run_id: loaded[run_id] for run_id in ids if run_id in loaded}, words)

    file = _File({key: value for key, value in query.items() if key not in ("filter", "task")})
    file.add(first)
    file.add_pair(first)
    for a, b in _pairs(first):
        if file.room():
            file.add_pair(asked(a=a, b=b))
    for changes in _others(first):
        if file.room():
            file.add(asked(a="", b="", **changes))
    return html(file.content(), first["title"])


def html(shared: Mapping[str, Any], title: str) -> bytes:
    """The file: every script in it is named by its hash, so that no other one runs."""
    scripts = [_script(static(name).decode()) for name in SCRIPTS]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    styles = "\n".join(static(name).decode().replace("</", r"<\/") for name in STYLES)
    text = (
        site.environment()
        .get_template("dashboard.html")
        .render(
            shared=shared,
            title=f"{title} · normbench",
            styles=Markup(styles),
            scripts=[Markup(text) for text in scripts],
            allowed=" ".join(f"'sha256-{found}'" for found in hashes),
        )
    )
    return text.encode()


def _script(text: str) -> str:
    """A script that may stand in a page: nothing in it ends it, or opens another."""
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--").replace("<script", r"\x3cscript")


def _pairs(first: View) -> Iterator[tuple[str, str]]:
    """The pairs of cells that a reader will ask for: all of few, else each with those of the baseline."""
    keys = [cell["key"] for cell in first["cells"]]
    if len(keys) <= FEW_CELLS:
        yield from itertools.combinations(keys, 2)
        return
    against = first["choices"].get("against", {}).get("now")
    base = [cell["key"] for cell in first["cells"] if cell["arm_label"] == against]
    yield from ((key, other) for other in base for key in keys if key != other)


def _others(first: View) -> Iterator[dict[str, str]]:
    """Every other baseline, then every other metric of each split."""
    choices = first["choices"]
    if not choices:
        return
    for arm in choices["against"]["options"]:
        if arm["key"] != choices["against"]["now"]:
            yield {"against": arm["key"]}
    for split, names in choices["logged"].items():
        for name in names:
            if (split, name) != (choices["split"]["now"], choices["metric"]["now"]):
                yield {"split": split, "metric": name, "level": ""}


class _File:
    """Views and pairs in which what is large stands once, in a pool."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.query, self.size = dict(query), 0
        self.pool: list[Any] = []
        self.places: dict[str, int] = {}
        self.views: list[dict[str, Any]] = []
        self.pairs: list[dict[str, Any]] = []

    def room(self) -> bool:
        return self.size < MOST

    def add(self, one: View) -> None:
        packed = {key: self._packed(value) for key, value in one.items() if key not in ("figures", "pair")}
        packed["figures"] = {
            key: None if key == "difference" else self._packed(value) for key, value in one["figures"].items()
        }
        self.size += len(json.dumps(packed))
        self.views.append({"chosen": _chosen(one), "view": packed})

    def add_pair(self, one: View) -> None:
        if one["pair"] is None:
            return
        names = (one["pair"]["a"], one["pair"]["b"])
        if any((known["a"], known["b"]) in (names, names[::-1]) for known in self.pairs):
            return
        figure = self._packed(one["figures"]["difference"])
        self.pairs.append({"a": names[0], "b": names[1], "chosen": _chosen(one), "pair": one["pair"], "figure": figure})
        self.size += len(json.dumps(one["pair"]))

    def _packed(self, value: Any) -> Any:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        if len(text) < LARGE:
            return value
        if text not in self.places:
            self.places[text] = len(self.pool)
            self.pool.append(value)
            self.size += len(text)
        return {"$pool": self.places[text]}

    def content(self) -> dict[str, Any]:
        return {"query": self.query, "views": self.views, "pairs": self.pairs, "pool": self.pool}


def _chosen(one: View) -> dict[str, str]:
    return {key: one["choices"][key]["now"] for key in ("split", "metric", "against") if key in one["choices"]}
