"""From observations to a verdict: enums and numbers alone. `describe` makes the sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normbench.files.stored import LOGGED
from normbench.papers import rules
from normbench.papers.claims import Amendment, Claim, Part
from normbench.papers.parts import Observed, PartResult, result
from normbench.papers.rules_file import ALPHA
from normbench.stats.statistics import Interval

Parts = Sequence[tuple[Part, Observed]]


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
    alpha: float  # the level of its tests
    spent: float  # the levels of its looks so far
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


def decide(
    claim: Claim,
    fidelity: str,
    setting: Parts,
    controls: Mapping[str, Parts],
    reported: Parts = (),
    look: int = 1,
    names: Mapping[str, str] | None = None,
    alpha: float = ALPHA,
    small: float | None = None,
    earlier: int = 0,
) -> Verdict:
    """The verdict on a claim from its parts at the paper's setting and under its controls.

    look: the last look that has its runs, 0 for none. names: what sentences call arms and variants. alpha: of its
    tests, of which a second look has half. small: as of `rules.part_word`. earlier: how many looks at other seeds had
    given it a word before it was amended.
    """
    alpha = alpha / 2 if look == 2 else alpha
    undecidable = fidelity in claim.not_decidable
    word = rules.NOT_DECIDABLE if undecidable else rules.claim_word(setting, alpha, small)
    tried = {name: rules.control_words(parts, len(controls), alpha, setting) for name, parts in controls.items()}
    robust = rules.robustness(word, list(tried.values()), bool(claim.unvaried))
    everywhere = [setting, *(controls.values() if robust == rules.AGREE else ())]
    scattered = word == rules.NEGLIGIBLE and not rules.vanishing(*everywhere, alpha=alpha)
    if scattered:  # here by one part, there by another
        robust, everywhere = rules.UNDECIDED, [setting]
    share = _share(word, *everywhere, alpha=alpha)
    basis = _basis(claim, fidelity)
    if robust == rules.NOTHING_OPEN and basis in (rules.EXACT, rules.AS_LOGGED):  # nothing is said of what is open
        robust = ""

    def results(of: Parts) -> tuple[PartResult, ...]:
        return tuple(result(seen, rules.part_word(part, seen, alpha, small), alpha, names) for part, seen in of)

    def under(name: str, of: Parts) -> ControlVerdict:
        (word, reason), (strict, _) = map(rules.split, tried[name])
        place, vanishing = deciding(tried[name][0], of, alpha), _share(word, of, alpha=alpha)
        return ControlVerdict(name, word, reason, strict, place, vanishing, results(of))

    parts = results(setting)
    place = deciding(word, setting, alpha)
    first = parts[place] if parts else None
    planned = (first.planned,) if first and first.planned else ()
    word, reason = rules.split(word)
    return Verdict(
        id=claim.id,
        kind=claim.kind,
        ours=claim.ours,
        statement=claim.statement,
        quote=claim.quote,
        locator=claim.locator,
        endpoint=first.endpoint if first else "",
        word=word,
        reason=reason,
        basis=basis,
        robustness=robust,
        verdict=rules.verdict(word, reason, basis, robust),
        undecidable=claim.not_decidable.get(fidelity, ""),
        deciding=place if parts else None,
        share=share,
        scattered=scattered,
        unvaried=claim.unvaried,
        beside=claim.beside,
        alone=_alone(claim, fidelity),
        n=first.n if first else 0,
        effect=first.effect if first else None,
        unit=first.unit if first else "",
        interval=first.interval if first else None,
        level=first.level if first else None,
        detectable=first.detectable if first else None,
        alpha=alpha,
        spent=_spent(claim, setting, undecidable, look, alpha, earlier),
        looks=claim.added or planned if planned else (),
        look=look,
        runs=tuple(sorted({run for part in parts for run in part.runs})),
        parts=parts,
        reported=results(reported),
        controls=tuple(under(name, of) for name, of in controls.items()),
        suggestion=None,
    )


def _basis(claim: Claim, fidelity: str) -> str:
    if fidelity == LOGGED:
        return rules.AS_LOGGED
    return rules.EXACT if claim.kind == "exact" and fidelity == "paper" else fidelity


def deciding(word: str, parts: Parts, alpha: float) -> int:
    """The first part that makes the claim's word; where none does, one that speaks against it, if there is one."""

    def makes(part: Part, seen: Observed) -> bool:
        if word == rules.FAILS:
            return rules.opposes(part, seen, len(parts), alpha)
        if word == rules.NEGLIGIBLE:
            return rules.vanishes(part, seen, len(parts), alpha)
        return rules.part_word(part, seen, alpha) == word

    wanted = [index for index, pair in enumerate(parts) if makes(*pair)]
    if word == rules.UNDECIDED:
        own = [rules.part_word(part, seen, alpha) for part, seen in parts]
        wanted = [own.index(against) for against in (rules.FAILS, rules.NEGLIGIBLE) if against in own] + wanted
    return wanted[0] if wanted else 0


def _share(word: str, *settings: Parts, alpha: float) -> int | None:
    """How many of several parts a negligible claim rests on at all of these settings; None for other words."""
    return rules.vanishing(*settings, alpha=alpha) if word == rules.NEGLIGIBLE and len(settings[0]) > 1 else None


def _spent(claim: Claim, parts: Parts, undecidable: bool, look: int, alpha: float, earlier: int) -> float:
    """The levels of the looks so far; computed numbers, and claims that have no word, spend none."""
    judged = parts and all(seen.complete and not seen.gap for _, seen in parts)
    if claim.kind == "exact" or undecidable or not judged:
        return 0.0
    return ALPHA * (1 + earlier) + (alpha if look == 2 else 0.0)


def _alone(claim: Claim, fidelity: str) -> dict[str, tuple[int, int]]:
    """The first and the last of the seeds that alone decide, by control: "" is the paper's setting."""
    own = {"": claim.alone(fidelity)} | {name: claim.alone(fidelity, name) for name in claim.control_seeds}
    return {name: (seeds[0], seeds[-1]) for name, seeds in own.items() if seeds is not None}
