"""Readers of logs that are tables: CSV, Parquet, JSON lines, trainer_state.json."""

from __future__ import annotations

import csv as csv_file
import gzip
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any

from normbench.errors import NormbenchError
from normbench.imports import ours
from normbench.imports.log import LARGEST, Log, refuse
from normbench.runs import exported

NEPTUNE = {"run_id", "attribute_path", "attribute_type", "step", "float_value"}
HEAD = 1 << 16  # bytes in which the form of a CSV file is found
BLANK = {"keras": ["", "NA"]}  # what tools write for nothing


def read_csv(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """Comma, semicolon or tab; a last line without its end is lost, for nobody knows whether its number is whole."""
    import pyarrow as pa
    from pyarrow import csv

    content = _unpacked(content, path)
    whole = content[: content.rfind(b"\n") + 1]
    head = whole[:HEAD].decode("utf-8-sig", "replace")
    first = whole.partition(b"\n")[0].decode("utf-8-sig", "replace").rstrip("\r")
    mark = max(",;\t", key=first.count)
    try:
        names = next(csv_file.reader([first], delimiter=mark), [])
        whole.partition(b"\n")[0].decode()
    except (csv_file.Error, UnicodeDecodeError) as error:
        raise refuse(path, f"has no line of column names: {error}.") from None
    if not any(names):
        raise refuse(path, "has no whole line of column names.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise refuse(path, f"has two columns '{twice[0]}'.")
    comma = mark == ";" and re.search(r"[;\n]-?\d+,\d", head) and not re.search(r"[;\n]-?\d+\.\d", head)
    is_ours = exported.is_export(names) and declared != "csv"
    source = "export" if is_ours else declared or _csv_source(names)
    try:
        table = csv.read_csv(
            pa.BufferReader(whole),
            read_options=csv.ReadOptions(block_size=max(len(whole), 1 << 16)),  # one block: types are those of all rows
            parse_options=csv.ParseOptions(delimiter=mark),
            convert_options=csv.ConvertOptions(
                null_values=BLANK.get(source, [""]),
                strings_can_be_null=True,
                decimal_point="," if comma else ".",
                column_types=exported.TYPES if is_ours else None,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise refuse(path, f"is no table: {error}".replace("CSV parse error: ", "")) from None
    if is_ours:
        return ours.read_table(table, path, log, len(content) - len(whole))
    return Log(source=source, tables=[table], lost=len(content) - len(whole), **log)


def _csv_source(names: list[str]) -> str:
    """Of Keras' CSVLogger the first column is epoch, and a metric stands beside its val_."""
    return "keras" if names[0] == "epoch" and any(f"val_{name}" in names for name in names) else "csv"


def read_parquet(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise refuse(path, f"is no Parquet file, or is cut: {error}") from None
    if exported.is_export(table.column_names) and declared != "parquet":
        return ours.read_table(table, path, log)
    source = declared or ("neptune" if {*table.column_names} >= NEPTUNE else "parquet")
    return Log(source=source, tables=[table], **log)


def read_lines(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """JSON lines; a last line that was cut is lost."""
    import pyarrow as pa
    from pyarrow import json as arrow

    content = _unpacked(content, path).removeprefix(b"\xef\xbb\xbf")
    whole = content
    if not content.endswith(b"\n"):
        try:
            json.loads(content[content.rfind(b"\n") + 1 :])
        except ValueError:
            whole = content[: content.rfind(b"\n") + 1]
    try:
        options = arrow.ReadOptions(block_size=max(len(whole), 1 << 16))
        parse = arrow.ParseOptions(newlines_in_values=False)
        table = arrow.read_json(pa.BufferReader(whole), read_options=options, parse_options=parse)
    except pa.ArrowException:  # NaN, or a text among numbers
        table = rows_table([_row(line, number, path) for number, line in enumerate(whole.splitlines(), 1) if line])
    return Log(source="jsonl", tables=[table], lost=len(content) - len(whole), **log)


def _row(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"line {number} is no JSON: {error}.") from None
    if not isinstance(row, dict):
        raise refuse(path, f"line {number} must be an object.")
    return row


def read_trainer_state(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    """Hugging Face's `log_history`, without its summary of the training, a mean that is no curve."""
    try:
        rows = json.loads(content)["log_history"]
        table = rows_table([dict(row) for row in rows if "train_runtime" not in row])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise refuse(path, "has no log_history, or is cut.") from None
    return Log(source="huggingface", tables=[table], **log)


def rows_table(rows: list[dict[str, Any]]) -> Any:
    """A table of rows with different keys; what is not there is null. A column of several types is one of texts."""
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: column([row.get(name) for row in rows]) for name in names})


def column(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowException, OverflowError):
        return pa.array([value if value is None else str(value) for value in values])


def _unpacked(content: bytes, path: Path) -> bytes:
    """What a gzip file holds, as far as it goes."""
    if content[:2] != b"\x1f\x8b":
        return content
    found = bytearray()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        try:
            while (part := file.read(1 << 20)) and len(found) <= LARGEST:
                found += part
        except EOFError:  # cut: its whole lines count
            pass
        except (OSError, zlib.error) as error:
            raise refuse(path, f"cannot be unpacked: {error}.") from None
    if len(found) > LARGEST:
        raise NormbenchError(f"{path} unpacks to more than {LARGEST >> 30} GiB.")
    return bytes(found)
