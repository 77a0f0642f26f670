"""The table of a comparison as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from normbench.draw.text import visible


def csv_table(answer: Mapping[str, Any] | None) -> bytes:
    """The rows of an answer, as its `as_json` has them, a line per cell; text that looks like a formula is quoted."""
    rows = [
        {"group": group["place"], **dict(_flat("", {key: item for key, item in row.items() if key != "seeds"}))}
        for group in (answer or {}).get("groups", ())
        for row in group["rows"]
    ]
    text = io.StringIO()
    columns = dict.fromkeys(key for row in rows for key in row)
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(map(_field, columns))
    writer.writerows([_field(row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode()


def _flat(name: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list | tuple):
        node = dict(zip(("low", "high"), node, strict=True))  # an interval
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _flat(f"{name}.{key}" if name else str(key), value)
    else:
        yield name, node


def _field(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
