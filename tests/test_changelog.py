"""CHANGELOG.md: each entry says whether it can change a verdict or a number."""

from __future__ import annotations

import re
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
MARKS = {"[verdict]", "[number]"}


def test_marks_are_of_the_set_that_the_head_explains() -> None:
    head, *sections = re.split(r"^## ", CHANGELOG.read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"`(\[\w+\])`:", head)) == MARKS
    entries = [entry for section in sections for entry in re.split(r"^- ", section, flags=re.MULTILINE)[1:]]
    marks = [match[0] for entry in entries if (match := re.match(r"\[[^]]*\]", entry))]
    assert set(marks) == MARKS
    assert len(marks) < len(entries)
    for entry in entries:
        rest = re.sub(r"^\[\w+\] ", "", entry)
        assert not any(mark in rest for mark in MARKS), f"a mark stands once, at the beginning: {entry}"
        assert not rest.startswith("["), entry
