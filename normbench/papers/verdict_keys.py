"""The keys of verdicts.json, as far as they are read; others may stand beside them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from normbench.config.validation import Model, Number, optional

Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Ends = Annotated[list[int], Field(min_length=2, max_length=2)]
Span = Annotated[list[Number], Field(min_length=2, max_length=2)]


class Published(Model):
    """Base of all models here: versions before and after this one may have other keys beside these."""

    model_config = ConfigDict(extra="allow")


class SignTest(Published):
    """`sign_test` of a part."""

    above: Number = Field(description="the number of seeds whose effect is above zero for certain")
    below: Number = Field(description="the number of seeds whose effect is below zero for certain")
    p: Number = Field(description="p of the exact sign test")


class Cell(Published):
    """An entry of `cells` of a part."""

    cell: dict[str, Any] = Field(description="the arm, the values of axes, the variant")
    weight: Number = Field(description="its weight in the contrast")
    values: list[Any] = Field(description="a value for each seed, as text")


class Part(Published):
    """A part of a claim: a comparison, or a computed number, and its result."""

    id: str = Field(description="what is compared, in words")
    kind: str = Field(description="direction, size, equivalence, no_worse or exact")
    test: str = Field(description="t, sign, or empty for a computed number")
    endpoint: str = Field(description="the number of a run that is compared, in words")
    unit: str = Field(description="the unit of the effect")
    word: str = Field(description="the word of this part alone")
    why: str = Field(description="the reason for no other word; empty: the width of the interval, or no reason")
    about: list[str] = Field(description="the cells, runs or numbers that `why` names")
    sides: list[str] = Field(description="the names of the two sides of a difference, or of a single cell")
    quantity: str = Field(description="the number that is compared, in short")
    place: str = Field(description="the setting of the comparison, in words, such as batch size 4")
    scale: str = Field(description="log: the effect is the logarithm of a ratio; percent or linear: a difference")
    better: str = Field(description="lower or higher values are better; empty: neither")
    clock: str = Field(description="the unit of a time")
    required: dict[str, Number | None] | None = Field(description="the bounds of a computed number")
    effect: Number | None = Field(description="the mean over the seeds; with the sign test, the median")
    interval: Span | None = Field(description="the interval of the effect at `level`")
    level: Number | None = Field(description="the level of the interval")
    n: Whole = Field(description="the number of seeds")
    planned: Whole | None = optional("the number of planned seeds")
    sd: Number | None = optional("the standard deviation of one seed's effect")
    correlation: Number | None = optional("the correlation, over the seeds, of the two sides of the contrast")
    prediction: Span | None = Field(description="the prediction interval of one more run")
    expect: str | None = Field(description="the sign that is claimed")
    paper: Number | None = Field(description="the paper's number")
    within: Number | None = Field(description="the margin of an equivalence, or of no_worse")
    band: Number | None = Field(description="how far from the paper's number the prediction interval may reach")
    delta: Number | None = Field(description="the smallest effect of interest")
    tost: Span | None = Field(description="the interval that is compared with the margin or with ±delta")
    detectable: Number | None = optional("the effect that so many seeds show with the power of `rules.yaml`")
    sign_test: SignTest | None = Field(description="the sign test, where it decides or a seed has no number")
    signed_rank: Number | None = optional("p of Wilcoxon's signed-rank test, which decides nothing")
    censored: Whole = optional("the number of runs that did not reach the level")
    diverged: Whole = optional("the number of runs that diverged")
    examples: Whole = Field(
        description="the number of test examples that the interval is over as well; 0: it is over seeds alone"
    )
    cells: list[Cell] = Field(description="the cells that are compared, with their values")
    seeds: list[int] = Field(description="the seeds that count")
    runs: list[str] = Field(description="the ids of the runs")


class Control(Published):
    """An entry of `controls` of a claim."""

    name: str = Field(description="the name of the control")
    word: str = Field(description="the claim's word under this control, at level 0.05")
    strict: str = optional("the same at level 0.05/(number of controls)")
    deciding: Whole = Field(description="the index of the part that decides")
    share: Whole | None = Field(description="if the word is negligible: how many of several parts are negligible")
    parts: list[Part] = Field(description="the parts, as at the paper's setting")


class Seeds(Published):
    """A range of seeds in `looked`."""

    first: int = Field(alias="from", description="the first seed")
    last: int = Field(alias="to", description="the last seed")


class Amendment(Published):
    """An entry of `amendments`."""

    claim: str = Field(description="the id of the claim")
    change: str = Field(description="what was changed")
    reason: str = Field(description="the reason")
    looked: dict[str, Seeds] = optional("by fidelity: the seeds on which the claim had a word before")


class Suggestion(Published):
    """`suggestion` of a claim: the runs that would decide it."""

    kind: str = Field(
        description="what is needed: missing (runs), seeds, control; or why none help: no mean, single runs, out of "
        "reach"
    )
    runs: Whole | None = Field(description="the number of runs to train")
    hours: Number | None = Field(description="the hours that they take on one core")
    seeds: Whole | None = Field(description="the number of fresh seeds that would decide")
    under: list[str] = Field(description="the controls that are open, or the choices that a new control has to vary")
    command: str = Field(description="the command that trains the missing runs")


class Claim(Published):
    """A claim and its verdict."""

    id: str = Field(description="its name")
    kind: str = Field(description="the kind of its parts")
    ours: bool = optional("true: it is a hypothesis of our own")
    statement: str = Field(description="what is claimed, in our words")
    quote: str = Field(description="what is claimed, in the paper's words")
    locator: str = Field(description="where the paper says it")
    endpoint: str = Field(description="the endpoint of the part that decides, in words")
    setting: str = Field(description="its word at the paper's setting")
    robustness: str = Field(
        description="whether this word is the same under the controls: robust, depends, undecided, not run, or empty"
    )
    verdict: str = Field(description="the verdict, made of these two words")
    answer: str = optional("verdict and evidence in a sentence, for people")
    undecidable: str = Field(description="why no run can decide it; empty: runs can")
    deciding: Whole | None = Field(description="the index of the part that decides")
    share: Whole | None = Field(description="if the word is negligible: how many of several parts are negligible")
    scattered: bool = Field(description="true: under each control, other parts are negligible")
    unvaried: list[str] = Field(description="open choices that no control varies")
    beside: list[str] = Field(description="ids of reported parts without which the claim's number would mislead")
    alone: dict[str, Ends] = Field(
        description="by control ('': the paper's setting): first and last of the seeds that are the only ones to decide"
    )
    suggestion: Suggestion | None = Field(description="the runs that would decide it")
    rules_sha256: str = Field(
        description="the hash of the rules, smallest effects, planned seeds and controls that it uses"
    )
    n: Whole = Field(description="the number of seeds of the part that decides")
    effect: Number | None = optional("the effect of the part that decides")
    unit: str = Field(description="the unit of this effect")
    interval: Span | None = optional("the interval of this effect")
    level: Number | None = optional("the level of this interval")
    detectable: Number | None = optional("`detectable` of the part that decides")
    alpha: Number = optional("the level of its tests")
    spent: Number = optional("the sum of the levels of its looks so far, of those before an amendment too")
    looks: list[int] = Field(description="the planned number of seeds at each look")
    look: Whole = optional("the last look whose runs are finished")
    runs: list[str] = Field(description="the ids of the runs behind it")
    parts: list[Part] = Field(description="the parts that decide")
    reported: list[Part] = Field(description="the parts that are reported and decide nothing")
    controls: list[Control] = Field(description="the result under each control")
    amendments: list[Amendment] = optional("changes of this claim")


class Verdicts(Published):
    """verdicts.json: the claims of an artifact at one fidelity, judged."""

    schema_: int = Field(alias="schema", description="the version of this form")
    sha256: str = Field(description="the seal: the hash of all other keys")
    artifact: str = Field(description="PAPER/NAME")
    fidelity: str = Field(description="the fidelity of the runs")
    command: str = Field(description="the command that makes these runs")
    deviations: list[str] = Field(description="how the runs differ from the paper, in sentences")
    claims_sha256: str = Field(description="the hash of the claims as they were judged")
    amendments: list[Amendment] = Field(description="changes of claims after runs had been seen")
    note: str = Field(description="what is irregular about the runs")
    expected_wrong: Number | None = Field(
        description="the largest number of claims that are expected to be wrong by chance"
    )
    claims: list[Claim] = Field(description="the claims with their verdicts")
    pack_sha256: str = Field(description="the hash of the pack of runs; empty: no pack")
    contrasts_sha256: str = Field(description="the hash of contrasts.npz; empty: no such file")
    samples_sha256: str = optional("the hash of samples.zip")
