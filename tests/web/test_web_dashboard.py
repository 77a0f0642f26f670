"""`normbench dashboard`: the link, the port, the end."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import fake
import pytest
import tiny

from normbench.commands import dashboard
from normbench.errors import NormbenchError
from normbench.web.view import view


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for spec in fake.specs(2):
        fake.directory(tmp_path / "results" / "runs", spec)
    return tmp_path / "results"


def test_the_next_port_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(dashboard.listen(None)) as first, contextlib.closing(dashboard.listen(None)) as second:
        ports = [listener.getsockname() for listener in (first, second)]
        assert {host for host, _ in ports} == {"127.0.0.1"} and ports[0][1] < ports[1][1]
        with pytest.raises(NormbenchError, match=rf"--port {ports[0][1]} cannot be opened: Address already in use"):
            dashboard.listen(ports[0][1])
        monkeypatch.setattr(dashboard, "PORT", ports[0][1])
        monkeypatch.setattr(dashboard, "TRIED", 1)
        with pytest.raises(NormbenchError, match="cannot be opened"):
            dashboard.listen(None)


def test_bad_input_is_told_before_anything_is_served(results: Path) -> None:
    with pytest.raises(NormbenchError, match="KEY=VALUE"):
        dashboard.command(["layer"], results)


def test_commands_on_the_page_train_into_the_results_that_it_shows(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for norm in ("none", "layer"):
        fake.directory(results / "runs", tiny.spec(f"norm={norm}", "seed=9"))
    asked: list[Any] = []
    monkeypatch.setattr(dashboard, "server_of", lambda index, token, commands: asked.append((index, commands)) or list)
    dashboard.command([], results)
    ((index, commands),) = asked
    printed = view(index.heads, index.load, {}, commands)["answer"]["commands"]
    assert printed and all(line.endswith(f"--results {results}") for line in printed)
    assert not any("--results" in line for line in view(index.heads, index.load, {})["answer"]["commands"])


def test_the_line_that_is_printed() -> None:
    with contextlib.closing(dashboard.listen(None)) as listener:
        port = listener.getsockname()[1]
        query = urlencode({"filter": "norm=layer seed=1", "token": "t"})
        assert dashboard.link(listener, "t", ["norm=layer", "seed=1"]) == f"http://127.0.0.1:{port}/?{query}"
    assert "normbench reproduce" in dashboard.describe_runs(0, Path("results"))
    assert dashboard.describe_runs(2, Path("results")).startswith("2 runs")


def test_a_folder_keeps_its_token_which_its_owner_alone_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    token = dashboard.kept_token(tmp_path / "results")
    assert dashboard.kept_token(tmp_path / "results") == token != dashboard.kept_token(tmp_path / "others")
    paths = [*(tmp_path / "state").rglob("*")]
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths if path.is_file()) and len(paths) == 4
    for path in paths:
        if path.is_file():
            path.chmod(0o644)
    assert dashboard.kept_token(tmp_path / "results") != token  # others could have read it
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # nothing can be kept there
    assert len(dashboard.kept_token(tmp_path / "results")) == len(token)


def test_a_real_server_from_link_to_interrupt(results: Path, tmp_path: Path) -> None:
    """The link works, Ctrl-C ends it with 0 while a page still listens, nothing was written."""
    before = sorted(results.rglob("*"))
    process = subprocess.Popen(
        [sys.executable, "-m", "normbench", "dashboard", "--results", str(results)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
        page = opener.open(line.split()[0], timeout=60)
        assert page.status == 200 and "token" not in page.url
        named = re.findall(r'(?:src|href)="(static/[^"]+)"', page.read().decode())
        assert len(named) > 3 and all(opener.open(f"{page.url}{name}", timeout=60).read() for name in named)
        here = page.url.split("?")[0]
        assert json.load(opener.open(f"{here}api/view", timeout=60))["notes"] == []
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{here}api/view", timeout=60)
        news = opener.open(f"{here}api/events", timeout=60)
        assert news.readline() == b": live\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stdout.read() == "" and process.stderr is not None and process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
    assert sorted(results.rglob("*")) == before
