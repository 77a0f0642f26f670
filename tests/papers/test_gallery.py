"""What trained models drew is published once, of one run per arm, and is shown where the raw runs are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fake
import pytest

from normbench.check import Check
from normbench.config import plan
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import gallery, publish
from normbench.runs import writing
from normbench.web import report

SVG, PAGE, PNG = b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<p>drawn", b"\x89PNG\r\n"
SPECS = plan.artifact_specs("ln2016/fig6", "smoke", 2, ["ln", "none", "train.batch_size=128"])
PLACE = Path("ln2016/fig6/smoke")
RECORDS = [
    {"epoch": epoch, "step": epoch, "split": split, "mode": mode, "nll": 2.0 / (1 + epoch), "error": 0.1}
    for epoch in (0, 20)
    for split, mode in (("train", "both"), ("test", "eval"))
]
FILES = {"one.svg": SVG, "two.html": PAGE, "three.png": PNG}


def published(results: Path) -> dict[str, dict[str, bytes]]:
    runs = [fake.record(spec, records=RECORDS) for spec in SPECS]
    publish.publish(artifacts.load("ln2016/fig6"), runs, "smoke", results)
    return dict(gallery.load(results / PLACE / gallery.NAME).runs)


def drew(results: Path, arm: str, seed: int, **drawn: bytes) -> str:
    (spec,) = (spec for spec in SPECS if (spec.arm, spec.seed) == (arm, seed))
    run = results / "runs" / "ln2016" / "fig6" / f"{arm}.s{seed}.{spec.id}"
    if not run.exists():
        fake.directory(run.parent, spec).rename(run)
    writing.RunDirectory(run).write_samples(FILES | drawn)
    return spec.id


def test_of_each_arm_the_lowest_seed_is_kept_and_shown_without_the_raw_runs(tmp_path: Path) -> None:
    first, second = drew(tmp_path, "ln", 1), drew(tmp_path, "none", 2)
    drew(tmp_path, "ln", 2)
    assert published(tmp_path) == {first: FILES, second: FILES}
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    before = (tmp_path / PLACE / gallery.NAME).read_bytes()
    assert published(tmp_path) == {first: FILES, second: FILES}
    page = report.build(tmp_path).index.with_name("ln2016-fig6-smoke.html")
    assert page.read_text().count("<figure><figcaption>") >= 6
    assert {path.read_bytes() for path in page.with_suffix("").iterdir()} >= {SVG, PNG}
    assert (tmp_path / PLACE / gallery.NAME).read_bytes() == before


def test_what_is_drawn_later_is_shown_here_and_not_published(tmp_path: Path) -> None:
    first = drew(tmp_path, "ln", 1)
    published(tmp_path)
    later = b"<svg>later</svg>"
    drew(tmp_path, "ln", 1, **{"later.svg": later})
    assert published(tmp_path) == {first: FILES}
    page = report.build(tmp_path).index.with_name("ln2016-fig6-smoke.html")
    assert later in {path.read_bytes() for path in page.with_suffix("").iterdir()}


def test_a_lower_seed_takes_the_place_and_who_left_none_has_none(tmp_path: Path) -> None:
    drew(tmp_path, "ln", 2)
    published(tmp_path)
    first = drew(tmp_path, "ln", 1)
    assert published(tmp_path).keys() == {first}
    assert gallery.of_arms([replace(fake.record(SPECS[0]), control="lr-low")], lambda run: FILES) == []


def test_samples_go_with_the_last_of_their_runs(tmp_path: Path) -> None:
    drew(tmp_path, "ln", 1)
    published(tmp_path)
    (tmp_path / PLACE / "runs.jsonl.gz").unlink()
    publish.publish(artifacts.load("ln2016/fig6"), [], "smoke", tmp_path)
    assert not (tmp_path / PLACE / gallery.NAME).exists()


def test_the_same_samples_are_the_same_bytes_and_too_many_end_before_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {f"{i:012x}": {"a.svg": bytes(range(200)) * (i + 1)} for i in range(4)}
    whole = gallery.packed(runs)
    assert whole == gallery.packed({run: dict(own) for run, own in runs.items()}) and whole.runs == runs
    assert gallery._unpacked(whole.content) == runs
    monkeypatch.setattr(gallery, "MOST", len(gallery.packed(dict(list(runs.items())[:3])).content))
    fewer = gallery.packed(runs)
    assert list(fewer.runs) == list(gallery._unpacked(fewer.content)) == list(runs)[:3]
    assert gallery.packed({}) == gallery.Gallery()


def test_any_damage_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / gallery.NAME
    content = gallery.packed({"0" * 12: FILES, "1" * 12: {"one.svg": SVG}}).content
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :])
        with pytest.raises(NormbenchError, match="is damaged") as caught:
            gallery.load(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(NormbenchError, match="is damaged"):
            gallery.load(path)


@pytest.mark.parametrize("name", ["../x.svg", "ID/../x.svg", "ID/.x.svg", "ID/x.exe", "x.svg", "ID/a/x.svg",
                                  "ID/x.svg\n", "ID\\x.svg", "/x.svg", "IDa/x.svg"])  # fmt: skip
def test_no_name_leads_out(name: str, tmp_path: Path) -> None:
    name = name.replace("ID", "0" * 12)
    (tmp_path / gallery.NAME).write_bytes(gallery._packed({name: SVG}))
    with pytest.raises(NormbenchError, match="is no sample"):
        gallery.load(tmp_path / gallery.NAME)


def test_a_file_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    many = {f"{'0' * 12}/{i}.svg": bytes(gallery.WITHIN) for i in range(gallery.UNPACKED // gallery.WITHIN + 1)}
    (tmp_path / gallery.NAME).write_bytes(gallery._packed(many))
    with pytest.raises(NormbenchError, match="unpacks to more than 32 MiB"):
        gallery.load(tmp_path / gallery.NAME)
    before = gallery._packed({"0" * 12 + "/x.svg": bytes(1 << 20)})[: -gallery.DIGITS]
    lying = before.replace((1 << 20).to_bytes(4, "little"), (9).to_bytes(4, "little"))
    (tmp_path / gallery.NAME).write_bytes(lying + gallery._sha256(lying))
    with pytest.raises(NormbenchError, match="is damaged"):
        gallery.load(tmp_path / gallery.NAME)


def test_damage_costs_no_page_and_check_names_it(tmp_path: Path) -> None:
    drew(tmp_path, "ln", 1)
    (found,) = published(tmp_path).items()
    path = tmp_path / PLACE / gallery.NAME
    assert not [f for f in Check(tmp_path).findings() if f.place == path]
    whole = path.read_bytes()
    for damage, kind in (
        (lambda: path.unlink(), "missing"),
        (lambda: path.write_bytes(gallery.packed({found[0]: {"one.svg": SVG}}).content), "damage"),
        (lambda: path.write_bytes(gallery.packed({"f" * 12: FILES}).content), "damage"),
    ):
        damage()
        assert [f.kind for f in Check(tmp_path).findings() if f.place == path] == [kind]
        path.write_bytes(whole)
    path.write_bytes(b"PK")
    (finding,) = [f for f in Check(tmp_path).findings() if f.place == path]
    assert finding.kind == "damage"
    made = report.build(tmp_path)
    assert made.index.with_name("ln2016-fig6-smoke.html").exists() and any(str(path) in note for note in made.notes)
    with pytest.raises(NormbenchError, match=r"samples\.zip is damaged"):
        published(tmp_path)
