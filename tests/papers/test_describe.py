"""Sentences about verdicts: ratios, sides and margins of a table of numbers, and every published claim."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged import ERROR, TIME, Plan, arms, artifact, direction, only, part_result, timed_run

from normbench.papers import artifact as artifacts
from normbench.papers import describe, page, published
from normbench.papers.claims import Delta
from normbench.papers.page import ClaimText

RESULTS = Path(__file__).parents[2] / "results"
VERDICTS = sorted(RESULTS.glob("*/*/*/verdicts.json"))
LOWER = part_result(sides=("LN", "BN"), better="lower", unit="points")


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        ({"scale": "log"}, -0.5036, "0.6 times"),
        ({"scale": "log"}, 0.0118, "1.01 times"),  # which side of 1 is not rounded away
        ({}, -4.06, "4.1 points better"),
        ({}, 0.0506, "0.051 points worse"),
        ({"better": "higher", "scale": "percent"}, 17.76, "18 points better"),
        ({"better": "higher"}, -17.76, "18 points worse"),
        ({"better": "", "sides": ()}, -0.28, "0.28 points lower"),
        ({"better": "", "sides": ("LN",)}, -0.28, "−0.28 points"),  # a number, no difference
        ({}, 0.0, "0 points"),
    ],
)
def test_a_number_is_a_ratio_or_has_a_side(part: dict[str, Any], value: float, text: str) -> None:
    assert describe.size(replace(LOWER, **part), value) == text


@pytest.mark.parametrize(
    ("claim", "runs", "plan", "numbers"),
    [
        (artifact(direction()), arms(-1.0), Plan(5), ["1", "0.72", "1.3", "5"]),
        (artifact(direction()), arms(-0.1), Plan(5), ["0.12", "0.42", "0.18", "5"]),  # each end with its side
        (artifact(direction()), arms(-0.5), Plan(5, delta=1.0), ["0.52", "0.22", "0.82", "5", "1"]),  # δ decides
        (artifact(direction()), arms(-1.0, n=4), Plan(10), ["0.95", "0.62", "1.3", "4", "10"]),
        (artifact(direction(scale="log")), arms(1.0), Plan(5), ["1.08", "1.07", "1.09", "5"]),
    ],
)
def test_an_answer_has_one_number_and_how_sure_it_is(claim: Any, runs: Any, plan: Plan, numbers: list[str]) -> None:
    found = describe.answer(only(claim, runs, planned=plan))
    assert re.findall(r"(?<![\w.])\d+(?:\.\d+)?", found) == numbers, found


@pytest.mark.parametrize(
    ("part", "margin"),
    [
        ({"kind": "no_worse", "within": 2.0}, r"less than 2 points$"),
        ({"kind": "no_worse", "within": 0.5, "scale": "log"}, r"less than a factor of 1\.65$"),
        ({"kind": "no_worse", "within": 0.001}, r"less than 0\.001 points$"),
        ({"kind": "no_worse", "within": 0.001, "scale": "log"}, r"less than a factor of 1$"),
        ({"kind": "equivalence", "within": 2.0}, r"within 2 points$"),
        ({"kind": "equivalence", "within": 0.5, "scale": "log"}, r"within a factor of 1\.65$"),
        (
            {"kind": "direction", "delta": Delta(0.5, "w"), "expect": "negative", "scale": "log"},
            r"within a factor of 1\.65$",
        ),
    ],
)
def test_a_margin_has_an_article_where_it_is_a_factor(part: dict[str, Any], margin: str) -> None:
    claim = artifact(direction(**{"expect": None, **part}), kind=part["kind"])
    plan = Plan(5, delta=0.5 if "delta" in part else None)
    text = describe.answer(only(claim, arms(0.0, base=100.0), planned=plan))
    assert re.search(margin, text), text


def test_a_sentence_on_training_mode_says_so() -> None:
    runs = [
        replace(run, records=[{**record, "mode": mode} for record in run.records for mode in ("eval", "train")])
        for run in arms(-1.0)
    ]
    parts = [direction(replace(ERROR, mode=mode), name=mode) for mode in ("eval", "train")]
    evaluated, trained = map(describe.sentence, only(artifact(*parts), runs).parts)
    assert evaluated != trained == evaluated.replace(" in final test error", " in final test error in training mode")


def test_runs_without_a_number_are_counted_by_seed() -> None:
    part = direction(TIME, scale="log", test="sign", unit="log ratio")
    runs = [timed_run(arm, s, epoch) for s in range(6) for arm, epoch in (("ln", 3), ("bn", None))]
    (found,) = only(artifact(part), runs).parts
    assert re.findall(r"\d+(?:\.\d+)?", describe.effect(found)) == ["6", "0", "6", "0.0312", "6"]


@pytest.mark.parametrize(("count", "text"), [(0, "n = 5"), (1, "n = 5, 1 run diverged"), (2, "n = 5, 2 runs diverged")])
def test_runs_that_diverged_are_counted(count: int, text: str) -> None:
    assert describe.effect(part_result(diverged=count)).endswith(text)


def test_what_controls_say_is_listed_under_their_word() -> None:
    claim = artifact(direction(), open=["rate"])
    found = only(claim, [*arms(-1.0), *arms(-2.0, control="lr-low"), *arms(1.0, control="lr-high")])
    texts = describe.besides(found)
    assert [re.findall(r"lr-\w+", text) for text in texts] == [["lr-low"], ["lr-high"]]
    assert texts[0].startswith("the same") and texts[1].startswith("fails")
    header, row = page._settings([ClaimText.of(found)])
    assert header[-2:] == ["lr-low", "lr-high"] and row[-1].endswith("fails") and row[-2].endswith("holds")


def test_the_questions_of_the_papers_are_asked() -> None:
    assert all(artifacts.read(name).question.endswith("?") for name in artifacts.ids())


@pytest.mark.parametrize("path", VERDICTS, ids=lambda path: path.parent.parent.name)
def test_published_sentences_use_the_words_of_readers(path: Path) -> None:
    for claim in published.read_verdicts(path).claims:
        texts = [ClaimText.of(claim).in_full]
        under_controls = [part for control in claim.controls for part in control.parts]
        texts += [describe.sentence(part) for part in (*claim.parts, *claim.reported, *under_controls)]
        for text in texts:
            assert text and not re.search(r"log ratio|None|nan|[{}]|\n|;;|  | ,|error_published", text), text
        answer = claim.answer
        assert answer == describe.answer(claim)
        assert claim.word == "untested" or re.search(r"\d", answer), answer
        is_signed = any(part.unit == "rank correlation" for part in claim.parts)  # no difference, which has a direction
        if claim.kind != "exact" and not is_signed:
            assert "−" not in answer.partition(";")[0], f"no signs: {answer}"
