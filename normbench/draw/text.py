"""Text in tables, figures and pages: invisible characters, and those that turn the direction, become U+FFFD."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Mapping, Sequence, Set
from typing import Any

# control, format (bidirectional overrides among them), private, lone surrogates, unassigned
HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn"}


def hidden(character: str) -> bool:
    """Whether a character is invisible, or changes the display of others."""
    return unicodedata.category(character) in HIDDEN


def visible(value: Any) -> Any:
    """`value`, a string without hidden characters; line breaks and tabs become spaces. Others as they are."""
    if not isinstance(value, str) or value.isprintable():  # as nearly every text: then nothing in it is hidden
        return value
    one_line = " ".join(value.split()) if any(c in value for c in "\n\t\r") else value
    return "".join("\ufffd" if hidden(c) else c for c in one_line)


def visible_lines(text: str) -> str:
    """Text of several lines without hidden characters, and none that steer a terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))


def cut(text: str, most: int) -> str:
    """At most so many characters, but 8: both ends, for names begin alike or end alike."""
    most = max(most, 8)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"


def told_apart(names: Sequence[str], most: int) -> list[str]:
    """Names of words, each of at most so many characters: of a longer one its first word and those that tell it from
    all others, with … for gaps, and as many more as there is room for; else without gaps, its longest words cut."""
    having: dict[str, set[int]] = {}
    for place, name in enumerate(names):
        for word in name.split(" "):
            having.setdefault(word, set()).add(place)
    return [name if len(name) <= most else _telling(name.split(" "), having, most) for name in names]


def _telling(words: list[str], having: Mapping[str, set[int]], most: int) -> str:
    chosen, rivals = {0}, having[words[0]]
    rare = sorted(range(len(words)), key=lambda place: len(having[words[place]]))
    while more := [place for place in rare if place not in chosen and not rivals <= having[words[place]]]:
        chosen.add(best := min(more, key=lambda place: len(rivals & having[words[place]])))
        rivals = rivals & having[words[best]]
    for place in rare:
        if len(_with_gaps(words, chosen | {place})) <= most:
            chosen.add(place)
    if len(text := _with_gaps(words, chosen)) <= most:
        return text
    left = [words[place] for place in sorted(chosen)]
    while (excess := len(text := " ".join(left)) - most) > 0:
        longest = max(left, key=len)
        if len(longest) <= 8:
            return cut(text, most)
        left[left.index(longest)] = cut(longest, len(longest) - excess)
    return text


def _with_gaps(words: Sequence[str], chosen: Set[int]) -> str:
    pieces = (word if place in chosen else "…" for place, word in enumerate(words))
    return " ".join(piece for piece, _ in itertools.groupby(pieces))


def format_seeds(seeds: Sequence[int]) -> str:
    """`seed 6`, `seeds 3 to 5`, `seeds 3, 4, 7`; of seeds in their order."""
    texts = [f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in ranges(seeds)]
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(texts)}"


def ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Those that follow on one another together: [[3, 4, 5], [7]] of 3, 4, 5, 7."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ranges


def minus(text: str) -> str:
    """The text of numbers with true minus signs."""
    return text.replace("-", "\N{MINUS SIGN}")


def show(number: float | None) -> str:
    """Three digits, all of those before the point, with a true minus sign; an en dash for nothing."""
    if number is None:
        return "–"
    return minus(f"{number:{'.0f' if 1000 <= abs(number) < 1e6 else '.3g'}}")
