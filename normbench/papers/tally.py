"""How many claims have which word, and which kind of news a word is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from normbench.papers import rules

if TYPE_CHECKING:  # as of `describe`
    from normbench.papers.decide import Verdict


def describe(claims: Sequence[Verdict], kind: tuple[str, str] = ("claim", "claims")) -> str:
    """`Of 3 claims, 2 hold (1 exact, 1 controls agree); 1 is undecided.`; `kind`: one, several."""
    clauses = []
    for word in rules.WORDS:
        if group := [claim for claim in claims if claim.word == word]:
            details = f" ({', '.join(facts(group))})" if facts(group) else ""
            clauses.append(f"{len(group)} {verb(word, len(group))}{details}")
    return f"Of {len(claims)} {kind[len(claims) > 1]}, {'; '.join(clauses)}."


def facts(claims: Sequence[Verdict]) -> list[str]:
    """`["24 exact", "6 controls agree"]`: how many of these claims leave nothing open, and by which fact."""
    texts = (claim.verdict.partition(" · ")[2] for claim in claims if _nothing_open(claim))
    return [f"{count} {text}" for text, count in Counter(texts).most_common() if text]


def _nothing_open(claim: Verdict) -> bool:
    """Whether neither its runs nor its controls leave another word possible."""
    agree = claim.robustness in ("", rules.AGREE, rules.NOTHING_OPEN)
    return agree and claim.word in rules.DECIDED and claim.basis in (rules.EXACT, "paper", rules.AS_LOGGED)


def decided(claims: Sequence[Verdict]) -> int:
    """How many have an answer, of whatever kind and fidelity."""
    return sum(claim.word in rules.DECIDED for claim in claims)


def news(claim: Verdict) -> str:
    """The kind of news that a verdict is: half of it where its runs or controls leave something open."""
    if claim.reason == rules.DIVERGED:
        return "bad"
    return word_news(claim.word).removeprefix("half-" if _nothing_open(claim) else "")


def word_news(word: str) -> str:
    """The same of a word alone, as of a part."""
    kinds = {rules.HOLDS: "half-good", rules.FAILS: "half-bad", rules.NEGLIGIBLE: "weak", rules.UNDECIDED: "open"}
    return kinds.get(word, "none")


def verb(word: str, claims: int) -> str:
    """`are undecided`: what that many claims do that have this word."""
    if word in (rules.HOLDS, rules.FAILS):
        return word if claims == 1 else word.removesuffix("s")
    return f"{'is' if claims == 1 else 'are'} {word}"
