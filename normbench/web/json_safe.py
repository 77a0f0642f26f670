"""JSON for a browser: without NaN, without hidden characters, safe inside a script."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from normbench.draw.text import visible


def json_safe(value: Any) -> Any:
    """Values for JSON: non-finite numbers are null, hidden characters of texts are replaced."""
    if isinstance(value, Mapping):
        return {visible(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return visible(value)


def dumped(value: Any) -> str:
    """Compact JSON that cannot end a script element; non-finite numbers are null."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # rare, and looking for NaN first takes longer than the JSON
        text = json.dumps(json_safe(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
