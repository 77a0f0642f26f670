"""`normbench judge`: from logs to a verdict, with a file of claims and without."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from normbench.stats.looks import level_at

PUBLISHED = Path(__file__).parents[2] / "results"
OURS = Path(__file__).parents[2] / "examples" / "own_claims" / "papers" / "mine" / "rms.yaml"
COMPARE = ("--compare", "ln", "bn")
TARGET = ("--target", "1.2", "--metric", "loss", "--better", "lower")
PART = {
    "id": "ln against bn",
    "endpoint": {"kind": "final", "split": "valid", "metric": "loss"},
    "contrast": [[1, {"arm": "ln"}], [-1, {"arm": "bn"}]],
    "scale": "linear",
    "unit": "nats",
    "expect": "negative",
}
CLAIMS = {"claims": [{"id": "[/]", "kind": "direction", "statement": "s", "parts": [PART]}]}


@pytest.fixture
def mine(tmp_path: Path, normbench: Any, capfd: Any, made: list[Path]) -> Path:
    """Two arms of six seeds, imported as `mine`; ln ends 0.5 below bn."""
    if made:
        shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
        return tmp_path
    logs = tmp_path / "logs"
    logs.mkdir()
    for seed in range(1, 7):
        for arm, end in (("ln", 1.0), ("bn", 1.5)):
            rows = ("step,valid/loss", "1,4", f"2,{end + seed * (0.01 if arm == 'ln' else 0.011)}")
            (logs / f"{arm}_s{seed}.csv").write_text("\n".join(rows) + "\n")
    assert normbench("import", str(logs), "--as", "mine", "--yes") == 0
    capfd.readouterr()
    made.append(tmp_path.with_name("made"))
    shutil.copytree(tmp_path, made[0])
    return tmp_path


@pytest.fixture(scope="module")
def made() -> list[Path]:
    """Where the import lies, once it is made."""
    return []


def said(normbench: Any, capfd: Any, *words: str, code: int = 0) -> dict[str, Any]:
    assert normbench("judge", *words, "--json") == code, capfd.readouterr().err
    answer: dict[str, Any] = json.loads(capfd.readouterr().out)
    return answer


@pytest.mark.parametrize("runs", ["mine", "imported/mine", "results/imported/mine/logged", "imported/mine arm=ln,bn"])
def test_a_comparison_needs_no_file(mine: Path, normbench: Any, capfd: Any, runs: str) -> None:
    (claim,) = said(normbench, capfd, "--runs", runs, *COMPARE, "--metric", "loss", "--better", "lower")["claims"]
    assert claim["verdict"] == "holds · as logged" and claim["n"] == 6
    low, high = claim["interval"]
    assert -0.51 < low < high < -0.5 and claim["compared"] == "pairs of equal seeds"


def test_an_early_end_is_named_and_not_called_final(mine: Path, normbench: Any, capfd: Any) -> None:
    longer = "".join(f"{step},1.5\n" for step in range(3, 12))
    for path in sorted((mine / "logs").glob("*.csv"))[1:]:
        path.write_text(path.read_text() + longer)
    assert normbench("import", "logs", "--as", "uneven", "--yes") == 0
    capfd.readouterr()
    words = ("--runs", "uneven", *COMPARE, "--better", "lower")
    assert normbench("judge", *words) == 2
    assert "bn seed 1" in capfd.readouterr().err
    (found,) = said(normbench, capfd, *words, "--length", "common")["claims"]
    assert found["word"] == "undecided" and "final" not in found["statement"] + found["answer"]
    assert "at step 2" in found["answer"] and "80 %" in found["answer"]


@pytest.mark.parametrize("form", ["latex", "markdown", "csv"])
def test_the_claims_are_a_table_for_a_paper(mine: Path, normbench: Any, capfd: Any, form: str) -> None:
    words = ("--runs", "mine", *COMPARE, "--better", "lower")
    assert normbench("judge", *words, "--form", form) == 0
    table = capfd.readouterr().out
    rows = [line for line in table.splitlines() if re.match(r"(\| )?C1\b", line)]
    assert len(rows) == 1 and "ln is better than bn" in rows[0] and "holds" in rows[0] and "as logged" in rows[0]
    assert normbench("judge", *words, "--form", form, "--fail-on", "holds") == 2, "no word of --fail-on"
    assert not capfd.readouterr().out
    assert (
        normbench("judge", "--runs", "mine", "--compare", "bn", "ln", *words[5:], "--form", form, "--fail-on", "fails")
        == 6
    )
    printed = capfd.readouterr()
    assert "C1 (fails)" in printed.err and "fails" in printed.out and "C1 (" not in printed.out


def test_a_file_is_written_edited_and_judged(mine: Path, normbench: Any, capfd: Any) -> None:
    assert normbench("judge", "c.yaml", "--init", "--runs", "mine", *COMPARE, "--better", "lower") == 0
    capfd.readouterr()
    written = (mine / "c.yaml").read_text()
    answer = said(normbench, capfd, "c.yaml")
    assert [claim["verdict"] for claim in answer["claims"]] == ["holds · as logged"] * 2
    assert normbench("judge", "c.yaml", "--init", "--runs", "mine", *COMPARE) == 2, "it is there already"
    assert (mine / "c.yaml").read_text() == written and capfd.readouterr()
    (mine / "c.yaml").write_text(written.replace("{arm: bn}", "{arm: bm}"))
    answer = said(normbench, capfd, "c.yaml", code=2)
    assert {claim["reason"] for claim in answer["claims"]} == {"not run"} and "Did you mean 'bn'" in answer["notes"][0]


def test_looks_are_planned_on_the_command_line_and_in_a_file(mine: Path, normbench: Any, capfd: Any) -> None:
    words = ("--runs", "mine", *COMPARE, "--better", "lower")
    (claim,) = said(normbench, capfd, *words, "--looks", "6, 9", "--spending", "pocock")["claims"]
    assert (claim["word"], claim["look"], claim["looks"], claim["n"]) == ("holds", 1, [6, 9], 6)
    assert claim["level"] == pytest.approx(1 - level_at(6, (6, 9), 0.05, "pocock"))
    assert normbench("judge", *words, "--looks", "5,9", "--fail-on", "incomplete") == 6
    assert "(planned: 5, 9)" in capfd.readouterr().out
    assert normbench("judge", "c.yaml", "--init", *words, "--looks", "5,9") == 0
    assert "looks: [5, 9]" in (mine / "c.yaml").read_text() and capfd.readouterr()
    answer = said(normbench, capfd, "c.yaml")
    assert [(claim["word"], claim["look"]) for claim in answer["claims"]] == [("undecided", 0)] * 2


@pytest.mark.parametrize(("arm", "word", "code"), [("ln", "holds", 0), ("bn", "fails", 6)])
def test_an_arm_is_judged_against_a_number(
    mine: Path, normbench: Any, capfd: Any, arm: str, word: str, code: int
) -> None:
    words = ("--runs", "mine", *TARGET, "--arm", arm)
    (claim,) = said(normbench, capfd, *words)["claims"]
    assert (claim["word"], claim["than"], claim["n"]) == (word, 1.2, 6)
    assert claim["statement"] == f"{arm} is below 1.2 in final valid loss" and "than 1.2" in claim["answer"]
    assert normbench("judge", *words, "--fail-on", "fails,diverged,untested,incomplete") == code
    capfd.readouterr()
    (claim,) = said(normbench, capfd, "--runs", f"mine arm={arm}", *TARGET[:1], "1.0325", *TARGET[2:])["claims"]
    assert (claim["word"] == "undecided") == (arm == "ln") == ("fresh seeds" in claim["suggestion"])


def test_a_file_about_a_number_and_its_time_is_written_and_judged(mine: Path, normbench: Any, capfd: Any) -> None:
    assert normbench("judge", "c.yaml", "--init", "--runs", "mine", *TARGET, "--arm", "ln") == 0
    capfd.readouterr()
    low, soon = said(normbench, capfd, "c.yaml")["claims"]
    assert (low["word"], low["than"]) == ("holds", 1.2)
    assert soon["statement"] == "ln reaches valid loss 1.2 before step 2" and soon["than"] == 2
    assert soon["word"] == "holds" and "sooner than 2 at valid loss 1.2" in soon["answer"]


@pytest.mark.parametrize("words", [("mine", "seed=1-5"), ("mine seed=1-5",), ("imported/mine", "seed>0 seed<6")])
def test_a_key_and_a_value_after_a_name_choose_among_its_runs(
    mine: Path, normbench: Any, capfd: Any, words: tuple[str, ...]
) -> None:
    given = [part for word in words for part in ("--runs", word)]
    (claim,) = said(normbench, capfd, *given, *COMPARE, "--better", "lower")["claims"]
    assert claim["n"] == 5 and claim["verdict"] == "holds · as logged"
    (mine / "c.yaml").write_text(json.dumps(CLAIMS | {"runs": [*words]}))
    (claim,) = said(normbench, capfd, "c.yaml")["claims"]
    assert claim["n"] == 5


def test_published_runs_are_judged_too(normbench: Any, capfd: Any) -> None:
    words = ("--results", str(PUBLISHED), "--runs", "ln2016/fig6 fidelity=paper train.batch_size=4")
    (claim,) = said(normbench, capfd, *words, "--compare", "ln", "none")["claims"]
    assert claim["verdict"].endswith(" · as logged") and claim["n"] >= 5


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "--compare"),
        (("c.yaml", *COMPARE), "--compare"),
        (("--init", "--runs", "mine"), "--init"),
        (("gone.yaml",), "gone.yaml"),
        (("c.yaml",), "--runs"),
        (("empty.yaml", "--runs", "mine"), "claims"),
        (("--runs", "mine", "--compare", "ln", "ln", "--better", "lower"), "itself"),
        (("--runs", "", *COMPARE), "--runs"),
        (("--runs", "logs/ln_s1.csv", *COMPARE), "normbench import"),
        (("c.yaml", "--better", "lower"), "--better"),
        (("ours.yaml",), "reproduce"),
        (("--runs", "mien", *COMPARE), "Did you mean 'mine'"),
        (("--runs", "mine", "--runs", "sed=1", *COMPARE), "'seed'"),
        (("--runs", "mine", "--runs", "seed=9", *COMPARE), "seed=9"),
        (("--runs", "mine", "--runs", "seed=1", "--runs", "arm=ln", "--runs", "seed=2", *COMPARE), "no run fits"),
        (("--runs", "logs", *COMPARE), "normbench import logs"),
        (("--runs", "mine", "--compare", "ln", "bm"), "'bn'"),
        (("--runs", "mine", *COMPARE, "--metric", "los"), "'loss'"),
        (("--runs", "mine", *COMPARE, "--split", "test"), "valid"),
        (("--runs", "mine", *COMPARE), "--better"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--looks", "5,x"), "--looks: at[1]: 'x'"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--looks", "9,5"), "--looks: at: [9, 5]"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--looks", ""), "--looks: at[0]: ''"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--looks", "5," + "9" * 5000), "at[1]: 999"),
        (("--runs", "mine", *COMPARE, "--metric", "", "--better", "lower"), "the metric ''"),
        (("--runs", "mine", *COMPARE, "--split", "", "--better", "lower"), "the split ''"),
        (("--runs", "mine arm=ln", "--arm", "", *TARGET), "the arm ''"),
        (("--runs", "mine", "--compare", "ln", "", "--better", "lower"), "the arm ''"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--fail-on", ""), "--fail-on has no word"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--fail-on", ","), "--fail-on has no word"),
        (("--runs", "mine", *COMPARE, "--spending", "pocock"), "--looks"),
        (("c.yaml", "--looks", "5,9"), "--looks"),
        (("--runs", "mine", *COMPARE, *TARGET), "--compare"),
        (("c.yaml", "--runs", "mine", *TARGET[:2]), "--target"),
        (("--runs", "mine", *TARGET[:2]), "--metric"),
        (("--runs", "mine", "--arm", "ln", "--target", "nan", *TARGET[2:]), "nan"),
        (("--runs", "mine", "--arm", "ln", "--target", "-inf", *TARGET[2:]), "inf"),
        (("--runs", "mine", *TARGET), "--arm bn or ln"),
        (("--runs", "mine", "--arm", "lm", *TARGET), "'ln'"),
        (("--runs", "mine", "--arm", "ln", *COMPARE), "--arm"),
        (("new.yaml", "--init", "--runs", "mine arm=ln"), "--target"),
        (("--runs", "mine", *COMPARE, "--better", "lower", "--json", "--form", "csv"), "--json and --form"),
        (
            ("--runs", "mine", *COMPARE, "--better", "lower", "--markdown", "-", "--form", "csv"),
            "--markdown - and --form",
        ),
    ],
    ids=lambda given: " ".join(given)[:90],
)
def test_bad_input_is_one_line(mine: Path, normbench: Any, capfd: Any, words: tuple[str, ...], named: str) -> None:
    (mine / "c.yaml").write_text(json.dumps(CLAIMS))
    (mine / "empty.yaml").write_text("claims: []\n")
    shutil.copy(OURS, mine / "ours.yaml")
    assert normbench("judge", *words) == 2
    err = capfd.readouterr().err
    assert named in err and err.count("\n") == 1


def test_a_file_without_an_experiment_is_no_artifact(mine: Path, normbench: Any, capfd: Any) -> None:
    (mine / "own" / "papers" / "a").mkdir(parents=True)
    (mine / "own" / "papers" / "a" / "b.yaml").write_text(json.dumps(CLAIMS | {"id": "a/b"}))
    assert normbench("reproduce", "a/b", "--config-dir", "own") == 2
    assert "normbench judge" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["", "hello", "- a", "a: [", "# only this\n"])
def test_an_empty_or_broken_claims_file_says_what_one_is(normbench: Any, capfd: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    assert normbench("judge", "mine.yaml") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "mine.yaml" in line and "--init" in line and "unicode string" not in line
