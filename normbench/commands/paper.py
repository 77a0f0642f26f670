"""The figure of a command as a file for a paper, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from normbench.commands import format
from normbench.commands.options import option
from normbench.draw import captions
from normbench.draw.figure import paper_figure
from normbench.draw.panels import Panel
from normbench.draw.style import METADATA
from normbench.errors import BadInput
from normbench.files.reading import place
from normbench.runs import files

MOST_PANELS = 24
WIDTH, FONT_SIZE = 3.25, 8.0  # inches of a column, points

Figure = Annotated[Path | None, option("draw it for a paper: .pdf, .svg or .png", "FILE", parser=place)]
Width = Annotated[
    float | None, option("the figure's width in in, cm, mm, pt", "LENGTH", parser=format.inches, show_default="3.25in")
]
FontSize = Annotated[
    float | None, option("the size of all its text", "LENGTH", parser=format.points, show_default="8pt")
]


def check(path: Path | None, width: float | None, font_size: float | None) -> None:
    """Refuse what cannot be drawn, before anything is computed."""
    if path is None and (width or font_size):
        raise BadInput("--width and --font-size are of a figure: --figure FILE.pdf.")
    if path is not None and path.suffix[1:] not in METADATA:
        raise BadInput(f"--figure {path} does not end in .pdf, .svg or .png.")


def write(path: Path, panels: Sequence[Panel], width: float | None, font_size: float | None) -> str:
    """Write the figure; returns what its caption has to say."""
    if not 0 < len(panels) <= MOST_PANELS:
        raise BadInput(f"--figure would have {len(panels)} panels, of 1 to {MOST_PANELS}. Choose fewer runs.")
    files.make_folder(path.parent, "--figure")
    with files.atomic(path) as target:
        paper_figure(panels, target, path.suffix[1:], width or WIDTH, font_size or FONT_SIZE)
    return captions.of_figure(panels)
