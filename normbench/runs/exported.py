"""What a table of exported runs has, and what stands beside it, so that `normbench import` gives the same runs.

curves.csv               a row a record: labels, model, data, normalizer and all that differs, place in the run, metrics
curves.runs.jsonl        a line a run: what a pack has of it, without its records
curves.contrasts.npz     the effects by test example, where a published artifact has all these runs
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files, pack
from normbench.runs.record import RunRecord

LABELS = ("run", "experiment", "arm", "seed", "fidelity", "control", "status")
PLACES = {
    **dict.fromkeys(("split", "mode", "variant"), "string"),
    **dict.fromkeys(("order", "block"), "int64"),
    "epoch": "float64",
    **dict.fromkeys(("step", "examples"), "int64"),
}  # and the type of each
TYPES = {**dict.fromkeys(LABELS, "string"), "seed": "int64", **PLACES}
RUNS, CONTRASTS = "runs.jsonl", "contrasts.npz"
FORM = re.compile(r"\.(csv|parquet)(\.gz)?$")


def beside(table: Path, what: str) -> Path:
    """`curves.runs.jsonl` of curves.csv, curves.csv.gz or curves.parquet."""
    return table.with_name(f"{FORM.sub('', table.name)}.{what}")


def is_beside(path: Path) -> bool:
    """Whether a file says what a table beside it does not."""
    stem = path.name.removesuffix(RUNS)
    return stem != path.name and any(path.with_name(stem + form).exists() for form in ("csv", "csv.gz", "parquet"))


def is_export(columns: Collection[str]) -> bool:
    """Whether a table with these columns is one of exported runs."""
    return TYPES.keys() <= {*columns}


def write(table: Path, runs: Sequence[RunRecord], contrasts: bytes = b"") -> list[Path]:
    """Write beside a table what it does not have of its runs. Without contrasts, those of an earlier table go."""
    contents = {RUNS: b"".join(pack.without_records(run) + b"\n" for run in runs), CONTRASTS: contrasts}
    with files.alone(table.parent):  # which removes what is half written there
        for what, content in contents.items():
            if content:
                files.atomic_write(beside(table, what), content)
            else:
                beside(table, what).unlink(missing_ok=True)
    return [beside(table, what) for what, content in contents.items() if content]


def read_runs(table: Path) -> dict[str, RunRecord]:
    """By id the runs of the file beside a table, without their records; none without it. NormbenchError if damaged."""
    path = beside(table, RUNS)
    try:
        lines = reading.read(path, pack.LARGEST, links=False).splitlines()
        return {run.id: run for run in map(pack.run_of, lines)}
    except FileNotFoundError:
        return {}
    except pack.DAMAGE as error:
        raise NormbenchError(f"{path} is damaged ({error}). Delete it, or export again.") from None
