"""An SVG with a hash as a comment at its end, by which damage shows: of itself, and of what it shows in words."""

from __future__ import annotations

import hashlib
import re

_HASH = re.compile(rb"<!-- sha256 of all above: ([0-9a-f]{64}) -->\n\Z")


def marked(image: bytes, of: str) -> bytes:
    """The image with its hash."""
    return image + b"<!-- sha256 of all above: %s -->\n" % _hash(image, of)


def unmarked(image: bytes, of: str) -> str:
    """What is wrong with an SVG that is to show `of`, "" where nothing is."""
    last = _HASH.search(image[-120:])
    if last is None:
        return "it has no hash at its end"
    return "" if _hash(image[: -len(last[0])], of) == last[1] else "its hash is not that of it and of the pack"


def _hash(image: bytes, of: str) -> bytes:
    return hashlib.sha256(image + of.encode()).hexdigest().encode()
