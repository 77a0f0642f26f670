"""`normbench show RUN` and `normbench rerun RUN`: one run, raw or published; the same run again."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from normbench.commands.progress import Bars
from normbench.commands.terminal import say
from normbench.config import compose, plan
from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError, unknown
from normbench.launch import base
from normbench.launch.ensure import ensure_runs
from normbench.runs import pack, store
from normbench.runs.record import RunRecord, curve_sha256

# what the bytes of a curve depend on beside the configuration
SAME = ("torch", "instruction_set", "threads", "recurrent", "device", "data")


@dataclass(frozen=True)
class Known:
    """A run by id, wherever it was found."""

    id: str
    source: Path
    labels: dict[str, Any]
    config: dict[str, Any]
    state: str
    steps: int
    reason: str
    records: list[dict[str, Any]]
    environment: dict[str, Any]
    was: dict[str, Any]


def show(name: str, results: Path, as_json: bool, console: Console) -> int:
    """Labels, configuration, environment and last records of one run; `name` is an id, the start of one, or a path."""
    run = known(name, results)
    content = {
        "id": run.id,
        "status": run.state,
        "reason": run.reason,
        "steps": run.steps,
        **run.labels,
        "source": str(run.source),
        "config": run.config,
        "environment": run.environment,
        "records": len(run.records),
        "curve_sha256": curve_sha256(run.records),
        **({"was": run.was} if run.was else {}),
        "last": [r for r in run.records if r["epoch"] == run.records[-1]["epoch"]],
    }
    if as_json:
        print(json.dumps(content, indent=1))
        return 0
    say(console, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    return 0


def rerun(
    name: str, results: Path, epochs: int | None, steps: int | None, config_dir: Path | None, console: Console
) -> int:
    """Train the same configuration again, aside, and compare the curves byte by byte; 4 if they differ."""
    asked = {unit: length for unit, length in (("epochs", epochs), ("steps", steps)) if length is not None}
    for unit, length in asked.items():
        if length < 1:
            raise NormbenchError(f"--{unit} {length} must be at least 1.")
    if len(asked) > 1:
        raise NormbenchError(f"--epochs {epochs} and --steps {steps}: say how far in one of them.")
    run = known(name, results)
    if run.state not in store.FINISHED:
        raise NormbenchError(f"run {run.id} is {run.state}: only a finished run can be compared.")
    config = compose.restore(run.config, config_dir)
    config["train"] = {**config["train"], "keep": []}
    spec = plan.checked(RunSpec(config, plan.ADHOC, "rerun", plan.ADHOC, config_dir=config_dir))
    if asked:
        shorter = replace(spec, config={**config, "train": {**config["train"], "epochs": 0, "steps": 0, **asked}})
        spec = shorter if shorter.steps < spec.steps else spec
    if spec.id != run.id:
        raise NormbenchError(
            f"run {run.id} was made by other maths: this version of normbench gives its configuration the id {spec.id}."
        )
    aside = Path(tempfile.mkdtemp(prefix="normbench-rerun-"))
    try:
        launcher = base.load(plan.command_options("launcher", (), config_dir))
        ensured = ensure_runs([spec], launcher, aside, watch=lambda runs: Bars(runs, console))
        if ensured.interrupted:
            return 130
        again = ensured.found.records.get(spec.id)
        if again is None:
            raise NormbenchError(ensured.outcomes[spec.id].reason, code=4)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    before = [record for record in run.records if record["step"] <= spec.steps]
    return _compare(run, before, again, console)


def _compare(run: Known, before: Sequence[Mapping[str, Any]], rerun: RunRecord, console: Console) -> int:
    changed = [
        f"{key}: {run.environment.get(key)} then, {rerun.environment.get(key)} now"
        for key in SAME
        if run.environment.get(key) != rerun.environment.get(key)
    ]
    elsewhere = f" ({'; '.join(changed)})" if changed else ""
    again, fingerprint = rerun.records, curve_sha256(rerun.records)
    if curve_sha256(before) == fingerprint:
        say(console, f"run {run.id}: the same curve, {len(again)} records, sha256 {fingerprint[:12]}{elsewhere}")
        return 0
    first = next((i for i, pair in enumerate(zip(before, again, strict=False)) if pair[0] != pair[1]), len(again))
    where = before[first] if first < len(before) else {}
    now = again[first] if first < len(again) else {}
    say(console, f"run {run.id}: the curves differ from record {first + 1} on{elsewhere}")
    say(console, f"  then {json.dumps(where, sort_keys=True)}\n  now  {json.dumps(now, sort_keys=True)}")
    return 4


def known(name: str, results: Path) -> Known:
    """The run called `name`: in the raw store (where finished, damaged or going on), else in a published pack."""
    name = Path(name).name[-12:] if "/" in name else name
    # a damaged copy hides no whole one, a shorter one no longer one
    raw = {s.id: s for s in sorted(store.scan(results / "runs"), key=lambda s: not s.reason) if s.id}
    packed = [(run, path) for path in pack.paths(results) for run in pack.read(path)]
    published = {run.id: (run, path) for run, path in sorted(packed, key=lambda pair: pair[0].steps)}
    hits = sorted(i for i in {*raw, *published} if i.startswith(name)) if name else []
    if not hits:
        raise unknown(f"no run {name} below {results}.", name, {*raw, *published}, "normbench status")
    if len(hits) > 1:
        raise NormbenchError(f"{name} is the start of {len(hits)} runs: {', '.join(hits[:5])}.")
    if hits[0] in published:
        run, path = published[hits[0]]
        labels = {
            "experiment": run.experiment,
            "arm": run.arm,
            "seed": run.seed,
            "fidelity": run.fidelity,
            "control": run.control,
            "axes": dict(run.axes),
        }
        return Known(
            run.id,
            path,
            labels,
            dict(run.config),
            run.status,
            run.steps,
            run.reason,
            [dict(r) for r in run.records],
            dict(run.environment),
            dict(run.was),
        )
    return _raw(raw[hits[0]])


def _raw(stored: store.Stored) -> Known:
    try:
        if stored.reason:
            raise store.Damaged(stored.reason)
        content = store.read_config(stored.path)
        records, was = store.checked_curve(stored.path / "curve.jsonl", stored.status)
        environment = store.read_environment(stored.path)
        if not records:
            raise store.Damaged("it has no records yet")
    except store.Damaged as damage:
        raise NormbenchError(f"{stored.path}: {damage}. Delete it to train this run again.") from None
    labels = {key: content.get(key) for key in ("experiment", "arm", "fidelity", "control", "axes")}
    steps = int(stored.status.get("steps", 0))
    return Known(
        stored.id,
        stored.path,
        {**labels, "seed": stored.seed},
        content["config"],
        stored.state,
        steps,
        str(stored.status.get("reason", "")),
        records,
        environment,
        was,
    )
