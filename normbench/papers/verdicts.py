"""From runs to verdicts: every claim of an artifact judged by the rules that were fixed before the runs.

Effects are paired by seed: Σ weight · g(endpoint), with Student t intervals. A claim holds when all its parts hold with their
whole interval (intersection–union test, Berger 1982) and is contradicted when one part's whole interval lies on the other
side. Where a run diverged or did not reach a level, order is all that is known: the exact sign test decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from normbench.curves.series import Reached, final, log_floored, series, time_to_level
from normbench.curves.statistics import (
    Estimate,
    Interval,
    detectable_effect,
    equivalent,
    level_after_looks,
    paired,
    prediction_interval,
    seeds_needed,
    sign_test,
    tost_interval,
)
from normbench.errors import NormbenchError, unknown
from normbench.papers.claims import FIDELITIES, LOSSES, Artifact, Cell, Claim, Endpoint, Part, cell_text
from normbench.runs.record import RunRecord

MIN_SEEDS = 5  # below it intervals are so wide, and spreads so uncertain, that no word is given
DECIDED = ("reproduced", "weaker than claimed", "contradicted", "consistent", "inconsistent")


@dataclass(frozen=True)
class PartResult:
    """What the runs say about one part; `outcome`: holds, weaker, fails, open, not run or not decidable here."""

    id: str
    endpoint: str
    unit: str
    level: float | None
    outcome: str = "open"
    reason: str = ""
    effect: float | None = None
    interval: Interval | None = None
    n: int = 0
    sd: float | None = None
    correlation: float | None = None
    prediction: Interval | None = None
    paper: float | None = None
    within: float | None = None
    tost: Interval | None = None
    detectable: float | None = None
    sign_test: Mapping[str, float] | None = None
    censored: int = 0
    diverged: int = 0
    seeds: tuple[int, ...] = ()
    cells: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Outcome:
    """One run's endpoint; `value` None is worse than any number: diverged, or a level not reached up to epoch `after`."""

    value: float | None
    diverged: bool = False
    after: float = 0

    def __str__(self) -> str:
        if self.value is not None:
            return _show(self.value)
        return "diverged" if self.diverged else f"≥ {_show(self.after)}"


def judge(
    artifact: Artifact, runs: Sequence[RunRecord], fidelity: str, previous: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The content of verdicts.json for runs of one fidelity; `previous` is the last such content, which counts the looks.

    `expected_wrong` = 0.05 × the number of statistical (not exact) claims with the verdict reproduced, weaker than claimed,
    contradicted, consistent or inconsistent: how many are expected to be wrong by chance. Numbers are rounded to 6 digits,
    what does not exist is None, and neither the order of the runs nor the clock changes a byte.
    Raises NormbenchError for runs of another fidelity, two runs of one seed in a cell, or a malformed `previous`.
    """
    if fidelity not in FIDELITIES:
        raise unknown(f"fidelity {fidelity} does not exist.", fidelity, FIDELITIES)
    for run in runs:
        if run.fidelity != fidelity:
            raise NormbenchError(
                f"run {run.id} has fidelity {run.fidelity} and cannot be judged with the {fidelity} runs of {artifact.id}."
            )
    looked = _read_previous(previous, artifact.id, fidelity) if previous is not None else {}
    claims = [_judge_claim(claim, artifact, runs, fidelity, looked.get(claim.id)) for claim in artifact.claims]
    decided = [claim for claim in claims if claim["kind"] != "exact" and claim["verdict"].split(" (")[0] in DECIDED]
    own = artifact.deviations.get(fidelity, ()) if fidelity != "paper" else ()
    content = {
        "schema": 1,
        "artifact": artifact.id,
        "fidelity": fidelity,
        "command": f"normbench reproduce {artifact.id} --fidelity {fidelity}",
        "deviations": [*artifact.deviations.get("paper", ()), *own],
        "claims_sha256": artifact.claims_sha256,
        "amendments": list(artifact.amendments),
        "note": _note(artifact, previous),
        "expected_wrong": 0.05 * len(decided),
        "claims": claims,
    }
    plain: dict[str, Any] = _plain(content)
    return plain


def _judge_claim(
    claim: Claim, artifact: Artifact, runs: Sequence[RunRecord], fidelity: str, looked: tuple[int, int] | None
) -> dict[str, Any]:
    groups = {name: [run for run in runs if run.control == name] for name in ("", *claim.controls)}
    pairs = max((len(_paired_runs(part, groups[""])[1]) for part in claim.parts), default=0)
    looks = _looks(pairs, artifact.seeds, looked)
    level = level_after_looks(looks)
    parts = [_evaluate(part, groups[""], level) for part in claim.parts]
    controls = {
        name: [_evaluate(part, groups[name], level) for part in claim.parts] if groups[name] else []
        for name in claim.controls
    }
    verdict, deciding, evidence = _verdict(claim, parts, controls, fidelity)
    return {
        "id": claim.id,
        "kind": claim.kind,
        "statement": claim.statement,
        "quote": claim.quote,
        "locator": claim.locator,
        "endpoint": deciding.endpoint if deciding else "",
        "verdict": verdict,
        "evidence": evidence,
        "n": deciding.n if deciding else 0,
        "effect": deciding.effect if deciding else None,
        "unit": deciding.unit if deciding else "",
        "interval": deciding.interval if deciding else None,
        "level": deciding.level if deciding else None,
        "detectable": deciding.detectable if deciding else None,
        "looks": looks,
        "runs": sorted({run for part in parts for run in part.runs}),
        "parts": [asdict(part) for part in parts],
        "reported": [asdict(_evaluate(part, groups[""], level)) for part in claim.reported],
        "controls": [{"name": name, "parts": [asdict(part) for part in found]} for name, found in controls.items()],
        "amendments": [entry for entry in artifact.amendments if entry["claim"] == claim.id],
    }


def _verdict(
    claim: Claim, parts: Sequence[PartResult], controls: Mapping[str, Sequence[PartResult]], fidelity: str
) -> tuple[str, PartResult | None, str]:
    """The word, the part that decided it, and the evidence in one line."""
    if claim.not_decidable:
        return "not decidable here", parts[0] if parts else None, claim.not_decidable
    by_outcome = {part.outcome: part for part in reversed(parts)}  # the first part of each outcome
    for gap in ("not run", "not decidable here"):
        if gap in by_outcome:
            return gap, by_outcome[gap], by_outcome[gap].reason
    held = sum(part.outcome in ("holds", "weaker") for part in parts)

    def line(part: PartResult, end: str = "") -> str:
        counted = f"{held} of {len(parts)} parts hold; {part.id}: " if len(parts) > 1 else ""
        return f"{counted}{part.reason}{end}"

    below = fidelity != "paper"
    if "fails" in by_outcome:
        if below:
            end = f"; at one setting, without the controls {', '.join(claim.controls)}" if claim.open else ""
            return f"inconsistent ({fidelity})", by_outcome["fails"], line(by_outcome["fails"], end)
        refuted, end = _refuted(claim, parts, controls)
        if refuted:
            return "contradicted", refuted, line(refuted, end)
        return "inconclusive", by_outcome["fails"], line(by_outcome["fails"], end)
    if "open" in by_outcome:
        return "inconclusive", by_outcome["open"], line(by_outcome["open"])
    if "weaker" in by_outcome:
        # A smaller run is expected to show another size, so its size decides nothing about the paper's number.
        return "inconclusive" if below else "weaker than claimed", by_outcome["weaker"], line(by_outcome["weaker"])
    return f"consistent ({fidelity})" if below else "reproduced", parts[0], line(parts[0])


def _refuted(
    claim: Claim, parts: Sequence[PartResult], controls: Mapping[str, Sequence[PartResult]]
) -> tuple[PartResult | None, str]:
    """The first part that fails at every setting that has to be tried, if there is one, and the end of the evidence."""
    ends = []
    for index, part in enumerate(parts):
        if part.outcome != "fails":
            continue
        tried = {name: found[index] if found else None for name, found in controls.items()} if claim.open else {}
        missing = [name for name, result in tried.items() if result is None or result.n < MIN_SEEDS]
        spared = [name for name, result in tried.items() if result and result.outcome != "fails"]
        if missing:
            needed = ", ".join(missing)
            ends.append(f"; on the other side at the one setting tried; contradicted needs the controls {needed}")
        elif spared:
            ends.append(f"; on the other side at the paper's setting, but not under {', '.join(spared)}")
        else:
            return part, f"; the same under {', '.join(tried)}" if tried else ""
    return None, ends[0]


def _evaluate(part: Part, runs: Sequence[RunRecord], level: float) -> PartResult:
    if part.kind == "exact":
        return _evaluate_exact(part, runs)
    cells, seeds = _paired_runs(part, runs)
    result = PartResult(
        part.id, str(part.endpoint), part.unit, level, paper=part.paper, within=part.within,
        n=len(seeds), seeds=tuple(seeds), runs=tuple(cell[seed].id for cell in cells for seed in seeds),
    )  # fmt: skip
    empty = [cell_text(cell) for (_, cell), found in zip(part.contrast, cells, strict=True) if not found]
    if empty:
        return replace(result, outcome="not run", reason=f"no runs: {'; '.join(empty)}")
    if not seeds:
        return replace(result, reason="no seed has a run in every cell")
    rows = []  # one row per seed, one outcome per cell
    for seed in seeds:
        row = [_outcome(part.endpoint, cell[seed]) for cell in cells]
        for cell, outcome in zip(cells, row, strict=True):
            if outcome is None:
                reason = f"run {cell[seed].id} has no record of {part.endpoint}"
                return replace(result, outcome="not decidable here", reason=reason)
        rows.append([outcome for outcome in row if outcome])
    flat = [outcome for row in rows for outcome in row]
    result = replace(
        result,
        censored=sum(outcome.value is None for outcome in flat) if part.endpoint.kind == "time_to_level" else 0,
        diverged=sum(outcome.diverged for outcome in flat),
        cells=tuple(
            {"cell": dict(cell), "weight": weight, "values": [str(outcome) for outcome in column]}
            for (weight, cell), column in zip(part.contrast, zip(*rows, strict=True), strict=True)
        ),
    )
    # A level that is met before training, at epoch 0, has no log ratio either: only its order is known.
    timed = part.endpoint.kind == "time_to_level" and part.scale == "log"
    if any(outcome.value is None or (timed and outcome.value <= 0) for outcome in flat):
        return _by_order(part, result, rows)
    sides = [_sides(part, [outcome.value for outcome in row if outcome.value is not None]) for row in rows]
    return _by_interval(part, result, [side[0] for side in sides], [side[1] for side in sides])


def _by_interval(part: Part, result: PartResult, plus: Sequence[float], minus: Sequence[float]) -> PartResult:
    """Every run has a number: Student t on the paired effects."""
    assert result.level is not None
    level, effects = result.level, [a - b for a, b in zip(plus, minus, strict=True)]
    seen = paired(plus, minus, level)
    result = replace(
        result,
        effect=seen.mean,
        interval=seen.interval,
        sd=seen.sd,
        correlation=seen.correlation,
        prediction=prediction_interval(effects, level),
        tost=tost_interval(effects, level) if part.kind == "equivalence" else None,
        detectable=None if seen.sd is None else detectable_effect(seen.sd, seen.n, level),
    )
    measured = f"{result.endpoint}, {_effect(seen.mean, part.unit)} {_span(seen.interval)}, n = {seen.n}"
    if seen.n < MIN_SEEDS:
        return replace(result, reason=f"{measured}; no verdict below n = {MIN_SEEDS}")
    assert seen.interval is not None and result.prediction is not None
    if part.kind == "equivalence":
        assert part.within is not None
        tost = f"; {_show(200 * level - 100)} % interval {_span(result.tost)} against ±{_show(part.within)}"
        if equivalent(effects, part.within, level):
            return replace(result, outcome="holds", reason=measured + tost)
        outside = seen.interval[0] > part.within or seen.interval[1] < -part.within
        return replace(result, outcome="fails" if outside else "open", reason=measured + tost + _power(result, outside))
    side = _side(seen.interval)
    if part.expect and side != part.expect:
        reason = f"{measured}{_power(result, False)}" if side is None else measured
        return replace(result, outcome="open" if side is None else "fails", reason=reason)
    if part.kind == "direction":
        return replace(result, outcome="holds", reason=measured)
    return _by_size(part, result, measured)


def _by_size(part: Part, result: PartResult, measured: str) -> PartResult:
    """The direction holds or none is claimed: is the paper's single number plausible as one further run of ours?"""
    assert part.paper is not None and result.prediction is not None
    low, high = result.prediction
    text = f"{measured}; the paper's {_show(part.paper)} against our prediction interval {_span(result.prediction)}"
    if low <= part.paper <= high:
        return replace(result, outcome="holds", reason=text)
    if part.expect is None:
        return replace(result, outcome="fails", reason=text)
    claims_more = part.paper > high if part.expect == "positive" else part.paper < low
    return replace(result, outcome="weaker" if claims_more else "holds",
                   reason=f"{text}: ours is {'weaker' if claims_more else 'stronger'}")  # fmt: skip


def _by_order(part: Part, result: PartResult, rows: Sequence[Sequence[_Outcome]]) -> PartResult:
    """Some run has no number: nothing is averaged, the pairs whose order is known decide by the exact sign test."""
    counted = f"{result.endpoint}: {result.censored} censored, {result.diverged} diverged of {sum(map(len, rows))} runs"
    weights = [weight for weight, _ in part.contrast]
    if len(weights) != 2 or sum(weights) != 0 or part.expect is None:
        return replace(result, reason=f"{counted}; only a direction between two cells can be decided by order")
    signs = [math.copysign(1, weights[0]) * _order(*row, part.endpoint) for row in rows]
    above, below = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
    p = sign_test(above, below)
    result = replace(result, sign_test={"above": above, "below": below, "p": p})
    text = f"{counted}; sign test {above} above : {below} below, p = {_show(p)}, n = {result.n}"
    assert result.level is not None
    if above + below < MIN_SEEDS or p > 1 - result.level:
        return replace(result, reason=text)
    if (part.expect == "positive") != (above > below):
        return replace(result, outcome="fails", reason=text)
    return replace(result, outcome="holds" if part.kind == "direction" else "open", reason=text)


def _order(first: _Outcome, second: _Outcome, endpoint: Endpoint) -> int:
    """Sign of first − second; 0 for a tie or where it is unknown."""
    if first.value is not None and second.value is not None:
        return (first.value > second.value) - (first.value < second.value)
    if first.value is None and second.value is None:
        return 0
    if first.value is not None:
        return -_order(second, first, endpoint)
    assert second.value is not None
    # A shorter budget that ended before the other run's crossing says nothing about which was first.
    if not first.diverged and first.after < second.value:
        return 0
    return -1 if endpoint.better == "higher" else 1


def _evaluate_exact(part: Part, runs: Sequence[RunRecord]) -> PartResult:
    """Computed numbers have no seeds and no interval: every run of the cell has to meet the bound."""
    cell = part.contrast[0][1]
    found = sorted((run for run in runs if run.matches(cell)), key=lambda run: run.id)
    result = PartResult(
        part.id, str(part.endpoint), part.unit, None, n=len(found), runs=tuple(run.id for run in found)
    )
    if not found:
        return replace(result, outcome="not run", reason=f"no runs: {cell_text(cell)}")
    numbers = []
    for run in found:
        values = [float(record[part.endpoint.key]) for record in run.records if part.endpoint.key in record]
        if len(values) != 1:
            reason = f"run {run.id} has {len(values)} records of {part.endpoint.key}, not one"
            return replace(result, outcome="not decidable here", reason=reason)
        numbers += values
    bounds = ((part.value, "=", float.__eq__), (part.at_most, "≤", float.__le__), (part.at_least, "≥", float.__ge__))
    asked = [(float(bound), sign, test) for bound, sign, test in bounds if bound is not None]
    wrong = [number for number in numbers if not all(test(number, bound) for bound, _, test in asked)]
    shown = (wrong or numbers)[0]
    wanted = " and ".join(f"{sign} {_show(bound)}" for bound, sign, _ in asked)
    reason = f"{part.endpoint.key}: {_effect(shown, part.unit)}, asked {wanted}"
    return replace(result, effect=shown, outcome="fails" if wrong else "holds", reason=reason)


def _paired_runs(part: Part, runs: Sequence[RunRecord]) -> tuple[list[dict[int, RunRecord]], list[int]]:
    """Per cell of the contrast its runs by seed, and the seeds that every cell has."""
    cells = [_by_seed(cell, runs) for _, cell in part.contrast]
    return cells, sorted(set.intersection(*(set(found) for found in cells)))


def _by_seed(cell: Cell, runs: Sequence[RunRecord]) -> dict[int, RunRecord]:
    found: dict[int, RunRecord] = {}
    for run in runs:
        if run.matches(cell):
            twin = found.setdefault(run.seed, run)
            if twin is not run:
                raise NormbenchError(
                    f"{cell_text(cell)} has two runs of seed {run.seed}, {min(twin.id, run.id)} and "
                    f"{max(twin.id, run.id)}: the cell must name what tells them apart."
                )
    return found


def _outcome(endpoint: Endpoint, run: RunRecord) -> _Outcome | None:
    """The endpoint of one run; None where a run that did not diverge has no record of it."""
    lost = run.status == "diverged"
    if endpoint.kind == "final":
        value = final(run, endpoint.split, endpoint.mode, endpoint.metric, endpoint.variant)
        if lost or (value is not None and not math.isfinite(value)):
            return _Outcome(None, diverged=True)
        return None if value is None else _Outcome(value)
    points = series(run, endpoint.split, endpoint.mode, endpoint.metric, endpoint.variant)
    if not points:
        return _Outcome(None, diverged=True) if lost else None
    assert endpoint.level is not None
    time = time_to_level(points, endpoint.level, log=endpoint.metric in LOSSES)
    return _Outcome(time.epoch, lost) if isinstance(time, Reached) else _Outcome(None, lost, time.at)


def _sides(part: Part, values: Sequence[float]) -> tuple[float, float]:
    """One seed's effect as its positive and its negative terms, whose correlation is that of the pairing."""
    scale = {"log": log_floored, "percent": lambda value: 100 * value, "linear": float}[part.scale]
    terms = [weight * scale(value) for (weight, _), value in zip(part.contrast, values, strict=True)]
    plus, minus = math.fsum(term for term in terms if term > 0), 0.0
    return plus, minus


def _looks(n: int, planned: int, looked: tuple[int, int] | None) -> int:
    """One look at the planned n; each growth beyond it after a look at the planned n or more is another."""
    if looked is None or n <= planned:
        return 1
    n_before, looks = looked
    return looks + (n_before >= planned and n > n_before)


def _read_previous(previous: Mapping[str, Any], artifact: str, fidelity: str) -> dict[str, tuple[int, int]]:
    """Per claim the n and the looks of the last verdicts."""
    try:
        if (previous["schema"], previous["artifact"], previous["fidelity"]) != (1, artifact, fidelity):
            raise ValueError("they belong elsewhere")
        if not isinstance(previous["claims_sha256"], str) or not isinstance(previous.get("note", ""), str):
            raise TypeError("claims_sha256 or note is not a text")
        looked = {
            claim["id"]: (max((part["n"] for part in claim["parts"]), default=0), claim["looks"])
            for claim in previous["claims"]
        }
        for name, numbers in looked.items():
            if not isinstance(name, str) or not all(type(number) is int and number >= 0 for number in numbers):
                raise TypeError(f"claim {name} has no n and looks")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NormbenchError(
            f"the previous verdicts of {artifact} ({fidelity}) are damaged ({error!r}): restore verdicts.json from git."
        ) from None
    return looked


def _note(artifact: Artifact, previous: Mapping[str, Any] | None) -> str:
    if previous is None or artifact.amendments:
        return ""
    # Once written, the note stays until the change is accounted for: the next verdicts carry the new hash.
    changed = previous["claims_sha256"] != artifact.claims_sha256
    return "claims changed without an amendment" if changed else str(previous.get("note", ""))


def _side(interval: Interval) -> str | None:
    return "positive" if interval[0] > 0 else "negative" if interval[1] < 0 else None


def _power(result: PartResult, decided: bool) -> str:
    """What this n could have shown: printed with every result that decides nothing."""
    if decided or result.effect is None or result.sd is None or result.level is None:
        return ""
    text = f"; seen {_effect_size(result.effect, result.unit)}; n = {result.n} shows {_show(result.detectable)} with 80 % power"
    return text
