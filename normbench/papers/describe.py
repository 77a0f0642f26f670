"""Sentences about verdicts, with their numbers: parts, claims, and summaries of several claims."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

from normbench.draw.text import show
from normbench.papers import rules
from normbench.papers.claims import Claim
from normbench.papers.decide import Parts, Verdict
from normbench.papers.parts import Observed, margin
from normbench.stats.statistics import Interval, detectable_effect, sign_test, within

WORDED = ("deciding", "share", "scattered")  # what sentences say of a verdict, and schema 3 has no key for
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


# --- a claim --------------------------------------------------------------------------------------------------------


def in_words(
    claim: Claim, fidelity: str, found: Verdict, setting: Parts, controls: Mapping[str, Parts], reported: Parts
) -> dict[str, Any]:
    """An entry of `claims` in verdicts.json: the numbers of a verdict, with their sentences."""

    def described(nodes: Sequence[Mapping[str, Any]], of: Parts) -> list[dict[str, Any]]:
        pairs = zip(nodes, of, strict=True)
        return [{**node, "reason": reason(seen, node["word"], found["alpha"])} for node, (_, seen) in pairs]

    whole = {**found, "parts": described(found["parts"], setting), "reported": described(found["reported"], reported)}
    under = [
        {**control, "parts": described(control["parts"], controls[control["name"]]) if control["parts"] else []}
        for control in found["controls"]
    ]
    kept = [{key: value for key, value in control.items() if key not in WORDED} for control in under]
    numbers = {key: value for key, value in whole.items() if key not in WORDED}
    return {**numbers, "controls": kept, "evidence": _evidence(claim, fidelity, whole), "way_on": ""}


def _evidence(claim: Claim, fidelity: str, found: Mapping[str, Any]) -> str:
    """What a claim rests on, and what its controls say."""
    text = claim.not_decidable.get(fidelity) or _describe_parts(found)
    if found["robustness"]:
        text += _describe_controls(found)
        text += ", but no part is so under all of them" if found["scattered"] else ""
        text += f"; no control varies the {' and the '.join(claim.unvaried)}" if claim.unvaried else ""
    text += "".join(
        f"; beside it, {part['id']}: {describe_effect(part)} ({part['word']})"
        for part in found["reported"]
        if part["id"] in claim.beside and part["n"]
    )
    return text + _describe_seeds(claim, fidelity)


def _describe_parts(found: Mapping[str, Any]) -> str:
    word, parts = found["setting"], found["parts"]
    part = parts[found["deciding"]]
    if word in (rules.NOT_RUN, rules.NOT_DECIDABLE):
        return str(part["reason"])
    own = str(part["reason"]).removeprefix(part["endpoint"]).lstrip(",: ")
    if len(parts) == 1:
        metric = re.search(r"(train|valid|test) \S+", part["endpoint"])
        return f"{part['id']}: {own if metric and metric[0] in part['id'] else part['reason']}"
    counts = Counter(part["word"] for part in parts)
    against = "".join(f", {counts[other]} {other}" for other in (rules.OPPOSITE, rules.NEGLIGIBLE) if counts[other])
    stricter = ""
    if word == rules.UNDECIDED and part["word"] in (rules.OPPOSITE, rules.NEGLIGIBLE):
        stricter = f"; {part['word']}, but not at the level that one of {len(parts)} parts is asked for"
    share = f"{counts[rules.HOLDS]} of {len(parts)} parts hold{against if word == rules.UNDECIDED else ''}"
    return f"{share}; {part['id']}: {own}{stricter}"  # the part's name already names the endpoint


def _describe_controls(found: Mapping[str, Any]) -> str:
    """The word under each control, with its number."""
    word, gaps = found["setting"], (rules.NOT_RUN, rules.NOT_DECIDABLE)
    names: dict[str, list[str]] = {}
    for control in found["controls"]:
        there = control["word"] if control["word"] in (word, *gaps) else control["strict"]
        if there not in (*rules.DECIDED, *gaps):
            there = rules.UNDECIDED
        effect = "" if there == rules.NOT_RUN else _format_control_effect(found, control)
        names.setdefault("the same" if there == word else there, []).append(control["name"] + effect)
    return "".join(f"; {there} under {', '.join(texts)}" for there, texts in names.items())


def _format_control_effect(found: Mapping[str, Any], control: Mapping[str, Any]) -> str:
    """` (−2.2)` under a control, of the part that decides at the paper's setting; where it has another word, of the
    part that makes it; of how many parts it is, where negligible.
    """
    if control["share"] is not None:
        return f" ({control['share']} of {len(found['parts'])} parts)"
    if not control["parts"]:
        return ""
    other = control["word"] in rules.DECIDED and control["word"] != found["setting"]
    part = control["parts"][control["deciding"] if other else found["deciding"]]
    which = f"{part['id']}: " if other and len(found["parts"]) > 1 else ""
    return "" if part["effect"] is None else f" ({which}{show(part['effect'])})"


def _describe_seeds(claim: Claim, fidelity: str) -> str:
    """Which seeds alone decide, at the paper's setting and where a control has its own."""
    own = {"judged": claim.alone(fidelity)} | {f"under {c}": claim.alone(fidelity, c) for c in claim.control_seeds}
    texts = [f"{what} on seeds {seeds[0]} to {seeds[-1]}" for what, seeds in own.items() if seeds is not None]
    return f"; {', '.join(texts)} alone" if texts else ""


# --- a part ---------------------------------------------------------------------------------------------------------


def reason(seen: Observed, word: str, alpha: float) -> str:
    """One line: the effect, the margin it is compared with, and what is missing to a word."""
    part, n = seen.part, len(seen.seeds)
    if seen.reason:
        return seen.reason
    if not n:
        return "no seed has a run in every cell"
    text = _describe_values(seen, alpha)
    if not seen.complete:
        least = max(seen.least, rules.FEWEST)
        planned = f"no verdict before the planned n = {least}" if n >= rules.FEWEST else f"no verdict below n = {least}"
        return f"{text}; {planned}"
    if seen.flat:
        return f"{text}; all seeds alike: a spread of zero decides nothing"
    if part.test == "t" and not seen.whole:
        return f"{text}; a run without a number: no mean is tested"
    if part.kind == "size":
        predicted = f"our prediction interval {_format_interval(seen.prediction(1 - alpha))}"
        return f"{text}; the paper's {show(part.paper)} ± {show(part.band)} against {predicted}"
    if (delta := margin(seen)) is not None and (part.kind == "equivalence" or word != rules.HOLDS):
        small = seen.interval(1 - 2 * alpha)
        inside = within(small, delta)
        if part.kind == "equivalence" or inside:
            text += f"; {_format_percent(1 - 2 * alpha)} interval {_format_interval(small)} against ±{show(delta)}"
        if inside and not seen.planned:
            return f"{text}: inside, but this second look was not planned"
        if inside and part.kind == "direction" and not seen.fresh:
            return f"{text}: inside, but post hoc, as these seeds had been seen when it was declared"
        if inside and part.kind == "direction" and not seen.whole:
            return f"{text}: inside, but nothing is negligible where a value is censored"
    if part.kind == "direction" and word in (rules.UNDECIDED, rules.OPPOSITE):
        text += f"; claimed is {'less' if part.expect == 'negative' else 'more'} than 0"
    return text + (_describe_power(seen, alpha) if word == rules.UNDECIDED else "")


def _describe_values(seen: Observed, alpha: float) -> str:
    part = seen.part
    lost = [f"{seen.censored} censored"] if seen.censored else []
    lost += [f"{seen.diverged} diverged"] if seen.diverged else []
    interval = seen.interval(1 - alpha)
    if part.test == "sign" or not seen.whole:
        above, below = seen.signs
        lost += [f"{above} above : {below} below zero, p = {show(sign_test(above, below))}"]
    what = "median " if part.test == "sign" else ""
    number = "" if seen.effect is None else f", {what}{part.unit} {show(seen.effect)} {_format_interval(interval)}"
    if interval and alpha != rules.ALPHA:
        number += f" ({_format_percent(1 - alpha)})"
    over = f" seeds × {seen.spread.examples} test examples" if seen.spread else ""
    return f"{part.endpoint}{number}, n = {len(seen.seeds)}{over}" + "".join(f", {text}" for text in lost)


def _describe_power(seen: Observed, alpha: float) -> str:
    """The effect that this n can detect; for the sign test, the fewest pairs."""
    n = len(seen.seeds)
    if seen.part.test == "sign":
        fewest = rules.fewest_pairs(alpha)
        return f"; the sign test needs {fewest} pairs or more" if n < fewest else ""
    if seen.sd is None or seen.effect is None:
        return ""
    detectable = detectable_effect(seen.sd, n, 1 - alpha, rules.POWER)
    return f"; detectable at n = {n}: {show(detectable)} ({_format_percent(rules.POWER)} power)"


def describe_effect(part: Mapping[str, Any]) -> str:
    """`nats −0.02 [−0.05, 0.01]` of a part in verdicts.json; counts of its runs if they give no mean."""
    if part["effect"] is not None:
        what = "median " if part["test"] == "sign" else ""
        level = "" if part["level"] in (None, 1 - rules.ALPHA) else f" ({_format_percent(part['level'])})"
        return f"{what}{part['unit']} {show(part['effect'])} {_format_interval(part['interval'])}{level}"
    if not part["n"]:
        return rules.NOT_RUN
    lost = [f"{part[what]} {what}" for what in ("censored", "diverged") if part[what]]
    signs = part["sign_test"]
    counts = [f"{signs['above']} above : {signs['below']} below zero"] if signs else []
    return ", ".join([*lost, *counts]) or "no number"


def _format_percent(level: float) -> str:
    return f"{100 * level:.3g} %"


def _format_interval(interval: Interval | None) -> str:
    return "without interval" if interval is None else f"[{show(interval[0])}, {show(interval[1])}]"
