"""Longer runs among shorter ones of the same: one that is gone on with is not lost to the comparison it was in."""

import dataclasses
from typing import Any

import pytest
from swept import asked, sweep

from normbench.commands.compare import selecting
from normbench.compare import configuration, describe
from normbench.compare.answer import compare
from normbench.compare.groups import tasks, with_longer
from normbench.compare.question import Question
from normbench.runs.record import RunRecord
from normbench.web import share as shared
from normbench.web.view import view


def _longer(of: RunRecord, diverged_at: int = 0, **evaluation: Any) -> RunRecord:
    """The same of six epochs."""
    last = of.records[-2:]
    further = [{**r, "epoch": epoch, "step": 10 * epoch, "nll": 0.1} for epoch in (4, 5, 6) for r in last]
    records = [r for r in [*of.records, *further] if not diverged_at or r["step"] <= diverged_at]
    return dataclasses.replace(
        of, epochs=6, steps=60, records=records, status="diverged" if diverged_at else "done",
        config={**of.config, "eval": evaluation},
    )  # fmt: skip


@pytest.mark.parametrize("with_records", [True, False])
def test_a_longer_run_stands_among_the_shorter_ones_it_went_through(with_records: bool) -> None:
    runs = sweep({"none": 0.3, "layer": 0.2})
    extended = [*map(_longer, runs[:2]), *runs[2:]]
    heads = extended if with_records else [dataclasses.replace(r, records=()) for r in extended]
    shorter, longer = sorted(tasks(with_longer(heads)), key=lambda task: task.budget)
    shorter = shorter.with_runs({run.id: run for run in extended})
    assert [len(cell.runs) for cell in shorter.cells] == [6, 6] and [len(cell.runs) for cell in longer.cells] == [2]
    assert [run.seed for run in shorter.runs if run.cut_from] == [1, 2] and not any(run.cut_from for run in longer.runs)
    assert [list(run.records) for run in shorter.cells[0].runs] == [list(run.records) for run in runs[:6]]
    (found,) = tasks(configuration.select(selecting(shorter), with_longer(heads)))
    assert len(found.runs) == 12, "words that select the task keep them"
    result = compare(shorter, Question.of(shorter, {}))
    assert "2 runs are longer ones, cut to 3 epochs." in describe.notes(result)
    assert describe.as_json(result)["groups"] == describe.as_json(asked(runs))["groups"]


def test_a_longer_run_is_no_shorter_one_that_it_was_not_evaluated_as() -> None:
    runs = sweep({"none": 0.3})
    at_twenty = {"unit": "updates", "every": 20}
    for other in ({"every": 2}, {"test": "last"}, at_twenty, {"every": 0}):
        for records in (runs[0].records, ()):
            seldom = dataclasses.replace(_longer(runs[0], **other), records=[r for r in records if r["step"] != 30])
            shorter = min(tasks(with_longer([seldom, *runs[1:]])), key=lambda task: task.budget)
            assert [run.seed for run in shorter.runs] == [2, 3, 4, 5, 6]
    unread = dataclasses.replace(_longer(runs[0]), records=())  # no more than its configuration is known
    lacking = dataclasses.replace(unread, records=[r for r in _longer(runs[0]).records if r["step"] != 30])
    shorter = min(tasks(with_longer([unread, *runs[1:]])), key=lambda task: task.budget)
    assert len(shorter.runs) == 6 and len(shorter.with_runs({lacking.id: lacking}).runs) == 5
    assert shorter.runs[0].seconds is None, "those are the longer run's"


def test_an_arm_that_is_gone_on_with_as_a_whole_stays_beside_the_others() -> None:
    runs = sweep({"none": 0.3, "layer": 0.2})
    extended = [*runs[:6], *map(_longer, runs[6:])]
    shorter, longer = sorted(tasks(with_longer(extended)), key=lambda task: task.budget)
    assert [len(cell.runs) for cell in shorter.cells] == [6, 6] and [cell.norm for cell in longer.cells] == ["layer"]
    other = [_longer(run) for run in sweep({"layer": 0.2}, lr=0.1)]
    assert len(with_longer([*runs, *other])) == 18, "another learning rate was asked for six epochs alone"
    assert len(with_longer(list(map(_longer, runs)))) == 12, "nobody asked for fewer"


def test_a_longer_run_that_diverged_is_lost_where_it_did() -> None:
    runs = sweep({"none": 0.3})
    early, late = _longer(runs[0], diverged_at=20), _longer(runs[1], diverged_at=50)
    shorter = min(tasks(with_longer([early, late, *runs[2:]])), key=lambda task: task.budget)
    assert [run.status for run in shorter.runs] == ["diverged", *["done"] * 5]


def test_the_page_and_its_file_have_it_too() -> None:
    runs = sweep({"none": 0.3, "layer": 0.2})
    whole = {run.id: run for run in [*map(_longer, runs[:2]), *runs[2:]]}
    heads = [dataclasses.replace(run, records=()) for run in whole.values()]
    longer_view = view(heads, lambda ids: {run_id: whole[run_id] for run_id in ids}, {})
    assert [len(cell["seeds"]) for cell in longer_view["cells"]] == [6, 6]
    assert [task["runs"] for task in longer_view["tasks"]] == [12, 2]
    assert "2 runs are longer ones, cut to 3 epochs." in longer_view["notes"]
    short_view = view(runs, lambda ids: {run.id: run for run in runs}, {})
    assert longer_view["answer"]["groups"] == short_view["answer"]["groups"]


def test_a_shared_page_shows_the_cut_runs_in_all_its_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the filter leaves longer ones alone, and so nothing that says which length is meant."""
    runs = sweep({"none": 0.3, "layer": 0.2})
    longer = [run.seed in (1, 2) for run in runs]
    whole = {run.id: _longer(run) if more else run for run, more in zip(runs, longer, strict=True)}
    heads = [dataclasses.replace(run, records=()) for run in whole.values()]
    contents: list[dict[str, Any]] = []
    monkeypatch.setattr(shared, "html", lambda content, title: contents.append(content) or b"")
    for query in ({}, {"filter": "seed=1,2 train.epochs=3"}):
        shared.share(heads, lambda ids: {run_id: whole[run_id] for run_id in ids}, query)
    for content in contents:
        assert {content["pool"][places["title"]] for places in content["views"]} == {"mnist_mlp on digits, 3 epochs"}
        assert len(content["views"]) > 3 and len(content["pairs"]) == 1
