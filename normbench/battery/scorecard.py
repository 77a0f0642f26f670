"""The scorecard of a battery: its content, once, as JSON values; the terminal and the page render it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from normbench.battery import answer
from normbench.battery.answer import BETTER, NOT_YET, WORSE, Comparison, Outcome
from normbench.battery.budget import Times
from normbench.battery.trials import Trial, specs_of
from normbench.compare import describe
from normbench.compare.difference import UNDECIDED
from normbench.config.spec import Spec
from normbench.launch.run_missing import Ensured
from normbench.runs import files
from normbench.runs.table import Runs

NAME = "battery.json"


def outcome(name: str, trial: Trial, stored: Runs, ended: Ensured) -> Outcome:
    """The runs and comparisons of a trial, and why runs failed."""
    runs = {norm: stored.find(specs) for norm, specs in trial.specs.items()}
    failed = {}
    for norm, specs in trial.specs.items():
        reasons = [_why_failed(spec, stored, ended) for spec in specs if not stored.of(spec)]
        if any(reasons):
            failed[norm] = "; ".join(dict.fromkeys(filter(None, reasons)))
    return Outcome(trial, runs, answer.comparisons(name, trial, runs), {}, failed)


def _why_failed(spec: Spec, stored: Runs, ended: Ensured) -> str:
    """The reason of a run that failed now or before; "" of one that is only missing."""
    launched = ended.outcomes.get(spec.id)
    if launched and launched.status in ("failed", "refused"):
        return launched.reason
    return state if (state := stored.state(spec)) in ("failed", "damaged") else ""


def with_costs(outcomes: Sequence[Outcome], earlier: Mapping[str, Any], end: float | None) -> Iterator[Outcome]:
    """The outcomes with what an update costs, as an earlier call measured it, or until `end` or Ctrl-C."""
    from normbench.battery import cost

    measured = {trial["name"]: trial["cost"] for trial in earlier.get("trials", ())}
    for outcome in outcomes:
        # none first: the others are compared with it
        done = sorted((norm for norm, of in outcome.runs.items() if of), key=lambda norm: (norm != "none", norm))
        costs = {norm: cost.Cost(**numbers) for norm, numbers in measured.get(outcome.trial.name, {}).items()}
        if not costs and "none" in done and (end is None or time.monotonic() < end):
            try:
                costs = cost.costs({norm: outcome.trial.specs[norm][0] for norm in done})
            except KeyboardInterrupt:
                end = 0.0
        yield replace(outcome, costs=costs)


def content(outcomes: Sequence[Outcome], times: Times, left_out: Sequence[str], **facts: Any) -> dict[str, Any]:
    """`times`: the seconds of each trial's missing runs; `left_out`: the trials that the budget leaves out."""
    counts, ranks = answer.counts(outcomes), answer.ranks(facts["norm"], outcomes)
    sentences = [_sentence(facts["norm"], other, words) for other, words in counts.items()]
    return {
        "schema": 3,
        **facts,
        "answer": {other: {word.replace(" ", "_"): n for word, n in of.items()} for other, of in counts.items()},
        "ranks": ranks,
        "sentences": [*sentences, *([_ranks(facts["norm"], ranks, len(outcomes))] if ranks else [])],
        "trials": [_trial(outcome, times[outcome.trial.name], left_out) for outcome in outcomes],
    }


def _sentence(norm: str, other: str, words: Mapping[str, int]) -> str:
    """`mine against layer: better in 2, worse in 1, undecided in 8 of 19 experiments; not yet in 8`."""
    total = sum(words.values())
    given = ", ".join(f"{word} in {words[word]}" for word in (BETTER, WORSE, UNDECIDED))
    later = f"; {NOT_YET} in {words[NOT_YET]}" if words[NOT_YET] else ""
    return f"{norm} against {other}: {given} of {total} experiment{'' if total == 1 else 's'}{later}"


def _ranks(norm: str, ranks: Mapping[str, Any], total: int) -> str:
    """`mine over 12 of 19 experiments: average rank 1.8 [1.5, 2.1] of 4; ...`."""
    (best, worst), (low, high) = ranks["rank_interval"], ranks["interval"]
    rank = f"average rank {ranks['rank']:.1f} [{best:.1f}, {worst:.1f}] of {ranks['of']}"
    chance = f"{100 * ranks['probability']:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
    of = f"{norm} over {ranks['experiments']} of {total} experiments"
    return f"{of}: {rank}; a run is better than one of {ranks['against']} with probability {chance}"


def _trial(outcome: Outcome, seconds: float | None, left_out: Sequence[str]) -> dict[str, Any]:
    trial, specs = outcome.trial, specs_of([outcome.trial])
    return {
        "experiment": trial.experiment,
        "axes": dict(trial.axes),
        "name": trial.name,
        "title": trial.title,
        "where": trial.where,
        "refused": trial.refused,
        "changed": trial.changed,
        "failed": dict(outcome.failed),
        "runs": {norm: [run.id for run in runs] for norm, runs in outcome.runs.items()},
        "missing": len(specs) - sum(map(len, outcome.runs.values())),
        "seconds": seconds,
        "taken": trial.name not in left_out,
        "quantity": _quantity(outcome),
        "comparisons": list(map(_comparison, outcome.comparisons)),
        "cost": {norm: asdict(cost) for norm, cost in outcome.costs.items()},
    }


def _quantity(outcome: Outcome) -> str:
    """`test error, lower is better`."""
    for c in outcome.comparisons[:1]:
        return f"{c.quantity}, {'higher' if c.difference.rising else 'lower'} is better" if c.quantity else ""
    return ""


def _comparison(c: Comparison) -> dict[str, Any]:
    """A comparison without its numbers as long as its word is `not yet`."""
    d = c.difference
    return {
        "quantity": c.quantity, "against": c.against, "word": c.word, "why": c.why, "unit": c.unit,
        "better": "higher" if d.rising else "lower", "effect": d.mean if c.has_number else None,
        "interval": d.interval if c.has_number else None, "p": d.holm, "n": d.n, "lost": sum(d.lost),
        "needed": d.needed if c.word == UNDECIDED else None,
        "text": describe.difference(d, c.unit) if c.has_number else "",
    }  # fmt: skip


def write(card: Mapping[str, Any], place: Path) -> Path:
    with files.alone(place):
        files.atomic_write(place / NAME, f"{json.dumps(card, indent=1, ensure_ascii=False)}\n".encode())
    return place / NAME


def earlier(place: Path, plan: str) -> dict[str, Any]:
    """The scorecard that an earlier call left of the same plan, which tells the time that it took; {} without one."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        card: dict[str, Any] = json.loads((place / NAME).read_bytes())
        if card["plan"] == plan and isinstance(card["seconds"], float):
            return card
    return {}
