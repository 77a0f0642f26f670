"""`--fail-on` and `--markdown`: which claims fail, and what the comment says, of published verdicts."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from normbench.errors import NormbenchError
from normbench.judge import ci
from normbench.papers import rules
from normbench.papers.decide import Verdict
from normbench.papers.published import read_verdicts

RESULTS = Path(__file__).parents[2] / "results"
PUBLISHED = read_verdicts(RESULTS / "bln2022" / "fig6" / "paper" / "verdicts.json").claims[0]
HOSTILE = "a|b <img src=x> `c` @someone [x](http://y) \x00\x1b[31m\u202e\ud800\n# end ]]> \\|"


def claim(word: str = "holds", **changes: Any) -> Verdict:
    """A published claim of one comparison, with another word."""
    return replace(PUBLISHED, **{"id": "C1", "word": word, "reason": "", "verdict": word} | changes)


def one(*claims: Verdict) -> list[ci.Judged]:
    return [ci.Judged("ci/claims.yaml", claims)]


def test_every_word_of_the_rules_can_fail_a_claim_and_only_that() -> None:
    for word in rules.WORDS:
        found = {name for name in ci.WORDS if ci.failing(claim(word), [name])}
        assert found == {word} & {*ci.WORDS}
    assert {*rules.WORDS} - {*ci.WORDS} == {rules.HOLDS}
    assert ci.failing(claim(diverged=True), ci.WORDS) == "diverged" and not ci.failing(claim(), ci.WORDS)


def test_the_claims_that_fail_are_named_with_their_files() -> None:
    bad = claim("fails")
    with pytest.raises(NormbenchError) as caught:
        ci.check(one(bad, claim()), ["fails"])
    assert caught.value.code == ci.FAILED == 6 and "1 claim fails: C1 (fails)" in str(caught.value)
    with pytest.raises(NormbenchError) as caught:
        ci.check([*one(bad), ci.Judged("b", [bad])], ["fails"])
    assert "ci/claims.yaml C1 (fails), b C1 (fails)" in str(caught.value)
    ci.check(one(bad), ["undecided"])


def test_a_comment_holds_any_name() -> None:
    """A table with its three columns; no name calls anybody."""
    hostile = claim("fails", id=f"C {HOSTILE}", statement=HOSTILE, answer=HOSTILE)
    written = ci.markdown(f"x --> {HOSTILE}", one(hostile), ["fails"])
    written.encode()
    assert re.fullmatch(r"<!-- normbench judge [\w./ -]+ -->", written.split("\n")[0])
    (row,) = [line for line in written.split("\n") if line.startswith("| C ")]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 4
    assert not re.search(r"(?<!\\)[<`\[](?!!--)|@(?!&#8203;)|[\x00\x1b\u202e]", written.split("\n", 1)[1])


@pytest.mark.parametrize("name", ["ln2016/fig6", "ln2016/table1", "bln2022/fig6"])
def test_markdown_has_the_published_verdicts(name: str) -> None:
    claims = read_verdicts(RESULTS / name / "paper" / "verdicts.json").claims
    written = ci.markdown(name, [ci.Judged(name, claims)], ["undecided"])
    rows = [line for line in written.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(claims)
    for judged in claims:
        (row,) = [row for row in rows if row.startswith(f"| {judged.id}: ")]
        assert judged.verdict in row and (judged.kind == "exact" or not judged.interval or f"n = {judged.n}" in row)
        assert (f"- **{judged.id}** undecided: " in written) == (judged.word == "undecided")
    assert written.rstrip().endswith(ci.LOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("longer", [20, 5000])
def test_a_comment_is_cut_after_the_claims_that_fail(longer: int) -> None:
    many = [claim(id=f"C{k}", statement="@" * longer) for k in range(899)]
    many.append(claim("fails", id="C899", statement="@" * longer))
    written = ci.markdown("x", one(*many), ["fails"])
    shown = sum(line.startswith("| C") for line in written.splitlines())
    assert len(written) <= ci.LONGEST < 1.15 * len(written)
    assert f"{900 - shown} of 900 claims are left out" in written and "- **C899** fails" in written


@pytest.fixture
def published(tmp_path: Path) -> list[str]:
    """The command that judges a published artifact again, in a folder of its own."""
    shutil.copytree(RESULTS / "ln2016" / "benefit", tmp_path / "results" / "ln2016" / "benefit")
    return ["reproduce", "ln2016/benefit", "--max-time", "0", "--results", str(tmp_path / "results")]


def test_reproduce_exits_with_6_and_writes_the_comment(published: list[str], normbench: Any, capfd: Any) -> None:
    assert normbench(*published) == 0
    before = capfd.readouterr()
    assert normbench(*published, "--fail-on", "fails", "--markdown", "new/c.md") == 0
    after = capfd.readouterr()
    assert (after.out, after.err) == (before.out, before.err)
    words = ("--fail-on", "negligible", "--fail-on", "undecided", "--json", "--markdown", "new/c.md")
    assert normbench(*published, *words) == 6
    printed = capfd.readouterr()
    undecided = [
        entry["id"] for entry in json.loads(printed.out)["artifacts"][0]["claims"] if "und" in entry["verdict"]
    ]
    assert undecided and all(f"{name} (undecided)" in printed.err.splitlines()[-1] for name in undecided)
    assert Path("new/c.md").read_text().startswith("<!-- normbench judge ln2016/benefit -->\n")
    for file in ("-", "new/d.md"):
        assert normbench(*published, "--markdown", file) == 0
    printed = capfd.readouterr()
    assert printed.out.startswith(Path("new/d.md").read_text())


def test_2_wins_over_6_and_is_written_too(published: list[str], normbench: Any, capfd: Any, tmp_path: Path) -> None:
    comment = ("--markdown", "c.md")
    both = [*published[:2], "bln2022/fig6", *published[2:]]
    folder = tmp_path / "results" / "bln2022" / "fig6" / "paper"
    folder.mkdir(parents=True)
    (folder / "verdicts.json").write_text("{")
    assert normbench(*both, "--fail-on", "undecided", *comment) == 2
    written = Path("c.md").read_text()
    assert "** undecided: " in written and "**bln2022/fig6** was not judged" in written
    for words in (("reproduce", "ln2016/fig66", *comment), (*published, "--fail-on", "undecidde", *comment)):
        assert normbench(*words) == 2
        assert "was not judged" in Path("c.md").read_text()
        assert Path("c.md").read_text().startswith(f"<!-- normbench judge {words[1]} -->")


def test_files_that_cannot_be_written_stop_the_command_at_once(
    published: list[str], normbench: Any, capfd: Any
) -> None:
    Path("a file").touch()
    for words in (("--markdown", "."), ("--markdown", "a file/c.md"), ("--json", "--markdown", "-")):
        assert normbench(*published, *words) == 2
        printed = capfd.readouterr()
        assert not printed.out and words[-2] in printed.err


@pytest.fixture
def judge(
    tmp_path: Path, normbench: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """The files of docs/ci.md on logs of two arms: `judge("--fail-on", ..., ours=lambda seed: ..., seeds=5)`; the exit
    code, and what was printed.
    """
    page = (RESULTS.parent / "docs" / "ci.md").read_text()
    _, claims, map_text, against_numbers = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "claims.yaml").write_text(claims)
    (tmp_path / "numbers.yaml").write_text(f"claims:\n{against_numbers}")
    (tmp_path / "map.yaml").write_text(map_text.replace("tag:", "column:"))  # of CSV

    def run(
        *words: str,
        ours: Callable[[int], float],
        seeds: int = 5,
        main: Callable[[int], float] = lambda seed: 1 + 0.001 * seed,
        at: int = 2,
        file: str = "claims.yaml",
    ) -> tuple[int, str]:
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)
        (tmp_path / "logs").mkdir()
        for arm, end_of, last, step in (("ours", ours, seeds, at), ("main", main, 5, 2)):
            for seed in range(1, last + 1):
                rows = f"step,valid/loss\n{step - 1},3\n{step},{end_of(seed)}\n"
                (tmp_path / "logs" / f"{arm}_s{seed}.csv").write_text(rows)
        assert normbench("import", "logs", "--as", "ours", "--map", "map.yaml", "--yes") == 0
        code = normbench("judge", file, "--runs", "ours", *words, "--markdown", "c.md")
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    return run


@pytest.mark.parametrize(
    ("ours", "seeds", "word", "code"),
    [
        (lambda seed: 1 + 0.0011 * seed, 5, "", 0),
        (lambda seed: 1.05 + 0.0011 * seed, 5, "fails", 6),
        (lambda seed: math.nan, 5, "diverged", 6),
        (lambda seed: 1.05 + 0.0011 * seed, 3, "incomplete", 6),
        (lambda seed: 1 + 0.009 * seed, 5, "undecided", 0),
    ],
)
def test_a_pull_request_is_judged_as_the_page_says(
    judge: Any, ours: Callable[[int], float], seeds: int, word: str, code: int
) -> None:
    """With the words that fail the action; also with the one that asks for proof."""
    ended, printed = judge("--fail-on", ci.GATE, ours=ours, seeds=seeds)
    assert ended == code and (f"C1 ({word})" in printed) == (code == 6)
    written = Path("c.md").read_text()
    assert written.startswith("<!-- normbench judge claims.yaml -->\n") and re.search(f"(n =|of) {seeds}\\b", written)
    proof, _ = judge("--fail-on", f"{ci.GATE},undecided", ours=ours, seeds=seeds)
    assert proof == (6 if word else 0)


@pytest.mark.parametrize(
    ("ours", "seeds", "words"),
    [
        (lambda seed: 1 + 0.0011 * seed, 6, []),
        (lambda seed: 1.6 + 0.0011 * seed, 6, ["C2 (fails)", "C3 (incomplete)"]),  # they end before step 3000
        (lambda seed: 1 + 0.0011 * seed if seed < 6 else math.nan, 6, ["C2 (diverged)", "C3 (diverged)"]),
        (lambda seed: 1 + 0.0011 * seed, 4, ["C2 (incomplete)", "C3 (incomplete)"]),
    ],
)
def test_an_arm_is_judged_against_a_number_as_the_page_says(
    judge: Any, ours: Callable[[int], float], seeds: int, words: list[str]
) -> None:
    page = Path("numbers.yaml")
    page.write_text(page.read_text().replace("3.28", "1.5"))
    ended, printed = judge("--fail-on", ci.GATE, ours=ours, seeds=seeds, file=str(page))
    assert ended == (6 if words else 0) and re.findall(r"C\d \([a-z]+\)", printed) == words


@pytest.mark.parametrize(
    ("logs", "word"),
    [
        ({"ours": lambda seed: math.nan, "main": lambda seed: math.nan}, "diverged"),
        ({"ours": lambda s: math.nan if s < 3 else 1.0, "main": lambda s: math.nan if s < 3 else 1.0 + s}, "diverged"),
        ({"ours": lambda seed: 100.0, "seeds": 1}, "incomplete"),
        ({"ours": lambda seed: 100.0, "main": lambda seed: 1.0}, "incomplete"),
        ({"ours": lambda seed: 1.2, "main": lambda seed: 1.0 + 0.0011 * seed}, "incomplete"),
        ({"ours": lambda seed: 1.0, "at": 12, "length": "common"}, "untested"),
    ],
    ids=["both arms diverge", "some of both arms diverge", "one seed of five", "copies", "one arm", "no common step"],
)
def test_what_runs_should_have_decided_and_did_not_fails(judge: Any, logs: dict[str, Any], word: str) -> None:
    """It passed: such a claim is undecided, or not decidable, and these were no words of the action."""
    length = logs.pop("length", "equal")
    Path("claims.yaml").write_text(f"length: {length}\n" + Path("claims.yaml").read_text())
    ended, printed = judge("--fail-on", ci.GATE, **logs)
    assert ended == 6 and f"C1 ({word})" in printed


@pytest.mark.parametrize("words", [ci.GATE, "fails"])
def test_a_claim_whose_control_has_no_runs_fails(judge: Any, words: str) -> None:
    """It passed, as `holds · as logged · controls not run`."""
    text = Path("claims.yaml").read_text()
    Path("claims.yaml").write_text(text.replace("    parts:", "    controls: [wide]\n    open: [width]\n    parts:"))
    ended, printed = judge("--fail-on", words, ours=lambda seed: 1 + 0.0011 * seed)
    assert ended == (6 if words == ci.GATE else 2) and "not run under wide" in printed


def test_nothing_passes_where_nothing_was_judged(judge: Any, normbench: Any, capfd: Any) -> None:
    """Whatever the words are: a wrong arm, a value that no run has, no claim."""
    judge(ours=lambda seed: 1.0)
    text = Path("claims.yaml").read_text()
    wrong = {"arm: mian": "Did you mean 'main'", "arm: main, env: hard": "env 'hard'"}
    for cell, named in wrong.items():
        Path("wrong.yaml").write_text(text.replace("arm: main", cell))
        capfd.readouterr()
        for gate in ((), ("--fail-on", "fails")):
            assert normbench("judge", "wrong.yaml", "--runs", "ours", *gate) == 2
            printed = capfd.readouterr()
            assert named in printed.err.splitlines()[-1] and "C1" in printed.out
    with pytest.raises(NormbenchError, match="no claim was judged") as caught:
        ci.check([ci.Judged("a")], ["fails"])
    assert caught.value.code == 2
    ci.check([ci.Judged("a")], [])


def test_the_action_and_the_help_have_the_words_of_a_gate(normbench: Any, capfd: Any) -> None:
    action = (RESULTS.parent / "action.yml").read_text()
    assert f"default: {ci.GATE}\n" in action
    assert normbench("judge", "--help") == 0
    assert ci.GATE in "".join(capfd.readouterr().out.split())


def test_an_arm_that_was_not_trained_and_a_file_that_is_gone_fail(judge: Any, normbench: Any, capfd: Any) -> None:
    judge(ours=lambda seed: 1.0)
    text = Path("claims.yaml").read_text()
    Path("claims.yaml").write_text(text.replace("arm: main", "arm: mian"))
    assert normbench("judge", "claims.yaml", "--runs", "ours", "--fail-on", "untested") == 6
    Path("claims.yaml").unlink()
    assert normbench("judge", "claims.yaml", "--runs", "ours", "--fail-on", "untested", "--markdown", "c.md") == 2
    assert r"**claims.yaml** was not judged" in Path("c.md").read_text()
