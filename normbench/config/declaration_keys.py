"""The keys of a choice's file: what models, normalizers, data sets and the others declare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from normbench import schema
from normbench.config.validation import Count, Model, Number, OneOf, Text, check_names, optional, validate
from normbench.errors import NormbenchError, did_you_mean
from normbench.norms.sites import AXES, KINDS


def _size(value: Any) -> Any:
    if type(value) is not int and not isinstance(value, str):
        raise ValueError(f"{value!r} must be a whole number, or the option that has it.")
    return value


def _checksum(value: str) -> str:
    if not re.fullmatch("([0-9a-f]{32}|[0-9a-f]{64})?", value):
        raise ValueError(f"{value!r} must be an md5 or sha256: 32 or 64 of the characters 0-9 and a-f.")
    return value


Kinds = Annotated[list[Annotated[str, OneOf(KINDS)]], Field(min_length=1)]
Axis = Annotated[str, OneOf(AXES)]
Axes = Annotated[list[Axis], Field(min_length=1)]
Size = Annotated[Any, PlainValidator(_size), WithJsonSchema({"type": "number or option"})]
Shape = list[Size]
Checksum = Annotated[str, AfterValidator(_checksum), WithJsonSchema({"type": "string"})]


class Option(Model):
    """A line of `declares.options`: what an option may be."""

    type: Annotated[str, OneOf(tuple(schema.TYPES))] = Field(description="of its value, or of each of its values")
    is_list: bool = optional("true: it has a list of values", alias="list")
    is_map: bool = optional("true: it has a map of names to values", alias="map")
    may_be_empty: bool = optional("true: a map may be empty", alias="optional")
    length: Annotated[int, Field(ge=0)] = optional("how many values a list has; 0: it is retired")
    filled: bool = optional("true: a list has at least one value")
    min: Number = optional("the least value")
    max: Number = optional("the largest one")
    below: Number = optional("what it does not reach")
    choices: Annotated[list[Size], Field(min_length=1)] = optional("the values that it may have")
    pattern: Text = optional("a regular expression for all of a text")
    hashed: bool = optional("false: it leaves training as it is, and is not part of the run's id")
    legacy_default: Any = optional(
        "of an option that came after runs had been published: with it a run is what it was without the option, with "
        "the same id"
    )


class Declared(Model):
    """What every choice declares."""

    title: Text = Field(description="what lists and pages call it")
    options: dict[str, Option] | None = optional("by name, what an option may be; its value stands beside `name`")


class Component(Declared):
    """What every component of a run declares."""

    source: str = Field(description="where it comes from")
    maths: Annotated[int, Field(ge=0)] = Field(
        description="raised when it computes something else; part of the run's id"
    )
    refused: Text = optional("why no run can have it")


class Coded(Component):
    """What a component declares that may be of one's own: its code is here, or in a file."""

    file: Text = optional("the Python file with its code, from here")


class Normalizer(Coded):
    """`declares` of `conf/norm/NAME.yaml`, or of `norm/NAME.yaml` in `--config-dir`."""

    kinds: Kinds = Field(description="kinds of sites that it serves")
    axes: Axes = Field(description="axes that a site may have")
    needs: list[Axis] = optional("axes that a site must have")
    layouts: list[list[Axis]] = optional("the axes in their order, where not every order will do")
    activations: list[Text] = optional("non-linearities that it knows, if it is one of blocks")
    groups: str | None = optional("the option that must divide the features")
    single_batch: str | None = optional("the option that permits one value per feature")
    state: dict[str, Any] | None = optional("options, with their values, without which it cannot stand in a time loop")
    variants: dict[str, list[Any]] | None = optional("options that an evaluation may set otherwise, with their values")
    apart: dict[Axis, dict[str, Any]] = optional("by axis, the options with which each position is normalized alone")
    mode_dependent: Annotated[Any, WithJsonSchema({"type": "true, false or option"})] = optional(
        "whether training and evaluation compute different functions, or the option that makes it so"
    )
    one_length: bool = optional("true: its statistics take sequences of one length, as a mask's are not")
    recentres: bool = optional("a shift on all data changes nothing")
    rescales: bool = optional("a positive factor on all data changes nothing")
    own_shift: bool = optional("false: it brings no shift in the place of the preceding bias")
    reads_mask: bool = optional("it leaves padding out")
    detaches: bool = optional("something takes no part in the gradient on purpose")
    approximate: bool = optional("its gradient is not that of its forward pass")
    measured: Any = optional("what was found by trying, in words")

    @model_validator(mode="after")
    def _of_options(self) -> Normalizer:
        names = [*(self.options or ())]
        mode = self.mode_dependent
        if mode is not None and not isinstance(mode, bool | str):
            raise ValueError(f"mode_dependent: {mode!r} must be true, false or the name of an option.")
        for key, given in (
            ("groups", [self.groups] if self.groups else ()),
            ("single_batch", [self.single_batch] if self.single_batch else ()),
            ("mode_dependent", [mode] if isinstance(mode, str) else ()),
            ("state", self.state or ()),
            ("variants", self.variants or ()),
            *((f"apart.{axis}", options) for axis, options in (self.apart or {}).items()),
        ):
            check_names(key, given, names)
        return self


class Site(Model):
    """An entry of `declares.sites`: a place in a model that can be normalized."""

    kinds: Kinds = Field(description="what can be normalized there")
    axes: Axes = Field(description="of its tensor, in their order")
    features: Size = optional("the size of the feature axis")
    times: Size = optional("a factor on it, such as 4 for four gates")
    each: Text = optional("the option with a list of sizes: a site for each, in the place of `features`")
    space: Annotated[Any, WithJsonSchema({"type": "list of numbers or option"})] = optional("sizes of the space axes")
    bias: Annotated[str, OneOf(("drop", "keep"))] = optional(
        "whether the preceding linear map drops its bias once the site is normalized"
    )
    mask: bool = optional("true: the model passes a mask of valid positions")
    activation: Text = optional("the option with the non-linearity, of a block")


class Layer(Model):
    """An entry of `declares.layers`: a layer at the default sizes, without normalization."""

    layer: Text = Field(description="its name")
    kind: Text = Field(description="in words")
    input: Shape = Field(description="its shape")
    output: Shape = Field(description="its shape")
    parameters: Annotated[int, Field(ge=0)] = Field(description="how many there are")
    site: str = Field(description="at which it is normalized; empty: at none")


class Network(Coded):
    """`model.declares` of `conf/model/NAME.yaml`."""

    sites: dict[Text, Site] = Field(description="places that can be normalized, by path")
    default_sites: list[Text] = Field(description="patterns of those that are, where nothing else is chosen")
    metrics: list[Text] = optional("what an evaluation gives, the one that is drawn first")
    shares: list[Text] = optional("metrics that are shares, shown in percent")
    rising: list[Text] = optional("metrics of which more is better")
    reads: Shape = optional("the shape of the inputs, as its data declare it; without one, vectors")
    layers: list[Layer] = optional("for the report")
    initial: dict[Text, dict[Text, Any]] = optional("by scheme of initialisation and parameter, how it is drawn")
    probe: bool = optional("true: it is examined instead of trained")

    @model_validator(mode="after")
    def _of_metrics(self) -> Network:
        for key in ("shares", "rising"):
            check_names(key, getattr(self, key) or (), self.metrics or ())
        return self


class TrainSize(Model):
    """`declares.train_size`: how many training examples there are."""

    of: Annotated[int, Field(ge=0)] = Field(description="so many")
    less: list[Text] = Field(description="less the values of these options")
    times: Text = optional("times the value of this one")


class Data(Coded):
    """`declares` of `conf/data/NAME.yaml`, or of `data/NAME.yaml` in `--config-dir`, beside `name` and a value for each
    option."""

    maths: Annotated[int, Field(ge=0)] = optional("as of every component; of a set in a shipped format that one's")
    like: Text = optional("a shipped set: this one is of its format, and has what it does not declare itself")
    format: Text = optional("the files, where others may be in this format")
    classes: Count = optional("how many classes there are")
    features: Count = optional("the length of an input")
    shape: Shape = optional("of inputs that are no vectors")
    sizes: dict[str, Count] = optional("examples by split")
    train_size: TrainSize = optional("training examples; needed where models read the set")
    files: dict[Text, Checksum | None] = optional("below NORMBENCH_DATA, with md5 or sha256")
    content: dict[Text, Checksum] = optional("sha256 of each file, unpacked")
    sources: dict[Text, Any] = optional("mirrors and files that are brought, with sha256")
    sha256: Text = optional("of an embedded set")
    copy_sha256: Text = optional("of a copy in another order that is as good", alias="copy")
    megabytes: Number = optional("of what is brought")
    mirrors: list[Text] = optional("addresses to which the files' names are added")
    terms: Text = optional("of use")
    remark: Text = optional("what lists say of it")
    bring: Text = optional("what its users bring themselves")
    supplied: dict[Text, Text] = optional("files that its users bring, and what they are")
    folders: dict[Text, Text] = optional("folders of files, with the end of their names")
    archive: dict[Text, Text] = optional("what its users download: name, and `of` where")
    parts: list[Text] = optional("splits that a copy of the hub has")
    files_of: Text = optional("another set, whose files this one is made of")
    tasks: list[Text] = optional("sets of downstream tasks")
    captions: Count = optional("of each image")
    symbols: Count = optional("of the text along lines of writing")
    alphabet: Text = optional("these symbols")
    lists: dict[Text, list[Text]] = optional("files that name the members of each split")
    rest: Text = optional("the split of what no list names")
    split: dict[Text, int] = optional("without the lists: how many lines to test, by which seed")
    seed: int = optional("of what is made")

    @model_validator(mode="after")
    def _whole(self) -> Data:
        if self.like is None and self.maths is None:
            raise ValueError("'maths' must be given.")
        if self.like is not None and self.files is None:
            raise ValueError("'files' must be given, each with its md5 or sha256 or nothing.")
        if self.like is not None and self.file is not None:
            raise ValueError("'like' and 'file' both say how it is read: leave one out.")
        if self.like is None and self.train_size is None and self.refused is None:
            raise ValueError("'train_size' must be given.")
        return self


class Optimizer(Component):
    """`declares` of `conf/optim/NAME.yaml`."""

    class_: Text = optional("of torch", alias="class")
    fused: bool = optional("true: torch has a kernel for the whole step")


class Schedule(Component):
    """`declares` of `conf/schedule/NAME.yaml`."""

    class_: Text = optional("of torch", alias="class")
    rate: Text = optional("the argument that takes the optimizer's rate")
    ends: Text = optional("the option that must be the number of updates")


class NormalizerFile(Model):
    """`conf/norm/NAME.yaml`, or `norm/NAME.yaml` in `--config-dir`: these, and a value for each of its options."""

    model_config = ConfigDict(extra="allow")

    name: Text = Field(description="as its file is called")
    sites: Any = Field(description="null: the model's default sites; a list of patterns; or a map from them to options")
    preceding_bias: Annotated[str, OneOf(("site", "keep", "drop"))] = Field(
        description="`site`: as the site has it; or what the preceding linear map does with its bias"
    )
    declares: Normalizer = Field(description="its facts")

    @model_validator(mode="after")
    def _values(self) -> NormalizerFile:
        options, given = self.declares.options or {}, self.model_extra or {}
        for key in given:
            if key not in options:
                hint = did_you_mean(key, options)
                raise ValueError(f"norm.{key} is not an option: declares.options has no line for it.{hint}")
        for key, option in options.items():
            if key not in given:
                raise ValueError(f"norm.{key} is declared but has no value: write {key}: VALUE beside name.")
            if given[key] is not None:  # what has no value of its own yet is given one by a command
                try:
                    schema.check(f"norm.{key}", given[key], option.model_dump(exclude_unset=True, by_alias=True))
                except NormbenchError as error:
                    raise ValueError(str(error)) from None
        return self


class ModelFile(Model):
    """`model/NAME.yaml` in `--config-dir`: these, and options of its choices by group, such as `optim`."""

    model_config = ConfigDict(extra="allow")

    model: dict[str, Any] = Field(description="`name`, as its file is called, `declares`, and a value for each option")
    defaults: list[Any] = optional("its choices, such as `/data: digits` and `/optim: adam`, then `_self_`")
    train: dict[str, Any] = optional("`batch_size`, `epochs` or `steps`, and other options of `train`")
    monitor: dict[str, Any] = optional(
        "`metric` (nll, or the first of `metrics` that is not rising), `split` (valid), `goal` (min)"
    )
    eval: dict[str, Any] = optional("when and how it is evaluated: options of `eval`")


KINDS_OF_CHOICES: Mapping[str, type[Declared]] = {
    "model": Network, "data": Data, "optim": Optimizer, "schedule": Schedule, "clip": Component,
    "launcher": Declared, "logger": Declared,
}  # fmt: skip


def check(group: str, path: Path, node: Mapping[str, Any]) -> None:
    """NormbenchError where a choice's file declares something else than its group takes."""
    if group == "norm":
        validate(NormalizerFile, node, path)
        return
    if group == "model" and group in node:
        validate(ModelFile, node, path)
    inner = node.get(group, node)
    if not isinstance(inner, dict) or "declares" not in inner:
        raise NormbenchError(f"{path}: 'declares' must be given.")
    validate(KINDS_OF_CHOICES[group], inner["declares"], path, key="declares")
