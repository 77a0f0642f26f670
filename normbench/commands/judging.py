"""Commands that judge claims: when they fail, the comment on a pull request, verdicts in the terminal."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from normbench.commands import options, terminal
from normbench.commands.options import option, repeatable
from normbench.commands.terminal import say, say_under
from normbench.draw.text import visible
from normbench.errors import BadInput, NormbenchError
from normbench.files.reading import place
from normbench.judge import ci
from normbench.papers.claims_table import claims_table
from normbench.papers.decide import Verdict
from normbench.papers.page import ClaimText
from normbench.runs import files

STDOUT = Path("-")
COLOURS = {"good": "green", "half-good": "green", "bad": "red", "half-bad": "red", "weak": "yellow"}
FAIL_ON = f"exit with {ci.FAILED} if a claim is one of: {', '.join(ci.WORDS)}; for a gate: {ci.GATE}"


@dataclass(frozen=True, kw_only=True)
class Judging(options.Answering):
    """A command that judges claims: `run` calls its `judge`, then writes comment and table, and finds the exit code."""

    fail_on: Annotated[list[str], repeatable(FAIL_ON, "WORD[,WORD]")]
    markdown: Annotated[
        Path | None, option("write the verdicts as a comment on a pull request; -: print it", "FILE", parser=place)
    ] = None
    form: options.Form = None

    @property
    @abstractmethod
    def asked(self) -> str:
        """What is judged, as the command line names it."""

    @abstractmethod
    def judge(self, judged: list[ci.Judged]) -> int:
        """The work; returns the exit code, and adds the claims of each file to `judged`."""

    @cached_property
    def console(self) -> Console:
        """The terminal; standard error if the answer is printed."""
        return terminal.console(stderr=bool(self.as_json or self.form or self.markdown == STDOUT))

    def run(self) -> int:
        """The exit code of `judge`, or 6 where that is 0 and a claim fails."""
        judged: list[ci.Judged] = []
        words: list[str] = []
        self._check_file()
        try:
            words = ci.fail_words(self.fail_on)
            code = self.judge(judged)
        except (NormbenchError, OSError):
            self._write([*judged, ci.Judged(self.asked, failed=True)], words)
            raise
        self._write(judged, words)
        if self.form:
            print(claims_table(self.asked, [*ci.named(judged)], self.form), end="")
        if not code:
            ci.check(judged, words)
        return code

    def _check_file(self) -> None:
        """NormbenchError, before anything starts, if the comment could not be written at the end."""
        given = {"--json": self.as_json, "--markdown -": self.markdown == STDOUT, "--form": self.form}
        if len(names := [name for name, is_given in given.items() if is_given]) > 1:
            raise BadInput(f"{' and '.join(names)} all print an answer. Give one of them (--markdown: a file).")
        if self.markdown is None or self.markdown == STDOUT:
            return
        if self.markdown.is_dir():
            raise BadInput(f"--markdown {self.markdown} is a folder. Name a file in it.")
        files.make_folder(self.markdown.parent, "--markdown")

    def _write(self, judged: Sequence[ci.Judged], words: Sequence[str]) -> None:
        if self.markdown == STDOUT:
            print(ci.markdown(self.asked, judged, words), end="")
        elif self.markdown:
            files.atomic_write(self.markdown, ci.markdown(self.asked, judged, words).encode())


def print_verdicts(claims: Sequence[Verdict], console: Console) -> None:
    """Print each claim with its verdict and answer, on a terminal what is beside it below; in a pipe all is a line."""
    mark = "\n" if console.is_terminal else "; "
    width = max((len(claim.id) for claim in claims), default=0)
    for claim in claims:
        text = ClaimText.of(claim)
        verdict = (claim.verdict, COLOURS.get(text.news, ""))
        line = Text.assemble(verdict, visible(f" – {claim.statement}: "), mark.join(map(visible, text.pieces)))
        say_under(console, f"{claim.id:<{width}}  ", line)
    if claims:
        say(console, "")
