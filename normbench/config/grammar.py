"""Hydra's override grammar: words such as `optim.lr=1e-3`, parsed, and the sweeps among them.

Hydra parses what a user may write. The words of experiments' files, names, numbers, lists and maps, need no Hydra: who
judges published runs has none, and they are many.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from normbench.errors import BadInput
from normbench.files.stored import LABELS, RUN_GROUPS

COMMAND_GROUPS = ("launcher", "logger")  # where it runs and who else hears of it
GROUPS = (*RUN_GROUPS, *COMMAND_GROUPS)
PARTS = ("train", "eval", "monitor")  # of the root
SCALARS = ("seed", "device")
MOST_RUNS = 100_000  # of a sweep: listing them takes seconds; more are a slip of the keyboard
HOME = re.compile(r"(?<=[=,])~(?=/)")  # of norm=~/my_norm.py, which no shell replaces
KEY_OR_BRACE = re.compile(r"[{}]|[^{}()\[\],:=\s]+(?=\s*:)")
NO_NAME = re.compile(r"[^A-Za-z0-9_/.+-]")
PLAIN_KEY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
PLAIN_NAME = re.compile(r"[A-Za-z_][\w./*-]*", re.ASCII)
PLAIN_TOKEN = re.compile(r"""('[^'"\\]*')(?!\s*:)|[^][{}:,\s]+""")  # group 1: a text in quotes, which no key is
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Override:
    key_or_group: str
    input_line: str  # the word
    value: Callable[[], Any]  # makes it anew, since a configuration may change its lists and maps
    sweep: Any = None  # Hydra's override, if the word has several values

    def is_sweep_override(self) -> bool:
        return self.sweep is not None


def check_name(place: str, name: str) -> None:
    """NormbenchError for a name with characters that the grammar of commands has no place for."""
    if other := NO_NAME.search(name):
        raise BadInput(
            f"{place}: a name has letters a to z, digits, _, - and / alone, '{other[0]}' is none of them. Rename it."
        )


def parse(words: Sequence[str]) -> list[Override]:
    """Override words in Hydra's grammar; what cannot be parsed is one line naming the word."""
    parsed = []
    for word in words:
        word = HOME.sub(os.path.expanduser("~"), word.removeprefix("++"))  # Hydra's ++ sets what is there
        if "${" in word:  # it would be resolved to nothing, or be taken for a name
            raise BadInput(f"'{word}': interpolations ${{...}} are not known here. Write the value.")
        override = _plain(word) or _by_hydra(word)
        _refuse_twice(word)
        parsed.append(override)
    return parsed


def _refuse_twice(word: str) -> None:
    """NormbenchError for a map with a key twice, of which Hydra would take the last."""
    keys: list[set[str]] = []  # of each map that is open
    for token in KEY_OR_BRACE.findall(word):
        if token == "{":
            keys.append(set())
        elif token == "}":
            keys = keys[:-1]
        elif keys and token in keys[-1]:
            of_weight = f", and {token}.weight for the layer's weight" if word.startswith("norm.sites=") else ""
            raise BadInput(f"'{word}' has {token} twice: give it once{of_weight}.")
        elif keys:
            keys[-1].add(token)


@functools.lru_cache(4096)
def _plain(word: str) -> Override | None:
    """The override of a word that means the same in Hydra's grammar and, with its names in quotes, in JSON; or None.

    Kept, since the runs of a plan share most of their words.
    """
    key, _, text = word.partition("=")
    if not (PLAIN_KEY.fullmatch(key) and text.isprintable() and text == text.strip()):
        return None
    as_json = PLAIN_TOKEN.sub(_token_as_json, text)
    try:
        json.loads(as_json)
    except (ValueError, RecursionError):
        return None
    return Override(key, word, functools.partial(json.loads, as_json))


def _token_as_json(match: re.Match[str]) -> str:
    token = match[0]
    if token.lower() in ("true", "false", "null"):
        return token.lower()
    if NUMBER.fullmatch(token):
        return token
    if PLAIN_NAME.fullmatch(token) and token.lower() not in ("nan", "inf"):
        return f'"{token}"'
    return json.dumps(token[1:-1]) if match[1] else "?"  # which is no JSON


@functools.lru_cache(4096)
def _by_hydra(word: str) -> Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    parsed = None
    with suppress(HydraException, OmegaConfBaseException, RecursionError):
        parsed = OverridesParser.create().parse_override(word)
    if parsed is None or not parsed.key_or_group:
        group, _, name = word.partition("=")
        if group in (*GROUPS, *LABELS):
            check_name(word, re.sub(r"[\[\]{},]", "", name))  # what makes a list or a sweep is no name's
        raise BadInput(f"'{word}' is not an override: write key=value (lists as key=[a,b], quoted for the shell).")
    if parsed.is_delete() or parsed.is_add() or parsed.is_force_add() or parsed.package is not None:
        raise BadInput(f"'{word}': options are not added (+), removed (~) or moved (@). Write key=value.")
    return Override(parsed.key_or_group, word, parsed.value, parsed if parsed.is_sweep_override() else None)


def expand(overrides: Sequence[Override]) -> Iterator[list[Override]]:
    """All combinations of the sweeps in `overrides`, each once, in the order written."""
    axes = [_values_of(override) for override in overrides]
    if (combinations := math.prod(map(len, axes))) > MOST_RUNS:
        raise BadInput(f"a sweep over {combinations} combinations is too large: at most {MOST_RUNS} at once.")
    by_words = {tuple(o.input_line for o in combination): combination for combination in itertools.product(*axes)}
    yield from map(list, by_words.values())


def chosen(overrides: Iterable[Override], group: str) -> list[str]:
    """The names that these choose of a group: one each, or several that are swept over."""
    return [str(value.value()) for o in overrides if o.key_or_group == group for value in _values_of(o)]


def chosen_at_sites(overrides: Iterable[Override]) -> list[str]:
    """The names of normalizers in maps of norm.sites."""
    values = [value.value() for o in overrides if o.key_or_group == "norm.sites" for value in _values_of(o)]
    entries = [entry for sites in values if isinstance(sites, dict) for entry in sites.values()]
    return [str(entry.get("name", "") if isinstance(entry, dict) else entry) for entry in entries]


def _values_of(override: Override) -> list[Override]:
    """An override for each value of a sweep, else the one that it is."""
    if not override.is_sweep_override():
        return [override]
    from hydra.errors import HydraException

    word, key = override.input_line, override.key_or_group
    try:
        words = list(itertools.islice(override.sweep.sweep_string_iterator(), MOST_RUNS + 1))
    except (HydraException, ValueError, OverflowError):  # interval() and glob() have no list of values, nor steps of 0
        raise BadInput(f"'{word}' cannot be swept. Write the values: {key}=a,b or =range(...).") from None
    if not words:
        raise BadInput(f"'{word}' has no values: {key}=range(START,STOP) begins with START and ends before STOP.")
    if len(words) > MOST_RUNS:
        raise BadInput(f"'{word}' is too large a sweep: at most {MOST_RUNS} values at once.")
    return parse([f"{key}={value}" for value in words])
