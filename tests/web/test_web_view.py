"""The view of a comparison: its numbers are compare's, its figures keep extremes and gaps, its texts are text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import compared
import plotly.graph_objects
import pytest

from normbench.compare import describe
from normbench.compare.answer import compare
from normbench.compare.configuration import select
from normbench.compare.groups import tasks
from normbench.compare.question import Question
from normbench.draw.style import COLOURS, colours_of, distinct_colours
from normbench.runs.run import Run
from normbench.stats.series import aggregate
from normbench.web import plots
from normbench.web.view import FIGURES, view


def seen(runs: list[Run], query: Mapping[str, str] | None = None) -> dict[str, Any]:
    found = view(compared.heads(runs), compared.loader(runs), query or {})
    json.dumps(found, allow_nan=False)
    for name in (*FIGURES, "pair"):
        figure = found[name] and found[name].get("figure", found[name])
        if figure is not None:
            plotly.graph_objects.Figure(figure)  # raises for a property that Plotly does not know
    return found


def traces(found: Mapping[str, Any], role: str, figure: str = "curves") -> list[dict[str, Any]]:
    return [trace for trace in found[figure]["data"] if trace["meta"]["role"] == role]


@pytest.mark.parametrize(
    ("split", "metric", "title"),
    [
        ("valid", "nll", "valid NLL, nats per character"),
        ("valid", "error", "valid error, %"),
        ("train", "block.3.mlp.alpha", "train block.3.mlp.alpha"),
    ],
)
def test_axes_of_a_language_model_have_their_units(split: str, metric: str, title: str) -> None:
    runs = []
    for run in compared.runs(("layer", "dyt")):
        records = [*run.records, {"epoch": 20, "step": 200, "split": "train", "mode": "both", "block.3.mlp.alpha": 0.4}]
        runs.append(replace(run, records=records, config={**run.config, "model": {"name": "char_lm"}}))
    found = seen(runs, {"split": split, "metric": metric})
    assert found["curves"]["layout"]["yaxis"]["title"]["text"] == title and found["heading"].startswith(title[:9])


def test_numbers_are_those_of_compare_and_of_the_mean_curve():
    runs = compared.runs()
    found = seen(runs)
    (task,) = tasks(runs)
    question = Question.of(task, {})
    rows = {row.cell.key: row for group in compare(task, question).groups for row in group.rows}
    assert [cell["label"] for cell in found["cells"]] == ["none", "batch", "layer"]  # the baseline first
    colours = distinct_colours(["none", "batch", "layer"])
    for cell, mean in zip(found["cells"], traces(found, "mean"), strict=True):
        row = rows[cell["key"]]
        assert (cell["n"], cell["mean"], tuple(cell["interval"])) == (5, row.at.mean, row.at.interval)
        last = aggregate(row.cell.runs, *question.where)[-1]
        assert last.mean is not None
        assert mean["meta"]["arm"] == cell["key"] and mean["y"][-1] == pytest.approx(100 * last.mean, rel=1e-5)
        assert mean["y"][-1] == pytest.approx(cell["mean"], rel=1e-5)
        assert cell["colour"] == colours[cell["label"]]
    assert len(traces(found, "seed")) == 15 and len(traces(found, "band")) == 3
    effects = {trace["meta"]["arm"]: trace["x"][0] for trace in traces(found, "effect", "forest")}
    expected = {row.cell.key: row.difference.mean for row in rows.values() if row.difference}
    assert effects == pytest.approx(expected, rel=1e-5)


def test_other_runs_change_no_number_of_a_cell():
    few, many = compared.runs(("none", "layer")), compared.runs(("none", "layer", "batch", "rms"))
    numbers = [
        {cell["label"]: (cell["n"], cell["mean"], cell["interval"]) for cell in seen(runs)["cells"]}
        for runs in (few, many)
    ]
    assert numbers[0].items() <= numbers[1].items()


def test_the_filter_of_a_task_selects_its_runs_and_no_others():
    runs = [*compared.runs(), *compared.runs(name="wine"), *compared.runs(points=30)]
    found = seen(runs)
    chosen = [{run.id for run in select(task["filter"].split(), runs)} for task in found["tasks"]]
    filed = [replace(r, id=f"filed-{r.id}", experiment="mine/one", elsewhere=[("mine/two", "")]) for r in runs[:15]]
    assert [task["of"] for task in seen([*filed, *runs[15:]])["tasks"]] == ["mine/one, mine/two", "", ""]
    mixed = seen([*filed[:14], replace(runs[14], id="other", experiment="mine/two"), *runs[15:]])["tasks"]
    assert mixed[0]["of"] == "mine/two, mine/one", "that of the most runs first"
    assert len(chosen) == 3 and [len(ids) for ids in chosen] == [task["runs"] for task in found["tasks"]]


def test_only_the_shown_task_is_loaded():
    runs = [*compared.runs(seeds=3), *compared.runs(seeds=1, name="mnist")]
    asked: list[str] = []
    found = view(compared.heads(runs), compared.loader(runs, asked), {})
    assert len(found["tasks"]) == 2 and set(asked) == {run.id for run in runs[:9]}
    other = view(compared.heads(runs), compared.loader(runs), {"task": found["tasks"][1]["key"]})
    assert other["title"] == found["tasks"][1]["title"] and other["cells"][0]["n"] == 1


def test_an_outline_has_tasks_cells_and_states_and_reads_no_curve():
    runs = compared.runs(seeds=2)
    whole = view(compared.heads(runs), compared.loader(runs), {})

    def load(ids: list[str]) -> Mapping[str, Run]:
        raise AssertionError(f"{ids} are not needed")

    found = view(compared.heads(runs), load, {"outline": "1"})
    assert found["tasks"] == whole["tasks"] and found["runs"] == whole["runs"]
    assert {c["key"] for c in found["cells"]} == {c["key"] for c in whole["cells"]}
    assert found["query"] == {"task": whole["tasks"][0]["key"]} and found["answer"] is None


def test_questions_are_answered_and_those_that_fit_nothing_are_noted():
    runs = compared.runs()
    found = seen(runs, {"split": "valid", "metric": "nll", "against": "layer", "x": "step", "level": "0.5"})
    now = {
        key: choice["now"] for key, choice in found["choices"].items() if isinstance(choice, dict) and "now" in choice
    }
    words = {"split": "valid", "metric": "nll", "at": "end", "against": "layer", "x": "step", "level": "0.5"}
    assert now == {**words, "dash": "", "plot": ""}
    assert found["cells"][0]["label"] == "layer" and traces(found, "mean")[0]["x"][-1] == 200
    wrong = seen(runs, {"metric": "bleu", "against": "nobody", "filter": "norm=layr", "task": "gone"})
    assert wrong["choices"]["metric"]["now"] == "error" and "filter" not in wrong["query"]
    assert len(wrong["notes"]) == 4 and "Did you mean 'layer'?" in wrong["notes"][0]
    assert [c["label"] for c in seen(runs, {"filter": "norm=layer,batch"})["cells"]] == ["batch", "layer"]


def test_panels_are_the_curves_of_other_metrics_of_the_same_cells_without_a_level():
    runs = compared.runs()
    query = {"panels": "valid:nll|test:error|valid:no such|test:nll|valid:nll", "x": "step", "level": "5"}
    found = seen(runs, query)
    assert [(panel["key"], panel["log"]) for panel in found["panels"]] == [("valid:nll", True), ("test:nll", True)]
    assert found["notes"] == [] and found["query"]["panels"].startswith("valid:nll|")
    for panel in found["panels"]:
        split, metric = panel["key"].split(":")
        alone = seen(runs, {"split": split, "metric": metric, "x": "step", "level": "5"})["curves"]
        levels = [trace for trace in alone["data"] if trace["meta"]["role"] in ("level", "time")]
        assert levels and panel["curves"]["data"] == [trace for trace in alone["data"] if trace not in levels]
        assert panel["curves"]["layout"] == alone["layout"]
    listed = [panel["key"] for panel in found["choices"]["panels"]]
    assert sorted(listed) == ["test:error", "test:nll", "valid:error", "valid:nll"]
    one = seen(runs, {"x": "step", "level": "5"})
    assert one["panels"] == [] and one["answer"] == found["answer"] and one["cells"] == found["cells"]


def test_seconds_and_examples_are_updates_at_the_cells_own_pace():
    runs = compared.runs(("none",), 2)
    assert traces(seen(runs, {"x": "seconds"}), "mean")[0]["x"][-1] == pytest.approx(2.0)  # 200 updates of 10 ms
    assert traces(seen(runs, {"x": "examples"}), "mean")[0]["x"][-1] == 200 * 32
    assert traces(seen(runs, {"x": "epoch"}), "mean")[0]["x"][-1] == 20


def test_a_level_is_shown_only_where_it_is_set_and_else_suggested():
    found = seen(compared.runs())
    assert not traces(found, "level") and not traces(found, "time") and "Dotted" not in found["caption"]
    choice = found["choices"]["level"]
    assert choice["now"] == "" and {cell["time"] for cell in found["cells"]} == {""}
    asked = seen(compared.runs(), {"level": choice["suggested"]})
    assert traces(asked, "level") and all(cell["time"] for cell in asked["cells"])
    assert f"Dotted: {choice['suggested']} %" in asked["caption"]


def test_y_begins_after_the_untrained_model_however_often_that_was_evaluated():
    (run,) = compared.runs(("none",), 1)
    first, rest = run.records[0], run.records
    early = [
        {**first, "epoch": epoch, "step": step, "split": "test", "error": 0.9} for epoch, step in ((0.05, 1), (0.15, 2))
    ]
    found = seen([replace(run, records=[*rest[:2], *early, *rest[2:]])])
    axes = found["curves"]["layout"]["meta"]["axes"]
    (mean,) = traces(found, "mean")
    assert max(mean["y"]) == 90 and axes["begin"] == pytest.approx(0.8) and axes["whole"] == [mean["meta"]["arm"]]


def test_a_dash_stands_for_one_thing_the_arm_or_a_facet():
    alike = [{"norm": {"name": "batch", "eps": eps}} for eps in (1e-5, 0.1)]
    runs = [
        replace(run, id=f"{i}{run.id}", config={**run.config, **alike[i]})
        for i in (0, 1) for run in compared.runs(("batch",), 2, lr=1e-3)
    ] + compared.runs(("layer",), 2)  # fmt: skip
    found = seen(runs)
    assert found["choices"]["dash"]["now"] == "arm"
    assert [arm["dash"] for arm in found["arms"]] == ["solid", "dash", "solid"]  # the two of one colour differ
    sweep = [run for lr in (1e-3, 1e-2) for size in (4, 32) for run in compared.runs(seeds=2, lr=lr, batch_size=size)]
    for asked, key in (("", "optim.lr"), ("train.batch_size", "train.batch_size"), ("none", "optim.lr")):
        found = seen(sweep, {"dash": asked})
        assert found["choices"]["dash"]["now"] == key
        (facet,) = [facet for facet in found["facets"] if facet["key"] == key]
        dashes = {value["key"]: value["dash"] for value in facet["values"]}
        place = [facet["key"] for facet in found["facets"]].index(key)
        assert len({*dashes.values()}) == 2
        assert all(cell["dash"] == dashes[cell["place"][place]] for cell in found["cells"])


def test_a_setting_has_the_same_dash_in_every_arm_whenever_its_runs_came():
    sweep = [("none", 0.1), ("none", 1e-3), ("layer", 1e-3), ("layer", 0.01), ("layer", 0.1), ("none", 0.01)]
    found = seen([run for norm, lr in sweep for run in compared.runs((norm,), 2, lr=lr)])
    dashes = {cell["label"]: cell["dash"] for cell in found["cells"]}
    for lr, dash in (("0.001", "solid"), ("0.01", "dash"), ("0.1", "dot")):
        assert dashes[f"none · lr={lr}"] == dashes[f"layer · lr={lr}"] == dash


def test_facets_the_best_rate_and_sensitivity_of_a_sweep():
    runs = [run for lr in (0.1, 1e-3, 0.01) for run in compared.runs(("none", "layer"), 5, lr=lr)]
    found = seen(runs)
    assert [facet["key"] for facet in found["facets"]] == ["optim.lr"]
    assert [value["label"] for value in found["facets"][0]["values"]] == ["0.001", "0.01", "0.1"]  # by size
    assert [cell["label"] for cell in found["cells"]][:3] == ["none · lr=0.001", "none · lr=0.01", "none · lr=0.1"]
    assert len({cell["dash"] for cell in found["cells"][:3]}) == 3 and len({c["colour"] for c in found["cells"]}) == 2
    settings = traces(found, "setting", "sensitivity")
    assert [trace["x"] for trace in settings] == [[0.001, 0.01, 0.1]] * 2
    assert all(trace["marker"]["size"] == [6, 6, 11] for trace in settings)  # the highest rate is the best here
    assert found["sensitivity"]["layout"]["meta"]["caption"] == "Large: the best rate by valid NLL."
    assert all(trace["error_y"]["visible"] for trace in settings)
    two = seen([run for lr in (0.1, 1e-3) for run in compared.runs(("none", "layer"), 2, lr=lr)])
    assert not any(t["error_y"]["visible"] for t in traces(two, "setting", "sensitivity")), "too wide to see a line"
    assert [group["tuned"] for group in found["answer"]["groups"]] == [True] + [False] * 3
    assert found["answer"]["groups"][0]["place"] == "each arm at its best learning rate by valid NLL"
    assert [cell["other_rate"] for cell in found["cells"]] == [True, True, False] * 2
    single = seen([*runs, *compared.runs(("batch",), 5, lr=1e-3)])
    rates = {cell["label"]: cell["other_rate"] for cell in single["cells"]}
    assert not rates["batch"] and rates["none · lr=0.01"], "an arm that was run at one rate has no other"
    assert not any(cell["other_rate"] for cell in seen(compared.runs())["cells"])


def test_groups_are_in_the_order_of_their_learning_rates_whenever_their_runs_came():
    (task,) = tasks([run for lr in (0.01, 0.1, 1e-3) for run in compared.runs(("none", "layer"), 3, lr=lr)])
    groups = compare(task, Question.of(task, {})).groups
    assert [group.place for group in groups] == ["optim.lr=0.001", "optim.lr=0.01", "optim.lr=0.1", ""]


def test_the_headline_is_of_the_most_arms_and_the_forest_begins_with_it():
    rates = {1e-3: ("none", "rms", "layer"), 1e-2: ("rms", "layer")}
    found = seen([run for lr, norms in rates.items() for run in compared.runs(norms, lr=lr)])
    first, best, last = found["answer"]["groups"]
    assert (first["place"], first["size"], best["tuned"]) == ("optim.lr=0.001", 3, True)
    assert all(group["place"].endswith("2 of 3 arms: layer, rms") for group in (best, last))
    assert (
        "layer and rms" not in first["sentence"] and found["forest"]["layout"]["annotations"][0]["text"] == "lr=0.001"
    )
    assert "none has one learning rate and is not compared at the best rates." in found["notes"]
    apart = seen(
        [run for lr in (1e-3, 1e-2) for run in compared.runs(("rms", "layer"), lr=lr)]
        + compared.runs(("none",), lr=0.1)
    )
    assert apart["answer"]["groups"][0]["place"].endswith("2 of 3 arms: layer, rms")
    norms = ("rms", "layer", "group", "batch", "none")
    many = seen(compared.runs((*norms, "instance"), lr=1e-2) + compared.runs(norms, lr=1e-3))["answer"]["groups"]
    part, whole = (many[1][key].partition("5 of 6 arms: ")[2] for key in ("place", "whole"))
    assert part.endswith(" and 2 more") and len(part.split(", ")) == 3 and {*whole.split(", ")} == {*norms}
    texts = [note["text"] for note in apart["forest"]["layout"]["annotations"]]
    assert texts[1] == "layer \N{MINUS SIGN} rms" and apart["forest"]["data"][0]["x"][0] < 0
    assert apart["forest"]["layout"]["xaxis"]["title"]["text"].startswith("difference, points")


def test_points_and_parallel_coordinates_have_every_run_by_what_was_swept():
    runs = [run for lr in (1e-3, 1e-2) for size in (4, 32) for run in compared.runs(seeds=2, lr=lr, batch_size=size)]
    plain = seen(runs)
    options = [option["key"] for option in plain["choices"]["plot"]["options"]]
    assert options == ["", "norm", "optim.lr", "train.batch_size", "parallel coordinates"] and plain["swept"] is None
    found = seen(runs, {"plot": "optim.lr", "panels": "valid:nll"})
    means, small = traces(found, "point", "swept"), traces(found, "run", "swept")
    assert {t["meta"]["arm"]: t["y"] for t in means} == {c["key"]: [c["mean"]] for c in found["cells"]}
    assert sorted(y for trace in small for y in trace["y"]) == pytest.approx(
        sorted(float(seed["text"]) for cell in found["cells"] for seed in cell["seeds"]), abs=0.01
    )
    axis = found["swept"]["layout"]["xaxis"]
    assert axis["ticktext"] == ["0.001", "0.01"] and {round(trace["x"][0]) for trace in means} == {0, 1}
    assert "with 95 % intervals" in found["caption"]
    alone = seen([run for run in runs if run.seed == 1], {"plot": "optim.lr"})
    assert alone["caption"] == "Large marks: means over all seeds of a cell. Small marks: runs."
    assert found["panels"] == [] and found["query"]["panels"], "the panels are there again with the curves"
    lines = traces(seen(runs, {"plot": "parallel coordinates"}), "point", "swept")
    assert len(lines) == 12 and {len(trace["y"]) for trace in lines} == {4}
    best = min(plain["cells"], key=lambda cell: cell["mean"])["key"]
    assert [trace["y"][-1] for trace in lines if trace["meta"]["arm"] == best] == [0]
    many = [run for i in range(20) for run in compared.runs(("none",), 1, lr=10.0 ** (-i / 5))]
    rates = seen(many, {"plot": "optim.lr"})["swept"]
    assert rates["layout"]["xaxis"]["type"] == "log" and "ticktext" not in rates["layout"]["xaxis"]
    assert seen(runs, {"plot": "nothing"})["swept"] is None
    errors = {("none", 1): 0.49, ("none", 2): 0.5, ("batch", 1): 0.45, ("batch", 2): 0.55}
    ends = [(compared.run(*place), error) for place, error in errors.items()]
    figure = seen([replace(r, records=[{**r.records[-1], "error": error}]) for r, error in ends], {"plot": "norm"})
    low, high = figure["swept"]["layout"]["yaxis"]["range"]
    (mean,) = (t for t in traces(figure, "point", "swept") if t["y"][0] == pytest.approx(50))
    cuts = traces(figure, "cut", "swept")
    assert [t["marker"]["symbol"] for t in cuts] == ["triangle-down", "triangle-up"]
    assert low < cuts[0]["y"][0] < mean["y"][0] < cuts[1]["y"][0] < high
    assert mean["y"][0] + mean["error_y"]["array"][0] == pytest.approx(cuts[1]["y"][0], rel=1e-4)


def test_two_cells_have_a_difference_of_configuration_and_of_curves():
    runs = compared.runs(("none", "layer"), 4)
    first, second = (cell["key"] for cell in seen(runs)["cells"])
    found = seen(runs, {"a": first, "b": second})
    assert found["pair"]["diff"] == [{"key": "norm", "a": "none", "b": "layer"}]
    (task,) = tasks(runs)
    difference = compare(task, Question.of(task, {})).groups[0].pairs[0]
    numbers = describe.difference(difference if difference.first == "none" else difference.reversed, "points")
    assert found["pair"]["text"] == f"none \N{MINUS SIGN} layer, at the end: {numbers}, 4 pairs" and "[" in numbers
    other = seen(runs, {"a": second, "b": first})
    cells = [cell["text"] for cell in found["cells"]]
    words = [found["pair"]["text"], other["pair"]["text"], found["answer"]["groups"], cells]
    assert "\N{MINUS SIGN}" in words[1].split(": ")[1] and not re.search(r"-\d", json.dumps(words)), "true minus signs"
    apart = [run for run in runs if (run.seed < 3) == (run.arm == "mnist_mlp-none")]
    assert ", unpaired" in seen(apart, {"a": first, "b": second})["pair"]["text"]
    (mean,) = traces(found["pair"], "mean", "figure")
    assert mean["y"][-1] == pytest.approx(found["cells"][0]["mean"] - found["cells"][1]["mean"], rel=1e-4)
    assert seen(runs, {"a": first, "b": "gone"})["pair"] is None


def test_a_diverged_run_has_a_cross_where_it_ended_and_is_counted():
    runs = compared.runs(("none", "layer"), 3)
    cut = [r if r["epoch"] < 7 else {**r, "error": "NaN", "nll": "NaN"} for r in runs[0].records if r["epoch"] <= 7]
    runs[0] = replace(runs[0], status="diverged", reason="diverged at step 70", records=cut)
    found = seen(runs)
    (cross,) = traces(found, "diverged")
    assert cross["x"] == [6] and "diverged at step 70" in cross["customdata"][0]
    assert found["cells"][0]["n"] == 2 and found["cells"][0]["states"] == {"diverged": 1}
    assert found["cells"][0]["seeds"][0]["text"] == ""
    gap = next(t for t in traces(found, "seed") if "seed 1 " in t["name"])
    assert gap["y"][-1] is None


def test_running_and_failed_runs_are_counted_with_the_time_left():
    runs = compared.runs(("none",), 4)
    half = [record for record in runs[0].records if record["step"] <= 100]
    runs[0] = replace(runs[0], status="running", records=half, seconds=None)
    runs[1] = replace(runs[1], status="failed", reason="ValueError: no", records=[], seconds=None)
    found = seen(runs)
    states = {"running": 1, "failed": 1, "done": 2}
    assert found["runs"] == {"states": states, "elsewhere": 0, "left": 1, "hidden": 0}  # 100 of 10 ms
    other = [compared.run("none", seed, name="mnist", id=f"other{seed}", status="running") for seed in (1, 2)]
    elsewhere = seen([*runs, *other], {"task": found["query"]["task"]})["runs"]
    assert (elsewhere["states"], elsewhere["elsewhere"]) == (states, 2)
    assert [seed["state"] for seed in found["cells"][0]["seeds"]] == ["running", "failed", "done", "done"]
    assert "No run yet" in seen([])["notes"][0]


def test_what_is_opened_is_under_way_else_ones_own_newest_else_the_largest():
    published = [replace(run, source="published", began="2026-03-01") for run in compared.runs()]
    mine: dict[str, Any] = {"source": "own", "began": "2026-01-01"}
    old = [replace(run, **mine) for run in compared.runs(("none",), 1, name="mnist")]
    new = [replace(run, **{**mine, "began": "2026-02-01"}) for run in compared.runs(("none",), 1, name="iris")]
    late = [replace(run, **mine, status="running") for run in compared.runs(("none",), 1, name="wine")]
    for runs, data in ((published, "digits"), ([*published, *old, *new], "iris"), ([*new, *late, *old], "wine")):
        assert seen(runs)["title"].startswith(f"mnist_mlp on {data},")


def test_below_five_seeds_there_is_one_sentence():
    (group,) = seen(compared.runs(("none", "layer"), 2))["answer"]["groups"]
    assert group["sentence"] == "No verdict: fewer than 5 seeds." and not group["rest"]


def test_what_would_decide_counts_the_runs_under_way():
    runs = compared.runs(("none", "layer"), 2)
    assert "seed=range(3,6)" in "".join(seen(runs)["answer"]["commands"])
    begun = [compared.run(norm, seed, status="running", records=[]) for norm in ("none", "layer") for seed in (3, 4)]
    answer = seen([*runs, *begun])["answer"]
    assert answer["under_way"] == 4 and "seed=5 " in "".join(answer["commands"])
    begun += [compared.run(norm, 5, status="running", records=[]) for norm in ("none", "layer")]
    answer = seen([*runs, *begun])["answer"]
    assert (answer["under_way"], answer["commands"]) == (6, [])


def test_what_would_decide_proposes_no_seed_that_there_is_or_that_the_filter_leaves_out():
    runs = compared.runs(("none", "layer"), 2)
    away = {"left-out": "layer-0.001-32-2"}
    found = seen(runs, away)
    assert (found["runs"]["states"], found["runs"]["hidden"]) == ({"done": 3}, 1)
    (both,) = found["answer"]["commands"]
    assert "seed=range(3,7)" in both and "norm=none,layer" in both  # layer has a seed 2 that does not count
    assert seen(runs, {**away, "filter": "norm=none"})["runs"]["hidden"] == 0
    for filter in ("seed=1", "seed!=3-9", " ".join(run.id for run in runs)):
        (line,) = seen(runs, {"filter": filter})["answer"]["commands"]
        assert line.startswith("# The filter leaves out seeds 3 to ") and line.endswith(", which a verdict needs.")
    assert "range(3,6)" in seen(runs, {"filter": "seed!=7"})["answer"]["commands"][0]


def test_a_map_of_configurations_beside_what_a_paper_has(monkeypatch: pytest.MonkeyPatch):
    ways = {"TTTT": 0.3, "TTTF": 0.1, "FFFF": 0.2}
    runs = []
    for run in compared.runs(("batch_layer",), 2):
        last = {"epoch": 20, "step": 200, "split": "test", "mode": "eval"}
        more = [{**last, "variant": {"configuration": way}, "error": error} for way, error in ways.items()]
        config = {**run.config, "eval": {"variants": list(ways)}}
        runs.append(replace(run, records=[*run.records, *more], config=config))
    (heat,) = traces(seen(runs), "heat", "heat")
    assert heat["y"] == list(ways) and [row[0] for row in heat["text"]] == ["3", "1", "2"]

    class Told:
        reference: Mapping[str, Any] = {"test": {"0.2": {"TTTT": 1.0, "TTTF": 3.0, "FFFF": 2.0}, "1.0": {"TTTT": 1.0}}}

    monkeypatch.setattr("normbench.compare.paper_references._artifacts_of", lambda experiment: (Told(),))
    monkeypatch.setattr("normbench.compare.paper_references.references", lambda c: [])
    (heat,) = traces(seen(runs), "heat", "heat")
    assert heat["x"][1] == "paper: test 0.2" and [row[1] for row in heat["text"]] == ["1", "3", "2"]


def test_names_that_want_to_be_code_are_text():
    runs = compared.runs(("none", compared.HOSTILE), 3, name=compared.HOSTILE)
    found = seen([replace(run, status="diverged", reason=compared.HOSTILE) if run.seed == 3 else run for run in runs])
    figures = json.dumps([found[name] for name in FIGURES], ensure_ascii=False)
    assert "<b>" not in figures and "<a " not in figures and "%{y}'" not in figures
    assert "\u202e" not in json.dumps(found, ensure_ascii=False)
    assert any("&lt;b&gt;" in trace["name"] for trace in traces(found, "mean"))


def test_of_an_arm_those_options_are_named_that_tell_it_from_all_others():
    options = [{}, {"momentum": 0.1, "scale": "one", "sites": "a"}, {"momentum": 0.5, "scale": "two", "sites": "a"}]
    options.append({"momentum": 0.5, "scale": "two", "sites": "b"})
    runs = []
    for number, extra in enumerate(options):
        for run in compared.runs(("batch" if extra else "none",), 3):
            norm = {**run.config["norm"], **extra}
            runs.append(replace(run, id=f"{run.id}-{number}", config={**run.config, "norm": norm}))
    found = seen(runs)
    assert [arm["label"] for arm in found["arms"]] == [
        "none",
        "batch momentum=0.1",
        "batch momentum=0.5 sites=a",
        "batch sites=b",
    ]
    assert {*found["arms"][2]["whole"].split()} == {"batch", "norm.momentum=0.5", "norm.scale=two", "norm.sites=a"}
    assert [cell["label"] for cell in found["cells"]] == [arm["label"] for arm in found["arms"]]
    assert "norm." not in found["answer"]["groups"][0]["sentence"] + found["answer"]["groups"][0]["rest"]


def test_thinned_curves_keep_extremes_and_gaps():
    y = [1 / (1 + i) for i in range(5000)]
    y[1234], y[3210] = 9.0, -9.0
    for i in range(2000, 2010):
        y[i] = math.nan
    places = plots.points_to_draw(range(5000), [y], 100)
    assert len(places) <= 2 * 100 + 10 and {0, 4999, 1234, 3210, 1999, 2000, 2009, 2010} <= set(places)
    assert plots.points_to_draw([0, 1, 2], [[1.0, 2.0, 3.0]], 100) == [0, 1, 2]
    flat = plots.points_to_draw([float(i) for i in range(1000)], [[1.0] * 1000], 50)
    assert flat[0] == 0 and flat[-1] == 999 and len(flat) <= 102


def test_a_long_curve_is_sent_thinned_with_its_spike():
    (run,) = compared.runs(("none",), 1, points=5000)
    records = [{**r, "error": 5.0} if r["epoch"] == 3333 else r for r in run.records]
    (mean,) = traces(seen([replace(run, records=records)]), "mean")
    assert len(mean["x"]) <= 2 * plots.COLUMNS + 2 and max(mean["y"]) == 500
    assert mean["x"][mean["y"].index(500)] == 3333


def test_rows_of_the_forest_stand_below_the_name_of_their_setting():
    runs = [run for lr in (1e-3, 1e-2) for size in (4, 32) for run in compared.runs(lr=lr, batch_size=size)]
    layout = seen(runs)["forest"]["layout"]
    heads = [note["text"] for note in layout["annotations"] if "=" in note["text"] and "·" not in note["text"][:12]]
    assert "batch_size=4 · best rate of each" in heads and "lr=0.001 batch_size=4" in heads
    places = [note["y"] for note in layout["annotations"]]
    assert places == sorted(places, reverse=True) and layout["yaxis"]["range"][0] < min(places)


def test_what_lies_far_off_does_not_flatten_the_forest():
    """Of an effect beyond the edge the part of its interval that lies inside is drawn, and an arrow."""
    runs = compared.runs(("none", "batch", "layer", "rms", "group"))
    wide = [replace(r, records=[{**e, "error": e["error"] * 10 * r.seed} for e in r.records]) for r in runs[5:10]]
    before, after = (seen(found)["forest"] for found in (runs, [*runs[:5], *wide, *runs[10:]]))
    reach = [figure["layout"]["xaxis"]["range"][1] for figure in (before, after)]
    assert reach[1] < 6 * reach[0]
    (arrow,) = (trace for trace in after["data"] if trace["meta"]["role"] == "cut")
    assert arrow["marker"]["symbol"] == "triangle-right"
    assert arrow["x"] == [reach[1]], "Plotly draws no mark beyond the range"
    effects = {trace["meta"]["arm"]: trace for trace in after["data"] if trace["meta"]["role"] == "effect"}
    far = effects.pop(arrow["meta"]["arm"])
    assert far["x"] == [reach[1]] and far["marker"]["opacity"] == 0 and far["error_x"]["visible"] is False
    assert {trace["marker"]["opacity"] for trace in effects.values()} == {1} and len(effects) == 3
    assert not any("-" in text["text"] for text in after["layout"]["annotations"])


@pytest.mark.parametrize(
    ("mean", "interval", "reach", "arrows"),
    [
        (0.5, (0.2, 0.8), (0.3, 0.3), []),
        (0.5, (-3.0, 4.0), (1.5, 0.5), ["triangle-left", "triangle-right"]),
        (1.5, (0.4, 2.6), (0.6, 0.0), ["triangle-right"]),
        (-2.0, (-3.0, -0.9), (0.0, 0.1), ["triangle-left"]),
        (-2.0, (-3.0, -1.5), (0.0, 0.0), ["triangle-left"]),
        (2.0, None, (0.0, 0.0), ["triangle-right"]),
    ],
)
def test_what_lies_inside_the_axis_is_drawn_and_arrows_where_it_goes_on(mean, interval, reach, arrows):
    effect, *others = plots._effect("ln", "#123456", mean, interval, 1.0, 0.0, "LN: 1")
    cut, ends = ([trace for trace in others if trace["meta"]["role"] == role] for role in ("cut", "end"))
    error = effect["error_x"]
    assert (*error["arrayminus"], *error["array"]) == pytest.approx(reach) and error["visible"] == any(reach)
    assert [trace["marker"]["symbol"] for trace in cut] == arrows
    assert bool(effect["marker"]["opacity"]) == (abs(mean) <= 1)
    inside = [end for end in interval or () if abs(end) <= 1]
    assert bool(error["width"]) == (not arrows), "where an interval goes on, it has no bar across it"
    assert [trace["x"][0] for trace in ends] == (inside if arrows else [])


def test_the_line_at_zero_stops_where_numbers_stand():
    layout = seen(compared.runs(("none", "batch", "layer", "rms")))["forest"]["layout"]
    axis, (low, high) = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"], layout["yaxis"]["range"]
    pixels = axis / (high - low)
    texts = [pixels * note["y"] + note["yshift"] for note in layout["annotations"]]
    zeros = [(pixels * shape["y0"], pixels * shape["y1"]) for shape in layout["shapes"]]
    assert len(zeros) == 3 and not layout["xaxis"]["zeroline"]
    assert not any(start - 6 < text < end + 6 for start, end in zeros for text in texts)


def test_the_forest_is_as_wide_as_its_answer():
    """Two seeds at a rate that no arm is judged at do not flatten it."""
    runs = compared.runs(("none", "layer", "rms"), 5, lr=1e-3)
    worse = [
        replace(r, records=[{**e, "nll": e["nll"] * 9, "error": e["error"] * 9 * r.seed} for e in r.records])
        for r in compared.runs(("none", "layer", "rms"), 2, lr=1e-2)
    ]
    alone, both = (seen(found)["forest"]["layout"]["xaxis"]["range"] for found in (runs, runs + worse))
    assert both == alone


def test_a_normalizer_has_one_colour_and_shipped_ones_their_own():
    from normbench.config import compose

    shipped = compose.choices("norm")
    assert len(set(colours_of(shipped).values())) == len(shipped)
    assert colours_of(["my_norm", "none"])["my_norm"] == colours_of(["my_norm"])["my_norm"]


def test_a_normalizer_of_ones_own_takes_no_colour_that_another_has_here():
    own = [f"mine{i}" for i in range(40)]
    for name in own:  # some of the extra colours are those of shipped normalizers
        alone = colours_of([name])[name]
        twin = next((norm for norm, colour in COLOURS.items() if colour == alone), "none")
        assert len(set(colours_of([name, twin]).values())) == 2
    assert len(set(colours_of(own[:6]).values())) == 6
