"""Parts, effects and claims with a known answer, for the tests of the rules."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import judged
import yaml

from normbench.papers import rules
from normbench.papers.claims import Part
from normbench.papers.parts import Observed
from normbench.runs.run import Run
from normbench.stats.statistics import t_interval

SHAPE = (-2.0, -1.0, 0.0, 1.0, 2.0)
UNIT = (t_interval(SHAPE).interval or (0, 0))[1]  # half the 95 % interval of that


def direction(name: str = "p", **more: Any) -> Part:
    return judged.direction(**{"expect": "positive", "name": name, **more})


def effects(mean: float, half: float) -> list[float]:
    """Five seeds with the 95 % interval mean ± half; that of 90 % is ± 0.77 half, of 99 % ± 1.66 half."""
    return [mean + half / UNIT * u for u in SHAPE]


def seen(
    part: Part, values: Sequence[float | tuple[float, float]], delta: float | None = None, **more: Any
) -> Observed:
    bounds = tuple(v if isinstance(v, tuple) else (v, v) for v in values)
    common = {"complete": True, "pairs": bounds, "delta": delta, "seeds": range(len(bounds))}
    return Observed(part=part, **{**common, **more})


def word(values: Sequence[float | tuple[float, float]], delta: float | None = None, **more: Any) -> str:
    part = more.pop("part", direction())
    return rules.part_word(seen(part, values, delta, **more))


def claim_of(*found: tuple[Sequence[float], float | None]) -> str:
    return rules.claim_word([seen(direction(), *pair) for pair in found])


def compared(values: Sequence[float], first: int = 1, **more: Any) -> list[Run]:
    """Runs of ln and bn whose difference is that, seed by seed."""
    runs = []
    for seed, value in enumerate(values, first):
        runs += [
            judged.final_run("bn", seed, 10.0 + seed % 3, **more),
            judged.final_run("ln", seed, 10.0 + seed % 3 + value, **more),
        ]
    return runs


def claim_data(kind: str, *parts: Any, experiment: str = "x/fig", **more: Any) -> dict[str, Any]:
    texts = {"statement": "s", "quote": "q", "locator": "l"}
    claims = [{"id": "C1", "kind": kind, **texts, "parts": list(parts), **more}]
    place = {"id": "fig", "title": "t", "locator": "l", "experiment": experiment, "seeds": 5}
    return {**place, "deviations": {"paper": ["d"]}, "claims": claims}


def fig6_part(name: str, **more: Any) -> dict[str, Any]:
    end = {"kind": "final", "split": "test", "mode": "eval", "metric": "error"}
    contrast = [[weight, {"arm": arm, "train.batch_size": 128}] for weight, arm in ((1, "ln"), (-1, "bn"))]
    return {"id": name, "endpoint": end, "contrast": contrast, "scale": "percent", "unit": "points", **more}


def written(folder: Path, data: Any) -> Path:
    path = folder / "fig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path
