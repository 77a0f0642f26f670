"""Tables of claims for papers: the numbers of the verdicts, and LaTeX that any text leaves whole."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from judged import arms, artifact, direction, final_run, only
from matplotlib.mathtext import MathTextParser

from normbench.draw import typeset
from normbench.papers import describe
from normbench.papers.claims_table import TITLES, claims_table
from normbench.papers.decide import Verdict
from normbench.papers.published import read_verdicts

RESULTS = Path(__file__).parents[2] / "results"
PUBLISHED = [
    (f"{path.parents[1].name} {claim.id}", claim)
    for path in sorted(RESULTS.glob("*/*/*/verdicts.json"))
    for claim in read_verdicts(path).claims
]
HOSTILE = "[*a_b & 50% ~^ \\x{y} #1 $ --- \N{MINUS SIGN}1 \u03b4 \u2264 <>\n\x1b\u202e"
OF_LATEX = re.compile(  # what stands in a cell of text: no brace, command or dollar that is not of the table itself
    r"(?:\$(?:-|<|>|\\[a-zA-Z|]+(?:\{\\,\})?)\$|\\text\w+\{\}|\\[&%$#_{}]|-\{\}-|\{\}|[^\\{}$&%#_~^])*"
)


def cells(text: str) -> list[list[str]]:
    body = text.partition("\\toprule\n")[2].partition("\\bottomrule")[0].replace("\\midrule\n", "")
    assert body.endswith(" \\\\\n")
    return [re.split(r" (?<!\\)& ", row) for row in body.removesuffix(" \\\\\n").split(" \\\\\n")]


def rows(claims: list[tuple[str, Verdict]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(claims_table("", claims, "csv"))))


def test_every_published_claim_has_a_row_that_latex_reads() -> None:
    table = cells(claims_table("x", PUBLISHED, "latex"))
    assert len(PUBLISHED) > 100 and len(table) == 1 + len(PUBLISHED) and tuple(table[0]) == TITLES
    for row in table:
        assert len(row) == len(TITLES) and all(OF_LATEX.fullmatch(cell) for cell in row), row
        # what pdfTeX has a letter or sign for, with no package but booktabs
        assert not {c for c in "".join(row) if ord(c) > 126} - set("·–½¼²Ç"), row


def test_any_text_stays_text_in_latex() -> None:
    hostile = replace(only(artifact(direction()), arms(-1.0)), statement=HOSTILE)
    text = claims_table(HOSTILE, [(HOSTILE, hostile)], "latex")
    name, statement, *_ = cells(text)[1]
    assert OF_LATEX.fullmatch(statement) and OF_LATEX.fullmatch(name) and name.startswith("{}[*")
    assert r"a\_b \& 50\% \textasciitilde{}\textasciicircum{} \textbackslash{}x\{y\} \#1 \$" in statement
    assert r"-{}-- $-$1 $\delta$ $\leq$ $<$$>$" in statement.replace("-{}-{}-", "-{}--")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    assert not OF_LATEX.fullmatch("50% {") and not OF_LATEX.fullmatch("a_b")


@pytest.mark.parametrize("sign", typeset.MATH.values())
def test_each_sign_is_one_of_tex(sign: str) -> None:
    MathTextParser("path").parse(f"${sign}$")


def test_the_columns_together_are_the_effect_of_the_pages() -> None:
    for _, claim in PUBLISHED:
        n, effect, interval = describe.in_columns(claim)
        whole = f"{effect} {interval}".rstrip() + (f", n = {n}" if n and claim.effect is not None else "")
        assert whole == describe.number(claim), claim.id


def test_a_csv_has_plain_numbers() -> None:
    claim = only(artifact(direction()), arms(-1.0))
    ratio = replace(
        claim, parts=(replace(claim.parts[0], scale="log", effect=math.log(2), interval=(0.0, math.log(3))),)
    )
    lost = only(artifact(direction()), [*arms(-1.0)[2:], final_run("ln", 1, None, status="diverged"), arms(0.0)[0]])
    absent = only(artifact(direction()), [])
    table = rows([("a", claim), ("b", ratio), ("c", lost), ("d", absent)])
    assert [row["claim"] for row in table] == [*"abcd"] and float(table[0]["effect"]) == pytest.approx(claim.effect)
    assert [float(table[0][end]) for end in ("low", "high")] == pytest.approx([*claim.interval], rel=1e-5)
    assert (table[0]["n"], table[0]["level"], table[0]["unit"], table[0]["word"]) == ("5", "0.95", "points", claim.word)
    assert [table[1][key] for key in ("effect", "low", "high", "unit")] == ["2", "1", "3", "times"]
    assert table[2]["n"] == "5" and table[2]["effect"] == table[2]["low"] == table[2]["level"] == ""
    assert (table[3]["n"], table[3]["effect"], table[3]["reason"]) == ("", "", "not run")


@pytest.mark.parametrize("form", ["latex", "markdown", "csv"])
def test_a_table_without_claims_has_a_header_alone(form: str) -> None:
    header = next(line for line in claims_table("x", [], form).splitlines() if "sentence" in line)
    assert re.findall(r"\w+", header)[:2] == ["claim", "sentence"]


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_is_typeset(tmp_path: Path) -> None:
    table = claims_table("x", [*PUBLISHED, (HOSTILE, PUBLISHED[0][1])], "latex")
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{chr(10)}{table}\end{{document}}"
    (tmp_path / "table.tex").write_text(document)
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table"], cwd=tmp_path, check=True)
