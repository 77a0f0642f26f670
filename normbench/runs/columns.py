"""Records as columns: a fraction of the memory of dictionaries, which are made anew whenever they are asked for."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import repeat
from operator import itemgetter
from typing import Any, TypeVar, overload

from normbench.eval_variants import DEFAULT

Record = dict[str, Any]
Made = TypeVar("Made")
CODES = {float: "d", int: "q"}
CLOCKS = {"epoch", "step", "examples"}
SAME = ("split", "mode", "variant")  # what a series picks its records by


class Columns(Sequence[Mapping[str, Any]]):
    """The same records as the list it was made of, in its order.

    >>> list(Columns([{"step": 0, "nll": 2.3}, {"step": 6, "nll": 0.5, "mode": "eval"}]))
    [{'step': 0, 'nll': 2.3}, {'step': 6, 'nll': 0.5, 'mode': 'eval'}]
    """

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self._known: dict[Any, int] = {}
        self._groups: list[_Group] = []
        self._group = array("H")  # of each record
        self._extend(records)

    def followed_by(self, records: Iterable[Mapping[str, Any]]) -> Columns:
        """These records and more; what is packed already is not packed again."""
        longer = Columns()
        longer._known, longer._groups = (
            dict(self._known),
            [replace(group, columns=dict(group.columns)) for group in self._groups],
        )
        longer._group = self._group[:]
        longer._extend(records)
        return longer

    def _extend(self, records: Iterable[Mapping[str, Any]]) -> None:
        fresh: list[list[Mapping[str, Any]]] = [[] for _ in self._groups]
        known, append = self._known, self._group.append
        for record in records:
            get = record.get
            split, mode, variant = get("split"), get("mode"), get("variant")
            # with their types, for 0 is 0.0
            kind = (tuple(record), split, type(split), mode, type(mode), str(variant) if variant else None)
            number = known.get(kind)
            if number is None:
                number = known[kind] = len(fresh)
                self._groups.append(_Group.like(record))
                fresh.append([])
            append(number)
            fresh[number].append(record)
        same: dict[Any, Any] = {}
        for group, rows in zip(self._groups, fresh, strict=True):
            if rows:
                group.extend(rows, same)

    @functools.cached_property
    def _rows(self) -> Sequence[int]:
        """Of each record its place in its group."""
        each = [itertools.count() for _ in self._groups]
        return array("L", (next(each[number]) for number in self._group))

    def values(
        self, split: str, modes: Collection[str], variant: Mapping[str, Any], keys: Sequence[str], without: Set[str]
    ) -> Iterator[tuple[Any, ...]]:
        """What all of these keys say in the records of a split, mode and variant that have them, and none of `without`.

        In their order, but that those of records alike lie together.
        """
        for group in self._groups:
            same, columns = group.same, group.columns
            there = same.get("split") == split and same.get("mode") in modes and same.get("variant", DEFAULT) == variant
            if there and columns.keys() >= set(keys) and not without & columns.keys():
                yield from zip(*(columns[key] for key in keys), strict=True)

    def kinds(self) -> Iterator[Record]:
        """At least one record of each set of keys, split, mode and variant."""
        return (group[0] for group in self._groups)

    def packed(self) -> Iterator[tuple[Record, Mapping[str, Any]]]:
        """Of all records alike the first, and by key the values of all: an array, where they are of one type."""
        return ((group[0], group.columns) for group in self._groups)

    def each(self, made: Callable[[Record, Mapping[str, Any]], Iterator[Made]]) -> Iterator[Made]:
        """What is made of each record, of all those alike at once, as of `packed`."""
        found = [made(first, columns) for first, columns in self.packed()]
        return (next(found[number]) for number in self._group)

    def __len__(self) -> int:
        return len(self._group)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return self._groups[self._group[place]][self._rows[place]]

    def __iter__(self) -> Iterator[Record]:
        each = [iter(group) for group in self._groups]
        return (next(each[number]) for number in self._group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


@dataclass
class _Group:
    """Records with the same keys, split, mode and variant."""

    keys: tuple[str, ...]
    same: Record
    columns: dict[str, Any]
    count: int = 0

    @classmethod
    def like(cls, first: Mapping[str, Any]) -> _Group:
        keys = tuple(map(sys.intern, first))
        same = {key: first[key] for key in SAME if key in first}
        return cls(keys, same, {key: array("d") for key in keys if key not in SAME})

    def extend(self, records: Sequence[Mapping[str, Any]], same: dict[Any, Any]) -> None:
        """With these at the end; `same`: arrays that others have as well, such as of steps."""
        longer = {key: _longer(column, list(map(itemgetter(key), records))) for key, column in self.columns.items()}
        for key in longer.keys() & CLOCKS:
            if isinstance(column := longer[key], array):
                longer[key] = same.setdefault((column.typecode, column.tobytes()), column)
        self.columns = longer
        self.count += len(records)

    def __getitem__(self, row: int) -> Record:
        return {key: self.same[key] if key in self.same else self.columns[key][row] for key in self.keys}

    def __iter__(self) -> Iterator[Record]:
        values = [self.columns.get(key) for key in self.keys]
        columns = [repeat(self.same[k]) if v is None else v for k, v in zip(self.keys, values, strict=True)]
        keys = self.keys
        return (
            dict(zip(keys, row, strict=True))
            for _, row in zip(range(self.count), zip(*columns, strict=False), strict=False)
        )


def _longer(column: Any, values: list[Any]) -> Any:
    """A column with these values at its end: packed as long as all of it are floats, or all of it whole numbers."""
    if isinstance(column, array):
        code = CODES.get(type(values[0]), "")
        if set(map(type, values)) == {type(values[0])} and code and (code == column.typecode or not column):
            with contextlib.suppress(OverflowError):
                packed = array(code, values)
                return column + packed if column else packed
        column = column.tolist()
    return column + [sys.intern(value) if type(value) is str else value for value in values]
