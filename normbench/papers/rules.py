"""How a claim is decided: the rules of `rules.yaml`, in code that reads like them.

A *part* is one comparison, a *claim* holds when all its k parts hold (intersection-union test, Berger 1982), *controls*
are settings that the paper leaves open. Each step gives one word; the last puts them together:

    part        holds, opposite, negligible or undecided, from intervals of its effect
    claim       the same of all its parts, at one setting
    robustness  of that word over the controls: robust, depends, undecided, not run
    verdict     reproduced, contradicted, negligible; or the word at the paper's setting, and what the controls say
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from normbench.errors import BadInput
from normbench.files.stored import LOGGED
from normbench.papers.claims import Part, canonical_sha256
from normbench.papers.observed import Observed
from normbench.papers.rules_file import ALPHA, RULES
from normbench.stats.statistics import Interval, sign_test, within

HOLDS, OPPOSITE, NEGLIGIBLE, UNDECIDED = "holds", "opposite", "negligible", "undecided"
NOT_RUN, NOT_DECIDABLE = "not run", "not decidable here"
DIVERGED = "diverged"  # of logged curves: undecided, and more runs of the first cell diverged than of the second
DECIDED = (HOLDS, OPPOSITE, NEGLIGIBLE)
ROBUST, DEPENDS = "robust", "depends"
_PLURAL = {DEPENDS: "depend"}  # of controls
# The first word of a verdict, in the order in which pages count them, and what kind of news it is.
NEWS = {
    "reproduced": "good", "supported": "good", HOLDS: "half-good", NEGLIGIBLE: "weak", OPPOSITE: "half-bad",
    "contradicted": "bad", "refuted": "bad", DIVERGED: "bad", UNDECIDED: "open", "not": "none",
}  # fmt: skip


# --- a part ----------------------------------------------------------------------------------------------------------


def part_word(part: Part, seen: Observed, alpha: float = ALPHA, small: float | None = None) -> str:
    """The word of one part alone, by tests at `alpha`; it has no side if tests at `small` find it within ±δ.

    `small` is the claim's level where `alpha` is one that its parts or controls share; None: `alpha`.
    """
    if seen.gap:
        return seen.gap
    if part.kind == "exact":
        return HOLDS if seen.exact else OPPOSITE
    if not seen.complete:
        return UNDECIDED
    if part.kind == "direction":
        if within(seen.interval(1 - 2 * alpha), seen.delta):
            return NEGLIGIBLE if seen.fresh and seen.planned and seen.whole else UNDECIDED
        if small is not None and within(seen.interval(1 - 2 * small), seen.delta):
            return UNDECIDED
        return _side(seen.interval(1 - alpha), part.expect)
    if part.kind == "equivalence":
        if within(seen.interval(1 - 2 * alpha), part.within):
            return HOLDS if seen.planned else UNDECIDED
        return OPPOSITE if _outside(seen.interval(1 - alpha), part.within) else UNDECIDED
    if part.kind == "no_worse":
        assert part.within is not None
        best, worst = _loss(part, seen.interval(1 - alpha)), _loss(part, seen.interval(1 - 2 * alpha))
        if worst and worst[1] < part.within:
            return HOLDS if seen.planned else UNDECIDED
        return OPPOSITE if best and best[0] > part.within else UNDECIDED
    predicted, paper, band = seen.prediction(1 - alpha), part.paper, part.band
    assert paper is not None and band is not None
    if predicted and paper - band <= predicted[0] <= paper <= predicted[1] <= paper + band:
        return HOLDS
    return OPPOSITE if predicted and not predicted[0] <= paper <= predicted[1] else UNDECIDED


def _outside(interval: Interval | None, margin: float | None) -> bool:
    return interval is not None and margin is not None and (interval[0] > margin or interval[1] < -margin)


def _loss(part: Part, interval: Interval | None) -> Interval | None:
    """The interval, turned so that positive is worse; a longer time is worse whatever the metric."""
    rises = part.endpoint.better == "higher" and part.endpoint.kind != "time_to_level"
    return (-interval[1], -interval[0]) if interval and rises else interval


def _side(interval: Interval | None, expect: str | None) -> str:
    if interval is None or interval[0] <= 0 <= interval[1]:
        return UNDECIDED
    return HOLDS if (interval[0] > 0) == (expect == "positive") else OPPOSITE


# --- a claim ---------------------------------------------------------------------------------------------------------


def claim_word(parts: Sequence[tuple[Part, Observed]], alpha: float = ALPHA, small: float | None = None) -> str:
    """The word of k parts at one setting: any one may make it opposite or negligible, each by tests at `alpha`/k."""
    words = [part_word(part, seen, alpha, small) for part, seen in parts]
    for gap in (NOT_RUN, NOT_DECIDABLE):
        if gap in words:
            return gap
    if all(word == HOLDS for word in words):
        return HOLDS
    if any(opposes(part, seen, len(parts), alpha, small) for part, seen in parts):
        return OPPOSITE
    if any(vanishes(part, seen, len(parts), alpha) for part, seen in parts):
        return NEGLIGIBLE
    return UNDECIDED


def opposes(part: Part, seen: Observed, k: int, alpha: float = ALPHA, small: float | None = None) -> bool:
    """Whether this one of k parts makes the claim opposite; only one that is not negligible can."""
    return part_word(part, seen, alpha / k, alpha if small is None else small) == OPPOSITE


def vanishes(part: Part, seen: Observed, k: int, alpha: float = ALPHA) -> bool:
    """Whether this one of k parts makes the claim negligible."""
    return part.kind == "direction" and part_word(part, seen, alpha / k) == NEGLIGIBLE


def vanishing(*settings: Sequence[tuple[Part, Observed]], alpha: float = ALPHA) -> int:
    """How many of a claim's parts make it negligible at each of these settings."""
    return sum(all(vanishes(part, seen, len(at), alpha) for (part, seen), at in zip(one, settings, strict=True))
               for one in zip(*settings, strict=True))  # fmt: skip


# --- controls, and the verdict ---------------------------------------------------------------------------------------


def control_words(
    parts: Sequence[tuple[Part, Observed]],
    controls: int,
    alpha: float = ALPHA,
    setting: Sequence[tuple[Part, Observed]] | None = None,
) -> tuple[str, str]:
    """The claim's word under one of so many controls at `alpha`, and at `alpha`/controls: any one may differ.

    An effect between 0 and δ is negligible and has its sign. So against the word at the paper's `setting`, negligible
    is another word, or another word than negligible, only where one part is within ±δ here and beyond it there.
    """
    if not all(seen.complete for _, seen in parts):
        gap = NOT_DECIDABLE if any(seen.gap == NOT_DECIDABLE for _, seen in parts) else NOT_RUN
        return gap, gap
    own, strict = claim_word(parts, alpha), claim_word(parts, alpha / controls, small=alpha)
    level = alpha / (controls * len(parts))
    if setting is not None and NEGLIGIBLE in {strict, claim_word(setting, alpha)} and not any(
        _apart(here, there, level) or _apart(there, here, level)
        for (part, here), (_, there) in zip(parts, setting, strict=True)
        if part.kind == "direction"
    ):  # fmt: skip
        strict = UNDECIDED
    return own, strict


def _apart(small: Observed, large: Observed, alpha: float) -> bool:
    return within(small.interval(1 - 2 * alpha), small.delta) and _outside(large.interval(1 - alpha), large.delta)


def robustness(setting: str, controls: Sequence[tuple[str, str]], unvaried: bool = False) -> str:
    """Whether the word at the paper's setting is that of every control ("" without any, or without a word).

    `unvaried`: something is open that none of them varies.
    """
    if not controls or setting not in DECIDED:
        return ""
    if any(strict in DECIDED and strict != setting for _, strict in controls):
        return DEPENDS
    if all(word == setting for word, _ in controls):
        return NOT_RUN if unvaried else ROBUST
    return NOT_RUN if any(word == NOT_RUN for word, _ in controls) else UNDECIDED


def verdict(
    setting: str, robust: str, ours: bool = False, fidelity: str = "paper", of: tuple[int, int] | None = None
) -> str:
    """The words of a verdict; of a hypothesis of our own others than of a claim of the paper's.

    of: how many of how many parts have the word, where not all must.
    """
    share = "" if of is None else f" ({of[0]} of {of[1]} parts)"
    if fidelity == LOGGED:
        word = {HOLDS: "supported", OPPOSITE: "refuted"}.get(setting, setting)
        return f"{word}{share}, as logged" + (f"; controls {_PLURAL.get(robust, robust)}" if robust else "")
    if setting not in DECIDED:
        return setting if setting != UNDECIDED or fidelity == "paper" else f"{setting} ({fidelity})"
    if fidelity != "paper":
        return f"{setting}{share} ({fidelity})" + (f"; controls {_PLURAL.get(robust, robust)}" if robust else "")
    if robust not in ("", ROBUST):
        return f"{setting}{share} at the paper's setting; controls {_PLURAL.get(robust, robust)}"
    if setting == NEGLIGIBLE:
        return f"{setting}{share}"
    return {HOLDS: ("reproduced", "supported"), OPPOSITE: ("contradicted", "refuted")}[setting][ours]


# --- what is fixed in advance ----------------------------------------------------------------------------------------


def smallest_effect(part: Part, data: str) -> float | None:
    """δ of a direction on a data set, in its unit; None where nothing declares one."""
    if part.kind != "direction":
        return None
    if part.delta is not None:
        return None if part.delta.is_ is None else float(part.delta.is_)
    fits = {"endpoint": part.endpoint.kind, "metric": part.endpoint.metric, "scale": part.scale}
    for entry in RULES["smallest_effects"]:
        if all(value in entry[key] for key, value in fits.items() if key in entry):
            return float(entry.get("data", {}).get(data, entry["is"]))
    return None


def check_smallest_effect(part: Part, effect: float | None, where: str) -> None:
    """NormbenchError if a deciding direction has no smallest effect and does not declare why it has none."""
    if part.kind == "direction" and part.delta is None and effect is None:
        raise BadInput(
            f"{where}: part '{part.id}': rules.yaml has no smallest effect for {part.endpoint.metric or part.endpoint}"
            f" on the scale {part.scale}. Declare one in the part: delta: {{is: 0.1, why: ...}} (is: null for none)."
        )


def fewest_pairs(alpha: float) -> int:
    """The smallest n at which the exact sign test can reject at `alpha`: 6 at 0.05, 7 at 0.025, 8 at 0.05/6."""
    return next(n for n in count(1) if sign_test(n, 0) <= alpha)


def sha256(*content: Any) -> str:
    """One hash of the rules, and of what else decides a claim: its smallest effects, planned seeds, controls.

    A smallest effect that the claim does not use, as for another paper, is not among them.
    """
    general = {key: RULES[key] for key in ("version", "alpha", "fewest_seeds", "power")}
    return canonical_sha256([general, *content])
