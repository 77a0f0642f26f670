"""The keys of a choice's file: what models, normalizers, data sets and the others declare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from normbench import schema
from normbench.config.validation import Count, Model, Number, OneOf, Text, check_names, optional, validate
from normbench.errors import BadInput, NormbenchError, did_you_mean
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
    """A line of `declares.options`: which values an option may have."""

    type: Annotated[str, OneOf(tuple(schema.TYPES))] = Field(
        description="the type of its value; of a list or map, the type of each value in it"
    )
    is_list: bool = optional("true: its value is a list", alias="list")
    is_map: bool = optional("true: its value is a map from names to values", alias="map")
    may_be_empty: bool = optional("true: its map may be empty", alias="optional")
    length: Annotated[int, Field(ge=0)] = optional("the length of its list; 0: the option is retired")
    filled: bool = optional("true: its list has at least one value")
    min: Number = optional("the smallest value")
    max: Number = optional("the largest value")
    below: Number = optional("every value is smaller than this")
    choices: Annotated[list[Size], Field(min_length=1)] = optional("all possible values")
    pattern: Text = optional("a regular expression that matches the whole text")
    hashed: bool = optional("false: the option does not change training and is not part of the run's id")
    legacy_default: Any = optional(
        "for an option that was added after runs had been published: the value at which a run is the same"
        " as before, and has the same id"
    )


class Declared(Model):
    """The keys of every choice."""

    title: Text = Field(description="its title in lists and on pages")
    options: dict[str, Option] | None = optional(
        "its options by name, and which values each may have; the value of each stands beside `name`"
    )


class Component(Declared):
    """The keys of every choice that is a component of a run."""

    source: str = Field(description="where it comes from, such as a paper and section")
    maths: Annotated[int, Field(ge=0)] = Field(
        description="the number of its version; raise it when the same options give other numbers. It is part of the "
        "run's id"
    )
    refused: Text = optional("why no run can use it")


class Coded(Component):
    """The keys of a component whose code may lie beside its YAML file."""

    file: Text = optional("the path of the Python file with its code, relative to this file")


class SameAs(Model):
    """`same_as` of a normalizer's file."""

    norm: Text = Field(description="what it is then")
    at_most: dict[Annotated[str, OneOf(("batch_size", "updates"))], list[Any]] = Field(
        description="by a size of the run: the bound up to which that holds, the product of numbers and options"
    )


class Normalizer(Coded):
    """`declares` of a normalizer's file."""

    like: Text = optional("the name of the normalizer of which it is a preset; a key that it has not is as there")
    at: dict[Text, dict[str, Any]] = optional(
        "by the last part of a site's path: options, with the values that they have there"
    )
    kinds: Kinds = Field(description="the kinds of sites at which it can be used")
    axes: Axes = Field(description="the axes that a site may have")
    needs: list[Axis] = optional("the axes that a site must have")
    layouts: list[list[Axis]] = optional("the possible orders of the axes; without it, any order")
    activations: list[Text] = optional("the non-linearities that it supports, for a normalizer of kind `block`")
    replaces: Annotated[str, OneOf(("activation",))] = optional(
        "`activation`: it brings a non-linearity of its own, which takes the place of the model's"
    )
    groups: str | None = optional("the option whose value must divide the number of features")
    single_batch: str | None = optional("the option that permits a batch with one value per feature")
    state: dict[str, Any] | None = optional(
        "options, with their values, that it must have to be used at a recurrent state"
    )
    variants: dict[str, list[Any]] | None = optional(
        "options that an evaluation may set to other values, with all their values"
    )
    apart: dict[Axis, dict[str, Any]] = optional(
        "by axis: the options, with their values, at which each position of this axis is normalized by "
        "statistics of its own"
    )
    mode_dependent: Annotated[Any, WithJsonSchema({"type": "true, false or option"})] = optional(
        "true: training and evaluation compute different functions; or the option that decides it"
    )
    one_length: bool = optional("true: it takes sequences of one length alone, none with a mask")
    recentres: bool = optional("true: the output stays the same when a number is added to all data")
    rescales: bool = optional("true: the output stays the same when all data are multiplied by a positive number")
    own_shift: bool = optional("false: it has no learned bias that replaces the preceding layer's")
    reads_mask: bool = optional("true: its statistics leave padding out")
    detaches: bool = optional("true: on purpose, some of its terms have no gradient")
    same_as: SameAs | None = optional("the simpler normalizer that it is in training where a run is small")
    approximate: bool = optional("true: its gradient is not exactly that of its forward pass")
    measured: Any = optional("results of trying it, in words; written for a module that has no YAML file")

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
            *(
                (f"same_as.at_most.{size}", [factor for factor in factors if isinstance(factor, str)])
                for size, factors in (self.same_as.at_most if self.same_as else {}).items()
            ),
            *((f"at.{part}", options) for part, options in (self.at or {}).items()),
            *((f"apart.{axis}", options) for axis, options in (self.apart or {}).items()),
        ):
            check_names(key, given, names)
        return self


class Site(Model):
    """An entry of `declares.sites`: a place in a model that can be normalized."""

    kinds: Kinds = Field(description="what can be normalized there")
    axes: Axes = Field(description="the axes of its tensor, in their order")
    features: Size = optional("the size of the feature axis, or the option that has it")
    times: Size = optional("a factor of that size, such as 4 for the four gates of an LSTM")
    each: Text = optional("instead of `features`: the option with a list of sizes; there is a site for each")
    space: Annotated[Any, WithJsonSchema({"type": "list of numbers or option"})] = optional(
        "the sizes of the space axes, or the option that has them"
    )
    bias: Annotated[str, OneOf(("drop", "keep"))] = optional(
        "`drop`: the linear layer before it has no bias once the site is normalized by a normalizer that "
        "takes the mean away; `keep`: it keeps its bias"
    )
    mask: bool = optional("true: the model passes a mask of the valid positions")
    activation: Text = optional(
        "the non-linearity, or the option with it: for kind `block`, and for normalizers with `replaces`"
    )


class Layer(Model):
    """An entry of `declares.layers`, for the report: a layer at the default sizes, without normalization."""

    layer: Text = Field(description="the name of the layer")
    kind: Text = Field(description="the kind of layer, in words")
    input: Shape = Field(description="the shape of its input, without the batch")
    output: Shape = Field(description="the shape of its output, without the batch")
    parameters: Annotated[int, Field(ge=0)] = Field(description="the number of its parameters")
    site: str = Field(description="the site at which it is normalized; empty: none")


class Network(Coded):
    """`model.declares` of a model's file."""

    sites: dict[Text, Site] = Field(description="the places that can be normalized, by path")
    default_sites: list[Text] = Field(
        description="patterns of the sites that are normalized unless `norm.sites` says otherwise"
    )
    outer: list[Text] = optional(
        "patterns of the parameters of its first and last layers, embeddings apart: `optim=muon` leaves them to AdamW"
    )
    metrics: list[Text] = optional(
        "names of the metrics that `evaluate` returns; the first is shown and plotted by default"
    )
    shares: list[Text] = optional("the metrics that are rates between 0 and 1, shown in percent")
    rising: list[Text] = optional("the metrics of which a higher value is better")
    reads: Shape = optional("the shape of the inputs, as `shape` of the data declares it; without it, vectors")
    layers: list[Layer] = optional("the table of layers in the report")
    initial: dict[Text, dict[Text, Any]] = optional("by value of `init` and pattern of parameters: how these are drawn")
    probe: bool = optional("true: it is a probe, which computes numbers and is not trained")

    @model_validator(mode="after")
    def _of_metrics(self) -> Network:
        for key in ("shares", "rising"):
            check_names(key, getattr(self, key) or (), self.metrics or ())
        return self


class TrainSize(Model):
    """`declares.train_size`: the number of training examples."""

    of: Annotated[int, Field(ge=0)] = Field(description="this number of examples")
    less: list[Text] = Field(description="minus the values of these options, such as the size of the valid split")
    times: Text = optional("multiplied by the value of this option")


class Data(Coded):
    """`declares` of a data set's file, beside `name` and a value for each option."""

    maths: Annotated[int, Field(ge=0)] = optional(
        "as for every component; a set with `like` has that of the shipped set"
    )
    like: Text = optional("the name of a shipped set in the same file format; its keys count where this set has none")
    format: Text = optional("a description of the files, for a set that others may name in `like`")
    classes: Count = optional("the number of classes")
    features: Count = optional("the number of features of an input that is a vector")
    shape: Shape = optional("the shape of an input that is no vector")
    sizes: dict[str, Count] = optional("the number of examples in each split")
    train_size: TrainSize = optional("the number of training examples; must be given if models train on the set")
    files: dict[Text, Checksum | None] = optional(
        "the files below NORMBENCH_DATA, each with its md5 or sha256, or nothing; a change of a file that"
        " is not named is not noticed"
    )
    content: dict[Text, Checksum] = optional("the sha256 of each file's unpacked content")
    sources: dict[Text, Any] = optional("for `normbench data get`: mirrors and files to download, with their sha256")
    sha256: Text = optional("the sha256 of an embedded set")
    copy_sha256: Text = optional("the sha256 of a copy that has the same examples in another order", alias="copy")
    megabytes: Number = optional("the size of the download, in megabytes")
    mirrors: list[Text] = optional("addresses; the name of a file is added to each")
    terms: Text = optional("the terms of use")
    remark: Text = optional("a remark that lists show")
    bring: Text = optional("the files that users have to bring, in words")
    supplied: dict[Text, Text] = optional("the files that users have to bring, each with a description")
    folders: dict[Text, Text] = optional("folders of files, each with the ending of the files' names")
    archive: dict[Text, Text] = optional(
        "the archive that users have to download: its `name`, and the address under `of`"
    )
    parts: list[Text] = optional("the splits that a copy from the Hugging Face hub has")
    files_of: Text = optional("the data set from whose files this one is made")
    tasks: list[Text] = optional("the data sets of downstream tasks")
    captions: Count = optional("the number of captions of each image")
    symbols: Count = optional("the number of different symbols in a text that belongs to a line of writing")
    alphabet: Text = optional("the symbols themselves, in the order of their numbers")
    lists: dict[Text, list[Text]] = optional("by split: the files that list its members")
    rest: Text = optional("the split of all members that no list names")
    split: dict[Text, int] = optional("without the lists: how many lines are for test, and the seed that draws them")
    seed: int = optional("the seed of a set that is generated")

    @model_validator(mode="after")
    def _whole(self) -> Data:
        faults = {
            "'maths' must be given.": self.like is None and self.maths is None,
            "'files' must be given, each with its md5 or sha256 or nothing.": (
                self.like is not None and self.files is None
            ),
            "'like' and 'file' both say how it is read: leave one out.": (
                self.like is not None and self.file is not None
            ),
            "'train_size' must be given.": self.like is None and self.train_size is None and self.refused is None,
        }
        for fault, is_so in faults.items():
            if is_so:
                raise ValueError(fault)
        return self


class Optimizer(Component):
    """`declares` of an optimizer's file."""

    class_: Text = optional("the class of `torch.optim`", alias="class")
    fused: bool = optional("true: torch has a kernel for the whole update")
    matrices: bool = optional("true: the matrices of hidden layers are groups of their own")


class Schedule(Component):
    """`declares` of a schedule's file."""

    class_: Text = optional("the class of `torch.optim.lr_scheduler`", alias="class")
    rate: Text = optional("the argument to which the optimizer's learning rate is passed")
    ends: Text = optional("the option that must be the number of updates")


class NormalizerFile(Model):
    """A normalizer's whole file: these keys, and a value for each of its options."""

    model_config = ConfigDict(extra="allow")

    name: Text = Field(description="the name of the file, without .yaml")
    sites: Any = Field(
        description="null: the model's default sites; else a list of patterns, or a map from patterns to options. A "
        "pattern that ends in `.weight` is of the layer's weight"
    )
    preceding_bias: Annotated[str, OneOf(("site", "keep", "drop"))] = Field(
        description="keep or drop the bias of the linear layer before it; `site`: as the model declares"
    )
    declares: Normalizer = Field(description="the facts about it")

    @model_validator(mode="after")
    def _values(self) -> NormalizerFile:
        options, given = self.declares.options or {}, self.model_extra or {}
        for key in given:
            if key not in options:
                hint = did_you_mean(key, options)
                raise ValueError(f"norm.{key} is not an option: declares.options has no line for it.{hint}")
        later = {key for key, value in given.items() if value is None}  # a command gives it one
        specs = {key: o.model_dump(exclude_unset=True, by_alias=True) for key, o in options.items() if key not in later}
        try:
            schema.check_options("norm", given, specs, later)
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
        raise BadInput(f"{path}: 'declares' must be given.")
    validate(KINDS_OF_CHOICES[group], inner["declares"], path, key="declares")
