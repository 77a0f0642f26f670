"""The commands that would decide open comparisons: the same runs with further seeds."""

from __future__ import annotations

import contextlib
import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
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

    Runs under way count as there. Empty where all is decided, under way or out of reach. Seeds that a filter would
    leave out get a line that says so. `given`: options that are added to all commands.
    """
    lacking = _lacking(c)[0]
    further = [replace(cells[0].runs[0], id="", seed=last) for (_, last), cells in lacking.items()]
    fitting, found = c.task.fitting(further), []
    for run, ((first, last), cells) in zip(further, lacking.items(), strict=True):
        if run in fitting:
            found += commands(cells, first, last, config_dir, given)
        else:
            seeds = f"seed {last}" if first == last else f"seeds {first} to {last}"
            found.append(f"# The filter leaves out {seeds}, which a verdict needs.")
    return list(dict.fromkeys(found))


def under_way(c: Comparison) -> int:
    """How many runs are under way that the open comparisons need."""
    return _lacking(c)[1]


def _lacking(c: Comparison) -> tuple[dict[tuple[int, int], list[Cell]], int]:
    """The cells by the first and last of the seeds that they lack, the fewest first; and how many others are coming."""
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
    coming = 0
    for cell in c.task.cells:
        needed = max(0, seeds.get(cell.key, 0) - len(cell.done))
        coming += min(needed, len(cell.under_way))
        if (more := needed - len(cell.under_way)) > 0:
            last = max({run.seed for run in cell.runs} | cell.left_out)
            lacking.setdefault((last + 1, last + more), []).append(cell)
    return dict(sorted(lacking.items(), key=lambda item: item[0][1] - item[0][0])), coming


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
    claimed = set(artifacts.ids(config_dir))
    arms: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}  # by the words of `reproduce` and the axes
    trained: dict[tuple[str, ...], list[Mapping[str, str]]] = {}  # words of `train` by their keys
    without: dict[str, dict[str, None]] = {}  # by the reason for no command the normalizers
    lacks = ""  # the first choice that is not known here: one's own have many, and one way out
    for cell in cells:
        run, words = cell.runs[0], {}
        gone = "another program made them; import its further logs" if cell.runs[0].logged else ""
        axes = {key: str(value) for key, value in run.axes.items()}
        fidelity = {"fidelity": run.fidelity} if run.fidelity != "paper" else {}
        with contextlib.suppress(NormbenchError):  # a choice that is not known here: its experiment may know it
            gone = gone or edited(run.config, run.id, config_dir)
        if not gone and run.experiment in claimed:
            options = [*(["--controls"] if run.control else []), *(["--fidelity", run.fidelity] if fidelity else [])]
            arms.setdefault(((run.experiment, *options), tuple(configuration.format_words(axes))), []).append(run.arm)
            continue
        if not gone and run.experiment != ADHOC:
            words = {"experiment": run.experiment, "arm": run.arm, **axes, **fidelity}
            words |= {"control": run.control} if run.control else {}
        elif not gone:
            try:
                words = configuration.overrides(run.config, run.epochs, run.steps, config_dir)
            except NormbenchError as error:
                gone = lacks = lacks or str(error)
        if gone:
            without.setdefault(gone, {})[cell.norm] = None
        else:
            trained.setdefault(tuple(words), []).append(words)
    found = []
    for (head, axes_words), names in arms.items():
        only = [part for name in dict.fromkeys((*names, *axes_words)) for part in ("--only", name)]
        found.append(["reproduce", *head, *only, "--seeds", f"{first}-{last}"])
    for sweep in itertools.chain.from_iterable(map(_sweeps, trained.values())):
        found.append(["train", "-m", *sweep, f"seed=range({first},{last + 1})", "launcher=pool"])
    reasons = (f"# seeds {first} to {last} of {', '.join(norms)}: {why}" for why, norms in without.items())
    return [*(shlex.join(["normbench", *words, *given]) for words in found), *reasons]


def _sweeps(asked: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The words of one sweep where the configurations are a full product of their values, else of one sweep each."""
    choices = {key: list(dict.fromkeys(words[key] for words in asked)) for key in asked[0]}
    if math.prod(map(len, choices.values())) == len({tuple(words.values()) for words in asked}):
        return [[f"{key}={','.join(values)}" for key, values in choices.items()]]
    return [configuration.format_words(words) for words in asked]
