"""The map of an import, which says what in foreign logs is run, arm, seed, clock, split and metric."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from normbench.core.keys import Before, Count, Text, format_value, longer, one_of
from normbench.errors import did_you_mean, unknown

SOURCES = (
    "csv", "parquet", "jsonl", "tensorboard", "wandb", "huggingface", "lightning", "keras", "trackio", "mlflow",
)  # fmt: skip
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
    if not re.compile(pattern).groupindex:
        raise ValueError(f"{format_value(pattern)} needs a named group, such as (?P<seed>\\d+).")
    return pattern


def _check_one(given: Collection[str], names: Collection[str]) -> None:
    if len({*given} & {*names}) != 1:
        raise ValueError(f"exactly one of {', '.join(names)} must be given.")


Regex = Annotated[Text, _regex]


@dataclass(frozen=True)
class Label:
    """Where a text is found: by one of PLACES."""

    path: Regex | None = None  # whose first group is the text
    column: Text | None = None
    config: Text | None = None
    hparam: Text | None = None
    value: str | float | bool | None = None  # the text itself
    renames: Mapping[str, str] = field(default_factory=dict)  # in a file any further key: validation: valid

    def check(self, given: Collection[str]) -> None:
        _check_one(given, PLACES)

    @property
    def place(self) -> tuple[str, Any]:
        """Its kind and name: ("column", "lr")."""
        return next((key, value) for key in PLACES if (value := getattr(self, key)) is not None)

    def rename(self, value: Any) -> str:
        return self.renames.get(text(value), text(value))


def _with_renames(given: Any) -> Any:
    """A label's keys, those that rename a text apart."""
    if not isinstance(given, dict):
        return given
    label = {key: value for key, value in given.items() if key in PLACES}
    renames = {key: value for key, value in given.items() if key not in PLACES}
    if given and not label:
        key = next((str(key) for key in given if did_you_mean(str(key), PLACES)), str(next(iter(given))))
        raise ValueError(unknown(f"'{key}' is not a key.", key, PLACES))
    for key, value in renames.items():
        if type(key) not in (str, int, float) or not isinstance(value, str):
            raise ValueError(
                f"{format_value(key)}: {format_value(value)} must be texts; quote names that YAML changes."
            )
    return {**label, "renames": {text(key): value for key, value in renames.items()}}


def _by_path(label: Label) -> Label:
    if not label.path:
        raise ValueError(f"{label.place[0]}: a run is path, run_id, {{path: REGEX}} or a list of columns, [COLUMN].")
    return label


AnyLabel = Annotated[Label, Before(_with_renames)]
Columns = Annotated[tuple[Text, ...], longer(1)]


@dataclass(frozen=True)
class Clock:
    """Where a step or epoch is read: by one of `column`, `key` and `event`."""

    column: Text | None = None
    key: Text | None = None
    event: Annotated[str, one_of("step")] | None = None
    times: Count | None = None

    def check(self, given: Collection[str]) -> None:
        _check_one(given, ("column", "key", "event"))

    @property
    def name(self) -> str:
        return self.column or self.key or str(self.event)


@dataclass(frozen=True)
class Clocks:
    """The clocks of a curve, at least one. With `epoch` alone, which must be whole, an epoch is a step."""

    step: Clock | None = None
    epoch: Clock | None = None

    def check(self, given: Collection[str]) -> None:
        if not given:
            raise ValueError("step or epoch must be given.")


@dataclass(frozen=True, kw_only=True)
class Series:
    """A curve: its name in the log, or a glob (`eval/*`), under one of `column`, `tag` and `key`."""

    column: Text | None = None
    tag: Text | None = None
    key: Text | None = None
    split: Text | AnyLabel
    metric: Text | None = None  # without it, its name without the word of the split
    mode: Annotated[str, one_of("logged", "running", "eval")] | None = None
    goal: Annotated[str, one_of("min", "max")] | None = None
    unit: Annotated[str, one_of(*UNITS)] | None = None
    log: bool | None = None  # whether its differences are ratios
    x: Clocks | None = None  # in place of the map's

    def check(self, given: Collection[str]) -> None:
        _check_one(given, NAMES)

    @property
    def name(self) -> str:
        return self.column or self.tag or str(self.key)


@dataclass(frozen=True)
class Labels:
    arm: AnyLabel | None = None
    seed: Literal["count", "none"] | AnyLabel | None = None
    control: AnyLabel | None = None
    axes: Mapping[Text, AnyLabel] | None = None


@dataclass(frozen=True)
class Long:
    """The long form, a row for each metric: its columns of names and of values."""

    name: Text
    value: Text


@dataclass(frozen=True)
class Monitor:
    """What chooses the best evaluation of a run; its series has a goal."""

    split: Text
    metric: Text


@dataclass(frozen=True)
class Map:
    """The whole file. What it leaves out is guessed where that is safe, shown, and used with --yes."""

    source: Annotated[str, one_of(*SOURCES)] | None = None
    run: Literal["path", "run_id"] | Annotated[AnyLabel, _by_path] | Columns | None = None
    labels: Labels | None = None
    x: Clocks | None = None
    series: Annotated[tuple[Series, ...], longer(1)] = ()
    columns: Annotated[Regex, _groups] | None = None  # the wide form, a column a run
    long: Long | None = None
    monitor: Monitor | None = None
    repeats: Annotated[str, one_of("refuse", "rewind", "last")] | None = None
    blank: Annotated[str, one_of("missing", "diverged")] | None = None
    length: Annotated[str, one_of("equal", "common")] | None = None

    def check(self, given: Collection[str]) -> None:
        if self.columns and self.long:
            raise ValueError("columns and long cannot be given together.")
