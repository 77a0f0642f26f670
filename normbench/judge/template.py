"""Claims about runs that are there: is one arm better than another in a metric?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normbench.compare import metrics
from normbench.draw.text import visible
from normbench.errors import BadInput, unknown
from normbench.files.stored import IMPORT
from normbench.judge.evidence import observe
from normbench.papers import claims
from normbench.papers.claims import EQUAL
from normbench.papers.rules_file import ALPHA, FEWEST, POWER
from normbench.runs.run import Run
from normbench.stats.statistics import detectable_effect


def better(
    runs: Sequence[Run], pair: Sequence[str], metric: str | None, split: str | None, way: str | None, length: str
) -> dict[str, Any]:
    """The content of a claims file: the first arm is better than the second at the end. None: as the runs declare."""
    for arm in pair:
        _chosen("arm", arm, sorted({run.arm for run in runs}), "")
    compared = [run for run in runs if run.arm in pair]
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
    part = {
        "id": f"{' against '.join(pair)}, {quantity}",
        "endpoint": {"kind": "final", "split": split, "metric": metric, "better": way},
        "contrast": [[1, {"arm": pair[0]}], [-1, {"arm": pair[1]}]],
        **{"scale": "percent" if is_share else "linear", "unit": "points" if is_share else str(unit)},
        "expect": "positive" if way == "higher" else "negative",
    }
    statement = f"{pair[0]} is better than {pair[1]} in {quantity}"
    return {"length": length, "claims": [{"id": "C1", "kind": "direction", "statement": statement, "parts": [part]}]}


def _chosen(option: str, given: str | None, names: Sequence[str], monitored: str) -> str:
    """The given name, else the monitored one, else the only one."""
    chosen = given or (monitored if monitored in names else names[0] if len(names) == 1 else "")
    if not chosen:
        raise BadInput(f"which {option} is compared? --{option} {' or '.join(names) or 'NAME: no run has one'}")
    if chosen not in names:
        raise unknown(f"no run has the {option} {chosen}.", chosen, names)
    return chosen


def commented(runs: Sequence[Run], words: Sequence[str], content: dict[str, Any]) -> str:
    """A claims file for an editor: what the runs have, the claim of `better`, and one of `no_worse`."""
    import yaml

    (claim,) = content["claims"]
    (part,) = claims.built(content, Path("--init")).claims[0].parts
    effects = observe(part, [run for run in runs if not run.control], content["length"], FEWEST, None).observed
    margin = None
    if effects.sd is not None and not effects.flat:
        margin = detectable_effect(effects.sd, effects.n, 1 - ALPHA, POWER)
    second = copy.deepcopy(claim) | {"id": "C2", "kind": "no_worse"}
    second["statement"] = second["statement"].replace("better than", "no worse than")
    second["parts"][0]["within"] = margin and float(f"{margin:.3g}")
    del second["parts"][0]["expect"]
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
        *(f"{name}: {', '.join(map(str, sorted(values)))}" for name, values in has.items()),
        "within: the first arm is not worse by so much or more. It is what these seeds carry, or empty where they say",
        f"nothing of it: if both arms are alike, C2 holds with {100 * POWER:.0f} %. Too much? Train more seeds.",
    ]
    keys = {"runs": [*words], "seeds": FEWEST, "length": content["length"], "claims": [claim, second]}
    body = yaml.safe_dump(keys, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return "".join(f"# {visible(line)}\n" for line in head) + body
