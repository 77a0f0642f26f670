"""Hydra's override grammar: words such as `optim.lr=1e-3`, parsed, and the sweeps among them."""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from normbench.errors import NormbenchError
from normbench.stored import LABELS, RUN_GROUPS

if TYPE_CHECKING:  # imported late: commands that compose nothing do without it
    from hydra.core.override_parser.types import Override

COMMAND_GROUPS = ("launcher", "logger")  # where it runs and who else hears of it
GROUPS = (*RUN_GROUPS, *COMMAND_GROUPS)
PARTS = ("train", "eval", "monitor")  # of the root
SCALARS = ("seed", "device")
MOST_RUNS = 100_000  # of a sweep: listing them takes seconds; more are a slip of the keyboard
HOME = re.compile(r"(?<=[=,])~(?=/)")  # of norm=~/my_norm.py, which no shell replaces
KEY_OR_BRACE = re.compile(r"[{}]|[^{}()\[\],:=\s]+(?=\s*:)")
NO_NAME = re.compile(r"[^A-Za-z0-9_/.+-]")


def check_name(place: str, name: str) -> None:
    """NormbenchError for a name with characters that the grammar of commands has no place for."""
    if other := NO_NAME.search(name):
        raise NormbenchError(
            f"{place}: a name has letters a to z, digits, _, - and / alone, '{other[0]}' is none of them. Rename it."
        )


def parse(words: Sequence[str]) -> list[Override]:
    """Override words in Hydra's grammar; what cannot be parsed is one line naming the word."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    parsed = []
    for word in words:
        word = HOME.sub(os.path.expanduser("~"), word.removeprefix("++"))  # Hydra's ++ sets what is there
        if "${" in word:  # it would be resolved to nothing, or be taken for a name
            raise NormbenchError(f"'{word}': interpolations ${{...}} are not known here. Write the value.")
        try:
            override = _parse(word)
        except (HydraException, OmegaConfBaseException, RecursionError):
            group, _, name = word.partition("=")
            if group in (*GROUPS, *LABELS):
                check_name(word, re.sub(r"[\[\]{},]", "", name))  # what makes a list or a sweep is no name's
            raise NormbenchError(
                f"'{word}' is not an override: write key=value (lists as key=[a,b], quoted for the shell)."
            ) from None
        if not override.key_or_group:
            raise NormbenchError(f"'{word}' has no key: write key=value.")
        if override.is_delete() or override.is_add() or override.is_force_add() or override.package is not None:
            raise NormbenchError(f"'{word}': options are not added (+), removed (~) or moved (@). Write key=value.")
        _refuse_twice(word)
        parsed.append(override)
    return parsed


def _refuse_twice(word: str) -> None:
    """NormbenchError for a map with a key twice, of which Hydra would take the last."""
    keys: list[set[str]] = []  # of each map that is open
    for found in KEY_OR_BRACE.findall(word):
        if found == "{":
            keys.append(set())
        elif found == "}":
            keys = keys[:-1]
        elif keys and found in keys[-1]:
            of_weight = f", and {found}.weight for the layer's weight" if word.startswith("norm.sites=") else ""
            raise NormbenchError(f"'{word}' has {found} twice: give it once{of_weight}.")
        elif keys:
            keys[-1].add(found)


@functools.lru_cache(4096)
def _parse(word: str) -> Override:
    """Kept, since the runs of a plan share most of their words; an override's values are made anew when asked for."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(word)


def expand(overrides: Sequence[Override]) -> Iterator[list[Override]]:
    """All combinations of the sweeps in `overrides`, each once, in the order written."""
    axes = [_values_of(override) for override in overrides]
    if (combinations := math.prod(map(len, axes))) > MOST_RUNS:
        raise NormbenchError(f"a sweep over {combinations} combinations is too large: at most {MOST_RUNS} at once.")
    seen = set()
    for combination in itertools.product(*axes):
        words = tuple(o.input_line for o in combination)
        if words not in seen:
            seen.add(words)
            yield list(combination)


def chosen(overrides: Iterable[Override], group: str) -> list[str]:
    """The names that these choose of a group: one each, or several that are swept over."""
    return [str(one.value()) for o in overrides if o.key_or_group == group for one in _values_of(o)]


def _values_of(override: Override) -> list[Override]:
    """An override for each value of a sweep, else the one that it is."""
    if not override.is_sweep_override():
        return [override]
    from hydra.errors import HydraException

    word, key = override.input_line, override.key_or_group
    try:
        words = list(itertools.islice(override.sweep_string_iterator(), MOST_RUNS + 1))
    except (HydraException, ValueError, OverflowError):  # interval() and glob() have no list of values, nor steps of 0
        raise NormbenchError(f"'{word}' cannot be swept. Write the values: {key}=a,b or =range(...).") from None
    if not words:
        raise NormbenchError(f"'{word}' has no values: {key}=range(START,STOP) begins with START and ends before STOP.")
    if len(words) > MOST_RUNS:
        raise NormbenchError(f"'{word}' is too large a sweep: at most {MOST_RUNS} values at once.")
    return parse([f"{key}={one}" for one in words])
