"""The commands that would decide open comparisons: the same runs with further seeds."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from normbench.compare import configuration
from normbench.compare.answer import Comparison
from normbench.compare.groups import Cell
from normbench.config.identity import edited
from normbench.config.plan import ADHOC
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers.rules import FEWEST
from normbench.stats.statistics import REACH

MOST = 4  # comparisons


def suggested_commands(c: Comparison, config_dir: Path | None = None, given: Sequence[str] = ()) -> list[str]:
    """Commands for the seeds that both sides of an open comparison lack, for the comparisons that need the fewest.

    Empty where all is decided or out of reach. `given`: options that are added to all commands.
    """
    asked: list[tuple[int, Cell, Cell]] = []  # (seeds needed, the two cells)
    for group in c.groups:
        cells = {row.arm: row.cell for row in group.rows}
        for d in () if group.tuned else group.open:
            wanted = FEWEST if d.n < FEWEST else d.needed or REACH + 1
            if d.n < wanted <= REACH:
                asked.append((wanted, cells[d.first], cells[d.second]))
    nearest = sorted(asked, key=lambda one: one[0])[:MOST]
    seeds: dict[str, int] = {}  # how many each cell needs in total
    for wanted, *pair in nearest:
        for cell in pair:
            seeds[cell.key] = max(seeds.get(cell.key, 0), wanted)
    lacking: dict[tuple[int, int], list[Cell]] = {}
    for cell in c.task.cells:
        more = seeds.get(cell.key, 0) - len(cell.done)
        if more > 0:
            last = max(run.seed for run in cell.runs)
            lacking.setdefault((last + 1, last + more), []).append(cell)
    ranked = sorted(lacking.items(), key=lambda item: item[0][1] - item[0][0])
    return [line for (first, last), own in ranked for line in commands(own, first, last, config_dir, given)]


def out_of_reach(c: Comparison) -> list[str]:
    """The open comparisons that need more than REACH seeds, those that need fewest first."""
    open_ = (d for group in c.groups if not group.tuned for d in group.open if d.n >= FEWEST)
    far = sorted((d.needed, d.first, d.second) for d in open_ if d.needed and d.needed > max(d.n, REACH))
    names = [f"{first} against {second}" for _, first, second in far[:MOST]]
    return [*names, *([f"{len(far) - MOST} more"] if len(far) > MOST else [])]


def commands(
    cells: Sequence[Cell], first: int, last: int, config_dir: Path | None = None, given: Sequence[str] = ()
) -> list[str]:
    """Commands that run these cells with the seeds from `first` to `last`: `reproduce` for runs of an artifact,
    `train` for others.

    A cell whose choices are not known here gets a line that says why: they are a user's own, or another version's.
    """
    found, unknown = [], []
    filed: dict[tuple[str, str, str, tuple[str, ...]], dict[str, None]] = {}
    claimed = set(artifacts.ids(config_dir))
    own = []
    for cell in cells:
        run = cell.runs[0]
        gone = ""
        with contextlib.suppress(NormbenchError):  # a choice that is not known here: its experiment may know it
            gone = edited(run.config, run.id, config_dir)
        if gone:
            unknown.append(f"# seeds {first} to {last} of {cell.norm}: {gone}")
        elif run.experiment == ADHOC:
            own.append(cell)
        else:
            axes = tuple(f"{key}={value}" for key, value in run.axes.items())
            control = run.control if run.experiment not in claimed else "controls" if run.control else ""
            filed.setdefault((run.experiment, run.fidelity, control, axes), {})[run.arm] = None
    for (experiment, fidelity, control, axes), arms in filed.items():
        if experiment not in claimed:
            words = [f"experiment={experiment}", f"arm={','.join(arms)}", *axes]
            words += [f"fidelity={fidelity}"] if fidelity != "paper" else []
            words += [f"control={control}"] if control else []
            found.append(_sweep(words, first, last, given))
            continue
        words = ["normbench", "reproduce", experiment, *(["--controls"] if control else [])]
        words += [] if fidelity == "paper" else ["--fidelity", fidelity]
        words += [part for name in (*arms, *axes) for part in ("--only", name)]
        found.append(shlex.join([*words, "--seeds", f"{first}-{last}", *given]))
    overrides = []
    for cell in own:
        try:
            overrides.append(
                configuration.overrides(cell.runs[0].config, cell.runs[0].epochs, cell.runs[0].steps, config_dir)
            )
        except NormbenchError as error:
            unknown.append(f"# seeds {first} to {last} of {cell.norm}: {error}")
    swept = [_sweep(words, first, last, given) for words in _sweeps(overrides)]
    return [*found, *swept, *dict.fromkeys(unknown)]  # cells that differ in a learning rate lack the same choice


def _sweep(words: Sequence[str], first: int, last: int, given: Sequence[str]) -> str:
    seeds = f"seed=range({first},{last + 1})"
    return shlex.join(["normbench", "train", "-m", *words, seeds, "launcher=pool", *given])


def _sweeps(asked: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The words of one sweep where the configurations are a full product of their values, else of one sweep each."""
    if not asked:
        return []
    keys = list(asked[0])
    if all(list(words) == keys for words in asked):
        choices = {key: list(dict.fromkeys(words[key] for words in asked)) for key in keys}
        if math.prod(map(len, choices.values())) == len({tuple(words.values()) for words in asked}):
            return [[f"{key}={','.join(values)}" for key, values in choices.items()]]
    return [configuration.format_words(words) for words in asked]
