"""The keys of an experiment's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from normbench.config import compose, experiment_file, grammar
from normbench.config.validation import Count, FidelityName, Model, Number, Range, optional, validate
from normbench.errors import unknown
from normbench.keys import format_value
from normbench.stored import LABELS, RUN_GROUPS

PLAIN = re.compile(r"[A-Za-z0-9_.+/-]+")  # of an axis: it is written into commands and read from them
FORM = "such as train.batch_size: [128, 4]"


def _override(word: str) -> str:
    if "=" not in word:
        raise ValueError(f"{format_value(word)} must be an override, KEY=VALUE without a space.")
    return word


def _axis(axis: str) -> str:
    if axis in (*grammar.GROUPS, *LABELS, *grammar.SCALARS):
        raise ValueError(f"'{axis}' is no option, {FORM}. What has other {axis} is an arm.")
    return axis


def _value(value: Any) -> Any:
    if not isinstance(value, str | int | float) or not PLAIN.fullmatch(str(value)):
        raise ValueError(f"{format_value(value)} must be a number or a word, {FORM}.")
    if (read := grammar.parse([f"axis={value}"])[0].value()) != value:
        raise ValueError(f"{format_value(value)} is read as {format_value(read)}. Write it as it is read.")
    return value


def _once(values: list[Any]) -> list[Any]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{format_value(value)} stands there twice.")
    return values


def _when(when: dict[str, Any]) -> dict[str, Any]:
    for key, wanted in when.items():
        if isinstance(wanted, dict) or wanted in ([], None):
            raise ValueError(f"{key}: {format_value(wanted)} must be a value, or a list of them.")
    return when


Name = Annotated[str, Field(min_length=1)]
Words = list[Annotated[str, AfterValidator(_override)]]
Axis = Annotated[Name, AfterValidator(_axis)]
Value = Annotated[Any, PlainValidator(_value), WithJsonSchema({"type": "number or word"})]
When = Annotated[dict[Name, Any], AfterValidator(_when)]


class Fidelity(Model):
    """An entry of `fidelities`: how its runs differ from the paper's."""

    set: Words = Field(description="overrides (KEY=VALUE) of all its runs")
    at_most: Count = optional("the largest number of seeds, even where more are asked for")
    seconds: Annotated[Number, Field(gt=0)] = optional(
        "estimated seconds of one run on one core, used until a run has been timed"
    )


class Condition(Model):
    """An entry of `conditions`: overrides for some of the runs."""

    when: When = Field(
        description="which runs: arm, control, axes or other options, each with a value or a list of values"
    )
    set: Words = Field(description="overrides of the runs that match all of `when`")


class Limit(Model):
    """An entry of `limits`: cells that have fewer seeds. A cell is an arm, a value of each axis and a control."""

    when: When = Field(
        description="which cells: arm, control, fidelity and axes, each with a value or a list of values"
    )
    at_most: Annotated[int, Field(ge=0)] = Field(
        description="the largest number of seeds of such cells; 0: they have no runs"
    )


class Seeds(Range):
    """An entry of `seeds`: the seeds of some cells, instead of 1 to n. The last entry that matches a cell counts."""

    when: When = Field(description="which cells, as in `limits`; without a fidelity, those of `paper`")


class Experiment(Model):
    """The whole file."""

    title: str = optional("its title on pages; the default is its name")
    base: Words = optional("overrides of all runs; one of them chooses the model")
    arms: Annotated[dict[Name, Words], Field(min_length=1)] = Field(
        description="the settings that are compared: the overrides of each, by name"
    )
    axes: dict[Axis, Annotated[list[Value], Field(min_length=1), AfterValidator(_once)]] = optional(
        "options that vary for all arms: the values of each, by option"
    )
    conditions: list[Condition] = optional("overrides of some of the runs")
    controls: dict[Name, Words] = optional("settings that the paper leaves open: the overrides of each, by name")
    fidelities: Annotated[dict[FidelityName, Fidelity], Field(min_length=1)] = Field(
        description="`paper` (the paper's protocol); `reduced` (the same data, a smaller budget or size); `proxy` "
        "(other data); `smoke` (embedded data, seconds)"
    )
    limits: list[Limit] = optional("cells that have fewer seeds, or none")
    seeds: list[Seeds] = optional("cells that have other seeds than 1 to n")

    @model_validator(mode="after")
    def _places(self) -> Experiment:
        """Refuse values that no run has, of the keys whose values the file itself lists."""
        cells: dict[str, Any] = {"arm": [*self.arms], "control": ["", *(self.controls or ())], **(self.axes or {})}
        planned = {"fidelity": [*self.fidelities], **cells}
        for number, condition in enumerate(self.conditions or ()):
            _check_place(f"conditions[{number}].when", condition.when, cells)
        for number, limit in enumerate(self.limits or ()):
            _check_place(f"limits[{number}].when", limit.when, planned, only=True)
        for number, seeds in enumerate(self.seeds or ()):
            _check_place(f"seeds[{number}].when", seeds.when, planned, only=True)
        return self


def _check_place(where: str, when: Mapping[str, Any], choices: Mapping[str, Any], only: bool = False) -> None:
    for key, wanted in when.items():
        if only and key not in choices:
            raise ValueError(str(unknown(f"{where}: '{key}' is not a key.", key, sorted(choices))))
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if key in choices and value not in choices[key]:
                names = [str(choice) for choice in choices[key] if choice != ""]
                raise ValueError(str(unknown(f"{where}: no {key}={value}.", str(value), names)))


def check(path: Path, node: Mapping[str, Any], config_dir: Path | None) -> None:
    """NormbenchError where the file is no experiment, or a condition asks for a choice that is not there."""
    experiment = validate(Experiment, node, path)
    for number, condition in enumerate(experiment.conditions or ()):
        for key, wanted in condition.when.items():
            if (group := key.removesuffix(".name")) in RUN_GROUPS and group != key:
                for name in wanted if isinstance(wanted, list) else [wanted]:
                    with experiment_file.naming(path, f"conditions[{number}].when"):
                        compose.choice_path(group, str(name), config_dir)
