"""The words of pages and tables, in plain sentences: `glossary.yaml`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from normbench.files import reading
from normbench.papers.decide import Verdict

WORDS: dict[str, str] = reading.load_yaml((Path(__file__).parent / "glossary.yaml").read_text(encoding="utf-8"))
VARIANT = re.compile(r"(?<![\w*])(?=\*{0,3}[TF])[TF*]{4}(?![\w*])")  # of BLN's statistics: TTFF, TF**


def meaning(word: str) -> str:
    """Of a word; "" of any other text."""
    return WORDS["TTFF"] if VARIANT.fullmatch(word) else WORDS.get(word, "")


def words_of(claims: Sequence[Verdict], others: Sequence[str]) -> list[str]:
    """The words that a page of these claims and with these others needs, in the order of the glossary."""
    needed = {"fidelity", *others}
    for claim in claims:
        needed |= {claim.word, claim.reason, *claim.verdict.split(" · ")[1:]}
        needed |= {"control"} if claim.controls else set()
        needed |= {"amended"} if claim.amendments else set()
        needed |= {"part"} if len(claim.parts) > 1 else set()
        needed |= set() if claim.kind == "exact" else {"arm", "seed", "interval"}
        variants = (str(cell["cell"].get("variant")) for part in claim.parts for cell in part.cells)
        needed |= {"TTFF"} if any(map(VARIANT.search, variants)) else set()
    return [word for word in WORDS if word in needed]
