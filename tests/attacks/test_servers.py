"""Hostile servers: a mirror is left in time, whatever it sends, and the error line can be read."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from normbench.cli import main
from normbench.config import compose
from normbench.data import files
from normbench.errors import NormbenchError

BODY = b"x" * 3000
MD5 = "33d7ac42e3aa0f3146843833c23e4365"
Answer = Callable[[socket.socket], None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Answers each connection as told, in a thread each, until it is left."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def one(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(4096)
                    answer(connection)
                except OSError:
                    pass  # the other side has left

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)


def at_once(content: bytes) -> Answer:
    return lambda connection: connection.sendall(content)


HEAD = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)
ANSWERS: dict[str, tuple[Answer, str]] = {
    "a reason that steers": (at_once(b"HTTP/1.0 404 \x1b]0;owned\x07\x1b[31m\r\n\r\n"), "404"),
    "a header of a megabyte": (at_once(b"HTTP/1.0 200 OK\r\nX: " + b"y" * 10**6 + b"\r\n\r\n"), "header line"),
    "a status that is none": (at_once(b"HTTP/1.0 99999999 OK\r\n\r\n"), "HTTP/1.0 99999999"),
    "redirections in a circle": (at_once(b"HTTP/1.0 302 Found\r\nLocation: /x.gz\r\n\r\n"), "30 redirects"),
    "a redirection to a file": (
        at_once(b"HTTP/1.0 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
        "file:///etc/passwd",
    ),
}
LENGTHS = ["9" * 5000, "-1", "1e3", "\xb2", "0x10", "10 10", ""]


def config(*addresses: str) -> dict[str, object]:
    fetch = {"from": addresses, "files": {"x.gz": MD5}}
    return {"name": "digits", "declares": {"title": "digits", "fetch": fetch, "megabytes": 1}}


@pytest.mark.parametrize("how", ANSWERS)
def test_a_mirror_that_means_harm_is_left(how: str, tmp_path: Path) -> None:
    answer, reason = ANSWERS[how]
    with server(answer) as url, pytest.raises(NormbenchError, match=re.escape(reason)):
        list(files.fetch(config(url), tmp_path))
    assert not (tmp_path / "x.gz").exists()


@pytest.mark.parametrize("length", LENGTHS, ids=range(len(LENGTHS)))
def test_a_mirror_that_says_a_length_that_is_none_is_left(length: str, tmp_path: Path) -> None:
    answer = at_once(f"HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n".encode("latin-1") + BODY)
    with server(answer) as bad, server(at_once(HEAD + BODY)) as good:
        list(files.fetch(config(bad, good), tmp_path))
    assert (tmp_path / "x.gz").read_bytes() == BODY


def test_what_a_server_says_steers_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path))
    with server(ANSWERS["a reason that steers"][0]) as url:
        declares = (mnist := compose.choice("data", "mnist"))["declares"]
        mine = mnist | {"declares": declares | {"fetch": declares["fetch"] | {"from": [url]}}}
        monkeypatch.setattr(compose, "choice", lambda group, name, config_dir=None: mine)
        with pytest.raises(SystemExit) as ended:
            main(["data", "get", "mnist"])
    (line,) = capfd.readouterr().err.splitlines()
    assert ended.value.code == 2 and "404" in line and line.isprintable()
