"""The commands that would decide what is open: the same runs with further seeds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from normbench.compare import configuration
from normbench.compare.answer import Answer
from normbench.compare.cells import Cell
from normbench.config.plan import ADHOC
from normbench.errors import NormbenchError
from normbench.papers.rules import FEWEST

LIMIT = 100  # seeds beyond which nothing is within reach
SHOWN = 4


def way_on(answer: Answer) -> list[str]:
    """Those that need the fewest seeds first; nothing where all is decided, out of reach, or not to be composed."""
    seeds: dict[str, int] = {}  # how many each cell needs in all
    for group in answer.groups:
        cells = {row.arm: row.cell for row in group.rows}
        for d in () if group.tuned else group.open:
            wanted = FEWEST if d.n < FEWEST else d.needed or LIMIT + 1
            if d.n < wanted <= LIMIT:
                for arm in (d.first, d.second):
                    seeds[cells[arm].key] = max(seeds.get(cells[arm].key, 0), wanted)
    asked: dict[tuple[int, int], list[Cell]] = {}
    for cell in answer.task.cells:
        if cell.key in seeds:
            last = max(run.seed for run in cell.runs)
            more = seeds[cell.key] - len([run for run in cell.runs if run.status == "done"])
            if more > 0:
                asked.setdefault((last + 1, last + more), []).append(cell)
    ranked = sorted(asked.items(), key=lambda item: item[0][1] - item[0][0])
    return [line for (first, last), cells in ranked for line in commands(cells, first, last)][:SHOWN]


def commands(cells: Sequence[Cell], first: int, last: int) -> list[str]:
    """Commands that run these cells with the seeds from `first` to `last`; runs of an experiment by that experiment."""
    found = []
    filed: dict[tuple[str, str, bool], dict[str, None]] = {}
    own = []
    for cell in cells:
        run = cell.runs[0]
        if run.experiment == ADHOC:
            own.append(cell)
        else:
            filed.setdefault((run.experiment, run.fidelity, bool(run.control)), {})[run.arm] = None
    for (experiment, fidelity, control), arms in filed.items():
        words = ["normbench", "reproduce", experiment, *(["--controls"] if control else [])]
        words += [] if fidelity == "paper" else ["--fidelity", fidelity]
        words += [part for arm in arms for part in ("--only", arm)]
        found.append(shlex.join([*words, "--seeds", f"{first}-{last}"]))
    try:
        sweeps = _sweeps([configuration.overrides(cell.runs[0].config, *_length(cell)) for cell in own])
    except NormbenchError:  # a choice that is not known here: a user's own, or of another version
        sweeps = []
    for words in sweeps:
        seeds = f"seed=range({first},{last + 1})"
        found.append(shlex.join(["normbench", "train", "-m", *words, seeds, "launcher=pool"]))
    return found


def _sweeps(asked: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The words of one sweep where the configurations are a full product of what differs, else of one each."""
    if not asked:
        return []
    keys = list(asked[0])
    if all(list(words) == keys for words in asked):
        choices = {key: list(dict.fromkeys(words[key] for words in asked)) for key in keys}
        count = 1
        for values in choices.values():
            count *= len(values)
        if count == len({tuple(words.values()) for words in asked}):
            return [[f"{key}={','.join(values)}" for key, values in choices.items()]]
    return [configuration.spelt(words) for words in asked]


def _length(cell: Cell) -> tuple[int, int]:
    return cell.runs[0].epochs, cell.runs[0].steps
