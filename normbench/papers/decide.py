"""From observations to a verdict: enums and numbers alone. `describe` makes the sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from normbench.papers import rules
from normbench.papers.claims import Claim, Part
from normbench.papers.parts import Observed, result

Parts = Sequence[tuple[Part, Observed]]
Verdict = dict[str, Any]  # an entry of `claims` in verdicts.json, see results/README.md
_HEADLINE = {"n": 0, "effect": None, "unit": "", "interval": None, "level": None, "detectable": None}


def decide(
    claim: Claim,
    fidelity: str,
    setting: Parts,
    controls: Mapping[str, Parts],
    reported: Parts = (),
    look: int = 1,
    names: Mapping[str, str] | None = None,
    alpha: float = rules.ALPHA,
    small: float | None = None,
    earlier: int = 0,
) -> Verdict:
    """The verdict on a claim from its parts at the paper's setting and under its controls.

    look: the last look that has its runs, 0 for none. names: what sentences call arms and variants. alpha: of its
    tests, of which a second look has half. small: as of `rules.part_word`. earlier: how many looks at other seeds had
    given it a word before it was amended.
    """
    alpha = alpha / 2 if look == 2 else alpha
    undecidable = fidelity in claim.not_decidable
    word = rules.NOT_DECIDABLE if undecidable else rules.claim_word(setting, alpha, small)
    tried = {name: rules.control_words(parts, len(controls), alpha, setting) for name, parts in controls.items()}
    robust = rules.robustness(word, list(tried.values()), bool(claim.unvaried))
    everywhere = [setting, *(controls.values() if robust == rules.ROBUST else ())]
    scattered = word == rules.NEGLIGIBLE and not rules.vanishing(*everywhere, alpha=alpha)
    if scattered:  # here by one part, there by another
        robust, everywhere = rules.UNDECIDED, [setting]
    share = _share(word, *everywhere, alpha=alpha)

    def results(found: Parts) -> list[dict[str, Any]]:
        return [result(seen, rules.part_word(part, seen, alpha, small), alpha, names) for part, seen in found]

    parts = results(setting)
    place = deciding(word, setting, alpha)
    headline = parts[place] if parts else None
    return {
        "id": claim.id,
        "kind": claim.kind,
        "ours": claim.ours,
        "statement": claim.statement,
        "quote": claim.quote,
        "locator": claim.locator,
        "endpoint": headline["endpoint"] if headline else "",
        "setting": word,
        "robustness": robust,
        "verdict": rules.verdict(word, robust, claim.ours, fidelity, None if share is None else (share, len(setting))),
        "undecidable": claim.not_decidable.get(fidelity, ""),
        "deciding": place if parts else None,
        "share": share,
        "scattered": scattered,
        "unvaried": list(claim.unvaried),
        "beside": list(claim.beside),
        "alone": _alone(claim, fidelity),
        **{key: headline[key] if headline else empty for key, empty in _HEADLINE.items()},
        "alpha": alpha,
        "spent": _spent(claim, setting, undecidable, look, alpha, earlier),
        "looks": (claim.added or [headline["planned"]]) if headline and headline["planned"] else [],
        "look": look,
        "runs": sorted({run for part in parts for run in part["runs"]}),
        "parts": parts,
        "reported": results(reported),
        "controls": [
            {
                "name": name,
                "word": tried[name][0],
                "strict": tried[name][1],
                "deciding": deciding(tried[name][0], found, alpha),
                "share": _share(tried[name][0], found, alpha=alpha),
                "parts": results(found),
            }
            for name, found in controls.items()
        ],
    }


def deciding(word: str, parts: Parts, alpha: float) -> int:
    """The first part that makes the claim's word; where none does, one that speaks against it, if there is one."""

    def makes(part: Part, seen: Observed) -> bool:
        if word == rules.OPPOSITE:
            return rules.opposes(part, seen, len(parts), alpha)
        if word == rules.NEGLIGIBLE:
            return rules.vanishes(part, seen, len(parts), alpha)
        return rules.part_word(part, seen, alpha) == word

    wanted = [index for index, pair in enumerate(parts) if makes(*pair)]
    if word == rules.UNDECIDED:
        own = [rules.part_word(part, seen, alpha) for part, seen in parts]
        wanted = [own.index(against) for against in (rules.OPPOSITE, rules.NEGLIGIBLE) if against in own] + wanted
    return wanted[0] if wanted else 0


def _share(word: str, *settings: Parts, alpha: float) -> int | None:
    """How many of several parts a negligible claim rests on at all of these settings; None for other words."""
    return rules.vanishing(*settings, alpha=alpha) if word == rules.NEGLIGIBLE and len(settings[0]) > 1 else None


def _spent(claim: Claim, parts: Parts, undecidable: bool, look: int, alpha: float, earlier: int) -> float:
    """The levels of the looks so far; computed numbers, and claims that have no word, spend none."""
    judged = parts and all(seen.complete and not seen.gap for _, seen in parts)
    if claim.kind == "exact" or undecidable or not judged:
        return 0.0
    return rules.ALPHA * (1 + earlier) + (alpha if look == 2 else 0.0)


def _alone(claim: Claim, fidelity: str) -> dict[str, list[int]]:
    """The first and the last of the seeds that alone decide, by control: "" is the paper's setting."""
    own = {"": claim.alone(fidelity)} | {name: claim.alone(fidelity, name) for name in claim.control_seeds}
    return {name: [seeds[0], seeds[-1]] for name, seeds in own.items() if seeds is not None}
