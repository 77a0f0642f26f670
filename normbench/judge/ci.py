"""Verdicts for continuous integration: which claims fail, and the comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from normbench.draw.text import visible
from normbench.errors import BadInput, NormbenchError, unknown
from normbench.papers import rules
from normbench.papers.decide import Verdict
from normbench.papers.page import ClaimText
from normbench.papers.parts import PartResult

FAILED = 6  # the exit code where a claim has a word of --fail-on
LONGEST = 65_536  # characters of a comment on GitHub
LONGEST_TEXT = 600  # characters of a statement or sentence in it
# why a part is undecided for want of runs, or of their ends
INCOMPLETE = ("incomplete", "no planned look", "uneven", "copies", "cut short", "few seeds", "ended early")
WORDS = (rules.FAILS, rules.NEGLIGIBLE, rules.UNDECIDED, rules.UNTESTED, rules.DIVERGED, "incomplete")
GATE = "fails,diverged,untested,incomplete"  # nothing passes that runs should have decided and did not
LOOKS = (
    "Each run of CI is a look of its own, and CI has no memory of looks: a claim that is judged after every push is "
    "decided falsely more often than its level says."
)
_MARKUP = re.compile(r"[\\`*_\[\]<>|~&#$]")


class ClaimsFail(NormbenchError):
    """Claims have words of --fail-on: an answer of the command, and no kind of error."""

    code = FAILED


@dataclass(frozen=True)
class Judged:
    """The claims of one file; `failed`: they could not be judged; `absent`: what they name and no run has; `not_run`:
    the claims that lack runs of an arm or a control."""

    id: str
    claims: Sequence[Verdict] = ()
    failed: bool = False
    absent: Sequence[str] = ()
    not_run: Sequence[str] = ()


def fail_words(given: Sequence[str]) -> list[str]:
    """The words of --fail-on, each a list with commas. NormbenchError with the nearest for one that is none."""
    words = [word for text in given for word in map(str.strip, text.split(",")) if word]
    for word in words:
        if word not in WORDS:
            raise unknown(f"--fail-on {word} is not a word of a claim.", word, WORDS)
    if given and not words:  # as of a variable that is not set: no gate would be left
        raise BadInput(
            f"--fail-on has no word. Choose from: {', '.join(sorted(WORDS))}; without --fail-on nothing fails."
        )
    return words


def failing(claim: Verdict, words: Sequence[str]) -> str:
    """The first of these words that a claim has; "" for none. Under a control only what leaves it open counts."""
    has = {claim.word, rules.DIVERGED if claim.diverged else ""}
    settings = [(claim.word, claim.parts)]
    if claim.compared is not None:  # of logged runs; an artifact's verdict is published as "controls not run"
        settings += [(control.word, control.parts) for control in claim.controls]
    for setting, parts in settings:
        if setting not in rules.DECIDED:
            has |= {*_left_open(parts)}
            has |= {setting} & {rules.UNTESTED}  # `undecided` is of the claim alone
    return next((word for word in words if word in has), "")


def _left_open(parts: Sequence[PartResult]) -> Iterator[str]:
    """The words for why parts that are not decided are not."""
    if any(part.diverged for part in parts):
        yield rules.DIVERGED
    copies = any(part.why == "alike" and part.effect for part in parts)  # of one seed, that differ
    if copies or any(part.why in INCOMPLETE for part in parts):
        yield "incomplete"


def check(judged: Sequence[Judged], words: Sequence[str]) -> None:
    """Raise where the command must not succeed: ClaimsFail that names the claims which fail; as bad input where claims
    name what no run has, and with any word where no claim was judged, or one lacks runs."""
    by_name = ((name, failing(claim, words)) for name, claim in named(judged))
    if failed := [f"{name} ({word})" for name, word in by_name if word]:
        many = "1 claim fails" if len(failed) == 1 else f"{len(failed)} claims fail"
        raise ClaimsFail(f"{many}: {', '.join(failed)}. (--fail-on {','.join(words)})")
    if words and not any(entry.claims for entry in judged):
        raise BadInput("no claim was judged, so none can pass. (--fail-on)")
    if absent := [text for entry in judged for text in entry.absent]:
        raise BadInput(f"{absent[0]} No claim about it can be judged.")
    if words and (not_run := [text for entry in judged for text in entry.not_run]):
        raise BadInput(f"{not_run[0]} It cannot pass. (--fail-on)")


def named(judged: Sequence[Judged]) -> Iterator[tuple[str, Verdict]]:
    """Every claim, with its file where there are several."""
    for entry in judged:
        for claim in entry.claims:
            yield (claim.id if len(judged) == 1 else f"{entry.id} {claim.id}"), claim


def markdown(title: str, judged: Sequence[Judged], words: Sequence[str]) -> str:
    """The comment on a pull request. title: what was judged, by which the comment of the last push is found."""
    head = [f"<!-- normbench judge {re.sub('[^A-Za-z0-9_./ -]', '_', title)[:LONGEST_TEXT]} -->", f"### {_text(title)}"]
    # not why: an error may quote a row of a file, which is not for everybody
    entries = [("", f"**{_text(entry.id)}** was not judged: the log says why.") for entry in judged if entry.failed]
    for name, claim in sorted(named(judged), key=lambda pair: not failing(pair[1], words)):  # these are not cut
        word, verdict = failing(claim, words), _text(claim.verdict)
        cells = (f"{_text(name)}: {_text(claim.statement)}", f"**{verdict}**" if word else verdict)
        text = ClaimText.of(claim)
        row = f"| {' | '.join([*cells, _text(text.effect) or '–'])} |"
        entries.append((row, f"**{_text(name)}** {word}: {_text(text.evidence)}" if word else ""))
    room = LONGEST - len("\n".join([*head, LOOKS])) - 200  # the table's head, and the line on what is left out
    kept = 0
    while kept < len(entries) and (room := room - sum(map(len, entries[kept])) - 8) >= 0:
        kept += 1
    rows = [row for row, _ in entries[:kept] if row]
    table = ["| claim | verdict | effect |", "| - | - | - |", *rows] if rows else []
    sentences = [f"- {sentence}" for _, sentence in entries[:kept] if sentence]
    left = f"{len(entries) - kept} of {len(entries)} claims are left out: the comment would be too long."
    blocks = [*map("\n".join, (head, table, sentences)), left * (kept < len(entries)), LOOKS]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _text(text: str) -> str:
    """One line without markup; `@name` calls nobody."""
    line = str(visible(text))
    line = line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]}…"
    return _MARKUP.sub(r"\\\g<0>", line).replace("@", "@&#8203;")
