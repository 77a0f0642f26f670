"""What trained models drew is published once, of one run per arm, and is shown where the raw runs are not."""

from __future__ import annotations

import io
import os
import random
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import fake
import pytest

from normbench.check import Check
from normbench.config import plan
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import publish, sample_archive
from normbench.runs import directory, samples
from normbench.runs.run import Run
from normbench.web import report

SVG, PAGE, PNG = b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<p>drawn", b"\x89PNG\r\n"
SPECS = plan.artifact_specs("ln2016/fig6", "reduced", 2, ["ln", "none", "train.batch_size=128"])
PLACE = Path("ln2016/fig6/reduced")
RECORDS = [
    {"epoch": epoch, "step": epoch, "split": split, "mode": mode, "nll": 2.0 / (1 + epoch), "error": 0.1}
    for epoch in (0, 20)
    for split, mode in (("train", "both"), ("test", "eval"))
]
FILES = {"one.svg": SVG, "two.html": PAGE, "three.png": PNG}


def published(results: Path) -> dict[str, dict[str, bytes]]:
    runs = [fake.record(spec, records=RECORDS) for spec in SPECS]
    publish.publish(artifacts.Plan(artifacts.load("ln2016/fig6"), "reduced"), runs, results)
    return dict(sample_archive.load(results / PLACE / sample_archive.NAME).runs)


def drew(results: Path, arm: str, seed: int, **drawn: bytes) -> str:
    (spec,) = (spec for spec in SPECS if (spec.arm, spec.seed) == (arm, seed))
    run = results / "runs" / "ln2016" / "fig6" / f"{arm}.s{seed}.{spec.id}"
    if not run.exists():
        fake.directory(run.parent, spec).rename(run)
    directory.RunDirectory(run).write_samples(FILES | drawn)
    return spec.id


def test_of_each_arm_the_lowest_seed_is_kept_and_shown_without_the_raw_runs(tmp_path: Path) -> None:
    first, second = drew(tmp_path, "ln", 1), drew(tmp_path, "none", 2)
    drew(tmp_path, "ln", 2)
    assert published(tmp_path) == {first: FILES, second: FILES}
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    before = (tmp_path / PLACE / sample_archive.NAME).read_bytes()
    assert published(tmp_path) == {first: FILES, second: FILES}
    page = report.build(tmp_path).index.with_name("ln2016-fig6-reduced.html")
    assert page.read_text().count("<figure><figcaption>") >= 6
    assert {path.read_bytes() for path in page.with_suffix("").iterdir()} >= {SVG, PNG}
    assert (tmp_path / PLACE / sample_archive.NAME).read_bytes() == before


def test_what_is_drawn_later_is_shown_here_and_not_published(tmp_path: Path) -> None:
    first = drew(tmp_path, "ln", 1)
    published(tmp_path)
    later = b"<svg>later</svg>"
    drew(tmp_path, "ln", 1, **{"later.svg": later})
    assert published(tmp_path) == {first: FILES}
    page = report.build(tmp_path).index.with_name("ln2016-fig6-reduced.html")
    assert later in {path.read_bytes() for path in page.with_suffix("").iterdir()}


def test_a_lower_seed_takes_the_place_and_who_left_none_has_none(tmp_path: Path) -> None:
    drew(tmp_path, "ln", 2)
    published(tmp_path)
    first = drew(tmp_path, "ln", 1)
    assert published(tmp_path).keys() == {first}
    assert sample_archive.of_arms([replace(fake.record(SPECS[0]), control="lr-low")], lambda run: FILES) == []


def test_samples_go_with_the_last_of_their_runs(tmp_path: Path) -> None:
    drew(tmp_path, "ln", 1)
    published(tmp_path)
    (tmp_path / PLACE / "runs.jsonl.gz").unlink()
    publish.publish(artifacts.Plan(artifacts.load("ln2016/fig6"), "reduced"), [], tmp_path)
    assert not (tmp_path / PLACE / sample_archive.NAME).exists()


def records(*arms: str, seed: int = 1) -> list[Run]:
    spec = SPECS[0]
    return [fake.record(spec, id=f"{ord(arm[0]):x}".zfill(12), arm=arm, seed=seed, axes={}) for arm in arms]


def test_the_same_samples_are_the_same_bytes_in_whatever_order_they_come() -> None:
    runs = records("a", "b", "c")
    found, left = sample_archive.collect(runs, lambda run: FILES, sample_archive.SampleArchive())
    again, _ = sample_archive.collect(
        runs[::-1], lambda run: dict(reversed(FILES.items())), sample_archive.SampleArchive()
    )
    assert found == again and found.sha256 == again.sha256 and not left
    assert sample_archive._unpacked(found.content) == found.runs == {run.id: FILES for run in runs}
    assert sample_archive.collect([], lambda run: FILES, found) == (sample_archive.SampleArchive(), [])


def test_what_is_published_keeps_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = {name: {"a.png": random.Random(name).randbytes(40_000)} for name in "abc"}
    monkeypatch.setattr(sample_archive, "MOST", 100_000)
    a, b, c = runs = records("a", "b", "c")
    drawn = {run.id: noise[run.arm] for run in runs}
    first, left = sample_archive.collect([b, c], drawn.get, sample_archive.SampleArchive())
    assert first.runs.keys() == {b.id, c.id} and not left
    again, left = sample_archive.collect(runs, drawn.get, first)
    assert again is first and left == [a], "neither pushed out nor packed anew"
    assert sample_archive.collect(runs, drawn.get, first)[0] is first
    monkeypatch.setattr(sample_archive, "UNPACKED", 50_000)
    fewer, left = sample_archive.collect(runs, drawn.get, sample_archive.SampleArchive())
    assert (fewer.runs.keys(), left) == ({a.id}, [b, c])
    assert sample_archive._unpacked(fewer.content) == fewer.runs


def test_any_damage_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / sample_archive.NAME
    content = sample_archive._packed({"0" * 12: FILES, "1" * 12: {"one.svg": SVG}})
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :])
        with pytest.raises(NormbenchError, match="is damaged") as caught:
            sample_archive.load(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(NormbenchError, match="is damaged"):
            sample_archive.load(path)


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """With the right hash."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.comment = bytes(sample_archive.DIGITS)
    before = content.getvalue()[: -sample_archive.DIGITS]
    return before + sample_archive._sha256(before)


@pytest.mark.parametrize("name", ["../x.svg", "ID/../x.svg", "ID/.x.svg", "ID/x.exe", "x.svg", "ID/a/x.svg",
                                  "ID/x.svg\n", "ID/a\nb.svg", "ID\\x.svg", "ID/a\\x.svg", "/x.svg",
                                  "IDa/x.svg"])  # fmt: skip
def test_no_name_leads_out(name: str, tmp_path: Path) -> None:
    (tmp_path / sample_archive.NAME).write_bytes(zipped({name.replace("ID", "0" * 12): SVG}))
    with pytest.raises(NormbenchError, match="is no sample"):
        sample_archive.load(tmp_path / sample_archive.NAME)


def test_a_name_that_cannot_be_written_everywhere_stays_with_its_run(tmp_path: Path) -> None:
    names = (b"a\\b.svg", b"a\xff.svg", b"a\nb.svg", b".a.svg", b"a.exe", b"whole.svg")
    run = tmp_path / "runs" / "x" / "ln.s1.000000000000"
    (run / "samples").mkdir(parents=True)
    for name in names:
        Path(os.fsdecode(os.fsencode(run / "samples") + b"/" + name)).write_bytes(SVG)
    assert samples._files(run) == {"whole.svg": SVG}


def test_a_file_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path, run = tmp_path / sample_archive.NAME, "0" * 12
    path.write_bytes(zipped({f"{run}/{i}.svg": bytes(1 << 19) for i in range(65)}))
    with pytest.raises(NormbenchError, match="unpacks to more than 32 MiB"):
        sample_archive.load(path)
    lying = zipped({f"{run}/x.svg": bytes(1 << 20)})[: -sample_archive.DIGITS]
    lying = lying.replace((1 << 20).to_bytes(4, "little"), (9).to_bytes(4, "little"))
    path.write_bytes(lying + sample_archive._sha256(lying))
    with pytest.raises(NormbenchError, match="is damaged"):
        sample_archive.load(path)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):  # of these all is unpacked, whatever size is said
        path.write_bytes(zipped({f"{run}/x.svg": SVG}, method))
        with pytest.raises(NormbenchError, match="packed by method"):
            sample_archive.load(path)
    path.write_bytes(zipped({}))
    with pytest.raises(NormbenchError, match="no samples"):
        sample_archive.load(path)


def test_damage_costs_no_page_and_check_names_it(tmp_path: Path) -> None:
    drew(tmp_path, "ln", 1)
    (found,) = published(tmp_path).items()
    path = tmp_path / PLACE / sample_archive.NAME
    assert not [f for f in Check(tmp_path).findings() if f.place == path]
    shutil.rmtree(tmp_path / "runs")
    whole = path.read_bytes()
    for damage, kind in (
        (lambda: path.unlink(), "missing"),
        (lambda: path.write_bytes(sample_archive._packed({found[0]: {"one.svg": SVG}})), "damage"),
        (lambda: path.write_bytes(sample_archive._packed({"f" * 12: FILES})), "damage"),
    ):
        damage()
        assert [f.kind for f in Check(tmp_path).findings() if f.place == path] == [kind]
        made = report.build(tmp_path)
        assert any("is gone, or not the one" in note for note in made.notes)
        assert "Drawn by" not in made.index.with_name("ln2016-fig6-reduced.html").read_text()
        path.write_bytes(whole)
    path.write_bytes(b"PK")
    (finding,) = [f for f in Check(tmp_path).findings() if f.place == path]
    assert finding.kind == "damage"
    made = report.build(tmp_path)
    assert made.index.with_name("ln2016-fig6-reduced.html").exists() and any(str(path) in note for note in made.notes)
    with pytest.raises(NormbenchError, match=r"samples\.zip is damaged"):
        published(tmp_path)
