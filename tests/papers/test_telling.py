"""What is told around a verdict: findings, what would decide it, its history, what a plan can show."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judged import arms, artifact, direction, final_run
from ruled import UNIT, effects

from normbench.errors import NormbenchError
from normbench.papers import describe, history, power, rules, suggested_runs, verdicts
from normbench.papers.claims import Part
from normbench.stats import statistics as stats

TWO = direction(name="a"), direction(name="b")
BEYOND = direction(name="p", contrast=((1.0, {"arm": "rms"}), (-1.0, {"arm": "bn"})))
PART: dict[str, Any] = {  # undecided, of a spread of 1
    "id": "p", "kind": "direction", "test": "t", "word": "undecided", "effect": -0.1, "sd": 1.0, "n": 5,
    "within": None, "delta": None, "tost": [-2.0, 1.0], "examples": 0, "level": 0.95, "sign_test": None,
    "prediction": stats.prediction_interval(effects(-0.1, UNIT / math.sqrt(2.5))),
}  # fmt: skip
SHA = {"claims_sha256": "c", "rules_sha256": "r", "pack_sha256": "p"}


class Five:
    """Seeds 1 to 5 everywhere, and 1 as the smallest effect."""

    sha256 = "r"

    def seeds(self, part: Part, control: str, alone: Any) -> list[int]:
        return [seed for seed in range(1, 6) if alone is None or seed in alone]

    def smallest_effect(self, part: Part) -> float | None:
        return 1.0


def test_core_hours_are_plain_numbers() -> None:
    assert [suggested_runs._format_hours(hours) for hours in (0.0123, 0.85, 3.14, 12.3, 638.0)] == [
        "0.012", "0.85", "3.1", "12", "640",
    ]  # fmt: skip


def judged(claims: Any, runs: Any, **more: Any) -> dict[str, Any]:
    return verdicts.judge(claims, runs, "paper", None, Five(), **more)


def test_findings_give_each_word_its_claims_and_the_numbers_behind_it() -> None:
    claims = artifact(direction())
    (told,) = describe.findings(judged(claims, arms(-3.0)))
    assert told.startswith("At the paper's setting, of 1 claim, 1 holds: C1 (points −3.02 [")
    open_claim = artifact(direction(), open=["learning rate"])
    setting, across = describe.findings(judged(open_claim, arms(-3.0)))
    assert setting == told and across == "The controls, settings that the paper leaves open, are not run."
    one_of_two = judged(open_claim, arms(-3.0) + arms(-2.0, control="lr-low"))
    assert describe.findings(one_of_two)[1].endswith(" leaves open, C1 lacks control runs.")
    depends = judged(open_claim, arms(-3.0) + arms(3.0, control="lr-low"))
    assert describe.findings(depends)[1].endswith(" leaves open, C1 (under lr-low) changes its verdict.")
    robust = judged(open_claim, arms(-3.0) + arms(-2.0, control="lr-low") + arms(-2.5, control="lr-high"))
    assert describe.findings(robust)[1].endswith(" leaves open, C1 (lr-low −2.02, lr-high −2.52) says the same.")
    assert describe.findings(judged(claims, []))[0].endswith("1 is not run: C1.")
    of_two, absent = (replace(claims.claims[0], id=id, parts=parts) for id, parts in (("C1", TWO), ("C2", (BEYOND,))))
    (told,) = describe.findings(judged(replace(claims, claims=(of_two, absent)), arms(-3.0)))
    assert told.startswith("At the paper's setting, of 2 claims, 1 holds: C1 (a: points ")
    assert told.endswith("]); 1 is not run: C2.")


def test_parts_are_told_at_the_papers_setting_and_under_the_controls_that_were_run() -> None:
    claims = artifact(direction(), open=["learning rate"])
    own, low = arms(-3.0), arms(-1.5, control="lr-low")
    assert describe.settings(judged(claims, own)["claims"]) == []
    header, row = describe.settings(judged(claims, own + low)["claims"])
    assert header == ["claim", "part", "the paper's setting", "lr-low", "lr-high"]
    assert row[0] == "C1" and row[-1] == "not run"
    assert row[2].startswith("points −3.02 [") and row[2].endswith("]: holds") and row[3].startswith("points −1.52 [")
    assert describe.settings(judged(artifact(direction()), own)["claims"]) == [], "nothing is open"


def test_runs_that_give_no_mean_are_told_as_runs() -> None:
    part: dict[str, Any] = {
        "effect": None,
        "n": 5,
        "censored": 0,
        "diverged": 0,
        "sign_test": None,
        "word": "undecided",
    }
    signs = {"above": 0, "below": 4, "p": 0.125}
    told = {
        "not run": {"n": 0},
        "no number: undecided": {},
        "4 censored, 1 diverged, 0 above : 4 below zero: undecided": {"censored": 4, "diverged": 1, "sign_test": signs},
    }
    for text, changes in told.items():
        assert describe._format_cell({**part, **changes}) == text


def test_runs_that_lack_are_counted_with_their_command_and_their_cost() -> None:
    claims = artifact(direction(), open=["learning rate"])
    runs = [replace(run, seconds=36.0) for run in arms(-3.0, n=4)]

    def way(runs: Any) -> str:
        content = judged(claims, runs)
        return suggested_runs.suggested_runs(claims, claims.claims[0], content["claims"][0], runs, "paper", Five())

    missing = "planned runs are missing, about"
    assert way(runs) == f"2 {missing} 0.02 core-hours: normbench reproduce x/fig --only C1"
    whole = [replace(run, seconds=36.0) for run in arms(-3.0)]
    assert way(whole) == f"20 {missing} 0.2 core-hours: normbench reproduce x/fig --only C1 --controls"
    controls = [run for name in claims.claims[0].controls for run in arms(-3.0, control=name)]
    assert way([*whole, *controls]) == "", "reproduced: nothing is open"
    assert "fresh seeds" in way(arms(-0.9, spread=5.0)), "all planned runs are there, and they do not decide"
    low, high = (arms(-0.9, spread=5.0, control=name) for name in claims.claims[0].controls)
    needed = "about 14 fresh seeds (28 runs, about 0.28 core-hours) would show effects as large as those seen"
    one = [*whole, *low, *arms(-3.0, control="lr-high")]
    assert way(one) == f"{needed} under lr-low with 80 % power; plan them in the claim first"
    both = way([*whole, *low, *high])
    assert "(56 runs, about 0.56 core-hours)" in both and "under lr-low, lr-high with" in both
    claims = replace(claims, claims=(replace(claims.claims[0], unvaried=("task",)),))
    assert way([*whole, *controls]) == "a control that varies the task has to be planned first"
    claims = replace(claims, claims=(replace(claims.claims[0], unvaried=()),))
    turned = [*arms(-3.0, control="lr-low"), *arms(3.0, control="lr-high")]
    assert way([*whole, *turned]) == "", "they depend: that is known"
    slow = [replace(run, seconds=360.0 if run.arm == "bn" else 36.0) for run in whole]
    without = [run for run in slow if (run.arm, run.seed) != ("bn", 1)]  # each counts as long as runs of its arm
    assert way(slow[2:]).startswith("2 planned runs are missing, about 0.11 core-hours: ")
    assert way(without).startswith("1 planned run is missing, about 0.1 core-hours: ")


def test_what_is_open_below_the_papers_fidelity_has_a_way_on_too() -> None:
    whole = artifact(direction())
    claim = replace(whole.claims[0], seeds={"paper": range(5, 6)})  # fresh ones, at the paper's fidelity alone

    def way(fidelity: str, n: int) -> str:
        runs = [replace(run, fidelity=fidelity, seconds=36.0) for run in arms(-3.0, n=n)]
        (found,) = verdicts.judge(replace(whole, claims=(claim,)), runs, fidelity, None, Five())["claims"]
        return suggested_runs.suggested_runs(whole, claim, found, runs, fidelity, Five())

    command = "normbench reproduce x/fig --only C1 --fidelity reduced"
    said = f"4 planned runs are missing, about 0.04 core-hours: {command}"
    assert way("reduced", 3) == said
    assert way("reduced", 5) == way("smoke", 3) == ""
    own = replace(claim, seeds={"reduced": range(2, 4)})
    whole, claim = replace(whole, claims=(own,)), own
    assert way("reduced", 1) == said, "seeds 2 and 3 of both arms"
    claim = replace(claim, seeds={})
    size = replace(claim, parts=(Part(**{**claim.parts[0].__dict__, "kind": "size", "paper": 1.0, "band": 1.0}),))
    whole, claim = replace(whole, claims=(size,)), size
    assert way("reduced", 5) == "", "a size is not decidable there"


def test_the_seeds_that_would_decide_follow_the_kind_of_part() -> None:
    claim = artifact(direction()).claims[0]

    def way(**more: Any) -> str:
        return suggested_runs._describe_seeds_needed(claim, [PART | more], [], rules.HOLDS)

    assert "about 787 fresh seeds" in way()
    stricter = suggested_runs._describe_seeds_needed(claim, [PART], [], rules.HOLDS, 0.025)
    assert int(stricter.split()[1]) > 787, "a claim that is looked at twice"
    two = [{**PART, "effect": effect} for effect in (-0.1, -0.2)]
    most = suggested_runs._describe_seeds_needed(claim, two, [], rules.HOLDS)
    assert "about 787 fresh seeds" in most, "the one that needs most"
    assert "about 5 fresh seeds" in way(delta=1.0, tost=[-0.5, 0.5]), "small already, on seeds that had been seen"
    eight, all_below = {"above": 4, "below": 8}, {"above": 0, "below": 5}
    needed = stats.signs_needed(1 / 3)
    assert f"about {needed} fresh seeds" in way(test="sign", n=12, sign_test=eight, effect=None)
    assert needed and f"about {3 * needed} fresh seeds" in way(test="sign", n=36, sign_test=eight), "two in three tie"
    assert "about 6 fresh seeds" in way(test="sign", sign_test=all_below)
    assert "within reach" in way(test="sign", sign_test={"above": 3, "below": 3}), "no side has more"
    assert "about 27 fresh seeds" in way(kind="equivalence", within=0.6)
    more = way(kind="equivalence", within=0.6, examples=900, sd=1.05)  # 0.02 of the mean's variance stays
    assert int(more.split()[1]) > 27 and "within reach" in way(kind="equivalence", within=0.6, examples=900, sd=1.2)
    assert "about 787 fresh seeds" in way(examples=900), "beside such a spread that of the examples is nothing"
    assert "within reach" in way(prediction=None, sd=1e-17), "all seeds alike up to rounding"
    assert "within reach" in way(kind="equivalence", within=0.05)
    assert "spread of single runs" in way(kind="size")
    assert "the sign test with 6 seeds or more" in way(effect=None, sd=None), "a run without a number"


def test_a_change_of_a_word_has_its_line_and_nothing_else_has(tmp_path: Path) -> None:
    claims = artifact(direction())
    first = {**judged(claims, []), **SHA}
    second = {**judged(claims, arms(-3.0)), **SHA, "pack_sha256": "other"}
    history.append(tmp_path, None, first)
    assert history.read(tmp_path) == [], "not run is no word"
    for _ in "killed", "again":  # between this line and the verdicts
        history.append(tmp_path, first, second)
    history.append(tmp_path, second, second)
    (line,) = history.read(tmp_path)
    assert (line["before"]["verdict"], line["after"]["verdict"]) == ("not run", "reproduced")
    assert (line["cause"], line["claim"], line["after"]["rules"]) == (["runs"], "C1", "r")
    shown = subprocess.run(
        [sys.executable, "-m", "normbench", "history", "--json", "--results", str(tmp_path)],
        capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(shown.stdout) == [line]
    whole = (tmp_path / history.NAME).read_text()
    for damage in ("{}", "[]", "{"):
        (tmp_path / history.NAME).write_text(f"{whole}{damage}\n")
        with pytest.raises(NormbenchError, match="line 2 is damaged"):
            history.read(tmp_path)


def test_simulated_words_follow_the_pilot() -> None:
    (claim,) = artifact(direction()).claims
    clear = np.array([[-3.0], [-3.1], [-2.9], [-3.05], [-2.95]])
    assert power.simulate(claim, clear, [5], [1.0])[rules.HOLDS] > 0.9
    assert power.simulate(claim, -clear, [5], [1.0])[rules.OPPOSITE] > 0.9
    nothing = power.simulate(claim, clear + 3, [10], [1.0], certain=True)
    assert nothing[rules.NEGLIGIBLE] > 0.99
    two = np.array([[-3.707], [-2.293]])  # a spread of 1, of which two seeds say little
    sure, unsure = (power.simulate(claim, two, [5], [None], certain=known)[rules.HOLDS] for known in (True, False))
    assert sure > 0.99 and unsure < 0.9
    assert power.simulate(claim, clear, [4], [1.0]) == {rules.UNDECIDED: 1.0}, "fewer than five decide nothing"


@pytest.mark.parametrize(("n", "widest"), [(5, 0.62), (10, 0.99), (20, 1.5)])
def test_negligible_is_within_reach_up_to_a_spread_of_so_many_smallest_effects(n: int, widest: float) -> None:
    """80 % power for two one-sided tests where there is no effect."""
    (claim,) = artifact(direction()).claims
    pilot = np.array([[-1.0], [1.0]]) * widest / 2**0.5  # its standard deviation is `widest`
    share = power.simulate(claim, pilot, [n], [1.0], certain=True, repetitions=2000).get(rules.NEGLIGIBLE, 0)
    assert share == pytest.approx(0.8, abs=0.04)


def test_an_outlook_counts_pilots_and_what_lacks() -> None:
    claims = artifact(direction())
    (found,) = power.outlook(claims.claims, [replace(run, seconds=36.0) for run in arms(-3.0, n=3)], Five(), "paper")
    assert (found.planned, found.runs, found.pilots, found.hours) == ((5,), 4, 3, pytest.approx(0.04))
    assert found.words is not None and sum(found.words.values()) == pytest.approx(1)
    assert found.none is not None and found.none > 0.9, "were there nothing, with the pilot's spread"
    lost = [replace(run, status="diverged", records=()) if run.arm == "bn" else run for run in arms(-3.0, n=5)]
    assert power.outlook(claims.claims, arms(-3.0, n=5), Five(), "paper") == [], "its verdict is there"

    class Eight(Five):
        def seeds(self, part: Part, control: str, alone: Any) -> list[int]:
            return list(range(1, 9))

    (unknown,) = power.outlook(claims.claims, lost, Eight(), "paper")
    assert unknown.pilots == 5 and unknown.words is None, "a mean needs a number of every run"
    signed = artifact(direction(test="sign")).claims
    (ordered,) = power.outlook(signed, lost, Eight(), "paper")  # all five on one side, of which a sign test knows
    assert ordered.words is not None and ordered.words[rules.HOLDS] > 0.6 and not ordered.none
    begun = replace(direction(), test="sign", endpoint=replace(direction().endpoint, least=1.0))
    (stuck,) = power.outlook(artifact(begun).claims, lost, Eight(), "paper")
    assert stuck.words is None, "arms that have hardly begun give no number"
    (few,) = power.outlook(claims.claims, [final_run("ln", 0, 1.0)], Five(), "paper")
    assert few.words is None and few.hours is None
