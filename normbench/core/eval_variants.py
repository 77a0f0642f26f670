"""Variants of an evaluation: the same trained run with other values of its normalizers' options for evaluation.

A variant is a mapping from option to value, `{"configuration": "TTFF", "populations": "recalibrated"}`; the default
evaluation is the empty mapping. Records store the mapping; configurations and claims write it as words,
`option=value`, or a value alone where it identifies the option.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from normbench.errors import BadInput, unknown

Variant = Mapping[str, Any]
DEFAULT: Variant = MappingProxyType({})
Declared = Mapping[str, Sequence[Any]]  # the options that an evaluation may change, and their values


def text(variant: Variant) -> str:
    """`configuration=TTFF populations=recalibrated`; "" for the default one. Equal for equal variants."""
    return " ".join(f"{option}={value}" for option, value in sorted(variant.items()))


def parse(words: str, declared: Declared, place: str, of: str) -> dict[str, Any]:
    """The variant that the words of a configuration name; NormbenchError where nothing declared has one of them."""
    choices = {str(value): (option, value) for option, values in declared.items() for value in values}
    choices |= {f"{option}={value}": (option, value) for option, values in declared.items() for value in values}
    variant: dict[str, Any] = {}
    for word in words.split():
        if word not in choices:
            listed = [f"{option}={value}" for option, values in declared.items() for value in values]
            raise unknown(
                f"{place}: '{words}' is no way of evaluating {of}.", word, list(dict.fromkeys([*listed, *choices]))
            )
        option, value = choices[word]
        if option in variant:
            raise BadInput(f"{place}: '{words}' sets {option} twice.")
        variant[option] = value
    return variant


def matches(selector: str, variant: Variant) -> bool:
    """Whether the words of a claim name this variant: `option=pattern`, or a pattern of one value; a star is a letter.

    Alternatives stand between bars: `TT**|FF**`. Every option of the variant must be named.
    """
    options = tuple((option, str(value)) for option, value in variant.items())
    return any(_matches(alternative, options) for alternative in selector.split("|"))


@functools.lru_cache(4096)  # hundreds of runs have the same variants
def _matches(words: str, options: tuple[tuple[str, str], ...]) -> bool:
    left = dict(options)
    bare = []
    for word in words.split():
        option, equals, pattern = word.partition("=")
        if not equals:
            bare.append(word)
        elif not _fits(left.pop(option, None), pattern):
            return False
    for pattern in bare:
        hit = next((option for option, value in left.items() if _fits(value, pattern)), None)
        if hit is None:
            return False
        del left[hit]
    return not left


def _fits(value: str | None, pattern: str) -> bool:
    return value is not None and fnmatchcase(value, pattern.replace("*", "?"))


def select(selector: str, variants: Iterable[Variant]) -> list[Variant]:
    """Those of `variants` that the selector names, in their order."""
    return [variant for variant in variants if matches(selector, variant)]
