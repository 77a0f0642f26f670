"""Curves and numbers of the papers and their authors for the quantity of a comparison."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from normbench.compare.answer import Comparison
from normbench.compare.groups import Cell
from normbench.draw.panels import Reference
from normbench.draw.style import REFERENCE
from normbench.papers import artifact as artifacts
from normbench.papers import claims
from normbench.stats.series import Reached


@lru_cache(maxsize=64)
def _artifacts_of(experiment: str) -> tuple[claims.Artifact, ...]:
    """The artifacts made of this experiment's runs. They are searched as text: parsing all takes seconds."""
    matching = []
    for name in artifacts.ids():
        text = (artifacts.HERE / f"{name}.yaml").read_text(encoding="utf-8")
        declared = re.search(r"^experiment:\s*(\S+)", text, re.MULTILINE)
        if experiment in (name, declared and declared[1]):
            artifact = artifacts.read(name)
            if artifact.experiment == experiment:
                matching.append(artifact)
    return tuple(matching)


def references(c: Comparison) -> list[Reference]:
    """The paper's values and its authors' logs of this quantity, from the figures that contain these runs."""
    by_name: dict[str, Reference] = {}
    task, question = c.task, c.question
    # one run a cell is enough: a panel with any run has its references
    runs = [run for cell in task.cells for run in cell.runs[:1] if run.records]
    for artifact in (a for name in dict.fromkeys(run.experiment for run in runs) for a in _artifacts_of(name)):
        of_artifact = [run for run in runs if run.experiment == artifact.experiment]
        for panel in artifacts.panels(artifact, of_artifact) if artifact.reference else ():
            q = panel.quantity
            same = q.over_time and (q.split, q.mode, q.metric, q.clock) == (*question.where, question.clock)
            for reference in panel.references if same and panel.lines else ():
                name = f"{reference.name}, {panel.column}"
                factor = question.metric.factor / q.factor
                points = [(x, factor * y) for x, y in reference.points]
                by_name[name] = replace(reference, name=name, points=points, colour=REFERENCE)
    return list(by_name.values())


def as_rows(c: Comparison) -> list[dict[str, Any]]:
    """The references as numbers: `name`, `last` with its place `x`, and `time` to the level as text."""
    rows, question = [], c.question
    factor = question.metric.factor
    for reference in references(c):
        finite = [(x, y) for x, y in reference.points if math.isfinite(y)]
        if not finite:
            continue
        time = ""
        if question.level is not None:
            reached = question.time_to_level([(x, y / factor) for x, y in finite])
            time = f"{reached.x:.3g}" if isinstance(reached, Reached) else f"≥ {reached.at:g}"
        rows.append({"name": reference.name, "x": finite[-1][0], "last": finite[-1][1], "time": time})
    return rows


def numbers(cell: Cell, variants: Sequence[str]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The papers' numbers for exactly these variants, each with its place in the reference."""
    for experiment in dict.fromkeys(run.experiment for run in cell.runs):
        for artifact in _artifacts_of(experiment):
            for name, mapping in _mappings(artifact.reference, ()):
                if set(mapping) == set(variants):
                    yield f"paper: {' '.join(name)}", mapping


def _mappings(node: Any, name: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, float]]]:
    if not isinstance(node, Mapping):
        return
    if node and all(isinstance(value, int | float) for value in node.values()):
        yield name, {str(key): float(value) for key, value in node.items()}
        return
    for key, inner in node.items():
        yield from _mappings(inner, (*name, str(key)))
