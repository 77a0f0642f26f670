"""Claims about runs that are there: is one arm better than another in a metric?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from normbench.compare import metrics
from normbench.draw.text import visible
from normbench.errors import BadInput, unknown
from normbench.files.stored import IMPORT
from normbench.judge.declared import clocks
from normbench.judge.evidence import observe
from normbench.papers import claims
from normbench.papers.claims import EQUAL, Part
from normbench.papers.rules import fewest_pairs
from normbench.papers.rules_file import ALPHA, FEWEST, POWER
from normbench.runs.run import Run
from normbench.stats.effects import Effects
from normbench.stats.series import CLOCKS, series
from normbench.stats.statistics import detectable_effect


def better(
    runs: Sequence[Run],
    given: Sequence[str | None],
    metric: str | None,
    split: str | None,
    way: str | None,
    length: str,
    than: float | None = None,
) -> dict[str, Any]:
    """The content of a claims file: at the end the first arm is better than the second, or than a number.

    None: the only arm; of the others as the runs declare.
    """
    arms = [_chosen("arm", arm, sorted({run.arm for run in runs}), "") for arm in given]
    compared = [run for run in runs if run.arm in arms]
    logged, monitor = metrics.logged(compared), compared[0].monitor
    with_metric = [name for name, of_split in logged.items() if metric in {None, *(each.name for each in of_split)}]
    split = _chosen("split", split, with_metric if not split and with_metric else [*logged], monitor["split"])
    by_name = {each.name: each for each in logged[split]}
    metric = _chosen("metric", metric, [*by_name], monitor["metric"])
    way, is_share = way or by_name[metric].better, by_name[metric].share
    if not way:
        raise BadInput(f"nothing declares whether a higher {metric} is better: --better lower or higher.")
    quantity = f"final {split} {metric}" if length == EQUAL else f"{split} {metric} at the last common step"
    unit = runs[0].config.get(IMPORT, {}).get("metrics", {}).get(metric, {}).get("unit", "absolute")
    scale = "percent" if is_share else "linear"
    first, second = arms if than is None else (arms[0], claims.format_number(than, scale))
    part = {
        "id": f"{first} against {second}, {quantity}",
        "endpoint": {"kind": "final", "split": split, "metric": metric, "better": way},
        "contrast": [[weight, {"arm": arm}] for weight, arm in zip((1, -1), arms, strict=False)],
        **({} if than is None else {"than": than}),
        **{"scale": scale, "unit": "points" if is_share else str(unit)},
        "expect": "positive" if way == "higher" else "negative",
    }
    relation = "better than" if than is None else "above" if way == "higher" else "below"
    statement = f"{first} is {relation} {second} in {quantity}"
    return {"length": length, "claims": [{"id": "C1", "kind": "direction", "statement": statement, "parts": [part]}]}


def _chosen(option: str, given: str | None, names: Sequence[str], monitored: str) -> str:
    """The given name, else the monitored one, else the only one."""
    chosen = (monitored if monitored in names else names[0] if len(names) == 1 else None) if given is None else given
    if chosen is None:
        raise BadInput(f"which {option} is compared? --{option} {' or '.join(names) or 'NAME: no run has one'}")
    if chosen not in names:
        raise unknown(f"no run has the {option} {chosen or repr(chosen)}.", chosen, names)
    return chosen


def commented(runs: Sequence[Run], words: Sequence[str], content: dict[str, Any]) -> str:
    """A claims file for an editor: what the runs have, the claim of `better`, and one of `no_worse` or of a time."""
    (claim,) = content["claims"]
    (part,) = claims.built(content, Path("--init")).claims[0].parts
    compared = [run for run in runs if not run.control]
    observed = observe(part, compared, content["length"], FEWEST, None).observed
    second, note = _no_worse(claim, observed) if part.than is None else _in_time(claim, part, runs)
    has: dict[str, set[Any]] = {}
    for run in runs:
        has.setdefault(f"seeds of arm {run.arm}", set()).add(run.seed)
        for key, value in run.axes.items():
            has.setdefault(f"axis {key}", set()).add(str(value))
    has |= {f"split {split}": {each.name for each in of_split} for split, of_split in metrics.logged([*runs]).items()}
    head = [
        "normbench judge FILE: tests at 5 %, shared by all claims of this file (Holm).",
        "examples/own_claims/papers has all keys.",
        "A claim holds, fails (surely the other way), is negligible (surely within delta: {is: 0.01, why: ...} of its",
        "part), undecided or untested.",
        "Write the claims, and the smallest effects that matter, before you look at the curves.",
        "looks: [5, 10, 20], in place of seeds and before the first run: judge with so many seeds alone, 5 % together.",
        *(f"{name}: {', '.join(map(str, sorted(values)))}" for name, values in has.items()),
        *note,
    ]
    planned = {"looks": content["looks"]} if "looks" in content else {"seeds": FEWEST}
    keys = {"runs": [*words], **planned, "length": content["length"], "claims": [claim, second]}
    body = yaml.safe_dump(keys, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return "".join(f"# {visible(line)}\n" for line in head) + body


def _no_worse(claim: dict[str, Any], effects: Effects) -> tuple[dict[str, Any], list[str]]:
    """A second claim about two arms, with what a reader has to know."""
    margin = None
    if effects.sd is not None and not effects.flat:
        margin = detectable_effect(effects.sd, effects.n, 1 - ALPHA, POWER)
    second = copy.deepcopy(claim) | {"id": "C2", "kind": "no_worse"}
    second["statement"] = second["statement"].replace("better than", "no worse than")
    second["parts"][0]["within"] = margin and float(f"{margin:.3g}")
    del second["parts"][0]["expect"]
    return second, [
        "within: the first arm is not worse by so much or more. It is what these seeds carry, or empty where they say",
        f"nothing of it: if both arms are alike, C2 holds with {100 * POWER:.0f} %. Too much? Train more seeds.",
    ]


def _in_time(claim: dict[str, Any], part: Part, runs: Sequence[Run]) -> tuple[dict[str, Any], list[str]]:
    """A second claim about a number, with what a reader has to know: the arm reaches it before the longest run ends."""
    end, (_, cell) = part.endpoint, part.contrast[0]
    clock = "step" if all("step" in clocks(run) for run in runs) else "epoch"
    last = max(x for run in runs if run.matches(cell) for x, _ in series(run, end.split, end.mode, end.metric, x=clock))
    second = copy.deepcopy(claim) | {"id": "C2"}
    reached = f"{end.split} {end.metric} {part.than:.12g}"
    second["statement"] = f"{cell['arm']} reaches {reached} before {clock} {last:.12g}"
    second["parts"][0] |= {
        "id": f"{cell['arm']} against {last:.12g}, {CLOCKS[clock]} to {reached}",
        "endpoint": claim["parts"][0]["endpoint"] | {"kind": "time_to_level", "level": part.than, "clock": clock},
        **{"than": last, "scale": "linear", "unit": CLOCKS[clock], "expect": "negative", "test": "sign"},
    }
    return second, [
        "than: a number in the place of a second arm. C2 is decided by the sign test, from "
        f"{fewest_pairs(ALPHA)} seeds: a run that ends there",
        "without reaching the level is later than any number, and so is one that diverged.",
    ]
