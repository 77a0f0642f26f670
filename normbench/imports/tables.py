"""Readers of logs that are tables: CSV, Parquet, JSON lines, trainer_state.json."""

from __future__ import annotations

import csv as csv_file
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench.files import reading
from normbench.imports.log import UNPACKED, Log, check_size, leaves, refuse
from normbench.imports.words import CLOCKS, excerpt, number_of

MOST_TEXT = 1 << 30  # bytes of Parquet's texts
HEAD = 1 << 16  # bytes in which the form of a CSV file is found
BEFORE_HEADER = re.compile(r"\s*#|sep=.$")  # a comment; what Excel reads as the separator


def read_csv(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """Comma, semicolon or tab; a last row that has all its fields counts, with or without an end of its line."""
    import pyarrow as pa
    from pyarrow import csv

    content, is_cut = _unpacked(content, path)
    header = _header(content, path)
    body, lost, notes = _whole_rows(content[header.end :], header, is_cut)
    check_size(path, body.count(b"\n"), len(header.names))
    head = body[:HEAD]
    has_commas, has_points = (re.search(rb"(^|[;\n])-?\d+" + mark + rb"\d", head) for mark in (b",", rb"\."))
    comma = bool(header.mark == ";" and has_commas and not has_points)
    has_val = any(f"val_{name}" in header.names for name in header.names)
    source = declared or ("keras" if header.names[0] == "epoch" and has_val else "csv")  # of Keras' CSVLogger
    read_options = csv.ReadOptions(
        column_names=header.names,
        block_size=max(len(body), 1 << 16),  # one block: types are those of all rows
        use_threads=False,  # an error names its row
    )
    convert_options = csv.ConvertOptions(
        null_values=["", "NA"] if source == "keras" else [""],
        strings_can_be_null=True,
        decimal_point="," if comma else ".",
    )
    parse_options = csv.ParseOptions(delimiter=header.mark)
    try:
        if body.strip():
            table = csv.read_csv(pa.BufferReader(body), read_options, parse_options, convert_options)
        else:
            table = pa.table({name: pa.nulls(0) for name in header.names})
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise refuse(path, f"is no table: {_unequal_row(body, header) or error}") from None
    table = _trimmed(table, header.is_padded, comma)
    return Log(source=source, tables=[table], lost=lost, note="; ".join([*header.notes, *notes]), **log)


@dataclass(frozen=True)
class Header:
    """The column names of a CSV file, their line as it stands, its number, and where the rows behind it begin."""

    names: list[str]
    mark: str
    line: bytes
    number: int
    end: int
    is_padded: bool
    notes: list[str]


def _header(content: bytes, path: Path) -> Header:
    """The first line that is neither blank nor a comment; or the last comment, where numbers follow it."""
    comments: list[tuple[str, int, int]] = []  # each with its place
    end = 0
    while True:
        start, end = end, content.find(b"\n", end) + 1
        text = content[start:end].decode("utf-8" if start else "utf-8-sig").rstrip("\r\n")
        if BEFORE_HEADER.match(text):
            comments.append((text, start, end))
        elif text.strip() or not end:
            break
    mark = max(",;\t", key=text.count)
    names = _fields(text, mark)
    if comments and any(number_of(name) is not None for name in names):  # numpy.savetxt: the header is a comment
        text, start, end = comments.pop()
        names = _fields(text.lstrip("# "), mark)
    is_padded = any(name != name.strip() for name in text.split(mark))
    stripped = [name.strip() for name in names]
    if not any(stripped):
        raise refuse(path, "has no column names: its first line must have them, such as step,loss.")
    _check_names(stripped, path)
    notes = []
    if comments:
        lines = f"{len(comments)} lines" if len(comments) > 1 else "1 line"
        notes = [f"{lines} before the header skipped: {excerpt(comments[0][0])}"]
    number = content.count(b"\n", 0, end)
    return Header(stripped, mark, content[start:end], number, end, is_padded, notes)


def _whole_rows(body: bytes, header: Header, is_cut: bool) -> tuple[bytes, int, list[str]]:
    """The rows without a cut last one and without the header again; how many bytes are lost; what is said of both."""
    notes, lost = [], 0
    last = body[body.rfind(b"\n") + 1 :]
    text = last.decode("utf-8", "replace").strip()
    if text:
        fields = _fields(text, header.mark)
        if is_cut or len(fields) != len(header.names):
            notes, lost = [f"the last row, {excerpt(text)}, is cut and left out"], len(last)
            body = body[: len(body) - lost]
        elif last.strip() != header.line.strip() and not text.endswith('"'):  # its last number may be cut
            clock = next((place for place, name in enumerate(header.names) if name.lower() in CLOCKS), None)
            where = excerpt(text) if clock is None else f"{header.names[clock].lower()} {fields[clock].strip()}"
            notes = [f"the last row, {where}, has no end of its line: it counts"]
    if body and not body.endswith(b"\n"):
        body += b"\n"
    if header.line not in body:
        return body, lost, notes
    again = re.compile(rb"^" + re.escape(header.line), re.MULTILINE)
    if first := again.search(body):
        line = header.number + 1 + body.count(b"\n", 0, first.start())
        notes.append(f"line {line} is the header again: skipped")
    return again.sub(b"\n", body), lost, notes  # readers skip blank lines


def _fields(line: str, mark: str) -> list[str]:
    try:
        return next(csv_file.reader([line], delimiter=mark, strict=True, skipinitialspace=True), [])
    except csv_file.Error:  # a quote is open
        return []


def _trimmed(table: Any, is_padded: bool, comma: bool) -> Any:
    """Columns that have texts, without padding, and with points in the numbers beside the texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, name in enumerate(table.column_names):
        column = table.column(name)
        if pa.types.is_string(column.type) and (is_padded or comma):
            column = pc.utf8_trim_whitespace(column)
            if comma:
                column = pc.replace_substring_regex(column, r"^(-?\d+),(\d+)", r"\1.\2")
            table = table.set_column(place, name, column)
    return table


def _unequal_row(body: bytes, header: Header) -> str:
    """The first row with another number of columns, "" where there is none. It is not quoted: it may be a secret."""
    reader = csv_file.reader(io.StringIO(body.decode("utf-8", "replace"), newline=""), delimiter=header.mark)
    try:
        for row in reader:
            if row and len(row) != len(header.names):
                line = header.number + reader.line_num
                is_names = all(number_of(field) is None for field in row)
                hint = " (names of columns, as of another run?)" if is_names else ""
                return f"line {line} has {len(row)} columns, the first {len(header.names)}{hint}."
    except csv_file.Error as error:
        return f"line {header.number + reader.line_num}: {error}."
    return ""


def read_parquet(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    import pyarrow as pa

    try:
        table, note = _parquet_table(content, path)
        table.validate(full=True)  # texts may be no UTF-8
    except (pa.ArrowException, OSError) as error:
        raise refuse(path, f"is no Parquet file, or is cut: {error}") from None
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()  # `train.loss` of {"train": {"loss": ...}}
    _check_names(table.column_names, path)
    return Log(source=declared or "parquet", tables=[_decoded(table, path)], note=note, **log)


def _parquet_table(content: bytes, path: Path) -> tuple[Any, str]:
    """The table without lists, with each text stored once, and a note about what is left out.

    Equal values take no space in a file, whatever their number: 5 MB can be 8 GB. So rows and columns are counted
    first. The number of values in a list is not known before it is read (pyarrow's metadata of single columns ends the
    process where a file is damaged).
    """
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(content))
    head = file.metadata
    check_size(path, head.num_rows, head.num_columns)
    _check_text(sum(head.row_group(number).total_byte_size for number in range(head.num_row_groups)), path)
    names = file.schema_arrow.names
    _check_names(names, path)
    leaves = [file.schema.column(number) for number in range(head.num_columns)]
    lists = {leaf.path.partition(".")[0] for leaf in leaves if leaf.max_repetition_level}
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    file = parquet.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
    return file.read(columns=[name for name in names if name not in lists]), _left_out(lists)


def _decoded(table: Any, path: Path) -> Any:
    """Columns whose texts are stored once, as texts in each row; refused where these would not fit into memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for place, field in enumerate(table.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column = table.column(place)
        if pa.types.is_string(field.type.value_type) or pa.types.is_binary(field.type.value_type):
            lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
            size += sum(pc.sum(rows).as_py() or 0 for rows in lengths)
        _check_text(size, path)
        table = table.set_column(place, field.name, column.cast(field.type.value_type))
    return table


def _check_text(size: int, path: Path) -> None:
    if size > MOST_TEXT:
        raise refuse(path, f"unpacks to more than {MOST_TEXT >> 20} MiB.")


def read_lines(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """JSON lines, `train.loss` of objects in objects; a last line that was cut is lost.

    Arrow's parser is not used: it recurses without a limit.
    """
    content, _ = _unpacked(content, path)
    content = content.removeprefix(b"\xef\xbb\xbf")
    if b'"began":' in content.partition(b"\n")[0]:
        raise refuse(path, "is a pack of normbench, which judge --runs and reproduce --from read.")
    lost, note = 0, ""
    if not content.endswith(b"\n"):
        last = content[content.rfind(b"\n") + 1 :]
        try:
            json.loads(last)
        except (ValueError, RecursionError):
            lost, note = len(last), f"the last line, {excerpt(last.decode('utf-8', 'replace'))}, is cut and left out"
    lines = enumerate(content[: len(content) - lost].splitlines(), 1)
    table, left_out = _without_lists(rows_table((_row(line, number, path) for number, line in lines if line), path))
    note = "; ".join(filter(None, [left_out, note]))
    return Log(source="jsonl", tables=[table], lost=lost, note=note, **log)


def _without_lists(table: Any) -> tuple[Any, str]:
    import pyarrow as pa

    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    return table.drop_columns(lists), _left_out(lists)


def _left_out(lists: Iterable[str]) -> str:
    names = ", ".join(sorted(lists))
    return f"columns of lists are left out: {names}" if names else ""


def _check_names(names: Sequence[str], path: Path) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise refuse(path, f"has two columns '{twice[0]}'.")


def _row(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        row = _parsed(line)
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"line {number} is no JSON that is read: {error}.") from None
    if not isinstance(row, dict):
        raise refuse(path, f"line {number} must be an object.")
    return dict(leaves(row))


def _parsed(text: bytes) -> Any:
    """A JSON value, in which NaN is a number."""
    try:
        return reading.parse(text)
    except ValueError:
        value = json.loads(text)
        reading.check(value)
        return value


def read_trainer_state(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """Hugging Face's `log_history`, without its summary of the training, a mean that is no curve."""
    try:
        rows = json.loads(content)["log_history"]
        table, note = _without_lists(rows_table((dict(row) for row in rows if "train_runtime" not in row), path))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise refuse(path, "has no log_history, or is cut.") from None
    return Log(source="huggingface", tables=[table], note=note, **log)


def rows_table(rows: Iterable[dict[str, Any]], path: Path) -> Any:
    """A table of rows with different keys; what is not there is null. A column of several types is one of texts."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    count = 0
    for row in rows:
        for name, value in row.items():
            values = columns.setdefault(name, [])
            if len(values) < count:
                values += [None] * (count - len(values))
            values.append(value)
        count += 1
        check_size(path, count, len(columns))
    return pa.table({name: column(values + [None] * (count - len(values))) for name, values in columns.items()})


def column(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowException, OverflowError):
        return pa.array([value if value is None else str(value) for value in values])


def _unpacked(content: bytes, path: Path) -> tuple[bytes, bool]:
    """What a gzip file holds, as far as it goes, and whether it is cut."""
    is_packed, is_cut = content[:2] == b"\x1f\x8b", False
    unpacked = bytearray() if is_packed else content
    if is_packed:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            try:
                while (part := file.read1(1 << 20)) and len(unpacked) <= UNPACKED:
                    unpacked += part
            except EOFError:  # its whole lines count
                is_cut = True
    if len(unpacked) > UNPACKED:
        raise refuse(path, f"has more than {UNPACKED >> 20} MiB of text.")
    return bytes(unpacked), is_cut
