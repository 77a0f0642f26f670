"""The keys of a map, which says what in foreign logs is run, arm, seed, clock, split and metric."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from normbench.config.validation import Count, Model, OneOf, Text, check_one, optional
from normbench.errors import did_you_mean, unknown
from normbench.keys import format_value

SOURCES = ("csv", "parquet", "jsonl", "tensorboard", "wandb", "huggingface", "lightning", "keras")
PLACES = ("path", "column", "config", "hparam", "value")  # of a label
NAMES = ("column", "tag", "key")  # what sources call a series
CLOCKS = ("step", "epoch")
UNITS = ("nats", "bits", "percent", "fraction", "1")


def text(value: Any) -> str:
    """A label: whole numbers without a point, so that 3.0, as hparams have it, is 3."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{format_value(pattern)} is no regular expression: {error}.") from None
    return pattern


def _groups(pattern: str) -> str:
    if not re.compile(_regex(pattern)).groupindex:
        raise ValueError(f"{format_value(pattern)} needs a named group, such as (?P<seed>\\d+).")
    return pattern


def _run(value: Any) -> Any:
    if isinstance(value, dict) and Label.model_validate(value).path:
        return Label.model_validate(value)
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return value
    if value not in ("path", "run_id"):
        raise ValueError(f"{format_value(value)} must be path, run_id, {{path: REGEX}} or a list of columns, [COLUMN].")
    return value


def _split(value: Any) -> Any:
    if isinstance(value, dict):
        return Label.model_validate(value)
    if not isinstance(value, str):
        raise ValueError(f"{format_value(value)} must be a text, or a label such as {{path: '(train|valid)$'}}.")
    return value


def _seed(value: Any) -> Any:
    if isinstance(value, dict):
        return Label.model_validate(value)
    if value not in ("count", "none"):
        raise ValueError(f"{format_value(value)} must be count, none or a label such as {{path: 'seed(\\d+)'}}.")
    return value


Run = Annotated[Any, PlainValidator(_run), WithJsonSchema({"type": "path, run_id, Label or list of text"})]
Regex = Annotated[Text, AfterValidator(_regex)]


class Label(Model):
    """Where a text is found: one of these keys. Any further key renames what is found: {path: '(train|validation)$',
    validation: valid}.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    path: Regex = optional("a regular expression on the path; its first group is the text")
    column: Text = optional("a column that has one value in a run")
    config: Text = optional("a key of the run's configuration, such as model.norm")
    hparam: Text = optional("a key of its hyperparameters")
    value: Any = Field(default=None, description="the text itself", json_schema_extra={"type": "text or number"})

    @model_validator(mode="before")
    @classmethod
    def _texts(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        found = {text(key): value for key, value in data.items()}
        places = [key for key in found if key in PLACES]
        if len(places) > 1 or not found:
            raise ValueError(f"one of {', '.join(PLACES)} must be given, not {' and '.join(places) or 'none'}.")
        if not places:
            key = next((key for key in found if did_you_mean(key, PLACES)), next(iter(found)))
            raise ValueError(str(unknown(f"'{key}' is not a key.", key, PLACES)))
        for given in data:
            if not isinstance(given, str | float | int) or isinstance(given, bool):
                raise ValueError(f"{format_value(given)} must be a text; quote names that YAML changes.")
        for key in found.keys() - {*PLACES}:
            if not isinstance(found[key], str):
                raise ValueError(f"{key}: {format_value(found[key])} must be a text; quote names that YAML changes.")
        return found

    @property
    def place(self) -> tuple[str, Any]:
        """Its kind and name: ("column", "lr")."""
        return next((key, value) for key in PLACES if (value := getattr(self, key)) is not None)

    def rename(self, found: Any) -> str:
        return str((self.model_extra or {}).get(text(found), text(found)))


Split = Annotated[Any, PlainValidator(_split), WithJsonSchema({"type": "text or Label"})]


class Clock(Model):
    """Where a step or epoch is read: one of `column`, `key` and `event`."""

    column: Text = optional("a column")
    key: Text = optional("W&B, Hugging Face: a key of the same row")
    event: Annotated[str, OneOf(("step",))] = optional("TensorBoard: the step of the event")
    times: Count = optional("what it is multiplied by: the updates of one unit")

    @model_validator(mode="after")
    def _one(self) -> Clock:
        check_one(self, ("column", "key", "event"))
        return self

    @property
    def name(self) -> str:
        return self.column or self.key or self.event


class Clocks(Model):
    """The clocks of a curve, at least one. With `epoch` alone, which must be whole, an epoch is a step."""

    step: Clock = optional("updates")
    epoch: Clock = optional("epochs, as the log counts them")

    @model_validator(mode="after")
    def _some(self) -> Clocks:
        if not (self.step or self.epoch):
            raise ValueError("step or epoch must be given.")
        return self


class Series(Model):
    """A curve: its name in the log, or a glob (`eval/*`), under one of `column`, `tag` and `key`."""

    column: Text = optional("of CSV, Parquet and JSON lines; in the long form: a value of the column of names")
    tag: Text = optional("of TensorBoard")
    key: Text = optional("of W&B and Hugging Face")
    split: Split = Field(description="the split it is measured on, or where that is found")
    metric: Text = optional("its metric here; without it, its name without the word of the split")
    mode: Annotated[str, OneOf(("logged", "running", "eval"))] = optional(
        "`running`: a mean over training batches; `eval`: an evaluation; the default is `logged`, which may be either"
    )
    goal: Annotated[str, OneOf(("min", "max"))] = optional("which end is better")
    unit: Annotated[str, OneOf(UNITS)] = optional("what it is counted in")
    log: bool = optional("whether its differences are ratios")
    x: Clocks = optional("its own clocks, instead of the map's")

    @model_validator(mode="after")
    def _one(self) -> Series:
        check_one(self, NAMES)
        return self

    @property
    def name(self) -> str:
        return next(name for key in NAMES if (name := getattr(self, key)))


class Labels(Model):
    """The labels of a run."""

    arm: Label = optional("the setting that is compared")
    seed: Annotated[Any, PlainValidator(_seed), WithJsonSchema({"type": "Label, count or none"})] = optional(
        "its seed; `count`: the runs of an arm and control are numbered; `none`: all runs are, so that none form a pair"
    )
    control: Label = optional("the control; without it none")
    axes: dict[Text, Label] = optional("the value of each axis")


class Long(Model):
    """The long form: a row for each metric."""

    name: Text = Field(description="the column of names")
    value: Text = Field(description="the column of values")


class Monitor(Model):
    """What chooses the best evaluation of a run; its series has a goal."""

    split: Text = Field(description="the split")
    metric: Text = Field(description="the metric")


class Map(Model):
    """The whole file. What it leaves out is guessed where that is safe, shown, and used with --yes."""

    source: Annotated[str, OneOf(SOURCES)] = optional("the tool that wrote the logs")
    run: Run = optional(
        "what makes one run: a file's path, or the part of it that a regular expression finds; an id; columns"
    )
    labels: Labels = optional("the labels of a run")
    x: Clocks = optional("the clocks of all series")
    series: Annotated[list[Series], Field(min_length=1)] = optional("the curves to take")
    columns: Annotated[Text, AfterValidator(_groups)] = optional(
        "the wide form, a column a run: a regular expression whose named groups arm, seed, control are labels"
    )
    long: Long = optional("the long form")
    monitor: Monitor = optional("what is best")
    repeats: Annotated[str, OneOf(("refuse", "rewind", "last"))] = optional(
        "steps that come twice: `rewind` (default) drops what a resumed run repeats; `last` takes the last of each step"
    )
    blank: Annotated[str, OneOf(("missing", "diverged"))] = optional("what a blank value is")
    length: Annotated[str, OneOf(("equal", "common"))] = optional(
        "`equal`: refuse curves of unequal ends; `common`: cut all to the shortest"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Map:
        if self.columns and self.long:
            raise ValueError("columns and long cannot be given together.")
        return self
