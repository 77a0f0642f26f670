"""W&B's offline files: LevelDB's framing with zlib's CRC, records of protobuf, values of JSON."""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from normbench.imports.log import Log, flat, refuse
from normbench.imports.messages import declared as declare
from normbench.imports.tables import column, rows_table

MAGIC, VERSION = b":W&B", 0
BLOCK, HEAD = 1 << 15, 7
FULL, FIRST, MIDDLE, LAST = range(1, 5)
ITEM = {"key": (1, "string"), "nested": (2, "string*"), "value_json": (16, "string")}
RECORD: dict[str, dict[str, tuple[int, str]]] = {
    "Record": {
        "history": (2, "History"), "config": (5, "Config"), "metric": (12, "Metric"), "run": (17, "Run"),
        "exit": (18, "Exit"),
    },
    "History": {"item": (1, "Item*"), "step": (2, "Step")},
    "Step": {"num": (1, "int64")},
    "Item": ITEM,
    "Config": {"update": (1, "Item*")},
    "Metric": {"name": (1, "string"), "glob": (2, "string"), "step_metric": (4, "string")},
    "Run": {"run_id": (1, "string"), "config": (4, "Config"), "display_name": (8, "string")},
    "Exit": {"exit_code": (1, "int32")},
}  # fmt: skip


@cache
def _record() -> Any:
    return declare("wandb", RECORD, "Record")


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """The history by key, each with the keys of its row; the configuration; define_metric's clocks."""
    if content[:4] != MAGIC or len(content) < HEAD:
        raise refuse(path, "is no offline file of W&B.")
    if content[6] != VERSION:
        raise refuse(path, f"has version {content[6]} of W&B's format; {VERSION} is read. Export its history as CSV.")
    rows: list[dict[str, str]] = []
    tree: dict[str, Any] = {}
    clocks: dict[str, str] = {}
    run, finished, payloads = "", False, [*_payloads(content)]
    for payload, _ in payloads:
        record = _record().FromString(payload)
        if record.HasField("history"):
            row = {item.key or "/".join(item.nested): item.value_json for item in record.history.item}
            rows.append({"_step": str(record.history.step.num), **row})
        elif record.HasField("run") or record.HasField("config"):
            run = record.run.run_id or run
            for item in (*record.run.config.update, *record.config.update):
                _put(tree, [item.key] if item.key else [*item.nested], json.loads(item.value_json))
        elif record.HasField("metric") and record.metric.step_metric:
            clocks[record.metric.name or record.metric.glob] = record.metric.step_metric
        finished |= record.HasField("exit")
    tree.pop("_wandb", None)
    note = "" if finished else "it is not known to have finished"
    return Log(
        source="wandb",
        tables=[_table(rows, path)],
        config=flat(tree),
        clocks=_matched(clocks, {name for row in rows for name in row}),
        run=run,
        lost=len(content) - (payloads[-1][1] if payloads else HEAD),
        note=note,
        **log,
    )


def _payloads(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Whole records, each with the place behind it, up to one that is cut or whose sum is wrong."""
    at, parts = HEAD, b""
    while at + HEAD <= len(content):
        left = BLOCK - at % BLOCK
        if left < HEAD:
            at += left
            continue
        crc, length, kind = struct.unpack_from("<IHB", content, at)
        data = content[at + HEAD : at + HEAD + length]
        if len(data) < length or not FULL <= kind <= LAST or zlib.crc32(data, zlib.crc32(bytes([kind]))) != crc:
            return
        at += HEAD + length
        parts = data if kind in (FULL, FIRST) else parts + data
        if kind in (FULL, LAST):
            yield parts, at


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = value


def _matched(clocks: dict[str, str], names: set[str]) -> dict[str, str]:
    """Clocks by key, also of define_metric("eval/*", ...)."""
    from fnmatch import fnmatchcase

    pairs = ((name, pattern) for pattern in clocks for name in names if fnmatchcase(name, pattern))
    return {name: clocks[pattern] for name, pattern in pairs if name != clocks[pattern]}


def _table(rows: list[dict[str, str]], path: Path) -> Any:
    """All rows in their order; those with the same keys are parsed together."""
    import pyarrow as pa

    shapes: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        shapes[tuple(row)].append(number)
    tables = [pa.table({"": pa.array([], pa.int64())})]
    if any("" in row.values() for row in rows):
        raise refuse(path, "has values that are no JSON, which this version does not read. Export its history as CSV.")
    for names, numbers in shapes.items():
        values = zip(*(rows[number].values() for number in numbers), strict=True)
        columns = {name: column(_values(own)) for name, own in zip(names, values, strict=True)}
        tables.append(pa.table({"": numbers, **columns}))
    try:
        return pa.concat_tables(tables, promote_options="permissive").sort_by("").drop_columns([""])
    except pa.ArrowException:  # a key has numbers in some rows, texts in others
        return rows_table([dict(zip(row, _values(tuple(row.values())), strict=True)) for row in rows])


def _values(texts: tuple[str, ...]) -> list[Any]:
    """JSON's values; what is no number, text or truth, pictures for example, is its own text."""
    found = json.loads(f"[{','.join(texts)}]")
    return [one if isinstance(one, str | int | float | None) else json.dumps(one) for one in found]
