"""Claims of one sentence and runs with a known effect, judged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.core import keys
from normbench.papers import verdicts
from normbench.papers.claims import Artifact, Claim, Endpoint, Part
from normbench.papers.decide import Verdict
from normbench.papers.parts import PartResult
from normbench.papers.rules_file import FEWEST
from normbench.runs.run import Run

ERROR = Endpoint("final", split="test", mode="eval", metric="error", better="lower")
ACCURACY = Endpoint("final", split="test", mode="eval", metric="accuracy", better="higher")
NLL = Endpoint("final", split="train", mode="eval", metric="nll", better="lower")
TIME = Endpoint("time_to_level", split="train", mode="eval", metric="nll", level=0.1, better="lower")
LN, BN = {"arm": "ln"}, {"arm": "bn"}
PAIR = ((1.0, LN), (-1.0, BN))
JITTER = (0.0, 0.3, -0.2, 0.1, -0.3, 0.2, -0.1, 0.25, -0.25, 0.15)  # fixed spread around an effect


@dataclass
class Plan:
    """`artifact.Plan`: seeds 1 to `own` at the paper's setting, 1 to `control` at every other."""

    own: int
    control: int = 5
    delta: float | None = None

    def sha256(self, claim: Claim) -> str:
        return "c" * 64

    def seeds(self, part: Part, control: str, alone: Sequence[int] | None) -> list[int]:
        planned = range(1, 1 + (self.control if control else self.own))
        return [seed for seed in planned if alone is None or seed in alone]

    def smallest_effect(self, part: Part) -> float | None:
        return self.delta


@dataclass
class AsThere:
    """The same of whatever seeds are there, five at least; no smallest effects but the parts' own."""

    runs: Sequence[Run]

    def sha256(self, claim: Claim) -> str:
        return ""

    def seeds(self, part: Part, control: str, alone: Sequence[int] | None) -> list[int]:
        seeds = {run.seed for run in self.runs if run.control == control}
        there = sorted(seed for seed in seeds if alone is None or seed in alone)
        return [*there, *range(1000, 1000 + FEWEST - len(there))]

    def smallest_effect(self, part: Part) -> float | None:
        return part.delta.is_ if part.delta else None


def judge(
    artifact: Artifact,
    runs: Sequence[Run],
    fidelity: str,
    previous: verdicts.Verdicts | None = None,
    planned: Any = None,
    **more: Any,
) -> verdicts.Verdicts:
    plan = planned or AsThere(runs)
    plan.artifact, plan.fidelity = artifact, fidelity
    return verdicts.judge(plan, runs, previous, **more)


def direction(endpoint: Endpoint = ERROR, expect: str | None = "negative", name: str = "p", **more: Any) -> Part:
    values = {"kind": "direction", "contrast": PAIR, "scale": "linear", "unit": "points", "expect": expect}
    return Part(name, endpoint=endpoint, **{**values, **more})


def artifact(*parts: Part, kind: str = "direction", open: Sequence[str] = (), seeds: int = 5, **more: Any) -> Artifact:
    controls = ("lr-low", "lr-high") if open else ()
    values: dict[str, Any] = {"reported": (), "controls": controls, "not_decidable": {}, **more, "open": tuple(open)}
    claim = Claim("C1", kind, "s", parts, "q", "l", **values)
    texts = {"id": "x/fig", "title": "t", "locator": "l", "experiment": "x/fig", "claims_sha256": "a" * 64}
    return Artifact((claim,), **texts, seeds=seeds, deviations={"paper": ["d"], "smoke": ["e"]})


def final_run(arm: str, seed: int, value: float | str | None, metric: str = "error", **more: Any) -> Run:
    split = "train" if metric == "nll" else "test"
    records = [{"epoch": 0, "split": split, "mode": "eval", metric: 1.0, "step": 0}]
    if value is not None:
        records.append({"epoch": 3, "split": split, "mode": "eval", metric: value, "step": 30})
    control = more.get("control", "")
    values: dict[str, Any] = {"status": "done", "epochs": 3, "records": records, **more}
    return Run(f"{arm}-{seed}-{control}-{more.get('axes', '')}", "x/fig", arm, seed, **values)


def timed_run(arm: str, seed: int, epoch: int | None, epochs: int = 8, status: str = "done") -> Run:
    """Meets the level exactly at `epoch`, or never."""
    last = epochs if status == "done" else 2
    values = [(e, 0.1 if epoch is not None and e >= epoch else 1.0) for e in range(last + 1)]
    records = [{"epoch": e, "split": "train", "mode": "eval", "nll": v, "step": e} for e, v in values]
    return Run(f"{arm}-{seed}", "x/fig", arm, seed, status, epochs, records=records)


def arms(effect: float, n: int = 5, spread: float = 1.0, base: float = 10.0, **more: Any) -> list[Run]:
    """Seeds 1 to n, whose difference ln − bn is `effect` with a fixed spread; bn varies much more."""
    runs = []
    for seed, jitter in enumerate(JITTER[:n], 1):
        bn = base + (seed * 7 % 5)
        runs.append(final_run("bn", seed, bn, **more))
        runs.append(final_run("ln", seed, bn + effect + spread * jitter, **more))
    return runs


def only(artifact: Artifact, runs: Sequence[Run], fidelity: str = "paper", **more: Any) -> Verdict:
    content = judge(artifact, runs, fidelity, **more)
    json.dumps(keys.plain(content), allow_nan=False)
    (claim,) = content.claims
    return claim


def part_result(**more: Any) -> PartResult:
    """A part that is judged, of five seeds."""
    return replace(only(artifact(direction()), arms(-1.0)).parts[0], **more)


def verdict(*args: Any, **more: Any) -> str:
    return only(*args, **more).verdict
