"""What was found, in two sentences of the verdicts' own numbers: at the paper's setting, and across the controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from normbench.papers import rules
from normbench.papers.parts import measured

_SAID = {  # of one, of several
    rules.HOLDS: ("holds", "hold"), rules.OPPOSITE: ("is the other way round", "are the other way round"),
    rules.NEGLIGIBLE: ("is negligible", "are negligible"), rules.UNDECIDED: ("is undecided", "are undecided"),
    rules.NOT_RUN: ("is not run", "are not run"),
    rules.NOT_DECIDABLE: ("is not decidable here", "are not decidable here"),
}  # fmt: skip
_TESTED = {
    rules.ROBUST: "the same under every control", rules.DEPENDS: "another word under one of the controls",
    rules.UNDECIDED: "undecided under one of the controls", rules.NOT_RUN: "controls not run",
}  # fmt: skip


def findings(judged: Mapping[str, Any]) -> list[str]:
    """One or two sentences; claims with numbers of their own first, those without a word last."""
    claims: Sequence[Mapping[str, Any]] = judged["claims"]
    groups = {word: [claim for claim in claims if claim["setting"] == word] for word in _SAID}
    told = [
        f"{len(groups[word])} {said[len(groups[word]) > 1]}: {_named(groups[word], word)}"
        for word, said in _SAID.items()
        if groups[word]
    ]
    where = "At the paper's setting" if judged["fidelity"] == "paper" else f"At {judged['fidelity']} fidelity"
    sentences = [f"{where}, of {_count(len(claims))}, {'; '.join(told)}."]
    tried = {word: [c["id"] for c in claims if c["robustness"] == word] for word in _TESTED}
    across = [f"{said}: {', '.join(tried[word])}" for word, said in _TESTED.items() if tried[word]]
    if across:
        sentences.append(f"Across the settings that the paper leaves open, {'; '.join(across)}.")
    return sentences


def _count(claims: int) -> str:
    return "1 claim" if claims == 1 else f"{claims} claims"


def _named(claims: Sequence[Mapping[str, Any]], word: str) -> str:
    return ", ".join(f"{claim['id']}{_number(claim) if word in rules.DECIDED else ''}" for claim in claims)


def _number(claim: Mapping[str, Any]) -> str:
    if claim["kind"] == "exact" or not claim["parts"]:
        return ""
    deciding = next((part for part in claim["parts"] if part["effect"] == claim["effect"]), claim["parts"][0])
    which = f"{deciding['id']}: " if len(claim["parts"]) > 1 else ""
    return f" ({which}{measured(deciding)})"
