"""Commands with many stored runs: python scripts/bench/many_runs.py [--sizes N,N,N] [--lines N] [--only WORD]

Makes up finished runs through the store, in a folder aside that grows from size to size, and counts the CPU seconds
(user and system) of each command and of the processes that it starts: the least of several calls, for other work on
the machine makes each of them slower. Beside the runs lies nothing, but where it says *published*: there it is all that
this repository has published.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import harness
from harness import Value
from made_runs import specs, write

SIZES = (100, 1000, 10_000)
READ = 2000  # runs that are read at once
STARTED = 100  # runs whose directories are asked for
NEW = 1000  # the first seed of runs that are trained here
CALLS, ENOUGH = 2, 20.0  # a command is called so often, unless it took so many seconds
TRAINED = ("model=mnist_mlp", "data=digits", "norm=layer", "train.epochs=1", "train.batch_size=128")


@dataclass(frozen=True)
class Case:
    """A row: the arguments of a command, the results it is called in, and the most CPU seconds that it should take."""

    name: str
    arguments: Callable[[int], Sequence[str]]  # of the number of the call
    goal: float | None = None
    published: bool = False


def trained(count: int) -> Callable[[int], Sequence[str]]:
    """Training of so many runs that are not there yet."""

    def arguments(call: int) -> Sequence[str]:
        first = NEW + call * count
        seeds = f"seed=range({first},{first + count})" if count > 1 else f"seed={first}"
        return ("train", *(["-m"] if count > 1 else []), *TRAINED, seeds)

    return arguments


def cases(folder: Path, run_id: str) -> list[Case]:
    """In the order in which they are called; `shown` is a run that is there."""

    def always(*words: str) -> Callable[[int], Sequence[str]]:
        return lambda call: words

    return [
        Case("status", always("status"), 3.0),
        Case("show RUN", always("show", run_id), 0.3),
        Case("train, one run in all", trained(1), 2.5),
        Case("train -m, ten runs", trained(10), 5.0),
        Case("export csv", always("export", "csv", "--output", str(folder / "curves.csv")), 30.0),
        Case("--help", always("--help"), 0.35),
        Case("list", always("list"), 0.5),
        Case("status, published", always("status"), None, True),
        Case("show RUN, published", always("show", run_id), None, True),
        Case("reproduce ln2016/fig6 --max-time 0, published",
             always("reproduce", "ln2016/fig6", "--max-time", "0"), 3.0, True),
        Case("reproduce all --dry-run, published", always("reproduce", "all", "--dry-run"), 5.0, True),
        Case("battery --norm rms --dry-run, published", always("battery", "--norm", "rms", "--dry-run"), None, True),
        Case("report, published", always("report"), 4.0, True),
    ]  # fmt: skip


# --- in processes of their own ---------------------------------------------------------------------------------------


def used(command: Sequence[str], log: Path) -> float:
    """CPU seconds of a command and of the processes that it started and waited for. SystemExit where it fails."""
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def least(call: Callable[[int], float]) -> float:
    """Of several calls, one where it takes long."""
    seconds = [call(0)]
    while len(seconds) < CALLS and seconds[-1] < ENOUGH:
        seconds.append(call(len(seconds)))
    return min(seconds)


# all runs in memory: CPU seconds of this alone, and the most memory of the process in MB
READING = """
import pathlib, sys, time
from normbench.runs.table import Runs

start = time.process_time()
runs, notes = Runs(pathlib.Path(sys.argv[1])).finished()
print(time.process_time() - start)
assert runs and not notes
print(int(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1e3)
"""
# CPU seconds per run that a launcher spends on where it is to be written, each before it is made
STARTING = """
import pathlib, sys, time
from normbench.config.plan import train_specs
from normbench.runs import directory

root, specs = pathlib.Path(sys.argv[1], "runs"), train_specs(sys.argv[2:], True)
start = time.process_time()
listed = directory.listed(root)
for spec in specs:
    directory.place(root, spec, listed).mkdir(parents=True)
print((time.process_time() - start) / len(specs))
"""


def printed(code: str, *arguments: str | Path) -> list[float]:
    """The numbers that this code prints in a process of its own, which has loaded nothing else."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in process.stdout.split()]


# --- rows ------------------------------------------------------------------------------------------------------------


def measure(folder: Path, results: Path, run_id: str, only: str) -> Iterator[Value]:
    """One row per case, with the runs that are there now."""
    for case in cases(folder, run_id):
        if only not in case.name:
            continue
        place = folder / "published" if case.published else results
        if case.published:
            shutil.copytree(harness.RESULTS.parent, place, ignore=shutil.ignore_patterns("runs", "report", "smoke"))
            (results / "runs").rename(place / "runs")

        def call(number: int, case: Case = case, place: Path = place) -> float:
            words = [*case.arguments(number)]
            words += ["--results", str(place)] if words != ["--help"] else []
            return used([sys.executable, "-m", "normbench", *words], folder / "log")

        try:
            yield Value(case.name, "CPU s", least(call), case.goal)
        finally:
            if case.published:
                (place / "runs").rename(results / "runs")
                shutil.rmtree(place)
            _forget(results)
    if only in "train, per started run":
        yield Value("train, per started run", "CPU s", least(lambda call: _started(results)), 0.005)


def _started(results: Path) -> float:
    try:
        return printed(STARTING, results, *TRAINED, f"seed=range({NEW},{NEW + STARTED})")[0]
    finally:
        _forget(results)


def _forget(results: Path) -> None:
    """Leave nothing of what was trained here."""
    for path in (results / "runs").glob(f"*/*.s{NEW // 1000}???.*"):
        shutil.rmtree(path)


def rows(sizes: Sequence[int], lines: int, only: str, folder: Path) -> list[Value]:
    results = folder / "results"
    made = specs(lines)
    stored, run_id = 0, ""
    by_case: dict[str, dict[int, Value]] = {}

    def grow(size: int) -> None:
        nonlocal stored, run_id
        new = list(itertools.islice(made, size - stored))
        run_id = run_id or new[0].id
        write(results, new, lines)
        stored = size

    def keep(row: Value, size: int) -> None:
        by_case.setdefault(row.case, {})[size] = row
        goal = "" if row.goal is None else f"  goal ≤ {row.goal:g}"
        print(f"{size:>7,}  {row.case:<48} {harness.number(row.value):>8} {row.unit}{goal}", flush=True)

    for size in sizes:
        if stored < READ <= size and only in "reading":
            grow(READ)
            seconds, memory = min(printed(READING, results) for _ in range(CALLS))
            keep(Value(f"reading {READ:,} runs", "CPU s", seconds, 8.0), sizes[-1])
            keep(Value(f"reading {READ:,} runs, memory", "MB", memory, 200.0), sizes[-1])
        grow(size)
        for row in measure(folder, results, run_id, only):
            keep(row, size)
    last = sizes[-1]
    return [
        replace(by_size[last], smaller={size: by_size[size].value for size in by_size if size != last})
        for by_size in by_case.values()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=SIZES, metavar="N,N,N")
    parser.add_argument("--lines", type=int, default=1000, help="of each curve")
    parser.add_argument("--only", default="", metavar="WORD", help="rows with this in their name; nothing is published")
    parser.add_argument("--output", type=Path, default=harness.RESULTS)
    given = parser.parse_args()
    if list(given.sizes) != sorted({*given.sizes}) or given.sizes[0] < 1:
        parser.error(f"--sizes {given.sizes}: each larger than the one before, the first at least 1")
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules that are compiled anew by every command are no user's
    with tempfile.TemporaryDirectory() as folder:
        values = rows(given.sizes, given.lines, given.only, Path(folder))
    if given.only:
        return
    words = [f"--sizes {','.join(map(str, given.sizes))}"] if given.sizes != SIZES else []
    words += [f"--lines {given.lines}"] if given.lines != parser.get_default("lines") else []
    note = (
        "CPU seconds (user and system) of a command and of the processes that it starts, the least of several calls, "
        f"with so many stored runs of {given.lines:,} lines. *Published*: beside all that this repository publishes."
    )
    command = " ".join(["python scripts/bench/many_runs.py", *words])
    harness.publish_columns(
        "many_runs", "Commands with many stored runs", note, command, values, given.sizes, given.output
    )


if __name__ == "__main__":
    main()
