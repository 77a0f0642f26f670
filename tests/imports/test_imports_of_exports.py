"""What `normbench export` wrote, imported: the same runs, and of published ones the same verdicts."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import logged
import madeup
import pytest

from normbench import imports
from normbench.errors import NormbenchError
from normbench.export import tables
from normbench.imports.map_keys import Map
from normbench.judge import verdicts
from normbench.papers import per_example_effects, publish, published, rules
from normbench.papers.published import Published
from normbench.runs import exported, imported, pack
from normbench.runs.record import RunRecord
from normbench.stored import IMPORT

RESULTS = Path(__file__).parents[2] / "results"
PLACES = [path.parent for path in pack.published(RESULTS)]
SMALL = RESULTS / "ln2016" / "fig5" / "reduced"
ID = re.compile("[0-9a-f]{12}")
WRITE = {"csv": tables.write_csv, "parquet": tables.write_parquet}
OF_BEST = "at the best validation"  # a CSV alone does not say which evaluation that is


def written(folder: Path, runs: list[RunRecord], form: str = "csv", contrasts: bytes = b"") -> Path:
    path = folder / f"curves.{form}"
    WRITE[form](runs, path)
    exported.write(path, runs, contrasts)
    return path


def alone(table: Path) -> Path:
    for what in (exported.RUNS, exported.CONTRASTS):
        exported.beside(table, what).unlink(missing_ok=True)
    return table


def judged(entry: Published, table: Path, results: Path) -> Any:
    """As the runs of an import are: from the pack that it writes, with the contrasts beside it."""
    read = imports.read([table], "x")
    imported.write(results, "x", read.runs, read.contrasts)
    path = imported.place(results, "x")
    runs = pack.read(path)
    contrasts = per_example_effects.load(path.with_name(per_example_effects.NAME))
    sha256s = entry.verdicts["pack_sha256"], contrasts, entry.verdicts.get("samples_sha256", "")
    content = publish.judge(entry.artifact, runs, entry.fidelity, entry.verdicts, *sha256s)
    assert all(run.logged and run.experiment == "imported/x" for run in runs)
    return with_first_ids(content, runs)


def with_first_ids(content: Any, runs: Sequence[RunRecord]) -> Any:
    """With the ids that runs had before their import."""
    text = json.dumps(content)
    for run in runs:
        text = text.replace(f'"{run.id}"', f'"{run.config[IMPORT]["run"]}"')
    return json.loads(text)


def sorted_runs(value: Any) -> Any:
    """Ids are listed in their order."""
    if isinstance(value, dict):
        return {key: sorted_runs(one) for key, one in value.items()}
    ids = isinstance(value, list) and value and all(isinstance(one, str) and ID.fullmatch(one) for one in value)
    return sorted(value) if ids else [*map(sorted_runs, value)] if isinstance(value, list) else value


def words(claims: list[dict[str, Any]]) -> dict[str, list[str]]:
    """By claim its setting, its verdict and the word of each part, also under the controls."""
    found = {}
    for claim in claims:
        parts = [part for one in (claim, *claim["controls"]) for part in one["parts"]]
        found[claim["id"]] = [claim["setting"], claim["verdict"], *(part["word"] for part in parts)]
    return found


def without_best(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The claims where no run says which of its evaluations is the best: those on it are not decidable."""
    claims = copy.deepcopy(claims)
    for one in [one for claim in claims for one in (claim, *claim["controls"])]:
        for part in one["parts"]:
            if OF_BEST in part["endpoint"] and part["word"] != rules.NOT_RUN:
                part["word"] = rules.NOT_DECIDABLE
                if one.get("setting") != rules.NOT_RUN:
                    one["setting"] = one["verdict"] = rules.NOT_DECIDABLE
    return claims


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=[] if place == SMALL else pytest.mark.slow) for place in PLACES],
    ids=lambda place: "-".join(place.parts[-3:]),
)
def test_published_runs_have_their_verdicts_after_a_round_trip(place: Path, tmp_path: Path) -> None:
    entry = published.read(place)
    contrasts = place / per_example_effects.NAME
    effects = contrasts.read_bytes() if contrasts.exists() else b""
    table = written(tmp_path, [*entry.runs], contrasts=effects)
    found = judged(entry, table, tmp_path / "whole")
    assert sorted_runs({**found, "sha256": ""}) == sorted_runs({**entry.verdicts, "sha256": ""})
    bare = judged(entry, alone(table), tmp_path / "bare")
    assert words(bare["claims"]) == words(without_best(entry.verdicts["claims"]))


def test_claims_about_logged_runs_are_judged_as_about_the_first_ones(tmp_path: Path) -> None:
    entry = published.read(SMALL)
    read = imports.read([written(tmp_path, [*entry.runs])], "x")
    found, first = (verdicts.judge(entry.artifact, runs) for runs in (read.runs, entry.runs))
    assert sorted_runs(with_first_ids(found, read.runs)) == sorted_runs(with_first_ids(first, []))


def odd() -> list[RunRecord]:
    """Two runs with all that a table of them can have, and names that look like numbers."""
    first, second, *_ = madeup.runs(1, epochs=2)
    place = {"step": 0, "epoch": 0.5, "split": "test", "mode": "exact"}
    records = [
        *first.records,
        {**place, "variant": {"populations": "TTFF", "momentum": 0.01}, "nll": "NaN", "seed": 1 / 3},
        {**place, "order": 3, "examples": 64, "nll": "Infinity"},
        {**place, "block": 2, "nll": "-Infinity", "norm": 5e-324},
    ]
    config = {"model": {"name": "mnist_mlp"}, "norm": {"name": "layer"}, "eval": {"also_at_best": ["TT"]}}
    config["monitor"] = {"split": "test", "metric": "error", "goal": "max"}
    changes: dict[str, Any] = {"arm": "1e-3", "control": "03", "axes": {"seed": 7, "train.rate": 0.1, "word": "no"}}
    changes |= {"status": "diverged", "reason": "nll is NaN", "config": config, "steps": 99}
    return [replace(first, id="0123456789e1", records=records, **changes), replace(second, arm="", seed=-4)]


@pytest.mark.parametrize("form", WRITE)
def test_a_run_comes_back_as_it_was(form: str, tmp_path: Path) -> None:
    runs = odd()
    read = imports.read([written(tmp_path, runs, form).parent], "x")
    back = {run.config[IMPORT]["run"]: run for run in read.runs}
    for run in runs:
        found = back[run.id]
        assert found == replace(run, id=found.id, experiment="imported/x", fidelity="logged", config=found.config)
        assert found.monitor == run.monitor and found.config.items() >= run.config.items()
        keys = run.arm, run.seed, run.control, run.axes
        assert found.id == imported.run_id("x", run.id, *keys)
    assert read.guessed == {"source": "export"} and read.notes == [] and read.map == Map(source="export")


def test_a_foreign_run_comes_back_with_its_clocks_and_what_its_map_declared(tmp_path: Path) -> None:
    about = {"clocks": ["epoch"], "hparams": {"lr": 0.1}, "counted": {"gaps": 2}}
    run = logged.run("ln", 1, about=about, metrics={"loss": {"goal": "min", "log": True}})
    (found,) = imports.read([written(tmp_path, [run])], "x").runs
    before, now = run.config[IMPORT], found.config[IMPORT]
    kept = before.keys() - {"name", "run", "source", "files", "map_sha256"}
    assert {key: now[key] for key in kept} == {key: before[key] for key in kept} and {*about, "metrics"} <= kept


@pytest.mark.parametrize("form", WRITE)
def test_a_table_alone_gives_labels_options_and_curves_and_says_what_it_lacks(form: str, tmp_path: Path) -> None:
    runs = odd()
    read = imports.read([alone(written(tmp_path, runs, form))], "x")
    back = {run.config[IMPORT]["run"]: run for run in read.runs}
    for run in runs:
        found = back[run.id]
        for name in ("records", "arm", "seed", "control", "status"):
            assert getattr(found, name) == getattr(run, name)
        assert found.axes.items() >= run.axes.items() and found.steps == run.records[-1]["step"]
        assert found.monitor["metric"] == ""
    assert len(read.notes) == 1 and "monitor" in read.notes[0]


def _of_another(table: Path) -> None:
    path = exported.beside(table, exported.RUNS)
    path.write_bytes(path.read_bytes().splitlines()[0] + b"\n")


def _damaged(table: Path) -> None:
    exported.beside(table, exported.RUNS).write_bytes(b'{"id": 3}\n')


def _no_columns(table: Path) -> None:
    alone(table).write_text("step,valid/loss\n1,2\n")


def _twins(table: Path) -> None:
    run = odd()[1]
    written(table.parent, [run, replace(run, id="f" * 12, fidelity="reduced")])


@pytest.mark.parametrize(
    "change, keys, names",
    [
        (_of_another, {}, "curves.runs.jsonl"),
        (_damaged, {}, "curves.runs.jsonl"),
        (_no_columns, {"source": "export"}, "curves.csv"),
        (_twins, {}, "fidelity=paper"),
        (lambda table: None, {"source": "export", "repeats": "last"}, "repeats"),
    ],
)  # fmt: skip
def test_what_is_no_export_is_refused(
    change: Callable[[Path], None], keys: dict[str, Any], names: str, tmp_path: Path
) -> None:
    table = written(tmp_path, odd())
    change(table)
    with pytest.raises(NormbenchError, match=names):
        imports.read([table], "x", Map.model_validate(keys))


def test_an_export_is_a_csv_like_any_other_with_a_map_of_one(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"source": "csv", "run": ["run"], "x": {"step": {"column": "step"}}, "blank": "missing"}
    keys |= {"labels": {"arm": {"column": "arm"}, "seed": {"column": "seed"}}, "repeats": "last"}
    keys["series"] = [{"column": "nll", "split": "test", "metric": "nll"}]
    runs = imports.read([written(tmp_path, madeup.runs(2))], "x", Map.model_validate(keys)).runs
    assert len(runs) == len(madeup.runs(2)) and {block.mode for run in runs for block in run.records.blocks} == {
        "logged"
    }


def test_effects_by_test_example_are_kept_for_their_runs_alone(tmp_path: Path) -> None:
    runs = madeup.runs(2)
    longer = [replace(run, steps=run.steps + 1) for run in runs[:3]]
    path = imported.place(tmp_path, "x").with_name(exported.CONTRASTS)
    for number, (own, kept) in enumerate([(runs[:3], True), (longer, True), (runs[:3], False), (runs[3:], False)]):
        read = imports.read([written(tmp_path / str(number), own, contrasts=b"effects")], "x")
        lines = imported.write(tmp_path, "x", read.runs, read.contrasts)
        assert path.exists() == kept and any("effects" in line for line in lines) != kept
