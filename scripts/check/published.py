"""Published runs, and the interval in which one more draw of the same experiment should lie.

The scripts beside this one train a model of their own, written from the papers, and import nothing of normbench. Their
numbers are held against `results/ARTIFACT/FIDELITY/runs.jsonl.gz`, which is read with gzip and json alone.

The rule; all but its last point was fixed before any of them was run:
- One run per arm, with random numbers of its own. Each of its numbers is compared where at least five runs are
  published, as a draw from the normal distribution that these are draws from; losses on the log scale, errors as they
  are, and so a loss of densities, which may be negative. The 99 % prediction interval is mean ± t sqrt(1 + 1/n) s, t
  with n - 1 degrees of freedom.
- Of k numbers about k/100 lie outside by chance, and not independently: one run has many numbers, and the published
  arms have their seeds in common. What counts is the interval of level 1 - 0.01/k, outside of which any number lies by
  chance in at most one check of 100. `--seed` gives another draw.
- Where all published runs have NaN, ours must have NaN; where none has, ours must not. Where some have NaN, or all the
  same number, there is no spread to judge by: the number is shown, not judged.
- A number that counts may be far out because the distribution is not normal: the recall task's loss falls at a time
  that chance decides, as its first check showed. So an arm with such a number is drawn ten times more, and these ten
  alone are held against the published runs by ranks (Mann-Whitney). The exit code is 1 if that test rejects at level
  0.01/j, for any of j numbers.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import platform
import statistics
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import equal
import torch
from scipy import stats

RESULTS = Path(__file__).resolve().parents[2] / "results"
LEVEL, FEWEST, MORE = 0.99, 5, 10
LOGARITHMIC = ("nll", "next_nll", "previous_nll", "loss", "bound", "kl")
Record = Mapping[str, Any]  # as in the pack: epoch, split, mode, variant, and metrics
Cell = tuple[str, Mapping[str, int]]  # an arm and the values of the experiment's axes
Key = tuple[int, str]  # epoch (or update) and what the number is
Train = Callable[..., Iterable[Record]]  # (arm, axes, epochs, data folder) -> records, as they come


@dataclass(frozen=True)
class Row:
    """One number beside the published ones.

    `p`: how often a draw lies as far out, None where that is not judged; `again`: of ten more draws, by ranks.
    """

    cell: str
    epoch: int
    what: str
    ours: float
    mean: float
    low: float
    high: float
    n: int
    p: float | None
    again: float | None = None

    @property
    def judgement(self) -> str:
        if self.p is None:
            return "equal" if math.isclose(self.ours, self.mean, rel_tol=1e-6) else "not judged"
        more = "" if self.again is None else f"; {MORE} more draws by ranks: p = {self.again:.2g}"
        return "inside" if self.p >= 1 - LEVEL else f"OUTSIDE{more}"

    @property
    def interval(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g}"


def compare(values: Sequence[float], ours: float, log: bool) -> dict[str, Any]:
    """Mean, the bounds of the 99 % prediction interval, n and p; mean and bounds of logarithms are raised again."""
    n, finite = len(values), [value for value in values if math.isfinite(value)]
    if len(finite) < n:
        p = None if finite else float(not math.isfinite(ours))
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "n": n, "p": p}
    if min(finite) == max(finite):
        return {"mean": finite[0], "low": finite[0], "high": finite[0], "n": n, "p": None if math.isfinite(ours) else 0}
    scaled, back = ([math.log(value) for value in finite], math.exp) if log else (finite, float)
    mean, unit = statistics.fmean(scaled), statistics.stdev(scaled) * math.sqrt(1 + 1 / n)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * unit
    place = math.log(ours) if log and ours > 0 else -math.inf if log else ours
    p = 2 * stats.t.sf(abs(place - mean) / unit, n - 1) if math.isfinite(ours) else 0
    return {"mean": back(mean), "low": back(mean - half), "high": back(mean + half), "n": n, "p": float(p)}


def read(pack: Path) -> tuple[str, list[dict[str, Any]]]:
    """The hash in a pack's header, and its finished runs without those of controls."""
    with gzip.open(pack, "rt", encoding="utf-8") as lines:
        header, *runs = map(json.loads, lines)
    return header["sha256"], [run for run in runs if run["status"] == "done" and not run["control"]]


def by_update(run: Mapping[str, Any]) -> dict[str, Any]:
    """The run with its records' updates in the place of their epochs."""
    return {**run, "records": [{**record, "epoch": record["step"]} for record in run["records"] if "step" in record]}


def numbers(records: Iterable[Record]) -> dict[Key, float]:
    """Every metric of these records, by epoch and by what it is: `test nll`, `train running nll`, `test TTFF error`."""
    values = {}
    for record in records:
        if not record.keys() & {"order", "block"}:
            mode = "" if record["mode"] == "eval" else record["mode"]
            words = [record["split"], mode, *map(str, record.get("variant", {}).values())]
            for metric in record.keys() - {"epoch", "step", "split", "mode", "variant"}:
                # NaN is written as a string
                values[record["epoch"], " ".join(filter(None, [*words, metric]))] = float(record[metric])
    return values


def by_number(runs: Iterable[Mapping[str, Any]]) -> dict[Key, list[float]]:
    """The values of all these runs, of each number that enough of them have."""
    values_of = defaultdict(list)
    for run in runs:
        for key, value in numbers(run["records"]).items():
            values_of[key].append(value)
    return {key: values for key, values in values_of.items() if len(values) >= FEWEST}


def rows(theirs: Mapping[Key, Sequence[float]], cell: Cell, records: Iterable[Record]) -> Iterator[Row]:
    """Every number of these records that the published runs have too, as the records come."""
    for record in records:
        for (epoch, what), ours in sorted(numbers([record]).items()):
            if (epoch, what) in theirs:
                judged = compare(theirs[epoch, what], ours, log=what.split()[-1] in LOGARITHMIC)
                yield Row(label(cell), epoch, what, ours, **judged)


def again(row: Row, fresh: Sequence[Mapping[Key, float]], theirs: Sequence[float]) -> Row:
    """The row with p of fresh draws against the published runs."""
    sides = [run[row.epoch, row.what] for run in fresh], theirs
    ranked = [[value if math.isfinite(value) else math.inf for value in side] for side in sides]
    return replace(row, again=float(stats.mannwhitneyu(*ranked).pvalue))


def label(cell: Cell) -> str:
    return ", ".join([cell[0], *(f"{axis.split('.')[-1].replace('_', ' ')} {n}" for axis, n in cell[1].items())])


def far_out(rows: Sequence[Row]) -> list[Row]:
    """Those outside of the interval of level 1 - 0.01/k, of k that are judged."""
    judged = [row for row in rows if row.p is not None]
    return [row for row in judged if row.p is not None and row.p < (1 - LEVEL) / len(judged)]


def confirmed(rows: Sequence[Row]) -> list[Row]:
    """Those of `far_out` that are so in further draws too."""
    far = far_out(rows)
    return [row for row in far if row.again is None or row.again < (1 - LEVEL) / len(far)]


def summary(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row.p is not None]
    outside, far = sum(row.judgement.startswith("OUTSIDE") for row in judged), far_out(rows)
    return (
        f"{len(judged)} numbers of {len({row.cell for row in rows})} runs: {outside} outside of the 99 % prediction "
        f"interval (by chance about {len(judged) * (1 - LEVEL):.1f}), {len(far)} outside of that of level 1 - 0.01/k"
        f"{f', {len(confirmed(rows))} of them in further draws too' if far else ''}: "
        f"{'ANOTHER' if confirmed(rows) else 'no sign of another'} experiment than the published one."
    )


def publish(
    name: str,
    title: str,
    command: str,
    pack: str,
    rows: Sequence[Row],
    folder: Path,
    unit: str = "epoch",
    equals: Sequence[equal.Equal] = (),
    about: str = "",
) -> None:
    """`NAME.json` and `NAME.md`: every comparison, the rule, and what was run; `about`: what was written from what."""
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    text = f"{summary(rows)} {equal.summary(equals)}" if equals else summary(rows)
    content = {
        "schema": 1, "title": title, "command": command, "versions": versions, "pack_sha256": pack,
        "summary": text, "rows": [_json_safe(asdict(row)) | {"judgement": row.judgement} for row in rows],
    }  # fmt: skip
    if unit != "epoch":
        content["unit"] = unit
    if equals:
        content["equal"] = [_written(asdict(each)) | {"judgement": each.judgement} for each in equals]
    lines = [
        f"| {row.cell} | {row.epoch} | {row.what} | {row.ours:.4g} | {row.mean:.4g} | {row.interval} | {row.n} | "
        f"{row.judgement} |"
        for row in rows
    ]
    page = (
        f"# {title}\n\n{text}\n\n"
        + (f"{about}\n\n" if about else "")
        + "One run of an implementation of its own per arm, beside the published runs: their mean and 99 % prediction "
        "interval (losses on the log scale). The rule is in `scripts/check/published.py`.\n\n"
        f"| arm | {unit} | number | ours | published | 99 % interval | runs | |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        + "\n".join(lines)
        + (f"\n\n{equal.rule(equals)}\n\n{equal.table(equals)}" if equals else "")
        + f"\n\n`{command}` with {versions}; published runs {pack[:12]}\n"
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")


def _json_safe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Five digits, and NaN and infinity as the packs write them."""
    return _written({key: float(f"{v:.5g}") if isinstance(v, float) else v for key, v in row.items()})


def _written(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: str(v) if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}


def main(
    doc: str | None,
    name: str,
    title: str,
    artifact: str,
    cells: Sequence[Cell],
    length: int,
    train: Train,
    *,
    fidelity: str = "paper",
    unit: str = "epoch",
    equals: Callable[[], Iterable[equal.Equal]] | None = None,
) -> int:
    """The command line of a check; returns its exit code. `length`: epochs, or what `unit` says."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{unit}s", type=int, default=length, help=f"{unit}s that are trained and compared")
    parser.add_argument("--seed", type=int, default=1, help="of this draw")
    parser.add_argument("--data", type=Path, default=os.environ.get("NORMBENCH_DATA"), help="default: $NORMBENCH_DATA")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where ARTIFACT/FIDELITY/runs.jsonl.gz lies")
    parser.add_argument("--output", type=Path, default=RESULTS / "check")
    given = parser.parse_args()
    count = getattr(given, f"{unit}s")
    torch.set_num_threads(1)
    if given.data:
        os.environ["NORMBENCH_DATA"] = str(given.data)  # for normbench's side, too
    pack, runs = read(given.results / artifact / fidelity / "runs.jsonl.gz")
    runs = runs if unit == "epoch" else list(map(by_update, runs))
    theirs = {label(cell): by_number(r for r in runs if (r["arm"], r["axes"]) == cell) for cell in cells}
    alike = []
    for each in equals() if equals else ():
        place = ", ".join(filter(None, (each.cell, each.weights)))
        print(f"{place}: {each.what} {each.difference:.2g}: {each.judgement}", flush=True)
        alike.append(each)
    compared: list[Row] = []

    def draw(cell: Cell, number: int) -> Iterable[Record]:
        torch.manual_seed(zlib.crc32(f"{given.seed} {label(cell)}{f' {number}' if number else ''}".encode()))
        return train(*cell, count, given.data)

    for cell in cells:
        if not theirs[label(cell)]:
            print(f"{label(cell)}: left out, fewer than {FEWEST} published runs")
            continue
        for row in rows(theirs[label(cell)], cell, draw(cell, 0)):
            print(
                f"{row.cell:<30} {unit} {row.epoch}  {row.what:<26} {row.ours:.4g}  published {row.mean:.4g}, "
                f"{row.interval}, n = {row.n}: {row.judgement}",
                flush=True,
            )
            compared.append(row)
    far = far_out(compared)
    for cell in cells:
        if any(row.cell == label(cell) for row in far):
            print(f"{label(cell)}: {MORE} more draws", flush=True)
            fresh = [numbers(draw(cell, number)) for number in range(1, MORE + 1)]
            for i, row in enumerate(compared):
                if row in far and row.cell == label(cell):
                    compared[i] = again(row, fresh, theirs[row.cell][row.epoch, row.what])
    words = f" --{unit}s {count}" if count != length else ""
    words += f" --seed {given.seed}" if given.seed != 1 else ""
    command = f"python scripts/check/{name}.py{words}"
    about = " ".join((doc or "").partition("\n\n")[2].split())  # the text below the command line
    publish(name, title, command, pack, compared, given.output, unit, alike, about)
    print(f"\n{summary(compared)}\nwritten: {given.output / name}.{{json,md}}")
    unequal = any(each.difference > equal.BOUND for each in alike)
    return 1 if confirmed(compared) or unequal or not compared else 0
