"""The style of figures: colours, and files whose bytes depend on the numbers alone.

A normalizer has one colour in all figures of papers. The arms of a comparison have colours that everybody tells apart.
"""

from __future__ import annotations

import io
import itertools
import re
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO

COLOURS = {  # by normalizer; related ones have near hues
    "none": "#555555", "batch": "#1f6fb4", "layer": "#d1495b", "weight": "#b8860b", "batch_layer": "#2a9d8f",
    "rms": "#7a5195", "group": "#6b8e23", "instance": "#8c564b", "batch_renorm": "#4c72b0", "ghost_batch": "#0e8fb3",
    "streaming": "#c2571a", "spectral": "#b0408c", "norm_propagation": "#3f7d3f", "ada": "#e07b91",
    "dyt": "#c98a00", "derf": "#7d6608", "scale": "#9467bd",
    "power": "#3a4fa3", "recurrent_batch": "#00a6c8", "gate_layer": "#9c1c3c",
    "weight_standardization": "#a15c00", "filter_response": "#00796b", "evo_s0": "#5f6caf",
}  # fmt: skip
EXTRA_COLOURS = ("#7a5195", "#2a9d8f", "#b8860b", "#8c564b", "#4c72b0", "#6b8e23")  # arms and normalizers of users
ON_DARK = {  # the same hues where the page is dark
    "#555555": "#b4b4b4",
    "#a0a0a0": "#808080",
    "#1f6fb4": "#5aa9e6",
    "#d1495b": "#f2788a",
    "#7a5195": "#b58bd0",
    "#2a9d8f": "#4fc4b6",
    "#b8860b": "#e0b040",
    "#8c564b": "#c08a7e",
    "#4c72b0": "#86a6dc",
    "#6b8e23": "#a4c45a",
    "#0e8fb3": "#5cc8e8",
    "#c2571a": "#f0955c",
    "#b0408c": "#e08ac6",
    "#3f7d3f": "#7fc27f",
    "#e07b91": "#f5a3b5",
    "#c98a00": "#f0b429",
    "#7d6608": "#c9b458",
    "#9467bd": "#c5a3e6",
    "#3a4fa3": "#8ea0ee",
    "#00a6c8": "#5fd3ee",
    "#9c1c3c": "#e86a8a",
    "#a15c00": "#e0a04a",
    "#00796b": "#4db6a4",
    "#5f6caf": "#a9b4ee",
}
# On a light page, on a dark one: of Paul Tol's schemes, purple of Okabe and Ito's. The first are the most distant ones,
# for readers without red or green cones too, beside the grey of no normalization: tests/web/test_web_colours.py
DISTINCT = {
    "#0077bb": "#33bbee",
    "#997700": "#eecc66",
    "#332288": "#aa4499",
    "#cc79a7": "#ee3377",
    "#117733": "#228833",
    "#ee6677": "#ee8866",
}
REFERENCE = "#a0a0a0"
METADATA = {
    "svg": {"Date": None, "Creator": "normbench"},
    "pdf": {"CreationDate": None, "Creator": "normbench"},
    "png": {"Software": "normbench"},
}
DOTS = 300  # an inch of a PNG
WIDTH = {"paper": 1.8, "extra": 1.1, "reference": 1.1}


def colours_of(norms: Iterable[str]) -> dict[str, str]:
    """A colour each. A user's normalizer always gets the same extra colour, or the next free one."""
    norms = set(norms)
    colours = {norm: COLOURS[norm] for norm in norms & COLOURS.keys()}
    for norm in sorted(norms - COLOURS.keys()):
        start = zlib.crc32(norm.encode(errors="replace")) % len(EXTRA_COLOURS)
        ring = EXTRA_COLOURS[start:] + EXTRA_COLOURS[:start]
        colours[norm] = next((colour for colour in ring if colour not in colours.values()), ring[0])
    return colours


def distinct_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour each, the most distant first; of more names than colours they repeat. Shipped normalizers come first."""
    others = sorted({*names} - {"none"}, key=lambda name: (name not in COLOURS, [*COLOURS, name].index(name), name))
    return {"none": COLOURS["none"], **dict(zip(others, itertools.cycle(DISTINCT), strict=False))}


def on_dark(colour: str) -> str:
    """The colour where the page is dark."""
    return {**ON_DARK, **DISTINCT}.get(colour, colour)


def pyplot() -> Any:
    """matplotlib.pyplot without a display, with fixed ids and fonts as text."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "svg.hashsalt": "normbench",  # ids inside the file; random otherwise
            "svg.fonttype": "none",
            "pdf.fonttype": 42,  # TrueType: publishers refuse matplotlib's Type 3
            "axes.formatter.useoffset": False,
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
        }
    )
    return plt


def save(figure: Any, target: BinaryIO, form: str = "svg", tight: bool = True) -> None:
    """Write the file without a date, cut to what is drawn, or exactly as large as the figure is."""
    box = {"bbox_inches": "tight"} if tight else {}
    drawn = io.BytesIO()
    figure.savefig(drawn, format=form, metadata=METADATA[form], dpi=DOTS, **box)
    pyplot().close(figure)
    content = drawn.getvalue()
    if form == "pdf":  # matplotlib begins an embedded font's name with a hash that is another one in each process
        content = re.sub(rb"(?<=/(?:BaseFont|FontName) /)[A-Z]{6}\+", b"NORMBE+", content)
    target.write(content)
