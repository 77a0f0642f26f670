"""An experiment as its file has it: `conf/experiment/PAPER/NAME.yaml`, or one below `--config-dir`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from normbench.config import FIDELITIES, compose, grammar
from normbench.config.grammar import Override
from normbench.core import keys
from normbench.core.keys import Count, Range, Text, above, at_least, format_value, longer, one_of
from normbench.errors import BadInput, NormbenchError, unknown
from normbench.files.stored import LABELS, RUN_GROUPS

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
    if (parsed := grammar.parse([f"axis={value}"])[0].value()) != value:
        raise ValueError(f"{format_value(value)} is read as {format_value(parsed)}. Write it as it is read.")
    return value


def _once(values: Sequence[Any]) -> Sequence[Any]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{format_value(value)} stands there twice.")
    return values


def _when(when: Mapping[str, Any]) -> Mapping[str, Any]:
    for key, wanted in when.items():
        if isinstance(wanted, dict) or wanted in ([], None):
            raise ValueError(f"{key}: {format_value(wanted)} must be a value, or a list of them.")
    return when


Words = tuple[Annotated[str, _override], ...]
Axis = Annotated[Text, _axis]
Values = Annotated[tuple[Annotated[Any, _value], ...], longer(1), _once]
When = Annotated[Mapping[Text, Any], _when]
FidelityName = Annotated[str, one_of(*FIDELITIES)]


@dataclass(frozen=True)
class Fidelity:
    """How the runs of a fidelity differ from the paper's."""

    set: Words
    at_most: Count | None = None  # seeds, even where more are asked for
    seconds: Annotated[float, above(0)] | None = None  # of one run on one core, used until a run has been timed


@dataclass(frozen=True)
class Condition:
    """Overrides of the runs that match all of `when`: arm, control, axes or other options."""

    when: When
    set: Words


@dataclass(frozen=True)
class Limit:
    """Cells that have fewer seeds, 0 for none. A cell is an arm, a value of each axis and a control."""

    when: When
    at_most: Annotated[int, at_least(0)]


@dataclass(frozen=True)
class Seeds(Range):
    """The seeds of some cells, in place of 1 to n. The last entry that matches a cell counts."""

    when: When  # without a fidelity of `paper`


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The whole file."""

    title: str = ""  # in a file without it the experiment's name
    base: Words = ()
    arms: Annotated[Mapping[Text, Words], longer(1)]
    axes: Mapping[Axis, Values] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    controls: Mapping[Text, Words] = field(default_factory=dict)
    fidelities: Annotated[Mapping[FidelityName, Fidelity], longer(1)]
    limits: tuple[Limit, ...] = ()
    seeds: tuple[Seeds, ...] = ()

    def check(self, given: Collection[str]) -> None:
        """Refuse places that no run has, of the keys whose values the file itself lists."""
        cells: dict[str, Collection[Any]] = {"arm": self.arms, "control": ["", *self.controls], **self.axes}
        planned = {"fidelity": self.fidelities, **cells}
        for number, condition in enumerate(self.conditions):
            _check_place(f"conditions[{number}].when", condition.when, cells)
        for key in ("limits", "seeds"):
            for number, rule in enumerate(getattr(self, key)):
                place = f"{key}[{number}].when"
                if other := next((axis for axis in rule.when if axis not in planned), None):
                    raise ValueError(unknown(f"{place}: '{other}' is not a key.", other, sorted(planned)))
                _check_place(place, rule.when, planned)


def _check_place(place: str, when: Mapping[str, Any], choices: Mapping[str, Collection[Any]]) -> None:
    for key, wanted in when.items():
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if key in choices and value not in choices[key]:
                names = [str(choice) for choice in choices[key] if choice != ""]
                raise ValueError(unknown(f"{place}: no {key}={value}.", str(value), names))


@cache
def load(name: str, config_dir: Path | None = None) -> Experiment:
    """NormbenchError where the file is no experiment, or a condition asks for a choice that does not exist."""
    path = compose.choice_path("experiment", name, config_dir)
    experiment = keys.load(Experiment, compose.choice("experiment", name, config_dir), path)
    for number, condition in enumerate(experiment.conditions):
        for key, wanted in condition.when.items():
            group = key.removesuffix(".name")
            if group == key or group not in RUN_GROUPS:
                continue
            for choice in wanted if isinstance(wanted, list) else [wanted]:
                with naming(path, f"conditions[{number}].when"):
                    compose.choice_path(group, str(choice), config_dir)
    return replace(experiment, title=experiment.title or name)


@contextmanager
def naming(path: Path, place: str) -> Iterator[None]:
    """What is wrong with an experiment's words comes with its file and place."""
    try:
        yield
    except NormbenchError as error:
        line = str(error) if str(error).startswith(f"{path}: ") else f"{path}: {place}: {error}"
        raise type(error)(line) from None


def parse(path: Path, key: str, words: Sequence[str]) -> list[Override]:
    """The words of a place in the file, each with one value."""
    with naming(path, key):
        parsed = grammar.parse(words)
    for override in parsed:
        if override.is_sweep_override():
            raise BadInput(
                f"{path}: {key}: '{override.input_line}' has several values. An axis has, or an arm for each; "
                "a list is KEY=[a,b]."
            )
    return parsed
