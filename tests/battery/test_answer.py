"""The answer of a battery: words for made-up curves whose differences are known, their counts and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest
import tiny

from normbench.battery import answer, scorecard
from normbench.battery.answer import BETTER, NOT_YET, UNDECIDED, WORSE, Outcome
from normbench.battery.budget import within
from normbench.battery.trials import Trial
from normbench.runs.run import Run
from normbench.stats.statistics import REACH, holm, t_interval, welch
from normbench.web import battery_page

SPECS = fake.specs(8)
SEEDS = (0.01, -0.02, 0.03, 0.0, -0.01, 0.02, -0.03, 0.005)  # of the errors, around their mean
SURVIVED = "1 diverged of mine: its mean is one of survivors"
UNEVEN = "5 seeds against 13: no verdict where one side has more than 2 times as many"
APART = (0.004, -0.003, 0.001, 0.002, -0.004, 0.003, -0.001, 0.002)


def runs(error: float, apart: float = 0.0, seeds: int = 5, before: float = 0.9, diverged: int = 0) -> list[Run]:
    """Runs that end at this test error; `apart`: how much their seeds differ from others' with the same seed."""
    found = []
    for index, spec in enumerate(SPECS[:seeds]):
        last = error + SEEDS[index] + apart * APART[index]
        curve: list[dict[str, Any]] = [
            {"epoch": e, "step": spec.steps * e, "split": "test", "mode": "eval", "error": value, "nll": 1 + value}
            for e, value in ((0, before + SEEDS[-index]), (1, last))
        ]
        lost = index < diverged
        status = "diverged" if lost else "done"
        found.append(fake.record(spec, 1, status=status, records=curve[:1] if lost else curve, steps=spec.steps))
    return found


def others(found: list[Run]) -> list[Run]:
    """With other seeds."""
    return [replace(run, seed=run.seed + 100) for run in found]


def outcome(ours: list[Run], experiment: str = "a/b", **others: list[Run]) -> Outcome:
    trial = Trial(experiment, experiment, {}, {name: [SPECS[0]] for name in ("mine", *others)})
    groups = {"mine": ours, **others}
    return Outcome(trial, groups, answer.comparisons("mine", trial, groups), {}, {})


def decided(*outcomes: Outcome) -> list[answer.Comparison]:
    """The comparisons in the chief metric, by experiment."""
    found = answer.decide(outcomes)
    return [c for one in sorted(found, key=lambda one: one.trial.experiment) for c in one.comparisons]


@pytest.mark.parametrize(
    ("ours", "theirs", "word", "why"),
    [
        (runs(0.2), runs(0.3, 1), BETTER, ""),
        (runs(0.3, 1), runs(0.2), WORSE, ""),
        (runs(0.3005, 1), runs(0.3), UNDECIDED, f"; out of reach (more than {REACH} seeds)"),
        (runs(0.302, 1), runs(0.3), UNDECIDED, "; about 25 seeds would detect the one found"),
        (runs(0.2, seeds=4), runs(0.3, 1), NOT_YET, "4 of 5 seeds"),
        (runs(0.2, seeds=6, diverged=2), runs(0.3, 1), NOT_YET, "4 of 5 seeds, 2 diverged"),
        (runs(0.9, 1), runs(0.95), NOT_YET, "at chance: no better than before training"),
        (runs(0.9, 1), runs(0.5), WORSE, ""),  # at chance on one side alone
        (runs(0.2), runs(0.2), NOT_YET, "all seeds alike"),
        (runs(0.2), runs(0.3), NOT_YET, "all seeds alike"),  # up to rounding
        (
            runs(0.2, seeds=7, diverged=1),
            runs(0.3, 1, seeds=7),
            UNDECIDED,
            SURVIVED,
        ),
        (runs(0.3, seeds=7, diverged=1), runs(0.2, 1, seeds=7), WORSE, ""),
        (runs(0.2), runs(0.3, 1, seeds=8), BETTER, ""),
        (
            runs(0.2),
            [*runs(0.3, 1, seeds=8), *others(runs(0.3))],
            UNDECIDED,
            UNEVEN,
        ),
        (runs(0.2, diverged=5), runs(0.3), WORSE, "all runs of mine diverged"),
        (runs(0.2), runs(0.3, diverged=5), BETTER, "all runs of layer diverged"),
        ([], [], NOT_YET, "0 of 5 seeds"),
    ],
)
def test_a_comparison_has_a_word_and_a_number_only_where_that_tells_something(
    ours: list[Run], theirs: list[Run], word: str, why: str
) -> None:
    (c,) = decided(outcome(ours, layer=theirs))
    assert c.word == word and (c.why.endswith(why) if why.startswith(";") else c.why == why)
    assert c.quantity in ("test error", "") and not c.difference.rising
    assert c.has_number == (word != NOT_YET and not why.startswith("all "))
    if c.has_number:
        done = [{r.seed: r.records[-1]["error"] * 100 for r in side if r.status == "done"} for side in (ours, theirs)]
        first, second = ([*side.values()] for side in done)
        by_pairs = done[0].keys() == done[1].keys()
        wanted = t_interval([a - b for a, b in zip(first, second, strict=True)]) if by_pairs else welch(first, second)
        assert (c.difference.mean, c.difference.interval, c.difference.n) == (wanted.mean, wanted.interval, wanted.n)
        assert c.unit == "points"


def test_experiments_with_an_opponent_share_holms_correction() -> None:
    """A difference that is significant alone is undecided among many others."""
    near = outcome(runs(0.302, 0.4), layer=runs(0.3))
    (alone,) = decided(near)
    others = [outcome(runs(0.3005, 1), f"a/{i}", layer=runs(0.3)) for i in range(6)]
    among = decided(near, *others)[-1]
    assert (alone.word, among.word) == (WORSE, UNDECIDED)
    assert among.why == "significant alone, not after Holm's correction"
    found = [c.difference for c in decided(near, *others)]
    assert [d.holm for d in found] == holm([d.p for d in found if d.p is not None])
    with_none = outcome(runs(0.302, 0.4), layer=runs(0.3), none=runs(0.6))
    assert decided(with_none)[0] == alone, "another opponent is another question"


def test_the_answer_counts_the_words_and_the_most_important_experiment_comes_first() -> None:
    outcomes = answer.decide(
        [
            outcome(runs(0.3, seeds=2), "a/few", layer=runs(0.3), none=runs(0.3)),
            outcome(runs(0.3005, 1), "b/near", layer=runs(0.3), none=runs(0.31)),
            outcome(runs(0.2, 1), "c/far", layer=runs(0.3), none=runs(0.4)),
            outcome(runs(0.4, 1), "d/worse", layer=runs(0.3)),
        ],
    )
    assert [one.trial.experiment for one in outcomes] == ["c/far", "b/near", "d/worse", "a/few"]
    assert card(outcomes)["sentences"] == [
        "mine against layer: better in 1, worse in 1, undecided in 1 of 4 experiments; not yet in 1",
        "mine against none: better in 2, worse in 0, undecided in 0 of 3 experiments; not yet in 1",
    ]


def test_over_all_experiments_it_has_a_rank_and_a_probability() -> None:
    others = {"layer": runs(0.3), "batch": runs(0.4), "none": runs(0.5)}
    first, lost = outcome(runs(0.2, 1), "a/first", **others), outcome(runs(0.6, diverged=3), "b/lost", **others)
    left_out = [
        outcome(runs(0.2, 1), "c/lacks", layer=runs(0.3), none=runs(0.5)),
        outcome(runs(0.2, seeds=4), "d/few", **others),
        outcome(runs(0.9, 1), "e/chance", **dict.fromkeys(others, runs(0.95))),
    ]
    content = card(answer.decide([first, lost, *left_out]))
    ranks = content["ranks"]
    assert (ranks["rank"], ranks["of"], ranks["against"], ranks["probability"]) == (2.5, 4, "layer", 0.5)
    assert ranks["experiments"] == 2 and ranks["interval"][0] < 0.5 < ranks["interval"][1]
    assert ranks["rank_interval"] == pytest.approx([4 - 3 * end for end in ranks["interval"][::-1]])
    assert content["sentences"][-1].startswith("mine over 2 of 5 experiments: average rank 2.5 [")
    assert card(answer.decide([first, *left_out]))["ranks"] == {}, "one experiment is no average"


def test_the_page_has_every_effect_that_the_answer_has(tmp_path: Path) -> None:
    outcomes = answer.decide([outcome(runs(0.2, 1), layer=runs(0.3), none=runs(0.2, seeds=3))])
    page = battery_page.write(card(outcomes), outcomes, tmp_path / "page").read_text()
    shown = [c for c in outcomes[0].comparisons if c.has_number]
    assert page.count('<span class="forest ') == len(shown) == 1 and page.count('<td class="num">5</td>') == 1
    assert page.count('class="effect"') == 1 and "3 of 5 seeds" in page.replace("\xa0", " ")


def card(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    texts = dict.fromkeys(("title", "source", "file", "derived", "command"), "")
    facts: dict[str, Any] = {
        "fidelity": "smoke",
        "promises": {"a promise": 1},
        "measured": {},
        "table1": {},
        "notes": [],
    }
    times = {outcome.trial.name: 0.0 for outcome in outcomes}
    return scorecard.content(outcomes, times, (), norm="mine", **texts, **facts)


def test_the_chief_metric_is_a_share_of_the_test_split() -> None:
    spec = tiny.spec()
    names = [(split, metric.name) for split, metric in answer.quantities(runs(0.2))]
    assert names == [("test", "error"), ("test", "nll")]
    place = {"split": "train", "mode": "both"}  # alpha: logged by the model, neither better lower nor higher
    train = [{"epoch": e, "step": spec.steps * e, **place, "nll": 1.0, "block.0.mlp.alpha": 0.5} for e in (0, 1)]
    (found,) = answer.quantities([fake.record(spec, 1, records=train, steps=spec.steps)])
    assert found[0] == "train" and found[1].loss


def test_a_budget_takes_first_settings_before_second_ones_and_the_quickest_of_these() -> None:
    planned = [Trial(name[0], name[0], {"train.batch_size": int(name[1])}) for name in ("a1", "a2", "b1", "c1", "d1")]
    seconds: dict[str, float | None] = dict(
        zip([trial.name for trial in planned], (10.0, 20.0, 30.0, 500.0, None), strict=True)
    )
    for budget, taken in (
        (0, ""),
        (10, "a1"),
        (40, "a1 b1"),
        (60, "a1 b1 a2"),
        (550, "a1 b1 c1"),
        (1e9, "a1 b1 c1 a2"),
    ):
        found = within(planned, seconds, budget)
        assert " ".join(f"{trial.experiment}{trial.axes['train.batch_size']}" for trial in found) == taken
    done = dict.fromkeys(seconds, 0.0)
    assert within(planned, done, 0) == [planned[0], planned[2], planned[3], planned[4], planned[1]]
