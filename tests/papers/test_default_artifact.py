"""An artifact of one's own, a YAML alone in --config-dir: it is drawn, told, judged and found like any other."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import madeup
import pytest
import yaml

from normbench.draw import tables
from normbench.draw.style import COLOURS
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import default_artifact, publish, published
from normbench.papers.claims import Artifact
from normbench.papers.ours import today
from normbench.runs.run import Run
from normbench.web import report

CONTRAST = [[1, {"arm": "ln"}], [-1, {"arm": "none"}]]
NLL = {"split": "train", "mode": "eval", "metric": "nll"}
ERROR = {"split": "test", "mode": "eval", "metric": "error"}


@pytest.fixture
def own(tmp_path: Path) -> Artifact:
    """Claims of somebody's own on the runs of Fig. 6, one of each kind of endpoint that has a way of its own."""
    (tmp_path / "papers" / "me2030").mkdir(parents=True)
    endpoints = {
        "area": (NLL | {"kind": "area"}, "log"),
        "time": (NLL | {"kind": "time_to_level", "level": 0.5, "clock": "step"}, "log"),
        "best": (ERROR | {"kind": "chosen", "epoch": "best"}, "percent"),
        "last": (ERROR | {"kind": "final"}, "percent"),
        "nowhere": (
            {"kind": "time_to_level", "level": 0.5, "split": "dream", "mode": "eval", "metric": "error"},
            "log",
        ),
        "rise": (ERROR | {"kind": "time_to_level", "level": 0.005, "better": "higher"}, "log"),
        "elsewhere": ({"kind": "final", "split": "dream", "mode": "eval", "metric": "error"}, "percent"),
    }
    parts = [
        {"id": name, "endpoint": endpoint, "contrast": CONTRAST, "scale": scale, "unit": "points", "expect": "negative"}
        for name, (endpoint, scale) in endpoints.items()
    ]
    claim = {"id": "ME-1", "kind": "direction", "statement": "mine", "quote": "mine", "locator": "here"}
    told = {"title": "Mine · MNIST", "locator": "Fig. 1", "experiment": "ln2016/fig6", "seeds": 5}
    content = {"id": "me2030/net", **told, "deviations": {"paper": []}, "claims": [{**claim, "parts": parts}]}
    (tmp_path / "papers" / "me2030" / "net.yaml").write_text(yaml.safe_dump(content))
    return artifacts.read("me2030/net", tmp_path)


def test_the_figure_has_a_row_for_each_metric_and_a_column_for_each_place(own: Artifact) -> None:
    runs = madeup.runs()
    panels = default_artifact.panels(own, runs)
    rows = [(panel.quantity.name, panel.quantity.log, panel.quantity.x) for panel in panels]
    assert rows == [("Train NLL", True, "Update"), ("Test error", False, "Update")]  # one axis; nobody dreams
    assert {panel.column for panel in panels} == {"batch size 128"}  # batch size 4 has no runs
    assert {line.arm for line in panels[0].lines} == {run.arm for run in runs}
    both = default_artifact.panels(own, [*runs, replace(runs[0], axes={"train.batch_size": 4})])
    assert [panel.column for panel in both[:2]] == ["batch size 128", "batch size 4"]  # as the experiment has them


def test_an_arm_has_the_colour_of_its_normalizer(own: Artifact) -> None:
    norms = {"none": "none", "ln": "layer", "ln-all": "layer", "bn": "batch", "bn-all": "batch"}
    runs = [replace(run, config={"norm": {"name": norms[run.arm]}}) for run in madeup.runs()]
    looks = {line.arm: line.look.colour for line in default_artifact.panels(own, runs)[0].lines}
    assert looks["none"] == COLOURS["none"] and COLOURS["batch"] in (looks["bn"], looks["bn-all"])
    assert len(set(looks.values())) == len(looks)


def test_the_table_has_each_number_once_for_each_arm(own: Artifact) -> None:
    runs = madeup.runs()
    entries = default_artifact.table(own, runs)
    told = {entry.quantity: entry for entry in entries if entry.row == "ln"}
    assert list(told) == [
        "final train NLL (evaluation mode), geometric mean",  # of an area
        "updates to train NLL 0.5 (evaluation mode)",
        "test error at the best validation (evaluation mode)",
        "final test error (evaluation mode)",
        "epochs to dream error 0.5 (evaluation mode)",
        "epochs to test error 0.005 (evaluation mode)",
        "final dream error (evaluation mode)",
    ]
    own_runs = [run for run in runs if run.arm == "ln"]
    last = [record["error"] for run in own_runs for record in run.records
            if (record["epoch"], record["split"]) == (60, "test")]  # fmt: skip
    error = told["final test error (evaluation mode)"]
    assert (error.unit, error.n) == ("%", len(own_runs)) and error.mean == pytest.approx(100 * sum(last) / len(last))
    assert told["final dream error (evaluation mode)"].text() == "–"  # not "diverged"
    assert told["epochs to dream error 0.5 (evaluation mode)"].text() == "–"
    rise = told["epochs to test error 0.005 (evaluation mode)"]
    assert (rise.mean, rise.censored) == (0, 0)  # above it from the start, as errors are here, not below it at the end
    assert told["updates to train NLL 0.5 (evaluation mode)"].unit == "updates"
    lost = [replace(run, status="diverged", records=run.records[:4]) for run in runs]
    assert all(entry.diverged == 5 for entry in default_artifact.table(own, lost))
    assert tables.markdown(entries).count("\n| ln |") == 1


def test_runs_of_controls_have_tables_of_their_own_at_the_end(own: Artifact) -> None:
    content = yaml.safe_load(own.path.read_text())
    content["claims"][0] |= {"open": ["rate"], "controls": ["lr-low"]}
    own.path.write_text(yaml.safe_dump(content))
    runs = madeup.runs()
    low = [replace(run, control="lr-low") for run in runs if run.arm == "ln"]
    elsewhere = [replace(run, axes={"train.batch_size": 4}) for run in runs]
    found = tables.groups(
        default_artifact.table(artifacts.read("me2030/net", own.config_dir), [*low, *runs, *elsewhere])
    )
    assert found == ["batch size 128", "batch size 4", "control lr-low, batch size 128"]


def test_it_is_published_and_stands_in_the_report_under_its_own_name(own: Artifact, tmp_path: Path) -> None:
    assert artifacts.module(own) is None
    assert artifacts.select(["me2030"], tmp_path) == ["me2030/net"] and "me2030/net" not in artifacts.ids()
    results = tmp_path / "results"
    place = results / "own" / "me2030" / "net" / "paper"
    judged, *_ = publish.publish(artifacts.Plan(own, "paper"), madeup.runs(), results)
    assert {"figure.svg", "table.md"} <= {path.name for path in place.iterdir()}
    assert judged.command.startswith(f"normbench reproduce me2030/net --config-dir {tmp_path} --fidelity")
    index = report.build(results, config_dir=tmp_path).index
    assert "me2030" in index.read_text() and "Mine · MNIST" in index.read_text()
    page = (index.parent / "own-me2030-net-paper.html").read_text()
    assert published.read(place, config_dir=tmp_path).artifact == own and 'class="panel' in page
    unknown = report.build(results).index.read_text()  # as that of another version
    assert published.read(place).artifact is None and "me2030/net" in unknown


def test_what_the_contents_do_not_list_stands_behind_them(own: Artifact, tmp_path: Path) -> None:
    text = own.path.read_text()
    for name in ("me2030/other", "bln2022/fig9"):
        path = tmp_path / "papers" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("id: me2030/net", f"id: {name}"))
    papers = artifacts.papers(tmp_path)
    assert list(papers) == [*artifacts.papers(), "me2030"]
    assert papers["me2030"].title == "me2030" and papers["bln2022"].title.startswith("Batch Layer Normalization")
    assert [entry["artifact"] for entry in papers["me2030"].contents] == ["me2030/net", "me2030/other"]
    assert papers["bln2022"].contents[-1] == {"what": "Fig. 1", "title": "Mine · MNIST", "artifact": "bln2022/fig9"}
    with pytest.raises(NormbenchError, match="no experiment: a plot of usage statistics"):
        artifacts.select(["bln2022/fig1"], tmp_path)


def test_an_id_is_where_the_file_lies(own: Artifact) -> None:
    own.path.rename(own.path.with_stem("nets"))
    with pytest.raises(NormbenchError, match=r"nets\.yaml: id: me2030/net must be me2030/nets"):
        artifacts.load("me2030/nets", own.config_dir)


def test_a_shipped_artifact_is_not_replaced(own: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "papers" / "ln2016" / "fig6.yaml"
    path.parent.mkdir()
    path.write_text(own.path.read_text().replace("id: me2030/net", "id: ln2016/fig6"))
    with pytest.raises(NormbenchError, match=r"fig6\.yaml: there is a shipped artifact ln2016/fig6"):
        artifacts.load("ln2016/fig6", tmp_path)


def test_its_module_draws_what_it_computes(own: Artifact) -> None:
    module = own.path.with_suffix(".py")
    module.write_text("def table(artifact, runs):\n    return [artifact.id]\n")
    assert artifacts.table(own, []) == ["me2030/net"]
    assert artifacts.panels(own, madeup.runs()) == [], "a table alone"
    module.write_text("def caution(artifact, runs):\n    return artifact.id\n")
    assert artifacts.caution(own, []) == "me2030/net"
    assert artifacts.panels(own, madeup.runs()) and artifacts.table(own, []), "what its claims compare"


@pytest.mark.parametrize(
    ("content", "said"),
    [("def panels(a, r) return []", "SyntaxError"), ("import nowhere_at_all", "nowhere_at_all"), ("", "none of table"),
     ("def pannels(a, r): return []", "none of table")],
)  # fmt: skip
def test_a_broken_module_is_refused_before_anything_is_trained(own: Artifact, content: str, said: str) -> None:
    own.path.with_suffix(".py").write_text(content)
    with pytest.raises(NormbenchError, match=r"net\.py") as refused:
        artifacts.load("me2030/net", own.config_dir)
    assert said in str(refused.value) and "\n" not in str(refused.value)


# --- figures and tables that the file lists --------------------------------------------------------------------------

FIGURE = {
    "columns": {"large": {"train.batch_size": 128}},
    "lines": {
        "LN": {"cell": {"arm": "ln"}, "colour": "layer"},
        "wrong": {
            "cell": {"arm": "ln", "split": "test", "metric": "error"},
            "colour": "#123456",
            "ours": True,
            "panels": ["NLL"],
        },
    },
    "rows": [
        {"name": "NLL", "split": "train", "metric": "nll", "log": True},
        {"name": "Error, %", "split": "test", "metric": "error", "factor": 100, "clock": "step"},
    ],
}
COLUMNS = [
    {"name": "error", "endpoint": ERROR | {"kind": "final"}, "scale": "percent", "paper": {"LN": "1.5", "all": "9"}},
    {"name": "median", "endpoint": ERROR | {"kind": "final"}, "median": True, "rows": ["LN"]},
    {"name": "way", "endpoint": NLL | {"kind": "time_to_level", "level": {"share": 0.5, "of": "best"}}},
    {"name": "NLL", "endpoint": NLL | {"kind": "final"}, "scale": "log", "cell": {"split": "test"}, "unit": "nats"},
]
LEVEL = {"name": "way", "endpoint": NLL | {"kind": "time_to_level", "level": {"share": 0.5, "of": {"arm": "ln"}}}}


def listed(own: Artifact, **blocks: Any) -> Artifact:
    own.path.write_text(yaml.safe_dump(yaml.safe_load(own.path.read_text()) | blocks))
    return artifacts.read("me2030/net", own.config_dir)


def test_a_figure_has_the_lines_that_the_file_lists(own: Artifact) -> None:
    runs = madeup.runs()
    nll, error = artifacts.panels(listed(own, figure=FIGURE), runs)
    assert (nll.column, nll.quantity.x, error.quantity.x) == ("large", "Epoch", "Update")
    looks = [(line.look.name, line.look.colour, line.look.in_paper) for line in nll.lines]
    assert looks == [("LN", COLOURS["layer"], True), ("wrong", "#123456", False)]
    assert [line.look.name for line in error.lines] == ["LN"]
    wrong, percent = nll.lines[1].points[-1].mean, error.lines[0].points[-1].mean
    assert wrong is not None and wrong < 0.02 and percent == pytest.approx(100 * wrong), "each is of test errors"


def test_a_table_has_the_columns_that_the_file_lists(own: Artifact) -> None:
    runs = [run for run in madeup.runs() if run.arm in ("ln", "none")]
    rows = {"LN": {"arm": "ln"}, "all": {"arm": "none"}}
    table = [{"groups": {"large": {"train.batch_size": 128}}, "rows": rows, "columns": COLUMNS}]
    entries = artifacts.table(listed(own, table=table), runs)
    assert [(entry.group, entry.row, entry.quantity, entry.unit) for entry in entries] == [
        ("large", "LN", "error", "%"), ("large", "LN", "median", ""), ("large", "LN", "way", "epochs"),
        ("large", "LN", "NLL", "nats"),
        ("large", "all", "error", "%"), ("large", "all", "way", "epochs"), ("large", "all", "NLL", "nats"),
    ]  # fmt: skip
    assert [entry.paper for entry in entries if entry.quantity == "error"] == ["1.5", "9"]
    assert entries[1].text().count(",") == 4 and "seeds: " in entries[1].text()
    assert artifacts.panels(artifacts.read("me2030/net", own.config_dir), runs) == [], "a table alone"
    reduced = [replace(run, fidelity="reduced") for run in runs]
    assert not any(entry.paper for entry in artifacts.table(artifacts.read("me2030/net", own.config_dir), reduced))


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ({"figure": FIGURE | {"lines": {"LN": {"cell": {"arm": "ln"}, "colour": "layre"}}}}, "layre"),
        ({"figure": FIGURE | {"lines": {"LN": {"cell": {"arm": "ln"}, "panels": ["NNL"]}}}}, "NNL"),
        ({"table": [{"rows": ["ln"], "columns": [COLUMNS[0] | {"rows": ["lnn"]}]}]}, "lnn"),
        ({"table": [{"rows": ["ln"], "columns": []}]}, "columns"),
        ({"table": [{"rows": ["layer"], "columns": COLUMNS[2:]}]}, "'layer' is no arm of ln2016/fig6"),
        ({"table": [{"rows": ["none"], "columns": [LEVEL]}]}, "arm ln"),
    ],
)
def test_a_wrong_name_in_a_figure_or_table_is_refused(own: Artifact, blocks: dict[str, Any], said: str) -> None:
    own.path.write_text(yaml.safe_dump(yaml.safe_load(own.path.read_text()) | blocks))
    with pytest.raises(NormbenchError, match=r"net\.yaml") as refused:
        artifacts.load("me2030/net", own.config_dir)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_an_experiment_of_ones_own_is_told_from_an_artifact(tmp_path: Path):
    own = tmp_path / "experiment" / "mine" / "one.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("arms: {none: [norm=none]}\nfidelities: {smoke: {set: []}}\n")
    with pytest.raises(
        NormbenchError, match=r"mine/one is an experiment without claims: normbench train -m experiment="
    ):
        artifacts.select(["mine/one"], tmp_path)
    with pytest.raises(NormbenchError, match="mine/one is not an artifact"):
        artifacts.select(["mine/one"])


def test_computed_numbers_are_named_as_in_sentences():
    header, _ = tables.grid(default_artifact.table(artifacts.load("rbn2016/fig1"), []), "gain init 0.01")
    assert header[1:] == [
        "decades from the last step to the first", "derivative of tanh, expected", "derivative of tanh, largest rise",
    ]  # fmt: skip


# --- a scorecard whose arms have each a learning rate of their own ---------------------------------------------------


def _rated(arm: str, control: str, lr: float, values: list[float]) -> list[Run]:
    runs = []
    for seed, value in enumerate(values, 1):
        records = [
            {"epoch": n, "step": 10 * n, "split": split, "mode": "eval", "nll": value + (n != 1)}
            for n in (0, 1, 2)
            for split in ("valid", "test")
        ]
        config = {"optim": {"lr": lr}, "monitor": {"split": "valid", "metric": "nll", "goal": "min"}}
        place = {"control": control, "config": config, "records": records, "steps": 20}
        runs.append(Run(f"{arm}{control}{lr}{seed}", "e", arm, seed, "done", 2, **place))
    return runs


def test_each_arm_has_the_rate_that_validation_chooses() -> None:
    rates = [
        *_rated("mnist-none", "rate-low", 0.1, [3.0, 1.0]),
        *_rated("mnist-none", "rate-mid", 0.3, [1.5, 1.5]),
        *_rated("mnist-none", "rate-high", 0.9, [0.1, math.nan]),
    ]
    assert today.chosen(rates, "mnist-none", today.TASKS["mnist"]) == 0.3, "not the one that diverged"
    assert today.chosen(rates[:4], "mnist-none", today.TASKS["mnist"]) is None, "a rate has no runs yet"
    artifact = artifacts.load("ours/today")
    for lr, warned in ((0.3, False), (0.1, True)):
        runs = [*rates, *_rated("mnist-none", "", lr, [1.0, 2.0]), *_rated("mnist-layer", "", lr, [0.5, 1.0])]
        assert bool(today.caution(artifact, runs)) == warned
    less = [entry for entry in today.table(artifact, runs) if entry.row == "LN" and " less that of " in entry.quantity]
    assert [(entry.mean, entry.n) for entry in less] == [(-0.75, 2)]
