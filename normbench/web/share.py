"""The page of a comparison: as the server sends it, and as one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from normbench.compare.suggested_seeds import suggested_commands
from normbench.core import extras
from normbench.runs.run import Run
from normbench.web import plots, site
from normbench.web.json_safe import dumped
from normbench.web.site import PLOTLY
from normbench.web.view import LEFT_OUT, Load, Selection, content

STYLES = ("style.css", "dashboard.css")
PAGE_SCRIPTS = ("dashboard-source.js", "dashboard-draw.js", "dashboard-panels.js", "dashboard-table.js", "dashboard.js")
SCRIPTS = (PLOTLY, *PAGE_SCRIPTS)
MOST = 2_500_000  # characters of the view of a shared file, without scripts
FEWEST_COLUMNS = 25  # to which curves are thinned where they would need more


def page() -> str:
    """The page that loads its data from the server; without inline scripts."""
    template = site.environment().get_template("dashboard.html")
    pdf = extras.is_installed("matplotlib")
    return template.render(shared=None, title="normbench", styles=STYLES, scripts=PAGE_SCRIPTS, pdf=pdf)


def static(name: str) -> bytes:
    if name == PLOTLY:
        return site.plotly_script().read_bytes()
    return (importlib.resources.files("normbench.web") / "static" / name).read_bytes()


def share(heads: Sequence[Run], load: Load, query: Mapping[str, str]) -> bytes:
    """The view of this address as one HTML file, with its pair and panels; curves are thinned where it were too large.

    Its commands do not contain folders of this machine.
    """
    selection = Selection(heads, query)
    board = selection.board(load)
    columns = plots.COLUMNS
    shown = content(selection, board, load, suggested_commands)
    while columns > FEWEST_COLUMNS and len(dumped(shown)) > MOST:
        columns //= 2
        shown = content(selection, board, load, suggested_commands, columns)
    drawn = {key: value for key, value in query.items() if key not in ("filter", "task", LEFT_OUT)}
    return html({"query": drawn, "view": shown}, shown["title"])


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
        pdf=False,  # the server draws it
        allowed=" ".join(f"'sha256-{digest}'" for digest in hashes),
    ).encode()


def _script(text: str) -> str:
    """A script for inline use: without text that ends its element or opens another."""
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--").replace("<script", r"\x3cscript")
