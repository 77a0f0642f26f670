"""A small HTTP server that serves files well, or badly in one of many ways."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Mirror(ThreadingHTTPServer):
    """Serves files by their names below its own address; `answer`, where given, replaces the honest behaviour."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], answer: Callable[[Handler, bytes], None] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.answer = answer or Handler.honest
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mnist/"


class Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        self.server.asked.append(name)
        self.server.answer(self, self.server.files[name])

    def log_message(self, *args: Any) -> None:
        pass

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def honest(self, body: bytes) -> None:
        self.head(200, Content_Length=len(body))
        self.wfile.write(body)

    def html(self, body: bytes) -> None:
        self.honest(b"<!DOCTYPE html><html><body>Please sign in</body></html>")

    def missing(self, body: bytes) -> None:
        self.head(404, Content_Length=0)

    def hang_halfway(self, body: bytes) -> None:
        self.head(200, Content_Length=len(body))
        self.wfile.write(body[: len(body) // 2])
        self.rfile.read(1)

    def breaks_off(self, body: bytes) -> None:
        self.head(200, Content_Length=len(body))
        self.wfile.write(body[: len(body) // 2])
