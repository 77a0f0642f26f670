"""RBN Fig. 1: gradients of the states of a tanh RNN by the gain, and the expected derivative of tanh."""

import math
from collections.abc import Sequence
from dataclasses import replace

from normbench.draw.panels import Line, Look, Panel, Quantity, Reference
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS, REFERENCE
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import Point

LOOKS = {f"{i / 10:g}": Look(f"gain {i / 10:g}", f"#{35 + 20 * i:02x}6e{225 - 19 * i:02x}") for i in range(1, 11)}
GRADIENT = Quantity("‖dL/dh‖", "probe", "exact", "gradient", log=True, x="Step", floor=1e-300)
DERIVATIVE = Quantity("Expected derivative of tanh", "probe", "exact", "derivative", x="Standard deviation")
QUARTILES = {"upper quartile": 0.31864, "lower quartile": 1.15035}  # of |z|, with which tanh' falls


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    """Fig. 1a for both orders of the pixels, a line for each gain; Fig. 1b, at the same gains."""
    looks, drawn = {"0.01": Look("gain 0.01", REFERENCE, in_paper=False), **LOOKS}, []
    for arm in ("in-order", "permuted"):
        by_gain = [replace(run, arm=f"{run.axes['norm.gain_init']:g}") for run in runs if run.arm == arm]
        drawn += all_panels(by_gain, looks, {f"{artifact.names[arm]}, by step": {}}, [GRADIENT])
    expected = sorted({(run.axes["norm.gain_init"], run.records[0]["derivative"]) for run in runs})
    line = Line("tanh", Look("mean", COLOURS["batch"]), [Point(s, mean, None, 1, 0) for s, mean in expected], [], 0)
    quartiles = {name: [(s, 1 - math.tanh(s * z) ** 2) for s, _ in expected] for name, z in QUARTILES.items()}
    return [*drawn, Panel("Fig. 1b", DERIVATIVE, [line], [Reference(n, of, "dash") for n, of in quartiles.items()])]
