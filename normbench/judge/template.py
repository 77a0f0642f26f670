"""A claims file about runs that are there: of two arms and one metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from normbench.compare import metrics
from normbench.compare.metrics import Metric
from normbench.draw.text import show, visible
from normbench.errors import NormbenchError, unknown
from normbench.judge.evidence import observe
from normbench.papers import rules
from normbench.papers.claims import EQUAL, Endpoint, Part
from normbench.runs.record import RunRecord
from normbench.stats.statistics import detectable_effect
from normbench.stored import IMPORT


def better(
    runs: Sequence[RunRecord], pair: Sequence[str], metric: str | None, split: str | None, way: str | None, length: str
) -> dict[str, Any]:
    """The content of a claims file with one claim: the first arm is better than the second at the end.

    metric, split: None for the one that the runs monitor. way: `lower` or `higher`; None for what the runs declare.
    length: `equal`, or `common`: at the last common step.
    Raises NormbenchError for an arm, a split or a metric that no run has, and for one without a way.
    """
    if pair[0] == pair[1]:
        raise NormbenchError(f"--compare {pair[0]} {pair[1]}: name two different arms.")
    for arm in pair:
        if arm not in {run.arm for run in runs}:
            raise unknown(f"no run has the arm {arm}.", arm, sorted({run.arm for run in runs}))
    split, found = _metric([run for run in runs if run.arm in pair], metric, split)
    way = way or found.better
    if not way:
        raise NormbenchError(
            f"nothing declares whether a higher {found.name} is better: --better lower or higher, or `goal` in "
            "the map of the import."
        )
    first, second = pair
    quantity = f"final {split} {found.name}" if length == EQUAL else f"{split} {found.name} at the last common step"
    part = {
        "id": f"{first} against {second}, {quantity}",
        "endpoint": {"kind": "final", "split": split, "metric": found.name, "better": way},
        "contrast": [[1, {"arm": first}], [-1, {"arm": second}]],
        "scale": "percent" if found.share else "linear",
        "unit": "points" if found.share else _unit(runs, found.name),
        "expect": "positive" if way == "higher" else "negative",
    }
    statement = f"{first} is better than {second} in {quantity}"
    return {"length": length, "claims": [{"id": "C1", "kind": "direction", "statement": statement, "parts": [part]}]}


def _metric(runs: Sequence[RunRecord], metric: str | None, split: str | None) -> tuple[str, Metric]:
    """The metric asked for, on the split asked for."""
    has = metrics.logged([*runs])
    monitor = runs[0].monitor
    every = {one.name for found in has.values() for one in found}
    if metric is not None and metric not in every:
        raise unknown(f"no run has the metric {metric}.", metric, sorted(every))
    if split is None:
        on = [one for one, found in has.items() if metric is None or metric in {m.name for m in found}]
        split = monitor["split"] if monitor["split"] in on else on[0] if len(on) == 1 else None
        if split is None:
            raise NormbenchError(f"which split is compared? --split {' or '.join(on)}")
    if not has:
        raise NormbenchError("no run has an evaluation: series of mode running are compared by a file of claims alone.")
    if split not in has:
        raise unknown(f"no run has the split {split}.", split, has)
    by_name = {one.name: one for one in has[split]}
    if metric is None:
        usual = [one for one in by_name if one == monitor["metric"]] or [*by_name]
        if len(usual) > 1:
            raise NormbenchError(f"which metric is compared? --metric {' or '.join(usual)}")
        metric = usual[0]
    if metric not in by_name:
        raise unknown(f"no run has the metric {metric} of {split}.", metric, by_name)
    return split, by_name[metric]


def _unit(runs: Sequence[RunRecord], metric: str) -> str:
    """As the map has it; `absolute` where it has none."""
    run = runs[0]
    return str(run.config.get(IMPORT, {}).get("metrics", {}).get(metric, {}).get("unit", "absolute"))


def commented(runs: Sequence[RunRecord], words: Sequence[str], content: dict[str, Any]) -> str:
    """A claims file for an editor: what the runs have, the claim of `better`, and one of `no_worse`."""
    (claim,) = content["claims"]
    (part,) = claim["parts"]
    first, second = (cell["arm"] for _, cell in part["contrast"])
    arms = {arm: sorted({run.seed for run in runs if run.arm == arm}) for arm in sorted({run.arm for run in runs})}
    keys = sorted({key for run in runs for key in run.axes})
    axes = {key: sorted({str(run.axes[key]) for run in runs if key in run.axes}) for key in keys}
    has = {split: ", ".join(one.name for one in found) for split, found in metrics.logged([*runs]).items()}
    carried, spread = _carries(part, runs, content["length"])
    lines = [
        "# normbench judge FILE: the claims are decided by tests at 5 %, shared by all of this file (Holm).",
        "# Write them, and the smallest effects that matter, before you look at the curves.",
        "# docs/keys.md has all keys.",
        *(visible(f"# arm {arm}: seeds {', '.join(map(str, seeds))}") for arm, seeds in arms.items()),
        *(visible(f"# axis {key}: {', '.join(values)}") for key, values in axes.items()),
        *(visible(f"# split {split}: {names}") for split, names in has.items()),
        f"runs: {json.dumps([*words], ensure_ascii=False)}",
        f"seeds: {rules.FEWEST}  # so many on each side, or no verdict; at least {rules.FEWEST}",
        f"length: {content['length']}  # common: compare up to the last step that all have; equal: all must end there",
        "claims:",
        *_claim(claim, part, f"expect: {part['expect']}  # of the first arm minus the second"),
        "",
        "  # the first arm is not worse than the second by `within` or more",
        f"  # {spread}",
        *_claim(
            {"id": "C2", "kind": "no_worse", "statement": f"{first} is no worse than {second}"}, part,
            f"within: {carried}  # in {part['unit']}",
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _claim(claim: dict[str, Any], part: dict[str, Any], last: str) -> list[str]:
    """The lines of a claim with one part."""
    q = json.dumps
    return [
        f"  - id: {claim['id']}",
        f"    kind: {claim['kind']}",
        f"    statement: {q(claim['statement'], ensure_ascii=False)}",
        "    parts:",
        f"      - id: {q(part['id'], ensure_ascii=False)}",
        f"        endpoint: {q(part['endpoint'], ensure_ascii=False)}  # or kind: area, chosen, time_to_level",
        f"        contrast: {q(part['contrast'], ensure_ascii=False)}",
        f"        scale: {part['scale']}",
        f"        unit: {q(part['unit'], ensure_ascii=False)}",
        f"        {last}",
    ]


def _carries(part: dict[str, Any], runs: Sequence[RunRecord], length: str) -> tuple[str, str]:
    """The margin that these seeds can carry, and a sentence about it."""
    end = Endpoint(**part["endpoint"])
    contrast = tuple((float(weight), cell) for weight, cell in part["contrast"])
    tried = Part(part["id"], "direction", end, contrast, part["scale"], part["unit"], part["expect"])
    seen = observe(tried, [run for run in runs if not run.control], length, rules.FEWEST, None)
    n, level = len(seen.seeds), 1 - rules.ALPHA  # one-sided at a half: the file has two claims
    most = None if seen.sd is None or seen.flat else detectable_effect(seen.sd, n, level, rules.POWER)
    if most is None:
        return "", "These runs say nothing of the margin that they can carry: write one."
    return f"{most:.3g}", (
        f"{n} seeds (differences have the standard deviation {show(seen.sd)}) carry {most:.3g}: if both are alike, the "
        f"claim holds with {100 * rules.POWER:.0f} %. Is this more than matters? Then train more seeds."
    )
