"""A paper's claims: the classes are what an artifact's file is read into, and what it is judged by.

A file has claims about a figure or table; or about logged curves, and then no experiment. A claim consists of parts, a
part compares endpoints. Each field is a key of the file; the comment beside it says what belongs there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from normbench.config import FIDELITIES
from normbench.config.plan import axis_text, place_text
from normbench.core import keys
from normbench.core.keys import (
    Before,
    Count,
    Range,
    Text,
    above,
    at_least,
    at_most,
    below,
    format_value,
    hidden,
    longer,
    of,
)
from normbench.draw.panels import AXES, Quantity
from normbench.draw.style import COLOURS
from normbench.errors import BadInput
from normbench.files import reading
from normbench.papers.rules_file import FEWEST
from normbench.runs.run import LOSSES
from normbench.stats.series import CLOCKS

LARGEST = 1 << 20  # bytes of a file
MODES = {  # of the records that an endpoint reads
    "eval": "evaluation mode", "train": "training mode", "running": "running mean", "stage": "after training",
    "along": "along training", "whole": "the whole split at the end",
}  # fmt: skip
EQUAL, COMMON = "equal", "common"
BEST = "best"  # of the runs that are compared
# kinds of endpoints that are read from a run's curve
CURVES = ("final", "area", "gain", "past_best", "chosen", "time_to_level", "over_sites")
COMPARED = ("direction", "size", "equivalence", "no_worse")  # kinds of parts that compare cells of a contrast


def _quoted(cell: dict[str, Any]) -> dict[str, Any]:
    for key, value in cell.items():
        # YAML reads a bare off, no or 2016-07-21 as something else than the name that was meant.
        if not isinstance(value, str) and (key == "arm" or not isinstance(value, bool | int | float)):
            raise ValueError(f"'{key}' has the value {format_value(value)}; quote names that YAML changes.")
    return cell


def _weighted(term: tuple[float, Any]) -> tuple[float, Any]:
    if not term[0]:
        raise ValueError("its weight must not be 0.")
    return float(term[0]), term[1]


def _growing(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if seeds[0] < FEWEST or any(later <= earlier for earlier, later in pairwise(seeds)):
        raise ValueError(f"{[*seeds]} must be numbers of seeds from {FEWEST} on, each larger than the one before.")
    return seeds


def _at_paper(given: Any) -> Any:
    return {"paper": given} if isinstance(given, dict) and given.keys() & {"from", "to"} else given


def _at_all(given: Any) -> Any:
    return dict.fromkeys(FIDELITIES, given) if isinstance(given, str) else given


def _listed(given: Any) -> Any:
    return {"at": given} if isinstance(given, list) else given


def _several(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


Fidelity = Annotated[Text, keys.one_of(*FIDELITIES)]
Positive = Annotated[float, above(0)]
Cell = Annotated[Mapping[Text, Any], _quoted]  # chooses runs: {arm: ln, train.batch_size: 4}
Term = Annotated[tuple[float, Cell], _weighted]
Seeds = Annotated[Mapping[Fidelity, Range], Before(_at_paper)]  # {from: 6, to: 10} for `paper`, or a map by fidelity
Names = Annotated[tuple[Text, ...], Before(_several)]
Scale = Literal["log", "percent", "linear"]
Kind = Literal["direction", "size", "equivalence", "no_worse", "order", "exact"]


# --- endpoints -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """A level on the way from the worst first value to the best value of runs of one seed."""

    share: Annotated[float, above(0), at_most(1)]  # of this way, such as 0.9
    of: Literal["best"] | Cell  # whose best value: best, of all runs that are compared; or a cell, of its runs
    least: float = 0.0  # as of an endpoint


@dataclass(frozen=True)
class Endpoint:
    """One number per run.

    | kind | the number |
    | --- | --- |
    | final | the value at the last epoch |
    | area | the mean over all epochs, of losses the geometric one; of logged curves over their common steps |
    | gain | the last value minus the value after a share of the updates |
    | past_best | the last value minus the best one |
    | chosen | the value at one epoch; at `best` and `last`, intervals are over test examples too, if runs kept them |
    | time_to_level | the time at which the curve first reaches a level |
    | over_sites | the rank correlation of two numbers that a run records of its sites, at its end |
    | value | a number that a probe computed |

    Where one of the compared runs has not come `least` from its first value to its best it has hardly begun: what it
    would reach is not known, and the part is untested.
    """

    kind: Literal["final", "area", "gain", "past_best", "chosen", "time_to_level", "over_sites", "value"]
    split: Text = of(*CURVES)  # train, valid, test, or a downstream task
    # evaluation mode, training mode, the running mean over an epoch's updates, the stage after training, tasks along
    # training, or the whole split at the end
    mode: Annotated[str, keys.one_of(*MODES)] = of(*CURVES, default="eval")
    metric: Text = of(*CURVES)  # such as nll or error
    # The evaluation settings; a cell may name others. Patterns with | choose several, which count by their mean
    # (`TT**|FF**`); `best by valid` chooses one by its validation result.
    variant: Text | None = of(*CURVES, default=None)
    # Which values are better: lower, if it says nothing; of logged curves what they declare.
    better: Annotated[str, keys.one_of("lower", "higher")] | None = of(*CURVES, default=None)
    level: float | Level | None = of("time_to_level")  # a value in the metric's unit, or a relative level
    clock: Annotated[str, keys.one_of(*CLOCKS)] = of("time_to_level", default="epoch")  # the unit of the time
    share: Annotated[float, at_least(0), below(1)] = of("gain")  # of the updates
    against: Text = of("over_sites")  # the other number of each site, such as input_std; depth: its place
    least: float = of("area", "chosen", default=0.0)  # how far a run must have come
    # A number; last; best: where the default evaluation is best by the monitored metric; own: where the variant is.
    epoch: Literal["best", "own", "last"] | Annotated[int, at_least(0)] = of("chosen")
    key: Text = of("value")  # the name of the number in the run's record
    log: bool | None = hidden(None)  # it is interpolated, and averaged, on its logarithm; None: by its name
    trapezoid: bool = hidden(False)  # the area over steps that lie anywhere, not the mean over evaluations

    @property
    def on_log(self) -> bool:
        return self.metric in LOSSES if self.log is None else self.log

    @property
    def relative(self) -> Level | None:
        return self.level if isinstance(self.level, Level) else None

    @property
    def needed_progress(self) -> float:
        return self.relative.least if self.relative else self.least

    def __str__(self) -> str:
        if self.kind == "value":
            return self.key
        metric = "NLL" if self.metric == "nll" else self.metric
        mode = MODES[self.mode]
        where = f"{mode}, {self.variant}" if self.variant else mode
        if self.kind == "area":
            mean = "geometric mean" if self.on_log else "mean"
            over = "common steps" if self.trapezoid else "epochs"
            return f"{self.split} {metric}, {mean} over {over} ({where})"
        if self.kind == "chosen":
            when = {"best": "the best validation", "own": "its own best validation", "last": "the last epoch"}
            return f"{self.split} {metric} at {when.get(str(self.epoch), f'epoch {self.epoch}')} ({where})"
        if self.kind == "gain":
            return f"{self.split} {metric}, gain over the last {100 * (1 - self.share):g} % of updates ({where})"
        if self.kind == "final":
            return f"final {self.split} {metric} ({where})"
        if self.kind == "past_best":
            return f"final {self.split} {metric} less its best ({where})"
        if self.kind == "over_sites":
            return f"rank correlation of {self.metric} and {self.against} over the sites ({self.split}, {where})"
        if relative := self.relative:
            whose = "them" if isinstance(relative.of, str) else format_cell(relative.of)
            level = f"{100 * relative.share:g} % of the way to the best of {whose}"
        else:
            level = f"{self.level:g}"
        return f"{CLOCKS[self.clock]} to {self.split} {metric} {level} ({where})"

    def quantity(self, names: Mapping[str, str]) -> str:
        """What a sentence calls it: `mean train NLL`; of a time the level alone."""
        names = {"nll": "NLL", **names}
        metric = f"{names.get(self.split, self.split)} {names.get(self.metric, self.metric)}"
        if self.kind == "value":
            return names.get(self.key, self.key.replace("_", " "))
        if self.kind == "time_to_level":
            if not (relative := self.relative):
                return f"{metric} {self.level:g}"
            whose = f" of {name_of(relative.of, names)}" if not isinstance(relative.of, str) else ""
            return f"{100 * relative.share:g} % of the way to the best {metric}{whose}"
        if self.kind == "chosen" and self.epoch not in ("best", "own"):
            return f"{metric} at {'the last epoch' if self.epoch == 'last' else f'epoch {self.epoch}'}"
        if self.kind == "over_sites":
            return f"rank correlation of {self.metric} and {self.against.replace('_', ' ')}"
        first = {"final": "final ", "area": "mean ", "gain": "late gain in ", "past_best": "rise since the best of "}
        return first.get(self.kind, "") + metric


# --- parts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Delta:
    """A smallest effect of interest that differs from that of `rules.yaml`."""

    is_: Positive | None  # the effect, in the part's unit; null: the part has none
    why: Text  # the reason


@dataclass(frozen=True)
class Part:
    """One comparison: Σ weight · g(endpoint) over the cells of `contrast`, g by `scale`, in `unit`.

    | kind | claims that |
    | --- | --- |
    | direction | the effect has a certain sign |
    | size | the effect equals the paper's number |
    | equivalence | the effect is smaller than a margin |
    | no_worse | the first cell is worse by less than a margin, or better |
    | order | the cells have an order; it is read as k - 1 directions of k cells, one for each pair of neighbours |
    | exact | a number that was computed, without seeds, meets its bounds |
    """

    id: Text  # what is compared, in words
    kind: Kind  # as of its claim, which alone says it; that of a reported part follows from its keys
    endpoint: Endpoint  # the number of a run that is compared
    unit: Text  # of the effect
    # Pairs of a weight and a cell, such as [[1, {arm: ln}], [-1, {arm: bn}]] for LN minus BN.
    contrast: Annotated[tuple[Term, ...], longer(1)] = of(*COMPARED)
    order: Annotated[tuple[Cell, ...], longer(2)] | None = of("order")  # cells, that of the smallest endpoint first
    cell: Cell = of("exact", default_factory=dict)  # the runs that are meant, such as {arm: ln}
    # Of the endpoints their logarithms are compared, themselves times 100, or themselves.
    scale: Scale = of(*COMPARED, "order")
    expect: Literal["negative", "positive"] | None = of("direction")  # the sign that is claimed
    than: float | None = of("direction", default=None)  # a number, as runs log it, in the place of a second cell
    paper: float | None = of("size")  # the paper's number
    band: Positive | None = of("size")  # how far from it the prediction interval of one more run may reach
    within: Positive | None = of("equivalence", "no_worse")  # the margin, in the part's unit
    # Student's t test of the mean; or the exact sign test of the median, for values that can be censored or can
    # diverge, or have a heavy tail.
    test: Literal["t", "sign"] = of("direction", "order", default="t")
    delta: Delta | None = of("direction", "order", default=None)  # on logged curves there is no other smallest effect
    value: float | None = of("exact", default=None)  # the number that it must equal
    at_most: float | None = of("exact", default=None)
    at_least: float | None = of("exact", default=None)

    def check(self, given: object) -> None:
        relative, cells = self.endpoint.relative, self.order or [cell for _, cell in self.contrast or ()]
        if relative and not isinstance(relative.of, str) and relative.of not in cells:
            raise ValueError(f"endpoint.level.of: {format_cell(relative.of)} is not compared here.")
        if self.kind == "exact" and self.endpoint.kind != "value":
            raise ValueError(f"endpoint: kind: '{self.endpoint.kind}' must be 'value' in an exact part.")
        if self.kind == "exact" and self.value is self.at_most is self.at_least is None:
            raise ValueError("one of 'value', 'at_most', 'at_least' must be given.")
        if self.than is not None:
            self._check_number(self.than)

    def _check_number(self, than: float) -> None:
        if self.contrast[0][0] != 1 or len(self.contrast) > 1:
            raise ValueError(
                f"than: {than:.12g} stands in the place of a second cell: `contrast` has one, of weight 1."
            )
        if self.delta:
            raise ValueError("'delta' is of two cells: an arm reaches a number, or it does not.")
        if self.endpoint.kind == "time_to_level" and self.test != "sign":
            raise ValueError("than: a run may never reach a level, and has no time then: `test: sign` must be given.")
        if self.scale == "log" and than <= 0:
            raise ValueError(f"than: {than:.12g} has no logarithm: `scale: linear`.")

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the cells, and of the number in the place of a second one."""
        return (*(weight for weight, _ in self.contrast), *(() if self.than is None else (-1.0,)))

    def compared(self) -> Iterator[Part]:
        """The comparisons that it makes: of an order one for each pair of neighbours."""
        if self.kind == "exact":
            yield replace(self, contrast=((1.0, self.cell),), scale="linear")
        elif self.order:
            for low, high in pairwise(self.order):
                name, contrast = f"{self.id}: {_below(low, high)}", ((1.0, low), (-1.0, high))
                yield replace(self, id=name, kind="direction", expect="negative", contrast=contrast, order=None)
        else:
            yield self


def _below(low: Cell, high: Cell) -> str:
    """'bln below bn, batch size 25': what both share is said once."""
    shared = {key: value for key, value in low.items() if key != "arm" and high.get(key) == value}
    differing = ({key: value for key, value in cell.items() if key not in shared} for cell in (low, high))
    text = " below ".join(format_cell(cell).removeprefix("arm ") for cell in differing)
    return ", ".join([text, place_text(shared)] if shared else [text])


# --- claims ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Looks:
    """The only numbers of seeds at which a claim is judged, planned before its first run: all share its level."""

    at: Annotated[tuple[Annotated[Count, at_most(10**6)], ...], longer(2), _growing]
    spending: Literal["obrien-fleming", "pocock"] = "obrien-fleming"  # of the level over the looks: late, or evenly


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or a hypothesis of our own, with the parts that decide it and those only reported.

    Its word at the paper's setting is that of the claim where the settings of `controls` say the same.
    """

    id: Text  # no other claim of the artifact has it
    kind: Kind  # of its parts
    statement: Text  # what is claimed, in our words
    parts: tuple[Part, ...]  # the claim holds if all of them hold
    quote: Text = ""  # what is claimed, in the paper's words; a claim about an experiment has it
    locator: Text = ""  # where the paper says it; a claim about an experiment has it
    reported: tuple[Part, ...] = ()  # parts of any kind, which decide nothing
    beside: Names = ()  # ids of reported parts that are printed beside its number, which would mislead without them
    open: tuple[Text, ...] = ()  # choices that the paper leaves open
    controls: tuple[Text, ...] = ()  # controls of the experiment that vary these choices
    unvaried: tuple[Text, ...] = ()  # open choices that no control varies
    seeds: Seeds = field(default_factory=dict)  # the only ones that decide, because results of others had been seen
    control_seeds: Mapping[Text, Seeds] = field(default_factory=dict)  # the same of controls
    looks: Annotated[Looks, Before(_listed)] | None = None  # without: one look at all planned seeds; or as of the file
    not_decidable: Annotated[Mapping[Fidelity, Text], Before(_at_all)] = field(default_factory=dict)  # why no run can
    ours: bool = False  # it is a hypothesis of our own

    def check(self, given: Collection[str]) -> None:
        alone = {"exact": "an exact claim has none", "size": "a number of the paper's is one of its own setting"}
        reason = alone.get(self.kind, "" if self.controls else "without controls they cannot agree with its word")
        if self.open and reason:
            raise ValueError(f"'open' names choices that the paper leaves open, but {reason}.")
        if self.controls and not self.open:
            raise ValueError("'controls' has settings, but 'open' does not say what they vary.")
        if not self.parts and not self.not_decidable:
            raise ValueError("'parts' is empty: nothing would decide the claim.")
        if self.looks and self.kind == "exact":
            raise ValueError("'looks' are at numbers of seeds; a computed number has none.")
        for part in self.parts:
            if part.kind != self.kind:
                raise ValueError(f"kind: '{part.kind}' of the part '{part.id}' must be that of the claim.")
        reported = [part.id for part in self.reported]
        keys.check_ids([*(part.id for part in self.parts), *reported])
        keys.check_names("unvaried", self.unvaried, self.open)
        keys.check_names("beside", self.beside, reported)
        keys.check_names("control_seeds", self.control_seeds, self.controls)

    @property
    def computed(self) -> bool:
        """Whether a computation or a probe decides it, without training."""
        return bool(self.parts) and all(part.endpoint.kind == "value" for part in self.parts)

    def alone(self, fidelity: str, control: str = "") -> range | None:
        """The seeds that alone decide at this fidelity and setting ("" is the paper's); None: all that are planned."""
        seeds = self.control_seeds.get(control, self.seeds).get(fidelity)
        return range(seeds.from_, seeds.to + 1) if seeds else None


def _with_kinds(claim: Any) -> Any:
    """The parts of a claim's file with their kinds."""
    if not isinstance(claim, dict):
        return claim
    typed = {}
    for key, kind_of in (("parts", lambda part: claim.get("kind")), ("reported", _kind_of)):
        if isinstance(entries := claim.get(key), list):
            typed[key] = [{"kind": kind_of(part), **part} if isinstance(part, dict) else part for part in entries]
    return {**claim, **typed}


def _kind_of(part: Mapping[str, Any]) -> str:
    """By the key that only one kind has."""
    marks = {"paper": "size", "band": "size", "within": "equivalence", "order": "order"}
    marks |= dict.fromkeys(("value", "at_most", "at_least"), "exact")
    return next((kind for key, kind in marks.items() if key in part), "direction")


def _unclaimed(part: Any) -> Any:
    """A comparison has a sign to expect; of what nobody claims it is never used."""
    return {"kind": "direction", "expect": "negative", **part} if isinstance(part, dict) else part


# --- figures and tables ----------------------------------------------------------------------------------------------

# A cell of a figure or table may also say what is read of its runs, in place of what the row or column reads.
READ = ("variant", "split", "metric")


def _known_colour(colour: str) -> str:
    if colour and not re.fullmatch("#[0-9a-f]{6}", colour):
        keys.check_names("colour", [colour], [*COLOURS])
    return colour


def _drawn(row: Any) -> Any:
    """In evaluation mode, and named after the clock, if it does not say otherwise."""
    if not isinstance(row, dict):
        return row
    keys.check_names("mode", [row.get("mode", "eval")], [*MODES, "exact"])
    keys.check_names("clock", [row.get("clock", "epoch")], [*AXES])
    return {"mode": "eval", "x": AXES[row.get("clock", "epoch")], **row}


def _of_arms(rows: Any) -> Any:
    return {str(arm): {"arm": arm} for arm in rows} if isinstance(rows, list) else rows


Cells = Mapping[Text, Cell]  # by title


@dataclass(frozen=True)
class Line:
    """The mean of the runs in a cell."""

    cell: Cell
    colour: Annotated[str, _known_colour] = ""  # a normalizer, or #rrggbb; if it does not say, that of its arm
    ours: bool = False  # the paper does not have it: it is drawn dashed
    panels: tuple[Text, ...] = ()  # the rows and columns that have it; if it does not say, all


@dataclass(frozen=True)
class Figure:
    """A row of panels for each metric, a column for each cell."""

    rows: Annotated[tuple[Annotated[Quantity, Before(_drawn)], ...], longer(1)]
    columns: Cells = field(default_factory=dict)  # without: the places on the axes of the experiment
    lines: Mapping[Text, Line] = field(default_factory=dict)  # by their names in the legend; without: all arms

    def check(self, given: object) -> None:
        titles = [*(row.name for row in self.rows), *self.columns]
        for name, line in self.lines.items():
            keys.check_names(f"lines.{name}.panels", line.panels, titles)


@dataclass(frozen=True)
class Column:
    """A number of each run, by its mean over runs."""

    name: Text
    endpoint: Endpoint
    cell: Cell = field(default_factory=dict)  # beside those of group and row
    scale: Scale = "linear"  # the geometric mean, the mean times 100, the mean
    unit: str = ""  # of times and of per cent it is known
    median: bool = False  # with all seeds, in place of the mean
    digits: Count = 0  # of a computed number, which has no seeds
    rows: tuple[Text, ...] = ()  # that have it; if it does not say, all
    # The paper's numbers by row, or by row and group. They stand beside runs at paper fidelity.
    paper: Mapping[Text, Text | Mapping[Text, Text]] = field(default_factory=dict)

    @property
    def shown_unit(self) -> str:
        timed = CLOCKS[self.endpoint.clock] if self.endpoint.kind == "time_to_level" else ""
        share = "points" if self.endpoint.kind == "gain" else "%"  # a gain is a difference of rates
        return self.unit or timed or (share if self.scale == "percent" else "")

    def paper_text(self, row: str, group: str) -> str:
        given = self.paper.get(row, "")
        return given if isinstance(given, str) else given.get(group, "")


@dataclass(frozen=True)
class Table:
    """A part of a table: groups of rows; behind them the same under each control, of the rows that have runs there."""

    columns: Annotated[tuple[Column, ...], longer(1)]
    groups: Cells = field(default_factory=dict)  # without: the places on the axes of the experiment
    rows: Annotated[Cells, Before(_of_arms)] = field(default_factory=dict)  # or a list of arms; without: the lines
    controls: bool = True


# --- artifacts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Amendment:
    """A change of a claim after runs had been seen."""

    claim: Text  # its id
    change: Text  # what was changed
    reason: Text  # and which results had been seen, with their effects and intervals
    # The seeds, at least five, on which the claim had a word before; the chance that it was wrong is counted as well.
    looked: Seeds | None = None


@dataclass(frozen=True)
class Artifact:
    """A figure, table or statement of a paper, and the claims about it; or claims about logged curves, which need no
    other key of the file than `claims`.
    """

    claims: tuple[Annotated[Claim, Before(_with_kinds)], ...]
    id: Text = ""  # PAPER/NAME, as in the file's path
    title: Text = ""  # on pages
    locator: Text = ""  # where the paper has it
    question: Text = ""  # that it answers, in one sentence
    names: Mapping[Text, Text] = field(default_factory=dict)  # in sentences, of arms, variants, metrics, values of axes
    experiment: Text = ""  # PAPER/NAME, whose runs decide the claims
    see: Names = ()  # artifacts on the same subject: the pages link to each other, as those of one experiment do
    runs: Names = ()  # without an experiment: those that decide, as `normbench judge --runs` takes them
    # Without an experiment: runs that end at different steps are refused, or compared up to their last common step.
    length: Literal["equal", "common"] = "equal"
    seeds: Count = FEWEST  # the planned number n
    looks: Annotated[Looks, Before(_listed)] | None = None  # of all claims that have none of their own
    figure: Figure | None = None  # what its figure shows; without figure and table that is what claims compare
    table: tuple[Table, ...] = ()  # what its table shows, part by part
    # Comparisons beside the claims, over all seeds that are published; they decide nothing, and expect nothing.
    reported: tuple[Annotated[Part, Before(_unclaimed)], ...] = ()
    # The last seed whose results had been seen when the smallest effects were declared: on seeds up to it no effect is
    # called negligible.
    seen: Count = 0
    deviations: Mapping[Fidelity, tuple[Text, ...]] = field(default_factory=dict)  # from the paper, in sentences
    reference: Mapping[Any, Any] = field(default_factory=dict)  # numbers of the paper for NAME.py
    amendments: tuple[Amendment, ...] = ()
    claims_sha256: str = hidden("")  # identifies its claims
    path: Path = hidden(Path())  # its file
    config_dir: Path | None = hidden(None)  # where an artifact of one's own has its experiment

    def check(self, given: Collection[str]) -> None:
        if self.experiment:
            self._check_planned(given)
        else:
            self._check_logged()
        keys.check_ids([claim.id for claim in self.claims])
        for number, amendment in enumerate(self.amendments):
            if amendment.looked:
                keys.check_names(f"amendments[{number}].claim", [amendment.claim], [claim.id for claim in self.claims])

    def _check_planned(self, given: Collection[str]) -> None:
        missing = [key for key in ("id", "title", "locator", "seeds", "deviations") if key not in given]
        for place, claim in enumerate(self.claims):
            missing += [f"claims[{place}].{key}" for key in ("quote", "locator") if not getattr(claim, key)]
        for key in missing:
            raise ValueError(f"'{key}' is missing; claims about an experiment have it.")
        for key in ("runs", "length"):
            if key in given:
                raise ValueError(f"'{key}' is of claims about logged curves; {self.experiment} has its own runs.")

    def _check_logged(self) -> None:
        """Refuse what has no meaning without an experiment, and a file that would judge nothing."""
        if not self.claims:
            raise ValueError("'claims' is empty: nothing would be judged.")
        if self.seeds < FEWEST:
            raise ValueError(f"seeds: {self.seeds} must be at least {FEWEST}: no verdict rests on fewer.")
        planned: dict[str, Any] = {
            key: getattr(self, key) or None for key in ("figure", "table", "reported", "see", "seen")
        } | {"amendments.looked": any(entry.looked for entry in self.amendments) or None}
        for place, claim in enumerate(self.claims):
            fidelities = {*claim.seeds, *(fidelity for seeds in claim.control_seeds.values() for fidelity in seeds)}
            planned[f"claims[{place}].seeds"] = fidelities - {"paper"} or None
        for key, value in planned.items():
            if value is not None:
                raise ValueError(f"'{key}' is of claims about an experiment, and there is none.")

    @property
    def command(self) -> str:
        """The command that brings it up to date."""
        return command(self.id, self.config_dir)

    @property
    def cells(self) -> list[Cell]:
        """Those of its figure and table, and of what it reports beside the claims."""
        rows = [cell for part in self.table for cell in (*part.groups.values(), *part.rows.values())]
        columns = [column.cell for part in self.table for column in part.columns]
        lines = [line.cell for line in self.figure.lines.values()] if self.figure else []
        return [*rows, *columns, *lines, *(cell for part in self.reported for _, cell in part.contrast)]

    @property
    def settings(self) -> tuple[str, ...]:
        """ "" for the paper's own, then the controls that claims name."""
        return tuple(dict.fromkeys(["", *(name for claim in self.claims for name in claim.controls)]))


IS_CLAIMS = "A claims file has a list `claims`, as examples/own_claims has; normbench judge FILE --init writes one."


def load(path: Path) -> Artifact:
    """An artifact's file. NormbenchError with one line that names the file, the claim and the key."""
    try:
        data = reading.load_yaml(reading.read(path, LARGEST).decode())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise BadInput(f"{path}, line {line} is no YAML: {error.problem}. {IS_CLAIMS}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise BadInput(f"{path} {'is empty' if data is None else 'has no keys'}. {IS_CLAIMS}")
    return built(data, path)


def built(data: Any, path: Path) -> Artifact:
    """The artifact of a file's content, checked as by `load`."""
    artifact = keys.load(Artifact, data, path)
    # of the experiments' models lower is better where a claim says nothing; of foreign logs the map may say
    better = "lower" if artifact.experiment else None

    def compared(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        every = [part for entry in parts for part in entry.compared()]
        return tuple(replace(p, endpoint=replace(p.endpoint, better=p.endpoint.better or better)) for p in every)

    judged = [replace(c, parts=compared(c.parts), reported=compared(c.reported)) for c in artifact.claims]
    judged = [c if c.kind == "exact" else replace(c, looks=c.looks or artifact.looks) for c in judged]
    return replace(
        artifact,
        id=artifact.id or path.stem,
        title=artifact.title or path.stem,
        claims=tuple(judged),
        reported=compared(artifact.reported),
        claims_sha256=canonical_sha256(data["claims"]),
        path=path,
    )


def canonical_sha256(content: Any) -> str:
    """SHA-256 of canonical JSON (keys sorted, no spaces): comments and layout of a file do not count."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def command(name: str, config_dir: Path | None) -> str:
    """The command that brings an artifact up to date; for a user's artifact with its folder."""
    words = ["normbench", "reproduce", name]
    return shlex.join([*words, "--config-dir", str(config_dir)] if config_dir else words)


def place_of(cell: Cell) -> Cell:
    """The cell without its variant: all variants of inference belong to one run."""
    return {key: value for key, value in cell.items() if key != "variant"}


def format_cell(cell: Cell) -> str:
    """'arm ln at train.batch_size 4' for `{"arm": "ln", "train.batch_size": 4}`."""
    arm = [f"arm {cell['arm']}"] if "arm" in cell else []
    axes = ", ".join(f"{key} {value}" for key, value in cell.items() if key != "arm")
    return " at ".join([*arm, axes] if axes else arm) or "any run"


def name_of(cell: Cell, names: Mapping[str, str]) -> str:
    """`BN with batch statistics at batch size 25`, with the names that the artifact gives."""
    keys = [f"{axis_text(key)} {value}" for key, value in cell.items() if key not in ("arm", "variant")]
    places = [names.get(key, f"at {key}") for key in keys]
    named = [names.get(str(cell[key]), str(cell[key])) for key in ("arm", "variant") if key in cell]
    return " ".join([*named, *places])


def format_number(than: float, scale: str) -> str:
    """The number in the place of a second cell: `2 %` of a share of 0.02."""
    return f"{100 * than:.12g} %" if scale == "percent" else f"{than:.12g}"


def compared(part: Part, names: Mapping[str, str]) -> dict[str, Any]:
    """The names for a sentence about a part: its `sides`, two of a difference of two cells, one of a single cell; what
    is measured, and where.

    Another contrast, and a value that a probe computed, has no sides: the part's id says what is compared.
    """
    end, weights = part.endpoint, part.weights
    pair = sorted(weights) == [-1, 1]
    has_sides = pair or weights == (1,)
    cells = [cell for _, cell in sorted(part.contrast, key=lambda term: -term[0])] if has_sides else []
    if end.kind == "value":
        cells = []
    places = [place_of(cell) for cell in cells]
    shared = {k: v for k, v in places[0].items() if k != "arm" and places[-1].get(k) == v} if cells else {}
    number = () if part.than is None or not cells else (format_number(part.than, part.scale),)
    return {
        "sides": (
            *(name_of({k: v for k, v in cell.items() if k not in shared}, names) or "any run" for cell in cells),
            *number,
        ),
        "quantity": end.quantity(names),
        "place": ", ".join(filter(None, [name_of(shared, names), "in training mode" if end.mode == "train" else ""])),
        "scale": part.scale,
        "better": (end.better or "") if cells and (pair or end.kind == "gain") else "",
        "clock": CLOCKS[end.clock] if end.kind == "time_to_level" else "",
    }
