"""`normbench rerun RUN`: trains a run again, and compares the two curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from normbench.commands import terminal
from normbench.commands.options import ConfigDir, Json, Results, RunName, option
from normbench.commands.progress import bars
from normbench.config import compose, plan
from normbench.core.eval_variants import DEFAULT, text
from normbench.errors import BadInput, Failed, NormbenchError
from normbench.files import scratch
from normbench.launch import base
from normbench.launch.run_missing import ensure_runs
from normbench.papers.rules_file import ALPHA
from normbench.runs.files import line
from normbench.runs.run import FINISHED, PLACE, Run
from normbench.runs.table import Runs, ours
from normbench.stats.statistics import prediction_interval
from normbench.train.weights import refuse_edited

ROUNDING = 1e-5  # float32 rounds at 1.2e-7, and sums and updates add up to about a hundred of that
SMALLEST = 2.0**-23  # float32's epsilon: a smaller value is what rounding left, and differs relative to this
RUNS = 4  # with the run itself, from which one more seed is predicted, at least
ENVIRONMENT = ("processor", "processor_signature", "torch", "instruction_set", "threads", "recurrent", "device")
EQUAL, EXPLAINED, DIFFERENT = "equal to the byte", "within rounding or what seeds differ by", "different"
EPILOG = """examples:
  normbench rerun 05fb4d3344a7 --epochs 1               train the first epoch again, and compare the curves
  normbench rerun 05fb --epochs 1 --json

Curves that are not equal have a line for each metric: how many values both have, how many one of them lacks, and how
many are beyond; the largest difference, relative to the larger value, of the values beyond if there are any; and the
range of the seeds at that place.

Another processor, torch or backend rounds differently, and training can amplify that until the curve is like one of
another seed. A value is beyond if it differs by more than 1e-5 and one more seed would not lie there: it is outside of
the t interval for one more run, at 95 % over all values together. The interval is computed from the run and those of
other seeds, four together at least, on logarithms where all values are above 0. Where all of them have the same value,
as errors of 0, the metric's smallest step is added to one of them, or taken off, to compute it.

A value that one of the two curves lacks is beyond if every run of another seed is like the first run: all have it where
the repetition lacks it, or none has it. Test sets and the variants of eval.also_at_best are evaluated where validation
is best, which can be elsewhere: an evaluation of these that one curve lacks, or that too few seeds have, is not beyond.

exit codes: 0 equal, or in another environment no value beyond; 4 different

--json prints, shortened:
  {"id": "3a228e1c3403", "word": "different", "same_environment": true, "ended": ["done", "done"],
   "updates": {"compared": 12, "of": 12}, "seeds": [1, 2],
   "metrics": [{"metric": "test eval nll", "values": 9, "missing": 0, "beyond": 9, "difference": 0.78,
                "range": null, "at": "epoch 0, step 0"}]}
"""


def command(
    run: RunName,
    results: Results,
    config_dir: ConfigDir = None,
    epochs: Annotated[int | None, option("only the first N epochs", "N", min=1)] = None,
    steps: Annotated[int | None, option("only the first N updates", "N", min=1)] = None,
    as_json: Json = False,
) -> int:
    """Train the same configuration again in a temporary folder, and compare the curves."""
    if epochs and steps:
        raise BadInput("--epochs and --steps exclude each other.")
    then = ours(run, results)
    if then.status not in FINISHED:
        raise BadInput(f"run {then.id} is {then.status}: only a finished run can be compared.")
    refuse_edited(then, config_dir)
    config = compose.restore(then.config, config_dir)
    config["train"] = {**config["train"], "keep": []}
    spec = plan.resolved(config, plan.ADHOC, "rerun", plan.ADHOC, config_dir=config_dir)
    if spec.id != then.id:
        raise BadInput(f"run {then.id} was made by other maths: this version gives its configuration the id {spec.id}.")
    if epochs or steps:
        whole, length = spec.steps, {"epochs": epochs or 0, "steps": steps or 0}
        spec = replace(spec, config={**config, "train": {**config["train"], **length}})
        if spec.probe or spec.steps > whole:
            raise BadInput(f"run {then.id} has no first part of that length: leave out --epochs and --steps.")
        first = min((record["step"] for record in then.records if record["step"]), default=0)
        if spec.steps < first:
            raise BadInput(
                f"run {then.id} was first evaluated after {first} updates: of {spec.steps} nothing can be compared. "
                f"Give --steps {first}, or more."
            )
        last = max((record["step"] for record in then.records), default=0)
        if then.status == "diverged" and last < spec.steps < whole:  # at which update is not known
            raise BadInput(
                f"run {then.id} diverged after its evaluation at {last} updates: leave out --epochs and --steps"
                f"{f', or give --steps {last} or fewer' if last else ''}."
            )
    console = terminal.console(stderr=as_json)
    terminal.say(console, f"{then.id} again, to compare with {then.path}")
    with scratch.folder("normbench-rerun-") as aside:
        launcher = base.load(plan.command_options("launcher", (), config_dir))
        stored = Runs(aside)
        ensured = ensure_runs([spec], launcher, stored, lambda runs: bars(runs, console))
        if ensured.interrupted:
            return 130
        now = stored.of(spec)
        if now is None:
            raise Failed(ensured.outcomes[spec.id].reason)
    answer = compare(then, now, _other_seeds(then, Runs(results), config_dir))
    if as_json:
        terminal.say_json(answer)
    else:
        where = "the same" if answer["same_environment"] else "another"
        part = f"{now.steps} of {then.steps} updates, in {where} environment"
        terminal.say(console, f"run {then.id}, {part}: {answer['word']}")
        rows = []
        for row in answer["metrics"]:
            sizes = {key: "–" if row[key] is None else f"{row[key]:.1e}" for key in ("difference", "range")}
            rows.append([*map(str, (row | sizes).values())])
        if answer["word"] != EQUAL:
            names = ("metric", "values", "missing", "beyond", "difference", "seeds' range", "at")
            terminal.show_rows(console, names, rows)
    return 4 if answer["word"] == DIFFERENT else 0


def _other_seeds(run: Run, stored: Runs, config_dir: Path | None) -> list[Run]:
    """The finished runs that differ from `run` in the seed alone."""
    ids = []
    for head in stored.heads:
        if (head.experiment, head.arm) == (run.experiment, run.arm) and head.id != run.id and head.status in FINISHED:
            with suppress(NormbenchError):  # a configuration that this version does not know
                config = compose.restore(head.config, config_dir) | {"seed": run.seed}
                if plan.resolved(config, plan.ADHOC, "rerun", plan.ADHOC, config_dir=config_dir).id == run.id:
                    ids.append(head.id)
    return list(stored.load(ids).values())


def compare(then: Run, now: Run, others: Sequence[Run]) -> dict[str, Any]:
    """The answer, as --json prints it. `now` may be shorter than `then`; `others` have other seeds."""
    first, records = then.cut(now.steps).records, [*now.records]
    if now.steps < then.steps:  # it ends with evaluations that the longer run did not have there
        places = set(map(_place, first))
        records = [record for record in records if record["step"] < now.steps or _place(record) in places]
    before, after, *seeds = (_values(curve) for curve in (first, records, *(other.records for other in others)))
    of_seeds = {key: [before[key], *(values[key] for values in seeds if key in values)] for key in before}
    predicted = [key for key in before.keys() & after.keys() if len(of_seeds[key]) >= RUNS]
    level = 1 - ALPHA / max(1, len(predicted))
    in_one = {*map(_place, first)} ^ {*map(_place, records)}  # evaluations that one of the two lacks
    steps = _smallest_steps([before, *seeds])
    evaluated: Counter[tuple[str, ...]] = Counter(place for other in others for place in {*map(_place, other.records)})
    rows: dict[str, dict[str, Any]] = {}
    shown: dict[str, tuple[bool, float]] = {}  # of each metric: whether its largest difference is beyond, and that
    for key in before | after:
        split, mode, place, metric = key
        name = f"{split} {mode} {metric}"
        nothing = {"metric": name, "values": 0, "missing": 0, "beyond": 0, "difference": 0.0, "range": None, "at": ""}
        row = rows.setdefault(name, nothing)
        if key not in before or key not in after:
            row["missing"] += 1
            unlike_all = (key in after) not in [key in values for values in seeds]
            row["beyond"] += unlike_all and not (key[:3] in in_one and _is_at_best(key, then))
            continue
        row["values"] += 1
        enough = len(of_seeds[key]) >= RUNS
        difference = _spread([before[key], after[key]])
        if enough:
            is_like = _is_like(of_seeds[key], after[key], level, steps[split, mode, metric])
        else:  # enough seeds, but too few of them have their best there
            is_like = _is_at_best(key, then) and evaluated[key[:3]] + 1 < RUNS <= len(others) + 1
        is_beyond = difference > ROUNDING and not is_like
        if (is_beyond, difference) > shown.get(name, (False, 0.0)):
            shown[name] = is_beyond, difference
            row |= {"difference": difference, "range": _spread(of_seeds[key]) if enough else None, "at": place}
        row["beyond"] += is_beyond
    is_explained = not any(row["beyond"] for row in rows.values())
    resumed = [each["changed"] for each in then.environment.get("resumed", ()) if each["step"] < now.steps]
    same_environment = all(
        then.environment.get(key) == now.environment.get(key) and not any(key in changed for changed in resumed)
        for key in ENVIRONMENT
    )
    ended = [then.cut(now.steps).status, now.status]
    if ended[0] != ended[1]:
        word = DIFFERENT
    elif sorted(map(line, first)) == sorted(map(line, records)):
        word = EQUAL
    else:
        word = EXPLAINED if is_explained and not same_environment else DIFFERENT
    return {
        **{"id": then.id, "word": word, "same_environment": same_environment, "ended": ended},
        "updates": {"compared": now.steps, "of": then.steps},
        "seeds": sorted({then.seed, *(other.seed for other in others)}),
        "metrics": [*rows.values()],
    }


def _place(record: Mapping[str, Any]) -> tuple[str, str, str]:
    parts = [f"{key} {record[key]}" for key in ("epoch", "step", "order", "block") if key in record]
    return record["split"], record["mode"], ", ".join(filter(None, [*parts, text(record.get("variant", DEFAULT))]))


def _values(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], float]:
    """The finite values of a curve, by place and metric."""
    values: dict[tuple[str, ...], float] = {}
    for record in records:
        for metric in record.keys() - {*PLACE}:
            if math.isfinite(value := float(record[metric])):
                values[*_place(record), metric] = value
    return values


def _is_at_best(key: tuple[str, ...], run: Run) -> bool:
    """Whether a value may be of an evaluation that is made where validation is best, which can be elsewhere."""
    split, _, place, _ = key
    options = [words.partition("=")[0] for words in run.config.get("eval", {}).get("also_at_best", ())]
    return split.startswith("test") or any(f"{option}=" in place for option in options)


def _smallest_steps(curves: Iterable[Mapping[tuple[str, ...], float]]) -> dict[tuple[str, str, str], float]:
    """By split, mode and metric the smallest difference between two values: an error has no smaller one than 1/n."""
    values: dict[tuple[str, str, str], set[float]] = {}
    for curve in curves:
        for (split, mode, _, metric), value in curve.items():
            values.setdefault((split, mode, metric), set()).add(value)
    return {
        key: min((high - low for low, high in pairwise(sorted(of)) if _spread([low, high]) > ROUNDING), default=0.0)
        for key, of in values.items()
    }


def _is_like(values: Sequence[float], value: float, level: float, step: float) -> bool:
    """Whether a value lies where one more of these would, with this probability.

    Where all values are alike, as errors of 0, `step` is added to one of them, or taken off.
    """
    if step and _spread(values) <= ROUNDING:
        return any(_is_like([*values[1:], values[0] + aside], value, level, 0.0) for aside in (-step, step))
    if min(*values, value) > 0:
        values, value = [math.log(each) for each in values], math.log(value)
    interval = prediction_interval(values, level)
    return interval is not None and interval[0] <= value <= interval[1]


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(*map(abs, values), SMALLEST)
