"""How figures look: a normalizer has one colour everywhere; SVG bytes depend on the numbers alone."""

from __future__ import annotations

from typing import Any, BinaryIO

COLOURS = {"none": "#555555", "batch": "#1f6fb4", "layer": "#d1495b"}
WIDTH = {"paper": 1.8, "extra": 1.1}


def pyplot() -> Any:
    """matplotlib.pyplot without a display, with fixed ids and fonts as text."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "svg.hashsalt": "normbench",  # ids inside the file; random otherwise
            "svg.fonttype": "none",
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


def save(figure: Any, target: BinaryIO) -> None:
    """Write the SVG without a date."""
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": "normbench"}, bbox_inches="tight")
    pyplot().close(figure)
