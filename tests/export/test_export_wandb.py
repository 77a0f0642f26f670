"""W&B: the logged curves are the run's, each evaluation once; a failure of W&B costs a line, and no run."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import fake
import madeup
import pytest
import tiny

from normbench.errors import NormbenchError
from normbench.export import wandb_run as naming
from normbench.imports import wandb_file
from normbench.launch import wandb_run
from normbench.launch.wandb_run import Logging, WandbRun
from normbench.runs import directory
from normbench.runs.run import Run
from normbench.runs.table import Runs

OFFLINE = {"mode": "offline", "project": "p", "entity": ""}
ONLINE = OFFLINE | {"mode": "online"}
# Stands in for the real package in a worker: does as BEHAVIOUR says.
STAND_IN = """
import os, time
def init(**options):
    if os.environ["BEHAVIOUR"] == "refuse": raise ValueError("No API key\\nconfigured.")
    return FakeRun()
class FakeRun:
    starting_step, summary = 0, {}
    def define_metric(self, *names, **options): pass
    def log(self, row, step):
        if os.environ["BEHAVIOUR"] == "break" and step: raise OSError("connection lost")
    def finish(self, exit_code):
        if os.environ["BEHAVIOUR"] == "finish": raise SystemError("the service has ended")
"""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)


def command(*words: str) -> int:
    from normbench.cli import main

    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def replayed(run: Run, results: Path) -> None:
    logged = WandbRun(naming.arguments(run, OFFLINE, results))
    logged.log(run.records)
    logged.finish(run.status, run.reason, run.seconds)


def rows_of(results: Path, run: str) -> list[dict[str, Any]]:
    """What the one offline file of a run has, without what W&B adds."""
    wandb_run.wait_until_written()
    (path,) = (results / "wandb" / "wandb").glob(f"offline-run-*-{run}/run-{run}.wandb")
    (table,) = wandb_file.read(path.read_bytes(), path, {"file": {}, "path": ""}).tables
    return [
        {key: value for key, value in row.items() if value is not None and not key.startswith("_")}
        for row in table.to_pylist()
    ]


def test_a_row_per_evaluation_with_modes_and_variants_told_apart() -> None:
    late = {"epoch": 1, "step": 6}
    records = [
        late | {"split": "train", "mode": "running", "nll": 1.5},
        late | {"split": "train", "mode": "train", "nll": "NaN"},
        late | {"split": "test", "mode": "eval", "variant": {"momentum": 0.01}, "nll": 1.0, "error": 0.5},
        late | {"split": "test", "mode": "eval", "order": 3, "nll": 9.0},
        {"epoch": 0, "step": 0, "split": "train", "mode": "both", "nll": 2.0},
        {"step": 9, "split": "valid", "mode": "logged", "loss": 3.0},  # of another program
    ]
    first, second, third = wandb_run.rows(records)
    assert first == {"updates": 0, "epoch": 0, "train/nll": 2.0}
    assert third == {"updates": 9, "valid/loss": 3.0}
    not_finite = second.pop("train (training mode)/nll")
    assert not_finite != not_finite
    assert second == {
        "updates": 6, "epoch": 1, "train (running mean)/nll": 1.5,
        "test (momentum=0.01)/nll": 1.0, "test (momentum=0.01)/error": 0.5,
    }  # fmt: skip


def test_training_logs_the_curve_and_an_export_logs_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert tiny.train(tmp_path / "without") == "done"
    assert command("train", *tiny.WORDS, "logger=wandb", "--results", "with") == 0
    assert "wandb sync" in capfd.readouterr().out
    (logged,) = Runs(tmp_path / "with").raw
    assert (logged.path / "curve.jsonl").read_bytes() == (tmp_path / "without" / "curve.jsonl").read_bytes()
    expected = wandb_run.rows(directory.curve(directory.read(logged.path)))
    assert len(expected) > 2 and rows_of(tmp_path / "with", logged.id) == expected
    assert command("export", "wandb", "--results", "with") == 0
    assert rows_of(tmp_path / "with", logged.id) == expected
    capfd.readouterr()
    assert command("train", *tiny.WORDS, "logger=wandb", "logger.project=q", "--results", "with") == 0
    again = f"normbench export wandb {logged.id} --mode=offline --project=q --results {tmp_path / 'with'}\n"
    assert again in capfd.readouterr().out


def test_offline_a_resumed_run_has_its_whole_curve_once(tmp_path: Path) -> None:
    spec = tiny.spec("train.epochs=4")
    run = directory.RunDirectory(fake.directory(tmp_path / "runs", spec))
    whole = run.curve.read_bytes()
    arguments = naming.arguments(fake.record(spec), OFFLINE, tmp_path)
    run.curve.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]))
    first = Logging(run, arguments, pytest.fail)
    first.evaluated()
    first.ended("interrupted")
    cut = rows_of(tmp_path, spec.id)
    run.curve.write_bytes(whole)
    second = Logging(run, arguments, pytest.fail)
    second.evaluated()
    second.ended("done")
    rows = rows_of(tmp_path, spec.id)
    assert (
        rows == wandb_run.rows(directory.curve(directory.read(run.path)))
        and rows[: len(cut)] == cut
        and 0 < len(cut) < len(rows)
    )


class Server:
    """Stands in for wandb with a server that keeps runs by their ids."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.codes: list[int] = []
        self.options: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}

    @property
    def starting_step(self) -> int:
        return self.rows[-1]["updates"] + 1 if self.rows else 0

    def init(self, **options: Any) -> Server:
        self.options = options
        return self

    def define_metric(self, *names: str, **options: str) -> None: ...

    def log(self, row: dict[str, Any], step: int) -> None:
        assert step == row["updates"]
        self.rows.append(row)

    def finish(self, exit_code: int) -> None:
        self.codes.append(exit_code)


def test_a_server_continues_a_run_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setitem(sys.modules, "wandb", server)  # type: ignore[arg-type]
    spec = tiny.spec("train.epochs=4")
    run = directory.RunDirectory(fake.directory(tmp_path / "runs", spec, "interrupted"))
    whole = run.curve.read_bytes()
    arguments = naming.arguments(fake.record(spec), ONLINE, tmp_path)
    run.curve.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]))
    killed = Logging(run, arguments, pytest.fail)
    killed.evaluated()
    assert len(server.rows) == 3
    for status, lines in (("interrupted", 7), ("done", None), ("done", None)):  # the last finds all of it there
        run.curve.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
        logging = Logging(run, arguments, pytest.fail)
        logging.evaluated()
        logging.ended(status)
    assert server.rows == wandb_run.rows(directory.curve(directory.read(run.path))) and server.codes == [1, 0, 0]
    assert server.options["id"] == spec.id and server.options["resume"] == "allow"
    assert server.options["mode"] == "online" and server.summary["status"] == "done"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [("refuse", "No API key configured"), ("break", "connection lost"), ("finish", "the service has ended")],
)
@pytest.mark.usefixtures("forked")
def test_a_failure_of_wandb_costs_a_line(
    behaviour: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in = ModuleType("wandb")  # of a worker that is forked; the file is that of another
    exec(STAND_IN, vars(stand_in))
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    (tmp_path / "stand_in" / "wandb").mkdir(parents=True)
    (tmp_path / "stand_in" / "wandb" / "__init__.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "stand_in"), *filter(None, sys.path)]))
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    seeds = ("-m", "seed=1,2") if behaviour == "refuse" else ()
    assert command("train", *tiny.WORDS, *seeds, "logger=wandb", "logger.mode=online") == 0
    assert {stored.status for stored in Runs(tmp_path / "results").raw} == {"done"}
    (line,) = (line for line in capfd.readouterr().out.splitlines() if "W&B" in line)
    assert reason in line and "normbench export wandb " in line and "--mode=online" in line


def test_a_run_ends_where_wandb_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    server, answer, warnings = Server(), threading.Event(), list[str]()
    monkeypatch.setattr(server, "finish", lambda exit_code: answer.wait(60))
    monkeypatch.setattr(wandb_run, "FINISH_SECONDS", 0.05)
    monkeypatch.setitem(sys.modules, "wandb", server)  # type: ignore[arg-type]
    spec = tiny.spec()
    run = directory.RunDirectory(fake.directory(tmp_path / "runs", spec))
    Logging(run, naming.arguments(fake.record(spec), ONLINE, tmp_path), warnings.append).ended("done")
    answer.set()
    assert len(warnings) == 1


@pytest.mark.slow  # the real package waits for its server
def test_training_goes_on_where_no_wandb_host_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The real package, asked to send to a host that takes connections and never says a word."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=50)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)  # and WANDB_MODE is offline: the option decides
    monkeypatch.setitem(naming.SETTINGS, "init_timeout", 2.0)
    assert command("train", *tiny.WORDS, "logger=wandb", "logger.mode=online") == 0
    silent.close()
    assert [stored.status for stored in Runs(tmp_path / "results").raw] == ["done"]
    assert "note: W&B: " in capfd.readouterr().out


def test_who_ran_it_and_where_is_nobodys_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "a-private-host")
    monkeypatch.setattr("getpass.getuser", lambda: "a-private-user")
    (run, *_) = madeup.runs(2, epochs=2)
    parts = [record | {"epoch": record["epoch"] / 8} for record in run.records]  # evaluated after some updates
    replayed(replace(run, records=parts), tmp_path)
    wandb_run.wait_until_written()
    (path,) = tmp_path.rglob("run-*.wandb")
    content = path.read_bytes()
    for text in (
        "test/error",
        "train (training mode)/nll",
        str(naming.arguments(run, OFFLINE, tmp_path)["group"]),
        run.arm,
        "paper",
    ):
        assert text.encode() in content
    assert b"a-private" not in content


def test_where_nothing_can_be_written_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    """W&B itself would take a folder below /tmp."""
    (run, *_) = madeup.runs(2, epochs=2)
    (tmp_path / "wandb").write_text("a file")
    for results in (tmp_path, Path("/proc")):
        with pytest.raises(NormbenchError, match=f"^{results}/wandb"):
            replayed(run, results)


@pytest.mark.filterwarnings("ignore:.*deprecated - use:DeprecationWarning")  # matplotlib 3.8 logs those of pyparsing
@pytest.mark.parametrize(("name", "code"), [("UsageError", 2), ("OSError", 4)])  # W&B's own, by its name
def test_an_export_that_fails_is_one_line(
    name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    madeup.published(tmp_path / "results")
    server = Server()

    def init(**options: Any) -> Server:
        if len(server.codes) == 2:
            raise type(name, (Exception,), {})("No API key configured.")
        server.rows.clear()
        return server

    monkeypatch.setattr(server, "init", init)
    monkeypatch.setitem(sys.modules, "wandb", server)  # type: ignore[arg-type]
    assert command("export", "wandb", "--mode", "online", "ln") == code
    (line,) = capfd.readouterr().err.splitlines()
    assert "No API key configured" in line and "2 of 5" in line
