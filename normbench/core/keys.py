"""Files that people write, read into frozen dataclasses: the fields of a class are the keys of a map in the file.

A field's type says what belongs there: str, bool, int, float (a whole number stays whole), a dataclass, Mapping[K, V],
tuple[X, ...] or tuple[X, Y] of a list, Literal, Any; of A | B the first that fits. In `Annotated[X, f]`, f returns the
value, or refuses it by ValueError; with `Before(f)`, X is read from what f makes of the file's value.

A field without a default must be given. One with the default None may be left out, but null is no value for it unless
it is `Annotated[X | None, NULL]`. `of` and `hidden` make fields that are not keys of every map. A last _ of a name is
not part of the key: `from_`. A method `check(given)` refuses keys that contradict each other; given: the file's keys.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from normbench.errors import BadInput, unknown

T = TypeVar("T")
WIDEST = 60  # characters of a value in a message
NULL = "null is a value"
REQUIRED = dataclasses.MISSING
WANTED = {str: "a text", bool: "true or false", int: "a whole number", NoneType: "null",
          float: "a number (YAML wants 1.0e-2, not 1e-2)"}  # fmt: skip


class Before(NamedTuple):
    """What is made of the file's value before it is read."""

    convert: Callable[[Any], Any]


class Fault(ValueError):
    """What is wrong, and the keys that lead to it."""

    def __init__(self, error: Any, path: tuple[str | int, ...]) -> None:
        super().__init__(str(error))
        self.path = path


def of(*kinds: str, default: Any = REQUIRED, default_factory: Any = REQUIRED) -> Any:
    """A key of maps of these kinds alone, which their key `kind` tells; without a default they must have it."""
    if default_factory is not REQUIRED:
        return dataclasses.field(default_factory=default_factory, metadata={"kinds": kinds})
    needed = default is REQUIRED
    return dataclasses.field(default=None if needed else default, metadata={"kinds": kinds, "needed": needed})


def hidden(default: Any) -> Any:
    """A field that no file has."""
    return dataclasses.field(default=default, metadata={"hidden": True})


def load(kind: type[T], data: Any, place: object, way_out: str = "", key: str = "") -> T:
    """The content of a file. BadInput with one line that begins with the place, the name of the file.

    key: under which the data stand there.
    """
    try:
        value: T = read(kind, data)
    except ValueError as error:
        where = ".".join(filter(None, [key, _place(getattr(error, "path", ()), data)]))
        raise BadInput(f"{place}: {f'{where}: ' if where else ''}{error} {way_out}") from None
    return value


def read(kind: Any, value: Any) -> Any:
    """A value of a file as this type. ValueError with what is wrong."""
    if kind is Any or type(value) is kind is not float:  # most are
        return value
    origin, args = _form(kind)
    if origin is Annotated:
        for step in args[1:]:
            value = step.convert(value) if isinstance(step, Before) else value
        value = read(args[0], value)
        for check in args[1:]:
            value = value if isinstance(check, Before) or check is NULL else check(value)
        return value
    if origin is Union:
        chosen = next((arm for arm in args if _fits(arm, value)), None)
        if chosen is None:
            raise ValueError(f"{format_value(value)} must be {' or '.join(map(_wanted, args))}.")
        return read(chosen, value)
    if origin is Literal:
        return one_of(*args)(value)
    if not _fits(kind, value):
        raise ValueError(f"{format_value(value)} must be {_wanted(kind)}.")
    if dataclasses.is_dataclass(kind):
        return _read_object(kind, value)
    if origin is tuple:
        kinds = args[:1] * len(value) if args[-1] is Ellipsis else args
        if len(value) != len(kinds):
            raise ValueError(f"{format_value(value)} must be {'longer' if len(value) < len(kinds) else 'shorter'}.")
        return tuple(_read_at(place, *pair) for place, pair in enumerate(zip(kinds, value, strict=True)))
    if origin is not None:
        return {_read_name(args[0], name): _read_at(name, args[1], entry) for name, entry in value.items()}
    return value


def _read_object(kind: Any, data: Mapping[Any, Any]) -> Any:
    keys = _keys(kind)
    if "kind" in keys and "kind" in data:
        _read_at("kind", keys["kind"][1], data["kind"])  # first, because it tells which keys there are
    tag = data.get("kind")
    keys = {key: entry for key, entry in keys.items() if tag in entry[0].metadata.get("kinds", [tag])}
    if "kind" in keys and "kind" not in data:
        raise ValueError("'kind' must be given.")
    for key in data:
        if key not in keys:
            raise ValueError(unknown(f"'{key}' is not a key.", str(key), keys))
    for key, (field, _) in keys.items():
        needed = field.metadata.get("needed", field.default is field.default_factory is REQUIRED)
        if key not in data and needed:
            raise ValueError(f"'{key}' must be given.")
    node = kind(**{keys[key][0].name: _read_at(key, keys[key][1], value) for key, value in data.items()})
    if hasattr(node, "check"):
        node.check(data.keys())
    return node


@cache
def _keys(kind: Any) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """By key: the field and its type."""
    types = get_type_hints(kind, include_extras=True)
    keys = {}
    for field in dataclasses.fields(kind):
        origin, args = _form(types[field.name])
        if origin is Union and field.default is None:
            types[field.name] = reduce(operator.or_, (arm for arm in args if arm is not NoneType))
        if not field.metadata.get("hidden"):
            keys[field.name.removesuffix("_")] = field, types[field.name]
    return keys


@cache
def _form(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Its origin, such as tuple, and the arguments of that."""
    origin = get_origin(kind)
    return Union if origin is UnionType else origin, get_args(kind)


def _read_at(key: Any, kind: Any, value: Any) -> Any:
    try:
        return read(kind, value)
    except ValueError as error:
        raise Fault(error, (key, *getattr(error, "path", ()))) from None


def _read_name(kind: Any, name: Any) -> Any:
    if kind is not Any and not isinstance(name, str):
        raise ValueError(f"{format_value(name)} must be a name; what YAML takes for something else is put in quotes.")
    return read(kind, name)


def _fits(kind: Any, value: Any) -> bool:
    """Whether the value has this type, whatever is wrong within it."""
    origin, args = _form(kind)
    if origin is Annotated:
        return _fits(args[0], value)
    if origin is Literal:
        return _is_among(value, args)
    if origin is tuple:
        return isinstance(value, list)
    if origin is not None or dataclasses.is_dataclass(kind):
        return isinstance(value, dict)
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return type(value) is kind


def _wanted(kind: Any) -> str:
    """What a message says of a type."""
    origin, args = _form(kind)
    if origin is Annotated:
        return _wanted(args[0])
    if origin is Literal:
        return " or ".join(map(format_value, args))
    return WANTED.get(kind, "a list" if origin is tuple else "a map of keys")


def plain(value: Any) -> Any:
    """What a file has of it: a key that is None, as its default is, is left out."""
    if dataclasses.is_dataclass(value):
        entries = [(key, field, getattr(value, field.name)) for key, (field, _) in _keys(value.__class__).items()]
        return {key: plain(entry) for key, field, entry in entries if not entry is field.default is None}
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, tuple | list) else value


def _place(path: Iterable[str | int], data: Any) -> str:
    """`claims[2] LN-3: parts[0] p: endpoint.level`."""
    text, node = "", data
    for key in path:
        inside = key in node if isinstance(node, dict) else isinstance(node, list) and isinstance(key, int)
        node = node[key] if inside else None  # a value that `Before` has made is not in the file
        if isinstance(key, int):
            name = node.get("id") if isinstance(node, dict) else None
            text += f"[{key}]" + (f" {name}:" if isinstance(name, str) else "")
        else:
            text += f"{' ' if text.endswith(':') else '.' if text else ''}{key}"
    return text.removesuffix(":")


def format_value(value: Any) -> str:
    """A value as YAML may have it, cut where it is long; `null` is what a key has with nothing behind it."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


# --- checks ----------------------------------------------------------------------------------------------------------


def _bound(holds: Callable[[Any, Any], bool], words: str) -> Callable[[float], Callable[[Any], Any]]:
    def of_bound(bound: float) -> Callable[[Any], Any]:
        def check(value: Any) -> Any:
            if not holds(value, bound):
                raise ValueError(f"{format_value(value)} must be {words} {bound}.")
            return value

        return check

    return of_bound


at_least, above = _bound(operator.ge, "at least"), _bound(operator.gt, "above")
at_most, below = _bound(operator.le, "at most"), _bound(operator.lt, "below")


def longer(least: int) -> Callable[[Any], Any]:
    """Of a text or a list."""

    def check(value: Any) -> Any:
        if len(value) < least:
            text = format_value(value if isinstance(value, str) else [*value])
            raise ValueError(f"{text} must be longer, at least {least}.")
        return value

    return check


def one_of(*choices: Any) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not _is_among(value, choices):
            raise ValueError(unknown(f"{format_value(value)} is not possible.", str(value), map(str, choices)))
        return value

    return check


def _is_among(value: Any, choices: Sequence[Any]) -> bool:
    """Of the same type too: true is not 1."""
    return any(type(value) is type(choice) and value == choice for choice in choices)


def check_ids(ids: Sequence[str]) -> None:
    """ValueError for an id that is used twice."""
    for name in ids:
        if ids.count(name) > 1:
            raise ValueError(f"id '{name}' is used twice.")


def check_names(key: str, given: Iterable[str], names: Sequence[str]) -> None:
    """ValueError for a name of this key that is none of these."""
    for name in given:
        if name not in names:
            raise ValueError(unknown(f"{key}: {format_value(name)} is not possible.", name, names))


Text = Annotated[str, longer(1)]
Count = Annotated[int, at_least(1)]


@dataclasses.dataclass(frozen=True)
class Range:
    """A range of seeds, such as {from: 6, to: 10}."""

    from_: Count  # the first seed
    to: Count  # the last seed

    def check(self, given: object) -> None:
        if self.to < self.from_:
            raise ValueError(f"to: {self.to} must be at least {self.from_}, as 'from' is.")
