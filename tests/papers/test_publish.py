"""Publishing: the pack's runs are judged only while they are the experiment's; files are whole or as they were."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from normbench.config import compose, plan
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import per_example_effects, publish, published, verdicts
from normbench.runs import files, pack
from normbench.runs.run import Run

ARTIFACT = artifacts.load("ln2016/fig6")
PLAN = artifacts.Plan(ARTIFACT, "reduced")


def _runs(*arms: str, seeds: int = 1) -> list[Run]:
    """Runs with the ids that the reduced plan has, and curves made up here."""
    runs = []
    for spec in plan.artifact_specs("ln2016/fig6", "reduced", seeds, [*arms, "train.batch_size=128"]):
        records = [
            {"epoch": epoch, "step": epoch, "split": split, "mode": mode, "nll": 2.0 / (1 + epoch), "error": 0.1}
            for epoch in (0, 20)
            for split, mode in (("train", "both"), ("test", "eval"))
        ]
        config = compose.stored_form(spec.config)
        runs.append(
            Run(id=spec.id, seed=spec.seed, status="done", epochs=20, records=records, config=config,
                      **spec.labels())
        )  # fmt: skip
    return runs


def _publish(runs: list[Run], results: Path) -> tuple[dict, list[Run], list[str]]:
    return publish.publish(PLAN, runs, results)[:3]


def test_n_never_falls(tmp_path: Path):
    _publish(_runs("ln", "none", seeds=2), tmp_path)
    _, runs, notes = _publish(_runs("bn-all"), tmp_path)
    assert sorted((run.arm, run.seed) for run in runs) == [
        ("bn-all", 1), ("ln", 1), ("ln", 2), ("none", 1), ("none", 2),
    ]  # fmt: skip
    assert notes == []


def test_runs_of_another_configuration_are_left_out_where_as_many_take_their_place(tmp_path: Path):
    place = publish.folder(tmp_path, ARTIFACT, "reduced")
    ln, none = _runs("ln", "none")
    pack.write(place / pack.NAME, [replace(ln, id="0" * 12), replace(none, arm="gone")])
    before = (place / pack.NAME).read_bytes()
    for found in ([], [ln]):  # an experiment that was edited by mistake; one that was trained anew in part
        judged, runs, (note,) = _publish(found, tmp_path)
        assert runs == found and {claim.reason for claim in judged.claims} == {"not run"}
        assert note.startswith("2 of 2 published runs have another configuration by now: left out. There are")
        assert "nothing is written" in note and f"delete {place} first" in note
        assert [path.name for path in place.iterdir()] == [pack.NAME] and (place / pack.NAME).read_bytes() == before
    _, runs, notes = _publish([ln, none], tmp_path)  # trained anew: no clash with the stale ones
    assert notes == ["2 of 2 published runs have another configuration by now: left out"]
    assert sorted(run.id for run in runs) == sorted([ln.id, none.id])
    assert sorted(run.id for run in pack.read(place / pack.NAME).runs) == sorted([ln.id, none.id])


def test_the_page_lists_amendments_once(tmp_path: Path):
    judged, _, _ = _publish(_runs("ln"), tmp_path)
    page = (publish.folder(tmp_path, ARTIFACT, "reduced") / "table.md").read_text()
    entry = judged.amendments[0]
    assert f"first written down:\n\n- LN-F4: {entry.change}. Why: the same experiment" in page
    assert "\n- LN-F1, LN-F1b, LN-F2, LN-F3, LN-F4: tanh and" in page, "one change of several claims"


def test_a_lost_figure_comes_back_and_nothing_else_is_touched(tmp_path: Path):
    place = publish.folder(tmp_path, ARTIFACT, "reduced")
    _publish(_runs("ln"), tmp_path)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    (place / "figure.svg").unlink()
    (place / "table.md").write_bytes(b"\xff\xfe")
    _publish([], tmp_path)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    assert {name: content for name, (content, _) in after.items()} == {n: content for n, (content, _) in before.items()}
    assert {name for name in after if after[name] != before[name]} == {"figure.svg", "table.md"}


def test_a_figure_is_drawn_again_unless_the_verdicts_name_its_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publish.page, "figure_of", lambda panels: b"drawn")
    place = publish.folder(tmp_path, ARTIFACT, "reduced")
    _publish(_runs("ln"), tmp_path)
    (place / "figure.svg").write_bytes(b"of matplotlib's next version")
    _publish([], tmp_path)
    assert (place / "figure.svg").read_bytes() == b"of matplotlib's next version"
    other = verdicts.sealed(published.read_verdicts(place / "verdicts.json"), "of another pack")
    (place / "verdicts.json").write_bytes(verdicts.as_file(other))
    _publish([], tmp_path)
    assert (place / "figure.svg").read_bytes() == b"drawn"


@pytest.mark.parametrize("last", range(5))
def test_whatever_was_written_last_the_same_command_goes_on(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk, or a kill, after so many of the files: no run is lost, no look is counted twice."""
    monkeypatch.setattr(publish.page, "figure_of", lambda panels: repr(panels).encode())  # drawing takes a second
    place = publish.folder(tmp_path, ARTIFACT, "reduced")
    few, many = _runs("ln"), _runs("ln", "none", seeds=2)
    wanted, _, _ = _publish(many, tmp_path / "calm")
    _publish(few, tmp_path)
    written: list[str] = []
    real = files.atomic_write

    def fail(path: Path, content: bytes) -> None:
        if len(written) == last:
            raise OSError(28, "No space left on device")
        written.append(path.name)
        real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, "atomic_write", fail)
        with pytest.raises(NormbenchError, match="No space left") as caught:
            _publish(many, tmp_path)
    assert caught.value.code == 4
    assert written == [pack.NAME, "figure.svg", "table.md", "table.csv", "verdicts.json"][:last]
    if last:
        with pytest.raises(NormbenchError, match=r"judged on another runs.* reproduce ln2016/fig6 --fidelity reduced"):
            published.read(place)
    again = [] if last else many  # from the first file on, the pack has them
    assert _publish(again, tmp_path)[0] == wanted == published.read(place).verdicts
    calm = publish.folder(tmp_path / "calm", ARTIFACT, "reduced")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        path.name: path.read_bytes() for path in calm.iterdir()
    }


def test_a_pack_of_another_schema_is_left_as_it_is(tmp_path: Path):
    path = publish.folder(tmp_path, ARTIFACT, "reduced") / pack.NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b'{"schema": 1}\n'))
    before = path.read_bytes()
    with pytest.raises(NormbenchError, match="has schema 1, this version reads 5"):
        _publish(_runs("ln"), tmp_path)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == [pack.NAME]


def _unpublished(results: Path, runs: list[Run]) -> Path:
    """Pack and verdicts without figure and tables: those take a second."""
    place = publish.folder(results, ARTIFACT, "reduced")
    pack.write(place / pack.NAME, runs)
    judged = publish.judge(PLAN, runs, None, pack.sha256(runs))
    (place / "verdicts.json").write_bytes(verdicts.as_file(judged))
    return place


def test_a_changed_digit_of_the_verdicts_is_refused_by_all_who_read_them(tmp_path: Path):
    path = _unpublished(tmp_path, _runs("ln", "none", seeds=2)) / "verdicts.json"
    whole = path.read_text()
    read = published.read(path.parent)
    assert read.verdicts.pack_sha256 == pack.sha256(read.runs) and len(read.runs) == 4
    digits = [place for place, letter in enumerate(whole) if letter.isdigit()]
    for place in (*digits[:70], *digits[70::20]):  # schema, seal, hash of the pack; and of the rest some
        path.write_text(whole[:place] + str((int(whole[place]) + 1) % 10) + whole[place + 1 :])
        for reader in (
            lambda: published.read_verdicts(path),
            lambda: publish.judge(PLAN, [], publish.last(path.parent)),
        ):
            with pytest.raises(NormbenchError) as caught:
                reader()
            assert str(path) in str(caught.value) and "\n" not in str(caught.value), place


@pytest.mark.parametrize("change", [{"words": []}, {"note": None}, {"deviations": "none"}], ids=str)
def test_verdicts_with_other_keys_or_types_are_refused_though_their_seal_fits(change: dict[str, Any], tmp_path: Path):
    path = _unpublished(tmp_path, _runs("ln")) / "verdicts.json"
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps(content | {"sha256": verdicts._seal(content)}))
    with pytest.raises(NormbenchError, match=rf"{path} is damaged \(.*Restore it"):
        published.read_verdicts(path)


def test_verdicts_of_another_pack_are_refused(tmp_path: Path):
    place = _unpublished(tmp_path, _runs("ln"))
    other = _unpublished(tmp_path / "other", _runs("none"))
    (place / "verdicts.json").write_bytes((other / "verdicts.json").read_bytes())
    with pytest.raises(NormbenchError, match="was judged on another runs"):
        published.read(place)
    (place / pack.NAME).unlink()
    with pytest.raises(NormbenchError, match="was judged on another runs"):
        published.read(place)


@pytest.mark.parametrize(
    "schema, way",
    [
        *((schema, r"\. Restore it \(git checkout\), or delete it and judge again: normbench reproduce ln2016/fig6 "
           "--fidelity reduced --max-time 0$") for schema in (0, 2)),
        (6, r": update normbench\.$"),
    ],
)  # fmt: skip
def test_verdicts_of_another_schema_are_refused_with_the_way_out(schema: int, way: str, tmp_path: Path):
    path = _unpublished(tmp_path, _runs("ln")) / "verdicts.json"
    content = {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}
    content["schema"] = schema
    path.write_text(json.dumps(content | {"sha256": files.seal(content)}))
    before = path.read_bytes()
    for reader in (lambda: published.read_verdicts(path), lambda: _publish(_runs("none"), tmp_path)):
        with pytest.raises(NormbenchError, match=f"{path} has schema {schema}, this version reads 5{way}") as caught:
            reader()
        assert caught.value.code == 2
    assert path.read_bytes() == before and len(pack.read(path.parent / pack.NAME).runs) == 1


def test_without_contrasts_verdicts_stay_until_the_runs_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publish.page, "figure_of", lambda panels: None)
    judged, _, _ = _publish(_runs("ln"), tmp_path)
    path = publish.folder(tmp_path, ARTIFACT, "reduced") / "verdicts.json"
    shipped = verdicts.sealed(replace(judged, note="with contrasts"), judged.pack_sha256, "a hash")
    path.write_bytes(verdicts.as_file(shipped))
    again, _, (note,) = _publish([], tmp_path)
    assert again == shipped and note.startswith(f"{path.with_name('contrasts.npz')}: it is not there")
    changed, _, (note,) = _publish(_runs("none"), tmp_path)
    assert changed.contrasts_sha256 == "" and "over the seeds alone" in note


@pytest.mark.parametrize("name, fidelity", [("ln2016/fig6", "paper"), ("ln2016/fig1", "reduced")])
def test_verdicts_that_were_moved_are_not_judged_against(name: str, fidelity: str, tmp_path: Path):
    path = _unpublished(tmp_path, _runs("ln")) / "verdicts.json"
    content = replace(published.read_verdicts(path), artifact=name, fidelity=fidelity)
    path.write_bytes(verdicts.as_file(verdicts.sealed(content, content.pack_sha256)))
    for reader in (lambda: published.read(path.parent), lambda: _publish([], tmp_path)):
        with pytest.raises(NormbenchError, match=rf"{path} is of {name} \({fidelity}\): it was moved"):
            reader()


def test_contrasts_that_no_part_asks_for_any_more_are_removed_and_damaged_ones_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(publish.page, "figure_of", lambda panels: None)
    path = _unpublished(tmp_path, _runs("ln")) / per_example_effects.NAME
    rows = {seed: (np.arange(4), np.arange(4.0)) for seed in (1, 2)}
    whole = per_example_effects.Contrasts({"0" * 16: rows}).dump()
    assert whole is not None
    for content in (b"", b"no archive", whole[:-30], whole.replace(b"PK", b"KP")):
        path.write_bytes(content)
        with pytest.raises(NormbenchError, match=r"contrasts\.npz is damaged") as caught:
            _publish([], tmp_path)
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    judged, _, _ = _publish([], tmp_path)
    assert judged.contrasts_sha256 == "" and not path.exists()
    assert published.read(path.parent).verdicts == judged
