"""A folder of pages that is replaced as a whole: the common part of the report and the battery's page."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.resources
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from normbench.draw.text import minus, show, visible
from normbench.errors import BadInput, class_of
from normbench.papers import glossary, tally
from normbench.papers.claims import format_cell
from normbench.runs import files

PLOTLY = "plotly.min.js"
MARKER = ".normbench-report"  # a folder that holds it may be replaced
_INTERVAL = re.compile(r"\[([\u2212\d][^\s\]]*), ([\u2212\d][^\s\]]*)\]")


def put(target: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, which has style and scripts, and replace `target` by it.

    Killed at any moment, it leaves the old site or the new one whole. Killed between the two renames, it leaves the old
    one under another name, which the next call undoes.
    NormbenchError if `target` holds other files than such a site, or cannot be written.
    """
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target} is not a folder. Choose another place with --output.")
    if target.is_dir() and any(target.iterdir()) and not (target / MARKER).exists():
        raise BadInput(f"{target} holds other files than a report. Choose a new or empty folder with --output.")
    place = target.resolve()
    files.make_folder(place.parent)
    with files.alone(place.parent):
        # fixed names, protected by the lock; with dots, so that their packs are not taken for published ones
        aside, old = (place.with_name(f".{place.name}.normbench-{what}") for what in ("aside", "old"))
        try:
            _tidy(place, aside, old)
            try:
                aside.mkdir()
                (aside / MARKER).write_text("written by normbench; replaced as a whole\n")
                _assets(aside / "assets")
                write(aside)
                if place.exists():
                    place.rename(old)
                aside.rename(place)
            finally:
                _tidy(place, aside, old)
        except OSError as error:
            raise class_of(error)(
                f"{target} cannot be written: {error.strerror}. Choose another place with --output."
            ) from None


def _tidy(place: Path, aside: Path, old: Path) -> None:
    """Remove all but the site; restore the old one if a call ended between two renames."""
    if old.exists() and not place.exists():
        old.rename(place)
    for left in (aside, old):
        shutil.rmtree(left, ignore_errors=True)


def _assets(folder: Path) -> None:
    folder.mkdir()
    for name in ("style.css", "menu.js", "report.js", "filter.js"):
        text = (importlib.resources.files("normbench.web") / "static" / name).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(plotly_script(), folder / PLOTLY)


def plotly_script() -> Path:
    """Plotly's script in the installed package, found without the import, which takes a second."""
    return Path(str(importlib.metadata.distribution("plotly").locate_file(f"plotly/package_data/{PLOTLY}")))


@functools.cache
def environment() -> jinja2.Environment:
    """Templates in which every value is escaped text, with hidden characters replaced."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("normbench.web", "templates"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else _unbroken(visible(value)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "word_class": tally.word_news,
        "code": _code,
        "number": show,
        "minus": minus,
        "meaning": glossary.meaning,
        "explained": _explained,
        "anchor": lambda word: word.replace(" ", "-"),
        "json": htmlsafe_json_dumps,
        "cell": format_cell,
        "link": lambda text: quote(visible(text)),
    }
    return made


def _unbroken(value: Any) -> Any:
    """An interval is not broken over lines, nor is the number of seeds behind it."""
    return (
        _INTERVAL.sub("[\\1,\N{NO-BREAK SPACE}\\2]", value).replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        if isinstance(value, str) and "[" in value
        else value
    )


def _explained(text: str) -> Markup | str:
    """A word of the glossary with its meaning; other text as it is."""
    meaning = glossary.meaning(text)
    return Markup('<abbr title="{}">{}</abbr>').format(meaning, text) if meaning else text


def _code(text: str) -> Markup:
    """Text with code between backticks."""
    pieces = enumerate(visible(text).split("`"))
    return Markup().join(Markup("<code>{}</code>").format(piece) if i % 2 else piece for i, piece in pieces)
