"""From the runs of a claim to its entry in verdicts.json: words and numbers alone. `describe` makes the sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.files.stored import LOGGED
from normbench.papers import rules
from normbench.papers.artifact import Plan
from normbench.papers.claims import Amendment, Claim, Part
from normbench.papers.endpoints import paired_runs
from normbench.papers.parts import Observed, PartResult, gather, result
from normbench.papers.rules_file import ALPHA
from normbench.runs.run import Run
from normbench.stats.examples import Spread
from normbench.stats.statistics import Interval

PAPER = "paper"  # under which a file without an experiment, too, has the seeds of a claim
Parts = Sequence[Observed]
Examples = Callable[[Part, str, Sequence[int]], Spread | None]
OF_CLAIM = ("id", "kind", "ours", "statement", "quote", "locator", "unvaried", "beside")
NO_PART: Mapping[str, Any] = {
    "endpoint": "", "n": 0, "effect": None, "unit": "", "interval": None, "level": None, "detectable": None,
}  # fmt: skip


@dataclass(frozen=True)
class Suggestion:
    """Runs that would decide an open claim, or why none would; `suggested_runs` has the kinds."""

    runs: int | None
    hours: float | None  # of a core
    seeds: int | None
    under: tuple[str, ...]  # controls that are open, or choices that no control varies
    command: str  # that trains the runs
    kind: str


@dataclass(frozen=True)
class ControlVerdict:
    """The parts of a claim under a control."""

    name: str
    word: str  # the claim's under it, at the level of the claim
    reason: str  # why it is untested, or ""
    strict: str  # at that over the number of controls; undecided where the effects differ too little for another word
    deciding: int  # the index of the part that decides
    share: int | None  # as of a verdict
    parts: tuple[PartResult, ...]

    @property
    def n(self) -> int:
        """Of the part that decides; 0 without runs."""
        return self.parts[self.deciding].n if self.parts else 0


@dataclass(frozen=True)
class Verdict:
    """A claim in verdicts.json."""

    id: str
    kind: str
    ours: bool
    statement: str
    quote: str
    locator: str
    endpoint: str  # as effect, unit, interval, n, level and detectable: of the part that decides
    word: str  # at the paper's setting: holds, fails, negligible, undecided or untested
    reason: str  # of untested: not run, not decidable here; of undecided: diverged; "" of other words
    basis: str  # what its runs are: exact, paper, reduced, proxy, smoke, as logged
    robustness: str  # what the controls say: agree, nothing open, not run, undecided, depend; "" without a word
    verdict: str  # all four, as pages print them
    undecidable: str  # why no run can decide it
    deciding: int | None  # the index of the part that decides
    share: int | None  # how many of several parts a negligible claim rests on
    scattered: bool  # these are other parts under each control
    unvaried: tuple[str, ...]  # open choices that no control varies
    beside: tuple[str, ...]  # ids of reported parts that are printed with it
    alone: Mapping[str, tuple[int, int]]  # by control the first and last of the seeds that alone decide
    n: int
    effect: float | None
    unit: str
    interval: Interval | None
    level: float | None
    detectable: float | None
    alpha: float  # the level of its tests, at all looks together
    spent: float  # this, and the levels at which it had words before amendments
    looks: tuple[int, ...]  # the planned n of each
    look: int  # the last that has its runs
    runs: tuple[str, ...]
    parts: tuple[PartResult, ...]
    reported: tuple[PartResult, ...]
    controls: tuple[ControlVerdict, ...]
    suggestion: Suggestion | None
    rules_sha256: str = ""  # of the rules, smallest effects, planned seeds and controls that it uses
    amendments: tuple[Amendment, ...] = ()
    answer: str = ""  # its evidence in a sentence
    diverged: bool | None = None  # of logged runs: more of a first cell diverged than of the second
    compared: str | None = None  # of logged runs: how they were compared, in words


class Evidence:
    """The runs of one claim by setting: "" for the paper's, else a control."""

    def __init__(self, claim: Claim, plan: Plan, runs: Sequence[Run], examples: Examples) -> None:
        self.claim, self.plan, self.examples = claim, plan, examples
        self.artifact, self.fidelity = plan.artifact, plan.fidelity
        self.amendments = tuple(entry for entry in plan.artifact.amendments if entry.claim == claim.id)
        self.runs = {name: [run for run in runs if run.control == name] for name in ("", *claim.controls)}
        # the last planned look that all parts have their runs for, 0 for none
        self.looks = {name: self._last_look(name) for name in self.runs}

    def verdict(self) -> Verdict:
        claim = self.claim
        setting = [self.observe(part, "") for part in claim.parts]
        verdict = decide(
            claim,
            self.fidelity,
            setting,
            {name: [self.observe(part, name) for part in claim.parts] for name in claim.controls},
            [self.observe(part, "") for part in claim.reported],
            self.looks[""],
            self.artifact.names,
            alpha=ALPHA / 2 if any(self._judged_before(part.seeds) for part in setting) else ALPHA,
            amendments=self.amendments,
            rules_sha256=self.plan.sha256(claim),
        )
        controls = [control if self.runs[control.name] else replace(control, parts=()) for control in verdict.controls]
        return replace(verdict, controls=tuple(controls))

    def observe(self, part: Part, control: str) -> Observed:
        """A part with the seeds of the claim's look, or all that have runs before the first."""
        planned = self._planned(part, control, self.looks[control])
        shared = paired_runs(part, self.runs[control])[1] if part.kind != "exact" else []
        used = [seed for seed in shared if seed in planned]
        post_hoc = self.fidelity == PAPER and any(seed <= self.artifact.seen for seed in used if self.artifact.seen)
        post_hoc = post_hoc or (not control and self._judged_before(used))
        observed = gather(
            part,
            self.runs[control],
            planned,
            len(planned),
            self.plan.smallest_effect(part),
            looks=self.claim.looks,
            fresh=not post_hoc,
            spread=self.examples(part, control, used),
        )
        if part.kind == "size" and self.fidelity != "paper" and not observed.gap:
            why = "less training" if self.fidelity == "reduced" else "other data"
            return replace(observed, gap=rules.NOT_DECIDABLE, why=why)
        return observed

    def _judged_before(self, seeds: Sequence[int]) -> bool:
        """Whether the claim had a word on some of these seeds before an amendment."""
        looked = [(entry.looked or {}).get(self.fidelity) for entry in self.amendments]
        return any(seed in range(before.from_, before.to + 1) for before in looked if before for seed in seeds)

    def _planned(self, part: Part, control: str, number: int) -> Sequence[int]:
        """The seeds of a look, before the first of that one."""
        seeds = self.plan.seeds(part, control, self.claim.alone(self.fidelity, control))
        return seeds[: self.claim.looks.at[max(number, 1) - 1]] if self.claim.looks else seeds

    def _last_look(self, control: str) -> int:
        numbers = range(1, len(self.claim.looks.at) + 1 if self.claim.looks else 2)
        return max((number for number in numbers if self._has_look(control, number)), default=0)

    def _has_look(self, control: str, number: int) -> bool:
        """Whether all parts have their runs for this look."""
        least = self.claim.looks.at[number - 1] if self.claim.looks else 0  # a control may have fewer seeds
        tested = [part for part in self.claim.parts if part.kind != "exact"]
        seeds = [(self._planned(part, control, number), paired_runs(part, self.runs[control])[1]) for part in tested]
        return all(len(planned) >= least and {*planned} <= {*shared} for planned, shared in seeds)


def decide(
    claim: Claim,
    fidelity: str,
    setting: Parts,
    controls: Mapping[str, Parts],
    reported: Parts = (),
    reached: int = 1,
    names: Mapping[str, str] | None = None,
    alpha: float = ALPHA,
    small: float | None = None,
    amendments: tuple[Amendment, ...] = (),
    rules_sha256: str = "",
) -> Verdict:
    """The verdict on a claim from its parts at the paper's setting and under its controls.

    reached: the last look that has its runs, 0 for none. names: what sentences call arms and variants. alpha: of its
    tests, at all looks together. small: as of `rules.part_word`. rules_sha256: of what decides it.
    """
    place = PAPER if fidelity == LOGGED else fidelity
    undecidable = place in claim.not_decidable
    outcome = rules.NOT_DECIDABLE if undecidable else rules.claim_word(setting, alpha, small)
    of_controls = {name: rules.control_words(parts, len(controls), alpha, setting) for name, parts in controls.items()}
    robust = rules.robustness(outcome, list(of_controls.values()), bool(claim.unvaried))
    everywhere = [setting, *(controls.values() if robust == rules.AGREE else ())]
    scattered = outcome == rules.NEGLIGIBLE and not rules.vanishing(*everywhere, alpha=alpha)
    if scattered:  # by one part at the paper's setting, by another under a control
        robust, everywhere = rules.UNDECIDED, [setting]
    basis = _basis(claim, fidelity)
    if robust == rules.NOTHING_OPEN and basis in (rules.EXACT, rules.AS_LOGGED):  # nothing is said of what is open
        robust = ""

    def results(parts: Parts) -> tuple[PartResult, ...]:
        return tuple(result(part, rules.part_word(part, alpha, small), alpha, names) for part in parts)

    def under(name: str, parts: Parts) -> ControlVerdict:
        at_claim, strict = of_controls[name]
        index, share = deciding(at_claim, parts, alpha), _share(at_claim, parts, alpha=alpha)
        return ControlVerdict(name, *rules.split(at_claim), rules.split(strict)[0], index, share, results(parts))

    parts, index = results(setting), deciding(outcome, setting, alpha)
    planned = parts[index].planned if parts else None
    word, reason = rules.split(outcome)
    earlier = sum(fidelity in (entry.looked or {}) for entry in amendments)  # looks at other seeds, before these
    return Verdict(
        **{key: getattr(claim, key) for key in OF_CLAIM},
        **{key: getattr(parts[index], key) if parts else nothing for key, nothing in NO_PART.items()},
        word=word,
        reason=reason,
        basis=basis,
        robustness=robust,
        verdict=rules.verdict(word, reason, basis, robust),
        undecidable=claim.not_decidable.get(place, ""),
        deciding=index if parts else None,
        share=_share(outcome, *everywhere, alpha=alpha),
        scattered=scattered,
        alone=_alone(claim, place),
        alpha=alpha,
        spent=0.0 if undecidable else _spent(claim, setting, alpha, earlier),
        looks=(claim.looks.at if claim.looks else (planned,)) if planned else (),
        look=reached,
        runs=tuple(sorted({run for part in parts for run in part.runs})),
        parts=parts,
        reported=results(reported),
        controls=tuple(under(name, parts) for name, parts in controls.items()),
        suggestion=None,
        rules_sha256=rules_sha256,
        amendments=amendments,
    )


def _basis(claim: Claim, fidelity: str) -> str:
    if fidelity == LOGGED:
        return rules.AS_LOGGED
    return rules.EXACT if claim.kind == "exact" and fidelity == PAPER else fidelity


def deciding(word: str, parts: Parts, alpha: float) -> int:
    """The first part that makes the claim's word; where none does, one that speaks against it, if there is one."""

    def makes(part: Observed) -> bool:
        if word == rules.FAILS:
            return rules.opposes(part, len(parts), alpha)
        if word == rules.NEGLIGIBLE:
            return rules.vanishes(part, len(parts), alpha)
        return rules.part_word(part, alpha) == word

    if word == rules.UNDECIDED:
        words = [rules.part_word(part, alpha) for part in parts]
        for against in (rules.FAILS, rules.NEGLIGIBLE):
            if against in words:
                return words.index(against)
    return next((index for index, part in enumerate(parts) if makes(part)), 0)


def _share(word: str, *settings: Parts, alpha: float) -> int | None:
    """How many of several parts a negligible claim rests on at all of these settings; None for other words."""
    return rules.vanishing(*settings, alpha=alpha) if word == rules.NEGLIGIBLE and len(settings[0]) > 1 else None


def _spent(claim: Claim, parts: Parts, alpha: float, earlier: int) -> float:
    """Its level, and those of earlier words; computed numbers, and claims that have no word, spend none."""
    if claim.kind == "exact" or not parts or not all(part.complete and not part.gap for part in parts):
        return 0.0
    return ALPHA * earlier + alpha


def _alone(claim: Claim, fidelity: str) -> dict[str, tuple[int, int]]:
    """The first and the last of the seeds that alone decide, by control: "" is the paper's setting."""
    seeds = {"": claim.alone(fidelity)} | {name: claim.alone(fidelity, name) for name in claim.control_seeds}
    return {name: (alone[0], alone[-1]) for name, alone in seeds.items() if alone is not None}
