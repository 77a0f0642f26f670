"""The examples of what `--json` prints in each command's help, and the keys that an answer shares with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

START = "--json prints, shortened"


def examples(command: str) -> list[Any]:
    """The JSON values in the command's help, one for each form of its answer."""
    text = (
        import_module(f"normbench.commands.{command.replace('-', '_')}").EPILOG.partition(START)[2].partition("\n")[2]
    )
    found = []
    for start, line in _lines(text):
        if line.startswith(("  {", "  [")):
            found.append(json.JSONDecoder().raw_decode(text, start + 2)[0])
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with the place where it starts."""
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, line
        start += len(line)


def check(command: str, answers: Sequence[Any]) -> None:
    """The keys of all answers together are those of the examples."""
    forms = examples(command)
    used = {_form(answer, forms) for answer in answers}
    for number in used:
        own = [answer for answer in answers if _form(answer, forms) == number]
        written = {place for answer in own for place in keys(answer, forms[number])}
        assert written == {*keys(forms[number], forms[number])}, command


def _form(answer: Any, forms: Sequence[Any]) -> int:
    """The number of the example that has all its keys."""
    if isinstance(answer, list):
        return 0
    (number,) = [number for number, form in enumerate(forms) if answer.keys() <= form.keys()]
    return number


def keys(value: Any, example: Any, place: str = "") -> Iterator[str]:
    """The places of the keys in a value, as deep as the example goes: what is empty there has any."""
    if isinstance(value, dict) and example:
        for key, item in value.items():
            yield f"{place}.{key}"
            yield from keys(item, example.get(key), f"{place}.{key}")
    elif isinstance(value, list) and example:
        for item in value:
            yield from keys(item, example[0], f"{place}[]")
