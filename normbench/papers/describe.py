"""Sentences about verdicts, made of their numbers, for every page, table, README and the terminal.

A claim's answer has one number and how sure it is: ratios for what is compared on a logarithm, points for error rates,
better and worse where one side is, and the smallest effect of interest where it decides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from normbench.draw.text import minus, show
from normbench.papers import rules
from normbench.papers.rules_file import ALPHA, FEWEST

if TYPE_CHECKING:  # they take a tenth of a second, and `list` judges nothing
    from normbench.papers.decide import ControlVerdict, Verdict
    from normbench.papers.parts import PartResult

MOST_DIGITS = 7  # of the ends of an interval that look alike
WHY = {  # what keeps a part from a word
    "no runs": "no runs of {about}",
    "no planned runs": "no runs with the planned seeds of {about}",
    "no record": "no number to compare in {about}",
    "hardly begun": "a run of seed {about[0]} has not come {about[1]} from its start: it has hardly begun",
    "other data": "the paper's number belongs to its own data; these runs are on other data",
    "less training": "the paper's number belongs to its own sizes and length of training; these runs have less",
    "incomplete": "no verdict below {needed} seeds",
    "alike": "all seeds give the same number: without a spread nothing can be tested",
    "no mean": "a run has no number, so no mean can be tested",
    "second look": "the interval lies within {margin}, but this second look was not planned",
    "seen seeds": "the interval lies within {margin}, but these seeds had been seen when that was chosen",
    "censored": "the interval lies within {margin}, but a run has no number",
    "few pairs": "the sign test needs more seeds",
    "no pairs": "only pairs of equal seeds allow this comparison, and the seeds are not the same",
    "uneven": "{about[0]} runs against {about[1]}: no verdict where one side has more than twice as many, for skewed "
    "losses fool Welch's interval; train {about[2]} of the smaller side",
    "copies": "{about[0]} have the same curve: copies of one run are no further runs",
    "cut short": "the last step that all runs have is {about[0]}, and their median length is {about[1]} ({about[2]} "
    "ends at {about[3]}): no verdict below 80 % of it",
    "chosen by itself": "the best evaluation is chosen on {about}, where it is compared: noise of evaluations would "
    "look like a better arm; compare the final one, or another split",
    "no common steps": "the runs have no logged step in common",
}
_VERBS = {  # of one, of several
    rules.HOLDS: ("holds", "hold"), rules.FAILS: ("fails", "fail"),
    rules.NEGLIGIBLE: ("is negligible", "are negligible"), rules.UNDECIDED: ("is undecided", "are undecided"),
    rules.UNTESTED: ("is untested", "are untested"),
}  # fmt: skip
_SUGGESTIONS = {
    "missing": "{missing}{cost}",
    "control": "a control that varies the {under} has to be planned first",
    "single runs": "more seeds do not help: the paper's number is compared with single runs, and these spread",
    "no mean": "a test of means needs a number of every run: plan longer runs, or {seeds} seeds for the sign test",
    "out of reach": "no number of seeds within reach would show a difference as small as that seen{under}",
    "seeds": "about {seeds} fresh seeds{cost} would show a difference as large as that seen{under}: plan them first",
}


# --- a claim ---------------------------------------------------------------------------------------------------------


def evidence(claim: Verdict) -> str:
    """The answer, and what is beside it."""
    return "; ".join([answer(claim), *besides(claim)])


def besides(claim: Verdict) -> list[str]:
    """What the controls say, and what else a reader has to know."""
    texts = _controls(claim)
    texts += [
        f"besides, {_compared(part)} ({part.word})" for part in claim.reported if part.id in claim.beside and part.n
    ]
    alone = {name: "judged" if not name else f"under {name}" for name in claim.alone}
    seeds = [f"{alone[name]} on seeds {first} to {last}" for name, (first, last) in claim.alone.items()]
    return texts + ([f"{', '.join(seeds)} alone"] if seeds else [])


def answer(claim: Verdict) -> str:
    """One sentence with one number: that of the part which decides."""
    return "; ".join(finding(claim))


def finding(claim: Verdict) -> list[str]:
    """The number, then how sure it is: `["BN is 23 points worse than LN ...", "95 % interval 21 to 25, 5 seeds"]`."""
    part, parts = deciding(claim), claim.parts
    if claim.undecidable or part is None:
        return [str(claim.undecidable)]
    if len(parts) == 1 or claim.word == rules.UNTESTED:
        return _finding(part)
    if claim.kind == "exact" and claim.word == rules.HOLDS:
        return [f"{len(parts)} of {len(parts)} computed numbers hold"]
    return [*_finding(part), _count(claim, part)]


def _count(claim: Verdict, part: PartResult) -> str:
    """How many of several parts have a word, and why one that has it alone does not decide."""
    parts = claim.parts
    counts = Counter(one.word for one in parts)
    what = "numbers" if claim.kind == "exact" else "comparisons"
    if claim.share is not None:
        return f"{claim.share} of {len(parts)} {what} {verb(rules.NEGLIGIBLE, claim.share)}"
    words = (rules.FAILS, rules.NEGLIGIBLE) if claim.word == rules.UNDECIDED else ()
    against = "".join(f", {counts[word]} {verb(word, counts[word])}" for word in words if counts[word])
    strict = claim.word == rules.UNDECIDED and part.word in words
    level = f" (alone, but not at the stricter level of {len(parts)} {what})" if strict else ""
    return f"{counts[rules.HOLDS]} of {len(parts)} {what} {verb(rules.HOLDS, counts[rules.HOLDS])}{against}{level}"


def deciding(claim: Verdict) -> PartResult | None:
    """The part whose effect stands for the claim; None where it has no parts."""
    return claim.parts[claim.deciding or 0] if claim.parts else None


def _controls(claim: Verdict) -> list[str]:
    """The word under each control, with its number."""
    if not claim.robustness:
        return []
    word, gaps = claim.word, rules.GAPS
    names: dict[str, list[str]] = {}
    named: set[str] = set()
    for control in claim.controls:
        found = control.reason or (word if control.word == word else control.strict)
        if found not in (*rules.DECIDED, *gaps):
            found = rules.UNDECIDED
        number = "" if found == rules.NOT_RUN else _under(claim, control, named)
        notes = ", ".join(filter(None, [number, f"n = {control.n}" if control.n else ""]))
        text = f"{control.name} ({notes})" if notes else control.name
        names.setdefault("the same" if found == word else found, []).append(text)
    texts = [f"{found} under {', '.join(own)}" for found, own in names.items()]
    texts += ["no comparison is negligible under all of them"] if claim.scattered else []
    suggested = claim.suggestion and claim.suggestion.kind == "control"  # which says so
    if claim.unvaried and not suggested:
        texts.append(f"no control varies the {' and the '.join(claim.unvaried)}")
    return texts


def _under(claim: Verdict, control: ControlVerdict, named: set[str]) -> str:
    """`0.9 times`: of the part that decides at the paper's setting; where the control has another word, of one that
    has it or leaves it open, with what it compares unless that has been `named`; of how many parts, where negligible.
    """
    if control.share is not None:
        return f"{control.share} of {len(claim.parts)}"
    other = control.word in rules.DECIDED and control.word != claim.word
    if not control.parts:
        return ""
    part = control.parts[control.deciding if other else claim.deciding or 0]
    if control.word not in rules.DECIDED and part.word in rules.DECIDED:  # another one leaves the control open
        part = next((one for one in control.parts if one.word not in rules.DECIDED), part)
        other = True
    if part.effect is None:
        return ""
    full = other and len(claim.parts) > 1 and part.id not in named
    named |= {part.id} if full else set()
    return _compared(part) if full else size(part, part.effect)


def suggestion(claim: Verdict) -> str:
    """Which runs would decide an open claim; the command that trains them is `suggestion.command`."""
    found = claim.suggestion
    if not found:
        return ""
    cost = [f"{found.runs} runs"] if found.kind == "seeds" else []
    cost += [f"about {found.hours:.12g} core-hours"] if found.hours is not None else []
    under = f" under {', '.join(found.under)}" if found.under else ""
    return _SUGGESTIONS[found.kind].format(
        missing="1 planned run is missing" if found.runs == 1 else f"{found.runs} planned runs are missing",
        cost=f" ({', '.join(cost)})" if cost else "",
        seeds=found.seeds,
        under=" and the ".join(found.under) if found.kind == "control" else under,
    )


# --- a part ----------------------------------------------------------------------------------------------------------


def sentence(part: PartResult) -> str:
    """`LN is 4.1 points better than BN in final test error; 95 % interval 1.2 to 7, 5 seeds`."""
    return "; ".join(_finding(part))


def _finding(part: PartResult) -> list[str]:
    if not part.n or part.why in ("no record", "hardly begun"):
        return [_why(part) or "no seed has a run of every arm that is compared"]
    if part.required is not None and part.effect is not None:
        return [f"{part.id}: {_number(part.effect)}{_unit(part)} (required: {_required(part.required)})"]
    return [text for text in (_compared(part), *_sure(part), _why(part)) if text]


def short(part: PartResult) -> str:
    """A part by its id, with its number and interval: for tables and beside an answer."""
    if not part.n:
        return f"{part.id}: {rules.NOT_RUN}"
    return f"{part.id}: {effect(part)}"


def effect(part: PartResult) -> str:
    """`0.6 times (0.14 to 2.6)`, `1.8 points better (2.5 worse to 6.2 better)`; counts where runs give no mean."""
    if part.effect is None:
        return _order(part) if part.sign_test else _lost(part) or "no number"
    median = "median " if part.test == "sign" else ""
    span = f" ({_span(part, part.interval)}{_level(part)})" if part.interval else ""
    return f"{median}{size(part, part.effect)}{span}"


def size(part: PartResult, value: float, unit: bool = True, digits: int = 2) -> str:
    """`0.6 times`, `1.8 points better`, `0.28 lower`; of a single cell the number itself; digits: at least so many."""
    if part.scale == "log" or part.unit == "log ratio":
        return f"{_number(math.exp(value), ratio=True, digits=digits)}{' times' if unit else ''}"
    if not _turned(part):
        return f"{_number(value, digits=digits)}{_unit(part) if unit else ''}"
    words = ("better", "worse") if part.better else ("lower", "higher")
    words = ("sooner", "later") if part.clock else words
    side = words[(value > 0) != _rises(part)] if value else ""
    return f"{_number(abs(value), digits=digits)}{_unit(part) if unit else ''} {side}".rstrip()


def _compared(part: PartResult) -> str:
    """What is compared, with the effect."""
    value, sides = part.effect, part.sides
    if value is None:
        return f"{part.id}: {_order(part) if part.sign_test else _lost(part) or 'no number'}"
    median = "in the median " if part.test == "sign" else ""
    at = f" {part.place}" if part.place else ""
    if part.kind == "size" and len(sides) == 1:
        return f"the {part.quantity} of {sides[0]}{at} is {size(part, value)}"
    if len(sides) != 2:
        return f"{part.id}: {median}{size(part, value)}"
    one, other = sides
    if part.clock and part.scale == "log":
        times = _number(math.exp(value), ratio=True)
        return f"{one} takes {median}{times} times as many {part.clock} as {other} to reach {part.quantity}{at}"
    if part.scale == "log":
        return f"the {part.quantity} of {one} is {median}{size(part, value)} that of {other}{at}"
    if not value:
        return f"{one} and {other} are alike{f' {median}'.rstrip()} in {part.quantity}{at}"
    return f"{one} is {median}{size(part, value)} than {other} in {part.quantity}{at}"


def _sure(part: PartResult) -> list[str]:
    """How sure the effect is: its interval and n; the smallest effect where it decides."""
    counts = part.unpaired or [part.n]
    seeds = f"{' against '.join(map(str, counts))} seed{'' if counts == [1] else 's'}"
    seeds += f" × {part.examples} test examples" if part.examples else ""
    seeds += "".join(f", {text}" for text in (_lost(part),) if text and part.effect is not None)
    if part.kind == "size":
        return [*_paper(part), seeds]
    if part.kind == "no_worse" and part.word == rules.HOLDS:
        return [f"not worse by {_margin(part)} or more", seeds]
    if part.tost and part.word == (rules.HOLDS if part.kind == "equivalence" else rules.NEGLIGIBLE):
        within = f"within {_margin(part)}" if part.scale == "log" else f"less than the {_margin(part)} that matter"
        return [f"surely {within}, {seeds}"]
    if not part.interval:
        return [seeds]
    level = f"{_percent(part)} interval"
    if part.word in (rules.HOLDS, rules.FAILS):
        claimed = _claimed(part) if part.word == rules.FAILS else []
        return [f"{level} {_span(part, part.interval)}, {seeds}", *claimed]
    low, high = _ends(part, part.interval)
    ends = f"{size(part, low).removesuffix(' times')} to {size(part, high)}"
    usual = "" if _usual(part) else f" ({level})"
    claimed = [f"claimed is worse by less than {_margin(part)}"] if part.kind == "no_worse" else _claimed(part)
    return [f"with {seeds} anything from {ends} is possible{usual}", *claimed]


def _paper(part: PartResult) -> list[str]:
    """The paper's number, and where one more run would lie."""
    assert part.paper is not None and part.band is not None
    single = len(part.sides) == 1 and part.scale != "log"  # a number that the paper gives with its digits
    paper = f"{show(part.paper)}{_unit(part)}" if single else size(part, part.paper)
    band = f"within {_margin(part)}" if part.scale == "log" else f"± {_number(part.band)}"
    more = [f"one more run would have {_span(part, part.prediction)}"] if part.prediction else []
    return [f"the paper has {paper}, {band}", *more]


def _claimed(part: PartResult) -> list[str]:
    """What was claimed of a number that is not the difference of two sides."""
    if part.kind != "direction" or part.better or len(part.sides) == 2:
        return []
    return [f"claimed is {'below' if part.expect == 'negative' else 'above'} {1 if part.scale == 'log' else 0}"]


def _span(part: PartResult, interval: Sequence[float]) -> str:
    """Both ends, the better one last; each with its side where they differ; of logged runs with as many digits as tell
    them apart. Published answers keep their words."""
    low, high = _ends(part, interval)
    texts: list[str] = []
    for digits in range(2, MOST_DIGITS + 1 if part.logged else 3):
        if (low < 0) == (high < 0) and _turned(part):
            texts = [_number(end, digits=digits) for end in sorted((abs(low), abs(high)))]
        else:
            texts = [size(part, end, unit=False, digits=digits) for end in (low, high)]
        if texts[0] != texts[1]:
            break
    return " to ".join(texts)


def _ends(part: PartResult, interval: Sequence[float]) -> tuple[float, float]:
    low, high = interval
    return (high, low) if _turned(part) and part.better and not _rises(part) else (low, high)


def _rises(part: PartResult) -> bool:
    """Whether more is better: of a time less is, whatever the metric."""
    return bool(part.better == "higher") and not part.clock


def _turned(part: PartResult) -> bool:
    """Whether words say the side of a number: not of a ratio, nor of a number that is no difference."""
    single = len(part.sides) == 1 and not part.better
    return part.scale != "log" and not single


def _order(part: PartResult) -> str:
    """In how many seeds which side is ahead, where a run without a number leaves no mean."""
    counts = part.sign_test or {}
    fewer, more = ("sooner", "later") if part.clock else ("lower", "higher")
    text = f"{fewer} in {counts['below']:g}, {more} in {counts['above']:g} of {part.n} seeds, p = {show(counts['p'])}"
    if part.n in (counts["below"], counts["above"]) and counts["p"] > ALPHA:
        text += ": too few seeds for a sign test"
    return "; ".join(filter(None, [text, _lost(part)]))


def _lost(part: PartResult) -> str:
    texts = [f"not reached in {part.censored} of the runs"] if part.censored else []
    return ", ".join([*texts, f"{part.diverged} runs diverged"] if part.diverged else texts)


def _why(part: PartResult) -> str:
    if part.why not in WHY:
        return str(part.why)
    needed = max(part.planned or 0, FEWEST)
    margin = _margin(part) if part.delta or part.within else ""
    about = part.about if "{about[" in WHY[part.why] else ", ".join(part.about)
    planned = f"{needed} planned" if needed > FEWEST else needed
    return WHY[part.why].format(about=about, needed=planned, margin=margin)


def _margin(part: PartResult) -> str:
    margin = {"equivalence": part.within, "no_worse": part.within, "size": part.band}.get(part.kind, part.delta)
    assert margin is not None
    if part.scale == "log":
        return f"a factor of {_number(math.exp(margin), True)}"
    return f"{show(margin)}{_unit(part)}"


def _required(bounds: Mapping[str, float | None]) -> str:
    """What a computed number must be; two ends that nearly agree are a number and its tolerance."""
    value, high, low = (bounds[key] for key in ("value", "at_most", "at_least"))
    if high is not None and low is not None and show(high) == show(low):
        middle, half = (high + low) / 2, (high - low) / 2
        return f"{show(middle)} ± {show(half)}" if half else show(middle)
    found = {"": value, "at most ": high, "at least ": low}
    return " and ".join(f"{words}{show(bound)}" for words, bound in found.items() if bound is not None)


def _unit(part: PartResult) -> str:
    """None where the unit only says that it is a number, or is the quantity."""
    bare = ("absolute", "relative", "count", "share", "log ratio", part.quantity)
    return "" if part.unit in bare else f" {part.unit}"


def _number(value: float, ratio: bool = False, digits: int = 2) -> str:
    """Two digits, or as many as are asked for, of a ratio around 1 three."""
    digits = max(digits, 3 if ratio and 0.95 < value < 2 else 2)
    return show(float(f"{value:.{digits}g}")) if digits <= 3 else minus(f"{value:.{digits}g}")


def _usual(part: PartResult) -> bool:
    return part.level in (None, 1 - ALPHA)


def _level(part: PartResult) -> str:
    return "" if _usual(part) else f", {_percent(part)} interval"


def _percent(part: PartResult) -> str:
    return f"{100 * (part.level or 0.0):.3g} %"


# --- several claims --------------------------------------------------------------------------------------------------


def tally(claims: Sequence[Verdict], kind: tuple[str, str] = ("claim", "claims")) -> str:
    """`Of 3 claims, 2 hold (1 exact, 1 controls agree); 1 is undecided.`; `kind`: one, several."""
    clauses = []
    for word in rules.WORDS:
        if group := [claim for claim in claims if claim.word == word]:
            details = facts(group)
            clauses.append(f"{len(group)} {verb(word, len(group))}" + (f" ({', '.join(details)})" if details else ""))
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
    return _VERBS[word][claims != 1]


def settings(claims: Sequence[Verdict]) -> list[list[str]]:
    """A header and a row per part: its effect, interval and word at the paper's setting and under each control.

    Of claims of several parts and of those that have runs of a control; a computed number has no such row. If a part's
    interval covers the test examples in some columns only, the other columns note it.
    """
    tried = [
        c
        for c in claims
        if any(p.n for control in c.controls for p in control.parts)
        or (c.kind != "exact" and len(c.parts) > 1 and any(p.n for p in c.parts))
    ]
    names = list(dict.fromkeys(control.name for claim in tried for control in claim.controls))
    rows = []
    for claim in tried:
        under = {control.name: {p.id: p for p in control.parts} for control in claim.controls}
        for part in claim.parts:
            tested = {"": part} | {name: parts.get(part.id) for name, parts in under.items()}
            over_examples = any(result and result.examples for result in tested.values())
            cells = [_cell(tested[name], over_examples) if name in tested else "" for name in ("", *names)]
            rows.append([claim.id, part.id, *cells])
    return [["claim", "comparison", "the paper's setting", *names], *rows] if rows else []


def _cell(part: PartResult | None, over_examples: bool) -> str:
    """`0.02 nats better (…), n = 5: undecided`."""
    if part is None or not part.n:
        return rules.NOT_RUN
    alone = " (over seeds alone)" if over_examples and not part.examples else ""
    return f"{effect(part)}{alone}, n = {part.n}: {part.word}"
