"""The dashboard's server: what it refuses, that no request reaches a path, and that it leaves the results alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake
import madeup
import pytest
import spoil
from starlette.testclient import TestClient

from normbench.errors import NormbenchError
from normbench.runs import files, samples, writing
from normbench.runs.record import RunRecord
from normbench.web import server
from normbench.web import view as views
from normbench.web.index import Index
from normbench.web.view import Load

TOKEN = "the-token"
SAMPLE = '<script>parent.pwned = 1</script><a href="/api/view">x</a>'


def view(heads: Sequence[RunRecord], load: Load, query: Mapping[str, str], commands: Any = None) -> dict[str, Any]:
    """As little as the server needs of a view: cells by experiment and arm, states, and an answer's rows."""
    if query.get("filter") == "bad":
        raise NormbenchError("bad: no run\nhas it.")
    if query.get("filter") == "broken":
        raise RuntimeError("in /some/secret/place")
    selected = [run for run in heads if query.get("filter", "") in run.arm]
    loaded = load([run.id for run in selected])
    rows = [
        {"cell": run.id, "arm": run.arm, "at": {"mean": len(loaded[run.id].records), "interval": [-1.0, 2.0]}}
        for run in selected
    ]
    return {
        "query": dict(query),
        "cells": [{"arm": run.arm, "states": {run.status: 1}, "nan": float("nan")} for run in selected],
        "answer": {"groups": [{"place": "", "rows": rows}]},
        "notes": ["of the view"],
    }


class Page:
    def page(self) -> str:
        return "<!doctype html><title>normbench</title>"

    def static(self, name: str) -> bytes:
        return {"a.js": b"let a", "b.css": b"b {}"}[name]

    def share(self, heads: Sequence[RunRecord], load: Load, query: Mapping[str, str]) -> bytes:
        return json.dumps(view(heads, load, query)["query"]).encode()


@pytest.fixture(autouse=True)
def plain_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "pages", Page())
    monkeypatch.setattr(server, "views", SimpleNamespace(view=view, ASKED=views.ASKED))


@pytest.fixture(scope="module")
def pair() -> list:
    return fake.specs(2)


@pytest.fixture
def results(pair: list, tmp_path: Path) -> Path:
    """Two runs, one with samples and output, in a folder beside which lies a secret."""
    results = tmp_path / "results"
    path = fake.directory(results / "runs", pair[0])
    fake.directory(results / "runs", pair[1])
    writing.RunDirectory(path).write_samples({"page.html": SAMPLE.encode(), "drawn.svg": b"<svg/>", "note.txt": b"n"})
    (path / "output.log").write_text("".join(f"line {n}\n" for n in range(9000)) + "\x1b[31mred\u202e\n")
    (path / "samples" / "weights.safetensors").write_bytes(b"w")
    (path / "samples" / ".hidden.txt").write_bytes(b"h")
    (path / "samples" / "folder.txt").mkdir()
    (path / "samples" / "out.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(path / "samples" / "pipe.txt")
    with open(path / "samples" / "large.txt", "wb") as large:
        large.truncate(samples.LARGEST + 1)
    (tmp_path / "secret.txt").write_text("secret")
    (results / "secret.txt").write_text("secret")
    return results


@pytest.fixture
def index(results: Path) -> Index:
    index = Index(results)
    index.refresh()
    return index


@pytest.fixture
def application(index: Index) -> Any:
    return server.app(index, TOKEN)


@pytest.fixture
def stranger(application: Any) -> TestClient:
    """Who has neither the link nor the cookie."""
    return TestClient(application, "http://localhost:8642", raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    assert stranger.get(f"/?token={TOKEN}").status_code == 303
    return stranger


PATHS = ("/", "/static/a.js", "/api/view", "/api/run?id=x", "/api/sample", "/api/share", "/api/csv",
         "/api/events", "/nothing")  # fmt: skip


# --- who may ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_without_token_or_cookie_nothing_is_told(path: str, stranger: TestClient) -> None:
    join = "&" if "?" in path else "?"
    for asked in (path, f"{path}{join}token=", f"{path}{join}token=wrong", f"{path}{join}token={TOKEN}&token=x"):
        answer = stranger.get(asked)
        assert (answer.status_code, answer.text) == (403, "Open the link that normbench dashboard printed.\n")
        assert "set-cookie" not in answer.headers
    for cookie in ("wrong", TOKEN[:-1], f"{TOKEN}x", ""):
        name = server.Guard(stranger.app, TOKEN).cookie
        assert stranger.get(path, headers={"Cookie": f"{name}={cookie}"}).status_code == 403
    assert stranger.get(path, headers={"Cookie": f"normbench={TOKEN}"}).status_code == 403


def test_the_link_becomes_a_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    answer = stranger.get(f"/?filter=norm%3Dlayer+seed%3D1&token={TOKEN}&x=%3C")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?filter=norm%3Dlayer+seed%3D1&x=%3C")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie and "Domain" not in cookie
    assert stranger.get("/").status_code == 200
    assert stranger.get("/?token=old").headers["location"] == "/", "a link of before, by who is in already"


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/%5Cevil.example", "/%2F/evil.example"])
def test_the_redirect_stays_here(path: str, stranger: TestClient) -> None:
    answer = stranger.get(f"http://localhost:8642{path}?token={TOKEN}")
    assert answer.headers["location"].startswith("/") and answer.headers["location"][1] not in "/\\"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8642", "[::1]:8642", "[::1]"])
def test_names_of_this_machine(host: str, client: TestClient) -> None:
    assert client.get("/", headers={"Host": host, "Cookie": _cookie(client)}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8642", "127.0.0.2", "localhost:x",
             "localhost:8642@evil", "", "0.0.0.0:8642", "localhost:123456", "[::2]"]
)  # fmt: skip
def test_other_names_are_refused(host: str, client: TestClient) -> None:
    assert client.get("/", headers={"Host": host, "Cookie": _cookie(client)}).status_code == 403
    assert client.get(f"/?token={TOKEN}", headers={"Host": host}).status_code == 403


def _cookie(client: TestClient) -> str:
    (cookie,) = client.cookies.jar
    return f"{cookie.name}={cookie.value}"


def test_other_sites_are_refused(client: TestClient) -> None:
    for site, status in {"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200}.items():
        assert client.get("/api/view", headers={"Sec-Fetch-Site": site}).status_code == status
    assert client.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_only_get_and_head(method: str, client: TestClient) -> None:
    for path in PATHS:
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_the_headers_alone(client: TestClient) -> None:
    for path in ("/", "/static/a.js", "/api/view", "/api/events"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/static/a.js", "/api/view", "/api/csv", "/api/share", "/nothing", "/api/run"])
def test_headers_of_all_answers(path: str, client: TestClient) -> None:
    for headers in (client.get(path).headers, client.get(path, headers={"Host": "x"}).headers):
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe-eval" not in policy
        assert "script-src 'self' " not in policy and "http" not in policy
        assert not any(name.startswith("access-control") for name in headers)
        assert "no-store" in headers["cache-control"] or path.startswith("/static")


# --- no request reaches a path ---------------------------------------------------------------------------------------

ESCAPES = [
    "../secret.txt", "../../secret.txt", "..%2f..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt",
    "%252e%252e%252fsecret.txt",     "..%252f..%252fsecret.txt", "....//secret.txt",
    "/etc/passwd", "//etc/passwd", "file:///etc/passwd", "%00",
    "page.html%00", "page.html%00.txt", "out.txt", "pipe.txt", "folder.txt", ".hidden.txt", "weights.safetensors",
    "..\\..\\secret.txt", "..%5c..%5csecret.txt", "C:\\Windows\\win.ini", "CON", "NUL.txt", "page.html::$DATA",
    "PAGE.HTML", "page.html.", "./page.html", "samples/page.html", "page.html/", "", ".", "..", "%ff%fe", "note.txt ",
    "%F0%9F%A4%A1.txt",
]  # fmt: skip


@pytest.mark.parametrize("name", ESCAPES)
def test_no_name_leads_out(name: str, client: TestClient, pair: list) -> None:
    for path in (
        f"/api/sample?id={pair[0].id}&name={name}",
        f"/api/sample?id={name}&name=page.html",
        f"/api/sample?name={name}",
        f"/api/run?id={name}",
        f"/static/{name}",
        f"/{name}",
        f"/api/{name}",
    ):
        answer = client.get(path)
        if path.rstrip("./") in ("", "/api", "/static") and answer.status_code == 200:
            assert answer.text == Page().page()
            continue
        assert answer.status_code == 404 and "secret" not in answer.text.replace(name, "")


@pytest.mark.parametrize("place", ["run", "samples"])
def test_folders_behind_links_are_not_entered(place: str, results: Path, pair: list, tmp_path: Path) -> None:
    path = writing.directory(results / "runs", pair[0]).path
    moved = path if place == "run" else path / "samples"
    moved.rename(tmp_path / moved.name)
    moved.symlink_to(tmp_path / moved.name)
    index = Index(results)
    client = TestClient(server.app(index, TOKEN), "http://localhost", cookies=_jar())
    assert client.get("/api/view").status_code == 200
    assert client.get(f"/api/sample?id={pair[0].id}&name=page.html").status_code == 404
    assert client.get(f"/api/run?id={pair[0].id}").json()["samples"] == []


def _jar() -> dict[str, str]:
    return {server.Guard(lambda *_: None, TOKEN).cookie: TOKEN}  # type: ignore[arg-type]


def test_a_sample_is_shown_in_a_sandbox(client: TestClient, pair: list) -> None:
    asked = f"/api/sample?id={pair[0].id}&name="
    page = client.get(asked + "page.html")
    assert (page.text, page.headers["content-type"]) == (SAMPLE, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "allow" not in page.headers["content-security-policy"]
    assert client.get(asked + "drawn.svg").headers["content-security-policy"].startswith("sandbox")
    assert client.get(asked + "note.txt").headers["x-content-type-options"] == "nosniff"
    assert client.get(asked + "large.txt").status_code == 404 and client.get(asked + "note.txt").status_code == 200
    assert client.get(f"/api/sample?id={pair[1].id}&name=page.html").status_code == 404, "of another run"


# --- what is answered ------------------------------------------------------------------------------------------------


def test_the_view_of_an_address(client: TestClient, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "notes", lambda: ["of the index"])
    content = client.get("/api/view?filter=none&x=step&x=epoch&filter=").json()
    assert content["query"] == {"filter": "none ", "x": "epoch"}
    content = client.get("/api/view").json()
    assert [cell["states"] for cell in content["cells"]] == [{"done": 1}] * 2
    assert content["cells"][0]["nan"] is None and content["notes"] == ["of the view", "of the index"]


def test_one_run(client: TestClient, results: Path, pair: list) -> None:
    run = client.get(f"/api/run?id={pair[0].id}").json()
    assert run["labels"]["arm"] == pair[0].arm and run["config"]["model"]["name"] == "mnist_mlp"
    assert (run["state"], run["reason"]) == ("done", "")
    assert run["samples"] == ["drawn.svg", "note.txt", "page.html"]
    assert run["output"][-2:] == ["line 8999", "\ufffd[31mred\ufffd"] and len(run["output"]) == server.LINES
    assert run["source"] == str(writing.directory(results / "runs", pair[0]).path)
    other = client.get(f"/api/run?id={pair[1].id}").json()
    assert (other["samples"], other["output"]) == ([], [])


def test_table_as_csv(client: TestClient) -> None:
    answer = client.get("/api/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="normbench-comparison.csv"'
    lines = answer.text.split("\r\n")
    assert lines[0] == "group,cell,arm,at.mean,at.interval.low,at.interval.high" and len(lines) == 4
    assert lines[1].endswith(",mnist_mlp-none,5,-1.0,2.0")
    assert server.table(None) == b"\r\n"


@pytest.mark.parametrize("query", ["metric=nope", "task=nope", "filter=nope", "level=nope", "filter=norm%3Dnope"])
def test_no_table_answers_another_question(client: TestClient, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "views", views)
    assert client.get("/api/csv").status_code == 200
    answer = client.get(f"/api/csv?{query}")
    assert answer.status_code == 400 and answer.text.count("\n") == 1


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r="])
def test_no_cell_is_a_formula(start: str) -> None:
    rows = [{"arm": f'{start}cmd|"/c calc"!A1', "x": -1.5}]
    text = server.table({"groups": [{"place": "", "rows": rows}]}).decode()
    cell = text.split("\r\n")[1].split(",", 1)[1]
    assert cell.startswith("\"'") and cell.endswith(",-1.5")


def test_shared_file_and_static_files(client: TestClient) -> None:
    answer = client.get("/api/share?filter=none")
    assert answer.json() == {"filter": "none"} and "attachment" in answer.headers["content-disposition"]
    script = client.get("/static/a.js")
    assert script.text == "let a" and script.headers["content-type"].startswith("text/javascript")
    assert client.get("/static/a.js", headers={"If-None-Match": script.headers["etag"]}).status_code == 304


def test_errors_are_one_line(client: TestClient) -> None:
    answer = client.get("/api/view?filter=bad")
    assert (answer.status_code, answer.text) == (400, "bad: no run has it.\n")
    answer = client.get("/api/view?filter=broken")
    assert answer.status_code == 500 and answer.text.startswith("RuntimeError.") and "secret" not in answer.text
    assert answer.text.count("\n") == 1 and answer.headers["content-type"].startswith("text/plain")


def test_hostile_names_stay_text(results: Path, pair: list) -> None:
    path = writing.directory(results / "runs", pair[1]).path
    spoil.change(path, arm=madeup.HOSTILE, experiment="\u2028</script>")
    (path.parent / f"{'<img src=x>' * 3}.s1.{'0' * 12}").mkdir()
    client = TestClient(server.app(Index(results), TOKEN), "http://localhost", cookies=_jar())
    for asked in ("/api/view", f"/api/run?id={pair[1].id}", f"/api/run?id={'0' * 12}"):
        answer = client.get(asked)
        assert answer.status_code == 200 and not set("<>&\u2028\u202e\x07") & set(answer.text), "also inside a script"
        assert answer.headers["content-type"] == "application/json"
    assert client.get(f"/api/run?id={pair[1].id}").json()["labels"]["arm"] == madeup.HOSTILE


def test_nothing_below_results_changes(client: TestClient, results: Path, pair: list) -> None:
    """Neither content nor times: a run's curve has the same hash with the dashboard open."""

    def snapshot() -> dict[str, Any]:
        return {
            str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in sorted(results.rglob("*"))
        }

    before = snapshot()
    for path in (*PATHS[:-2], f"/api/run?id={pair[0].id}", f"/api/sample?id={pair[0].id}&name=page.html"):
        client.get(path)
    assert snapshot() == before


# --- news ------------------------------------------------------------------------------------------------------------


async def first_news(application: Any, words: str, then: Any) -> tuple[bytes, float]:
    """What comes after `then` was called, and how long it took."""
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    name, value = next(iter(_jar().items()))
    scope = {
        "type": "http", "method": "GET", "path": "/api/events", "query_string": words.encode(), "scheme": "http",
        "headers": [(b"host", b"localhost"), (b"cookie", f"{name}={value}".encode())], "http_version": "1.1",
    }  # fmt: skip
    task = asyncio.create_task(application(scope, asyncio.Queue().get, sent.put))
    try:
        assert (await sent.get())["status"] == 200
        assert (await sent.get())["body"] == b": live\n\n"
        start = time.monotonic()
        then()
        return (await asyncio.wait_for(sent.get(), 20))["body"], time.monotonic() - start
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PAUSE", 0.01)


def test_news_of_runs_in_view(application: Any, client: TestClient, results: Path, pair: list, hurried: None) -> None:
    path = writing.directory(results / "runs", pair[0]).path
    client.get("/api/view?filter=none")

    def fail() -> None:
        spoil.change(path, status="failed")

    content, _ = asyncio.run(first_news(application, "filter=none", fail))
    event = json.loads(content.partition(b"data: ")[2])
    assert content.startswith(b"event: changed\n") and content.endswith(b"\n\n")
    assert event == {"count": 1, "runs": [{"id": pair[0].id, "state": "failed"}]}


def test_runs_out_of_view_are_no_news_but_new_ones(
    application: Any, client: TestClient, results: Path, pair: list, hurried: None
) -> None:
    client.get("/api/view?filter=none")
    (other,) = fake.specs(1, "optim.lr=0.5")
    out = fake.directory(results / "runs" / "elsewhere", other)
    index_now = client.get("/api/view?filter=nothing-like-it").json()
    assert index_now["cells"] == []

    def change() -> None:
        files.atomic_write(out / "note", b"")
        (out / "run.json").unlink()
        fake.directory(results / "runs" / "new", fake.specs(1, "optim.lr=0.7")[0])

    content, _ = asyncio.run(first_news(application, "filter=none", change))
    runs = json.loads(content.partition(b"data: ")[2])["runs"]
    assert [run["id"] for run in runs] == [fake.specs(1, "optim.lr=0.7")[0].id]
