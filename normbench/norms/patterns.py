"""Patterns of dotted paths: `lstm`, `lstm.*.cell`, `hidden.0`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from normbench.errors import BadInput, unknown

MOST = 12  # names in an error


def matches(pattern: str, path: str) -> bool:
    """A prefix selects all below it; `*` stands for one part: `lstm`, `lstm.*.cell`, `hidden.0`."""
    parts, names = pattern.split("."), path.split(".")
    return len(parts) <= len(names) and all(fnmatchcase(n, p) for p, n in zip(parts, names, strict=False))


def prefixes(chosen: Collection[str], paths: Collection[str]) -> list[str]:
    """The shortest prefixes that together select the chosen ones of these paths, and no others but those below them."""
    shortest: dict[str, None] = {}
    for path in chosen:
        parts = path.split(".")
        starts = (".".join(parts[: i + 1]) for i in range(len(parts)))
        alone = (start for start in starts if all(p in chosen for p in paths if matches(start, p)))
        shortest[next(alone, path)] = None
    return list(shortest)


def _specificity(pattern: str) -> tuple[int, int]:
    parts = pattern.split(".")
    return len(parts), sum("*" not in part and "?" not in part and "[" not in part for part in parts)


def match_patterns(
    place: str, model: str, noun: str, patterns: Iterable[str], paths: Collection[str]
) -> dict[str, str]:
    """The most specific pattern that matches each path; paths without a match do not appear.

    Errors, beginning with `place`: a pattern without a path, two patterns equally specific.
    """
    chosen: dict[str, str] = {}
    # the most specific first: a tie between patterns matters only where neither loses to a third
    for pattern in sorted(patterns, key=_specificity, reverse=True):
        hits = [path for path in paths if matches(pattern, path)]
        if not hits:
            prefixes = {path.rsplit(".", i)[0] for path in paths for i in range(path.count(".") + 1)}
            shapes = [*dict.fromkeys(re.sub(r"\.\d+(?=\.|$)", ".*", path) for path in paths)]
            listing = f"it has {', '.join(shapes)}" if len(shapes) <= MOST < len(prefixes) else ""
            raise unknown(f"{place}: {model} has no {noun} '{pattern}'.", pattern, sorted(prefixes), listing)
        for path in hits:
            other = chosen.setdefault(path, pattern)
            if other != pattern and _specificity(other) == _specificity(pattern):
                raise BadInput(f"{place}: '{other}' and '{pattern}' both match {noun} '{path}' of {model}.")
    return chosen
