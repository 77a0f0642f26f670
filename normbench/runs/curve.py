"""The records of a run in memory: columns of numbers, about 30 bytes a record where a dictionary takes 500."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import orjson

CODES = {int: "BHiq", float: "d"}  # of arrays of a type, the smallest first


class Block:
    """The records of one split, mode and variant that have the same keys: a column for each further key."""

    def __init__(self, place: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> None:
        self.place = place
        self.split, self.mode = place["split"], place["mode"]
        self.variant: Mapping[str, Any] = place.get("variant", {})
        self.columns = {key: _column(values) for key, values in columns.items()}

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Block:
        place = {key: value for key, value in records[0].items() if key in ("split", "mode", "variant")}
        return cls(place, {key: [*map(itemgetter(key), records)] for key in records[0] if key not in place})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for values in zip(*self.columns.values(), strict=True):
            yield {**self.place, **dict(zip(self.columns, values, strict=True))}


def _column(values: Sequence[Any]) -> Sequence[Any]:
    """Numbers of one type in an array, which gives them back as they were."""
    if isinstance(values, array):
        return values
    kinds = {*map(type, values)}
    for code in CODES.get(kinds.pop(), "") if len(kinds) == 1 else "":
        try:
            return array(code, values)
        except OverflowError:
            continue
    return values


class Curve(Sequence[Mapping[str, Any]]):
    """The records of a run, each a dictionary that is made when it is asked for; `blocks` have the columns.

    A block comes before another where its first record does. Records come by step, those of one step by block.
    """

    _load: Callable[[], Curve]

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        records = [*records]
        try:
            self.blocks = _blocks(records, len)
        except KeyError:  # as many keys, but others
            self.blocks = _blocks(records, tuple)

    @classmethod
    def later(cls, load: Callable[[], Curve]) -> Curve:
        """A curve that is read when it is first used."""
        curve = cls()
        del curve.blocks
        curve._load = load
        return curve

    def read(self) -> Curve:
        """The curve read anew, so that this one keeps no columns; itself where it has them."""
        return self if "blocks" in vars(self) else self._load()

    @classmethod
    def of_columns(cls, blocks: Iterable[Mapping[str, Any]]) -> Curve:
        """The records of {split, mode, columns: {step, epoch, metrics, ...: values}}.

        Columns are lists, or arrays of `array`, of one length; the steps of each block ascend.
        """
        curve = cls()
        for block in blocks:
            place = {key: value for key, value in block.items() if key != "columns"}
            curve.blocks.append(Block(place, block["columns"]))
            if len({*map(len, block["columns"].values())}) > 1:
                raise ValueError(f"columns of {place} are not of one length")
        return curve

    @cached_property
    def blocks(self) -> list[Block]:
        return self._load().blocks

    @cached_property
    def order(self) -> Sequence[int]:
        """Of each record its block."""
        steps = [step for block in self.blocks for step in block.columns["step"]]
        numbers = [number for number, block in enumerate(self.blocks) for _ in range(len(block))]
        return _column([numbers[place] for place in sorted(range(len(steps)), key=steps.__getitem__)])

    @cached_property
    def last_step(self) -> int:
        return max((step for block in self.blocks for step in block.columns["step"]), default=0)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        waiting = [*map(iter, self.blocks)]
        return (next(waiting[block]) for block in self.order)

    def __getitem__(self, place: Any) -> Any:
        return [*self][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


def _blocks(records: Sequence[Mapping[str, Any]], shape: Callable[[Mapping[str, Any]], Any]) -> list[Block]:
    """Records of one split, mode, variant and shape together."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for record in records:
        variant = "variant" in record and orjson.dumps(record["variant"])
        groups.setdefault((record["split"], record["mode"], shape(record), variant), []).append(record)
    return [Block.of(group) for group in groups.values()]
