"""The dashboard's server: answers on this machine to holders of its token; which runs are hidden is all that it writes.

`guard` says who may ask, and what may write. No part of a request becomes part of a path: runs are looked up in the
index, samples in the run's list.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from normbench.compare.answer import Comparison
from normbench.compare.paper_table import paper_table
from normbench.compare.suggested_seeds import suggested_commands
from normbench.draw import figure as draw
from normbench.draw.text import visible
from normbench.draw.typeset import Form
from normbench.errors import NormbenchError
from normbench.files import reading
from normbench.runs import samples
from normbench.runs.run import Run
from normbench.web import paper_figure, runs_table, share, view
from normbench.web.guard import guard
from normbench.web.index import Index
from normbench.web.json_safe import dumped, json_safe
from normbench.web.marks import Marks

SAMPLE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
TAIL, LINES = 16 << 10, 40  # bytes and lines at the end of output.log
PAUSE = 0.5  # s between two looks at the runs
SLOWEST = 1.5  # s, the longest pause where a look takes long
LARGEST = 1 << 20  # bytes of a request's body
SUFFIXES: dict[Form, str] = {"latex": "tex", "markdown": "md", "csv": "csv"}  # of tables
COLUMNS = {"1": 3.25, "2": 6.75}  # inches: the widths of most papers
FONT_SIZE = 8.0  # points
DRAWING = threading.Lock()  # pyplot is for one thread at a time
BEAT = 15.0  # s without news until a comment checks the connection


def app(
    index: Index,
    token: str,
    ending: Callable[[], bool] = lambda: False,
    commands: Callable[[Comparison], Sequence[str]] = suggested_commands,
) -> Starlette:
    """The application, open to holders of `token`. `ending`: whether event streams are to end.

    commands: makes the commands that would decide the open comparisons of an answer.
    """

    marks = Marks(index.results)

    def page(request: Request) -> Response:
        return Response(share.page(), media_type="text/html")

    def runs_page(request: Request) -> Response:
        return Response(runs_table.page(), media_type="text/html")

    def runs(request: Request) -> Response:
        """The table of all runs; an outline has what is known already."""
        query = _query(request)
        outline = bool(query.get(view.OUTLINE))
        if not outline:
            index.refresh(PAUSE)
        return _json(runs_table.table(index.heads, index.ends(not outline), marks.hidden(), query.get("filter", "")))

    async def mark(request: Request) -> Response:
        """Hide runs, or show them again: {"ids": [...], "hidden": true}."""
        try:
            given = reading.parse(await _body(request))
            ids, hidden = {*given["ids"]} & {head.id for head in index.heads}, given["hidden"]
        except (ValueError, KeyError, TypeError):
            raise HTTPException(400, "This is no change of marks.") from None
        if not isinstance(hidden, bool):
            raise HTTPException(400, "hidden is true or false.")
        await run_in_threadpool(marks.hide, ids, hidden)
        index.mark(ids)
        return _json({"marked": len(ids)})

    def heads_and_query(request: Request) -> tuple[list[Run], dict[str, str]]:
        """All runs, and the query with those that are hidden."""
        index.refresh()
        return index.heads, {**_query(request), view.LEFT_OUT: "|".join(marks.hidden())}

    def content(request: Request) -> Response:
        heads, query = heads_and_query(request)
        shown = view.view(heads, index.load, query, commands)
        return _json({**shown, "notes": [*shown["notes"], *map(visible, index.notes)]})

    def shared(request: Request) -> Response:
        heads, query = heads_and_query(request)
        headers = {"Content-Disposition": 'attachment; filename="normbench-comparison.html"'}
        return Response(share.share(heads, index.load, query), headers=headers, media_type="text/html")

    def table(request: Request) -> Response:
        """The table of what is on show, for a paper; hidden arms are not in it."""
        heads, query = heads_and_query(request)
        form = query.get("form", "")
        board = view.Selection(heads, query).board(index.load)
        if form not in SUFFIXES or board is None:
            raise HTTPException(400, f"A table has runs, and the form {', '.join(SUFFIXES)}.")
        headers = {"Content-Disposition": f'attachment; filename="normbench-table.{SUFFIXES[form]}"'}
        return Response(paper_table([board.comparison_on_show(query)], form), headers=headers, media_type="text/plain")

    def figure(request: Request) -> Response:
        """The curves on show as a PDF for a paper, one or two of its columns wide; hidden arms are not in it."""
        heads, query = heads_and_query(request)
        board = view.Selection(heads, query).board(index.load)
        panels = paper_figure.on_show(board, query) if board else []
        if query.get("columns") not in COLUMNS or not panels:
            raise HTTPException(400, f"A figure has curves, and columns={' or '.join(COLUMNS)}.")
        content = io.BytesIO()
        with DRAWING:
            draw.paper_figure(panels, content, "pdf", COLUMNS[query["columns"]], FONT_SIZE)
        headers = {"Content-Disposition": 'attachment; filename="normbench-curves.pdf"'}
        return Response(content.getvalue(), headers=headers, media_type="application/pdf")

    def run(request: Request) -> Response:
        """What a run is made of and wrote, without its curve."""
        head = _find(index, request)
        facts = {"config": head.config, "reason": head.reason, "source": str(head.path)}
        return _json(json_safe({**facts, "output": _output(head.path), "samples": samples.names(head.path)}))

    def sample(request: Request) -> Response:
        name, path = request.query_params.get("name", ""), _find(index, request).path
        if name not in samples.names(path):
            raise HTTPException(404, "There is no such sample.")
        headers = {"Content-Security-Policy": SAMPLE_POLICY}
        return Response(samples.read(path, name), headers=headers, media_type=samples.TYPES[Path(name).suffix])

    def ids_and_mark(query: dict[str, str]) -> tuple[set[str], set[str], int]:
        """The ids of all runs and of those in view, and the mark of now."""
        mark, heads = index.token, index.heads
        if "all" in query:
            return {head.id for head in heads}, {head.id for head in heads}, mark
        task = view.Selection(heads, query).task
        return {head.id for head in heads}, {run.id for run in task.runs} if task else set(), mark

    async def news(query: dict[str, str]) -> AsyncIterator[str]:
        """`changed` when runs in view have more records or another state, or there are new runs."""
        known, in_view, mark = await run_in_threadpool(ids_and_mark, query)
        yield ": live\n\n"
        beat = time.monotonic()
        while not ending():
            await asyncio.sleep(min(SLOWEST, max(PAUSE, 5 * index.took)))
            await run_in_threadpool(index.refresh, PAUSE / 2)
            mark, changed = index.changed_since(mark)
            if of_page := [run for run in changed if run in in_view or run not in known]:
                yield f"event: changed\ndata: {dumped([visible(run) for run in of_page])}\n\n"
                if not known.issuperset(of_page):
                    known, in_view, _ = await run_in_threadpool(ids_and_mark, query)
            elif time.monotonic() - beat > BEAT:
                yield ": live\n\n"
            else:
                continue
            beat = time.monotonic()

    def link(request: Request) -> Response:
        """What an address needs in another browser on this machine."""
        return _json({"token": token})

    async def events(request: Request) -> Response:
        return StreamingResponse(news(_query(request)), media_type="text/event-stream")

    parts = {"view": content, "run": run, "sample": sample, "events": events, "link": link, "share": shared}
    parts |= {"table": table, "figure": figure}
    api = [Route(f"/api/{name}", endpoint) for name, endpoint in {**parts, "runs": runs}.items()]
    api.append(Route("/api/mark", mark, methods=["POST"]))
    static = StaticFiles(packages=[("normbench.web", "static"), ("plotly", "package_data")])
    return Starlette(
        routes=[Route("/", page), Route("/runs", runs_page), Mount("/static", static), *api],
        middleware=guard(token),
        exception_handlers={NormbenchError: _bad_input, Exception: _failed},
    )


async def _bad_input(request: Request, error: Exception) -> Response:
    return PlainTextResponse(visible(" ".join(str(error).split())) + "\n", 400)


async def _failed(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{type(error).__name__}: see the terminal, then load the page again.\n", 500)


async def _body(request: Request) -> bytes:
    """The body, also of a request that does not say its length."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"A change of marks has at most {LARGEST >> 20} MiB.")
    return body


def _query(request: Request) -> dict[str, str]:
    """One value per key; of several filters all words."""
    filters = request.query_params.getlist("filter")
    return {**request.query_params, **({"filter": " ".join(filters)} if filters else {})}


def _json(content: object) -> Response:
    return Response(dumped(content), media_type="application/json")


def _find(index: Index, request: Request) -> Run:
    """The run that is asked for, without its curve."""
    run_id = request.query_params.get("id", "")
    head = next((head for head in index.heads if head.id == run_id), None)
    if head is None:
        raise HTTPException(404, "There is no such run.")
    return head


def _output(path: Path) -> list[str]:
    """The last lines of a run's output."""
    try:
        return reading.tail(path / "output.log", TAIL).decode("utf-8", "replace").splitlines()[-LINES:]
    except OSError:
        return []
