"""Summaries of verdicts in sentences, with their numbers: at the paper's setting, and across the controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

from normbench.draw.text import show
from normbench.papers import rules
from normbench.papers.parts import describe_effect

_VERBS = {  # of one, of several
    rules.HOLDS: ("holds", "hold"), rules.OPPOSITE: ("is the opposite", "are the opposite"),
    rules.NEGLIGIBLE: ("is negligible", "are negligible"), rules.UNDECIDED: ("is undecided", "are undecided"),
    rules.NOT_RUN: ("is not run", "are not run"),
    rules.NOT_DECIDABLE: ("is not decidable here", "are not decidable here"),
}  # fmt: skip
_TESTED = {  # under controls; of one, of several
    rules.ROBUST: ("says the same", "say the same"), rules.DEPENDS: ("changes its verdict", "change their verdicts"),
    rules.UNDECIDED: ("is undecided", "are undecided"),
    rules.NOT_RUN: ("lacks control runs", "lack control runs"),
}  # fmt: skip
NUMBERED = 4  # claims with their numbers in a summary: more would fill a page


def findings(judged: Mapping[str, Any]) -> list[str]:
    """One or two sentences; claims with numbers of their own first, those without a word last. None without claims."""
    claims: Sequence[Mapping[str, Any]] = judged["claims"]
    if not claims:
        return []
    groups = {word: [claim for claim in claims if claim["setting"] == word] for word in _VERBS}
    numbered = {
        claim["id"] for claim in [c for word in rules.DECIDED for c in groups[word] if _format_effect(c)][:NUMBERED]
    }
    clauses = [
        f"{len(groups[word])} {verb(word, len(groups[word]))}: {_format_claims(groups[word], numbered)}"
        for word in _VERBS
        if groups[word]
    ]
    where = "At the paper's setting" if judged["fidelity"] == "paper" else f"At {judged['fidelity']} fidelity"
    sentences = [f"{where}, of {len(claims)} claim{'s' if len(claims) > 1 else ''}, {'; '.join(clauses)}."]
    tried = {word: [_format_claim(c) for c in claims if c["robustness"] == word] for word in _TESTED}
    across = [f"{', '.join(ids)} {_TESTED[word][len(ids) > 1]}" for word, ids in tried.items() if ids]
    if across and not _under_controls(claims):
        sentences.append("The controls, settings that the paper leaves open, are not run.")
    elif across:
        sentences.append(f"Under the controls, settings that the paper leaves open, {'; '.join(across)}.")
    return sentences


def settings(claims: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A header and a row per part: its effect, interval and word at the paper's setting and under each control.

    Of claims that have runs of a control; empty without any. If a part's interval covers the test examples in some
    columns only, the other columns note it.
    """
    tried = _under_controls(claims)
    names = list(dict.fromkeys(control["name"] for claim in tried for control in claim["controls"]))
    rows = []
    for claim in tried:
        under = {control["name"]: {p["id"]: p for p in control["parts"]} for control in claim["controls"]}
        for part in claim["parts"]:
            cells = [part, *(under[name].get(part["id"]) if name in under else {} for name in names)]
            over_examples = any(cell and cell["examples"] for cell in cells)
            rows.append([claim["id"], part["id"], *(_format_cell(cell, over_examples) for cell in cells)])
    return [["claim", "part", "the paper's setting", *names], *rows] if rows else []


def _format_claim(claim: Mapping[str, Any]) -> str:
    """`LN-H4 (under task)`: of a claim that depends, the controls of another word; of a robust one, the sizes there."""
    if claim["robustness"] == rules.DEPENDS:
        words = {c["name"]: c["strict"] for c in claim["controls"]}
        other = [name for name, word in words.items() if word in rules.DECIDED and word != claim["setting"]]
        return f"{claim['id']} (under {', '.join(other)})"
    part = deciding(claim)
    if claim["robustness"] != rules.ROBUST or part is None:
        return str(claim["id"])
    effects = {c["name"]: next(p["effect"] for p in c["parts"] if p["id"] == part["id"]) for c in claim["controls"]}
    sizes = ", ".join(f"{name} {show(effect)}" for name, effect in effects.items() if effect is not None)
    return f"{claim['id']} ({sizes})" if sizes else str(claim["id"])


def _under_controls(claims: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The claims that have runs of a control."""
    return [c for c in claims if any(p["n"] for control in c["controls"] for p in control["parts"])]


def _format_cell(part: Mapping[str, Any] | None, over_examples: bool = False) -> str:
    """`nats −0.02 [−0.05, 0.01]: undecided`; "" of {}, a control that the claim does not have."""
    if part is not None and not part:
        return ""
    if part is None or not part["n"]:
        return rules.NOT_RUN
    alone = " (over seeds alone)" if over_examples and not part["examples"] else ""
    return f"{describe_effect(part)}{alone}: {part['word']}"


def tally(claims: Sequence[Mapping[str, Any]], kind: tuple[str, str] = ("claim", "claims")) -> str:
    """`Of 3 claims, 2 hold; 1 is undecided.`: how many have which word at the paper's setting; `kind`: one, several."""
    counts = Counter(claim["setting"] for claim in claims)
    clauses = [f"{counts[word]} {verb(word, counts[word])}" for word in _VERBS if counts[word]]
    return f"Of {len(claims)} {kind[len(claims) > 1]}, {'; '.join(clauses)}."


def decided(claims: Sequence[Mapping[str, Any]]) -> int:
    """How many have an answer, of whatever kind and fidelity."""
    news = (rules.NEWS.get(claim["verdict"].partition(" ")[0], "none") for claim in claims)
    return sum(kind not in ("open", "none") for kind in news)


def verb(word: str, claims: int) -> str:
    """`are undecided`: what that many claims do that have this word."""
    return _VERBS[word][claims > 1] if word in _VERBS else word


def deciding(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part whose effect stands for the claim; None where it has no parts."""
    parts: Sequence[Mapping[str, Any]] = claim["parts"]
    return next((part for part in parts if part["effect"] == claim.get("effect")), parts[0] if parts else None)


def _format_claims(claims: Sequence[Mapping[str, Any]], numbered: Container[str]) -> str:
    return ", ".join(f"{claim['id']}{_format_effect(claim) if claim['id'] in numbered else ''}" for claim in claims)


def _format_effect(claim: Mapping[str, Any]) -> str:
    part = deciding(claim)
    if claim["kind"] == "exact" or part is None:
        return ""
    which = f"{part['id']}: " if len(claim["parts"]) > 1 else ""
    return f" ({which}{describe_effect(part)})"
