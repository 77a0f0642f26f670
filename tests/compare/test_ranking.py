"""Arms over several tasks: which runs count, what is left out with a word, and the words over these tasks."""

import dataclasses
import io
import itertools
import json
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


def test_each_arm_is_at_the_rate_that_validation_chooses() -> None:
    runs = [*swept(), *(run(0.05, "layer", seed, lr=0.1, valid=9.0) for seed in range(1, 7))]
    runs += [run(0.05, "layer", seed, lr=0.1, valid=9.0, data={"name": "first"}) for seed in range(1, 7)]
    r = ranked(runs)
    assert r.scores == ranked(swept()).scores, "the worse rate by validation has the better test error"
    assert any("learning rate" in note and "2 of layer" in note for note in r.notes)


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


def test_arms_have_the_names_that_more_tasks_share() -> None:
    """Those of the experiment where an arm has other options in each task; by values where it has the task's name."""
    runs = []
    for name, eps in (("first", 1e-5), ("second", 1e-3)):
        for norm, error in {"none": 0.5, "layer": 0.1, "batch": 0.3}.items():
            options = {"eps": eps} if norm == "layer" else {}
            more = [run(0.2, "layer", seed, options={"eps": 0.1}, data={"name": name}) for seed in range(1, 7)]
            runs += sweep({norm: error}, options=options, data={"name": name}) + (more if norm == "layer" else [])
    filed = {"layer1e-05": "ln", "layer0.001": "ln", "layer0.1": "ln-wide", "none": "none", "batch": "bn"}
    in_experiment = []
    for of_run in runs:
        norm = of_run.config["norm"]
        arm = filed[f"{norm['name']}{norm.get('eps', '')}"]
        in_experiment.append(dataclasses.replace(of_run, experiment="mine/all", arm=arm))
    assert {*ranked(in_experiment).ranked} == {"ln", "ln-wide", "none", "bn"} and not ranked(in_experiment).notes
    by_task = [
        dataclasses.replace(of_run, arm=f"{of_run.config['data']['name']}-{of_run.arm}", experiment="mine/all")
        for of_run in swept()
    ]
    assert {*ranked(by_task).ranked} == {"none", "batch", "layer"}


def test_json_and_tables_have_every_arm() -> None:
    r = ranked(swept(third={"none": 0.1, "batch": 0.4}))
    content = json.loads(json.dumps(ranking.as_json(r), allow_nan=False))
    assert [arm["arm"] for arm in content["arms"]] == list(r.ranked)
    assert [(p["first"], p["second"]) for p in content["pairs"]] == [
        ("layer", "batch"),
        ("layer", "none"),
        ("batch", "none"),
    ]
    header, *rows = ranking.table(r)
    assert [row[0] for row in rows] == list(r.ranked) and {len(row) for row in rows} == {len(header)}


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
