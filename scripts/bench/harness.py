"""Side by side: interleaved rounds, medians of ratios, hardware and versions beside every number.

A ratio is taken within a round, where both sides met the same machine; its median and the middle half of the rounds
are published as `results/bench/NAME.{json,md}`. Seconds are printed as well, but they are this machine's alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from normbench.runs import files
from normbench.train.environment import environment

RESULTS = Path(__file__).resolve().parents[2] / "results" / "bench"


@dataclass(frozen=True)
class Row:
    """One comparison: the ratio ours / reference, below 1 is faster; `goal` is the largest ratio aimed at."""

    case: str
    ratio: float
    low: float
    high: float
    ours_ms: float
    reference_ms: float
    rounds: int
    goal: float | None

    @property
    def met(self) -> str:
        """`met` or `missed` with the middle half of the rounds on that side; else only where the median lies."""
        if self.goal is None:
            return ""
        if self.low <= self.goal < self.high:
            return f"median {'within' if self.ratio <= self.goal else 'above'}, rounds on both sides"
        return "met" if self.ratio <= self.goal else "missed"


@dataclass(frozen=True)
class Value:
    """What was asked, what it took, the goal; `reference` is what another tool took, where it was asked the same."""

    case: str
    unit: str
    value: float
    goal: float | None = None
    reference: float | None = None
    smaller: Mapping[int, float] = field(default_factory=dict)  # the same with fewer of what there is, by their number

    @property
    def met(self) -> str:
        return "" if self.goal is None else "met" if self.value <= self.goal else "missed"


def row(case: str, ours: Sequence[float], reference: Sequence[float], units: int, goal: float | None = None) -> Row:
    """Of seconds per round, each round being `units` steps (calls, batches) of both sides."""
    ratios = [a / b for a, b in zip(ours, reference, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    per_unit = [1e3 * statistics.median(side) / units for side in (ours, reference)]
    return Row(case, middle, low, high, *per_unit, rounds=len(ratios), goal=goal)


def machine() -> str:
    """The hardware and versions behind the numbers, and how busy the machine was."""
    now = environment()
    return (
        f"{now['processor']}, {os.cpu_count()} cores, {now['instruction_set']}, {now['threads']} thread; "
        f"torch {now['torch']}, Python {now['python']}, {now['system']}; load {os.getloadavg()[0]:.1f}"
    )


def show(rows: Sequence[Row]) -> None:
    for r in rows:
        goal = "" if r.goal is None else f"  goal ≤ {r.goal:g}: {r.met}"
        print(
            f"{r.case:<28} {r.ratio:.3f} [{r.low:.3f}, {r.high:.3f}]  "
            f"{r.ours_ms:.3f} / {r.reference_ms:.3f} ms, {r.rounds} rounds{goal}",
            flush=True,
        )


def publish(
    name: str,
    title: str,
    command: str,
    rows: Sequence[Row],
    folder: Path = RESULTS,
    reasons: Sequence[str] = (),
) -> None:
    """Write `NAME.json` and `NAME.md`, with the reasons of what is missed below the table."""
    where = machine()
    lines = [
        f"| {r.case} | {r.ratio:.3f} | {r.low:.3f} to {r.high:.3f} | {r.ours_ms:.3f} | {r.reference_ms:.3f} | "
        f"{r.rounds} | {'' if r.goal is None else f'≤ {r.goal:g}, {r.met}'} |"
        for r in rows
    ]
    page = (
        f"# {title}\n\n"
        "Median over interleaved rounds of the ratio ours / reference, and the middle half of the rounds.\n\n"
        "| case | ratio | middle half | ours, ms | reference, ms | rounds | goal |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        + "\n".join(lines)
        + "".join(f"\n\n{reason}" for reason in reasons)
        + f"\n\n`{command}` on {where}\n"
    )
    rounded = [{k: round(v, 5) if isinstance(v, float) else v for k, v in asdict(r).items()} for r in rows]
    write(name, title, command, where, rounded, page, folder)


def publish_values(
    name: str, title: str, note: str, other: str, command: str, rows: Sequence[Value], folder: Path = RESULTS
) -> None:
    """Write `NAME.json` and `NAME.md`; `note` says what is counted, `other` whose the references are."""
    where = machine()
    lines = [
        f"| {r.case} | {r.value:.2f} | {r.unit} | {'' if r.goal is None else f'≤ {r.goal:g}, {r.met}'} | "
        f"{'' if r.reference is None else f'{r.reference:.2f}'} |"
        for r in rows
    ]
    page = (
        f"# {title}\n\n{note}\n\n"
        f"| case | value | unit | goal | {other} |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(lines)
        + f"\n\n`{command}` on {where}\n"
    )
    write(name, title, command, where, [asdict(r) for r in rows], page, folder)


def publish_columns(
    name: str, title: str, note: str, command: str, rows: Sequence[Value], sizes: Sequence[int], folder: Path = RESULTS
) -> None:
    """As `publish_values`, a column per size; the last of them is what a row's value and goal are of."""
    where = machine()

    def cell(row: Value, size: int) -> str:
        value = row.value if size == sizes[-1] else row.smaller.get(size)
        return "" if value is None else number(value)

    lines = [
        f"| {r.case} | {r.unit} | {' | '.join(cell(r, size) for size in sizes)} | "
        f"{'' if r.goal is None else f'≤ {r.goal:g}, {r.met}'} |"
        for r in rows
    ]
    page = (
        f"# {title}\n\n{note}\n\n"
        f"| case | unit | {' | '.join(f'{size:,}' for size in sizes)} | goal |\n"
        f"| --- | --- |{' --- |' * len(sizes)} --- |\n" + "\n".join(lines) + f"\n\n`{command}` on {where}\n"
    )
    write(name, title, command, where, [asdict(r) for r in rows], page, folder)


def number(value: float) -> str:
    """Two decimals, of less than a hundredth two digits."""
    return f"{value:.2f}" if value >= 0.01 or value == 0 else f"{value:.2g}"


def write(
    name: str, title: str, command: str, where: str, rows: Sequence[dict[str, Any]], page: str, folder: Path
) -> None:
    content = {"schema": 1, "title": title, "command": command, "machine": where, "rows": rows}
    files.make_folder(folder)
    files.atomic_write(folder / f"{name}.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    files.atomic_write(folder / f"{name}.md", page.encode())
    print(f"\n{where}\nwritten: {folder / name}.{{json,md}}")


def main(
    doc: str | None,
    name: str,
    title: str,
    rounds: int,
    rows: Callable[[int], Iterable[Row]],
    reasons: Callable[[Sequence[Row]], Sequence[str]] = lambda _: (),
    page: str = "",
) -> None:
    """The command line of a benchmark: `rows(rounds)` gives its rows one after the other, `reasons` why some miss.

    It is published as `page`, by default under its script's name.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds of each side that are counted")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for row in rows(given.rounds):
        show([row])
        results.append(row)
    words = "" if given.rounds == rounds else f" --rounds {given.rounds}"
    publish(page or name, title, f"python scripts/bench/{name}.py{words}", results, given.output, reasons(results))
