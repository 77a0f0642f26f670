"""What is said of an artifact and its claims, made once as data; table.md is one form of it. The report's pages, the
terminal, CI's comment and README are others.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normbench.draw import figure, tables
from normbench.draw.panels import Panel
from normbench.draw.tables import Entry
from normbench.papers import describe, rules, tally
from normbench.papers.artifact import Drawing
from normbench.papers.claims import Amendment, Artifact
from normbench.papers.decide import Verdict
from normbench.papers.parts import PartResult
from normbench.papers.rules_file import ALPHA
from normbench.papers.verdicts import Verdicts

RULES = {  # how a part of each kind is decided
    "direction": "holds when the whole {level:g} % interval lies on the claimed side, and is not negligible: within ±δ",
    "sign": "holds when the median lies on the claimed side by the exact sign test at the {level:g} % level, and is "
    "not negligible: every run has a number, and the median is within ±δ",
    "size": "holds when the {level:g} % prediction interval of one more run has the paper's number in it, and no more "
    "than the band around that",
    "equivalence": "holds when the {both:g} % interval lies inside the margin (two one-sided tests)",
    "no_worse": "holds when the {both:g} % interval ends below the margin (one one-sided test)",
    "exact": "is computed, without seeds",
}


@dataclass(frozen=True)
class PartText:
    """A comparison, or a computed number, of a claim."""

    part: PartResult
    control: str  # "" at the paper's setting
    sentence: str  # without the part's id
    effect: str
    rule: str  # how it is decided, at the level it was judged at

    @classmethod
    def of(cls, part: PartResult, control: str = "") -> PartText:
        sentence = describe.sentence(part).removeprefix(f"{part.id}: ")
        level = part.level or 1 - ALPHA
        rule = RULES["sign" if part.test == "sign" else part.kind]
        rule = rule if part.than is None else rule.split(", and is not negligible")[0]
        rule = rule.format(level=100 * level, both=100 * (2 * level - 1))
        return cls(part, control, sentence, describe.effect(part), rule)


@dataclass(frozen=True)
class ClaimText:
    """A claim with what is said of its verdict."""

    claim: Verdict
    news: str  # good, half-good, bad, ...: as of `tally.news`
    facts: str  # beside the word: `proxy · controls not run`
    answer: str  # one sentence
    besides: str  # what else a reader has to know
    suggestion: str  # which runs would decide it, "" where nothing is open
    command: str  # that trains them, or ""
    effect: str  # of the part that decides, "" without runs
    parts: Sequence[PartText]
    reported: Sequence[PartText]
    controls: Mapping[str, Sequence[PartText]]
    control_commands: Mapping[str, str]  # that make the runs of one control alone
    amendments: Sequence[Amendment]

    @classmethod
    def of(
        cls, claim: Verdict, amendments: Sequence[Amendment] = (), control_commands: Mapping[str, str] | None = None
    ) -> ClaimText:
        return cls(
            claim=claim,
            news=tally.news(claim),
            facts=claim.verdict.removeprefix(claim.word).removeprefix(" ").removeprefix("· "),
            answer=describe.answer(claim),
            besides="; ".join(describe.besides(claim)),
            suggestion=describe.suggestion(claim),
            command=(claim.suggestion and claim.suggestion.command) or "",
            effect=describe.number(claim),
            parts=[PartText.of(part) for part in claim.parts],
            reported=[PartText.of(part) for part in claim.reported],
            controls={c.name: [PartText.of(part, c.name) for part in c.parts] for c in claim.controls},
            control_commands=control_commands or {},
            amendments=[amendment for amendment in amendments if amendment.claim == claim.id],
        )

    @property
    def evidence(self) -> str:
        """The answer, what else a reader has to know, and of logged runs how they were compared."""
        return "; ".join(filter(None, [self.answer, self.besides, self.claim.compared]))

    @property
    def in_full(self) -> str:
        """The evidence, and what would decide where something is open."""
        return "; ".join(self.pieces)

    @property
    def pieces(self) -> list[str]:
        """The same, one by one."""
        more_runs = f"{self.suggestion}: {self.command}" if self.command else self.suggestion
        return [*filter(None, [self.answer, *describe.besides(self.claim), self.claim.compared, more_runs])]

    @property
    def rules(self) -> list[str]:
        """How its parts are decided, each rule once."""
        return list(dict.fromkeys(part.rule for part in self.parts))


@dataclass(frozen=True)
class Content:
    """All of a page but the figure's and the runs' own data."""

    title: str
    fidelity: str
    locator: str
    question: str
    means: str  # of which seeds the means of the table are
    caution: str
    tally: str  # how many claims have which word
    reported: Sequence[Sequence[str]]  # a table of comparisons that decide nothing, under each control
    entries: Sequence[Entry]
    claims: Sequence[ClaimText]
    settings: Sequence[Sequence[str]]  # a table of each comparison under each control
    expected_wrong: float
    experiment: str
    meanings: Sequence[tuple[str, str]]  # arms and controls by what the experiment sets
    deviations: Sequence[str]
    amendments: Mapping[tuple[str, str], Sequence[str]]  # the claims of each change and its reason
    command: str


def content_of(artifact: Artifact | None, judged: Verdicts, drawn: Drawing) -> Content:
    """The content of a page; artifact: None where this version does not know it."""
    claims = [ClaimText.of(claim, judged.amendments, judged.control_commands(claim)) for claim in judged.claims]
    amended: dict[tuple[str, str], list[str]] = {}
    for amendment in judged.amendments:
        amended.setdefault((amendment.change, amendment.reason), []).append(amendment.claim)
    return Content(
        title=artifact.title if artifact else judged.artifact,
        fidelity=judged.fidelity,
        locator=artifact.locator if artifact else "",
        question=artifact.question if artifact else "",
        means=_describe_seeds(drawn.entries),
        caution=drawn.caution,
        tally=tally.describe(judged.claims) if judged.claims else "",
        reported=_reported(drawn.reported),
        entries=drawn.entries,
        claims=claims,
        settings=_settings(claims),
        expected_wrong=judged.expected_wrong,
        experiment=artifact.experiment if artifact else "",
        meanings=drawn.meanings,
        deviations=judged.deviations,
        amendments=amended,
        command=judged.command,
    )


def _settings(claims: Sequence[ClaimText]) -> list[list[str]]:
    """A header and a row per part: its effect and word at the paper's setting and under each control.

    Of claims of several parts, and of those that have runs of a control; a computed number has no such row.
    """
    tried = [text for text in claims if _is_tried(text)]
    names = list(dict.fromkeys(name for text in tried for name in text.controls))
    rows = []
    for text in tried:
        for part in text.parts:
            under = [_cell_under(text, name, part.part.id) for name in names]
            rows.append([text.claim.id, part.part.id, _cell(part), *under])
    return [["claim", "comparison", "the paper's setting", *names], *rows] if rows else []


def _reported(results: Mapping[str, Sequence[PartResult]]) -> list[list[str]]:
    """A header and a row per comparison beside the claims, with a column for each control that has runs of one."""
    tried = {control: parts for control, parts in results.items() if any(part.n for part in parts)}
    header = ["comparison", *(control or "the paper's setting" for control in tried)]
    rows = [
        [parts[0].id, *(describe.effect(part) if part.n else "–" for part in parts)]
        for parts in zip(*tried.values(), strict=True)
    ]
    return [header, *rows] if rows else []


def _is_tried(text: ClaimText) -> bool:
    several = text.claim.kind != "exact" and len(text.parts) > 1 and any(part.part.n for part in text.parts)
    return several or any(part.part.n for parts in text.controls.values() for part in parts)


def _cell_under(text: ClaimText, control: str, id: str) -> str:
    if control not in text.controls:
        return ""
    return next((_cell(part) for part in text.controls[control] if part.part.id == id), rules.NOT_RUN)


def _cell(part: PartText) -> str:
    """`0.02 nats better [0.01, 0.03], n = 5: holds`."""
    return f"{part.effect}: {part.part.word}" if part.part.n else rules.NOT_RUN


def pages(content: Content) -> dict[str, bytes]:
    """The files of text, by name; the figure, which each version of matplotlib draws otherwise, is not among them."""
    return {"table.md": _markdown(content).encode(), "table.csv": tables.as_csv(content.entries).encode()}


def figure_of(panels: Sequence[Panel]) -> bytes | None:
    """The SVG; None for an artifact that is a table alone."""
    if not panels:
        return None
    image = io.BytesIO()
    figure.figure(panels, image)
    return image.getvalue()


def _markdown(content: Content) -> str:
    """table.md: the numbers, the verdicts, the deviations and the command."""
    e = tables.escape
    head = f"{content.locator}. {content.means}".strip()
    blocks = [f"# {content.title} · {content.fidelity}", head]
    blocks += [e(text) for text in (content.question, content.caution, content.tally)]
    blocks.append(tables.markdown(content.entries))
    rows = [[f"**{e(c.claim.verdict)}**", *map(e, (c.claim.id, c.claim.statement, c.in_full))] for c in content.claims]
    verdicts = "".join(f"| {id} | {statement} | {verdict} | {text} |\n" for verdict, id, statement, text in rows)
    blocks.append(f"| claim | statement | verdict | answer |\n| --- | --- | --- | --- |\n{verdicts}" if rows else "")
    if content.settings:
        blocks += ["Each comparison, at the paper's setting and under the controls:", tables.lines(content.settings)]
    controlled = next((text for text in content.claims if text.control_commands), None)
    if controlled:
        command = next(iter(controlled.control_commands.values()))
        blocks.append(f"The runs of one control of one claim alone, for example: `{command}`")
    if content.reported:
        blocks += [
            "Reported beside the claims, over all published seeds; it decides nothing:",
            tables.lines(content.reported),
        ]
    if content.expected_wrong:  # of computed numbers none
        wrong = f"at most {content.expected_wrong:.3g}"
        blocks.append(f"Expected number of these verdicts that are wrong by chance: {wrong}.")
    meanings = [f"{name}: {words}" for name, words in content.meanings]
    amended = [f"{', '.join(ids)}: {change}. Why: {reason}" for (change, reason), ids in content.amendments.items()]
    for title, entries in (
        (f"Arms and controls, by the experiment {content.experiment}", meanings),
        ("Choices and deviations", content.deviations),
        ("Claims amended after they were first written down", amended),
    ):
        blocks += [f"{title}:", "\n".join(f"- {e(entry)}" for entry in entries)] if entries else []
    blocks.append(f"Command: `{content.command}`")
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def _describe_seeds(entries: Sequence[Entry]) -> str:
    """The seeds of the means and intervals; "" where all numbers are computed."""
    counts = sorted({entry.n for entry in entries if entry.interval})
    if not counts:
        return ""
    if len(counts) == 1:
        return f"Means with 95 % intervals over seeds (n = {counts[0]})."
    return (
        f"Means with 95 % intervals over all published seeds (n = {counts[0]} to {counts[-1]}, see table.csv); a "
        "verdict counts those that were planned for it."
    )
