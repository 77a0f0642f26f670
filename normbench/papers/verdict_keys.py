"""The keys of verdicts.json and of a line of history.jsonl, as far as they are read; others may stand beside them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from normbench.config.validation import Model, Number, optional

Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Ends = Annotated[list[int], Field(min_length=2, max_length=2)]
Span = Annotated[list[Number], Field(min_length=2, max_length=2)]


class Published(Model):
    """What was written by this version or an earlier one."""

    model_config = ConfigDict(extra="allow")


class SignTest(Published):
    """`sign_test` of a part."""

    above: Number = Field(description="seeds that are surely above zero")
    below: Number = Field(description="seeds that are surely below it")
    p: Number = Field(description="of the exact sign test")


class Cell(Published):
    """An entry of `cells` of a part."""

    cell: dict[str, Any] = Field(description="arm, axes, variant")
    weight: Number = Field(description="in the contrast")
    values: list[Any] = Field(description="as text, a value for each seed")


class Part(Published):
    """A part of a claim: a comparison, and what the runs gave for it."""

    id: str = Field(description="what is compared, in words")
    kind: str = Field(description="direction, size, equivalence or exact")
    test: str = Field(description="t, sign, or empty of a computed number")
    endpoint: str = Field(description="what is measured, in words")
    unit: str = Field(description="of the effect")
    word: str = Field(description="what it says by itself")
    why: str = Field(description="what keeps it from another word; empty: the width of its interval, or nothing")
    about: list[str] = Field(description="the cells, runs or numbers that `why` speaks of")
    sides: list[str] = Field(description="names of both sides of a difference, or of a single cell")
    quantity: str = Field(description="what is measured, in short")
    place: str = Field(description="where, in words")
    scale: str = Field(description="log: the effect is the logarithm of a ratio; percent or linear: a difference")
    better: str = Field(description="lower or higher; empty: neither")
    clock: str = Field(description="of a time")
    required: dict[str, Number | None] | None = Field(description="bounds of a computed number")
    effect: Number | None = Field(description="mean over the seeds, or median with the sign test")
    interval: Span | None = Field(description="of the effect, at `level`")
    level: Number | None = Field(description="of the interval")
    n: Whole = Field(description="seeds")
    planned: Whole | None = optional("seeds that were planned")
    sd: Number | None = optional("of one seed's effect")
    correlation: Number | None = optional("over the seeds, of both sides of the contrast")
    prediction: Span | None = Field(description="of one more run")
    expect: str | None = Field(description="the sign that is claimed")
    paper: Number | None = Field(description="the paper's number")
    within: Number | None = Field(description="the margin of an equivalence")
    band: Number | None = Field(description="how far from the paper's number one more run may lie")
    delta: Number | None = Field(description="the smallest effect of interest")
    tost: Span | None = Field(description="the interval that is compared with the margin")
    detectable: Number | None = optional("the effect that so many seeds show with the power of the rules")
    sign_test: SignTest | None = Field(description="where it decides, or a seed has no number")
    signed_rank: Number | None = optional("p of the signed-rank test")
    censored: Whole = optional("values that were not reached")
    diverged: Whole = optional("runs that diverged")
    examples: Whole = Field(description="test examples that the interval covers; 0: none")
    cells: list[Cell] = Field(description="what is compared, with its values")
    seeds: list[int] = Field(description="that count")
    runs: list[str] = Field(description="their ids")


class Control(Published):
    """An entry of `controls` of a claim."""

    name: str = Field(description="of the control")
    word: str = Field(description="of the claim under it")
    strict: str = optional("the same, at the level that one of several controls is asked for")
    deciding: Whole = Field(description="place of the part that decides")
    share: Whole | None = Field(description="how many of several parts are negligible, where the word is")
    parts: list[Part] = Field(description="as at the paper's setting")


class Stated(Published):
    """An entry of `stated` of an amendment."""

    part: str = Field(description="id of the part")
    unit: str = Field(description="of the effect")
    test: str = Field(description="t or sign")
    fidelity: str = Field(description="of its runs")
    control: str = Field(description="of its runs; empty: the paper's setting")
    seeds: Seeds = Field(description="of its runs")
    effect: Number = Field(description="in the part's unit")
    interval: Span | None = Field(description="of the effect, at `level`")
    level: Number = Field(description="of the interval")


class Seeds(Published):
    """`seeds` of a stated number."""

    first: int = Field(alias="from", description="the first one")
    last: int = Field(alias="to", description="the last one")


class Amendment(Published):
    """An entry of `amendments`."""

    claim: str = Field(description="its id")
    change: str = Field(description="what is other than before")
    reason: str = Field(description="why")
    stated: list[Stated] = optional("numbers in it")


class Suggestion(Published):
    """Which runs would decide an open claim."""

    kind: str = Field(description="missing, seeds, control, no mean, single runs or out of reach")
    runs: Whole | None = Field(description="to train")
    hours: Number | None = Field(description="of one core")
    seeds: Whole | None = Field(description="fresh ones that would decide")
    under: list[str] = Field(description="controls that are open, or choices that one has to vary")
    command: str = Field(description="that trains the missing runs")


class Claim(Published):
    """A claim and its verdict."""

    id: str = Field(description="its name")
    kind: str = Field(description="of its parts")
    ours: bool = optional("whether it is a hypothesis of this project")
    statement: str = Field(description="what is claimed, in our words")
    quote: str = Field(description="in the paper's")
    locator: str = Field(description="where the paper says so")
    endpoint: str = Field(description="of the part that decides")
    setting: str = Field(description="the word at the paper's setting")
    robustness: str = Field(description="of that word over the controls")
    verdict: str = Field(description="both together")
    answer: str = optional("both in a sentence, for people")
    undecidable: str = Field(description="why no run could tell; empty: one could")
    deciding: Whole | None = Field(description="place of the part that decides")
    share: Whole | None = Field(description="how many of several parts are negligible, where the word is")
    scattered: bool = Field(description="whether other parts are negligible under each control")
    unvaried: list[str] = Field(description="open choices that no control varies")
    beside: list[str] = Field(description="reported parts without which the number would mislead")
    alone: dict[str, Ends] = Field(description="first and last of the seeds that alone decide, by control; '': none")
    suggestion: Suggestion | None = Field(description="which runs would decide it")
    rules_sha256: str = Field(description="of the rules, smallest effects and planned seeds that it uses")
    n: Whole = Field(description="seeds of the part that decides")
    effect: Number | None = optional("of the part that decides")
    unit: str = Field(description="of this effect")
    interval: Span | None = optional("of this effect")
    level: Number | None = optional("of this interval")
    detectable: Number | None = optional("of the part that decides")
    alpha: Number = optional("the level of its tests")
    spent: Number = optional("the levels of the looks so far")
    looks: list[int] = Field(description="the planned seeds of its looks")
    look: Whole = optional("the last look that has its runs")
    runs: list[str] = Field(description="ids of the runs behind it")
    parts: list[Part] = Field(description="the comparisons that decide")
    reported: list[Part] = Field(description="those that are only reported")
    controls: list[Control] = Field(description="what each control says")
    amendments: list[Amendment] = optional("changes of this claim")


class Verdicts(Published):
    """verdicts.json: the claims of an artifact at one fidelity, judged."""

    schema_: int = Field(alias="schema", description="the form of this file")
    sha256: str = Field(description="the seal over all else")
    artifact: str = Field(description="PAPER/NAME")
    fidelity: str = Field(description="of the runs")
    command: str = Field(description="what makes these runs")
    deviations: list[str] = Field(description="from the paper, in sentences")
    claims_sha256: str = Field(description="of the claims as they were judged")
    amendments: list[Amendment] = Field(description="changes of claims after runs had been seen")
    note: str = Field(description="what is irregular")
    expected_wrong: Number | None = Field(description="how many claims are wrong by chance, at most")
    claims: list[Claim] = Field(description="with their verdicts")
    pack_sha256: str = Field(description="of the pack of runs; empty: none")
    contrasts_sha256: str = Field(description="of what each test example gave; empty: nothing")
    samples_sha256: str = optional("of what models drew")


class Judged(Published):
    """`before` and `after` of a line of the history."""

    verdict: str = Field(description="its words")
    n: int = Field(description="seeds behind it")
    rules: str = optional("the hash of the rules")


class Change(Published):
    """A line of history.jsonl: a verdict's change."""

    date: str = Field(description="of the change")
    artifact: str = Field(description="PAPER/NAME")
    fidelity: str = Field(description="of the runs")
    claim: str = Field(description="its id")
    before: Judged | None = Field(description="null where there was none")
    after: Judged = Field(description="the verdict from then on")
    cause: list[str] = Field(description="what differs: rules, claims, runs")
    sha256: str = Field(description="the seal over all else")
