"""The keys of an artifact's file, which has the claims about a figure or table; `claim_file` reads it."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from normbench.config import FIDELITIES
from normbench.config.validation import (
    Count,
    FidelityName,
    Model,
    Number,
    OneOf,
    Range,
    Text,
    check_ids,
    check_names,
    optional,
)
from normbench.keys import format_value
from normbench.papers.claims import BEST, LENGTHS, MODES, format_cell
from normbench.stats.series import CLOCKS


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    for key, value in cell.items():
        # YAML reads a bare off, no or 2016-07-21 as something else than the name that was meant.
        if not isinstance(value, str) and (key == "arm" or not isinstance(value, bool | int | float)):
            raise ValueError(f"'{key}' has the value {format_value(value)}; quote names that YAML changes.")
    return cell


def _term(term: tuple[float, Any]) -> tuple[float, Any]:
    if not term[0]:
        raise ValueError("its weight must not be 0.")
    return term


def _epoch(epoch: Any) -> Any:
    if epoch not in ("best", "own", "last") and (type(epoch) is not int or epoch < 0):
        raise ValueError(f"{format_value(epoch)} must be a number, last, best or own.")
    return epoch


def _of(cell: Any) -> Any:
    if cell != BEST and not isinstance(cell, dict):
        raise ValueError(f"{format_value(cell)} must be a cell, or best.")
    return cell if cell == BEST else _cell(cell)


Positive = Annotated[Number, Field(gt=0), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
Cell = Annotated[dict[str, Any], AfterValidator(_cell)]
Term = Annotated[tuple[Number, Cell], Field(strict=False), AfterValidator(_term)]
Scale = Annotated[str, OneOf(("log", "percent", "linear"))]
Test = Annotated[str, OneOf(("t", "sign"))]
Epoch = Annotated[Any, PlainValidator(_epoch), WithJsonSchema({"type": "number, last, best or own"})]
Of = Annotated[Any, PlainValidator(_of), WithJsonSchema({"type": "cell or best"})]


# --- endpoints -------------------------------------------------------------------------------------------------------


class Value(Model):
    """An endpoint of `kind: value`: a number that a probe computed. A probe computes numbers and trains nothing."""

    kind: Literal["value"]
    key: Text = Field(description="the name of the number in the run's record")


class Recorded(Model):
    """The keys of every other endpoint: the number of a run, read from its curve."""

    split: Text = Field(description="train, valid, test, or a downstream task")
    mode: Annotated[str, OneOf(tuple(MODES))] = optional(
        "which records are read: evaluation mode (the default), training mode, the running mean over an epoch's "
        "updates, the stage after training (`stage`), tasks along training (`along`), or the whole split "
        "at the end (`whole`)"
    )
    metric: Text = Field(description="the metric, such as nll or error")
    variant: Text = optional(
        "the evaluation settings; a cell may name others. Patterns with | choose several, which count by "
        "their mean (`TT**|FF**`); `best by valid` chooses one by its validation result"
    )
    better: Annotated[str, OneOf(("lower", "higher"))] = optional(
        "whether lower or higher values are better; the default is lower"
    )


class Final(Recorded):
    """`kind: final`: the value at the last epoch."""

    kind: Literal["final"]


class Area(Recorded):
    """`kind: area`: the mean over all epochs; of losses the geometric mean. On logged curves the mean over their common
    steps by the trapezoid rule.
    """

    kind: Literal["area"]
    least: Number = optional(
        "how far a run must have come, from its first value to its best; a run that has not has hardly "
        "begun, and its part is not decidable"
    )


class Gain(Recorded):
    """`kind: gain`: the last value minus the value after a share of the updates."""

    kind: Literal["gain"]
    share: Annotated[Number, Field(ge=0, lt=1)] = Field(description="the share of the updates, at least 0 and below 1")


class Chosen(Recorded):
    """`kind: chosen`: the value at one epoch. At `best` and `last`, the interval is over seeds and test examples, if
    the runs kept a result for each example.
    """

    kind: Literal["chosen"]
    epoch: Epoch = Field(
        description="a number; `last`; `best`: the epoch where the default evaluation is best by the monitored "
        "metric; `own`: the epoch where the variant itself is best"
    )
    least: Number = optional("as in Area")


class Level(Model):
    """A relative `level`: a point on the way from the worst first value to the best value."""

    share: Annotated[Number, Field(gt=0, le=1)] = Field(description="the share of this way, such as 0.9")
    of: Of = Field(description="whose best value: `best`, of all compared runs of a seed; or a cell, of its runs")
    least: Number = optional("as in Area")


class TimeToLevel(Recorded):
    """`kind: time_to_level`: the time at which the curve first reaches a level."""

    kind: Literal["time_to_level"]
    level: Annotated[
        Annotated[Number, Tag("<number>")] | Annotated[Level, Tag("<share>")],
        Discriminator(lambda level: "<share>" if isinstance(level, dict) else "<number>"),
    ] = Field(description="a value in the metric's unit, or a relative level")
    clock: Annotated[str, OneOf(tuple(CLOCKS))] = optional("the unit of the time; the default is epoch")


Endpoint = Annotated[Value | Final | Area | Gain | Chosen | TimeToLevel, Field(discriminator="kind")]


# --- parts -----------------------------------------------------------------------------------------------------------


class Delta(Model):
    """`delta`: a smallest effect of interest that differs from that of `rules.yaml`."""

    size: Positive | None = Field(
        alias="is", description="the effect, in the part's unit; null: the part has no smallest effect"
    )
    why: Text = Field(description="the reason")


class Part(Model):
    """The keys of every part: one comparison, or one computed number, of a claim."""

    id: Text = Field(description="what is compared, in words")
    endpoint: Endpoint = Field(description="the number of a run that is compared, one of the endpoints above")
    unit: Text = Field(description="the unit of the effect")

    @model_validator(mode="after")
    def _level_of_a_cell(self) -> Part:
        level = getattr(self.endpoint, "level", None)
        cells = getattr(self, "order", None) or [cell for _, cell in getattr(self, "contrast", ())]
        if isinstance(level, Level) and level.of not in (BEST, *cells):
            raise ValueError(f"endpoint.level.of: {format_cell(level.of)} is not compared here.")
        return self


class Compared(Part):
    """The keys of a part that compares cells."""

    scale: Scale = Field(
        description="`log`: the logarithms of the endpoints are compared; `percent`: the endpoints times 100; "
        "`linear`: the endpoints themselves"
    )
    contrast: Annotated[list[Term], Field(min_length=1)] = Field(
        description="pairs of a weight and a cell, such as [[1, {arm: ln}], [-1, {arm: bn}]] for LN minus BN; the "
        "effect is the weighted sum"
    )


class Tested(Part):
    """The keys of a part whose effect's sign is tested."""

    test: Test = optional(
        "`t`: Student's t test of the mean, the default. `sign`: the exact sign test of the median, for "
        "values that can be censored or can diverge, or that have a heavy tail"
    )
    delta: Delta = optional(
        "the smallest effect of interest, if it differs from that of `rules.yaml`; on logged curves there is no other"
    )


class Direction(Compared, Tested):
    """A part of `kind: direction`: the effect has a certain sign."""

    expect: Annotated[str, OneOf(("negative", "positive"))] = Field(description="the sign that is claimed")


class Size(Compared):
    """A part of `kind: size`: the effect equals the paper's number."""

    paper: Number = Field(description="the paper's number")
    band: Positive = Field(
        description="how far from the paper's number the prediction interval of one more run may reach"
    )


class Equivalence(Compared):
    """A part of `kind: equivalence`: the effect is smaller than a margin."""

    within: Positive = Field(description="the margin, in the part's unit")


class NoWorse(Compared):
    """A part of `kind: no_worse`: the first cell is worse by less than a margin; it may be better by any amount."""

    within: Positive = Field(description="the margin, in the part's unit")


class Order(Tested):
    """A part of `kind: order`: several cells have a certain order. It counts as k − 1 parts for k cells, one for each
    pair of neighbours.
    """

    scale: Scale = Field(description="as in Compared")
    order: Annotated[list[Cell], Field(min_length=2)] = Field(
        description="the cells, the one with the smallest endpoint first"
    )


class Exact(Part):
    """A part of `kind: exact`: a computed number, without seeds, meets its bounds. At least one bound is given."""

    endpoint: Value = Field(description="an endpoint of `kind: value`")
    cell: Cell = optional("the runs that are meant, such as {arm: ln}; the default is all runs")
    value: Number = optional("the number that it must equal")
    at_most: Number = optional("the largest number that it may be")
    at_least: Number = optional("the smallest number that it may be")

    @model_validator(mode="after")
    def _bounded(self) -> Exact:
        if self.value is self.at_most is self.at_least is None:
            raise ValueError("one of 'value', 'at_most', 'at_least' must be given.")
        return self


def kind_of(entry: Any) -> str:
    """A reported part may be of another kind than its claim; the key that only one kind has tells."""
    marks = {"paper": "size", "band": "size", "within": "equivalence", "order": "order"}
    marks |= dict.fromkeys(("value", "at_most", "at_least"), "exact")
    return next((kind for key, kind in marks.items() if isinstance(entry, dict) and key in entry), "direction")


Reported = Annotated[
    Annotated[Direction, Tag("<direction>")]
    | Annotated[Size, Tag("<size>")]
    | Annotated[Equivalence, Tag("<equivalence>")]
    | Annotated[Order, Tag("<order>")]
    | Annotated[Exact, Tag("<exact>")],
    Discriminator(lambda entry: f"<{kind_of(entry)}>"),
]


# --- claims ----------------------------------------------------------------------------------------------------------


def _at_paper(given: Any) -> Any:
    return {"paper": given} if isinstance(given, dict) and given.keys() & {"from", "to"} else given


def _added(seeds: tuple[int, int]) -> tuple[int, int]:
    if not 1 < seeds[0] < seeds[1]:
        raise ValueError(f"{list(seeds)} must be two numbers of seeds, the smaller first.")
    return seeds


def _at_all(given: Any) -> Any:
    return dict.fromkeys(FIDELITIES, given) if isinstance(given, str) else given


Seeds = Annotated[dict[FidelityName, Range], BeforeValidator(_at_paper)]
Added = Annotated[tuple[Count, Count], Field(strict=False), AfterValidator(_added)]
Reasons = Annotated[dict[FidelityName, Text], BeforeValidator(_at_all)]
Names = Annotated[list[Text], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
Kind = TypeVar("Kind")
OfKind = TypeVar("OfKind", bound=Part)


class Claim(Model, Generic[Kind, OfKind]):
    """A statement of the paper, or a hypothesis of our own."""

    id: Text = Field(description="its name; no other claim of the artifact has it")
    kind: Kind = Field(
        description="the kind of its parts: `direction`, `size`, `equivalence`, `no_worse`, `order` or `exact`"
    )
    statement: Text = Field(description="what is claimed, in our words")
    quote: Text = optional("what is claimed, in the paper's words; a claim about an experiment has it")
    locator: Text = optional("where the paper says it; a claim about an experiment has it")
    parts: list[OfKind] = Field(description="the parts that decide the claim: it holds if all of them hold")
    reported: list[Reported] = optional("parts of any kind that are reported and decide nothing")
    beside: Names = optional(
        "ids of reported parts that are printed beside the claim's number, because it would mislead without them"
    )
    open: list[Text] = optional("choices that the paper leaves open")
    controls: list[Text] = optional(
        "controls of the experiment that vary the open choices; the claim is robust if it has the same word under each"
    )
    unvaried: list[Text] = optional("open choices that no control varies")
    seeds: Seeds = optional(
        "the only seeds that decide, because results of others had been seen: {from: 6, to: 10} for "
        "`paper`, or a map by fidelity"
    )
    control_seeds: dict[Text, Seeds] = optional("the same for controls, by name")
    added: Added = optional(
        "two numbers of seeds: those of the first look, and of a second look that was not planned at first"
    )
    not_decidable: Reasons = optional("why no run can decide it: a text, or a text by fidelity")
    ours: bool = optional("true: it is a hypothesis of our own")

    @model_validator(mode="after")
    def _consistent(self) -> Claim[Kind, OfKind]:
        alone = {"exact": "an exact claim has none", "size": "a number of the paper's is one of its own setting"}
        reason = alone.get(str(self.kind), "" if self.controls else "without controls no word of its could be robust")
        if self.open and reason:
            raise ValueError(f"'open' names choices that the paper leaves open, but {reason}.")
        if self.controls and not self.open:
            raise ValueError("'controls' has settings, but 'open' does not say what they vary.")
        if not self.parts and not self.not_decidable:
            raise ValueError("'parts' is empty: nothing would decide the claim.")
        reported = [part.id for part in self.reported or ()]
        check_ids([*(part.id for part in self.parts), *reported])
        check_names("unvaried", self.unvaried or (), self.open or ())
        check_names("beside", self.beside or (), reported)
        check_names("control_seeds", self.control_seeds or (), self.controls or ())
        return self


AnyClaim = (
    Claim[Literal["direction"], Direction]
    | Claim[Literal["size"], Size]
    | Claim[Literal["equivalence"], Equivalence]
    | Claim[Literal["no_worse"], NoWorse]
    | Claim[Literal["order"], Order]
    | Claim[Literal["exact"], Exact]
)


# --- artifacts -------------------------------------------------------------------------------------------------------


class Amendment(Model):
    """A change of a claim after runs had been seen."""

    claim: Text = Field(description="the id of the claim")
    change: Text = Field(description="what was changed")
    reason: Text = Field(description="the reason, and which results had been seen, with their effects and intervals")
    looked: Seeds = optional(
        "the seeds, at least five, on which the claim had a word before: {from: 1, to: 5} for `paper`, or a map by "
        "fidelity; the chance that this look was wrong is counted as well"
    )


class Artifact(Model):
    """The whole file: a figure, table or statement of a paper, and the claims about it; or claims about logged curves,
    which have no `experiment`: of the keys of the file these need `claims` alone.
    """

    id: Text = optional("PAPER/NAME, as in the file's path")
    title: Text = optional("its title on pages")
    locator: Text = optional("where the paper has it")
    question: Text = optional("the question that it answers, in one sentence")
    names: dict[Text, Text] = optional("names in sentences of arms, variants, metrics and values of axes")
    experiment: Text = optional("the experiment whose runs decide the claims, PAPER/NAME")
    runs: Names = optional("without an experiment: the runs that decide, as `normbench judge --runs` takes them")
    length: Annotated[str, OneOf(LENGTHS)] = optional(
        "without an experiment: `equal`, the default, refuses runs that end at different steps; `common` compares them "
        "up to the last step that all have"
    )
    seeds: Count = optional("n, the planned number of seeds; without an experiment at least 5, the default")
    seen: Count = optional(
        "the last seed whose results had been seen when the smallest effects were declared; no effect is "
        "called negligible on seeds up to it"
    )
    deviations: dict[FidelityName, list[Text]] = optional(
        "by fidelity: how the runs differ from the paper, in sentences"
    )
    reference: dict[Any, Any] = optional("numbers of the paper for NAME.py, which draws the figure")
    amendments: list[Amendment] = optional("changes of claims after runs had been seen")
    claims: list[Annotated[AnyClaim, Field(discriminator="kind")]] = Field(description="the claims")

    @model_validator(mode="after")
    def _consistent(self) -> Artifact:
        if self.experiment:
            needed = {key: getattr(self, key) for key in ("id", "title", "locator", "seeds", "deviations")}
            for place, claim in enumerate(self.claims):
                needed |= {f"claims[{place}].{key}": getattr(claim, key) for key in ("quote", "locator")}
            for key, value in needed.items():
                if value is None:
                    raise ValueError(f"'{key}' is missing; claims about an experiment have it.")
            for key in ("runs", "length"):
                if getattr(self, key) is not None:
                    raise ValueError(f"'{key}' is of claims about logged curves; {self.experiment} has its own runs.")
        else:
            self._check_logged()
        check_ids([claim.id for claim in self.claims])
        for number, amendment in enumerate(self.amendments or ()):
            if amendment.looked:
                check_names(f"amendments[{number}].claim", [amendment.claim], [claim.id for claim in self.claims])
        return self

    def _check_logged(self) -> None:
        """Refuse what has no meaning without an experiment, and a file that would judge nothing."""
        if not self.claims:
            raise ValueError("'claims' is empty: nothing would be judged.")
        given: dict[str, Any] = {"seen": self.seen}
        for place, claim in enumerate(self.claims):
            others = {*(claim.seeds or {}), *(key for seeds in (claim.control_seeds or {}).values() for key in seeds)}
            given |= {f"claims[{place}].added": claim.added, f"claims[{place}].seeds": others - {"paper"} or None}
        for key, value in given.items():
            if value is not None:
                raise ValueError(f"'{key}': {format_value(value)} is of claims about an experiment, and there is none.")
