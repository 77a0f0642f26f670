"""TensorBoard's event files: records with CRC-32C, of which scalars of one layout are decoded together."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from normbench.imports.log import MOST_COLUMNS, UNPACKED, Log, flat, refuse
from normbench.imports.messages import declared, parsed

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


_event = cache(partial(declared, "tensorboard", EVENT, "Event"))
_hparams = cache(partial(declared, "hparams", HPARAMS, "Data"))


@dataclass
class Events:
    """What the records of a file have."""

    points: dict[str, list[tuple[np.ndarray, ...]]] = field(default_factory=lambda: defaultdict(list))
    hparams: dict[str, Any] = field(default_factory=dict)
    restarts: list[tuple[int, int]] = field(default_factory=list)  # each with the place of its record and its step

    def add(self, tag: str, places: np.ndarray, steps: np.ndarray, values: np.ndarray) -> None:
        self.points[tag].append((places, steps, values))
        if len(self.points) > MOST_COLUMNS:
            raise ValueError(f"it has more than {MOST_COLUMNS} tags")


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """Whole records up to the first that is cut or whose sum is wrong; behind it nothing can be trusted."""
    data = np.frombuffer(content, dtype=np.uint8)
    if len(data) >= 12 and len(_damaged(data[None, :12])):
        raise refuse(path, "is no event file of TensorBoard.")
    bounds = _bounds(content)
    starts, lengths = bounds[:-1] + 12, np.diff(bounds) - 16
    if lengths[lengths <= LONGEST].sum() > UNPACKED:
        raise refuse(path, f"has more than {UNPACKED >> 20} MiB of scalars.")
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    bad = len(starts)
    for places in groups:
        if (length := lengths[places[0]]) <= LONGEST:
            wrong = _damaged(data[starts[places][:, None] + np.arange(length + 4)])
            bad = min([bad, *places[wrong]])
    events = Events()
    for places in groups:
        single, length = places[places < bad], lengths[places[0]]
        if len(single) and WALL + FLOAT + 6 < length <= LONGEST:
            single = _decode_scalars(data[starts[single][:, None] + np.arange(length)], single, events)
        for place in single:
            _decode_record(content[starts[place] : starts[place] + length], int(place), events)
    lost = len(content) - int(bounds[bad])
    steps = [step for pieces in events.points.values() for _, step, _ in pieces]
    last = max((step.max() for step in steps), default=0)
    whole_log = Log(
        source="tensorboard",
        tables=[*_tables(events)],
        config=events.hparams,
        lost=lost,
        note=f"it is cut or damaged after step {last}: {lost} bytes are left out" if lost else "",
        began=_parsed(_event(), content[12 : bounds[1] - 4]).wall_time if len(starts) else 0.0,
        restarts=tuple(step for _, step in events.restarts),
        **log,
    )
    return _taken_back(whole_log, sum(map(len, steps)))


def merged(logs: Sequence[Log]) -> list[Log]:
    """Files of a folder in the order of their first events; a restart takes back what earlier files have from its step
    on, whatever the tag, as TensorBoard does.
    """
    import pyarrow.compute as pc

    by_folder: dict[str, list[Log]] = defaultdict(list)
    for log in sorted(logs, key=lambda log: log.began):
        by_folder[log.path].append(log)
    kept = []
    for path in sorted(by_folder):
        in_folder = by_folder[path]
        for number, log in enumerate(in_folder, 1):
            first = min((step for later in in_folder[number:] for step in later.restarts), default=None)
            if first is not None:
                tables = [
                    table.filter(pc.less(table["step"], first)) if table.num_rows else table for table in log.tables
                ]
                log = _taken_back(replace(log, tables=tables), sum(table.num_rows for table in log.tables))
            kept.append(log)
    return kept


def _taken_back(log: Log, before: int) -> Log:
    """With a note of the points that a restart took back."""
    count = before - sum(table.num_rows for table in log.tables)
    note = f"{count} points are left out: the run went on from an earlier step (purge_step)" if count else ""
    return replace(log, note="; ".join(filter(None, (log.note, note))))


def _bounds(content: bytes) -> np.ndarray:
    """Where whole records begin, and where the last one ends."""
    offsets, unpack = [0], struct.Struct("<Q").unpack_from
    while (offset := offsets[-1]) + 16 <= len(content):
        (length,) = unpack(content, offset)
        if offset + 16 + length > len(content):
            break
        if len(offsets) > MOST_RECORDS:
            raise ValueError(f"it has more than {MOST_RECORDS} records")
        offsets.append(offset + 16 + length)
    bounds = np.array(offsets, dtype=np.int64)
    wrong = _damaged(np.frombuffer(content, dtype=np.uint8)[bounds[:-1, None] + np.arange(12)])
    return bounds[: wrong[0] + 1] if len(wrong) else bounds


def _damaged(rows: np.ndarray) -> np.ndarray:
    """Which rows do not end with the sum of the bytes before it."""
    return np.flatnonzero(_crc(rows[:, :-4]) != rows[:, -4:].copy().view("<u4")[:, 0])


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


def _decode_scalars(rows: np.ndarray, places: np.ndarray, events: Events) -> np.ndarray:
    """Add records of one length that have the bytes of a scalar of torch together; the places of the others."""
    single = np.ones(len(places), dtype=bool)
    plain = (rows[:, 0] == 9) & (rows[:, 9] == 16) & (rows[:, -FLOAT] == 0x15)
    long = np.argmax(rows[:, WALL : WALL + 10] < 128, axis=1) + 1  # bytes of the step
    for bytes_of_step in np.unique(long[plain]).tolist():
        of_length = np.flatnonzero(plain & (long == bytes_of_step))
        for tag, of_tag in _by_tag(rows[of_length], WALL + bytes_of_step):
            taken = of_length[of_tag]
            step = np.zeros(len(taken), dtype=np.int64)
            for place in range(bytes_of_step):
                step |= (rows[taken, WALL + place].astype(np.int64) & 127) << (7 * place)
            value = np.ascontiguousarray(rows[taken, 1 - FLOAT :]).view("<f4")[:, 0].astype(np.float64)
            events.add(tag, places[taken], step, value)
            single[taken] = False
    return places[single]


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


def _decode_record(record: bytes, place: int, events: Events) -> None:
    message = _parsed(_event(), record)
    if message.session.status == START:
        events.restarts.append((place, message.step))
    for value in message.summary.value:
        if value.metadata.plugin.name == "hparams":
            for entry in _parsed(_hparams(), value.metadata.plugin.content).start.hparams:
                for _, setting in entry.value.ListFields():
                    events.hparams.update(flat({entry.key: setting}))
        simple = [value.simple_value] * value.HasField("simple_value")
        for scalar in _scalar(value.tensor) if value.HasField("tensor") else simple:
            events.add(value.tag, np.array([place]), np.array([message.step]), np.array([float(scalar)]))


def _parsed(kind: Any, content: bytes) -> Any:
    """A message, empty where these bytes are none: long records have no checked sum."""
    try:
        return parsed(kind, content)
    except ValueError:
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


def _tables(events: Events) -> Iterator[Any]:
    """A table for each tag, without the points that a later restart takes back."""
    import pyarrow as pa

    if not events.points:
        yield pa.table({})  # of hparams alone
    for tag, pieces in events.points.items():
        place, step, value = (np.concatenate(column) for column in zip(*pieces, strict=True))
        for record, first in events.restarts:
            stay = (place > record) | (step < first)
            place, step, value = place[stay], step[stay], value[stay]
        order = np.argsort(place, kind="stable")
        yield pa.table({"step": step[order], tag: value[order]}) if tag != "step" else pa.table({"step": step[order]})
