"""Cuts tables into the parts of runs: by path, id, columns, the long and the wide form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normbench.errors import unknown
from normbench.imports.log import Log, refuse
from normbench.imports.map_keys import Label, Long, Map, text
from normbench.imports.words import excerpt, guess_of, is_blank, number_of


@dataclass(frozen=True)
class Part:
    """Rows of one run; `names`: the columns that may be series. `groups`: named ones of a column of the wide form."""

    key: str
    log: Log
    table: Any
    names: Sequence[str]
    groups: Mapping[str, str] = field(default_factory=dict)
    values: str = ""  # of the long form: the column that has the values of its one name


def parts(logs: Sequence[Log], map: Map) -> list[Part]:
    """Errors name a column that is not there, or a path that the regular expression does not find."""
    return [part for log in logs for table in log.tables for part in _of_table(log, table, map)]


def _of_table(log: Log, table: Any, map: Map) -> Iterator[Part]:
    if map.columns:
        yield from _wide(log, table, map.columns)
        return
    columns = [*map.run] if isinstance(map.run, tuple) else []
    for name in columns:
        check_column(log, table, name)
    for values, rows in groups(table, columns):
        key = json.dumps(values) if columns else _key(log, map)
        if map.long:
            yield from _long(log, rows, map.long, key)
        else:
            yield Part(key, log, rows, rows.column_names)


def _key(log: Log, map: Map) -> str:
    if map.run == "run_id":
        return log.run or log.path
    return found_in(log.path, str(map.run.path), "run") if isinstance(map.run, Label) else log.path


def found_in(path: str, pattern: str, role: str) -> str:
    """The first group of a regular expression in a path, or all that it matches."""
    match = re.search(pattern, path)
    if not match:
        raise refuse(path, f"{role}: path: '{pattern}' is not found in it.")
    return match[1] if match.re.groups else match[0]


def check_column(log: Log, table: Any, name: str) -> None:
    if name not in table.column_names:
        raise unknown(f"{log.file['path']}: '{name}' is not a column.", name, table.column_names)


def check_long(log: Log, table: Any, long: Long) -> None:
    for name in (long.name, long.value):
        check_column(log, table, name)


def as_numbers(column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A column as float64, where it has a number, and where it has something else; a blank is neither."""
    import pyarrow as pa

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        numbers = [*map(number_of, texts), None]  # the last is that of null
        others = [*(number_of(text) is None and not is_blank(text) for text in texts), False]
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        values = np.array([np.nan if number is None else number for number in numbers])
        valid = np.array([number is not None for number in numbers])
        return values[codes], valid[codes], np.array(others)[codes]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    try:
        values = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return np.full(len(column), np.nan), np.zeros(len(column), dtype=bool), valid
    return values, valid, np.zeros(len(column), dtype=bool)


def first_other(log: Log, name: str) -> str:
    """What the first place of a column that has no number has, in words: "text '50 %' in row 3 (a percentage?)"."""
    for table in log.tables:
        if name in table.column_names and (places := np.flatnonzero(as_numbers(table.column(name))[2])).size:
            value = table.column(name)[int(places[0])].as_py()
            quoted = f"text {excerpt(value)}" if isinstance(value, str) else excerpt(str(value))
            hint = guess_of(value, name) if isinstance(value, str) else ""
            return f"{quoted} in row {places[0] + 1}{hint}"
    return ""


def groups(table: Any, columns: Sequence[str]) -> Iterator[tuple[list[str], Any]]:
    """The rows with the same values in these columns, in their order."""
    if not columns:
        yield [], table
        return
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in columns:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        column_codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + column_codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    table, starts = table.take(order), np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, end in zip(starts, [*starts, len(order)][1:], strict=True):
        rows = table.slice(start, end - start)
        yield [text(rows.column(name)[0].as_py()) for name in columns], rows


def _long(log: Log, table: Any, long: Long, key: str) -> Iterator[Part]:
    """A part for each name, in which the column of values has this name."""
    check_long(log, table, long)
    if not table.num_rows:
        yield Part(key, log, table, [])
    for (name,), rows in groups(table, [long.name]):
        yield Part(key, log, rows, [name], values=long.value)


def _wide(log: Log, table: Any, pattern: str) -> Iterator[Part]:
    """A part for each column that the regular expression finds; its run is named by the groups."""
    matches = {name: match for name in table.column_names if (match := re.search(pattern, name))}
    if not matches:
        raise unknown(f"{log.file['path']}: no column fits columns: '{pattern}'.", pattern, table.column_names)
    shared = [name for name in table.column_names if name not in matches]
    for name, match in matches.items():
        groups = {key: value or "" for key, value in match.groupdict().items()}
        key = json.dumps([value for kind, value in groups.items() if kind not in ("metric", "split")])
        yield Part(key, log, table.select([*shared, name]), [name], groups)
