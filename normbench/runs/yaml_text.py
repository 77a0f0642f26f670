"""YAML as data: by libyaml where that is there, ten times as fast; what says the same in many files is read once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEEPEST = 1000  # libyaml's loader goes down by recursion, and has no limit of its own
BLOCK = re.compile(r"[-?:](?:\s|$)")  # what can begin a level in the middle of a line
SECTION = re.compile(r"(\w+:)((?: (?=\S).*)?)\n((?:(?: |- ).*\n)*)")  # a key, what stands beside it and below
INDENTED = re.compile(r"(?:  .*\n)+")
KEPT = 10_000  # sections that are known at once
SHARED = re.compile(r"(?:^|[\s\[{,:-])[&*!]", re.M)  # an anchor, an alias or a tag; `lstm.*.input` is none


def load(text: str) -> Any:
    """The value of one document, as `yaml.safe_load`. Raises yaml.YAMLError, ValueError, RecursionError."""
    if (
        max((len(line) - len(line.lstrip(" ")) + len(BLOCK.findall(line)) for line in text.splitlines()), default=0)
        + (text.count("[") + text.count("{"))
        > DEEPEST
    ):
        raise yaml.YAMLError("it may be nested too deeply")
    return yaml.load(text, FAST)


class Sections:
    """Reads documents that agree in most of their sections; equal sections are one object, not to be changed."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def load(self, text: str) -> Any:
        """The same value as `load`, the mappings at the top and one below it section by section."""
        if any(sign in text for sign in "&*!") and SHARED.search(text):
            return load(text)
        return self._mapping(text, lambda below: self._mapping(below, self._section))

    def _section(self, text: str) -> Any:
        if text not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[text] = load(text)
        return self._known[text]

    def _mapping(self, text: str, below: Callable[[str], Any]) -> Any:
        """A block mapping of plain keys; `below` reads the mapping under one of them."""
        sections = list(SECTION.finditer(text))
        if not sections or sum(map(len, map(re.Match.group, sections))) != len(text):
            return self._section(text)
        found: dict[str, Any] = {}
        try:
            for section in sections:
                first, value, rest = section.groups()
                if rest and not value and INDENTED.fullmatch(rest):
                    (key,) = self._section(f"{first}\n")  # YAML reads some words as numbers or truth values
                    found[key] = below(rest.replace("\n  ", "\n")[2:])
                else:
                    found.update(self._section(section[0]))
        except yaml.YAMLError:
            return load(text)  # a value that goes on in what looks like the next section
        return found
