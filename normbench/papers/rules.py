"""How a claim is decided: the rules of `rules.yaml`, in code that reads like them.

A *part* is one comparison, a *claim* holds when all its k parts hold (intersection-union test, Berger 1982), *controls*
are settings that the paper leaves open. Each step gives one word, and the last two facts beside the claim's:

    part        holds, fails, negligible or undecided, from intervals of its effect; or why it is untested
    claim       the same of all its parts, at the paper's setting
    basis       what its runs are: exact (computed), paper, reduced, proxy, as logged
    robustness  what the controls say to its word: they agree, nothing is open, not run, undecided, they depend
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from normbench.errors import BadInput
from normbench.papers.claims import Part, canonical_sha256
from normbench.papers.rules_file import ALPHA, RULES
from normbench.stats.statistics import Interval, sign_test, within

if TYPE_CHECKING:  # it takes a tenth of a second, and `list` judges nothing
    from normbench.papers.parts import Observed

WORDS = HOLDS, FAILS, NEGLIGIBLE, UNDECIDED, UNTESTED = "holds", "fails", "negligible", "undecided", "untested"
DECIDED = (HOLDS, FAILS, NEGLIGIBLE)
# Why a claim is untested; the functions below return it as its word, `split` parts the two.
GAPS = NOT_RUN, NOT_DECIDABLE = "not run", "not decidable here"
DIVERGED = "diverged"  # why logged curves are undecided: more runs of the first cell diverged than of the second
EXACT, AS_LOGGED = "exact", "as logged"
AGREE, NOTHING_OPEN, DEPEND = "agree", "nothing open", "depend"


# --- a part ----------------------------------------------------------------------------------------------------------


def part_word(observed: Observed, alpha: float = ALPHA, small: float | None = None) -> str:
    """The word of one part alone, by tests at `alpha`; it has no side if tests at `small` find it within ±δ.

    `small` is the claim's level where `alpha` is one that its parts or controls share; None: `alpha`.
    """
    part = observed.part
    if observed.gap:
        return observed.gap
    if part.kind == "exact":
        return HOLDS if observed.exact else FAILS
    if not observed.complete:
        return UNDECIDED
    alpha, small = observed.at_look(alpha), None if small is None else observed.at_look(small)
    if part.kind == "direction":
        if within(observed.interval(1 - 2 * alpha), observed.delta):
            return NEGLIGIBLE if observed.fresh and observed.whole else UNDECIDED
        if small is not None and within(observed.interval(1 - 2 * small), observed.delta):
            return UNDECIDED
        return _side(observed.interval(1 - alpha), part.expect)
    if part.kind == "equivalence":
        if within(observed.interval(1 - 2 * alpha), part.within):
            return HOLDS
        return FAILS if _outside(observed.interval(1 - alpha), part.within) else UNDECIDED
    if part.kind == "no_worse":
        assert part.within is not None
        best, worst = _loss(part, observed.interval(1 - alpha)), _loss(part, observed.interval(1 - 2 * alpha))
        if worst and worst[1] < part.within:
            return HOLDS
        return FAILS if best and best[0] > part.within else UNDECIDED
    predicted, paper, band = observed.prediction(1 - alpha), part.paper, part.band
    assert paper is not None and band is not None
    if predicted and paper - band <= predicted[0] <= paper <= predicted[1] <= paper + band:
        return HOLDS
    return FAILS if predicted and not predicted[0] <= paper <= predicted[1] else UNDECIDED


def _outside(interval: Interval | None, margin: float | None) -> bool:
    return interval is not None and margin is not None and (interval[0] > margin or interval[1] < -margin)


def _loss(part: Part, interval: Interval | None) -> Interval | None:
    """The interval, turned so that positive is worse; a longer time is worse whatever the metric."""
    rises = part.endpoint.better == "higher" and part.endpoint.kind != "time_to_level"
    return (-interval[1], -interval[0]) if interval and rises else interval


def _side(interval: Interval | None, expect: str | None) -> str:
    if interval is None or interval[0] <= 0 <= interval[1]:
        return UNDECIDED
    return HOLDS if (interval[0] > 0) == (expect == "positive") else FAILS


# --- a claim ---------------------------------------------------------------------------------------------------------


def claim_word(parts: Sequence[Observed], alpha: float = ALPHA, small: float | None = None) -> str:
    """The word of k parts at one setting: any one may make it fail or negligible, each by tests at `alpha`/k."""
    words = [part_word(part, alpha, small) for part in parts]
    for gap in (NOT_RUN, NOT_DECIDABLE):
        if gap in words:
            return gap
    if all(word == HOLDS for word in words):
        return HOLDS
    if any(opposes(part, len(parts), alpha, small) for part in parts):
        return FAILS
    if any(vanishes(part, len(parts), alpha) for part in parts):
        return NEGLIGIBLE
    return UNDECIDED


def opposes(part: Observed, k: int, alpha: float = ALPHA, small: float | None = None) -> bool:
    """Whether this one of k parts makes the claim fail; only one that is not negligible can."""
    return part_word(part, alpha / k, alpha if small is None else small) == FAILS


def vanishes(observed: Observed, k: int, alpha: float = ALPHA) -> bool:
    """Whether this one of k parts makes the claim negligible."""
    return observed.part.kind == "direction" and part_word(observed, alpha / k) == NEGLIGIBLE


def vanishing(*settings: Sequence[Observed], alpha: float = ALPHA) -> int:
    """How many of a claim's parts make it negligible at each of these settings."""
    vanished = [[vanishes(part, len(parts), alpha) for part in parts] for parts in settings]
    return sum(map(all, zip(*vanished, strict=True)))


# --- controls, and the verdict ---------------------------------------------------------------------------------------


def control_words(
    parts: Sequence[Observed],
    controls: int,
    alpha: float = ALPHA,
    setting: Sequence[Observed] | None = None,
) -> tuple[str, str]:
    """The claim's word under one of so many controls at `alpha`, and at `alpha`/controls: any one may differ.

    An effect between 0 and δ is negligible and has its sign. So against the word at the paper's `setting`, negligible
    is another word, or another word than negligible, only where one part is within ±δ here and beyond it there.
    """
    if not all(part.complete for part in parts):
        gap = NOT_DECIDABLE if any(part.gap == NOT_DECIDABLE for part in parts) else NOT_RUN
        return gap, gap
    word, strict = claim_word(parts, alpha), claim_word(parts, alpha / controls, small=alpha)
    level = alpha / (controls * len(parts))
    if setting is not None and NEGLIGIBLE in {strict, claim_word(setting, alpha)} and not any(
        _apart(under, at_setting, level) or _apart(at_setting, under, level)
        for under, at_setting in zip(parts, setting, strict=True)
        if under.part.kind == "direction"
    ):  # fmt: skip
        strict = UNDECIDED
    return word, strict


def _apart(small: Observed, large: Observed, alpha: float) -> bool:
    of_small, of_large = small.at_look(alpha), large.at_look(alpha)
    return within(small.interval(1 - 2 * of_small), small.delta) and _outside(large.interval(1 - of_large), large.delta)


def robustness(setting: str, controls: Sequence[tuple[str, str]], unvaried: bool = False) -> str:
    """What the controls say to the word at the paper's setting; "" of a claim that has none.

    `unvaried`: something is open that none of them varies.
    """
    if setting not in DECIDED or (unvaried and not controls):
        return ""
    if not controls:
        return NOTHING_OPEN
    if any(strict in DECIDED and strict != setting for _, strict in controls):
        return DEPEND
    if all(word == setting for word, _ in controls):
        return NOT_RUN if unvaried else AGREE
    return NOT_RUN if any(word == NOT_RUN for word, _ in controls) else UNDECIDED


def split(word: str) -> tuple[str, str]:
    """One of the five words, and the reason where it is untested: `not run` is untested, not run."""
    return (UNTESTED, word) if word in GAPS else (word, "")


def verdict(word: str, reason: str, basis: str, robust: str) -> str:
    """`holds · proxy · controls undecided`: a word with its reason, what its runs are unless the paper's, controls."""
    facts = [basis] if basis != "paper" and word != UNTESTED else []
    facts += [robust if robust == NOTHING_OPEN else f"controls {robust}"] if robust else []
    return " · ".join([f"{word} ({reason})" if reason else word, *facts])


# --- what is fixed in advance ----------------------------------------------------------------------------------------


def smallest_effect(part: Part, data: str) -> float | None:
    """δ of a direction on a data set, in its unit; None where nothing declares one."""
    if part.kind != "direction" or part.than is not None:
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
    if part.kind == "direction" and part.than is None and part.delta is None and effect is None:
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
