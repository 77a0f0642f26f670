"""Verdicts on claims about logged runs, with Holm's correction over the claims of a file (Holm 1979)."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.judge.evidence import Unpaired, observe
from normbench.papers import describe, rules
from normbench.papers.claims import Artifact, Claim, Part, format_cell
from normbench.papers.decide import Verdict, decide
from normbench.papers.parts import Observed
from normbench.runs.record import RunRecord
from normbench.stored import LOGGED

Parts = list[tuple[Part, Observed]]
PAPER = "paper"  # under which a file without an experiment has the seeds of a claim


def judge(claims: Artifact, runs: Sequence[RunRecord]) -> list[Verdict]:
    """A verdict for each claim, of the form that `papers.decide` gives, and: `answer`, a sentence; `diverged`, whether
    more runs of a first cell diverged than of the second; `pairing`, how runs were compared.

    Of k claims that runs can decide the first is decided by tests at 5 %/k, of the other k − 1 the next at 5 %/(k − 1),
    and so on. Raises NormbenchError as `observe`.
    """
    seen = [_Seen(claim, claims, runs) for claim in claims.claims]
    found = [one.verdict(rules.ALPHA) for one in seen]
    testable = [place for place, claim in enumerate(found) if claim["spent"]]
    decided: list[int] = []
    while True:
        alpha = rules.ALPHA / max(1, len(testable) - len(decided))
        found = [found[place] if place in decided else one.verdict(alpha) for place, one in enumerate(seen)]
        new = [place for place in testable if place not in decided and found[place]["setting"] in rules.DECIDED]
        if not new:
            return found
        decided += new


class _Seen:
    """What the runs show of a claim."""

    def __init__(self, claim: Claim, claims: Artifact, runs: Sequence[RunRecord]) -> None:
        self.claim, self.names = claim, claims.names

        def parts(of: Sequence[Part], control: str) -> Parts:
            group = [run for run in runs if run.control == control]
            alone = claim.alone(PAPER, control)
            least = claims.seeds if alone is None else len(alone)
            return [(seen.part, seen) for part in of for seen in [observe(part, group, claims.length, least, alone)]]

        self.setting, self.reported = parts(claim.parts, ""), parts(claim.reported, "")
        self.controls = {name: parts(claim.parts, name) for name in claim.controls}

    def verdict(self, alpha: float) -> Verdict:
        found = decide(self.claim, LOGGED, self.setting, self.controls, self.reported, names=self.names, alpha=alpha)
        for (_, seen), part in zip(self.setting, found["parts"], strict=True):
            if isinstance(seen, Unpaired):
                part["unpaired"] = [len(cell["values"]) for cell in seen.cells]
        worse = any(_diverged(seen, 1) > _diverged(seen, -1) for _, seen in self.setting)
        if worse and found["setting"] not in (*rules.DECIDED, rules.NOT_RUN):
            found |= {"setting": rules.DIVERGED, "verdict": rules.verdict(rules.DIVERGED, "", fidelity=LOGGED)}
        # a suggestion would be of runs that an experiment plans
        found |= {"diverged": worse, "pairing": _pairing([seen for _, seen in self.setting]), "suggestion": None}
        lost = [text for _, seen in self.setting for text in _lost(seen)]
        return found | {"answer": "; ".join([describe.evidence(found), *dict.fromkeys(lost)])}


def _diverged(seen: Observed, sign: int) -> int:
    """How many of the runs on one side of the comparison diverged."""
    cells = [cell for cell in seen.cells if cell["weight"] * sign > 0]
    return sum(value == "diverged" for cell in cells for value in cell["values"])


def _lost(seen: Observed) -> list[str]:
    """`diverged: 7 of 7 runs of arm a, 0 of 7 of arm b`."""
    counts = [(cell["values"].count("diverged"), len(cell["values"]), format_cell(cell["cell"])) for cell in seen.cells]
    texts = [f"{lost} of {n} runs of {cell}" for lost, n, cell in counts]
    return [f"diverged: {', '.join(texts)}"] if seen.diverged else []


def _pairing(parts: Sequence[Observed]) -> str:
    """How the runs were compared."""
    tested = [seen for seen in parts if seen.seeds and len(seen.cells) > 1]
    words = {
        "seeds are not shared: all runs of both sides (Welch)" if isinstance(seen, Unpaired) else "pairs of equal seeds"
        for seen in tested
    }
    return "; ".join(sorted(words))
