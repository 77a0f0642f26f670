"""Runs that another program logged, compared: nothing about them is guessed, and none is left out in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import compared
import logged
import pytest

from normbench.compare import answer, describe, suggested_seeds
from normbench.compare.configuration import flat
from normbench.compare.groups import Task, tasks
from normbench.compare.question import Question
from normbench.errors import NormbenchError
from normbench.runs.curve import Curve
from normbench.runs.run import Run
from normbench.stats.series import best_step, series
from normbench.web import board

SEEDS = range(1, 7)


def only(runs: Sequence[Run]) -> Task:
    (task,) = tasks(runs)
    return task


def compare(task: Task, **asked: str) -> answer.Comparison:
    return answer.compare(task, Question.of(task, asked))


def rows(c: answer.Comparison) -> dict[str, answer.Row]:
    return {row.arm: row for group in c.groups for row in group.rows}


def test_they_are_a_task_of_their_own_that_says_so() -> None:
    ours = compared.runs()
    theirs = [logged.run(arm, seed, name="mnist_mlp") for arm in ("none", "ln") for seed in SEEDS]
    found = tasks([*ours, *theirs])
    assert [task.title for task in found] == [
        "mnist_mlp on digits, 20 epochs",
        "imported/mnist_mlp, 100 updates, logged",
    ]
    c = compare(found[1], metric="loss")
    assert c.groups[0].winner and rows(c)["ln"].at.n == 6
    assert not describe.notes(c)[1:], "no test split, and nothing else"


def test_goals_and_units_are_those_of_the_map() -> None:
    task = only([logged.run(arm, seed) for arm in ("base", "ln") for seed in SEEDS])
    assert (q := compare(task).question).metric.better == "higher" and q.metric.unit == "%", "acc is a fraction"
    assert compare(task, metric="loss").question.metric.better == "lower"
    bare = only([logged.run(arm, seed, metrics={}, monitor=None) for arm in ("base", "ln") for seed in SEEDS])
    assert {compare(bare, metric=name).question.metric.guessed for name in ("loss", "acc")} == {True}


def test_ratios_matter_where_the_map_says_so_and_not_by_the_name() -> None:
    for log in (False, True):
        metrics = {"loss": {"goal": "min", "log": log}, "acc": {"goal": "max"}}
        task = only([logged.run(arm, seed, metrics=metrics) for arm in ("base", "ln") for seed in SEEDS])
        assert compare(task, metric="loss").question.metric.loss is log


def test_nothing_is_best_where_no_metric_is_declared_for_it() -> None:
    task = only([logged.run(arm, seed, monitor=None) for arm in ("base", "ln") for seed in SEEDS])
    c = compare(task)
    assert {(row.at.diverged, row.best.diverged, row.best.n) for row in rows(c).values()} == {(0, 0, 0)}
    assert not any("diverged" in line for line in describe.notes(c))
    lost = [logged.run("bn", seed, end="NaN", monitor=None) for seed in SEEDS]
    assert (row := rows(compare(only([*task.runs, *lost])))["bn"]).at.diverged == 6 and row.best.diverged == 0
    with pytest.raises(NormbenchError, match="at=best"):
        compare(task, at="best")
    assert best_step(task.runs[0]) is None and best_step(logged.run()) == 100
    page = board.Board(task, c.question, {"x": "step"})
    assert [option["key"] for option in page.json()["choices"]["at"]["options"]] == ["end"]


def test_a_metric_that_is_logged_elsewhere_is_no_divergence() -> None:
    """The accuracy is not logged at the step of the best loss, and the loss of train ends earlier than valid's."""
    task = only([logged.run(arm, seed, points=9) for arm in ("base", "ln") for seed in SEEDS])
    for asked in ({"split": "train", "metric": "loss"}, {"metric": "acc", "at": "best"}, {"metric": "acc"}):
        assert {row.diverged for row in rows(compare(task, **asked)).values()} == {0}, asked
    assert rows(compare(task, split="train"))["ln"].at.n == 6


def test_a_run_that_diverged_early_counts_where_it_was_to_end() -> None:
    runs = [logged.run(arm, seed) for arm in ("base", "ln") for seed in SEEDS]
    early = [logged.run("bn", seed, points=3, end="NaN") for seed in SEEDS]
    task = only([*runs, *early])
    row = rows(compare(task))["bn"]
    assert (row.diverged, row.at.n, row.lost) == (6, 0, True)
    assert only(early).budget == (30, "updates"), "all diverged: the longest"


def test_runs_of_several_lengths_are_two_tasks_that_name_each_other() -> None:
    runs = [logged.run("ln", seed, points=10 if seed < 4 else 8) for seed in SEEDS]
    first, second = tasks(runs)
    assert {first.other_lengths, second.other_lengths} == {("80 updates",), ("100 updates",)}
    assert any("80 updates" in line and "length: common" in line for line in describe.notes(compare(first)))


def test_a_log_of_epochs_alone_has_no_updates() -> None:
    runs = [logged.run(arm, seed, epochs=True) for arm in ("base", "ln") for seed in SEEDS]
    task = only(runs)
    c = compare(task)
    assert task.budget == (100, "epochs") and c.question.clock == "epoch" and board.clocks(task) == ["epoch"]
    assert rows(c)["ln"].at.n == 6


def test_ends_of_unequal_length_within_a_task_are_said() -> None:
    runs = [logged.run(arm, seed) for arm in ("base", "ln") for seed in SEEDS]
    shorter = replace(logged.run("ln", 7, points=8), steps=100)
    c = compare(only([*runs, shorter]), metric="loss")
    assert any("unequal length" in line for line in describe.notes(c)) and c.groups[0].winner == "base"
    far = replace(logged.run("ln", 7, points=7), steps=100)
    c = compare(only([*runs, far]), metric="loss")
    assert c.groups[0].winner == "" and "80 % of the median length" in describe.sentence(c)
    assert not any("unequal length" in line for line in describe.notes(compare(only(runs))))


def test_axes_and_controls_tell_cells_apart() -> None:
    runs = [logged.run("ln", s, key=f"{s}{lr}", axes={"optim.lr": lr}) for s in SEEDS for lr in (0.1, 0.01)]
    task = only([*runs, *(logged.run("ln", s, control="low", axes={"optim.lr": 0.1}) for s in SEEDS)])
    assert len(task.cells) == 3 and {*task.differing} == {"optim.lr", "train.control"}
    assert not {"schedule", "clip", "train.sampler"} & flat(runs[0].config).keys(), "nobody knows"


@pytest.mark.parametrize("end", [60.0, "NaN"], ids=["bad", "diverged"])
@pytest.mark.parametrize("more", [2, 12])
def test_bad_runs_without_a_partner_are_not_left_out(end: float | str, more: int) -> None:
    """The runs of the judge's test of the same kind: the verdict of compare and the page is no other one."""
    runs = [logged.run(arm, seed, end=end_) for arm, end_ in (("base", None), ("ln", 0.01)) for seed in range(1, 6)]
    assert compare(only(runs), metric="loss").groups[0].winner == "ln"
    task = only([*runs, *(logged.run("ln", 10 + seed, end=end) for seed in range(more))])
    c = compare(task, metric="loss", against="base")
    assert c.groups[0].winner == "" and c.groups[0].pairs[0].word != "ahead"
    page = board.Board(task, c.question, {"x": "step"})
    assert "Winner" not in str(page.json()["answer"])
    first, second = (cell.key for cell in page.cells)
    pair = page.pair(first, second)
    assert pair is not None and ("unpaired" in pair[0]["text"]) == (end == 60.0)
    points = pair[1]
    assert abs(points[-1].mean or 0.0) > 10 or end == "NaN", "the curve of the difference is of all runs, too"


def test_a_run_that_lacks_the_number_is_named() -> None:
    runs = [logged.run(arm, seed) for arm in ("base", "ln") for seed in SEEDS]
    bare = Curve.of_columns(b for b in [dict(b.place, columns=b.columns) for b in runs[0].records.blocks]
                            if "acc" not in b["columns"])  # fmt: skip
    c = compare(only([replace(runs[0], records=bare), *runs[1:]]), metric="acc")
    assert any("base: seed 1 logs no such number" in line for line in describe.notes(c))


def test_the_values_of_an_axis_are_not_averaged() -> None:
    """Of each value a group, whether seeds are shared or not: as the judge refuses a mean over both."""
    runs = [logged.run(arm, 10 * (env == "hard") + seed, key=f"{arm}{env}{seed}", axes={"env": env})
            for arm in ("base", "ln") for env in ("easy", "hard") for seed in SEEDS]  # fmt: skip
    c = compare(only(runs), metric="loss")
    assert {group.place for group in c.groups} == {"train.env=easy", "train.env=hard"}
    assert {row.at.n for group in c.groups for row in group.rows} == {6}


def test_nobody_is_in_front_where_nothing_says_which_way_is_better() -> None:
    runs = [
        logged.run(arm, s, metrics={}, monitor=None) for arm, n in (("base", 6), ("ln", 5)) for s in range(1, n + 1)
    ]
    bare = only([renamed(run, loss="gap") for run in runs])
    text = describe.sentence(compare(bare, metric="gap"))
    assert "in front" not in text and "ln" not in text and "lower or a higher gap is better" in text
    lower, higher = (compare(bare, metric="gap", better=way) for way in ("lower", "higher"))
    assert {lower.groups[0].winner, higher.groups[0].winner} == {"base", "ln"}
    declared = only([logged.run(arm, seed) for arm in ("base", "ln") for seed in SEEDS])
    with pytest.raises(NormbenchError, match="better=higher"):
        compare(declared, metric="loss", better="higher")


@pytest.mark.parametrize(
    ("name", "better"),
    [
        *((name, "lower") for name in ("loss", "val_loss", "trainLoss", "loss_epoch", "error", "eval/perplexity")),
        *((name, "higher") for name in ("accuracy", "acc_top1", "recall@1", "mAP50-95(B)", "BLEU4", "mean_reward")),
        *((name, "") for name in ("gap", "loss_scale", "recall_time", "reward_std", "heatmap", "terrors", "lr", "5")),
    ],
)
def test_the_direction_of_a_logged_metric_is_guessed_by_its_name_and_said(name: str, better: str) -> None:
    runs = [logged.run(arm, seed, metrics={}, monitor=None) for arm in ("base", "ln") for seed in SEEDS]
    c = compare(only([renamed(run, loss=name) for run in runs]), metric=name)
    assert c.question.metric.better == better and bool(c.groups[0].winner) == bool(better)
    assert ("as its name suggests" in describe.heading(c)) == bool(better)
    other = {"lower": "higher"}.get(better, "lower")  # a guess forbids nothing
    turned = compare(only([renamed(run, loss=name) for run in runs]), metric=name, better=other)
    assert turned.question.metric.better == other and "suggests" not in describe.heading(turned)


def renamed(run: Run, **names: str) -> Run:
    """The run with other names of its metrics."""
    blocks = [
        dict(b.place, columns={names.get(key, key): values for key, values in b.columns.items()})
        for b in run.records.blocks
    ]
    return replace(run, records=Curve.of_columns(blocks))


def test_an_arm_is_not_ahead_by_the_numbers_that_chose_it() -> None:
    task = only([logged.run(arm, seed) for arm in ("base", "ln") for seed in SEEDS])
    assert compare(task, metric="loss").groups[0].winner
    c = compare(task, metric="loss", at="best")
    assert c.groups[0].winner == "" and "chosen on the split that is compared" in describe.sentence(c)
    assert not suggested_seeds.suggested_commands(c)


def test_no_command_here_makes_further_seeds_of_them() -> None:
    c = compare(only([logged.run(arm, seed) for arm in ("base", "ln") for seed in (1, 2)]))
    (line,) = suggested_seeds.suggested_commands(c)
    assert line.startswith("# ")


def test_records_that_were_logged_stand_for_evaluation_alone() -> None:
    run = logged.run()
    assert len(series(run, "valid", "eval", "loss", x="step")) == 11
    assert series(run, "valid", "train", "loss", x="step") == series(run, "valid", "eval", "loss") == []
