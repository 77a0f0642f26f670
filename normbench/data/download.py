"""A server's answer in blocks; the reader gets an error, and never hangs, whatever the server or the network does.

A thread asks the network, since name lookup and headers that come byte by byte can block without end and cannot be
interrupted; the reader waits for the thread with a timeout.
"""

from __future__ import annotations

import http.client
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from types import TracebackType
from typing import Any

CHUNK = 1 << 20
LEAST = 1000  # bytes per second, mean over the time of waiting for an answer
BLOCKS = 8  # that wait for their reader


class Failed(Exception):
    """Why there is no answer, or no more of it."""


class Answer:
    """A context that gives status and headers, and iterates over the content.

    `timeout`: seconds without a byte; within three times that the headers have to be there, and LEAST has to be met.
    `whole`: seconds for everything. Errors: Failed; urllib.error.HTTPError for another status.
    """

    def __init__(self, request: urllib.request.Request, timeout: float, whole: float) -> None:
        self.timeout, self.whole = timeout, whole
        self._ends = time.monotonic() + whole
        self._answers: queue.Queue[Any] = queue.Queue(BLOCKS)
        self._left = threading.Event()
        threading.Thread(target=self._ask, args=(request,), daemon=True).start()

    def __enter__(self) -> Answer:
        try:
            self.status, self.headers = self._next()
        except BaseException:
            self._left.set()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    status: int
    headers: Message

    def __iter__(self) -> Iterator[bytes]:
        since, count = time.monotonic(), 0
        while block := self._next():
            yield block
            count += len(block)
            if (seconds := time.monotonic() - since) > 3 * self.timeout:
                if count < LEAST * seconds:
                    raise Failed(f"less than {LEAST} bytes per second")
                since, count = time.monotonic(), 0

    def _next(self) -> Any:
        """The thread's next item."""
        left, patience = self._ends - time.monotonic(), 3 * self.timeout
        try:
            answer = self._answers.get(timeout=max(0.0, min(left, patience)))
        except queue.Empty:
            limit = (
                f"not done in {self.whole:g} s" if left < 3 * self.timeout else f"no answer for {3 * self.timeout:g} s"
            )
            raise Failed(limit) from None
        if isinstance(answer, urllib.error.HTTPError):
            raise answer
        if isinstance(answer, Exception):
            raise Failed(_reason(answer, self.timeout)) from answer
        return answer

    def _ask(self, request: urllib.request.Request) -> None:
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                self._put((response.status, response.headers))
                while not self._left.is_set() and (block := response.read1(CHUNK)):
                    self._put(block)
            self._put(b"")
        except Exception as error:  # of any kind: the reader raises it
            self._put(error)

    def _put(self, what: Any) -> None:
        while not self._left.is_set():
            try:
                return self._answers.put(what, timeout=0.2)
            except queue.Full:
                continue


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer for {timeout:g} s"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    if isinstance(cause, OSError | http.client.HTTPException | ValueError):
        return str(cause) or type(cause).__name__
    return f"{type(cause).__name__}: {cause}"
