"""The dashboard with many runs: python scripts/bench/dashboard.py [--runs N] [--lines N] [--tensorboard PATH]

Makes up runs through the store, in a folder aside, and asks a server of its own as a browser does. Counted are the
server's CPU seconds from its start, or from the request before, and its largest memory; of news, the seconds from a
line at the end of a curve to the event. With the path of a `tensorboard`, that server on the same runs beside them.
With `--browser` a Chromium opens the page; its seconds and the server's together are counted as well.
"""

from __future__ import annotations

import argparse
import contextlib
import http.cookiejar
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import harness
from harness import Value as Row
from made_runs import FIRST, PER_EVALUATION, RATES, TASK, records, specs, write

from normbench.config.plan import train_specs
from normbench.runs import directory

MANY, MANY_LINES = 10_000, 40
WIDE, WIDE_POINTS = 20, 5_000  # few long curves
PANELS = "panels=train:nll|valid:nll|test:nll"  # beside the test error
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FRAMES = 60
SCROLLED = """async frames => {
  const view = document.getElementById('table');
  for (let i = 0; i < frames; i++) {
    view.scrollTop = 30 * (1 + ((i * 7919) % 9000));
    await new Promise(requestAnimationFrame);
  }
}"""
ROUNDS = 5  # of news
TICKS = os.sysconf("SC_CLK_TCK")


# run by TensorBoard's own Python: it has the writer
EVENTS = """
import json, sys
from pathlib import Path
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

results, logs = map(Path, sys.argv[1:])
for curve in sorted(results.glob("runs/*/*/curve.jsonl")):
    writer = EventFileWriter(str(logs / curve.parent.name), max_queue_size=10**6, flush_secs=3600)
    for record in map(json.loads, curve.read_text().splitlines()):
        for metric in ("nll", "error"):
            tag = "/".join((record["split"], record["mode"], metric))
            value = summary_pb2.Summary.Value(tag=tag, simple_value=record[metric])
            summary = summary_pb2.Summary(value=[value])
            writer.add_event(event_pb2.Event(wall_time=record["step"], step=record["step"], summary=summary))
    writer.close()
"""


# --- servers ---------------------------------------------------------------------------------------------------------


class Server:
    """A process that serves, what it and its own processes used, and a browser's requests to it."""

    def __init__(self, command: Sequence[str], home: str = "", **environment: str) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
        )
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        )
        self.used = 0.0
        self.link = self.home = home
        if home:
            return
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().split()[0]
        self.home = self.link.split("?")[0]
        self.opener.open(self.link, timeout=600).close()

    def get(self, path: str) -> bytes:
        with self.opener.open(f"{self.home}{path}", timeout=600) as answer:
            return bytes(answer.read())

    def cpu(self) -> float:
        """Seconds of user and system since it was asked last."""
        before, self.used = self.used, sum(map(_seconds, _with_children(self.process.pid)))
        return self.used - before

    def memory(self) -> float:
        """The most that it held at once, in MB."""
        statuses = [Path(f"/proc/{pid}/status").read_text() for pid in _with_children(self.process.pid)]
        return sum(int(status.partition("VmHWM:")[2].split()[0]) for status in statuses) / 1e3

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def _with_children(pid: int) -> list[int]:
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(descendant for child in below for descendant in _with_children(int(child)))]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


class Browser:
    """A Chromium with one page, and what it used: all of its processes."""

    LISTED = "() => document.querySelectorAll('#table [data-row]').length > 0"
    DRAWN = (
        "() => !document.body.hasAttribute('aria-busy') && document.querySelector('#plot-curves .main-svg') !== null"
    )

    def __init__(self, started: Any) -> None:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if path is None:
            raise SystemExit("--browser: there is no Chromium on PATH")
        self.browser = started.chromium.launch(executable_path=path, args=quiet)
        self.page = self.browser.new_page(viewport={"width": 1400, "height": 900})
        self.used: dict[int, float] = {}
        self.cpu()

    def cpu(self) -> float:
        """Seconds of user and system since it was asked last."""
        before = self.used
        now = {pid: _seconds(pid) for pid in _with_children(os.getpid()) if "chrom" in _name(pid)}
        self.used = before | now
        return sum(now[pid] - before.get(pid, 0.0) for pid in now)

    def until(self, script: str) -> None:
        """The page's policy forbids a wait that evaluates texts."""
        end = time.monotonic() + 120
        while not self.page.evaluate(script):
            if time.monotonic() > end:
                raise SystemExit(f"not within two minutes: {script}")
            time.sleep(0.05)

    def ask(self, path: str) -> None:
        """Another view on the same page, as going back to it would give it."""
        self.page.evaluate(
            "path => { history.pushState(null, '', path); document.body.setAttribute('aria-busy', 'true');"
            " dispatchEvent(new PopStateEvent('popstate')); }",
            path,
        )
        self.until(self.DRAWN)


def ours(results: Path, cache: Path) -> Server:
    command = [sys.executable, "-m", "normbench", "dashboard", "--results", str(results)]
    return Server(command, XDG_CACHE_HOME=str(cache))


def asked(task: int, rates: Sequence[float]) -> str:
    """The address of the view of one task's runs with these learning rates."""
    words = f"train.batch_size={FIRST + 2 * task} optim.lr={','.join(map(str, rates))}"
    return f"api/view?{urlencode({'filter': words})}"


# --- rows ------------------------------------------------------------------------------------------------------------


def views(results: Path, cache: Path, lines: int) -> Iterator[Row]:
    """The first view of a server, and selections."""
    server = ours(results, cache)
    try:
        server.get("api/view?outline=1")
        yield Row("first view", "CPU s", server.cpu(), 1.0)
        first = json.loads(server.get("api/view"))["title"]
        yield Row(f"its {TASK} curves and the answer", "CPU s", server.cpu())
        # of tasks that were not shown before: their curves have to be read
        others = (task for task in itertools.count() if f", {lines // PER_EVALUATION + task} epochs" not in first)
        for task, rates, most in zip(others, (RATES[:1], RATES), (0.5, 1.2), strict=False):
            content = json.loads(server.get(asked(task, rates)))
            count = sum(len(cell["seeds"]) for cell in content["cells"])
            yield Row(f"select {count} runs", "CPU s", server.cpu(), most)
        yield Row("memory after that", "MB", server.memory(), 150.0)
    finally:
        server.close()


def in_a_browser(started: Any, results: Path, folder: Path, lines: int) -> Iterator[Row]:
    """What the page costs from its address to its curves, and each further selection."""
    server, browser = ours(results, folder / "browser-cache"), Browser(started)
    try:
        server.cpu()  # started already: the rows above have that
        browser.page.goto(server.link)
        browser.until(browser.LISTED)
        yield Row("page lists the cells", "CPU s", server.cpu() + browser.cpu(), 2.0)
        browser.until(browser.DRAWN)
        yield Row(f"page draws {TASK} curves", "CPU s", server.cpu() + browser.cpu())
        first = browser.page.title()
        others = (task for task in itertools.count() if f", {lines // PER_EVALUATION + task} epochs" not in first)
        for task, rates, most in zip(others, (RATES[:1], RATES), (1.0, 2.5), strict=False):
            browser.ask(asked(task, rates).removeprefix("api/view"))
            count = len(rates) * TASK // len(RATES)
            yield Row(f"page selects {count} runs", "CPU s", server.cpu() + browser.cpu(), most)
        count = TASK // len(RATES)
        browser.ask(f"{asked(1, RATES[:1]).removeprefix('api/view')}&seeds=1&{PANELS}")
        browser.page.evaluate(PAINTED)
        yield Row(f"page draws four panels of {count}, without server", "CPU s", browser.cpu(), 1.5)
    finally:
        server.close()
        browser.browser.close()


def wide(started: Any, folder: Path) -> Iterator[Row]:
    """Long curves: what the browser takes to draw what is left of them."""
    results = folder / "wide"
    write(results, itertools.islice(specs(WIDE_POINTS * PER_EVALUATION), WIDE), WIDE_POINTS * PER_EVALUATION)
    server, browser = ours(results, folder / "wide-cache"), Browser(started)
    try:
        browser.page.goto(server.link)
        browser.until(browser.DRAWN)
        browser.cpu()
        browser.ask("?metric=error")
        yield Row(f"page draws {WIDE} curves of {WIDE_POINTS} points", "CPU s", browser.cpu(), 0.5)
    finally:
        server.close()
        browser.browser.close()
        shutil.rmtree(results)


def in_the_table(started: Any, server: Server, count: int) -> Iterator[Row]:
    """The page of all runs: until its first rows, and to scroll through it."""
    browser = Browser(started)
    try:
        browser.page.goto(server.link)
        browser.until(browser.DRAWN)
        held: list[Any] = []  # the page asks for the rest while its first rows are drawn
        browser.page.route(
            "**/api/runs?*", lambda route: route.continue_() if "outline" in route.request.url else held.append(route)
        )
        server.cpu(), browser.cpu()
        browser.page.goto(f"{server.home}runs")
        browser.until("() => document.querySelectorAll('#rows .line').length > 0")
        yield Row(f"page Runs lists {count} runs", "CPU s", server.cpu() + browser.cpu(), 2.0)
        while not held:
            browser.page.wait_for_timeout(50)
        held[0].continue_()
        browser.page.unroute("**/api/runs?*")
        browser.until("() => !document.body.hasAttribute('aria-busy')")
        browser.cpu()
        browser.page.evaluate(SCROLLED, FRAMES)
        yield Row("a frame while it scrolls", "CPU ms", 1000 * browser.cpu() / FRAMES, 50.0)
    finally:
        browser.browser.close()


def many(folder: Path, count: int, lines: int, started: Any = None) -> Iterator[Row]:
    results = folder / "many"
    write(results, itertools.islice(specs(lines), count), lines)
    server = ours(results, folder / "many-cache")
    try:
        server.get("api/view?outline=1")
        yield Row(f"first view of {count} runs", "CPU s", server.cpu(), 3.0)
        server.get("api/view")
        yield Row(f"its {TASK} curves and the answer, {count} runs", "CPU s", server.cpu())
        yield Row(f"memory with {count} runs", "MB", server.memory())
        if started is not None:
            yield from in_the_table(started, server, count)
    finally:
        server.close()
    shutil.rmtree(results)


def news(results: Path, cache: Path) -> Row:
    """From the append of a line to the event, with one run that is being written."""
    (spec,) = train_specs(["model=mnist_mlp", "data=digits", "norm=layer", f"train.batch_size={FIRST - 1}"], False)
    run = directory.RunDirectory(directory.place(results / "runs", spec))
    run.path.mkdir(parents=True)
    server = None
    try:
        with run.writing():
            run.content = spec.content()
            run.write("running", step=0)
            lines = records(spec, 1)
            run.append("curve.jsonl", lines)
            server = ours(results, cache)
            stream_of = server.opener.open(f"{server.home}api/events?filter=run%3D{spec.id}", timeout=60)
            stream_of.readline()
            took = []
            for _ in range(ROUNDS):
                time.sleep(0.7)  # at no fixed place between two looks
                start = time.monotonic()
                run.append("curve.jsonl", lines)
                while not stream_of.readline().startswith(b"event: changed"):
                    pass
                took.append(time.monotonic() - start)
            stream_of.close()
            return Row("a new line until its event, the slowest", "s", max(took), 1.0)
    finally:
        if server is not None:
            server.close()
        shutil.rmtree(run.path)


def tensorboard(path: Path, results: Path, folder: Path, count: int) -> tuple[float, float]:
    """CPU seconds of TensorBoard until it lists all runs, and its memory then."""
    logs = folder / "events"
    subprocess.run([str(path.with_name("python")), "-c", EVENTS, str(results), str(logs)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(path), "--logdir", str(logs), "--port", str(port), "--host", "127.0.0.1"]
    server = Server(command, f"http://127.0.0.1:{port}/")
    try:
        start = time.monotonic()
        while time.monotonic() - start < 900:
            with contextlib.suppress(OSError):
                if len(json.loads(server.get("data/runs"))) >= count:
                    return server.cpu(), server.memory()
            time.sleep(1)
        raise SystemExit("TensorBoard did not list all runs in 15 minutes")
    finally:
        server.close()


def rows(given: argparse.Namespace, folder: Path) -> Iterator[Row]:
    results, cache = folder / "results", folder / "cache"
    write(results, itertools.islice(specs(given.lines), given.runs), given.lines)
    reference: dict[str, float] = {}
    if given.tensorboard:
        reference["first view"], reference["memory after that"] = tensorboard(
            given.tensorboard, results, folder, given.runs
        )
    for row in views(results, cache, given.lines):
        yield replace(row, reference=reference.get(row.case))
    yield news(results, cache)
    with contextlib.ExitStack() as stack:
        started = None
        if given.browser:
            from playwright.sync_api import sync_playwright

            started = stack.enter_context(sync_playwright())
            yield from in_a_browser(started, results, folder, given.lines)
            yield from wide(started, folder)
        shutil.rmtree(results)
        if given.many:
            yield from many(folder, given.many, MANY_LINES, started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--lines", type=int, default=1000, help="of each curve")
    parser.add_argument("--many", type=int, default=MANY, help="runs of a second folder; 0 for none")
    parser.add_argument("--tensorboard", type=Path, metavar="PATH", help="its command, to be measured beside")
    parser.add_argument("--browser", action="store_true", help="measure the page in a Chromium as well")
    parser.add_argument("--output", type=Path, default=harness.RESULTS)
    given = parser.parse_args()
    if given.runs < 3 * TASK:
        parser.error(f"--runs {given.runs}: at least {3 * TASK}, which is three tasks")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(given, Path(folder)):
            results.append(row)
            goal = "" if row.goal is None else f"  goal ≤ {row.goal:g}: {row.met}"
            reference = "" if row.reference is None else f"  TensorBoard {row.reference:.2f}"
            print(f"{row.case:<42} {row.value:8.2f} {row.unit}{goal}{reference}", flush=True)
    words = [f"--{name} {getattr(given, name)}" for name in ("runs", "lines", "many")
             if getattr(given, name) != parser.get_default(name)]  # fmt: skip
    if given.tensorboard:
        words.append("--tensorboard PATH")
    if given.browser:
        words.append("--browser")
    note = (
        "CPU seconds are the server's, from its start or from the request before; of the page, the server's and those "
        "of all processes of a Chromium, from its address to what is said, or from what was said before."
    )
    title = f"The dashboard with {given.runs} runs of {given.lines} lines"
    command = " ".join(["python scripts/bench/dashboard.py", *words])
    harness.publish_values("dashboard", title, note, "TensorBoard", command, results, given.output)


if __name__ == "__main__":
    main()
