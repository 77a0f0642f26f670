"""Bringing files: mirrors that are dead, hang, lie, break off or cannot continue; disks and processes in the way."""

from __future__ import annotations

import multiprocessing
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from idxfiles import contents

from normbench import data
from normbench.data import fetch
from normbench.errors import NormbenchError

IMAGES = "train-images-idx3-ubyte.gz"
CONF = Path(__file__).resolve().parents[2] / "conf" / "data"


class Mirror(ThreadingHTTPServer):
    """Serves the files below its own address; `answer`, where given, replaces the honest behaviour."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Handler, bytes], None] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = contents()
        self.answer = answer or Handler.honest
        self.asked: list[tuple[str, str | None]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mnist/"


class Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        self.server.asked.append((name, self.headers["Range"]))
        self.server.answer(self, self.server.files[name])

    def log_message(self, *args: Any) -> None:
        pass

    def start(self) -> int:
        """The first byte that is asked for."""
        return int((self.headers["Range"] or "bytes=0-")[6:-1])

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def honest(self, body: bytes) -> None:
        start = self.start()
        if start >= len(body) > 0:
            self.head(416, Content_Range=f"bytes */{len(body)}")
        elif start:
            last = f"bytes {start}-{len(body) - 1}/{len(body)}"
            self.head(206, Content_Length=len(body) - start, Content_Range=last)
            self.wfile.write(body[start:])
        else:
            self.whole(body)

    def whole(self, body: bytes) -> None:
        self.head(200, Content_Length=len(body))
        self.wfile.write(body)

    def html(self, body: bytes) -> None:
        self.whole(b"<!DOCTYPE html><html><body>Please sign in</body></html>")

    def missing(self, body: bytes) -> None:
        self.head(404, Content_Length=0)

    def hang(self, body: bytes) -> None:
        self.rfile.read(1)

    def hang_halfway(self, body: bytes) -> None:
        self.head(200, Content_Length=len(body))
        self.wfile.write(body[: len(body) // 2])
        self.rfile.read(1)

    def breaks_off(self, body: bytes) -> None:
        """Half of what is left at each request, until it is little."""
        start = self.start()
        left = len(body) - start
        self.head(
            206 if start else 200, Content_Length=left, Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}"
        )
        self.wfile.write(body[start : start + (left // 2 if left > 200 else left)])

    def breaks_off_without_range(self, body: bytes) -> None:
        self.head(200, Content_Length=len(body))
        self.wfile.write(body[: len(body) // 2])

    def chunked_breaks_off(self, body: bytes) -> None:
        self.protocol_version = "HTTP/1.1"
        self.head(200, Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body) // 2, body[: len(body) // 2]))
        self.close_connection = True

    def another_range(self, body: bytes) -> None:
        self.head(206, Content_Length=10, Content_Range=f"bytes 0-9/{len(body)}")
        self.wfile.write(body[:10])

    def endless(self, body: bytes) -> None:
        self.head(200)
        try:
            while True:
                self.wfile.write(b"\x1f\x8b" * 50_000)
        except OSError:
            pass

    def garbage(self, body: bytes) -> None:
        self.wfile.write(b"\0\xff not HTTP\r\n\r\n")


@pytest.fixture
def mirror() -> Iterator[Callable[..., Mirror]]:
    """Starts mirrors; each is closed at the end."""
    started: list[Mirror] = []

    def start(answer: Callable[[Handler, bytes], None] | None = None) -> Mirror:
        started.append(Mirror(answer))
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def dead() -> str:
    """The address of a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


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
    kept = (raw / "t10k-images-idx3-ubyte.gz").stat().st_mtime_ns
    server = mirror()
    assert fetch.get(config, raw.parents[1], mirrors=[server.url]) == [raw / IMAGES]
    assert [name for name, _ in server.asked] == [IMAGES]
    assert complete(raw, made)
    assert (raw / "t10k-images-idx3-ubyte.gz").stat().st_mtime_ns == kept


def test_embedded_set_needs_nothing(folder: Path) -> None:
    assert fetch.get(yaml.safe_load((CONF / "digits.yaml").read_text()), folder) == []
    assert not folder.exists()


def test_mirrors_of_the_set(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mirror()
    monkeypatch.setattr("normbench.data.mnist.mirrors", lambda: [server.url])
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
    fetch.get(config, folder, mirrors=[first.url, second.url], timeout=0.1)
    assert complete(folder, made)
    # The good mirror is asked first from then on.
    assert {name for name, _ in first.asked} == {IMAGES}
    assert time.monotonic() - started < 5


def test_dead_mirror_then_good_one(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], dead: str
) -> None:
    fetch.get(config, folder, mirrors=[dead, mirror().url])
    assert complete(folder, made)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Handler.html, r"127\.0\.0\.1:\d+/mnist/: wrong md5 \w{4}…, it is an HTML page"),
        (Handler.missing, "HTTP 404 Not Found"),
        (Handler.hang, "no answer for 0.1 s"),
        (Handler.hang_halfway, "no answer for 0.1 s"),
        (Handler.breaks_off_without_range, r"it broke off after \d+ of \d+ bytes"),
        (Handler.garbage, "not HTTP"),
    ],
)
def test_no_mirror_works(config: dict[str, Any], folder: Path, mirror: Any, dead: str, bad: Any, reason: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        fetch.get(config, folder, mirrors=[dead, mirror(bad).url], timeout=0.1)
    line, target = str(caught.value), folder / "MNIST" / "raw" / IMAGES
    assert caught.value.code == 2
    assert line.startswith(f"{IMAGES} could not be brought ({dead}: Connection refused; http://127.0.0.1:")
    assert re.search(reason, line)
    md5 = config["declares"]["files"][f"MNIST/raw/{IMAGES}"]
    assert line.endswith(f"Try again later, or bring it by hand: place it at {target} (md5 {md5}).")
    assert not [name for name in names(folder) if not name.endswith(".part")]


@pytest.mark.parametrize("address", ["nonsense", "http://", "ftp://127.0.0.1:1/", "http://[::/"])
def test_nonsense_address(config: dict[str, Any], folder: Path, address: str) -> None:
    with pytest.raises(NormbenchError, match="could not be brought"):
        fetch.get(config, folder, mirrors=[address], timeout=0.2)


def test_no_mirrors(config: dict[str, Any], folder: Path) -> None:
    with pytest.raises(NormbenchError, match="no mirrors"):
        fetch.get(config, folder, mirrors=[])


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


def test_goes_on_where_it_was_interrupted(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], part: Path
) -> None:
    part.write_bytes(made[IMAGES][:300])
    server = mirror()
    fetch.get(config, folder, mirrors=[server.url])
    assert complete(folder, made)
    assert server.asked[0] == (IMAGES, "bytes=300-")


def test_interrupted_just_before_the_rename(
    config: dict[str, Any], folder: Path, mirror: Any, made: dict[str, bytes], part: Path
) -> None:
    part.write_bytes(made[IMAGES])
    server = mirror()
    fetch.get(config, folder, mirrors=[server.url])
    assert complete(folder, made)
    assert IMAGES not in {name for name, _ in server.asked}


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
