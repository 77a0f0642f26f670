"""Zhang and Sennrich 2019: differences and speed-ups, recomputed from the tables that the paper prints."""

from __future__ import annotations

from normbench.config.spec import Spec

# seconds of LayerNorm, then of RMSNorm and pRMSNorm, each with the speed-up in brackets, in per cent
TIMES = {
    "Table 2": (665, (501, 24.7), (493, 25.9)),
    "Table 3, Theano": (988, (652, 34.0), (658, 33.4)),
    "Table 3, PyTorch": (857, (763, 11.0), (754, 12.0)),
    "Table 4": (248, (231, 6.9), (225, 9.3)),
    "Table 6": (392, (333, 15.1), (330, 15.8)),
    "Table 8": (12.02, (7.12, 40.8), (4.34, 63.9)),
    "Table 10": (39, (31, 20.5), (30, 23.1)),
}
ERRORS = {"none": 8.96, "layer": 10.49, "rms": 8.83, "prms": 10.37}  # Table 10, per cent


def compute(spec: Spec) -> list[dict[str, float]]:
    """In points: none_less_rms, layer_less_none, prms_less_rms of Table 10's test errors; in per cent of the time with
    LayerNorm: least_saved and most_saved of all tables; in points: brackets_off, the largest difference of a printed
    speed-up from (LayerNorm - ours) / LayerNorm, printed times being exact."""
    saved = [100 * (layer - ours) / layer for layer, *others in TIMES.values() for ours, _ in others]
    printed = [bracket for _, *others in TIMES.values() for _, bracket in others]
    differences = [abs(recomputed - bracket) for recomputed, bracket in zip(saved, printed, strict=True)]
    return [
        {
            "none_less_rms": ERRORS["none"] - ERRORS["rms"],
            "layer_less_none": ERRORS["layer"] - ERRORS["none"],
            "prms_less_rms": ERRORS["prms"] - ERRORS["rms"],
            "least_saved": min(saved),
            "most_saved": max(saved),
            "brackets_off": max(differences),
        }
    ]
