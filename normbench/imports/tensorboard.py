"""TensorBoard's event files: records with CRC-32C, of which scalars of one layout are decoded together."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from normbench.imports.log import MOST_COLUMNS, UNPACKED, Log, flat, refuse
from normbench.imports.messages import declared

Points = dict[str, list[tuple[np.ndarray, ...]]]  # by tag: places of records, steps, values
LONGEST = 1 << 12  # bytes of a record that may be a scalar, and whose sum is checked: others are pictures and graphs
START = 1  # status of a session that goes on from an event's step
MOST_RECORDS = 10**7  # 200 bytes of memory each
WALL = 10  # bytes of a wall time with its key
FLOAT = 5  # bytes of a value with its key, at the end of a scalar of torch
EVENT = {
    "Event": {
        "wall_time": (1, "double"), "step": (2, "int64"), "version": (3, "string"), "summary": (5, "Summary"),
        "session": (7, "Session"),
    },
    "Session": {"status": (1, "int32")},
    "Summary": {"value": (1, "Value*")},
    "Value": {
        "tag": (1, "string"), "simple_value": (2, "float?"), "tensor": (8, "Tensor"), "metadata": (9, "Metadata"),
    },
    "Metadata": {"plugin": (1, "Plugin")},
    "Plugin": {"name": (1, "string"), "content": (2, "bytes")},
    "Tensor": {
        "dtype": (1, "int32"), "content": (4, "bytes"), "half_val": (13, "int32*"), "float_val": (5, "float*"),
        "double_val": (6, "double*"), "int_val": (7, "int32*"), "int64_val": (10, "int64*"), "shape": (2, "Shape"),
    },
    "Shape": {"dim": (2, "Dim*")},
    "Dim": {"size": (1, "int64")},
}  # fmt: skip
HPARAMS = {
    "Data": {"start": (3, "Start")},
    "Start": {"hparams": (1, "Entry*")},
    "Entry": {"key": (1, "string"), "value": (2, "Any")},
    "Any": {"number": (2, "double?"), "text": (3, "string?"), "flag": (4, "bool?")},
}
TYPES = {1: ("<f4", "float_val"), 2: ("<f8", "double_val"), 3: ("<i4", "int_val"), 9: ("<i8", "int64_val"),
         19: ("<f2", "half_val")}  # fmt: skip


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """Whole records up to the first that is cut or whose sum is wrong; behind it nothing can be trusted."""
    head = np.frombuffer(content[:12], dtype=np.uint8)
    if len(head) == 12 and _crc(head[None, :8]) != head[8:].view("<u4"):
        raise refuse(path, "is no event file of TensorBoard.")
    starts, lengths, end = _framed(content)
    points: Points = defaultdict(list)
    hparams: dict[str, Any] = {}
    restarts: list[tuple[int, int]] = []  # each with the place of its record and its step
    data = np.frombuffer(content, dtype=np.uint8)
    bad = len(starts)
    if lengths[lengths <= LONGEST].sum() > UNPACKED:
        raise refuse(path, f"has more than {UNPACKED >> 20} MiB of scalars.")
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    for places in groups:
        if lengths[places[0]] > LONGEST:
            continue
        rows = data[starts[places][:, None] + np.arange(lengths[places[0]] + 4)]
        wrong = places[_crc(rows[:, :-4]) != rows[:, -4:].copy().view("<u4")[:, 0]]
        bad = min(bad, *wrong) if len(wrong) else bad
    for places in groups:
        intact = places[places < bad]
        if len(intact):
            rows = (
                data[starts[intact][:, None] + np.arange(lengths[intact[0]])] if lengths[intact[0]] <= LONGEST else None
            )
            _decode(content, starts, lengths, intact, rows, points, hparams, restarts)
    end = end if bad == len(starts) else int(starts[bad]) - 12
    lost = len(content) - end
    last = max((int(step.max()) for pieces in points.values() for _, step, _ in pieces), default=0)
    whole_log = Log(
        source="tensorboard",
        tables=[*_tables(points, restarts)],
        config=hparams,
        lost=lost,
        note=f"it is cut or damaged after step {last}: {lost} bytes are left out" if lost else "",
        began=_parsed(_event(), content[starts[0] : starts[0] + lengths[0]]).wall_time if len(starts) else 0.0,
        restarts=tuple(step for _, step in restarts),
        **log,
    )
    before = sum(len(step) for pieces in points.values() for _, step, _ in pieces)
    return _taken_back(whole_log, before)


def merged(logs: Sequence[Log]) -> list[Log]:
    """Files of a folder in the order of their first events; a restart takes back what earlier files have from its step
    on, whatever the tag, as TensorBoard does.
    """
    by_folder: dict[str, list[Log]] = defaultdict(list)
    for log in sorted(logs, key=lambda log: log.began):
        by_folder[log.path].append(log)
    kept = []
    for path in sorted(by_folder):
        in_folder = by_folder[path]
        for number, log in enumerate(in_folder, 1):
            first = min((step for later in in_folder[number:] for step in later.restarts), default=None)
            kept.append(log if first is None else _until(log, first))
    return kept


def _until(log: Log, first: int) -> Log:
    """A log without its points from a step on."""
    import pyarrow.compute as pc

    tables = [table.filter(pc.less(table["step"], first)) if table.num_rows else table for table in log.tables]
    return _taken_back(replace(log, tables=tables), sum(table.num_rows for table in log.tables))


def _taken_back(log: Log, before: int) -> Log:
    """With a note of the points that a restart took back."""
    count = before - sum(table.num_rows for table in log.tables)
    note = f"{count} points are left out: the run went on from an earlier step (purge_step)" if count else ""
    return replace(log, note="; ".join(filter(None, (log.note, note))))


def _framed(content: bytes) -> tuple[np.ndarray, np.ndarray, int]:
    """Where whole records begin, how long they are, and where the last one ends."""
    starts, lengths = list[int](), list[int]()
    offset, unpack = 0, struct.Struct("<Q").unpack_from
    while offset + 16 <= len(content):
        (length,) = unpack(content, offset)
        if offset + 16 + length > len(content):
            break
        if len(starts) == MOST_RECORDS:
            raise ValueError(f"it has more than {MOST_RECORDS} records")
        starts.append(offset + 12)
        lengths.append(length)
        offset += 16 + length
    heads = np.array(starts, dtype=np.int64)
    sizes = np.array(lengths, dtype=np.int64)
    if len(heads):
        rows = np.frombuffer(content, dtype=np.uint8)[heads[:, None] + np.arange(-12, 0)]
        wrong = np.flatnonzero(_crc(rows[:, :8]) != rows[:, 8:].copy().view("<u4")[:, 0])
        if len(wrong):
            return heads[: wrong[0]], sizes[: wrong[0]], int(heads[wrong[0]]) - 12
    return heads, sizes, offset


@cache
def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


def _crc(rows: np.ndarray) -> np.ndarray:
    """The masked CRC-32C of each row."""
    table, crc = _crc_table(), np.full(len(rows), 0xFFFFFFFF, dtype=np.uint32)
    for byte in np.ascontiguousarray(rows.T):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)


def _decode(
    content: bytes, starts: np.ndarray, lengths: np.ndarray, places: np.ndarray, rows: np.ndarray | None,
    points: Points, hparams: dict[str, Any], restarts: list[tuple[int, int]],
) -> None:  # fmt: skip
    """Records of one length: those with the bytes of a scalar of torch together, the others one by one."""
    single = np.ones(len(places), dtype=bool)
    if rows is not None and rows.shape[1] > WALL + FLOAT + 6:
        plain = (rows[:, 0] == 9) & (rows[:, 9] == 16) & (rows[:, -FLOAT] == 0x15)
        long = np.argmax(rows[:, WALL : WALL + 10] < 128, axis=1) + 1  # bytes of the step
        for bytes_of_step in np.unique(long[plain]):
            of_length = np.flatnonzero(plain & (long == bytes_of_step))
            for tag, of_tag in _by_tag(rows[of_length], WALL + int(bytes_of_step)):
                records = rows[of_length[of_tag]]
                step = np.zeros(len(records), dtype=np.int64)
                for place in range(int(bytes_of_step)):
                    step |= (records[:, WALL + place].astype(np.int64) & 127) << (7 * place)
                value = np.ascontiguousarray(records[:, 1 - FLOAT :]).view("<f4")[:, 0].astype(np.float64)
                points[tag].append((places[of_length[of_tag]], step, value))
                _check_tags(points)
                single[of_length[of_tag]] = False
    for place in places[single]:
        start = int(starts[place])
        _decode_record(content[start : start + int(lengths[place])], int(place), points, hparams, restarts)


def _by_tag(rows: np.ndarray, start: int) -> Iterator[tuple[str, np.ndarray]]:
    """The rows whose bytes from `start` to the value are the same, where these are a summary of one tag and value."""
    middle = np.ascontiguousarray(rows[:, start:-FLOAT])
    weights = np.random.default_rng(0).integers(1, 1 << 62, middle.shape[1], dtype=np.uint64)
    mixed = (middle.astype(np.uint64) * weights).sum(axis=1)
    _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    for number, equal in enumerate(np.split(order, np.flatnonzero(np.diff(group[order])) + 1)):
        same = equal[(middle[equal] == middle[first[number]]).all(axis=1)]
        values = _parsed(_event(), rows[same[0]].tobytes()).summary.value
        tag = values[0].tag.encode() if len(values) == 1 else b""
        if tag and middle[first[number]].tobytes()[-len(tag) :] == tag and middle.shape[1] == len(tag) + 6:
            yield values[0].tag, same


@cache
def _event() -> Any:
    return declared("tensorboard", EVENT, "Event")


def _decode_record(
    record: bytes, place: int, points: Points, hparams: dict[str, Any], restarts: list[tuple[int, int]]
) -> None:  # fmt: skip
    message = _parsed(_event(), record)
    if message.session.status == START:
        restarts.append((place, message.step))
    for value in message.summary.value:
        if value.metadata.plugin.name == "hparams":
            for entry in _parsed(_hparams(), value.metadata.plugin.content).start.hparams:
                for _, setting in entry.value.ListFields():
                    hparams.update(flat({entry.key: setting}))
        simple = [value.simple_value] * value.HasField("simple_value")
        for scalar in _scalar(value.tensor) if value.HasField("tensor") else simple:
            points[value.tag].append((np.array([place]), np.array([message.step]), np.array([float(scalar)])))
            _check_tags(points)


def _check_tags(points: Points) -> None:
    if len(points) > MOST_COLUMNS:
        raise ValueError(f"it has more than {MOST_COLUMNS} tags")


def _parsed(kind: Any, content: bytes) -> Any:
    """A message, empty where these bytes are none: long records have no checked sum."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(content)
    except DecodeError:
        return kind()


def _scalar(tensor: Any) -> Iterator[float]:
    """The number of a tensor of one number, as TensorFlow 2 and Keras write scalars."""
    if tensor.dtype not in TYPES or any(dim.size != 1 for dim in tensor.shape.dim):
        return
    code, name = TYPES[tensor.dtype]
    if tensor.content:
        yield float(np.frombuffer(tensor.content, dtype=code)[0])
    elif values := getattr(tensor, name):
        yield float(np.frombuffer(values[0].to_bytes(2, "little"), dtype="<f2")[0] if code == "<f2" else values[0])


@cache
def _hparams() -> Any:
    return declared("hparams", HPARAMS, "Data")


def _tables(points: Points, restarts: Sequence[tuple[int, int]]) -> Iterator[Any]:
    """A table for each tag, without the points that a later restart takes back."""
    import pyarrow as pa

    if not points:
        yield pa.table({})  # of hparams alone
    for tag, pieces in points.items():
        place, step, value = (np.concatenate(column) for column in zip(*pieces, strict=True))
        for record, first in restarts:
            stay = (place > record) | (step < first)
            place, step, value = place[stay], step[stay], value[stay]
        order = np.argsort(place, kind="stable")
        yield pa.table({"step": step[order], tag: value[order]}) if tag != "step" else pa.table({"step": step[order]})
