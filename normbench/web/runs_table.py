"""All runs as one table, a column a key: labels, what differs, the last evaluation, what a reader hides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from normbench.compare import configuration
from normbench.errors import NormbenchError
from normbench.runs.run import Run
from normbench.web import site
from normbench.web.json_safe import json_safe

STYLES = ("style.css", "dashboard.css", "runs.css")
SCRIPTS = ("dashboard-source.js", "dashboard-table.js", "runs.js")
TIMES = ("began", "seconds")
OTHERS = ("experiment", "arm", "control", "fidelity", "train.epochs", "train.steps", "hidden")
DATA = "data"  # across data sets no metric compares
MOST_KEYS, MOST_METRICS = 6, 4  # columns that are shown unless somebody asks for others


def page() -> str:
    """The page, which loads its data from the server."""
    return site.environment().get_template("runs.html").render(styles=STYLES, scripts=SCRIPTS)


def table(
    heads: Sequence[Run], ends: Mapping[str, Mapping[str, float]], hidden: Collection[str], filter: str
) -> dict[str, Any]:
    """The runs that fit a filter, and the columns that are to be shown first.

    heads: every run, without records. ends: its last evaluation. hidden: the ids of those that a reader hides.
    """
    more = {run.id: {**ends.get(run.id, {}), **_more(run, run.id in hidden)} for run in heads}
    words, note = filter.split(), ""
    try:
        runs = configuration.select(words, heads, more)
    except NormbenchError as error:
        runs, note = [*heads], f"Not applied: {error}"
    settings = configuration.flats([run.config for run in runs])
    keys = [*configuration.differing({id(values): values for values in settings}.values())]
    logged = Counter(key for run in runs for key in ends.get(run.id, ()))
    metrics = sorted(logged, key=lambda key: (-logged[key], key))
    rows = [
        {**more[run.id], **configuration.labels_of(run), **configuration.length_of(run), **values}
        for run, values in zip(runs, settings, strict=True)
    ]
    main, goal = _main(runs, metrics)
    names = ["status", *metrics, *keys, "seed", *TIMES, *OTHERS]
    columns = [{"key": key, "values": [_value(row.get(key)) for row in rows]} for key in dict.fromkeys(names)]
    known = [key for key in (*TIMES, "hidden") if any(row[key] for row in rows)]
    first = dict.fromkeys([main, *(key for key in metrics if key.rpartition(".")[2] == main.rpartition(".")[2])])
    shown = ["status", *[*first][:MOST_METRICS], *keys[:MOST_KEYS], "seed", *known]
    return {
        "ids": [run.id for run in runs],
        "columns": json_safe(columns),
        "metrics": metrics,
        "rising": [main] * (goal == "max") + _rising(runs, metrics),
        "main": main,
        "shown": [key for key in shown if key],
        "group": DATA if DATA in keys else "",
        "of": len(heads),
        "trouble": json_safe(note),
    }


def _more(run: Run, hidden: bool) -> dict[str, Any]:
    return {"began": run.began.replace("T", " ").removesuffix("Z"), "seconds": run.seconds, "hidden": hidden}


def _value(value: Any) -> Any:
    """A value of a column: a number, a text, true or false, or nothing."""
    return value if value is None or isinstance(value, str | int | float) else configuration.text(value)


def _main(runs: Sequence[Run], metrics: Sequence[str]) -> tuple[str, str]:
    """The metric by which most of the runs say what is best, and its goal; "" where it was not logged."""
    monitored = Counter((f"{m['split']}.{m['metric']}", m["goal"]) for m in (run.monitor for run in runs))
    return next(((key, goal) for (key, goal), _ in monitored.most_common() if key in metrics), ("", "min"))


def _rising(runs: Sequence[Run], metrics: Sequence[str]) -> list[str]:
    """The metrics of which models declare that higher is better."""
    models = {str(run.config.get("model", {}).get("name", "")) for run in runs}
    names = {name for model in models for name in configuration.declares("model", model).get("rising") or ()}
    return [key for key in metrics if key.partition(".")[2] in names]
