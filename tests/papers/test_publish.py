"""Publishing: the pack's runs are judged only while they are the experiment's; files are whole or as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from normbench.config import compose, plan
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import publish
from normbench.runs import files, pack
from normbench.runs.record import RunRecord

ARTIFACT = artifacts.load("ln2016/fig6")


def _runs(*arms: str, seeds: int = 1) -> list[RunRecord]:
    """Runs with the ids that the smoke plan has, and curves made up here."""
    runs = []
    for spec in plan.artifact_specs("ln2016/fig6", "smoke", seeds, [*arms, "train.batch_size=128"]):
        records = [
            {"epoch": epoch, "step": epoch, "split": split, "mode": mode, "nll": 2.0 / (1 + epoch), "error": 0.1}
            for epoch in (0, 20)
            for split, mode in (("train", "both"), ("test", "eval"))
        ]
        config = compose.stored_form(spec.config)
        runs.append(
            RunRecord(id=spec.id, seed=spec.seed, status="done", epochs=20, records=records, config=config,
                      **spec.labels())
        )  # fmt: skip
    return runs


def _publish(runs: list[RunRecord], results: Path) -> tuple[dict, list[RunRecord], list[str]]:
    return publish.publish(ARTIFACT, runs, "smoke", results)


def test_n_never_falls(tmp_path: Path):
    _publish(_runs("ln", "none", seeds=2), tmp_path)
    _, runs, notes = _publish(_runs("bn-all"), tmp_path)
    assert sorted((run.arm, run.seed) for run in runs) == [
        ("bn-all", 1), ("ln", 1), ("ln", 2), ("none", 1), ("none", 2),
    ]  # fmt: skip
    assert notes == []


def test_runs_of_another_configuration_are_left_out_and_said(tmp_path: Path):
    place = publish.folder(tmp_path, "ln2016/fig6", "smoke")
    ln, none = _runs("ln", "none")
    pack.write(place / pack.NAME, [replace(ln, id="0" * 12), replace(none, arm="gone")])
    judged, runs, notes = _publish([], tmp_path)
    assert runs == [] and notes == ["2 published runs have another configuration by now: left out"]
    assert {claim["verdict"] for claim in judged["claims"]} == {"not run"}
    _, runs, _ = _publish([ln, none], tmp_path)  # trained anew: no clash with the stale ones
    assert sorted(run.id for run in runs) == sorted([ln.id, none.id])


def test_the_page_lists_amendments_once(tmp_path: Path):
    judged, _, _ = _publish(_runs("ln"), tmp_path)
    page = (publish.folder(tmp_path, "ln2016/fig6", "smoke") / "table.md").read_text()
    entry = judged["amendments"][0]
    assert f"first written down:\n\n- LN-F4: {entry['change']}. Why: the same experiment" in page
    assert "\n- LN-F1, LN-F1b, LN-F2, LN-F3, LN-F4: tanh and" in page, "one change of several claims"


def test_a_lost_figure_comes_back_and_nothing_else_is_touched(tmp_path: Path):
    place = publish.folder(tmp_path, "ln2016/fig6", "smoke")
    _publish(_runs("ln"), tmp_path)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    (place / "figure.svg").unlink()
    (place / "table.md").write_bytes(b"\xff\xfe")
    _publish([], tmp_path)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    assert {name: content for name, (content, _) in after.items()} == {n: content for n, (content, _) in before.items()}
    assert {name for name in after if after[name] != before[name]} == {"figure.svg", "table.md"}


def test_the_pack_is_written_last_and_a_failure_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = publish.folder(tmp_path, "ln2016/fig6", "smoke")
    written = []

    def fail_at_verdicts(path: Path, content: bytes) -> None:
        if path.name == "verdicts.json":
            raise OSError(28, "No space left on device")
        written.append(path.name)

    monkeypatch.setattr(files, "write_whole", fail_at_verdicts)
    _, _, notes = _publish(_runs("ln"), tmp_path)
    assert written == ["figure.svg", "table.md", "table.csv"] and "No space left" in notes[0]
    monkeypatch.undo()
    _publish(_runs("ln"), tmp_path)
    assert len(pack.read(place / pack.NAME)) == 1
    assert not list(place.glob(".*"))


@pytest.mark.parametrize("content", ["null", "[]", "{", "[" * 100_000, '{"schema": 1}'])
def test_damaged_verdicts_are_one_line(tmp_path: Path, content: str):
    _publish(_runs("ln"), tmp_path)
    path = publish.folder(tmp_path, "ln2016/fig6", "smoke") / "verdicts.json"
    path.write_text(content)
    with pytest.raises(NormbenchError, match=r"verdicts|previous"):
        _publish([], tmp_path)
    assert path.read_text() == content


def test_verdicts_have_the_promised_fields(tmp_path: Path):
    judged, _, _ = _publish(_runs("ln", "none", seeds=2), tmp_path)
    path = publish.folder(tmp_path, "ln2016/fig6", "smoke") / "verdicts.json"
    assert json.loads(path.read_text()) == judged
    assert set(judged) >= {"schema", "artifact", "fidelity", "command", "deviations", "claims_sha256", "expected_wrong"}
    fields = {"id", "kind", "quote", "locator", "endpoint", "verdict", "n", "effect", "unit", "interval", "level"}
    assert all(set(claim) >= fields | {"detectable", "runs"} for claim in judged["claims"])
