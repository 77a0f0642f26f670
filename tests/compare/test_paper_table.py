"""Tables for papers: the numbers of the comparison, text that stays text, every arm on show and no other."""

import csv
import io
import re
import shutil
import subprocess

import pytest
from swept import asked, sweep

from normbench.compare.paper_table import paper_table

ARMS = {"none": 0.3, "layer": 0.2, "my_norm 50%": 0.25}


def test_a_csv_has_the_numbers_of_the_comparison() -> None:
    c = asked(sweep(ARMS))
    rows = list(csv.DictReader(io.StringIO(paper_table([c], "csv"))))
    (group,) = c.groups
    assert [row["arm"] for row in rows] == [row.arm for row in group.rows] and len(rows) == len(ARMS)
    for row, cell in zip(rows, group.rows, strict=True):
        assert int(row["n"]) == cell.at.n and float(row["mean"]) == pytest.approx(cell.at.mean, rel=1e-5)
        assert [float(row["low"]), float(row["high"])] == pytest.approx(list(cell.at.interval), rel=1e-5)
        assert float(row["learning_rate"]) == cell.cell.runs[0].config["optim"]["lr"]
        d = cell.difference
        assert (row["word"], row["against"]) == ((d.word, "none") if d else ("", ""))
        if d:
            assert float(row["difference"]) == pytest.approx(d.mean, rel=1e-5)
            assert float(row["p_holm"]) == pytest.approx(d.holm, rel=1e-5)


@pytest.mark.parametrize("form", ["latex", "markdown"])
def test_every_arm_has_a_row_of_as_many_columns(form: str) -> None:
    lines = paper_table([asked(sweep(ARMS))], form).splitlines()
    separator, ends = {"latex": (r"(?<!\\)&", r"\\"), "markdown": (r"(?<!\\)\|", "|")}[form]
    rows = [line for line in lines if line.endswith(ends) and not line.startswith("%")]
    assert len({len(re.split(separator, row)) for row in rows}) == 1
    assert len(rows) == 1 + len(ARMS) + (form == "markdown")


def test_latex_shows_text_as_it_is() -> None:
    text = paper_table([asked(sweep({"none": 0.3, r"a_b & 50% ~^ \x{y} #1 $": 0.2}))], "latex")
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    assert r"a\_b \& 50\% \textasciitilde{}\textasciicircum{} \textbackslash{}x\{y\} \#1 \$" in body
    assert "\N{MINUS SIGN}" not in body and "$-$" in body


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_is_typeset(tmp_path) -> None:
    table = paper_table([asked(sweep(ARMS))], "latex")
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{chr(10)}{table}\end{{document}}"
    (tmp_path / "table.tex").write_text(document)
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table"], cwd=tmp_path, check=True)
