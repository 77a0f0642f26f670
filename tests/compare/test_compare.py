"""Runs beside each other: what differs, what may be averaged, what is compared, and in which words."""

import dataclasses
import json
import math
import re
from collections.abc import Sequence

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from swept import asked, config, run, sweep

from normbench.commands.compare import selecting
from normbench.compare import configuration, describe, metrics, suggested_seeds
from normbench.compare.difference import AHEAD, BEHIND, UNDECIDED, difference_of, judge
from normbench.compare.groups import Task, tasks
from normbench.compare.question import Question, difference_curve
from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.runs.run import Run
from normbench.stats import statistics as stats

# --- configuration


def test_only_what_was_trained_is_compared() -> None:
    flat = configuration.flat(config("layer", options={"eps": 1e-5}))
    assert flat["norm"] == "layer" and flat["norm.eps"] == 1e-5 and flat["train.batch_size"] == 128
    assert not {"seed", "train.epochs", "train.steps"} & flat.keys()
    assert flat["norm.bias"] is True and flat["train.sampler"] == "shuffled"  # options that came since have defaults
    assert configuration.flat({**config(), "eval": {"every": 2}, "device": "cuda"}) == configuration.flat(config())
    assert configuration.flat(config("../config"))["norm"] == "../config", "a stranger's pack may name a file"


def test_an_option_differs_only_among_runs_of_its_choice() -> None:
    configurations = [configuration.flat(c) for c in (config("none"), config("batch", options={"momentum": 0.1}))]
    assert list(configuration.differing(configurations)) == ["norm"]
    configurations.append(configuration.flat(config("batch", options={"momentum": 0.2})))
    assert configuration.differing(configurations)["norm.momentum"] == [0.1, 0.2]
    configurations[-1].pop("norm.momentum")  # of another version: without it, it is another run
    assert "norm.momentum" in configuration.differing(configurations)


@pytest.mark.parametrize(("count", "others"), [(4, 0), (9, 3)])
def test_many_pairs_without_a_word_are_counted_not_all_named(count: int, others: int) -> None:
    names = ("layer", "batch", "rms", "dyt", "derf", "group", "scale", "ada", "power")[:count]
    c = asked([*sweep({"none": 0.3, "weight": 0.3}), *sweep(dict.fromkeys(names, 0.3), seeds=2)])
    _, lines = describe.group_sentences(c.groups[0], c)
    (line,) = [line for line in lines if "n = 2: no verdict" in line]
    assert line.count(" against ") == count - others
    assert (f" and {others} further pairs: undecided" in line) == (others > 0)


def test_runs_of_other_code_with_one_configuration_are_told() -> None:
    runs = sweep({"none": 0.3, "layer": 0.2})
    copied = dataclasses.replace(runs[-1], id="a run of other code")
    (task,) = tasks([*runs, copied])
    assert [(cell.norm, cell.repeated_seeds, len(cell.runs)) for cell in task.cells if cell.repeated_seeds] == [
        ("layer", (6,), 6)
    ]
    (note,) = [note for note in describe.notes(asked([*runs, copied])) if "other code" in note]
    assert note.startswith("layer has several runs of seed 6: ")
    assert not any("other code" in note for note in describe.notes(asked(runs)))


def test_a_run_by_itself_is_told_by_what_differs_from_the_defaults() -> None:
    result = configuration.describe_config(config("layer", lr=0.01))
    assert result.startswith("mnist_mlp layer ") and "data=digits" in result and "optim.lr=0.01" in result
    assert (
        configuration.describe_config({"model": {"name": "mine"}, "norm": {"name": "own"}}) == "mine own"
    )  # not known here


def test_a_number_has_one_short_form_unless_two_would_look_alike() -> None:
    third, near = 0.002 / 3, 0.000666654
    assert configuration.short(third) == "0.0006667" and configuration.short(1e-5) == "1e-05"
    assert configuration.short(third, [third, near, 1]) == "0.00066667"
    runs = [run(0.1, norm, lr=lr) for norm in ("none", "layer") for lr in (third, 0.002)]
    assert [group.place for group in asked(runs).groups] == ["optim.lr=0.0006667", "optim.lr=0.002", ""]
    assert len(configuration.select(["optim.lr=0.0006667"], runs)) == 2, "as it is shown it is found"
    assert len(configuration.select(["optim.lr=0.0006666666666666666"], runs)) == 2


# --- cells and tasks


def test_a_cell_is_all_but_the_seed_and_a_task_what_may_be_compared() -> None:
    runs = [*sweep({"none": 0.2, "layer": 0.1}), *sweep({"none": 0.2}, lr=3e-3)]
    (task,) = tasks(runs)
    assert [len(cell.runs) for cell in task.cells] == [6, 6, 6]
    assert list(task.differing) == ["norm", "optim.lr"] and task.arm_keys == ("norm",)
    other = [run(0.1, data={"valid": 50}), run(0.1, epochs=4, seed=2), run(0.1, epochs=0, steps=30, seed=3)]
    assert len(tasks([*runs, *other])) == 4  # other data, and lengths of 4 epochs and of 30 updates
    assert [t.data_options for t in tasks([*runs, *other])].count("data.valid=50") == 1


def test_each_task_has_words_that_select_it_alone() -> None:
    lengths = [{"epochs": 8}, {"epochs": 1}, {"epochs": 0, "steps": 80}, {"epochs": 8, "data": {"valid": 50}}]
    runs = [run(0.1, seed=seed, **length) for seed, length in enumerate(lengths)]
    for task in tasks(runs):
        (found,) = tasks(configuration.select(selecting(task), runs))
        assert found.runs == task.runs


def test_fidelities_are_never_averaged_and_may_stand_beside_each_other() -> None:
    runs = [
        *sweep({"layer": 0.1}),
        *(run(0.1, "layer", s, fidelity="smoke", experiment="x/y", arm="ln") for s in (7, 8)),
    ]
    (task,) = tasks(runs)
    assert sorted(len(cell.runs) for cell in task.cells) == [2, 6]
    assert sorted(task.arms(task.arm_keys).values()) == ["layer fidelity=adhoc", "ln"]


def test_arms_of_an_experiment_have_its_names_unless_two_would_be_called_alike() -> None:
    ours = {"experiment": "x/y", "fidelity": "paper"}
    runs = [run(0.1, "layer", arm="ln", **ours), run(0.1, "batch", arm="bn", **ours)]
    (task,) = tasks(runs)
    assert sorted(task.arms(task.arm_keys).values()) == ["bn", "ln"]
    (task,) = tasks([*runs, run(0.1, "rms", arm="ln", **ours)])
    assert sorted(task.arms(task.arm_keys).values()) == ["batch", "layer", "rms"]


def test_what_two_experiments_share_is_named_by_the_one_with_most_of_its_neighbours() -> None:
    def named(*runs: Run) -> list[str]:
        (task,) = tasks(runs)
        return sorted(task.arms(task.arm_keys).values())

    large, small = ({"experiment": name, "fidelity": "paper"} for name in ("z/large", "a/small"))
    runs = [run(0.1, norm, arm=arm, **large) for norm, arm in (("layer", "ln"), ("batch", "bn"), ("rms", "rn"))]
    own = run(0.1, "layer", 2, arm="mnist-ln", **small)
    assert named(*runs, own) == named(own, *runs) == ["bn", "ln", "rn"]
    # where the run itself is filed by both, its file of either says the same
    shared = dataclasses.replace(own, elsewhere=[("z/large", "ln")])
    assert named(*runs[1:], shared) == ["bn", "ln", "rn"]
    assert named(*runs, own, run(0.1, "layer", 3, fidelity="paper")) == ["bn", "layer", "rn"]


def test_runs_without_records_make_the_same_tasks() -> None:
    runs = sweep({"none": 0.2, "layer": 0.1})
    heads = [
        Run(r.id, r.experiment, r.arm, r.seed, "running", 3, config=r.config, fidelity="adhoc", steps=30) for r in runs
    ]
    (bare,), (whole,) = tasks(heads), tasks(runs)
    assert bare.key == whole.key and [c.key for c in bare.cells] == [c.key for c in whole.cells]
    assert [r.records for r in bare.with_runs({r.id: r for r in runs}).runs] == [r.records for r in whole.runs]
    with pytest.raises(NormbenchError, match="no run has an evaluation yet"):
        Question.of(bare, {})


def test_probes_come_last() -> None:
    probes = [run(None, seed=s, epochs=1) for s in range(1, 9)]
    examined = [Run(**{**vars(r), "config": {**r.config, "model": {"name": "dynamics"}}}) for r in probes]
    assert [task.model for task in tasks([*examined, run(0.1)])] == ["mnist_mlp", "dynamics"]


# --- answers


def test_numbers_are_those_of_curves_statistics() -> None:
    found = asked(sweep({"none": 0.2, "layer": 0.1}))
    (group,) = found.groups
    layer, none = group.rows
    values = [100 * v for v in (run.records[-1]["error"] for run in layer.cell.runs)]
    estimate = stats.rate_interval(values, 100.0)
    assert (layer.at.mean, layer.at.interval, layer.at.n) == (estimate.mean, estimate.interval, 6)
    base = [100 * run.records[-1]["error"] for run in none.cell.runs]
    pair = stats.t_interval([a - b for a, b in zip(values, base, strict=True)])
    assert layer.difference is not None and layer.difference.paired
    assert (layer.difference.mean, layer.difference.interval) == (pair.mean, pair.interval)
    assert math.isclose(layer.difference.p or 0, scipy.stats.ttest_rel(values, base).pvalue, rel_tol=1e-9)
    assert layer.seconds_per_step == 0.1


def test_who_wins_and_by_how_much() -> None:
    found = asked(sweep({"none": 0.2, "batch": 0.15, "layer": 0.1}))
    assert found.groups[0].winner == "layer" and found.question.against == "none"
    assert describe.sentence(found).startswith(
        "Winner: layer, ahead of "
    ) and "batch is ahead of none" in describe.sentence(found)
    assert "test error at the end, %" in describe.heading(found) and "lower is better" in describe.heading(found)
    assert " · mean and 95 % interval over seeds alone · " in describe.heading(found)
    assert " · single runs · " in describe.heading(asked([run(0.2, "none", 1)]))


def test_equal_arms_are_undecided_and_told_what_would_decide() -> None:
    baseline = {seed: run(0.2 + 0.03 * (seed % 3), "none", seed) for seed in range(1, 7)}
    apart = (0.01, -0.01, 0.02, -0.02, 0.01, -0.008)
    found = asked([*baseline.values(), *(run(0.2 + 0.03 * (s % 3) + apart[s - 1], "layer", s) for s in baseline)])
    (group,) = found.groups
    assert group.winner == "" and describe.sentence(found).startswith("No winner: undecided between ")
    difference = next(row.difference for row in group.rows if row.difference)
    assert difference.word == UNDECIDED and " points with 80 % power" in difference.because("points")
    numbers = [[*row.values.values()] for row in group.rows]
    effects = [a - b for a, b in zip(*numbers, strict=True)]
    assert difference.detectable == pytest.approx(stats.detectable_effect(stats.t_interval(effects).sd, 6))


def test_one_pair_has_one_word_which_rests_on_all_pairs() -> None:
    """Adjusted for the pairs with the baseline alone it would be decided, for all pairs it is not."""
    seeds, noise = range(1, 7), (0.01, -0.02, 0.03, -0.03, 0.0, 0.01)
    runs = [run(0.3 + 0.001 * seed, "none", seed) for seed in seeds]
    runs += [run(0.262 + 0.001 * seed + noise[seed - 1], "layer", seed) for seed in seeds]
    others = ("batch", "rms", "group")
    runs += [run(0.27 + 0.001 * seed + noise[-seed], norm, seed) for norm in others for seed in seeds]
    (group,) = asked(runs).groups
    result = {d.first: d for d in group.against}["layer"]
    (pair,) = (d for d in group.pairs if {d.first, d.second} == {"layer", "none"})
    assert result == pair and (result.tests, result.word) == (7, UNDECIDED)  # three of ten pairs have no spread
    assert judge(group.against)[0].word == AHEAD and result.p and result.p < 0.05 / 4
    pairs = [f"{name} against none" for name in ("layer", "batch", "rms", "group")]
    pairs += [f"layer against {name}" for name in ("batch", "rms", "group")]
    phrases = describe.group_sentences(group, asked(runs))[1]
    assert all(any(pair in phrase and ": undecided (" in phrase for phrase in phrases) for pair in pairs)
    assert len(phrases) == len({phrase.partition(": ")[2] for phrase in phrases}), "each reason once"
    assert len([d for d in group.open if {d.first, d.second} == {"layer", "none"}]) == 1


def test_a_baseline_that_wins_is_told_once() -> None:
    found = asked(sweep({"none": 0.1, "layer": 0.2}))
    (group,) = found.groups
    (pair,), (result,) = group.pairs, group.against
    assert (pair.first, pair.word, result.first, result.word) == ("none", AHEAD, "layer", BEHIND)
    assert pair.mean and result.mean == -pair.mean and result.reversed == pair
    assert (
        describe.sentence(found).startswith("Winner: none, ahead of layer (")
        and describe.sentence(found).count("layer") == 1
    )


def test_an_arm_of_few_seeds_is_not_among_those_undecided() -> None:
    runs = sweep({"none": 0.2, "layer": 0.1})
    assert describe.sentence(asked([*runs, run(0.05, "batch", 1)])).startswith(
        "No winner: fewer than 5 seeds of batch."
    )
    apart = [run(0.1 + 0.03 * (seed % 3), "rms", seed) for seed in range(1, 7)]
    assert describe.sentence(asked([*runs, *apart, run(0.05, "batch", 1)])).startswith(
        "No winner: undecided between rms and layer."
    )


def test_unfinished_runs_are_told_and_not_counted() -> None:
    found = asked([*sweep({"none": 0.2, "layer": 0.1}), run(0.9, "layer", 7, status="running")])
    layer = next(row for row in found.groups[0].rows if row.arm == "layer")
    assert layer.at.n == 6 and "1 running" in describe.notes(found)[0]


def test_batch_sizes_are_facets_and_learning_rates_are_chosen_on_validation() -> None:
    runs = sweep({"none": 0.2, "layer": 0.1})
    runs += sweep({"none": 0.12}, lr=3e-3, valid=-0.1) + sweep({"layer": 0.3}, lr=3e-3, valid=0.1)
    found = asked(runs)
    assert [group.place for group in found.groups] == ["optim.lr=0.001", "optim.lr=0.003", ""]
    best = found.groups[-1]
    assert best.tuned and [row.arm for row in best.rows] == ["layer optim.lr=0.001", "none optim.lr=0.003"]
    assert best.rows[0].difference is not None and best.rows[0].difference.second == "none optim.lr=0.003"
    sizes = asked([*sweep({"none": 0.2, "layer": 0.1}), *sweep({"none": 0.2, "layer": 0.1}, batch_size=4)])
    assert [group.place for group in sizes.groups] == ["train.batch_size=4", "train.batch_size=128"]
    rates = asked([one for lr in (0.01, 0.003, 0.001) for one in sweep({"none": 0.2, "layer": 0.1}, lr=lr)])
    places = [f"optim.lr={lr}" for lr in (0.001, 0.003, 0.01)]
    assert [group.place for group in rates.groups if not group.tuned] == places


def test_what_makes_learning_rates_unfair_is_told() -> None:
    runs = sweep({"none": 0.2, "layer": 0.1}) + sweep({"none": 0.12, "layer": 0.2}, lr=3e-3)
    runs += sweep({"layer": 0.15}, lr=1e-2, valid=-0.1)
    notes = " ".join(describe.notes(asked(runs)))
    assert "Learning rates tried: 2 of none, 3 of layer." in notes
    assert "The best learning rate of none and layer is the first or last of those tried." in notes
    assert "3 groups are judged separately, each at 5 %." in notes and "optimistic" not in notes
    assert "optimistic" in " ".join(describe.notes(asked(runs, split="valid")))
    inside = sweep({"none": 0.2, "layer": 0.2}) + sweep({"none": 0.2, "layer": 0.2}, lr=3e-3, valid=-0.1)
    inside += sweep({"none": 0.2, "layer": 0.2}, lr=1e-2)
    assert not [note for note in describe.notes(asked(inside)) if "first or last" in note or "tried" in note]


def test_the_best_is_named_by_what_is_monitored() -> None:
    runs = sweep({"none": 0.2, "layer": 0.1})
    assert "at the best by valid nll" in describe.heading(asked(runs, at="best")).lower()
    other = [
        dataclasses.replace(one, config={**one.config, "monitor": {"split": "test", "metric": "error"}}) for one in runs
    ]
    found = asked(other, at="best")
    assert "at the best by test error" in describe.heading(found) and any(
        "optimistic" in note for note in describe.notes(found)
    )
    assert "at the best by what each run monitors" in describe.heading(asked([*runs[:6], *other[6:]], at="best"))


def test_a_level_on_a_narrow_way_is_one_that_is_reached() -> None:
    found = asked([run(0.89437 + seed / 1e6, norm, seed) for norm in ("none", "layer") for seed in range(1, 7)])
    assert found.question.level is not None and 0.89437 < found.question.level < 0.895
    assert [row.time.censored for row in found.groups[0].rows if row.time] == [0, 0]


def test_the_time_to_a_level_is_interpolated_and_a_bound_where_some_never_come_there() -> None:
    found = asked(sweep({"none": 0.5, "layer": 0.1}), level="30")
    layer, none = found.groups[0].rows
    assert layer.time is not None and layer.time.mean is not None and 1 < layer.time.mean < 3
    assert none.time is not None and none.time.censored == 6 and none.time.at_least == 3
    assert asked(sweep({"none": 0.5, "layer": 0.1})).question.level is not None


def test_a_rising_metric_is_better_when_higher() -> None:
    metric = metrics.Metric("image_r1", share=True, rising=True)
    better, worse = {s: 0.5 + s / 100 for s in range(6)}, {s: 0.4 + s / 90 for s in range(6)}
    (pair,) = judge([difference_of(better, worse, ("a", "b"), metric.rising)])
    assert pair.word == AHEAD
    (pair,) = judge([difference_of(worse, better, ("b", "a"), metric.rising)])
    assert pair.word == BEHIND


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_never_below_p_and_keeps_its_order(p_values: list[float]) -> None:
    adjusted = stats.holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    assert max(adjusted) >= min(1.0, len(p_values) * min(p_values))
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[i] for i in ranked] == sorted(adjusted)


def test_numbers_do_not_change_with_what_else_is_shown() -> None:
    runs = sweep({"none": 0.2, "batch": 0.15, "layer": 0.1})
    alone = asked([r for r in runs if r.config["norm"]["name"] != "batch"])
    whole = asked(runs)
    rows = {row.arm: row for row in whole.groups[0].rows}
    for row in alone.groups[0].rows:
        assert row.at == rows[row.arm].at and row.best == rows[row.arm].best
        if row.difference:
            assert row.difference.interval == rows[row.arm].difference.interval  # type: ignore[union-attr]  # it has one


def test_each_column_of_the_table_has_one_format() -> None:
    noise = (0.08, -0.07, 0.02, -0.09, 0.04, 0.03)
    wide = [run(0.3 + noise[seed], "batch", seed + 1) for seed in range(6)]
    found = asked([*sweep({"none": 0.2, "layer": 0.1}), *wide])
    texts = describe.table(found.groups[0].rows, found)
    for column in ("at", "seeds", "best", "difference", "p"):
        digits = [len(found) for row in texts for found in re.findall(r"\.(\d+)", str(getattr(row, column)))]
        assert len(digits) > 1 and len({*digits}) == 1, (column, texts)


def test_a_number_without_an_interval_keeps_its_digits_and_sentences_have_those_of_the_table() -> None:
    """The intervals of two seeds are tens of points wide; those of one seed have none."""
    wide = [run(error, norm, seed) for norm in ("none", "layer") for seed, error in ((1, 0.3), (2, 0.1 * len(norm)))]
    found = asked([*wide, run(0.2575, "rms", 1)])
    rows = {
        row.arm: texts
        for row, texts in zip(found.groups[0].rows, describe.table(found.groups[0].rows, found), strict=True)
    }
    assert (rows["rms"].at, rows["rms"].difference) == ("25.8", "\N{MINUS SIGN}9.2 (n = 1)")
    assert rows["layer"].at == "40.0 [0.3, 99.3]" and rows["none"].at.startswith("35.0 [")
    decided = asked(sweep({"none": 0.2, "layer": 0.1}))
    assert (
        f"ahead of none ({describe.table(decided.groups[0].rows, decided)[0].difference} points)"
        in describe.sentence(decided)
    )


def test_the_difference_over_time_ends_where_the_table_does() -> None:
    found = asked(sweep({"none": 0.2, "layer": 0.1}))
    layer, none = found.groups[0].rows
    points = difference_curve(layer.cell, none.cell, found.question, "epoch")
    assert [point.x for point in points] == [0, 1, 2, 3] and points[-1].n == 6
    assert layer.difference is not None
    assert points[-1].mean is not None and math.isclose(100 * points[-1].mean, layer.difference.mean or 0)


def test_as_json_is_plain_and_has_no_nan() -> None:
    runs = [*sweep({"none": 0.2, "layer": 0.1}), run(None, "rms", 1, status="diverged"), run("NaN", "batch", 1)]
    text = json.dumps(describe.as_json(asked(runs)), allow_nan=False)
    content = json.loads(text)
    assert content["question"]["against"] == "none" and content["groups"][0]["rows"][0]["arm"] == "layer"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"metric": "eror"}, "Did you mean 'error'?"),
        ({"split": "tst"}, "Did you mean 'test'?"),
        ({"against": "layr"}, "Did you mean 'layer'?"),
        ({"by": "optim.lr"}, "does not differ"),
        ({"at": "middle"}, "no point of a run"),
        ({"level": "low"}, "is no number"),
        ({"level": "-5"}, "level=-5: error lies between 0 and 100 %."),
        ({"level": "101 %"}, "level=101 %: error lies between 0 and 100 %."),
        ({"level": "-1", "metric": "nll"}, "level=-1: NLL must be above 0."),
        ({"level": "nan"}, "is no number"),
        ({"level": "1e400"}, "is no number"),
    ],
)
def test_a_question_that_makes_no_sense_is_one_line(words: dict[str, str], says: str) -> None:
    with pytest.raises(NormbenchError) as error:
        asked(sweep({"none": 0.2, "layer": 0.1}, seeds=2), **words)
    assert says in str(error.value) and "\n" not in str(error.value)


def _task(runs: Sequence[Run]) -> Task:
    (task,) = tasks(runs)
    return task


@pytest.mark.parametrize(
    ("declares", "better", "winner", "unit"),
    [
        ({"metrics": ["error"], "rising": ["error"], "shares": ["error"]}, "higher", "none", "%"),
        ({"metrics": ["error"]}, "lower", "layer", ""),
        ({}, "", "", ""),
    ],
)
def test_a_model_of_ones_own_declares_which_way_is_better(
    declares: dict[str, list[str]], better: str, winner: str, unit: str
) -> None:
    model = {"name": "mine", **({"declares": declares} if declares else {})}
    runs = [dataclasses.replace(r, config={**r.config, "model": model}) for r in sweep({"none": 0.5, "layer": 0.1})]
    result = asked(runs, metric="error")
    assert result.question.metric.better == better and result.groups[0].winner == winner
    assert result.question.metric.unit == unit
    assert (better or result.question.level is None) and not suggested_seeds.suggested_commands(result)


@pytest.mark.parametrize("metric", ["scale", "error"])
def test_what_an_arm_does_not_log_is_not_lost(metric: str) -> None:
    """A scalar that one normalizer logs, and a monitored split that no run has."""
    runs = sweep({"none": 0.5, "layer": 0.1, "batch": 0.2})
    for place, one in enumerate(runs):
        scale = {"scale": 1.0 + one.seed / 10} if one.arm != "mnist_mlp-none" else {}
        kept = [{**dict(r), **scale} for r in one.records if r["split"] == "test"]
        runs[place] = dataclasses.replace(one, records=kept)
    result = asked(runs, metric=metric)
    (group,) = result.groups
    assert [row.arm for row in group.rows if row.unlogged] == (["none"] if metric == "scale" else [])
    assert not any(row.diverged or row.lost for row in group.rows)
    assert {texts.best for texts in describe.table(group.rows, result)} == {"not logged"}
    assert not any("diverged" in note for note in describe.notes(result))
    assert ("none: no such number" in " ".join(describe.notes(result))) == (metric == "scale")
    assert all("none" not in (pair.first, pair.second) for pair in group.pairs) == (metric == "scale")


def test_what_is_compared_on_another_split_than_test_is_said() -> None:
    runs = [
        dataclasses.replace(r, records=[x for x in r.records if x["split"] == "valid"]) for r in sweep({"none": 0.2})
    ]
    assert "No run has a test split: compared on valid." in describe.notes(asked(runs))
    assert not any("test split" in note for note in describe.notes(asked(sweep({"none": 0.2}), split="valid")))
    with pytest.raises(NormbenchError, match="on valid, but on test"):
        asked(sweep({"none": 0.2}), split="valid", metric="error")


def test_the_baseline_of_a_sweep_of_an_option_is_its_lowest_value_in_any_order() -> None:
    runs = [one for lr in (0.01, 0.001) for one in sweep({"none": 0.2}, lr=lr)]
    assert asked(runs).question.against == asked(runs[::-1]).question.against == "optim.lr=0.001"


def test_metrics_are_in_the_order_of_their_model() -> None:
    logged = metrics.logged(_task(sweep({"none": 0.2}, seeds=1)).runs)
    assert [metric.name for metric in logged["test"]] == ["nll", "error"]
    assert metrics.chief(logged["test"]).name == "error" and logged["test"][1].factor == 100


@pytest.mark.parametrize(
    ("words", "norm"),
    [
        (["norm.sites={hidden: {name: layer, eps: 1e-3}, logits: batch}"], "layer+batch"),
        (["norm=batch", "norm.sites={hidden: {}, logits: {momentum: 0.2}}"], "batch"),
        (["norm=batch", "norm.sites={hidden: {}, logits: none}"], "batch"),
        (["norm.sites={hidden: none}"], "none"),
        (["norm=layer", "norm.sites=[hidden]"], "layer"),
    ],
    ids=str,
)
def test_a_run_with_normalizers_by_site_is_called_by_them(words: list[str], norm: str) -> None:
    """It is never taken for one without, and its command composes it again."""

    (spec,) = train_specs(["model=mnist_mlp", "data=digits", *words], False)
    config = spec.stored_config()
    assert configuration.flat(config)["norm"] == norm
    assert configuration.describe_config(config).startswith(f"mnist_mlp {norm}")
    again = configuration.format_words(configuration.overrides(config, spec.epochs, spec.steps))
    assert [one.id for one in train_specs(again, False)] == [spec.id]


def test_normalizers_by_site_are_no_baseline_and_found_by_their_name() -> None:
    mixed = {"sites": {"hidden": "layer", "logits": "batch"}}
    runs = [
        *(run(0.1, "layer", seed) for seed in range(1, 6)),
        *(run(0.2, "none", seed, options=mixed) for seed in range(1, 6)),
    ]
    (task,) = tasks(runs)
    question = Question.of(task, {})
    assert sorted(question.arm(cell) for cell in task.cells) == ["layer", "layer+batch"]
    assert len(configuration.select(["norm=layer+batch"], runs)) == 5
    with pytest.raises(NormbenchError, match="no run here has norm=none"):
        configuration.select(["norm=none"], runs)


def test_arms_of_one_setting_are_called_by_it_and_a_lost_one_is_no_baseline() -> None:
    lost = [run(0.9, seed=seed, lr=1e300, status="diverged") for seed in range(1, 6)]
    runs = [*lost, *sweep({"none": 0.2}, lr=0.0), *sweep({"none": 0.1}, lr=1e-3)]
    result = asked(runs)
    assert [row.arm for row in result.groups[0].rows] == ["optim.lr=0.001", "optim.lr=0", "optim.lr=1e+300"]
    assert result.question.against == "optim.lr=0"
    assert describe.sentence(result).startswith(
        "No winner: undecided between optim.lr=0.001 and optim.lr=0. Every run of"
    )
    assert asked(runs, against="0.001").question.against == "optim.lr=0.001", "by its value alone"
    assert asked(runs, against="optim.lr=1e+300").question.against == "optim.lr=1e+300"
    assert asked([*lost, run(0.9, lr=1.0, status="diverged")]).question.against == "optim.lr=1"
    baseline = [run(0.9, "none", seed, status="diverged") for seed in range(1, 6)]
    assert asked([*baseline, *sweep({"layer": 0.1, "batch": 0.2})]).question.against == "layer"


def test_the_baseline_may_be_told_by_its_normalizer() -> None:
    runs = [
        run(error, norm, seed, experiment="ln2016/fig6", arm=arm, fidelity="paper", options=options)
        for arm, norm, error, options in (
            ("plain", "none", 0.3, {}), ("bn", "batch", 0.2, {"eps": 1}), ("bn-all", "batch", 0.1, {"eps": 2}),
            ("ln", "layer", 0.1, {}),
        )
        for seed in range(1, 6)
    ]  # fmt: skip
    (task,) = tasks(runs)
    assert Question.of(task, {"against": "layer"}).against == "ln"
    with pytest.raises(NormbenchError, match=r"several arms of .* have it: bn, bn-all"):
        Question.of(task, {"against": "batch"})


def test_a_damaged_run_is_in_no_task_and_several_sources_are_said() -> None:
    runs = [run(0.1 + s / 100, norm, s, source="own") for norm in ("none", "layer") for s in range(1, 6)]
    broken = dataclasses.replace(run(0.9, "batch", 9), status="damaged")
    ((task,), (other,)) = tasks(runs), tasks([*runs, broken])
    assert [cell.key for cell in task.cells] == [cell.key for cell in other.cells] and len(other.runs) == 10
    said = "several sources"
    assert not any(said in line for line in describe.notes(asked(runs)))
    smoke = dataclasses.replace(run(0.1, "none", 6), source="smoke", fidelity="smoke")
    (mixed,) = tasks([*runs, smoke])
    assert len(mixed.cells) == 2, "of one configuration"
    (note,) = (line for line in describe.notes(asked([*runs, smoke])) if said in line)
    assert "10 own, 1 smoke" in note
    assert configuration.select(["source=own"], mixed.runs) == task.runs
