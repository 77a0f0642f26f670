"""JSON for a browser: without NaN, without hidden characters, safe inside a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from normbench.draw.text import visible


def json_safe(value: Any) -> Any:
    """Values in which hidden characters of all texts are replaced."""
    if isinstance(value, Mapping):
        return {visible(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    return visible(value)


def dumped(value: Any) -> str:
    """Compact JSON that cannot end a script element; non-finite numbers are null."""
    text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
