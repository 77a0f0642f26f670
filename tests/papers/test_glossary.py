"""The words that pages need are explained."""

from __future__ import annotations

import pytest

from normbench.config import FIDELITIES
from normbench.papers import glossary, rules

ROBUSTNESS = (rules.AGREE, rules.DEPEND, rules.UNDECIDED, rules.NOT_RUN)


def test_each_word_of_a_verdict_is_explained() -> None:
    facts = [*FIDELITIES, rules.EXACT, rules.AS_LOGGED, rules.NOTHING_OPEN, *(f"controls {x}" for x in ROBUSTNESS)]
    for word in (*rules.WORDS, *facts, "control", "amended", "fidelity", "arm", "part", "TTFF"):
        assert glossary.meaning(word), word


@pytest.mark.parametrize(
    ("text", "explained"),
    [("TTFF", True), ("TF**", True), ("*T**", True), ("****", False), ("FFFFF", False), ("ln", False), ("", False)],
)
def test_each_variant_of_statistics_has_the_meaning_of_all(text: str, explained: bool) -> None:
    assert glossary.meaning(text) == (glossary.WORDS["TTFF"] if explained else "")
