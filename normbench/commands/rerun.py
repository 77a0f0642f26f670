"""`normbench rerun RUN`: repeats a run and compares the two curves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape

from normbench import scratch
from normbench.commands import terminal
from normbench.commands.options import ConfigDir, Json, Results, Run, option
from normbench.commands.progress import Bars
from normbench.commands.terminal import Table, say, say_json
from normbench.config import compose, plan
from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.eval_variants import text
from normbench.launch import base
from normbench.launch.run_missing import ensure_runs
from normbench.runs import pack, store
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord, curve_sha256
from normbench.runs.resolve import ours
from normbench.stats import rerun_diff
from normbench.stats.rerun_diff import Gap, RerunDiff, Row
from normbench.train.weights import refuse_edited

EPILOG = """examples:
  normbench rerun 00955a672333 --epochs 1               repeat the first epoch and compare the curves
  normbench rerun 0095 --epochs 1 --json

the answer, for each metric:
  to the byte     equal
  rounding        no value differs by more than 1e-5 of its size
  chaotic, inside the seeds' spread
                  training amplified the rounding of another processor, torch or backend, but every value lies in the
                  95 % prediction interval (over all values) of the run and three or more runs of other seeds
  different       anything else, with the place where it begins
In the same, fully recorded environment every difference is a failure: not deterministic.

exit codes: 0 one of the first three words; 4 different, or not deterministic

--json prints, shortened:
  {"id": "3a228e1c3403", "word": "different", "deterministic": true, "ended": ["done", "done"],
   "environment": {}, "unrecorded": ["processor"], "seeds": [1, 2], "level": 0.99, "bound": 1e-05,
   "first": {"place": {"step": 0, "epoch": 0, "split": "test", "mode": "eval"}, "metric": "nll", "then": 0.5,
             "now": 2.2, "relative": 0.78, "word": "different", "share": null, "n": 2},
   "metrics": [], "updates": {"compared": 12, "of": 12}}
"environment" has what has changed, each with "then" and "now"; "metrics" the word and the largest difference of each.
"""


def command(
    run: Run,
    results: Results,
    config_dir: ConfigDir = None,
    epochs: Annotated[int | None, option("only the first N epochs", "N", min=1)] = None,
    steps: Annotated[int | None, option("only the first N updates", "N", min=1)] = None,
    as_json: Json = False,
) -> int:
    """Train the same configuration again in a temporary folder, and compare the curves.

    Exit code 4 if they differ by more than rounding and the seeds' spread, or at all in the same environment.
    """
    if epochs and steps:
        raise NormbenchError("--epochs and --steps exclude each other.")
    asked = {unit: length for unit, length in (("epochs", epochs), ("steps", steps)) if length is not None}
    first = ours(run, results)
    if first.status not in store.FINISHED:
        raise NormbenchError(f"run {first.id} is {first.status}: only a finished run can be compared.")
    refuse_edited(first, config_dir)
    config = compose.restore(first.config, config_dir)
    config["train"] = {**config["train"], "keep": []}
    spec = plan.resolved(config, plan.ADHOC, "rerun", plan.ADHOC, config_dir=config_dir)
    if asked:
        ((unit, length),) = asked.items()
        if config["model"]["declares"].get("probe"):
            raise NormbenchError(f"run {first.id} is a probe, computed whole: leave out --{unit}.")
        shorter = replace(spec, config={**config, "train": {**config["train"], "epochs": 0, "steps": 0, **asked}})
        if shorter.steps > spec.steps:
            whole = f"{spec.epochs} epochs, {spec.steps} updates" if spec.epochs else f"{spec.steps} updates"
            raise NormbenchError(f"--{unit} {length} is more than run {first.id} has: {whole}.")
        spec = shorter
    if spec.id != first.id:
        raise NormbenchError(
            f"run {first.id} was made by other maths: this version gives its configuration the id {spec.id}."
        )
    console = terminal.console(stderr=as_json)
    say(console, f"{first.id} again, to compare with {first.path}")
    with scratch.folder("normbench-rerun-") as aside:
        launcher = base.load(plan.command_options("launcher", (), config_dir))
        ensured = ensure_runs([spec], launcher, aside, watch=lambda runs: Bars(runs, console))
        if ensured.interrupted:
            return 130
        again = ensured.found.of(spec)
        if again is None:
            raise NormbenchError(ensured.outcomes[spec.id].reason, code=4)
    found = rerun_diff.compare(first, again, _of_other_seeds(first, first.path, results, config_dir))
    if as_json:
        say_json({**_as_json(first, found), "updates": {"compared": spec.steps, "of": first.steps}})
    else:
        show(again, found, console, first.steps)
    return 0 if found.deterministic and found.word != rerun_diff.DIFFERENT else 4


def _of_other_seeds(run: RunRecord, source: Path, results: Path, config_dir: Path | None) -> list[RunRecord]:
    """The finished runs of the same pack or store that differ from `run` only in the seed."""
    near = pack.read(source) if source.is_file() else _stored(run, results)
    labels = ("experiment", "arm", "control", "axes")
    cell = [r for r in near if r.id != run.id and all(getattr(r, key) == getattr(run, key) for key in labels)]
    return [r for r in cell if _id_with_seed(r, run.seed, config_dir) == run.id]


def _stored(run: RunRecord, results: Path) -> Iterator[RunRecord]:
    for stored in store.scan(results / "runs"):
        if (stored.experiment, stored.arm) == (run.experiment, run.arm):
            try:
                record = store.record(stored)
            except Damaged:
                continue
            if record is not None:
                yield record


def _id_with_seed(run: RunRecord, seed: int, config_dir: Path | None) -> str:
    """The id that the run would have with this seed; "" if this version cannot compose its configuration."""
    try:
        config = compose.restore(run.config, config_dir) | {"seed": seed}
        return ResolvedRun(config, plan.ADHOC, "rerun", plan.ADHOC, config_dir=config_dir).id
    except NormbenchError:
        return ""


def show(again: RunRecord, found: RerunDiff, console: Console, of: int = 0) -> None:
    """Print the answer, the changes of the environment and, if the curves differ, a row per metric.

    of: the number of updates of the whole run.
    """
    part = f", the first {again.steps} of {of} updates" if again.steps < of else ""
    say(console, f"run {again.id}{part}: {_describe_answer(again, found)}")
    if found.changed:
        environment = Table("", "then", "now")
        for key, values in found.changed.items():
            environment.add_row(key, *(escape(str(value)) for value in values))
        console.print(environment)
    if found.word == rerun_diff.TO_THE_BYTE:
        return
    table = Table("split", "mode", "metric", "values", "largest difference", "at", "answer")
    for row in found.rows:
        largest = row.largest
        size, place = (f"{largest.relative:.1e}", _format_place(largest)) if largest and largest.relative else ("", "")
        words = (row.split, row.mode, row.metric, str(row.values), size, place, _describe_row(row))
        table.add_row(*map(escape, words))
    console.print(table)
    say(console, f"differences are relative to the larger value; rounding explains {rerun_diff.BOUND:g}")
    if any(row.judged for row in found.rows):
        say(
            console,
            f"the spread is of seeds {', '.join(map(str, found.seeds))}: {100 * rerun_diff.LEVEL:g} % prediction "
            f"intervals over all values compared, {100 * found.level:.6g} % for each (of logarithms where positive)",
        )


def _describe_answer(again: RunRecord, found: RerunDiff) -> str:
    if found.word == rerun_diff.TO_THE_BYTE:
        return f"{found.word}, {len(again.records)} records, sha256 {curve_sha256(again.records)[:12]}"
    if found.ended[0] != found.ended[1]:
        where = f"{found.ended[0]} then, {found.ended[1]} now"
    else:
        where = f"first {_format_gap(found.first)}" if found.first else "the same values, in another order"
    if not found.deterministic:
        return f"not deterministic, {found.word} in the same environment; {where}"
    silent = "" if found.changed else f"; the environment may be another (not recorded: {', '.join(found.unrecorded)})"
    return f"{found.word}; {where}{silent}"


def _format_gap(gap: Gap) -> str:
    then, now = (value if value is not None else "nothing" for value in (gap.then, gap.now))
    size = f" ({gap.relative:.2g})" if math.isfinite(gap.relative) else ""
    return (
        f"{gap.place['split']} {gap.place['mode']} {gap.metric} at {_format_place(gap)}: {then} then, {now} now{size}"
    )


def _format_place(gap: Gap) -> str:
    parts = [text(gap.variant), *(f"{key} {gap.place[key]}" for key in ("order", "block") if key in gap.place)]
    return ", ".join([f"epoch {gap.place['epoch']:g}", *filter(None, parts)])


def _describe_row(row: Row) -> str:
    notes = []
    if row.beyond and row.n and not row.judged:
        notes.append(f"no spread to compare with: n = {row.n}")
    if row.judged:
        few = f", {row.beyond - row.judged} values of fewer not judged" if row.judged < row.beyond else ""
        notes.append(f"{row.share:.2g} of the interval, n = {row.n}{few}")
    for count, when in ((row.only_then, "then"), (row.only_now, "now")):
        if count:
            notes.append(f"{count} values only {when}")
    return "; ".join([row.word, *notes])


def _as_json(run: RunRecord, found: RerunDiff) -> dict[str, Any]:
    return {
        "id": run.id,
        "word": found.word,
        "deterministic": found.deterministic,
        "ended": found.ended,
        "environment": {key: {"then": then, "now": now} for key, (then, now) in found.changed.items()},
        "unrecorded": found.unrecorded,
        "seeds": found.seeds,
        "level": found.level,
        "bound": rerun_diff.BOUND,
        "first": _gap_as_json(found.first),
        "metrics": [
            {
                **vars(row),
                "share": _number(row.share),
                "largest": _gap_as_json(row.largest),
                "first": _gap_as_json(row.first),
            }
            for row in found.rows
        ],
    }


def _gap_as_json(gap: Gap | None) -> dict[str, Any] | None:
    return None if gap is None else {**vars(gap), "relative": _number(gap.relative), "share": _number(gap.share)}


def _number(value: float | None) -> float | None:
    """JSON has no infinite numbers."""
    return value if value is None or math.isfinite(value) else None
