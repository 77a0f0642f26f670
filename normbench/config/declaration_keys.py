"""What the file of a choice declares: a model's, a normalizer's, a data set's and the others'."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from normbench.core import keys, schema
from normbench.core.keys import NULL, Count, Text, at_least, check_names, longer, one_of
from normbench.errors import BadInput, NormbenchError, did_you_mean
from normbench.norms.sites import AXES, KINDS


def _checksum(value: str) -> str:
    if not re.fullmatch("([0-9a-f]{32}|[0-9a-f]{64})?", value):
        raise ValueError(f"{value!r} must be an md5 or sha256: 32 or 64 of the characters 0-9 and a-f.")
    return value


Whole = Annotated[int, at_least(0)]
Kinds = Annotated[tuple[Annotated[str, one_of(*KINDS)], ...], longer(1)]
Axis = Annotated[str, one_of(*AXES)]
Axes = Annotated[tuple[Axis, ...], longer(1)]
Size = int | str  # a number, or the option that has it
Shape = tuple[Size, ...]
Checksum = Annotated[str, _checksum]
Values = Mapping[str, Any]  # of options, by name
NormalizerSize = Annotated[str, one_of("batch_size", "updates")]


@dataclass(frozen=True, kw_only=True)
class Option:
    """Which values an option may have."""

    type: Annotated[str, one_of(*schema.TYPES)]  # of a list or map that of each value in it
    list_: bool | None = None
    map_: bool | None = None  # from names to values
    optional: bool | None = None  # its map may be empty
    length: Annotated[int, at_least(1)] | None = None  # of its list
    filled: bool | None = None  # its list is not empty
    min: float | None = None
    max: float | None = None
    below: float | None = None
    choices: Annotated[tuple[Size, ...], longer(1)] | None = None
    pattern: Text | None = None  # of the whole text
    hashed: bool | None = None  # whether it is part of the run's id


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The keys of every choice."""

    title: Text
    options: Annotated[Mapping[str, Option] | None, NULL] = None  # the value of each stands beside `name`


@dataclass(frozen=True, kw_only=True)
class Component(Declared):
    """The keys of every choice that is a component of a run."""

    source: str
    maths: Whole  # raised when the same options give other numbers, because it is part of the run's id
    refused: Text | None = None  # why no run can use it


@dataclass(frozen=True, kw_only=True)
class SameAs:
    """The simpler normalizer that one is where a run is small."""

    norm: Text
    at_most: Mapping[NormalizerSize, tuple[Any, ...]]  # the bound, a product of numbers and options


@dataclass(frozen=True, kw_only=True)
class Normalizer(Component):
    """`declares` of a normalizer's file."""

    file: Text | None = None
    like: Text | None = None  # of which it is a preset
    at: Mapping[Text, Values] | None = None  # by the last part of a site's path
    kinds: Kinds  # of sites
    axes: Axes  # that a site may have
    needs: tuple[Axis, ...] | None = None
    layouts: tuple[tuple[Axis, ...], ...] | None = None
    activations: tuple[Text, ...] | None = None
    replaces: Annotated[str, one_of("activation")] | None = None
    groups: Annotated[str | None, NULL] = None  # the option that divides the number of features
    single_batch: Annotated[str | None, NULL] = None  # the option that permits one value per feature
    state: Annotated[Values | None, NULL] = None
    variants: Annotated[Mapping[str, tuple[Any, ...]] | None, NULL] = None
    apart: Mapping[Axis, Values] | None = None
    mode_dependent: Annotated[bool | str | None, NULL] = None
    one_length: bool | None = None
    recentres: bool | None = None
    rescales: bool | None = None
    own_shift: bool | None = None
    pools_steps: bool | None = None  # a statistic of several steps together, without the options of apart.time
    reads_mask: bool | None = None
    detaches: bool | None = None
    same_as: Annotated[SameAs | None, NULL] = None
    approximate: bool | None = None
    measured: Any = None  # in words, for a module that has no YAML file

    def check(self, given: Collection[str]) -> None:
        options = [*(self.options or ())]
        names = {key: getattr(self, key) for key in ("groups", "single_batch", "mode_dependent")}
        for key, name in names.items():
            check_names(key, [name] if isinstance(name, str) and name else (), options)
        bounds = self.same_as.at_most if self.same_as else {}
        places: dict[str, Collection[Any]] = {"state": self.state or (), "variants": self.variants or ()}
        places |= {f"at.{part}": values for part, values in (self.at or {}).items()}
        places |= {f"apart.{axis}": values for axis, values in (self.apart or {}).items()}
        places |= {
            f"same_as.at_most.{size}": [factor for factor in factors if isinstance(factor, str)]
            for size, factors in bounds.items()
        }
        for key, values in places.items():
            check_names(key, values, options)


@dataclass(frozen=True, kw_only=True)
class Site:
    """A place in a model that can be normalized."""

    kinds: Kinds
    axes: Axes  # in their order
    features: Size | None = None
    times: Size | None = None
    over: Size | None = None
    each: Text | None = None
    count: Text | None = None
    only: Mapping[Text, tuple[Any, ...]] | None = None
    space: Any = None
    bias: Annotated[str, one_of("drop", "keep")] | None = None
    mask: bool | None = None
    activation: Text | None = None
    causal: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer for the report, at the default sizes and without normalization; shapes are without the batch."""

    layer: Text
    kind: Text
    input: Shape
    output: Shape
    parameters: Whole
    site: str  # empty: none


@dataclass(frozen=True, kw_only=True)
class Network(Component):
    """`model.declares` of a model's file."""

    file: Text | None = None
    sites: Mapping[Text, Site]  # by path
    default_sites: tuple[Text, ...]
    outer: tuple[Text, ...] | None = None
    metrics: tuple[Text, ...] | None = None
    shares: tuple[Text, ...] | None = None
    rising: tuple[Text, ...] | None = None
    units: Mapping[Text, Text] | None = None  # by metric
    reads: Shape | None = None  # as `shape` of the data; without it vectors
    layers: tuple[Layer, ...] | None = None
    initial: Mapping[Text, Mapping[Text, Any]] | None = None
    probe: bool | None = None

    def check(self, given: Collection[str]) -> None:
        for key in ("shares", "rising", "units"):
            check_names(key, getattr(self, key) or (), self.metrics or ())


@dataclass(frozen=True, kw_only=True)
class TrainSize:
    """The number of training examples: `of` minus these options, times another one."""

    of: Whole
    less: tuple[Text, ...]
    times: Text | None = None


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Files that can be fetched, with the sum of each, from the first of these addresses that has them."""

    from_: tuple[Text, ...]
    files: Mapping[Text, Checksum]


@dataclass(frozen=True, kw_only=True)
class Data(Declared):
    """`declares` of a data set's file."""

    source: str
    maths: Whole | None = None  # must be given without `like`
    refused: Text | None = None
    file: Text | None = None
    like: Text | None = None
    format: Text | None = None
    classes: Count | None = None
    features: Count | None = None
    shape: Shape | None = None
    sizes: Mapping[str, Count] | None = None
    train_size: TrainSize | None = None
    files: Mapping[Text, Checksum | None] | None = None
    fetch: Fetch | None = None
    sha256: Text | None = None
    copy: Text | None = None
    batches: Mapping[Text, Checksum] | None = None
    megabytes: float | None = None
    terms: Text | None = None
    remark: Text | None = None
    bring: Text | None = None
    folders: Mapping[Text, Text] | None = None
    parts: tuple[Text, ...] | None = None
    files_of: Text | None = None
    tasks: tuple[Text, ...] | None = None
    captions: Count | None = None
    symbols: Count | None = None
    alphabet: Text | None = None
    lists: Mapping[Text, tuple[Text, ...]] | None = None
    rest: Text | None = None
    split: Mapping[Text, int] | None = None
    seed: int | None = None

    def check(self, given: Collection[str]) -> None:
        needed = ["files"] if self.like else ["maths"] if self.refused else ["maths", "train_size"]
        for key in needed:
            if key not in given:
                raise ValueError(f"'{key}' must be given.")
        if self.like and self.file:
            raise ValueError("'like' and 'file' both say how it is read: leave one out.")


@dataclass(frozen=True, kw_only=True)
class Optimizer(Component):
    """`declares` of an optimizer's file."""

    class_: Text | None = None  # of torch.optim
    fused: bool | None = None
    matrices: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Schedule(Component):
    """`declares` of a schedule's file."""

    class_: Text | None = None  # of torch.optim.lr_scheduler
    rate: Text | None = None
    ends: Text | None = None


@dataclass(frozen=True, kw_only=True)
class NormalizerFile:
    """A normalizer's file; beside these it has a value for each of its options."""

    name: Text
    sites: Any
    preceding_bias: Annotated[str, one_of("site", "keep", "drop")]
    declares: Normalizer


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model's file; beside these it may have options of its choices by group, such as `optim`."""

    model: Values  # `name`, `declares`, and a value for each option
    train: Values | None = None
    monitor: Values | None = None
    eval: Values | None = None


KINDS_OF_CHOICES: Mapping[str, type[Declared]] = {
    "model": Network, "data": Data, "optim": Optimizer, "schedule": Schedule, "clip": Component,
    "launcher": Declared, "logger": Declared,
}  # fmt: skip


def check(group: str, path: Path, node: Mapping[str, Any]) -> None:
    """NormbenchError where a choice's file declares something else than its group takes."""
    if group == "norm":
        _check_normalizer(path, node)
        return
    if group == "model" and group in node:
        keys.load(ModelFile, {key: node[key] for key in ModelFile.__annotations__ if key in node}, path)
    inner = node.get(group, node)
    if not isinstance(inner, dict) or "declares" not in inner:
        raise BadInput(f"{path}: 'declares' must be given.")
    keys.load(KINDS_OF_CHOICES[group], inner["declares"], path, key="declares")


def _check_normalizer(path: Path, node: Mapping[str, Any]) -> None:
    of_file = {key: value for key, value in node.items() if key in NormalizerFile.__annotations__}
    keys.load(NormalizerFile, of_file, path)
    values = {key: value for key, value in node.items() if key not in of_file}
    options = node["declares"].get("options") or {}
    for key in values:
        if key not in options:
            raise BadInput(
                f"{path}: norm.{key} is not an option: declares.options has no line for it.{did_you_mean(key, options)}"
            )
    later = {key for key, value in values.items() if value is None}  # a command gives it one
    specs = {key: spec for key, spec in options.items() if key not in later}
    try:
        schema.check_options("norm", values, specs, later)
    except NormbenchError as error:
        raise BadInput(f"{path}: {error}") from None
