"""The records of a run in memory: columns of numbers, about 30 bytes a record where a dictionary takes 500."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

CODES = {int: "BHiq", float: "d"}  # of arrays of a type, the smallest first


class Block:
    """The records of one split, mode and variant that have the same keys: a column for each further key."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        first = records[0]
        self.split, self.mode = first["split"], first["mode"]
        self.variant: Mapping[str, Any] = first.get("variant", {})
        self._place = {key: value for key, value in first.items() if key in ("split", "mode", "variant")}
        keys = [key for key in first if key not in self._place]
        self.columns = {key: _column([*map(itemgetter(key), records)]) for key in keys}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for values in zip(*self.columns.values(), strict=True):
            yield {**self._place, **dict(zip(self.columns, values, strict=True))}


def _column(values: Sequence[Any]) -> Sequence[Any]:
    """Numbers of one type in an array, which gives them back as they were."""
    kinds = {*map(type, values)}
    for code in CODES.get(kinds.pop(), "") if len(kinds) == 1 else "":
        try:
            return array(code, values)
        except OverflowError:
            continue
    return values


class Curve(Sequence[Mapping[str, Any]]):
    """A sequence of records, each a dictionary that is made when it is asked for; `blocks` have the columns.

    A block comes before another where its first record does.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        records = [*records]
        try:
            self._fill(records, len)
        except KeyError:  # as many keys, but others
            self._fill(records, tuple)
        self.last_step: int = records[-1]["step"] if records else 0

    def _fill(self, records: Sequence[Mapping[str, Any]], shape: Callable[[Mapping[str, Any]], Any]) -> None:
        found: dict[Any, tuple[int, list[Mapping[str, Any]]]] = {}
        order = []
        for record in records:
            variant = "variant" in record and orjson.dumps(record["variant"])
            key = record["split"], record["mode"], shape(record), variant
            if (block := found.get(key)) is None:
                block = found[key] = len(found), []
            order.append(block[0])
            block[1].append(record)
        self.blocks = [Block(own) for _, own in found.values()]
        self.order = _column(order)  # of each record its block

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        waiting = [*map(iter, self.blocks)]
        return (next(waiting[block]) for block in self.order)

    def __getitem__(self, place: Any) -> Any:
        return [*self][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
