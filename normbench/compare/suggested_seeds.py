"""The commands that would decide open comparisons: the same runs with further seeds."""

from __future__ import annotations

import contextlib
import itertools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from normbench.compare import configuration
from normbench.compare.answer import Comparison
from normbench.compare.difference import MOST_UNEVEN, UNEVEN
from normbench.compare.groups import Cell
from normbench.config.identity import edited
from normbench.config.plan import ADHOC
from normbench.draw.text import format_seeds, ranges
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers.rules_file import FEWEST
from normbench.stats.statistics import REACH

MOST = 4  # comparisons


def suggested_commands(c: Comparison, config_dir: Path | None = None, given: Sequence[str] = ()) -> list[str]:
    """Commands for the seeds that arms of open comparisons lack, for the comparisons that need the fewest.

    All arms of a group get the same seeds, so that they stay pairs: first those that another has, then the lowest that
    none has. Runs under way count as done. Empty where all is decided, under way or out of reach. Seeds that a filter
    would leave out get a line that says so. `given`: options that are added to all commands.
    """
    lacking, lines = _lacking(c), []
    further = [replace(cells[0].runs[0], id="", seed=seeds[-1]) for seeds, cells in lacking.items()]
    fitting = c.task.fitting(further)
    for run, (seeds, cells) in zip(further, lacking.items(), strict=True):
        if run in fitting:
            lines += commands(cells, seeds, config_dir, given)
        else:
            lines.append(f"# The filter leaves out {format_seeds(seeds)}, which a verdict needs.")
    return list(dict.fromkeys(lines))


def under_way(c: Comparison) -> int:
    """How many runs are under way that the open comparisons need."""
    return sum(len(cell.under_way) for cells, _ in _open_groups(c) for cell in cells)


def _open_groups(c: Comparison) -> Iterator[tuple[list[Cell], int]]:
    """The cells of the groups with open comparisons, and the seeds that each cell needs."""
    needed = []
    for group in c.groups:
        for d in () if group.tuned else group.open:
            seeds = FEWEST if d.n < FEWEST else math.ceil(d.most / MOST_UNEVEN) if d.why == UNEVEN else d.needed
            if seeds and d.n < seeds <= REACH:
                needed.append((seeds, group.place))
    most = dict((place, seeds) for seeds, place in sorted(needed)[:MOST])
    for group in c.groups:
        if not group.tuned and group.place in most:
            trainable = {row.cell.key for row in group.rows if not (row.lost or row.unlogged)}
            yield [cell for cell in c.task.cells if cell.key in trainable], most[group.place]


def _lacking(c: Comparison) -> dict[tuple[int, ...], list[Cell]]:
    """The cells by the seeds that they lack, the fewest first."""
    lacking: dict[tuple[int, ...], list[Cell]] = {}
    for cells, needed in _open_groups(c):
        for cell, seeds in zip(cells, _further_seeds(cells, needed), strict=True):
            if seeds:
                lacking.setdefault(seeds, []).append(cell)
    return dict(sorted(lacking.items(), key=lambda item: len(item[0])))


def _further_seeds(cells: Sequence[Cell], needed: int) -> list[tuple[int, ...]]:
    """For each cell the seeds that it lacks, so that all have the same, and as many as needed."""
    counting = [{run.seed for run in (*cell.done, *cell.under_way)} for cell in cells]
    taken = [{run.seed for run in cell.runs} | cell.left_out for cell in cells]
    common: set[int] = set().union(*counting)
    usable = min(len(common - (seeds - counts)) for seeds, counts in zip(taken, counting, strict=True))
    free = (seed for seed in itertools.count(1) if not any(seed in seeds for seeds in taken))
    common |= {*itertools.islice(free, max(0, needed - usable))}
    return [tuple(sorted(common - seeds)) for seeds in taken]


def out_of_reach(c: Comparison) -> list[str]:
    """The open comparisons that need more than REACH seeds, those that need fewest first."""
    open_ = (d for group in c.groups if not group.tuned for d in group.open if d.n >= FEWEST)
    far = sorted((d.needed, d.first, d.second) for d in open_ if d.needed and d.needed > max(d.n, REACH))
    names = [f"{first} against {second}" for _, first, second in far[:MOST]]
    return [*names, *([f"{len(far) - MOST} more"] if len(far) > MOST else [])]


def commands(
    cells: Sequence[Cell], seeds: Sequence[int], config_dir: Path | None = None, given: Sequence[str] = ()
) -> list[str]:
    """Commands that run these cells with these seeds: `reproduce` for runs of an artifact, `train` for others.

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
    reproduced, trains = [], []
    for (head, axes_words), names in arms.items():
        only = [part for name in dict.fromkeys((*names, *axes_words)) for part in ("--only", name)]
        reproduced += [["reproduce", *head, *only, "--seeds", f"{part[0]}-{part[-1]}"] for part in ranges(seeds)]
    is_range = len(seeds) > 1 and len(ranges(seeds)) == 1
    word = f"seed=range({seeds[0]},{seeds[-1] + 1})" if is_range else f"seed={','.join(map(str, seeds))}"
    for sweep in itertools.chain.from_iterable(map(_sweeps, trained.values())):
        trains.append(["train", "-m", *sweep, word, "launcher=pool"])
    reasons = (f"# {format_seeds(seeds)} of {', '.join(norms)}: {why}" for why, norms in without.items())
    return [*(shlex.join(["normbench", *words, *given]) for words in (*reproduced, *trains)), *reasons]


def _sweeps(configs: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The words of one sweep where the configurations are a full product of their values, else of one sweep each."""
    choices = {key: list(dict.fromkeys(words[key] for words in configs)) for key in configs[0]}
    if math.prod(map(len, choices.values())) == len({tuple(words.values()) for words in configs}):
        return [[f"{key}={','.join(values)}" for key, values in choices.items()]]
    return [configuration.format_words(words) for words in configs]
