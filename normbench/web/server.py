"""The dashboard's server: reads through an index, answers GET and HEAD on this machine to holders of its token.

Other users of the machine can reach the port, and any page in a browser can send requests to it. So every request
needs the cookie that the printed link sets, a host name of this machine, and no other site as its origin. No part of
a request becomes part of a path: runs are looked up in the index, samples in the run's list.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import hmac
import io
import math
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from normbench import reading
from normbench.compare.answer import Answer
from normbench.compare.suggested_seeds import suggested_commands
from normbench.draw.text import visible
from normbench.errors import NormbenchError
from normbench.runs import samples
from normbench.runs.record import RunRecord
from normbench.web import share as pages
from normbench.web import view as views
from normbench.web.index import Index
from normbench.web.json_safe import dumped

HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
SCRIPT_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAMPLE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
TAIL, LINES = 16 << 10, 40  # bytes and lines at the end of output.log
PAUSE = 0.5  # s between two looks at the runs
SLOWEST = 1.5  # s, the longest pause where a look takes long
BEAT = 15.0  # s without news until a comment checks the connection
MOST_NEWS = 200  # runs by id in one event
MOST_ADDRESSES = 64  # addresses whose run ids are cached


def app(
    index: Index,
    token: str,
    ending: Callable[[], bool] = lambda: False,
    commands: Callable[[Answer], Sequence[str]] = suggested_commands,
) -> Starlette:
    """The application, open to holders of `token`. `ending`: whether event streams are to end.

    commands: makes the commands that would decide the open comparisons of an answer.
    """
    service = _Service(index, ending, commands)
    routes = {
        "/": service.page,
        "/static/{name}": service.static,
        "/api/view": service.view,
        "/api/run": service.run,
        "/api/sample": service.sample,
        "/api/share": service.share,
        "/api/csv": service.csv,
        "/api/events": service.events,
    }
    made = Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: _http_error, NormbenchError: _bad_input, Exception: _failed},
    )
    made.router.redirect_slashes = False  # other paths are 404
    return made


# --- who may ask -----------------------------------------------------------------------------------------------------


class Guard:
    """Admits requests of the user's browser alone; sets the headers of all responses."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self.inner, self.token = inner, token
        # unique to this server: a browser sends cookies to every port of a host
        self.cookie = f"normbench-{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", PAGE_POLICY)
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
            await send(message)

        if scope["method"] in ("GET", "HEAD"):
            answer = self.refusal(HTTPConnection(scope))
        else:
            answer = _text(405, "Only GET and HEAD are answered.")
            answer.headers["Allow"] = "GET, HEAD"
        await (answer or self.inner)(scope, receive, sealed)

    def refusal(self, request: HTTPConnection) -> Response | None:
        """The response to a request that is not admitted; None for the others."""
        if len(request.headers.getlist("host")) != 1 or not HOST.fullmatch(request.headers["host"]):
            return _text(403, "This server answers to localhost and 127.0.0.1 only.")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _text(403, "Requests from other sites are not answered.")
        admitted = self.knows(request.cookies.get(self.cookie, ""))
        given = request.query_params.getlist("token")
        if given and (admitted or (len(given) == 1 and self.knows(given[0]))):
            rest = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
            place = f"/{request.url.path.lstrip('/')}"  # two slashes begin another host's address
            answer = RedirectResponse(f"{place}{'?' if rest else ''}{urlencode(rest)}", 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return answer
        return None if admitted else _text(403, "Open the link that normbench dashboard printed.")

    def knows(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def _text(status: int, line: str) -> Response:
    return PlainTextResponse(visible(" ".join(line.split())) + "\n", status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _text(error.status_code, error.detail)


async def _bad_input(request: Request, error: Exception) -> Response:
    return _text(400, str(error))


async def _failed(request: Request, error: Exception) -> Response:
    return _text(500, f"{type(error).__name__}. What the terminal shows says where; the page may be loaded again.")


# --- endpoints -------------------------------------------------------------------------------------------------------


class _Service:
    """The endpoints and their common state."""

    def __init__(self, index: Index, ending: Callable[[], bool], commands: Callable[[Answer], Sequence[str]]) -> None:
        self.index, self.ending, self.commands = index, ending, commands
        self.looked, self.took = -math.inf, 0.0  # when the runs were last looked at, and how long that took
        self.looking = asyncio.Lock()
        self.ids: OrderedDict[str, frozenset[str]] = OrderedDict()  # the runs loaded for an address

    async def page(self, request: Request) -> Response:
        return Response(pages.page(), media_type="text/html; charset=utf-8")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            content = await run_in_threadpool(pages.static, name)
        except KeyError:
            raise HTTPException(404, "There is no such file.") from None
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers | {"Content-Type": SCRIPT_TYPES[Path(name).suffix]})

    async def view(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.asked, _query(request)))

    def asked(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The view of an address, with the notes of the index."""
        self.index.refresh()
        loaded: set[str] = set()

        def load(ids: Sequence[str]) -> Mapping[str, RunRecord]:
            loaded.update(ids)
            return self.index.load(ids)

        content = views.view(self.index.heads(), load, query, self.commands)
        self.ids[urlencode(sorted(query.items()))] = frozenset(loaded)
        while len(self.ids) > MOST_ADDRESSES:
            self.ids.popitem(last=False)
        return {**content, "notes": [*content.get("notes", ()), *map(visible, self.index.notes())]}

    async def run(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.describe_run, request.query_params.get("id", "")))

    def describe_run(self, run_id: str) -> dict[str, Any]:
        """One run without its curve."""
        path = self.index.source(run_id)
        head = next((head for head in self.index.heads() if head.id == run_id), None)
        if path is None or head is None:
            raise HTTPException(404, "There is no such run.")
        labels = ("id", "experiment", "arm", "seed", "control", "fidelity", "axes", "epochs", "steps", "seconds")
        try:
            output, names = _tail(path), samples.names(path)
        except OSError:  # damaged
            output, names = [], []
        return {
            "labels": {label: getattr(head, label) for label in labels},
            "config": head.config,
            "state": head.status,
            "reason": head.reason,
            "output": output,
            "samples": names,
            "source": str(path),
        }

    async def sample(self, request: Request) -> Response:
        asked = request.query_params
        content, kind = await run_in_threadpool(self.read_sample, asked.get("id", ""), asked.get("name", ""))
        return Response(content, headers={"Content-Type": kind, "Content-Security-Policy": SAMPLE_POLICY})

    def read_sample(self, run_id: str, name: str) -> tuple[bytes, str]:
        """A sample in the run's list."""
        path = self.index.source(run_id)
        try:
            if path is not None and name in samples.names(path):
                return samples.read(path, name), samples.TYPES[Path(name).suffix]
        except OSError:
            pass
        raise HTTPException(404, "There is no such sample.")

    async def share(self, request: Request) -> Response:
        def made() -> bytes:
            self.index.refresh()
            return pages.share(self.index.heads(), self.index.load, _query(request))

        return _file(await run_in_threadpool(made), "text/html; charset=utf-8", "normbench-comparison.html")

    async def csv(self, request: Request) -> Response:
        """The table as CSV. It cannot contain notes, so a question that does not fit is an error."""
        query = _query(request)
        content = await run_in_threadpool(self.asked, query)
        decides = ("filter", "task", *views.ASKED)
        if content["notes"] and any(query.get(key) and content["query"].get(key) != query[key] for key in decides):
            raise NormbenchError(content["notes"][0])
        return _file(table(content.get("answer")), "text/csv; charset=utf-8", "normbench-comparison.csv")

    # --- news ---------------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """`changed` with the ids and states of runs in view that have more records, or another state, or are new."""
        key = urlencode(sorted(_query(request).items()))
        headers = {"X-Accel-Buffering": "no", "Content-Type": "text/event-stream; charset=utf-8"}
        if request.method == "HEAD":
            return Response(headers=headers)
        return StreamingResponse(self.news(key), headers=headers)

    async def news(self, key: str) -> AsyncIterator[bytes]:
        yield b": live\n\n"
        token, ids = self.index.token, {head.id for head in self.index.heads()}
        beat = time.monotonic()
        while not self.ending():
            await asyncio.sleep(min(SLOWEST, max(PAUSE, 5 * self.took)))
            await self.look()
            token, changed = self.index.changed_since(token)
            in_view = self.ids.get(key) or ids
            changed = [run for run in changed if run in in_view or run not in ids]
            if changed:
                states = {head.id: head.status for head in self.index.heads()}
                runs = [{"id": visible(run), "state": states.get(run, "gone")} for run in changed[:MOST_NEWS]]
                ids |= states.keys()
                yield f"event: changed\ndata: {dumped({'count': len(changed), 'runs': runs})}\n\n".encode()
            elif time.monotonic() - beat > BEAT:
                yield b": live\n\n"
            else:
                continue
            beat = time.monotonic()

    async def look(self) -> None:
        """Refresh the index, once for all open event streams."""
        async with self.looking:
            if time.monotonic() - self.looked >= PAUSE / 2:
                start = time.monotonic()
                await run_in_threadpool(self.index.refresh)
                self.looked = time.monotonic()
                self.took = self.looked - start


def _query(request: Request) -> dict[str, str]:
    """One value per key; of several filters all words."""
    params: QueryParams = request.query_params
    filters = {"filter": " ".join(params.getlist("filter"))} if "filter" in params else {}
    return {**dict(params), **filters}


def _json(content: Any) -> Response:
    return Response(dumped(content), headers={"Content-Type": "application/json"})


def _file(content: bytes, kind: str, name: str) -> Response:
    return Response(content, headers={"Content-Type": kind, "Content-Disposition": f'attachment; filename="{name}"'})


def table(answer: Mapping[str, Any] | None) -> bytes:
    """The rows of an answer as CSV, a line per cell; text that looks like a formula is quoted."""
    rows = [
        {"group": group["place"], **dict(_flat("", {k: v for k, v in row.items() if k != "seeds"}))}
        for group in (answer or {}).get("groups", ())
        for row in group["rows"]
    ]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(map(_cell, columns))
    writer.writerows([_cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue().encode()


def _flat(name: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _flat(f"{name}.{key}" if name else str(key), value)
    elif isinstance(node, list | tuple):
        for key, value in zip(("low", "high"), node, strict=False):  # an interval
            yield from _flat(f"{name}.{key}", value)
    else:
        yield name, node


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        text = visible(value)
        return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
    return "" if value is None else value


# --- files of a run --------------------------------------------------------------------------------------------------


def _tail(folder: Path) -> list[str]:
    try:
        lines = reading.tail(folder / "output.log", TAIL).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [visible(line) for line in lines[-LINES:]]
