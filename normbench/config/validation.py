"""Files against pydantic models: a fault is one line with file, key and, for an unknown key, the nearest one.

Imported where a file is validated, for pydantic takes a tenth of a second to load.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import core_schema

from normbench.config import FIDELITIES
from normbench.errors import BadInput, unknown
from normbench.keys import format_value

WANTED = {  # by pydantic's type of an error: what belongs there
    "string_type": "a text",
    "string_too_short": "a text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map of keys",
    "model_type": "a map of keys",
    "model_attributes_type": "a map of keys",
    "too_short": "longer, at least {min_length}",
    "too_long": "shorter, at most {max_length}",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
}
T = TypeVar("T", bound="Model")


class Model(BaseModel):
    """A map of keys, none of them unknown; numbers and texts are taken as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict) and cls.model_config["extra"] == "forbid":
            names = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in names:
                    raise ValueError(str(unknown(f"'{key}' is not a key.", str(key), names)))
        return data


def optional(description: str, **bounds: Any) -> Any:
    """A key that may be left out; null is no value for it."""
    return Field(default=None, description=description, **bounds)


@dataclass(frozen=True)
class OneOf:
    """Of a text: one of these."""

    choices: Sequence[str]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(schema), "enum": [*self.choices]}

    def check(self, value: str) -> str:
        check_names("", [value], self.choices)
        return value


def check_ids(ids: Sequence[str]) -> None:
    """ValueError for an id that is used twice."""
    for name in ids:
        if ids.count(name) > 1:
            raise ValueError(f"id '{name}' is used twice.")


def check_one(node: Model, keys: Sequence[str]) -> None:
    """ValueError unless exactly one of these keys is given."""
    if sum(bool(getattr(node, key)) for key in keys) != 1:
        raise ValueError(f"one of {', '.join(keys)} must be given.")


def check_names(key: str, given: Iterable[str], names: Sequence[str]) -> None:
    """ValueError for a name that is none of these. `key`: where it stands; "" where the error says that already."""
    place = f"{key}: " if key else ""
    for name in given:
        if name not in names:
            raise ValueError(str(unknown(f"{place}{format_value(name)} is not possible.", name, names)))


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{format_value(value)} must be a number (YAML wants 1.0e-2, not 1e-2).")
    return value


Text = Annotated[str, Field(min_length=1)]
Number = Annotated[float, PlainValidator(_number), WithJsonSchema({"type": "number"})]  # a whole one stays as it is
Count = Annotated[int, Field(ge=1)]
FidelityName = Annotated[str, OneOf(FIDELITIES)]


class Range(Model):
    """A range of seeds, such as {from: 6, to: 10}."""

    first: Count = Field(alias="from", description="the first seed")
    last: Count = Field(alias="to", description="the last seed")

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.last < self.first:
            raise ValueError(f"to: {self.last} must be at least {self.first}, as 'from' is.")
        return self


def validate(model: type[T], data: Any, place: object, way_out: str = "", key: str = "") -> T:
    """The data as the model has it. NormbenchError with one line that begins with the place, the name of a file.

    key: under which the data stand there.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    where = _path(first["loc"][:-2] if first["loc"][-1:] == ("[key]",) else first["loc"], data)
    where = ".".join(filter(None, [key, where]))
    raise BadInput(f"{place}: {f'{where}: ' if where else ''}{_fault(first)} {way_out}") from None


def _path(keys: Iterable[str | int], data: Any) -> str:
    """`claims[2] LN-3: parts[0]`; of pydantic's names for the alternatives of a value, which no file has, nothing."""
    text, node = "", data
    for key in keys:
        if isinstance(node, list) and isinstance(key, int) and key < len(node):
            node = node[key]
            name = node.get("id") if isinstance(node, dict) else None
            text += f"[{key}]" + (f" {name}:" if isinstance(name, str) else "")
        elif isinstance(node, dict) and key in node:
            node = node[key]
            text += f"{' ' if text.endswith(':') else '.' if text else ''}{key}"
    return text.removesuffix(":")


def _fault(error: Mapping[str, Any]) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        key = error["loc"][-1]
        return f"{format_value(value)} must be longer." if isinstance(key, int) else f"'{key}' must be given."
    if kind == "union_tag_not_found":
        return f"{context['discriminator']} must be given."
    if kind == "value_error":
        return str(context["error"])
    if kind == "union_tag_invalid":
        key, value = context["discriminator"].strip("'"), context["tag"]
        tags = re.findall("'(.*?)'", context["expected_tags"])
        return str(unknown(f"{key}: {format_value(value)} is not possible.", value, tags))
    if error["loc"][-1:] == ("[key]",):
        return f"{format_value(value)} must be a name; what YAML takes for something else is put in quotes."
    wanted = WANTED[kind].format(**context) if kind in WANTED else f"otherwise: {error['msg']}"
    return f"{format_value(value)} must be {wanted}."
