"""Bringing files: mirrors that are dead, hang, lie, break off or cannot continue; disks and processes in the way."""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from servers import Handler

from normbench import data
from normbench.data import fetch
from normbench.errors import NormbenchError

IMAGES = "train-images-idx3-ubyte.gz"
CONF = Path(__file__).resolve().parents[2] / "conf" / "data"
HANGING = (Handler.hang, Handler.hang_halfway)  # only these are waited for: a busy machine answers late


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def names(folder: Path) -> list[str]:
    """The files that are not hidden."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def complete(folder: Path, made: dict[str, bytes]) -> bool:
    return {path.name: path.read_bytes() for path in folder.rglob("*.gz*")} == made


def test_all_files(config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes]) -> None:
    server, seen = mirror(), []
    brought = fetch.get(config, folder, mirrors=[server.url], progress=lambda *p: seen.append(p))
    assert [path.name for path in brought] == list(made)
    assert complete(folder, made)
    data.check(config, folder)
    assert {(name, done, total) for name, done, total in seen if done == total} == {
        (name, len(body), len(body)) for name, body in made.items()
    }
    # Nothing is asked for again.
    server.asked.clear()
    assert fetch.get(config, folder, mirrors=[server.url]) == []
    assert server.asked == []


def test_only_what_is_wrong(config: dict[str, Any], raw: Path, mirror: Any, made: dict[str, bytes]) -> None:
    (raw / IMAGES).write_bytes(b"<html>")
    stamp = (raw / "t10k-images-idx3-ubyte.gz").stat().st_mtime_ns
    server = mirror()
    assert fetch.get(config, raw.parents[1], mirrors=[server.url]) == [raw / IMAGES]
    assert [name for name, _ in server.asked] == [IMAGES]
    assert complete(raw, made)
    assert (raw / "t10k-images-idx3-ubyte.gz").stat().st_mtime_ns == stamp


def test_embedded_set_needs_nothing(folder: Path) -> None:
    assert fetch.get(yaml.safe_load((CONF / "digits.yaml").read_text()), folder) == []
    assert not folder.exists()


def test_mirrors_of_the_set(
    config: dict[str, Any], folder: Path, mirror: Any, dead: str, made: dict[str, bytes]
) -> None:
    config["declares"]["mirrors"] = [dead, mirror().url]
    fetch.get(config, folder)
    assert complete(folder, made)


@pytest.mark.parametrize(
    "bad",
    [
        Handler.html,
        Handler.missing,
        Handler.hang,
        Handler.hang_halfway,
        Handler.breaks_off_without_range,
        Handler.chunked_breaks_off,
        Handler.garbage,
    ],
)
def test_bad_mirror_then_good_one(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], bad: Any
) -> None:
    first, second = mirror(bad), mirror()
    started = time.monotonic()
    fetch.get(config, folder, mirrors=[first.url, second.url], timeout=1 if bad in HANGING else 20)
    assert complete(folder, made)
    # The good mirror is asked first from then on.
    assert {name for name, _ in first.asked} == {IMAGES}
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Handler.html, r"127\.0\.0\.1:\d+/mnist/: wrong md5 \w{4}…, it is an HTML page"),
        (Handler.missing, "404"),
        (Handler.hang, "timed out"),
        (Handler.hang_halfway, "timed out"),
        (Handler.breaks_off_without_range, r"IncompleteRead"),
        (Handler.garbage, ": "),
    ],
)
def test_no_mirror_works(config: dict[str, Any], folder: Path, mirror: Any, dead: str, bad: Any, reason: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        fetch.get(config, folder, mirrors=[dead, mirror(bad).url], timeout=0.1 if bad in HANGING else 20)
    line, target = str(caught.value), folder / "MNIST" / "raw" / IMAGES
    assert caught.value.code == 2
    assert line.startswith(f"{IMAGES} could not be brought ({dead}: Connection refused; http://127.0.0.1:")
    assert re.search(reason, line)
    md5 = config["declares"]["files"][f"MNIST/raw/{IMAGES}"]
    assert line.endswith(f"Try again later, or bring it by hand: place it at {target} (md5 {md5}).")
    assert not [name for name in names(folder) if not name.endswith(".part")]


@pytest.mark.parametrize("mirrors", [["nonsense"], ["http://"], ["ftp://127.0.0.1:1/"], ["http://[::/"], []])
def test_nonsense_addresses_or_none(config: dict[str, Any], folder: Path, mirrors: list[str]) -> None:
    with pytest.raises(NormbenchError, match="could not be brought" if mirrors else "no mirrors"):
        fetch.get(config, folder, mirrors=mirrors, timeout=0.2)


def test_connection_that_breaks_is_continued(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes]
) -> None:
    server = mirror(Handler.breaks_off)
    fetch.get(config, folder, mirrors=[server.url])
    assert complete(folder, made)
    ranges = [asked for name, asked in server.asked if name == IMAGES]
    assert ranges[0] is None and ranges[1] == f"bytes={len(made[IMAGES]) // 2}-"


@pytest.fixture
def part(folder: Path) -> Path:
    (folder / "MNIST" / "raw").mkdir(parents=True)
    return folder / "MNIST" / "raw" / f"{IMAGES}.part"


@pytest.mark.parametrize(("length", "asked"), [(300, [(IMAGES, "bytes=300-")]), (None, [])], ids=["halfway", "whole"])
def test_goes_on_where_it_was_interrupted(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], part: Path, length: Any, asked: list
) -> None:
    part.write_bytes(made[IMAGES][:length])
    server = mirror()
    fetch.get(config, folder, mirrors=[server.url])
    assert complete(folder, made)
    assert [found for found in server.asked if found[0] == IMAGES] == asked


@pytest.mark.parametrize("length", [100, 5_000], ids=["shorter", "longer"])
@pytest.mark.parametrize("answer", [Handler.honest, Handler.whole], ids=["range", "range-ignored"])
def test_bad_part_costs_a_whole_download_only(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], part: Path, length: int, answer: Any
) -> None:
    part.write_bytes(b"#" * length)
    server = mirror(answer)
    fetch.get(config, folder, mirrors=[server.url])
    assert complete(folder, made)


def test_another_range_than_asked_for(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], part: Path
) -> None:
    part.write_bytes(made[IMAGES][:300])
    fetch.get(config, folder, mirrors=[mirror(Handler.another_range).url, mirror().url])
    assert complete(folder, made)


def test_a_slow_mirror_is_left(config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes]) -> None:
    slow = mirror(Handler.drip).url
    with pytest.raises(NormbenchError, match="less than 1000 bytes per second"):
        fetch.get(config, folder, mirrors=[slow], timeout=0.2)
    fetch.get(config, folder, mirrors=[slow, mirror().url], timeout=0.5)
    assert complete(folder, made)


def test_the_deadline_holds_for_a_mirror_that_drips(config: dict[str, Any], mirror: Any, part: Path) -> None:
    started = time.monotonic()
    with pytest.raises(NormbenchError, match=f"{IMAGES} took too long"):
        fetch.get(config, part.parents[2], mirrors=[mirror(Handler.drip).url], deadline=0.3)
    assert time.monotonic() - started < 10 and part.stat().st_size, "the next call goes on there"


def test_endless_answer_is_cut(config: dict[str, Any], folder: Path, mirror: Any, part: Path) -> None:
    config["declares"]["megabytes"] = 1
    with pytest.raises(NormbenchError, match="it sent more than 2000000 bytes"):
        fetch.get(config, folder, mirrors=[mirror(Handler.endless).url])
    assert part.stat().st_size == 0


def test_folder_in_the_way(config: dict[str, Any], raw: Path, mirror: Any) -> None:
    (raw / IMAGES).unlink()
    (raw / IMAGES).mkdir()
    server = mirror()
    with pytest.raises(NormbenchError, match="is not a file but a folder"):
        fetch.get(config, raw.parents[1], mirrors=[server.url])
    assert server.asked == []


def test_unwritable_root(config: dict[str, Any], tmp_path: Path, mirror: Any) -> None:
    # A file in the folder's place stops root as well.
    (tmp_path / "data").write_text("")
    with pytest.raises(NormbenchError) as caught:
        fetch.get(config, tmp_path / "data", mirrors=[mirror().url])
    assert str(caught.value) == (
        f"MNIST cannot be written to {tmp_path / 'data'}: Not a directory. "
        "Make room or point NORMBENCH_DATA at a folder that you can write to."
    )


def test_disk_full(config: dict[str, Any], folder: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    first, second = mirror(), mirror()
    with pytest.raises(NormbenchError, match=r"cannot be written to .*: No space left on device"):
        fetch.get(config, folder, mirrors=[first.url, second.url])
    # The disk's fault is no reason to try another mirror, and leaves nothing under the final name.
    assert second.asked == []
    assert names(folder) == [f"{IMAGES}.part"]


def _get(config: dict[str, Any], folder: Path, url: str, results: Any) -> None:
    results.put(len(fetch.get(config, folder, mirrors=[url])))


def test_processes_at_once(config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes]) -> None:
    def slow(handler: Handler, body: bytes) -> None:
        handler.head(200, Content_Length=len(body))
        for byte in range(0, len(body), 200):
            handler.wfile.write(body[byte : byte + 200])
            time.sleep(0.01)

    server = mirror(slow)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_get, args=(config, folder, server.url, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    brought = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    # Each file came over the network once.
    assert sum(brought) == 4 and len(server.asked) == 4
    assert complete(folder, made)


def test_what_a_killed_call_left_of_a_whole_set_goes_with_the_next(tmp_path: Path) -> None:
    """It was killed after the last rename: nothing is missing, and nothing would ever have looked there again."""
    body = b"1\ta\tb\t2\tc\n"
    sums = {f"SICK_{part}.txt": hashlib.sha256(body).hexdigest() for part in ("train", "trial", "test_annotated")}
    made = {f"sentence_eval/sick_{part}.tsv": hashlib.sha256(body).hexdigest() for part in ("train", "trial", "test")}
    config = {"name": "sick", "declares": {"megabytes": 1, "files": made, "sources": {"files": sums}}}
    for name in made:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(body)
    sources = tmp_path / "source" / "sick"
    (sources / "prepared" / "sentence_eval").mkdir(parents=True)
    (sources / "SICK_train.txt").write_bytes(body)
    (sources / "SICK_trial.txt.part").write_bytes(body[:3])
    (sources / "notes.txt").write_text("of the user")
    assert fetch.get(config, tmp_path, mirrors=[]) == []
    assert {path.name for path in sources.iterdir()} == {"notes.txt", ".normbench.lock"}
    config["declares"]["sources"]["register"] = "https://example.org"
    (sources / "SICK_train.txt").write_bytes(body)
    (sources / "prepared").mkdir()
    fetch.get(config, tmp_path, mirrors=[])
    assert {path.name for path in sources.iterdir()} == {"notes.txt", ".normbench.lock", "SICK_train.txt"}
