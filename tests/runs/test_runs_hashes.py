"""What does not fit its hash is refused in one line; runs of the older form are read, and keep their old hash."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake
import pytest

from normbench.errors import NormbenchError
from normbench.runs import curve_file, find, pack, store, upgrade, writing
from normbench.runs.record import curve_sha256


@pytest.fixture(scope="module")
def runs() -> list:
    return [fake.record(spec) for spec in fake.specs(3)]


@pytest.fixture
def changed_form(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[dict]]:
    """As if records of form 2 had a number more than those of form 1."""

    def record(old: Any) -> dict:
        return dict(old) | {"way": len(old["mode"])}

    monkeypatch.setattr(upgrade, "record", record)
    pack._opened.cache_clear()
    return lambda old: list(map(record, old))


def refused(path: Path, text: str | bytes) -> str:
    path.write_bytes(gzip.compress(text.encode() if isinstance(text, str) else text))
    with pytest.raises(NormbenchError) as caught:
        pack.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_changed_digit_anywhere_in_a_pack_is_refused(runs: list, tmp_path: Path) -> None:
    """In records, configuration, labels, hashes and header: compressed again, so that gzip's own check fits."""
    path = tmp_path / pack.NAME
    text = gzip.decompress(pack.dump(runs[:1], {"schema": 1, "sha256": "5" * 64})).decode()
    assert "Restore it" in refused(path, text.replace('"nll": 0.25', '"nll": 0.26'))
    assert "Restore it" in refused(path, text.replace('"batch_size": 210', '"batch_size": 211'))
    assert "Restore it" in refused(path, text.replace('"arm": "mnist_mlp-none"', '"arm": "mnist_mlp-none1"', 1))
    for place, letter in enumerate(text):
        if letter.isdigit():
            refused(path, text[:place] + str((int(letter) + 1) % 10) + text[place + 1 :])


def test_lines_and_headers_that_do_not_belong_together_are_refused(runs: list, tmp_path: Path) -> None:
    path = tmp_path / pack.NAME
    header, *lines = gzip.decompress(pack.dump(runs)).decode().splitlines(keepends=True)
    other = gzip.decompress(pack.dump([*runs[:2], fake.record(fake.specs(4)[3])])).decode().splitlines(True)[0]
    assert "its header says 3 runs, it has 2" in refused(path, header + "".join(lines[:2]))
    assert "its header says 3 runs, it has 4" in refused(path, header + "".join([*lines, lines[0]]))
    assert "do not have the hash in its header" in refused(path, other + "".join(lines))
    assert "do not have the hash in its header" in refused(path, header + "".join(reversed(lines)))
    refused(path, "".join(lines))
    swapped = json.loads(lines[0]) | {"records": fake.lines(2, 0.4)}
    path.write_bytes(fake.sealed_pack([json.dumps(swapped)]))
    with pytest.raises(NormbenchError, match=f"line 2: the records of run {runs[0].id} do not have its curve_sha256"):
        pack.read(path)


def test_a_pack_of_a_newer_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / pack.NAME
    assert refused(path, '{"schema": 3, "who": "knows"}\n') == (
        f"{path} has schema 3, this version reads 1 to 2: update normbench."
    )


def test_the_hash_of_a_pack_is_that_of_its_lines_and_of_a_curve_that_of_its_file(runs: list, tmp_path: Path) -> None:
    path, directory = tmp_path / pack.NAME, fake.directory(tmp_path / "runs", fake.specs(1)[0])
    pack.write(path, runs)
    header, body = gzip.decompress(path.read_bytes()).split(b"\n", 1)
    assert json.loads(header)["sha256"] == pack.hashlib.sha256(body).hexdigest() == pack.load(path).sha256
    assert json.loads(body.splitlines()[0])["curve_sha256"] == curve_file.sha256(directory / "curve.jsonl")
    assert pack.load(tmp_path / "none.gz") == pack.Pack()


# --- the older form --------------------------------------------------------------------------------------------------


def test_an_old_pack_is_read_and_has_the_hash_that_it_gets_when_it_is_written_anew(runs: list, tmp_path: Path) -> None:
    path = tmp_path / pack.NAME
    path.write_bytes(fake.old_pack(runs))
    old = pack.load(path)
    assert (list(old.runs), old.schema) == (runs, 1) and all(run.was == {} for run in old.runs)
    text = gzip.decompress(path.read_bytes())
    assert old.was == {"schema": 1, "sha256": pack.hashlib.sha256(text).hexdigest()}
    path.write_bytes(pack.dump(old.runs, old.was))
    new = pack.load(path)
    assert (new.runs, new.sha256, new.schema, new.was) == (old.runs, old.sha256, 2, old.was)
    refused(path, text.replace(b'"schema": 1', b'"schema": 0', 1))


def test_runs_whose_records_change_keep_the_old_hash_beside_the_new(
    changed_form: Callable[[Any], list[dict]], runs: list, tmp_path: Path
) -> None:
    path = tmp_path / pack.NAME
    path.write_bytes(fake.old_pack(runs))
    specs = fake.specs(3)
    fake.directory(tmp_path / "runs", specs[0], schema=1)
    from_pack, from_disk = pack.read(path)[0], find.find(specs[:1], tmp_path).records[specs[0].id]
    for run in (from_pack, from_disk):
        assert run.records == changed_form(fake.lines(2))
        assert run.was == {"schema": 1, "curve_sha256": curve_sha256(fake.lines(2))}
        assert run.cut(6).was == {}, "that hash is the whole curve's"
    pack.write(path, [from_disk])
    (again,) = pack.read(path)
    assert (again, again.was) == (from_disk, from_disk.was)
    line = json.loads(gzip.decompress(path.read_bytes()).splitlines()[1])
    assert line["curve_sha256"] == curve_sha256(changed_form(fake.lines(2))) != line["was"]["curve_sha256"]


def test_an_old_run_is_checked_before_it_is_brought_to_the_new_form(
    changed_form: Callable[[Any], list[dict]], tmp_path: Path
) -> None:
    (spec,) = fake.specs(1)
    curve = fake.directory(tmp_path / "runs", spec, schema=1) / "curve.jsonl"
    curve.write_text(curve.read_text().replace("0.5", "0.4"))
    (damaged,) = find.find([spec], tmp_path).damaged
    assert "does not have the hash" in damaged.reason


def test_an_old_curve_that_is_not_of_its_form_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(old: Any) -> dict:
        raise ValueError("no such way")

    monkeypatch.setattr(upgrade, "record", refuse)
    (spec,) = fake.specs(1)
    fake.directory(tmp_path / "runs", spec, schema=1)
    (damaged,) = find.find([spec], tmp_path).damaged
    assert damaged.reason == "curve.jsonl line 1 of 5 is not a record: no such way"


def test_a_status_says_the_form_of_the_curve_beside_it(tmp_path: Path) -> None:
    (spec,) = fake.specs(1)
    run = writing.RunDirectory(fake.directory(tmp_path, spec, "interrupted", schema=1))
    run.write_status("failed", reason="no data")
    assert store.read_status(run.path)["schema"] == 1, "its curve is the old one still"
    run.drop_unfinished()
    run.write_status("running")
    assert store.read_status(run.path)["schema"] == store.SCHEMA
