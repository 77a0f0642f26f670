"""Arms over several tasks: which runs count, what is left out with a word, and the words over these tasks."""

import dataclasses
import io
import itertools
import math

import pytest
from swept import run, sweep

from normbench.compare import ranking
from normbench.compare.difference import AHEAD, BEHIND, UNDECIDED
from normbench.compare.groups import tasks
from normbench.compare.ranking import Ranking, over
from normbench.draw import figure, panels
from normbench.errors import BadInput
from normbench.runs.run import Run
from normbench.stats.tasks import standing

APART = {"none": 0.5, "batch": 0.3, "layer": 0.1}


def swept(errors: dict[str, float] = APART, seeds: int = 6, **of_tasks: dict[str, float]) -> list[Run]:
    """Two data sets with these errors, and others with errors of their own."""
    every = {"first": errors, "second": errors} | of_tasks
    return [run for name, errors in every.items() for run in sweep(errors, seeds, data={"name": name})]


def ranked(runs: list[Run], keys: str = "data", **query: str) -> Ranking:
    return over(tasks(runs), query, keys.split(","))


def test_the_best_over_all_tasks_is_ahead_of_every_other() -> None:
    r = ranked(swept())
    assert list(r.ranked) == ["layer", "batch", "none"] and r.against == "none" and not r.notes
    assert [s and s.rank(s.share) for s in r.ranked.values()] == [1, 2, 3]
    assert r.words["layer", "batch"] == AHEAD and r.words["none", "layer"] == BEHIND
    assert "Winner over these tasks: layer" in r.sentence
    pair = r.pairs()["layer", "none"]
    assert (pair.tasks, pair.runs, pair.share) == (2, 6, 1.0) and pair.like_these[0] < 0.5 < pair.these[0]


def test_an_arm_that_wins_one_task_and_loses_one_is_ahead_of_nobody() -> None:
    r = over(
        tasks([*sweep({"none": 0.5, "layer": 0.1}), *sweep({"none": 0.1, "layer": 0.5}, data={"name": "b"})]),
        {},
        ["data"],
    )
    assert set(r.words.values()) == {UNDECIDED} and "none" in r.sentence and "layer" in r.sentence
    assert "Winner" not in r.sentence


def test_below_five_seeds_there_are_numbers_and_no_word() -> None:
    r = ranked(swept(seeds=4))
    assert not r.words and "fewer than 5 seeds" in r.sentence and r.pairs()["layer", "none"].share == 1
    assert not any("against" in title for title in ranking.table(r)[0])
    lacking = [run for run in swept() if run.seed < 5 or run.config["data"]["name"] == "first" or "layer" not in run.id]
    assert ranked(swept()).words and not ranked(lacking).words, "one arm in one task has four"


def test_higher_is_better_where_the_metric_says_so() -> None:
    runs = []
    for lower in swept():
        records = [{**record, "quality": 1 - record["error"]} for record in lower.records if "error" in record]
        runs.append(dataclasses.replace(lower, records=records))
    with pytest.raises(BadInput, match="--better"):
        ranked(runs, metric="quality")
    assert list(ranked(runs, metric="quality", better="higher").ranked) == ["layer", "batch", "none"]
    assert list(ranked(runs, metric="quality", better="lower").ranked) == ["none", "batch", "layer"]


def test_a_diverged_run_counts_as_the_worst_and_is_said() -> None:
    runs = swept()
    lost = [i for i, run in enumerate(runs) if run.config["norm"]["name"] == "layer"][:2]
    for i in lost:
        runs[i] = dataclasses.replace(runs[i], status="diverged", records=())
    r = ranked(runs)
    assert r.scores["first"]["layer"].count(math.inf) == 2 and len(r.scores["first"]["layer"]) == 6
    pair, (note,) = r.pairs()["layer", "none"], r.notes
    assert pair.share == pytest.approx(1 - (2 / 6) / 2) and "2 of layer diverged" in note and "first" in note


def test_what_was_not_run_is_left_out_with_a_word() -> None:
    r = ranked(swept(third={"none": 0.1, "batch": 0.4}))
    (note,) = r.notes
    assert "third" in note and "layer" in note
    assert [s and s.tasks for s in r.ranked.values()] == [2, 2, 2]
    assert r.pairs()["batch", "none"].tasks == 3 and r.pairs()["layer", "none"].tasks == 2
    alone = ranked(swept(third={"none": 0.1}))
    assert "third" not in alone.scores and "third" in alone.notes[0] and "none" in alone.notes[0]
    apart = ranked([*sweep({"none": 0.5, "layer": 0.1}), *sweep({"none": 0.5, "batch": 0.1}, data={"name": "b"})])
    assert set(apart.ranked.values()) == {None} and ("layer", "batch") not in apart.words
    assert "Winner" not in apart.sentence and "rank" not in " ".join(ranking.table(apart)[0])


def test_several_learning_rates_are_several_tasks() -> None:
    runs = [*swept(), *(run(0.05, "layer", seed, lr=0.1, data={"name": "first"}) for seed in range(1, 7))]
    with pytest.raises(BadInput, match=r"optim\.lr"):
        ranked([*runs, *(run(0.05, "none", seed, lr=0.1, data={"name": "first"}) for seed in range(1, 7))])
    assert any("optim.lr=0.1" in note for note in ranked(runs).notes)


@pytest.mark.parametrize(
    ("keys", "query", "facts"),
    [
        ("modle", {}, ("modle", "model")),
        ("norm", {}, ("norm", "layer")),
        ("model", {}, ("model", "first", "second")),
        ("data", {"against": "laier"}, ("laier", "layer")),
    ],
)
def test_a_key_that_names_no_tasks_is_refused(keys: str, query: dict[str, str], facts: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as caught:
        ranked(swept(), keys, **query)
    assert all(fact in str(caught.value) for fact in facts)
    with pytest.raises(BadInput, match="two"):
        over(tasks(sweep(APART)), {}, ["data"])


def test_several_keys_name_a_task_together() -> None:
    runs = [*swept(), *sweep(APART, data={"name": "first"}, batch_size=4)]
    with pytest.raises(BadInput, match=r"train\.batch_size=4"):
        ranked(runs)
    names = ranked(runs, "data,train.batch_size").scores.keys()
    assert {*names} == {"first train.batch_size=128", "first train.batch_size=4", "second train.batch_size=128"}


def test_what_a_single_arm_logs_is_no_task() -> None:
    runs = swept(third=APART)
    for i, one in enumerate(runs):
        if one.config["data"]["name"] == "third" and one.config["norm"]["name"] != "layer":
            records = [record for record in one.records if record.get("split") != "test"]
            runs[i] = dataclasses.replace(one, records=records)
    r = ranked(runs)
    assert {*r.scores} == {"first", "second"} and any("third" in note for note in r.notes)
    with pytest.raises(BadInput, match="two"):
        ranked([run for run in runs if run.config["data"]["name"] != "second"])
    everywhere = [
        dataclasses.replace(one, records=[record for record in one.records if record.get("split") != "test"])
        if one.config["norm"]["name"] != "layer"
        else one
        for one in swept()
    ]
    with pytest.raises(BadInput, match="two"):
        ranked(everywhere)


def test_each_arm_may_be_behind_another() -> None:
    """Rock, paper, scissors: of three runs each that of an arm is better than that of the next with probability 5/9."""
    arms = {"a": (2, 4, 9), "b": (1, 6, 8), "c": (3, 5, 7)}
    scores = {"ab"[i]: {arm: [10.0 - x for x in numbers * 400] for arm, numbers in arms.items()} for i in range(2)}
    r = Ranking(scores, {}, "a", "", [])
    assert {arm for (arm, _), word in r.words.items() if word == BEHIND} == {*arms}
    assert "No winner" in r.sentence and all(arm in r.sentence for arm in arms)


def test_the_area_below_a_profile_is_the_share_behind_the_average_rank() -> None:
    runs = swept({"none": 0.3, "batch": 0.301, "layer": 0.299}, third={"none": 0.3, "layer": 0.1})
    runs[0] = dataclasses.replace(runs[0], status="diverged", records=())
    scores = ranked(runs).scores
    panel = panels.profile(scores)
    assert panel.column == "2 tasks" and {line.arm for line in panel.lines} == {"none", "batch", "layer"}
    for line in panel.lines:
        steps = [(point.x, point.mean or 0.0) for point in line.points]
        area = sum((b[0] - a[0]) * a[1] for a, b in itertools.pairwise(steps))
        expected = standing(scores, line.arm, [other.arm for other in panel.lines if other is not line])
        assert (
            expected and area == pytest.approx(expected.share) and steps == sorted(steps, key=lambda s: (s[0], -s[1]))
        )
    drawn = io.BytesIO()
    figure.figure([panel], drawn)
    assert b"score" in drawn.getvalue() and b"layer" in drawn.getvalue()
