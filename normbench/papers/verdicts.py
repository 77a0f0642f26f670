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
    """The part that fails at every setting that has to be tried, if one does, and the end of the evidence."""
    if not claim.open:
        return None if all(p.outcome != "fails" for p in parts) else next(p for p in parts if p.outcome == "fails"), ""
    kept: list[str] = []
    for index, part in enumerate(parts):
        if part.outcome != "fails":
            continue
        tried = {name: found[index] if found else None for name, found in controls.items()}
        missing = [name for name, result in tried.items() if result is None or result.n < MIN_SEEDS]
        if missing:
            kept.append(f"on the other side at the one setting tried; contradicted needs the controls {', '.join(missing)}")
            continue
        others = [name for name, result in tried.items() if result and result.outcome != "fails"]
        if not others:
            return part, f"; the same under {', '.join(tried)}"
        kept.append(f"on the other side at the paper's setting, but not under {', '.join(others)}")
    return None, f"; {kept[0]}"
