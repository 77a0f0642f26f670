"""W&B's offline files: LevelDB's framing with zlib's CRC, records of protobuf, values of JSON."""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

from normbench.files import reading
from normbench.imports.log import Log, check_size, flat, refuse
from normbench.imports.messages import declared as declare
from normbench.imports.messages import parsed
from normbench.imports.tables import column

MAGIC, VERSION = b":W&B", 0
BLOCK, HEAD = 1 << 15, 7
FULL, FIRST, MIDDLE, LAST = range(1, 5)
MOST_VALUES = 25_000_000  # 100 bytes each
History = dict[str, tuple[list[int], list[str]]]  # by key: numbers of rows, and JSON
RECORD: dict[str, dict[str, tuple[int, str]]] = {
    "Record": {
        "history": (2, "History"), "config": (5, "Config"), "metric": (12, "Metric"), "run": (17, "Run"),
        "exit": (18, "Exit"),
    },
    "History": {"item": (1, "Item*"), "step": (2, "Step")},
    "Step": {"num": (1, "int64")},
    "Item": {"key": (1, "string"), "nested": (2, "string*"), "value_json": (16, "string")},
    "Config": {"update": (1, "Item*")},
    "Metric": {"name": (1, "string"), "glob": (2, "string"), "step_metric": (4, "string")},
    "Run": {"run_id": (1, "string"), "config": (4, "Config"), "display_name": (8, "string")},
    "Exit": {"exit_code": (1, "int32")},
}  # fmt: skip
_record = cache(partial(declare, "wandb", RECORD, "Record"))


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """The history by key, each with the keys of its row; the configuration; define_metric's clocks."""
    if content[:4] != MAGIC or len(content) < HEAD:
        raise refuse(path, "is no offline file of W&B.")
    if content[6] != VERSION:
        raise refuse(path, f"has version {content[6]} of W&B's format; {VERSION} is read. Export its history as CSV.")
    history: History = defaultdict(lambda: ([], []))
    rows = values = 0
    tree: dict[str, Any] = {}
    clocks: dict[str, str] = {}
    run, finished, end = "", False, HEAD
    for payload, end in _payloads(content):  # noqa: B007 (of the last one)
        record = parsed(_record(), payload)
        if record.HasField("history"):
            row = {item.key or "/".join(item.nested): item.value_json for item in record.history.item}
            for key, text in {"_step": str(record.history.step.num), **row}.items():
                numbers, texts = history[key]
                numbers.append(rows)
                texts.append(text)
            rows, values = rows + 1, values + 1 + len(row)
            if values > MOST_VALUES:
                raise refuse(path, f"has more than {MOST_VALUES} values.")
        elif record.HasField("run") or record.HasField("config"):
            run = record.run.run_id or run
            for item in (*record.run.config.update, *record.config.update):
                value = json.loads(item.value_json)
                reading.check(value)
                _put(tree, [item.key] if item.key else [*item.nested], value)
        elif record.HasField("metric") and record.metric.step_metric:
            clocks[record.metric.name or record.metric.glob] = record.metric.step_metric
        finished |= record.HasField("exit")
    tree.pop("_wandb", None)
    lost = len(content) - end
    note = f"{lost} bytes after the last whole record are left out" if lost else ""
    return Log(
        source="wandb",
        tables=[_table(history, rows, path)],
        config=flat(tree),
        clocks=_matched(clocks, {*history}),
        run=run,
        lost=lost,
        note=note if finished else "it is not known to have finished",
        **log,
    )


def _payloads(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Whole records, each with the place behind it, up to one that is cut or whose sum is wrong."""
    offset, parts = HEAD, list[bytes]()
    while offset + HEAD <= len(content):
        room = BLOCK - offset % BLOCK
        if room < HEAD:
            offset += room
            continue
        crc, length, kind = struct.unpack_from("<IHB", content, offset)
        data = content[offset + HEAD : offset + HEAD + length]
        if len(data) < length or not FULL <= kind <= LAST or zlib.crc32(data, zlib.crc32(bytes([kind]))) != crc:
            return
        offset += HEAD + length
        if kind in (FULL, FIRST):
            parts = []
        parts.append(data)
        if kind in (FULL, LAST):
            yield b"".join(parts), offset
            parts = []


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = value


def _matched(clocks: dict[str, str], names: set[str]) -> dict[str, str]:
    """Clocks by key, also of define_metric("eval/*", ...)."""
    pairs = ((name, pattern) for pattern in clocks for name in names if fnmatchcase(name, pattern))
    return {name: clocks[pattern] for name, pattern in pairs if name != clocks[pattern]}


def _table(history: History, rows: int, path: Path) -> Any:
    """A column for each key; what a row lacks is null; what is no number, text or truth, pictures for example, is its
    own text.
    """
    import pyarrow as pa

    check_size(path, rows, len(history))
    columns = {}
    for name, (numbers, texts) in history.items():
        if "" in texts:
            raise refuse(
                path, "has values that are no JSON, which this version does not read. Export its history as CSV."
            )
        values: list[Any] = [None] * rows
        for number, value in zip(numbers, json.loads(f"[{','.join(texts)}]"), strict=True):
            values[number] = value if isinstance(value, str | int | float | None) else json.dumps(value)
        columns[name] = column(values)
    return pa.table(columns)
