"""The records of a run in memory: columns of numbers, about 30 bytes a record where a dictionary takes 500."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for values in zip(*self.columns.values(), strict=True):
            yield {**self._place, **dict(zip(self.columns, values, strict=True))}


def _column(values: Sequence[Any]) -> Sequence[Any]:
    """Numbers of one type in an array, which gives them back as they were."""
    kind, *others = {*map(type, values)}
    for code in CODES.get(kind, "") if not others else "":
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
        blocks: dict[tuple[Any, ...], tuple[int, list[Mapping[str, Any]]]] = {}
        order = []
        for record in records:
            key = record["split"], record["mode"], "variant" in record and orjson.dumps(record["variant"]), *record
            if (found := blocks.get(key)) is None:
                found = blocks[key] = len(blocks), []
            order.append(found[0])
            found[1].append(record)
        self.blocks = [Block(found) for _, found in blocks.values()]
        self._order = _column(order) if order else ()  # of each record its block
        self.last_step: int = record["step"] if order else 0

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        waiting = [*map(iter, self.blocks)]
        return (next(waiting[block]) for block in self._order)

    def __getitem__(self, place: Any) -> Any:
        return [*self][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
