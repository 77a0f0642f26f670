"""What does not fit its hash, or has another schema, is refused in one line."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import fake
import pytest

from normbench.errors import Failed, NormbenchError
from normbench.runs import pack


@pytest.fixture(scope="module")
def runs() -> list:
    return [fake.record(spec) for spec in fake.specs(3)]


def refused(path: Path, text: str | bytes) -> str:
    path.write_bytes(gzip.compress(text.encode() if isinstance(text, str) else text))
    with pytest.raises(NormbenchError) as caught:
        pack.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_changed_digit_anywhere_in_a_pack_is_refused(runs: list, tmp_path: Path) -> None:
    """In records, configuration, labels, hashes and header: compressed again, so that gzip's own check fits."""
    path = tmp_path / pack.NAME
    text = gzip.decompress(pack.dump(runs[:1])).decode()
    assert "Restore it" in refused(path, text.replace("0.25", "0.26"))
    assert "Restore it" in refused(path, text.replace('"batch_size":210', '"batch_size":211'))
    assert "Restore it" in refused(path, text.replace('"arm":"mnist_mlp-none"', '"arm":"mnist_mlp-none1"'))
    for place, letter in enumerate(text):
        if letter.isdigit():
            refused(path, text[:place] + str((int(letter) + 1) % 10) + text[place + 1 :])


def test_lines_and_headers_that_do_not_belong_together_are_refused(runs: list, tmp_path: Path) -> None:
    path = tmp_path / pack.NAME
    header, *lines = gzip.decompress(pack.dump(runs)).decode().splitlines(keepends=True)
    other = gzip.decompress(pack.dump([*runs[:2], fake.record(fake.specs(4)[3])])).decode().splitlines(True)[0]
    for text in (header + "".join(lines[:2]), header + "".join([*lines, lines[0]]), other + "".join(lines),
                 header + "".join(reversed(lines)), "".join(lines)):  # fmt: skip
        refused(path, text)


def test_a_pack_that_is_cut_or_followed_by_something_is_refused(runs: list, tmp_path: Path) -> None:
    path, content = tmp_path / pack.NAME, pack.dump(runs)
    for damaged in (content[:-1], content[:-9], content[: len(content) // 2], b"", content + b"x", 2 * content):
        path.write_bytes(damaged)
        with pytest.raises(Failed) as caught:
            pack.read(path)
        assert "is damaged (its compressed content is cut short, or something follows it)" in str(caught.value)


@pytest.mark.parametrize(
    "schema, way, code",
    [
        (1, ". Restore it (git checkout), or delete it and publish again (normbench reproduce).", 4),
        (pack.SCHEMA + 1, ": update normbench.", 2),
    ],
)
def test_a_pack_of_another_schema_is_refused(schema: int, way: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / pack.NAME
    path.write_bytes(gzip.compress(b'{"schema": %d, "who": "knows"}\n' % schema))
    with pytest.raises(NormbenchError) as caught:
        pack.read(path)
    assert str(caught.value) == f"{path} has schema {schema}, this version reads {pack.SCHEMA}{way}"
    assert caught.value.code == code


def test_the_hash_of_a_pack_is_that_of_its_lines(runs: list, tmp_path: Path) -> None:
    path = tmp_path / pack.NAME
    pack.write(path, runs)
    header, body = gzip.decompress(path.read_bytes()).split(b"\n", 1)
    assert json.loads(header)["sha256"] == pack.hashlib.sha256(body).hexdigest() == pack.read(path).sha256


def test_a_published_pack_has_the_hash_that_it_was_published_with() -> None:
    """What this version reads it writes as it was: no field comes or goes without another schema."""
    path = Path(__file__).parents[2] / "results" / "ln2016" / "fig1" / "proxy" / pack.NAME
    with gzip.open(path) as file:
        head = json.loads(file.readline())
    assert pack.sha256(pack.read(path).runs) == head["sha256"]
    assert gzip.decompress(pack.dump(pack.read(path).runs)) == gzip.decompress(path.read_bytes())


def test_a_pack_says_when_its_runs_began_and_no_hash_depends_on_it(runs: list, tmp_path: Path) -> None:
    """Of those that know it."""
    path = tmp_path / pack.NAME
    dated = [replace(runs[0], began="2026-11-26T05:00:00Z"), replace(runs[1], began="2026-11-26T06:30:59Z"), runs[2]]
    pack.write(path, dated)
    before, after = (gzip.decompress(content).split(b"\n", 1) for content in (pack.dump(runs), path.read_bytes()))
    assert before[1] == after[1] and pack.read(path).sha256 == pack.sha256(runs)
    header = json.loads(after[0])
    assert header["began"] == {run.id: run.began for run in dated[:2]}
    by_id = {run.id: run.began for run in dated}
    assert {run.id: run.began for run in pack.read(path).runs} == by_id
    assert pack.dump(pack.read(path).runs) == path.read_bytes()


def test_a_run_cut_from_a_longer_one_is_packed_as_one_of_that_length() -> None:
    (longer,) = fake.specs(1, "train.epochs=4")
    (shorter,) = fake.specs(1, "train.epochs=2")
    ends = fake.record(longer).cut(shorter.steps)
    assert ends.cut_from == longer.steps
    own = fake.record(shorter, records=ends.records, seconds=None, config=ends.config)
    assert pack.sha256([ends]) == pack.sha256([own])


def test_a_pack_says_nothing_of_what_else_lies_published(runs: list) -> None:
    """The same runs are the same bytes on every machine."""
    filed = [replace(run, elsewhere=[("ln2016/fig5", "rnn")]) for run in runs]
    assert pack.dump(filed) == pack.dump(runs)
    axes = [{"b": 1, "a": 2}, {"b": 2, "a": 1}, {"b": 3, "a": 0}]  # in the experiment's order; read, in the alphabet's
    assert pack.dump([replace(run, axes=one) for run, one in zip(runs, axes, strict=True)]) == pack.dump(
        [replace(run, axes=dict(sorted(one.items()))) for run, one in zip(runs, axes, strict=True)]
    )
