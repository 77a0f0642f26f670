"""Words for verdicts, made of their numbers, for every page, table, README and the terminal.

A number has one form: `1.8 points better [0.9, 2.7], n = 5`, the effect with its interval and the number of seeds.
Effects are ratios where logarithms are compared, points of error rates, and better or worse where one side is. A
claim's answer is a sentence with the number of the part that decides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from normbench.draw.text import minus, show
from normbench.papers import rules, tally
from normbench.papers.rules_file import ALPHA, FEWEST

if TYPE_CHECKING:  # they take a tenth of a second, and `list` judges nothing
    from normbench.papers.decide import ControlVerdict, Verdict
    from normbench.papers.parts import PartResult
    from normbench.stats.statistics import Interval

MOST_DIGITS = 7  # of the ends of an interval that look alike
WHY = {  # what keeps a part from a word
    "no runs": "no runs of {about}",
    "no planned runs": "no runs with the planned seeds of {about}",
    "no record": "no number to compare in {about}",
    "hardly begun": "a run of seed {about[0]} has hardly begun: it is not {about[1]} from its start",
    "other data": "the paper's number belongs to its own data; these runs are on other data",
    "less training": "the paper's number belongs to its own sizes and length of training; these runs have less",
    "incomplete": "no verdict below {needed} seeds",
    "alike": "all seeds give the same number: without a spread nothing can be tested",
    "no mean": "a run has no number, so no mean can be tested",
    "no planned look": "no planned look at n = {about[0]} (planned: {about[1]})",
    "seen seeds": "the interval lies within {margin}, but these seeds had been seen when that was chosen",
    "censored": "the interval lies within {margin}, but a run has no number",
    "few seeds": "the sign test needs at least {about} seeds at this level",
    "ended early": "a run ended before {than} without reaching it: it may have come sooner or later",
    "no pairs": "only pairs of equal seeds allow this comparison, and the seeds are not the same",
    "uneven": "{about[0]} runs against {about[1]}: more than twice as many; train {about[2]} of the smaller side",
    "copies": "{about[0]} have the same curve: copies of one run are no further runs",
    "cut short": "last common step {about[0]} is below 80 % of the median {about[1]}; {about[2]} ends at {about[3]}",
    "chosen by itself": "the best evaluation is chosen on {about}, where it is compared: compare the final one",
    "no common steps": "the runs have no logged step in common",
}
_SUGGESTIONS = {  # {under}: ` under lr-low`, or choices that no control varies
    "missing": "planned and missing{until}: {cost}",
    "control": "a control that varies the {under} has to be planned first",
    "single runs": "more seeds do not help: the paper's number is compared with single runs, and these spread",
    "no mean": "a test of means needs a number of every run: plan runs with one, or {seeds} seeds for the sign test",
    "out of reach": "no number of seeds within reach would show a difference as small as that seen{under}",
    "seeds": "about {seeds} fresh seeds ({cost}) would show a difference as large as that seen{under}: plan them first",
}


# --- a claim ---------------------------------------------------------------------------------------------------------


def evidence(claim: Verdict) -> str:
    """The answer, and what is beside it."""
    return "; ".join([answer(claim), *besides(claim)])


def answer(claim: Verdict) -> str:
    """A sentence with the number of the part that decides, and how many parts there are with which word."""
    part = deciding(claim)
    if claim.undecidable or part is None:
        return str(claim.undecidable)
    if len(claim.parts) == 1 or claim.word == rules.UNTESTED:
        return sentence(part)
    computed = claim.kind == "exact" and claim.word == rules.HOLDS
    return _count(claim, part) if computed else f"{sentence(part)}; {_count(claim, part)}"


def number(claim: Verdict) -> str:
    """The effect of the part that decides, for a column of claims; "" without runs."""
    part = deciding(claim)
    if claim.undecidable or part is None or not part.n:
        return ""
    return _count(claim, part) if claim.kind == "exact" and len(claim.parts) > 1 else effect(part)


def in_columns(claim: Verdict) -> tuple[str, str, str]:
    """n, the effect and its interval of the part that decides, for columns of their own; "" without runs."""
    part, whole = deciding(claim), number(claim)
    if part is None or not whole or part.required is not None:
        return "", whole, ""
    return (str(part.n), whole, "") if part.effect is None else (_counts(part), _estimate(part), _interval(part))


def deciding(claim: Verdict) -> PartResult | None:
    """The part whose effect stands for the claim; None where it has no parts."""
    return claim.parts[claim.deciding or 0] if claim.parts else None


def _count(claim: Verdict, part: PartResult) -> str:
    """How many of several parts have a word, and why one that has it alone does not decide."""
    counts = Counter(each.word for each in claim.parts)
    total = f"{len(claim.parts)} {'computed numbers' if claim.kind == 'exact' else 'comparisons'}"
    if claim.share is not None:
        return f"{claim.share} of {total} {tally.verb(rules.NEGLIGIBLE, claim.share)}"
    text = f"{counts[rules.HOLDS]} of {total} {tally.verb(rules.HOLDS, counts[rules.HOLDS])}"
    if claim.word != rules.UNDECIDED:
        return text
    against = [word for word in (rules.FAILS, rules.NEGLIGIBLE) if counts[word]]
    text += "".join(f", {counts[word]} {tally.verb(word, counts[word])}" for word in against)
    return text + (f" (alone, but not at the stricter level of {total})" if part.word in against else "")


def besides(claim: Verdict) -> list[str]:
    """The word under each control with its number, and what else a reader has to know."""
    words: dict[str, list[str]] = {}
    for control in claim.controls if claim.robustness else ():
        word = control.reason or (claim.word if control.word == claim.word else control.strict)
        word = "the same" if word == claim.word else word
        words.setdefault(word, []).append(control.name + _number_under(claim, control))
    texts = [f"{word} under {', '.join(names)}" for word, names in words.items()]
    if claim.robustness and claim.scattered:
        texts.append("no comparison is negligible under all of them")
    suggested = claim.suggestion and claim.suggestion.kind == "control"  # which says so
    if claim.robustness and claim.unvaried and not suggested:
        texts.append(f"no control varies the {' and the '.join(claim.unvaried)}")
    beside = [part for part in claim.reported if part.id in claim.beside and part.n]
    texts += [f"besides, {sentence(part)} ({part.word})" for part in beside]
    if len(claim.looks) > 1 and claim.look:
        planned = f"look {claim.look} of {len(claim.looks)} (n = {', '.join(map(str, claim.looks))})"
        texts.append(f"{planned}: the interval has the level of this look")
        if claim.word not in rules.DECIDED and claim.look < len(claim.looks):
            texts.append(f"the next look is at n = {claim.looks[claim.look]}")
    alone = {name: f"under {name}" if name else "judged" for name in claim.alone}
    seeds = [f"{alone[name]} on seeds {first} to {last}" for name, (first, last) in claim.alone.items()]
    return texts + ([f"{', '.join(seeds)} alone"] if seeds else [])


def _number_under(claim: Verdict, control: ControlVerdict) -> str:
    """` (0.9 times [0.8, 1], n = 5)`, with what it compares where that is not what decides the claim."""
    if control.share is not None:
        return f" ({control.share} of {len(claim.parts)})"
    part = control.parts[control.deciding] if control.parts else None
    if part is None or part.effect is None:
        return ""
    name = "" if control.deciding == claim.deciding else f"{part.id}: "
    return f" ({name}{effect(part)})"


def suggestion(claim: Verdict) -> str:
    """Which runs would decide an open claim; the command that trains them is `suggestion.command`."""
    plan = claim.suggestion
    if not plan:
        return ""
    cost = "1 run" if plan.runs == 1 else f"{plan.runs} runs"
    cost += "" if plan.hours is None else f", about {plan.hours:.12g} core-hours"
    under = " and the ".join(plan.under) if plan.kind == "control" else f" under {', '.join(plan.under)}"
    until = f" for the look at n = {plan.seeds}" if plan.seeds else ""
    return _SUGGESTIONS[plan.kind].format(cost=cost, seeds=plan.seeds, until=until, under=under if plan.under else "")


# --- a part ----------------------------------------------------------------------------------------------------------


def sentence(part: PartResult) -> str:
    """`LN is 4.1 points better than BN in final test error [1.2, 7], n = 5`; then the margin, and why it is open."""
    if not part.n or part.why in ("no record", "hardly begun"):
        return _why(part) or "no seed has a run of every arm that is compared"
    if part.required is not None or part.effect is None:
        return "; ".join(filter(None, [f"{part.id}: {effect(part)}", _why(part)]))
    return "; ".join(filter(None, [_compared(part, part.effect) + _sure(part), _claimed(part), _why(part)]))


def effect(part: PartResult) -> str:
    """`1.8 points better [0.9, 2.7], n = 5`; of computed numbers with the bound; counts where runs give no mean."""
    return _estimate(part) + ("" if part.effect is None or part.required is not None else _sure(part))


def _estimate(part: PartResult) -> str:
    """The effect without its interval."""
    if part.effect is None:
        return _order(part)
    if part.required is not None:
        return f"{_round(part.effect)}{_unit(part)} (required: {_required(part.required)})"
    return f"{'median ' if part.test == 'sign' else ''}{size(part, part.effect, digits=_digits(part, part.interval))}"


def is_ratio(part: PartResult) -> bool:
    """Whether the effect is the logarithm of a ratio."""
    return part.scale == "log" or part.unit == "log ratio"


def size(part: PartResult, value: float, unit: bool = True, digits: int = 2) -> str:
    """`0.6 times`, `1.8 points better`, `0.28 lower`; of a single cell the number itself; digits: at least so many."""
    if is_ratio(part):
        return f"{_round(math.exp(value), ratio=True, digits=digits)}{' times' if unit else ''}"
    text = f"{_round(abs(value) if _turned(part) else value, digits=digits)}{_unit(part) if unit else ''}"
    if not _turned(part) or not value:
        return text
    words = ("sooner", "later") if part.clock else ("better", "worse") if part.better else ("lower", "higher")
    return f"{text} {words[(value > 0) != _rises(part)]}"


def _compared(part: PartResult, value: float) -> str:
    """What is compared, with the effect."""
    text = f"{'in the median ' if part.test == 'sign' else ''}{size(part, value, digits=_digits(part, part.interval))}"
    where = f"{part.quantity} {part.place}".rstrip()
    if part.kind == "size" and len(part.sides) == 1:
        return f"the {part.quantity} of {part.sides[0]}{where.removeprefix(part.quantity)} is {text}"
    if len(part.sides) != 2:
        return f"{part.id}: {text}"
    first, second = part.sides
    if part.scale != "log":
        where = f"{'at' if part.clock else 'in'} {where}"
        return f"{first} is {text} than {second} {where}" if value else f"{first} and {second} are alike {where}"
    if part.clock:
        return f"{first} takes {text} as many {part.clock} as {second} to reach {where}"
    other = f"that of {second}" if part.than is None else second
    return f"the {part.quantity} of {first} is {text} {other}{where.removeprefix(part.quantity)}"


def _sure(part: PartResult) -> str:
    """` [1.2, 7], n = 5`."""
    return f"{f' {_interval(part)}' if part.interval else ''}, n = {_counts(part)}"


def _interval(part: PartResult) -> str:
    """`[1.2, 7]`, with its level where that is not 95 %."""
    level = "" if part.level in (None, 1 - ALPHA) else f" ({_percent(part.level or 0)} %)"
    return f"{_brackets(part, part.interval)}{level}" if part.interval else ""


def _counts(part: PartResult) -> str:
    """`5 × 100 examples, 1 run diverged`: seeds, test examples, lost runs."""
    counts = " against ".join(map(str, part.unpaired or [part.n]))
    return f"{counts}{f' × {part.examples} examples' if part.examples else ''}{_lost(part)}"


def _percent(level: float) -> str:
    """97.5 of 0.975; of 0.99998, which three digits would make 100, 99.998."""
    rest = 100 * (1 - level)
    return f"{100 - float(f'{rest:.1g}'):.12g}" if rest < 0.05 else f"{100 * level:.3g}"


def _brackets(part: PartResult, interval: Interval) -> str:
    return f"[{', '.join(_ends(part, interval, _digits(part, interval)))}]"


def _digits(part: PartResult, interval: Interval | None) -> int:
    """Of the ends of an interval, and of its effect: two, or as many as tell the ends apart."""
    differing = (n for n in range(2, MOST_DIGITS) if interval and len({*_ends(part, interval, n)}) > 1)
    return next(differing, MOST_DIGITS if interval else 2)


def _ends(part: PartResult, interval: Interval, digits: int) -> list[str]:
    """Both ends, each with its side where they differ."""
    if _turned(part) and interval[0] * interval[1] >= 0:
        return [_round(end, digits=digits) for end in sorted(map(abs, interval))]
    return [size(part, end, unit=False, digits=digits) for end in interval]


def _claimed(part: PartResult) -> str:
    """The paper's number, or the margin that decides; of what is no difference, on which side it should lie."""
    if part.kind == "size":
        single = len(part.sides) == 1 and part.scale != "log"  # a number that the paper gives with its digits
        paper = f"{show(part.paper or 0.0)}{_unit(part)}" if single else size(part, part.paper or 0.0)
        more = f"; one more run would have {_brackets(part, part.prediction)}" if part.prediction else ""
        return f"the paper has {paper}, within {_margin(part)}{more}"
    if part.kind == "no_worse":
        return f"claimed is worse by less than {_margin(part)}"
    if part.tost and part.word == (rules.HOLDS if part.kind == "equivalence" else rules.NEGLIGIBLE):
        return f"surely within {_margin(part)}"
    if part.kind == "direction" and not part.better and len(part.sides) != 2 and part.word != rules.HOLDS:
        return f"claimed is {'below' if part.expect == 'negative' else 'above'} {1 if part.scale == 'log' else 0}"
    return ""


def _rises(part: PartResult) -> bool:
    """Whether more is better: of a time less is, whatever the metric."""
    return bool(part.better == "higher") and not part.clock


def _turned(part: PartResult) -> bool:
    """Whether words say the side of a number: not of a ratio, nor of a number that is no difference."""
    named = part.better or part.than is not None or 1 not in (len(part.sides), len(part.cells))
    return bool(named) and not is_ratio(part)


def _order(part: PartResult) -> str:
    """In how many seeds which side is ahead, where a run without a number leaves no mean."""
    if not part.sign_test:
        return _lost(part).removeprefix(", ") or "no number"
    fewer, more = ("sooner", "later") if part.clock else ("lower", "higher")
    below, above, p = (part.sign_test[key] for key in ("below", "above", "p"))
    return f"{fewer} in {below:g}, {more} in {above:g} of {part.n} seeds, p = {show(p)}{_lost(part)}"


def _lost(part: PartResult) -> str:
    texts = [f", not reached in {part.censored} of the runs"] if part.censored else []
    return "".join([*texts, f", {part.diverged} run{'s' * (part.diverged > 1)} diverged"] if part.diverged else texts)


def _why(part: PartResult) -> str:
    text, planned = WHY.get(part.why, ""), max(part.planned or 0, FEWEST)
    return text.format(
        about=part.about if "{about[" in text else ", ".join(part.about),
        than=part.sides[-1] if part.sides else "",
        needed=f"{planned} planned" if planned > FEWEST else planned,
        margin=_margin(part) if part.delta or part.within else "",
    )


def _margin(part: PartResult) -> str:
    margin = {"equivalence": part.within, "no_worse": part.within, "size": part.band}.get(part.kind, part.delta)
    assert margin is not None
    return f"a factor of {_round(math.exp(margin), True)}" if part.scale == "log" else f"{show(margin)}{_unit(part)}"


def _required(bounds: Mapping[str, float | None]) -> str:
    """What a computed number must be."""
    value, high, low = (bounds[key] for key in ("value", "at_most", "at_least"))
    if high is not None and low is not None:
        return show(high) if high == low else f"{show((high + low) / 2)} ± {show((high - low) / 2)}"
    bound_by_words = {"": value, "at most ": high, "at least ": low}
    return next(f"{words}{show(bound)}" for words, bound in bound_by_words.items() if bound is not None)


def _unit(part: PartResult) -> str:
    """None where the unit only says that it is a number, or is the quantity."""
    bare = ("absolute", "relative", "count", "share", "log ratio", part.quantity)
    return "" if part.unit in bare else f" {part.unit}"


def _round(value: float, ratio: bool = False, digits: int = 2) -> str:
    """Two digits, or as many as are needed, of a ratio around 1 three."""
    digits = max(digits, 3 if ratio and 0.95 < value < 2 else 2)
    return show(float(f"{value:.{digits}g}")) if digits <= 3 else minus(f"{value:.{digits}g}")
