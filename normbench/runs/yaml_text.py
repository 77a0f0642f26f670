"""YAML as data: by libyaml where that is there, ten times as fast; runs that differ in their seed are read once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from normbench.reading import load_yaml as load

# config.yaml of a run: its id and further labels, and a configuration that begins with its seed and goes to the end
ID = re.compile(r"id: (?:'([0-9a-f]{12})'|((?=[0-9b]*[acdef])[0-9a-f]{12}))\n")  # without quotes some are numbers
LABELS = re.compile(r"(?:(?=[a-z])(?:(?!config:).*\n)*)?")  # nothing that belongs to the id before them
CONFIG = "config:\n  seed: "
SEED = re.compile(r"0|[1-9]\d{0,8}")
SECTION = re.compile(r"  (?!seed:)[a-z].*\n(?:(?!  [a-z])  .*\n)*")  # of a configuration: all that one key says
SHARED = re.compile(r"(?:^|[\s\[{,:-])[&*!]", re.M)  # an anchor, an alias or a tag; `lstm.*.input` is none
KEPT = 10_000  # configurations that are known at once


class Configurations:
    """Reads the files of many runs; what equal configurations hold is one object, not to be changed."""

    def __init__(self) -> None:
        self._labels: dict[str, Any] = {}  # by their text, without the id
        self._sections: dict[str, Any] = {}
        self._known: dict[str, Any] = {}  # configurations without their seed

    def load(self, text: str) -> Any:
        """The same value as `load`, of a configuration that was read before with the labels and the seed of this."""
        head, _, tail = text.partition(CONFIG)
        seed, _, rest = tail.partition("\n")
        if not tail or not SEED.fullmatch(seed) or not (head == "" or head.endswith("\n")):
            return load(text)
        found = ID.match(head)
        labels = head[found.end() :] if found else head
        try:
            if labels not in self._labels:
                _keep(self._labels, labels, LABELS, lambda text: load(text) or {})
            if rest not in self._known:
                self._keep_config(rest)
            own = {"id": found[1] or found[2]} if found else {}
            return {**own, **self._labels[labels], "config": {**self._known[rest], "seed": int(seed)}}
        except (yaml.YAMLError, TypeError):
            return load(text)  # a value goes on from one of them into the other, or it has another form

    def _keep_config(self, rest: str) -> None:
        found: dict[str, Any] = {}
        sections = SECTION.findall(rest)
        if "".join(sections) != rest:
            raise TypeError("it has another form")
        for section in sections:
            if section not in self._sections:
                _keep(self._sections, section, SECTION, lambda text: load(f"config:\n{text}")["config"])
            found |= self._sections[section]
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[rest] = found


def _keep(known: dict[str, Any], text: str, form: re.Pattern[str], make: Callable[[str], Any]) -> None:
    """Remember the value of a part. TypeError where the part is of another form, or tells what stands elsewhere."""
    if not form.fullmatch(text) or SHARED.search(text):
        raise TypeError("it is not to be read by itself")
    if len(known) >= KEPT:
        known.clear()
    known[text] = make(text)
