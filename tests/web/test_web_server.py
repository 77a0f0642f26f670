"""The dashboard's server: what it refuses, that no request reaches a path, and that it leaves the results alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import fake
import madeup
import pytest
import spoil
from starlette.testclient import TestClient

from normbench.draw.text import visible
from normbench.runs import directory, samples
from normbench.web import server, share
from normbench.web.guard import cookie_name
from normbench.web.index import Index

TOKEN = "the-token"
SAMPLE = '<script>parent.pwned = 1</script><a href="/api/view">x</a>'


@pytest.fixture(scope="module")
def pair() -> list:
    return fake.specs(2)


@pytest.fixture
def results(pair: list, tmp_path: Path) -> Path:
    """Two runs, one with samples and output, in a folder beside which lies a secret."""
    results = tmp_path / "results"
    path = fake.directory(results / "runs", pair[0])
    fake.directory(results / "runs", pair[1])
    directory.RunDirectory(path).write_samples({"page.html": SAMPLE.encode(), "drawn.svg": b"<svg/>", "note.txt": b"n"})
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


PATHS = ("/", "/static/dashboard.js", "/api/view", "/api/run?id=x", "/api/sample", "/api/share", "/api/table",
         "/api/figure", "/api/link", "/runs", "/api/runs", "/api/events", "/nothing")  # fmt: skip


# --- who may ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_without_token_or_cookie_nothing_is_told(path: str, stranger: TestClient) -> None:
    join = "&" if "?" in path else "?"
    for asked in (path, f"{path}{join}token=", f"{path}{join}token=wrong", f"{path}{join}token={TOKEN}&token=x"):
        answer = stranger.get(asked)
        assert (answer.status_code, answer.text) == (403, "Open the link that normbench dashboard printed.\n")
        assert "set-cookie" not in answer.headers
    for cookie in ("wrong", TOKEN[:-1], f"{TOKEN}x", ""):
        name = cookie_name(TOKEN)
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
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8642", "[::1]:8642", "[::1]"])
def test_names_of_this_machine(host: str, client: TestClient) -> None:
    assert client.get("/", headers={"Host": host, "Cookie": _cookie(client)}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8642", "127.0.0.2", "localhost:x",
             "localhost:8642@evil", "", "0.0.0.0:8642", "[::2]"]
)  # fmt: skip
def test_other_names_are_refused(host: str, client: TestClient) -> None:
    assert client.get("/", headers={"Host": host, "Cookie": _cookie(client)}).status_code == 400
    assert client.get(f"/?token={TOKEN}", headers={"Host": host}).status_code == 400


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
        assert client.request(method, path).status_code == 403
        assert client.request(method, path, headers={"Origin": "http://localhost:8642"}).status_code in (404, 405)


def test_head_has_the_headers_alone(client: TestClient) -> None:
    for path in ("/", "/static/dashboard.js", "/api/view"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/static/dashboard.js", "/api/view", "/api/share", "/nothing", "/api/run"])
def test_headers_of_all_answers(path: str, client: TestClient) -> None:
    for headers in (client.get(path).headers, client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).headers):
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
        if path.rstrip("./") in ("", "/api", "/static") and answer.status_code in (200, 307):
            assert answer.text == ("" if answer.status_code == 307 else share.page())
            continue
        assert answer.status_code == 404 and "secret" not in answer.text.replace(name, "")


@pytest.mark.parametrize("place", ["run", "samples"])
def test_folders_behind_links_are_not_entered(place: str, results: Path, pair: list, tmp_path: Path) -> None:
    path = directory.place(results / "runs", pair[0])
    moved = path if place == "run" else path / "samples"
    moved.rename(tmp_path / moved.name)
    moved.symlink_to(tmp_path / moved.name)
    index = Index(results)
    client = TestClient(server.app(index, TOKEN), "http://localhost", cookies=_jar())
    assert client.get("/api/view").status_code == 200
    assert client.get(f"/api/sample?id={pair[0].id}&name=page.html").status_code == 404
    assert client.get(f"/api/run?id={pair[0].id}").json()["samples"] == []


def _jar() -> dict[str, str]:
    return {cookie_name(TOKEN): TOKEN}


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


def test_the_view_of_an_address(client: TestClient, index: Index) -> None:
    index._notes = ["of the index"]
    content = client.get("/api/view?filter=seed%3D1&x=step&x=epoch&filter=").json()
    assert content["query"] == {"filter": "seed=1 ", "x": "epoch"} and content["runs"]["states"] == {"done": 1}
    content = client.get("/api/view").json()
    assert content["runs"]["states"] == {"done": 2}
    assert content["notes"][-1] == "of the index"


def test_one_run(client: TestClient, results: Path, pair: list) -> None:
    run = client.get(f"/api/run?id={pair[0].id}").json()
    assert run["config"]["model"]["name"] == "mnist_mlp" and run["reason"] == ""
    assert run["samples"] == ["drawn.svg", "note.txt", "page.html"]
    assert run["output"][-2:] == ["line 8999", "\ufffd[31mred\ufffd"] and len(run["output"]) == server.LINES
    assert run["source"] == str(directory.place(results / "runs", pair[0]))
    other = client.get(f"/api/run?id={pair[1].id}").json()
    assert (other["samples"], other["output"]) == ([], [])


def test_shared_file_and_static_files(client: TestClient) -> None:
    answer = client.get("/api/share?filter=seed%3D1")
    assert 'id="shared"' in answer.text and "attachment" in answer.headers["content-disposition"]
    for name in (*share.SCRIPTS, *share.STYLES):
        file = client.get(f"/static/{name}")
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        assert file.content == share.static(name) and file.headers["content-type"].startswith(kind)
        assert client.get(f"/static/{name}", headers={"If-None-Match": file.headers["etag"]}).status_code == 304


def test_a_table_for_a_paper_has_the_arms_on_show(client: TestClient) -> None:
    answer = client.get("/api/table?form=csv")
    assert answer.status_code == 200 and ".csv" in answer.headers["content-disposition"]
    assert len(answer.text.splitlines()) == 1 + len(client.get("/api/view").json()["cells"])
    assert "tabular" in client.get("/api/table?form=latex").text
    (hidden,) = {cell["arm"] for cell in client.get("/api/view").json()["cells"][:1]}
    assert not any(
        hidden in line.split(",") for line in client.get(f"/api/table?form=csv&off={hidden}").text.splitlines()
    )
    for query in ("", "?form=docx"):
        assert client.get(f"/api/table{query}").status_code == 400


def test_a_figure_for_a_paper_has_one_of_two_widths(client: TestClient) -> None:
    pytest.importorskip("matplotlib")
    for columns, points in (("1", b"234"), ("2", b"486")):
        answer = client.get(f"/api/figure?columns={columns}")
        assert answer.headers["content-type"] == "application/pdf" and b"/MediaBox [ 0 0 " + points in answer.content
        assert answer.content == client.get(f"/api/figure?columns={columns}").content
    every = "|".join(cell["key"] for cell in client.get("/api/view").json()["cells"])
    for query in ("", "?columns=3", f"?columns=1&off={every}"):
        assert client.get(f"/api/figure{query}").status_code == 400


def test_errors_are_one_line(client: TestClient, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(ids: Any) -> Any:
        raise RuntimeError("in /some/secret/place")

    monkeypatch.setattr(index, "load", broken)
    answer = client.get("/api/view")
    assert answer.status_code == 500 and answer.text.startswith("RuntimeError") and "secret" not in answer.text
    assert answer.text.count("\n") == 1 and answer.headers["content-type"].startswith("text/plain")


def test_hostile_names_stay_text(results: Path, pair: list) -> None:
    path = directory.place(results / "runs", pair[1])
    spoil.change(path, status="failed", reason=madeup.HOSTILE)
    (path.parent / f"{'<img src=x>' * 3}.s1.{'0' * 12}").mkdir()
    client = TestClient(server.app(Index(results), TOKEN), "http://localhost", cookies=_jar())
    for asked in ("/api/view", f"/api/run?id={pair[1].id}", f"/api/run?id={'0' * 12}"):
        answer = client.get(asked)
        assert answer.status_code == 200 and not set("<>&\u202e\x07") & set(answer.text), "also inside a script"
        assert answer.headers["content-type"] == "application/json"
    (cell,) = client.get("/api/view").json()["cells"]
    assert visible(madeup.HOSTILE) in cell["seeds"][1]["reason"]


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


def test_news_of_runs_in_view(application: Any, results: Path, pair: list, hurried: None) -> None:
    path = directory.place(results / "runs", pair[0])

    def fail() -> None:
        spoil.change(path, status="failed")

    content, _ = asyncio.run(first_news(application, "filter=seed%3D1", fail))
    assert content.startswith(b"event: changed\n") and content.endswith(b"\n\n")
    assert json.loads(content.partition(b"data: ")[2]) == [pair[0].id]


def test_runs_out_of_view_are_no_news_but_new_ones(application: Any, results: Path, pair: list, hurried: None) -> None:
    (new,) = fake.specs(1, "optim.lr=0.7")

    def change() -> None:
        spoil.change(directory.place(results / "runs", pair[1]), status="failed")
        fake.directory(results / "runs" / "new", new)

    content, _ = asyncio.run(first_news(application, "filter=seed%3D1", change))
    assert json.loads(content.partition(b"data: ")[2]) == [new.id]
